"""Fetch: read record batches, waiting for them when there are not enough (long polling).

Whole batches only; the first batch of a response is given whole even when it alone exceeds the limits, so that a
consumer cannot get stuck (KIP-74). Fetch sessions are declined (session id 0), which makes clients send full requests.
A waiting fetch is woken by appends, by its deadline and by deletion of a topic; nothing polls.
Source: kafka.server.{KafkaApis, ReplicaManager.fetchMessages, DelayedFetch}; KIP-227, KIP-516.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from kafkaraw.broker.deferred import Deferred
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import check_leader_epoch
from kafkaraw.broker.log.partition_log import content_size
from kafkaraw.broker.partition import Partition
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkaraw.records import TopicPartition

TOPIC_ID_VERSION_MIN: Final = 13
ZSTD_VERSION_MIN: Final = 10
READ_COMMITTED: Final = 1
UNKNOWN_OFFSET: Final = -1
FULL_FETCH_EPOCHS: Final = (0, -1)


def handle(
    state: BrokerState, context: RequestContext, request: FetchRequest
) -> FetchResponse | Deferred[FetchResponse]:
    """Answer at once when there is enough to give, else later."""
    if request.session_id != 0 and request.session_epoch not in FULL_FETCH_EPOCHS:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    fetch = _Fetch(state, context, request)
    reading = fetch.read()
    if request.max_wait_ms <= 0 or reading.must_answer or reading.size_bytes >= fetch.min_bytes:
        return reading.response
    missing = fetch.missing_bytes()
    if missing <= 0:
        return reading.response
    return _WaitingFetch(fetch, missing).deferred


@dataclass(slots=True)
class _Reading:
    """What one pass over the partitions gave."""

    response: FetchResponse
    size_bytes: int = 0
    must_answer: bool = False
    left_bytes: int = 0


@dataclass(slots=True)
class _Fetch:
    """One request with what it works on."""

    state: BrokerState
    context: RequestContext
    request: FetchRequest
    max_bytes: int = field(init=False)
    min_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        unthrottled = self.state.throttling.largest_fetch_bytes(self.context.client)
        self.max_bytes = int(min(self.request.max_bytes, self.state.config.fetch_max_bytes, unthrottled))
        self.min_bytes = min(self.request.min_bytes, self.max_bytes)

    def read(self) -> _Reading:
        """Read what is there now."""
        reading = _Reading(FetchResponse(responses=[]), left_bytes=self.max_bytes)
        for topic in self.request.topics:
            answers = [self._answer(topic, asked, reading) for asked in topic.partitions]
            reading.response.responses.append(
                FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)
            )
        if not any(topic.partitions for topic in self.request.topics):
            reading.must_answer = True
        return reading

    def _answer(self, topic: FetchTopic, asked: FetchPartition, reading: _Reading) -> PartitionData:
        try:
            partition = self._partition(topic, asked)
        except Refusal as refusal:
            reading.must_answer = True
            return PartitionData(
                partition_index=asked.partition,
                error_code=refusal.code,
                high_watermark=UNKNOWN_OFFSET,
                records=b"",
            )
        content = partition.log.read(
            asked.fetch_offset,
            min(asked.partition_max_bytes, reading.left_bytes),
            at_least_one=reading.size_bytes == 0,
        )
        size = content_size(content)
        reading.size_bytes += size
        reading.left_bytes = max(0, reading.left_bytes - size)
        return PartitionData(
            partition_index=asked.partition,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=[] if self.request.isolation_level == READ_COMMITTED else None,
            records=b"" if content is None else content,
        )

    def _partition(self, topic: FetchTopic, asked: FetchPartition) -> Partition:
        """The partition, when it may be read as asked."""
        partition = self.partition_of(topic, asked)
        if partition is None:
            by_id = self.context.api_version >= TOPIC_ID_VERSION_MIN
            known = by_id and self.state.catalog.topic_by_id(topic.topic_id) is not None
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id and not known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise Refusal(code, "no such partition")
        check_leader_epoch(partition, asked.current_leader_epoch)
        if partition.config.compression_type == "zstd" and self.context.api_version < ZSTD_VERSION_MIN:
            raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Fetch version {ZSTD_VERSION_MIN}")
        if not partition.log.log_start_offset <= asked.fetch_offset <= partition.high_watermark:
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {asked.fetch_offset} is not in the log")
        return partition

    def partition_of(self, topic: FetchTopic, asked: FetchPartition) -> Partition | None:
        """The partition that is asked for, when this node has it."""
        name: str | None = topic.topic
        if self.context.api_version >= TOPIC_ID_VERSION_MIN:
            found = self.state.catalog.topic_by_id(topic.topic_id)
            name = None if found is None else found.name
        return None if name is None else self.state.partition(TopicPartition(name, asked.partition))

    def partitions(self) -> list[tuple[Partition, FetchPartition]]:
        """The partitions that exist, with what is asked of each."""
        found = []
        for topic in self.request.topics:
            for asked in topic.partitions:
                partition = self.partition_of(topic, asked)
                if partition is not None:
                    found.append((partition, asked))
        return found

    def missing_bytes(self) -> int:
        """How many bytes must still come before there are `min_bytes` to give."""
        there = 0
        for partition, asked in self.partitions():
            there += min(partition.log.bytes_from(asked.fetch_offset), asked.partition_max_bytes)
        return self.min_bytes - there


class _WaitingFetch:
    """A fetch that is waiting: told about appends, it answers when there is enough, or when its time is up."""

    def __init__(self, fetch: _Fetch, missing_bytes: int) -> None:
        self.deferred: Deferred[FetchResponse] = Deferred(self._leave)
        self._fetch = fetch
        self._missing_bytes = missing_bytes
        self._watched = [partition for partition, _ in fetch.partitions()]
        for partition in self._watched:
            partition.watch(self)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(fetch.request.max_wait_ms / 1000, self._answer)

    def appended(self, size_bytes: int) -> None:
        """A batch came into one of the partitions."""
        self._missing_bytes -= size_bytes
        if self._missing_bytes > 0:
            return
        # Counted again, because partition_max_bytes may hide some of what came.
        self._missing_bytes = self._fetch.missing_bytes()
        if self._missing_bytes <= 0:
            self._answer()

    def removed(self) -> None:
        """One of the partitions is gone."""
        self._answer()

    def _answer(self) -> None:
        self._leave()
        self.deferred.resolve(self._fetch.read().response)

    def _leave(self) -> None:
        self._timer.cancel()
        for partition in self._watched:
            partition.unwatch(self)
