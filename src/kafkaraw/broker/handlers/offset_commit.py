"""OffsetCommit: store the committed offsets of a group, for its members or for a consumer with manual assignment.

An unknown topic or partition is reported first, before any error of the group.
Source: kafka.server.KafkaApis.handleOffsetCommitRequest; KIP-516, KIP-848.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.groups.coordinator import CommitIdentity
from kafkaraw.broker.groups.runtime import Done
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.offset_checks import OffsetChecks
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, after
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.turns import Steps, run_in_turns
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_VERSION_MIN: Final = 10


def authorize(
    call: Call[OffsetCommitRequest, OffsetCommitResponse], request: OffsetCommitRequest
) -> Reply[OffsetCommitResponse]:
    """READ on the group, and READ on each topic."""
    if not call.may_read_group(request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return OffsetCommitResponse(topics=[_not_committed(topic, code) for topic in request.topics])
    allowed, refused = call.divide(
        request.topics,
        AclOperation.READ,
        lambda topic: call.topic_name(topic.name, topic.topic_id, TOPIC_ID_VERSION_MIN),
    )
    denied = [_not_committed(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in refused]
    return call.go_on_with(request, allowed, denied, OffsetCommitResponse(topics=[]))


def _not_committed(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in topic.partitions
        ],
    )


@handles(
    OffsetCommitRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.READ, ResourceType.GROUP), Permission(AclOperation.READ, ResourceType.TOPIC)),
)
def handle(state: BrokerState, context: RequestContext, request: OffsetCommitRequest) -> Reply[OffsetCommitResponse]:
    """Store each offset, or return its error code."""
    by_id = context.api_version >= TOPIC_ID_VERSION_MIN
    asked: OffsetChecks[OffsetCommitResponsePartition] = OffsetChecks(
        state,
        lambda number: OffsetCommitResponsePartition(partition_index=number, error_code=ErrorCode.NONE),
        retention_ms=request.retention_time_ms,
    )

    def judged(wanted: OffsetCommitRequestTopic) -> Steps[OffsetCommitResponseTopic]:
        topic = state.catalog.topic_by_id(wanted.topic_id) if by_id else state.catalog.topic(wanted.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id and topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        answers = yield from asked.check_in_steps(topic, wanted.partitions, unknown=unknown, topic_id=topic_id)
        return OffsetCommitResponseTopic(name=wanted.name, topic_id=wanted.topic_id, partitions=answers)

    def judging() -> Steps[OffsetCommitResponse]:
        topics = []
        for wanted in request.topics:
            answered = yield from judged(wanted)
            topics.append(answered)
        return OffsetCommitResponse(topics=topics)

    def ask(done: Done) -> None:
        coordinator = coordinator_or_code(state, request.group_id)
        if isinstance(coordinator, ErrorCode):
            done(coordinator)
            return
        claim = CommitIdentity(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            context.api_version,
        )
        coordinator.commit(claim, asked.accepted, done)

    return after(run_in_turns(judging()), lambda response: asked.settle(response, ask))
