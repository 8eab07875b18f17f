"""ListOffsets: the offset of a timestamp, or of the start or end of the log.

Source: KIP-79, KIP-734 (-3), KIP-405 (-4), KIP-1005 (-5), KIP-1023 (-6); UnifiedLog.fetchOffsetByTimestamp.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import TOPICS
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import NO_EPOCH, led_partition
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.log.partition_log import TimestampAndOffset
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kafkaraw.records import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
# The first version of the request that knows each special timestamp.
VERSION_MIN: Final = {
    LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11
}  # fmt: skip
ONE_OFFSET_VERSION_MIN: Final = 1
LEADER_EPOCH_SINCE: Final = 4
NOT_AVAILABLE_SINCE: Final = 5
READ_COMMITTED: Final = 1
NO_TIMESTAMP: Final = -1
NOT_FOUND: Final = TimestampAndOffset(-1, -1)
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[ListOffsetsRequest, ListOffsetsResponse], request: ListOffsetsRequest
) -> Reply[ListOffsetsResponse]:
    """DESCRIBE on each topic."""
    allowed, refused = call.divide(request.topics, AclOperation.DESCRIBE, lambda topic: topic.name)
    return call.go_on_with(request, allowed, [_not_listed(topic) for topic in refused], ListOffsetsResponse(topics=[]))


def _not_listed(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=_TOPIC_DENIED)
            for part in topic.partitions
        ],
    )


def _repeated_twice(request: ListOffsetsRequest) -> ListOffsetsRequest:
    """Reduce a partition that the request has several times to two entries in the same part; merge equal topics.

    Kafka refuses such a partition, with two entries in the response.
    """
    asked: dict[str, list[ListOffsetsPartition]] = {}
    first: dict[str, ListOffsetsTopic] = {}
    for topic in request.topics:
        first.setdefault(topic.name, topic)
        asked.setdefault(topic.name, []).extend(topic.partitions)
    topics: list[ListOffsetsTopic] = []
    for name, partitions in asked.items():
        times = Counter(part.partition_index for part in partitions)
        by_index = {part.partition_index: part for part in partitions}
        repeated = [part for index, part in by_index.items() if times[index] > 1]
        topics += [replace(first[name], partitions=[part, part]) for part in repeated]
        topics.append(
            replace(first[name], partitions=[part for part in partitions if times[part.partition_index] == 1])
        )
    return replace(request, topics=topics)


@handles(
    ListOffsetsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),),
    divided={0: replace(TOPICS, prepared=_repeated_twice)},
)
def handle(state: BrokerState, context: RequestContext, request: ListOffsetsRequest) -> Reply[ListOffsetsResponse]:
    """Answer for each partition."""
    asked = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    answers = []
    for topic in request.topics:
        partitions = []
        for part in topic.partitions:
            twice = asked[(topic.name, part.partition_index)] > 1
            partitions.append(_answer(state, context, request, topic, part, twice=twice))
        answers.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=answers)


def _answer(
    state: BrokerState,
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: ListOffsetsTopic,
    part: ListOffsetsPartition,
    *,
    twice: bool,
) -> ListOffsetsPartitionResponse:
    try:
        if twice:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the request has a partition twice")
        key = TopicPartition(topic.name, part.partition_index)
        partition = led_partition(state, key, part.current_leader_epoch)
        if part.timestamp < 0 and context.api_version < VERSION_MIN.get(part.timestamp, context.api_version + 1):
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {part.timestamp} has no meaning here")
        if context.api_version < ONE_OFFSET_VERSION_MIN:
            return ListOffsetsPartitionResponse(
                partition_index=part.partition_index,
                error_code=ErrorCode.NONE,
                old_style_offsets=offsets_before(partition, part.timestamp)[: part.max_num_offsets],
            )
        found = look_up(partition, part.timestamp, committed_only=request.isolation_level == READ_COMMITTED)
    except ApiError as error:
        code = error.code
        if code == ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < NOT_AVAILABLE_SINCE:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=code)
    return ListOffsetsPartitionResponse(
        partition_index=part.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=NO_EPOCH if context.api_version < LEADER_EPOCH_SINCE else _epoch_at(partition, found.offset),
    )


def _epoch_at(partition: Partition, offset: int) -> int:
    """Return the leader epoch of an offset; the current epoch at the end of the log."""
    if offset == NOT_FOUND.offset:
        return NO_EPOCH
    return partition.leader_epoch if offset >= partition.high_watermark else partition.log.epochs.epoch_at(offset)


def offsets_before(partition: Partition, timestamp: int) -> list[int]:
    """Answer version 0: base offsets of segments written before a time, and the log end offset, in descending order.

    The whole log counts as one segment here.
    """
    start, end = partition.log.log_start_offset, partition.high_watermark
    if timestamp == EARLIEST or start == end:
        return [start]
    if timestamp == LATEST:
        return [end, start]
    next_one = look_up(partition, timestamp, committed_only=False)
    if next_one == NOT_FOUND:
        return [end, start]
    return [start] if next_one.offset > start else []


def look_up(partition: Partition, timestamp: int, *, committed_only: bool) -> TimestampAndOffset:
    """Return the offset of a timestamp.

    Args:
        partition: the partition.
        timestamp: milliseconds, or one of Kafka's special values.
        committed_only: isolation level read_committed.

    Returns:
        the record's timestamp (-1 for the start or end of the log) and its offset; `NOT_FOUND` if there is none.

    Raises:
        ApiError: CORRUPT_MESSAGE, the batch cannot be decoded; OFFSET_NOT_AVAILABLE, a new leader does not yet know the
            high watermark of the previous leader. As in Kafka, this check also applies to read_committed
            (Partition.fetchOffsetForTimestamp, 4.3.1).
    """
    end = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp == LATEST:
        _check_high_watermark(partition)
        return TimestampAndOffset(NO_TIMESTAMP, end)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampAndOffset(NO_TIMESTAMP, partition.log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND  # there is no tiered storage
    try:
        if timestamp == MAX_TIMESTAMP:
            found = partition.log.latest_timestamp()
        else:
            found = partition.log.first_at_or_after(timestamp)
    except ProtocolError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    except OSError as error:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log cannot be read: {error.strerror}") from error
    if found is None or found.offset >= end:
        _check_high_watermark(partition)
        return NOT_FOUND
    return found


def _check_high_watermark(partition: Partition) -> None:
    if partition.high_watermark_is_behind:
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, "the high watermark is behind the start of the leader's epoch")
