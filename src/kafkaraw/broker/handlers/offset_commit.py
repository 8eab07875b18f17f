"""OffsetCommit: keep the positions of a group, for its members or for a consumer that assigns partitions itself.

Topics and partitions that do not exist are said so first, whatever the group says.
Source: kafka.server.KafkaApis.handleOffsetCommitRequest; KIP-516, KIP-848.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.deferred import Deferred, answered
from kafkaraw.broker.groups.coordinator import Claim
from kafkaraw.broker.groups.means import Done
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_claims import coordinator_or_code, position_of
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkaraw.records import TopicPartition

TOPIC_ID_VERSION_MIN: Final = 10


def handle(
    state: BrokerState, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Deferred[OffsetCommitResponse]:
    """Keep each position, or say why not."""
    committing = _Committing(state, context, request)
    if not committing.known:
        return committing.response(ErrorCode.NONE)
    return answered(lambda done: committing.begin(lambda code: done(committing.response(code))))


class _Committing:
    """One request: the answers that are known without the group, and the positions that the group is asked for."""

    def __init__(self, state: BrokerState, context: RequestContext, request: OffsetCommitRequest) -> None:
        self._state = state
        self._context = context
        self._request = request
        self.known: list[OffsetCommitResponsePartition] = []
        self._positions: list[tuple[TopicPartition, CommittedOffset]] = []
        self._topics = [self._topic(topic) for topic in request.topics]

    def _topic(self, asked: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
        catalog = self._state.catalog
        by_id = self._context.api_version >= TOPIC_ID_VERSION_MIN
        topic = catalog.topic_by_id(asked.topic_id) if by_id else catalog.topic(asked.name)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id and topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answers = []
        for partition in asked.partitions:
            answer = OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=unknown)
            answers.append(answer)
            if topic is None or not 0 <= partition.partition_index < topic.partitions_count:
                continue
            self.known.append(answer)
            position = position_of(self._state, partition, topic.topic_id, self._request.retention_time_ms)
            answer.error_code = ErrorCode.NONE if position is not None else ErrorCode.OFFSET_METADATA_TOO_LARGE
            if position is not None:
                self._positions.append((TopicPartition(topic.name, partition.partition_index), position))
        return OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=answers)

    def begin(self, done: Done) -> None:
        """Ask the group."""
        coordinator = coordinator_or_code(self._state, self._request.group_id)
        if isinstance(coordinator, ErrorCode):
            done(coordinator)
            return
        claim = Claim(
            self._request.group_id,
            self._request.generation_id_or_member_epoch,
            self._request.member_id,
            self._request.group_instance_id,
            self._context.api_version,
        )
        coordinator.commit(claim, self._positions, done)

    def response(self, code: ErrorCode) -> OffsetCommitResponse:
        """The answer, once the group has said this."""
        if code:
            for answer in self.known:
                answer.error_code = code
        return OffsetCommitResponse(topics=self._topics)
