"""DeleteRecords: delete the records of partitions before an offset; the answer waits for the replicas that run.

Source: KIP-107; kafka.server.{KafkaApis, ReplicaManager.deleteRecords, DelayedDeleteRecords}.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import TOPICS
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import led_partition
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.replies import Deferred, Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kafkaraw.records import TopicPartition

NO_OFFSET: Final = -1
NONE: Final = -1
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[DeleteRecordsRequest, DeleteRecordsResponse], request: DeleteRecordsRequest
) -> Reply[DeleteRecordsResponse]:
    """DELETE on each topic."""
    allowed, refused = call.divide(request.topics, AclOperation.DELETE, lambda topic: topic.name)
    return call.go_on_with(
        request, allowed, [_not_deleted(topic) for topic in refused], DeleteRecordsResponse(topics=[])
    )


def _not_deleted(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    return DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(
                partition_index=part.partition_index, low_watermark=NONE, error_code=_TOPIC_DENIED
            )
            for part in topic.partitions
        ],
    )


@handles(
    DeleteRecordsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.DELETE, ResourceType.TOPIC),),
    divided={0: TOPICS},
)
def handle(state: BrokerState, context: RequestContext, request: DeleteRecordsRequest) -> Reply[DeleteRecordsResponse]:
    """Delete in each partition by itself, then wait until the other replicas have done so.

    The log start offsets are written once for all of them, before the response.
    """
    offsets = {
        TopicPartition(topic.name, asked.partition_index): asked.offset
        for topic in request.topics
        for asked in topic.partitions
    }
    waiting: list[_Waiting] = []
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for key, offset in offsets.items():
        result = DeleteRecordsPartitionResult(
            partition_index=key.partition, low_watermark=NO_OFFSET, error_code=ErrorCode.NONE
        )
        topics.setdefault(key.topic, DeleteRecordsTopicResult(name=key.topic, partitions=[])).partitions.append(result)
        try:
            partition = _partition(state, key)
            first = partition.delete_records(offset)
        except ApiError as error:
            result.error_code = error.code
            continue
        result.low_watermark = partition.low_watermark
        if result.low_watermark < first:
            waiting.append(_Waiting(partition, first, result))
    if any(result.error_code == ErrorCode.NONE for topic in topics.values() for result in topic.partitions):
        state.logs.write_log_starts()
    response = DeleteRecordsResponse(topics=list(topics.values()))
    return _WaitingDeletion(response, waiting, request.timeout_ms).deferred if waiting else response


def _partition(state: BrokerState, key: TopicPartition) -> Partition:
    topic = state.catalog.topic(key.topic)
    if topic is not None and topic.is_internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {key.topic}")
    return led_partition(state, key)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A partition whose followers have not deleted the records yet."""

    partition: Partition
    first: int
    result: DeleteRecordsPartitionResult

    def is_done(self) -> bool:
        """Return whether the result is known; sets it in the response."""
        if not self.partition.is_leader:
            self.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        self.result.low_watermark = self.partition.low_watermark
        return self.result.low_watermark >= self.first


class _WaitingDeletion:
    """A deletion that the leaders have completed, but not all replicas yet."""

    def __init__(self, response: DeleteRecordsResponse, waiting: list[_Waiting], timeout_ms: int) -> None:
        self.deferred: Deferred[DeleteRecordsResponse] = Deferred(self._leave)
        self._response = response
        self._waiting = waiting
        for one in waiting:
            one.partition.watch(self)
        self._timer = asyncio.get_running_loop().call_later(max(0, timeout_ms) / 1000, self._give_up)

    def readable(self, size_bytes: int) -> None:
        """Check the partitions, because the high watermark or low watermark of one has changed."""
        self._look()

    def ended(self) -> None:
        """Check the partitions, because the leader of one has changed."""
        self._look()

    def _look(self) -> None:
        if all([one.is_done() for one in self._waiting]):
            self._finish()

    def _give_up(self) -> None:
        for one in self._waiting:
            if not one.is_done():
                one.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._finish()

    def _finish(self) -> None:
        self._leave()
        self.deferred.resolve(self._response)

    def _leave(self) -> None:
        self._timer.cancel()
        for one in self._waiting:
            one.partition.unwatch(self)
