"""Fetch: read record batches, waiting for them when there are not enough (long polling).

Whole batches only; the first batch of a response is given whole even when it alone exceeds the limits, so that a
consumer cannot get stuck (KIP-74). What belongs to sessions is in `broker/fetch_sessions.py`. A waiting fetch is
woken by a high watermark that moves, by its deadline, and when this node no longer leads; nothing polls.
Source: kafka.server.{KafkaApis, ReplicaManager.fetchMessages, DelayedFetch}; KIP-227, KIP-320, KIP-516, KIP-951.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from kafkaraw.broker.deferred import Deferred, Failed, after
from kafkaraw.broker.fetch_sessions import in_session
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import NO_EPOCH, Elsewhere, led_partition
from kafkaraw.broker.handlers.parts import has_more_than
from kafkaraw.broker.log.leader_epochs import UNKNOWN_END
from kafkaraw.broker.log.partition_log import content_size
from kafkaraw.broker.log.storage import Content
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.partitions.partition_observers import Watcher
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.turns import Steps, run_in_turns, run_to_end
from kafkaraw.light_classes import dataclass, field
from kafkaraw.net.shared_files import SharedFile
from kafkaraw.protocol import FileSlice
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kafkaraw.records import TopicPartition

TOPIC_ID_VERSION_MIN: Final = 13
ZSTD_VERSION_MIN: Final = 10
MAGIC_2_VERSION_MIN: Final = 4
READ_COMMITTED: Final = 1
RACK_VERSION_MIN: Final = 11
LEADER_VERSION_MIN: Final = 16
LEADER_IS_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
UNKNOWN_OFFSET: Final = -1
PARTITIONS_PER_STEP: Final = 100
"""After how many partitions others may have a turn; a request for no more is answered in one."""
NO_REPLICA: Final = -1


def handle(state: BrokerState, context: RequestContext, request: FetchRequest) -> object:
    """Answer at once when there is enough to give, else later."""
    return in_session(
        state.fetch_sessions, context.api_version, request, lambda everything: _answer(state, context, everything)
    )


def _answer(state: BrokerState, context: RequestContext, request: FetchRequest) -> object:
    fetch = _Fetch(state, context, request)
    if fetch.is_long:
        return after(run_in_turns(_answer_in_turns(fetch), completes=False), lambda answer: answer.result)
    reading = fetch.read()
    if fetch.is_answered_by(reading):
        return reading.response
    missing = run_to_end(fetch.counting_missing())
    if missing <= 0:
        return reading.response
    waiting = _WaitingFetch(fetch)
    waiting.watch_all()
    waiting.missing_bytes = missing
    return waiting.deferred


@dataclass(slots=True)
class _Answer:
    """The answer of a long request.

    Attributes:
        result: the answer, or one that comes later.
        reading: what was read; holds the files that the answer refers to until it is sent.
    """

    result: FetchResponse | Deferred[FetchResponse]
    reading: _Reading


def _answer_in_turns(fetch: _Fetch) -> Steps[_Answer]:
    """Read; when there is not enough, begin to wait."""
    reading = yield from fetch.reading()
    if fetch.is_answered_by(reading):
        return _Answer(reading.response, reading)
    waiting = _WaitingFetch(fetch)
    try:
        yield from waiting.counting()
    except BaseException:
        waiting.deferred.cancel()
        raise
    return _Answer(waiting.deferred, reading)


@dataclass(slots=True)
class _Reading:
    """What one pass over the partitions gave.

    Attributes:
        files: those that the response refers to, if the pass takes several turns; this object keeps them open.
    """

    response: FetchResponse
    size_bytes: int = 0
    must_answer: bool = False
    left_bytes: int = 0
    files: list[SharedFile] = field(default_factory=list)


@dataclass(slots=True)
class _Fetch:
    """One request with what it works on.

    Attributes:
        is_long: whether the request names too many partitions for one turn of the event loop.
    """

    state: BrokerState
    context: RequestContext
    request: FetchRequest
    max_bytes: int = field(init=False)
    min_bytes: int = field(init=False)
    committed_only: bool = field(init=False)
    is_long: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_long = has_more_than(self.request, ("topics", "partitions"), PARTITIONS_PER_STEP)
        unthrottled = self.state.throttling.largest_fetch_bytes(self.context.client)
        self.max_bytes = int(min(self.request.max_bytes, self.state.config.fetch_max_bytes, unthrottled))
        self.min_bytes = min(self.request.min_bytes, self.max_bytes)
        self.committed_only = self.request.isolation_level == READ_COMMITTED

    def is_answered_by(self, reading: _Reading) -> bool:
        """Whether there is enough to give, or waiting makes no sense."""
        return self.request.max_wait_ms <= 0 or reading.must_answer or reading.size_bytes >= self.min_bytes

    def read(self) -> _Reading:
        """Read what is there now, at once."""
        reading = _Reading(FetchResponse(responses=[]), left_bytes=self.max_bytes)
        for topic in self.request.topics:
            self._add(reading, topic, [self._answer(topic, asked, reading) for asked in topic.partitions])
        return self._completed(reading)

    def reading(self) -> Steps[_Reading]:
        """Read what is there now; stops behind every few partitions."""
        reading = _Reading(FetchResponse(responses=[]), left_bytes=self.max_bytes)
        for topic in self.request.topics:
            answers: list[PartitionData] = []
            for at in range(0, len(topic.partitions), PARTITIONS_PER_STEP):
                step = [
                    self._answer(topic, asked, reading) for asked in topic.partitions[at : at + PARTITIONS_PER_STEP]
                ]
                answers += step
                reading.files += [SharedFile.of(one.records.fd) for one in step if isinstance(one.records, FileSlice)]
                yield None
            self._add(reading, topic, answers)
        return self._completed(reading)

    def _add(self, reading: _Reading, topic: FetchTopic, answers: list[PartitionData]) -> None:
        reading.response.responses.append(
            FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)
        )

    def _completed(self, reading: _Reading) -> _Reading:
        if self.context.api_version >= LEADER_VERSION_MIN:
            self._say_leaders(reading.response)
        if not any(topic.partitions for topic in self.request.topics):
            reading.must_answer = True
        return reading

    def _say_leaders(self, response: FetchResponse) -> None:
        lost = [
            (topic.topic_id, answer)
            for topic in response.responses
            for answer in topic.partitions
            if answer.error_code in LEADER_IS_ELSEWHERE
        ]
        if not lost:
            return
        elsewhere = Elsewhere(self.state, self.context.listener)
        for topic_id, answer in lost:
            found = self.state.catalog.topic_by_id(topic_id)
            if found is not None:
                leader_id, leader_epoch = elsewhere.leader_of(TopicPartition(found.name, answer.partition_index))
                answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        response.node_endpoints = [
            NodeEndpoint(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in elsewhere.endpoints()
        ]

    def _answer(self, topic: FetchTopic, asked: FetchPartition, reading: _Reading) -> PartitionData:
        try:
            partition = self._partition(topic, asked)
            near = self._replica_near_by(partition, asked)
            diverging = None if near is not None else _diverging_epoch(partition, asked)
            if near is None and diverging is None:
                _check_range(partition, asked)
        except Refusal as refusal:
            reading.must_answer = True
            return PartitionData(
                partition_index=asked.partition,
                error_code=refusal.code,
                high_watermark=UNKNOWN_OFFSET,
                records=b"",
            )
        content = None
        if near is None and diverging is None:
            size_max = min(asked.partition_max_bytes, reading.left_bytes)
            content = partition.read(
                asked.fetch_offset,
                size_max,
                at_least_one=reading.size_bytes == 0,
                committed_only=self.committed_only,
            )
        else:
            reading.must_answer = True
        size = content_size(content)
        reading.size_bytes += size
        reading.left_bytes = max(0, reading.left_bytes - size)
        return PartitionData(
            partition_index=asked.partition,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=_aborted(partition, asked, content) if self.committed_only else None,
            diverging_epoch=diverging or EpochEndOffset(),
            preferred_read_replica=NO_REPLICA if near is None else near,
            records=b"" if content is None else content,
        )

    def _partition(self, topic: FetchTopic, asked: FetchPartition) -> Partition:
        """The partition, when it may be read as asked."""
        name = self._name(topic)
        if name is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has that id")
        partition = led_partition(
            self.state,
            TopicPartition(name, asked.partition),
            asked.current_leader_epoch,
            follower_may_do=self.context.api_version >= RACK_VERSION_MIN,
        )
        if self.context.api_version < MAGIC_2_VERSION_MIN:  # as a broker answers that does not convert down
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"records of magic 2 need Fetch version {MAGIC_2_VERSION_MIN}")
        if partition.config.compression_type == "zstd" and self.context.api_version < ZSTD_VERSION_MIN:
            raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Fetch version {ZSTD_VERSION_MIN}")
        return partition

    def _replica_near_by(self, partition: Partition, asked: FetchPartition) -> int | None:
        """The replica in the client's rack that it had better ask; None when this one is as good (KIP-392)."""
        rack = self.request.rack_id
        if not rack or not self.state.config.selects_replica_by_rack or not partition.is_leader:
            return None
        if rack == self.state.config.rack:
            return None
        brokers = self.state.catalog.brokers
        listener = self.context.listener
        near = [node for node, one in brokers.items() if one.rack == rack and listener in one.endpoints]
        return partition.best_follower(asked.fetch_offset, near)

    def _name(self, topic: FetchTopic) -> str | None:
        """The name of a topic that is asked for; None when nobody has its id."""
        if self.context.api_version < TOPIC_ID_VERSION_MIN:
            return topic.topic
        found = self.state.catalog.topic_by_id(topic.topic_id)
        return None if found is None else found.name

    def partitions(self) -> Iterator[tuple[Partition, FetchPartition]]:
        """The partitions that this node has, with what is asked of each."""
        for topic in self.request.topics:
            name = self._name(topic)
            for asked in topic.partitions:
                partition = None if name is None else self.state.partition(TopicPartition(name, asked.partition))
                if partition is not None:
                    yield partition, asked

    def counting_missing(self, watcher: Watcher | None = None) -> Steps[int]:
        """How many bytes must still come before there are `min_bytes` to give; stops behind every few partitions.

        Args:
            watcher: watches each partition before its bytes are counted.
        """
        there = 0
        for number, (partition, asked) in enumerate(self.partitions(), start=1):
            if watcher is not None:
                partition.watch(watcher)
            readable = partition.readable_bytes(asked.fetch_offset, committed_only=self.committed_only)
            there += min(readable, asked.partition_max_bytes)
            if not number % PARTITIONS_PER_STEP:
                yield None
        return self.min_bytes - there


