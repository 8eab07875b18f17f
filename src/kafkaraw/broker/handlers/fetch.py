"""Fetch: read record batches; if there are fewer than `min_bytes`, wait for more (long poll).

Responses contain whole batches only. The first batch is returned even if it exceeds the limits, so that a consumer
always makes progress (KIP-74). `broker/fetch_sessions.py` implements fetch sessions. A waiting fetch is completed when
the high watermark advances, when `max_wait_ms` is over, or when this node is no longer leader; there is no polling.
Source: kafka.server.{KafkaApis, ReplicaManager.fetchMessages, DelayedFetch}; KIP-227, KIP-320, KIP-516, KIP-951.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.fetch_sessions import in_session
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import has_more_than
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import NO_EPOCH, CurrentLeaders, led_partition
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.log.partition_log import content_size
from kafkaraw.broker.log.storage import Content
from kafkaraw.broker.partitions.partition import Partition, Watcher
from kafkaraw.broker.replies import Deferred, Failed, Reply, after
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.turns import Steps, run_in_turns, run_to_end
from kafkaraw.core.log.leader_epochs import UNKNOWN_END
from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.net.shared_files import SharedFile
from kafkaraw.protocol import FileSlice
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
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
"""Number of partitions after which other work gets a turn; a request with fewer is answered in one turn."""
NO_REPLICA: Final = -1
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
REPLICA_STATE_SINCE: Final = 15


def authorize(call: Call[FetchRequest, FetchResponse], request: FetchRequest) -> Reply[FetchResponse]:
    """READ on each topic; a request with a replica id needs CLUSTER_ACTION instead, and is otherwise treated the same.

    The partitions of a fetch session are authorized again for each request.
    """
    sessions, version = call.state.fetch_sessions, call.context.api_version
    return in_session(sessions, version, request, lambda everything: _fetch(call, everything))


def _fetch(call: Call[FetchRequest, FetchResponse], request: FetchRequest) -> Reply[FetchResponse]:
    allowed, refused = request.topics, list[FetchTopic]()
    if _claims_to_be_replica(call, request):
        if not call.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            allowed, refused = refused, allowed
    else:
        allowed, refused = call.divide(
            request.topics,
            AclOperation.READ,
            lambda topic: call.topic_name(topic.topic, topic.topic_id, TOPIC_ID_VERSION_MIN),
        )
    if not refused:
        return call.go_on(request)

    def merge(response: FetchResponse) -> FetchResponse:
        if response.error_code == ErrorCode.NONE:
            response.responses.extend(_not_fetched(topic) for topic in refused)
        return response

    return call.go_on(replace(request, topics=allowed), merge)


def _claims_to_be_replica(call: Call[FetchRequest, FetchResponse], request: FetchRequest) -> bool:
    claimed = request.replica_id if call.context.api_version < REPLICA_STATE_SINCE else request.replica_state.replica_id
    return claimed >= 0


def _not_fetched(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=[
            PartitionData(
                partition_index=asked.partition, error_code=_TOPIC_DENIED, high_watermark=UNKNOWN_OFFSET, records=b""
            )
            for asked in topic.partitions
        ],
    )


@handles(
    FetchRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.READ, ResourceType.TOPIC),
        Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "instead, for a request with a replica id"),
    ),
)
def handle(state: BrokerState, context: RequestContext, request: FetchRequest) -> Reply[FetchResponse]:
    """Answer immediately if there are enough bytes, else wait."""
    return in_session(
        state.fetch_sessions, context.api_version, request, lambda everything: _answer(state, context, everything)
    )


def _answer(state: BrokerState, context: RequestContext, request: FetchRequest) -> Reply[FetchResponse]:
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
    """The response to a long request.

    Attributes:
        result: the response, or a deferred one.
        reading: the pass that read the batches; it keeps the files open until the response is sent.
    """

    result: FetchResponse | Deferred[FetchResponse]
    reading: _Reading


def _answer_in_turns(fetch: _Fetch) -> Steps[_Answer]:
    """Read; if there are not enough bytes, begin to wait."""
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
    """The result of one pass over the partitions.

    Attributes:
        files: the files that the response refers to, if the pass takes several turns; this object keeps them open.
    """

    response: FetchResponse
    size_bytes: int = 0
    must_answer: bool = False
    left_bytes: int = 0
    files: list[SharedFile] = field(default_factory=list)


@dataclass(slots=True)
class _Fetch:
    """One Fetch request.

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
        """Return whether a reading has enough bytes, or an error or the request forbids waiting."""
        return self.request.max_wait_ms <= 0 or reading.must_answer or reading.size_bytes >= self.min_bytes

    def read(self) -> _Reading:
        """Read the available batches of all partitions in one turn."""
        reading = _Reading(FetchResponse(responses=[]), left_bytes=self.max_bytes)
        for topic in self.request.topics:
            self._add(reading, topic, [self._answer(topic, asked, reading) for asked in topic.partitions])
        return self._completed(reading)

    def reading(self) -> Steps[_Reading]:
        """Read the available batches; yields after every few partitions."""
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
            self._add_current_leaders(reading.response)
        if not any(topic.partitions for topic in self.request.topics):
            reading.must_answer = True
        return reading

    def _add_current_leaders(self, response: FetchResponse) -> None:
        lost = [
            (topic.topic_id, answer)
            for topic in response.responses
            for answer in topic.partitions
            if answer.error_code in LEADER_IS_ELSEWHERE
        ]
        if not lost:
            return
        current_leaders = CurrentLeaders(self.state, self.context.listener)
        for topic_id, answer in lost:
            found = self.state.catalog.topic_by_id(topic_id)
            if found is not None:
                leader_id, leader_epoch = current_leaders.leader_of(TopicPartition(found.name, answer.partition_index))
                answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        response.node_endpoints = [
            NodeEndpoint(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in current_leaders.endpoints()
        ]

    def _answer(self, topic: FetchTopic, asked: FetchPartition, reading: _Reading) -> PartitionData:
        try:
            partition = self._partition(topic, asked)
            near = self._replica_near_by(partition, asked)
            diverging = None if near is not None else _diverging_epoch(partition, asked)
            if near is None and diverging is None:
                _check_range(partition, asked)
            content = None
            aborted: list[AbortedTransaction] = []
            if near is None and diverging is None:
                content = partition.read(
                    asked.fetch_offset,
                    min(asked.partition_max_bytes, reading.left_bytes),
                    at_least_one=reading.size_bytes == 0,
                    committed_only=self.committed_only,
                )
                aborted = _aborted(partition, asked, content) if self.committed_only else aborted
        except ApiError as error:
            reading.must_answer = True
            return PartitionData(
                partition_index=asked.partition,
                error_code=error.code,
                high_watermark=UNKNOWN_OFFSET,
                records=b"",
            )
        if near is not None or diverging is not None:
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
            aborted_transactions=aborted if self.committed_only else None,
            diverging_epoch=diverging or EpochEndOffset(),
            preferred_read_replica=NO_REPLICA if near is None else near,
            records=b"" if content is None else content,
        )

    def _partition(self, topic: FetchTopic, asked: FetchPartition) -> Partition:
        """Return the partition, if it can be read as requested."""
        name = self._name(topic)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        partition = led_partition(
            self.state,
            TopicPartition(name, asked.partition),
            asked.current_leader_epoch,
            follower_may_do=self.context.api_version >= RACK_VERSION_MIN,
        )
        if self.context.api_version < MAGIC_2_VERSION_MIN:  # as in Kafka without down-conversion
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, f"records of magic 2 need Fetch version {MAGIC_2_VERSION_MIN}"
            )
        if partition.config.compression_type == "zstd" and self.context.api_version < ZSTD_VERSION_MIN:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Fetch version {ZSTD_VERSION_MIN}")
        return partition

    def _replica_near_by(self, partition: Partition, asked: FetchPartition) -> int | None:
        """Return the preferred read replica: one in the client's rack; None if it is this replica (KIP-392)."""
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
        """Return the name of a requested topic; None if no topic has its id."""
        if self.context.api_version < TOPIC_ID_VERSION_MIN:
            return topic.topic
        found = self.state.catalog.topic_by_id(topic.topic_id)
        return None if found is None else found.name

    def partitions(self) -> Iterator[tuple[Partition, FetchPartition]]:
        """Return the requested partitions of this node, each with its entry in the request."""
        for topic in self.request.topics:
            name = self._name(topic)
            for asked in topic.partitions:
                partition = None if name is None else self.state.partition(TopicPartition(name, asked.partition))
                if partition is not None:
                    yield partition, asked

    def counting_missing(self, watcher: Watcher | None = None) -> Steps[int]:
        """Count the bytes missing to `min_bytes`; yields after every few partitions.

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
    """Return the aborted transactions with records in the returned batches.

    The end of the batches is looked up in the offset index, as in Kafka: an additional entry is harmless, because its
    records are not there.

    Raises:
        ApiError: CORRUPT_MESSAGE or KAFKA_STORAGE_ERROR, the log cannot be read there.
    """
    if content is None:
        return []
    found = partition.aborted_transactions(asked.fetch_offset, content_size(content))
    return [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in found]


def _check_range(partition: Partition, asked: FetchPartition) -> None:
    if not partition.log.log_start_offset <= asked.fetch_offset <= partition.log.log_end_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {asked.fetch_offset} is not in the log")


def _diverging_epoch(partition: Partition, asked: FetchPartition) -> EpochEndOffset | None:
    """Return the log divergence, if there is one; the request has the leader epoch of the client's last record.

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE, the epoch is unknown.
    """
    if asked.last_fetched_epoch == NO_EPOCH:
        return None
    end = partition.end_of_epoch(asked.last_fetched_epoch)
    if end == UNKNOWN_END:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {asked.last_fetched_epoch} is not known")
    if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None


class _WaitingFetch:
    """A waiting fetch: partitions notify it of readable bytes, and it answers once there are enough or time is over.

    Attributes:
        missing_bytes: number of bytes missing to `min_bytes`.
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
        """Watch all partitions for readable bytes."""
        for partition, _ in self._fetch.partitions():
            partition.watch(self)

    def counting(self) -> Steps[None]:
        """Count the missing bytes, and watch each counted partition; answer if none are missing."""
        self._is_counting, self._came_bytes = True, 0
        self.missing_bytes = (yield from self._fetch.counting_missing(self)) - self._came_bytes
        self._is_counting = False
        if self._has_left:
            self._unwatch()  # the partitions that were counted since
        elif self.missing_bytes <= 0 or self._is_due:
            asyncio.get_running_loop().call_soon(self._answer)  # the connection registers for the answer first

    def readable(self, size_bytes: int) -> None:
        """Count the new bytes of a partition; answer if there are enough."""
        if self._is_counting:
            self._came_bytes += size_bytes
            return
        self.missing_bytes -= size_bytes
        # A small marker can make many bytes readable for read_committed fetches, which therefore count again each time.
        if self.missing_bytes > 0 and not self._fetch.committed_only:
            return
        # Counted again, because partition_max_bytes may exclude some of the new bytes.
        if self._fetch.is_long:
            run_in_turns(self.counting())
            return
        self.missing_bytes = run_to_end(self._fetch.counting_missing())
        if self.missing_bytes <= 0:
            self._answer()

    def ended(self) -> None:
        """Answer, because a partition is deleted or its leader has changed."""
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
        self.deferred.resolve(reading if isinstance(reading, Failed) else reading.response)

    def _leave(self) -> None:
        self._has_left = True
        self._timer.cancel()
        self._unwatch()

    def _unwatch(self) -> None:
        for partition, _ in self._fetch.partitions():
            partition.unwatch(self)
