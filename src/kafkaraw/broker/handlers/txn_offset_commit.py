"""TxnOffsetCommit: keep positions that count once a transaction commits.

With version 5 the group is made part of the transaction by the broker itself (KIP-890).
Source: kafka.server.KafkaApis.handleTxnOffsetCommitRequest; KIP-447.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.deferred import Deferred, answered
from kafkaraw.broker.groups.coordinator import Claim
from kafkaraw.broker.groups.means import Done
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_claims import coordinator_or_code, position_of
from kafkaraw.broker.handlers.produce_in_transaction import code_for_producers
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.coordinator import Identity
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkaraw.records import TopicPartition

IMPLICIT_VERSION_MIN: Final = 5


def handle(
    state: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Deferred[TxnOffsetCommitResponse]:
    """Keep each position, or say why not."""
    committing = _Committing(state, context, request)
    if not committing.known:
        return committing.response(ErrorCode.NONE)
    return answered(lambda done: committing.begin(lambda code: done(committing.response(code))))


class _Committing:
    """One request: the answers that are known without the group, and the positions that the group is asked for."""

    def __init__(self, state: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest) -> None:
        self._state = state
        self._context = context
        self._request = request
        self.known: list[TxnOffsetCommitResponsePartition] = []
        self._positions: list[tuple[TopicPartition, CommittedOffset]] = []
        self._topics = [self._topic(topic) for topic in request.topics]

    def _topic(self, asked: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic:
        answers = []
        for partition in asked.partitions:
            key = TopicPartition(asked.name, partition.partition_index)
            answer = TxnOffsetCommitResponsePartition(
                partition_index=key.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            answers.append(answer)
            if self._state.catalog.state_of(key) is None:
                continue
            self.known.append(answer)
            position = position_of(self._state, partition, ZERO_UUID)
            answer.error_code = ErrorCode.NONE if position is not None else ErrorCode.OFFSET_METADATA_TOO_LARGE
            if position is not None:
                self._positions.append((key, position))
        return TxnOffsetCommitResponseTopic(name=asked.name, partitions=answers)

    def begin(self, done: Done) -> None:
        """Have the group be part of the transaction, then ask it."""
        request = self._request
        coordinator = coordinator_or_code(self._state, request.group_id)
        if isinstance(coordinator, ErrorCode):
            done(coordinator)
            return
        if not request.group_id:
            done(ErrorCode.INVALID_GROUP_ID)
            return
        implicit = self._context.api_version >= IMPLICIT_VERSION_MIN
        partition = self._state.groups.partition_for(request.group_id)

        def joined(code: ErrorCode) -> None:
            if code:
                done(code_for_producers(code, implicit=implicit))
            else:
                self._commit(done)

        self._state.transactions.join(
            request.transactional_id,
            Identity(request.producer_id, request.producer_epoch),
            frozenset({partition}),
            add=implicit,
            done=lambda codes: joined(codes[partition]),
        )

    def _commit(self, done: Done) -> None:
        request = self._request
        coordinator = coordinator_or_code(self._state, request.group_id)  # it may have moved meanwhile
        if isinstance(coordinator, ErrorCode):
            done(coordinator)
            return
        claim = Claim(
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            self._context.api_version,
        )
        producer = request.producer_id, request.producer_epoch
        coordinator.commit_in_transaction(claim, producer, self._positions, done)

    def response(self, code: ErrorCode) -> TxnOffsetCommitResponse:
        """The answer, once the group has said this."""
        if code:
            for answer in self.known:
                answer.error_code = code
        return TxnOffsetCommitResponse(topics=self._topics)