def _aborted(partition: Partition, asked: FetchPartition, content: Content | None) -> list[AbortedTransaction]:
    """The aborted transactions that have records in what is given.

    Where that ends is not looked up in it: an entry too many does no harm, its records are not there.
    """
    if content is None:
        return []
    found = partition.transactions.aborted_between(asked.fetch_offset, partition.last_stable_offset)
    return [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in found]


def _check_range(partition: Partition, asked: FetchPartition) -> None:
    if not partition.log.log_start_offset <= asked.fetch_offset <= partition.log.log_end_offset:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {asked.fetch_offset} is not in the log")


def _diverging_epoch(partition: Partition, asked: FetchPartition) -> EpochEndOffset | None:
    """Where the client's records part from the log, when they do: it says which epoch wrote the last one it has.

    Raises:
        Refusal: OFFSET_OUT_OF_RANGE when nothing is known of that epoch.
    """
    if asked.last_fetched_epoch == NO_EPOCH:
        return None
    end = partition.end_of_epoch(asked.last_fetched_epoch)
    if end == UNKNOWN_END:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {asked.last_fetched_epoch} is not known")
    if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None


class _WaitingFetch:
    """A fetch that is waiting: told what can be read, it answers when there is enough, or when its time is up.

    Attributes:
        missing_bytes: how many bytes must still come.
    """

    def __init__(self, fetch: _Fetch) -> None:
        self.deferred: Deferred[FetchResponse] = Deferred(self._leave)
        self.missing_bytes = 0
        self._fetch = fetch
        self._is_counting = False
        self._came_bytes = 0
        self._has_left = False
        self._is_due = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(fetch.request.max_wait_ms / 1000, self._answer)

    def watch_all(self) -> None:
        """Have all partitions tell what can be read."""
        for partition, _ in self._fetch.partitions():
            partition.watch(self)

    def counting(self) -> Steps[None]:
        """Count what is missing, and watch what is counted; answers when nothing is missing."""
        self._is_counting, self._came_bytes = True, 0
        self.missing_bytes = (yield from self._fetch.counting_missing(self)) - self._came_bytes
        self._is_counting = False
        if self._has_left:
            self._unwatch()  # those that were counted since
        elif self.missing_bytes <= 0 or self._is_due:
            asyncio.get_running_loop().call_soon(self._answer)  # the connection registers for the answer first

    def readable(self, size_bytes: int) -> None:
        """There is more to read in one of the partitions."""
        if self._is_counting:
            self._came_bytes += size_bytes
            return
        self.missing_bytes -= size_bytes
        # A small marker can make much readable for those who wait for outcomes: they count anew each time.
        if self.missing_bytes > 0 and not self._fetch.committed_only:
            return
        # Counted again, because partition_max_bytes may hide some of what came.
        if self._fetch.is_long:
            run_in_turns(self.counting())
            return
        self.missing_bytes = run_to_end(self._fetch.counting_missing())
        if self.missing_bytes <= 0:
            self._answer()

    def ended(self) -> None:
        """One of the partitions is gone, or led by another node."""
        self._answer()

    def _answer(self) -> None:
        if self._has_left:
            return
        if self._is_counting:
            self._is_due = True
            return
        self._leave()
        if not self._fetch.is_long:
            self.deferred.resolve(self._fetch.read().response)
            return
        reading = run_in_turns(self._fetch.reading())
        if isinstance(reading, Deferred):
            reading.when_done(self._resolve)
        else:
            self._resolve(reading)

    def _resolve(self, reading: _Reading | Failed) -> None:
        self.deferred.resolve(reading if isinstance(reading, Failed) else reading.response)  # type: ignore[arg-type]

    def _leave(self) -> None:
        self._has_left = True
        self._timer.cancel()
        self._unwatch()

    def _unwatch(self) -> None:
        for partition, _ in self._fetch.partitions():
            partition.unwatch(self)
