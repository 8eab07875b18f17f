"""TxnOffsetCommit: store pending offsets, which are committed with the transaction.

Since version 5, the broker adds the group to the transaction itself (KIP-890).
Source: kafka.server.KafkaApis.handleTxnOffsetCommitRequest; KIP-447.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.groups.coordinator import CommitIdentity, Offsets
from kafkaraw.broker.groups.runtime import Done
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.offset_checks import OffsetChecks
from kafkaraw.broker.handlers.produce_in_transaction import code_for_clients
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, after
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.coordinator import ProducerIdAndEpoch
from kafkaraw.broker.turns import Steps, run_in_turns
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

IMPLICIT_VERSION_MIN: Final = 5
ABORTABLE_VERSION_MIN: Final = 4
_ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[TxnOffsetCommitRequest, TxnOffsetCommitResponse], request: TxnOffsetCommitRequest
) -> Reply[TxnOffsetCommitResponse]:
    """WRITE on the transactional id, READ on the group, and READ on each topic."""
    code = ErrorCode.NONE
    if not call.may_write_transactions(request.transactional_id):
        code = _ID_DENIED
    elif not call.may_read_group(request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if code:
        return TxnOffsetCommitResponse(topics=[_not_committed(topic, code) for topic in request.topics])
    allowed, refused = call.divide(request.topics, AclOperation.READ, lambda topic: topic.name)
    denied = [_not_committed(topic, _TOPIC_DENIED) for topic in refused]
    return call.go_on_with(request, allowed, denied, TxnOffsetCommitResponse(topics=[]))


def _not_committed(topic: TxnOffsetCommitRequestTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in topic.partitions
        ],
    )


@handles(
    TxnOffsetCommitRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
        Permission(AclOperation.READ, ResourceType.GROUP),
        Permission(AclOperation.READ, ResourceType.TOPIC),
    ),
)
def handle(
    state: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest
) -> Reply[TxnOffsetCommitResponse]:
    """Store each pending offset, or return its error code."""
    asked: OffsetChecks[TxnOffsetCommitResponsePartition] = OffsetChecks(
        state, lambda number: TxnOffsetCommitResponsePartition(partition_index=number, error_code=ErrorCode.NONE)
    )

    def judging() -> Steps[TxnOffsetCommitResponse]:
        topics = []
        for wanted in request.topics:
            answers = yield from asked.check_in_steps(state.catalog.topic(wanted.name), wanted.partitions)
            topics.append(TxnOffsetCommitResponseTopic(name=wanted.name, partitions=answers))
        return TxnOffsetCommitResponse(topics=topics)

    def settle(response: TxnOffsetCommitResponse) -> Reply[TxnOffsetCommitResponse]:
        return asked.settle(response, lambda done: _ask(state, context, request, asked.accepted, done))

    return after(run_in_turns(judging()), settle)


def _ask(
    state: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest, offsets: Offsets, done: Done
) -> None:
    """Add the group to the transaction, then commit to the group."""
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        done(coordinator)
        return
    if not request.group_id:
        done(ErrorCode.INVALID_GROUP_ID)
        return
    implicit = context.api_version >= IMPLICIT_VERSION_MIN
    partition = state.groups.partition_for(request.group_id)

    def joined(code: ErrorCode) -> None:
        if code:
            done(code_for_clients(code, knows_abortable=context.api_version >= ABORTABLE_VERSION_MIN))
        else:
            _commit(state, context, request, offsets, done)

    state.transactions.join(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        frozenset({partition}),
        add=implicit,
        done=lambda codes: joined(codes[partition]),
    )


def _commit(
    state: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest, offsets: Offsets, done: Done
) -> None:
    coordinator = coordinator_or_code(state, request.group_id)  # it may have moved meanwhile
    if isinstance(coordinator, ErrorCode):
        done(coordinator)
        return
    claim = CommitIdentity(
        request.group_id, request.generation_id, request.member_id, request.group_instance_id, context.api_version
    )
    coordinator.commit_in_transaction(claim, (request.producer_id, request.producer_epoch), offsets, done)
