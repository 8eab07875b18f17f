"""Read one partition as it is: records of open and aborted transactions, and the control batches that end them.

A consumer shows records, and either all of them or those of committed transactions below the last stable offset. A
program that has to know how one transaction ended while others are open needs the control batches, too. Each call sends
one Fetch without a session to the partition's leader, and names the topic by its id if the broker takes ids (KIP-516),
so that a topic that was deleted and created again under its name is an error, not an empty log. The epoch of the last
batch goes along (KIP-595), so that a log that was cut off and has grown again is an error, too.

A new leader may name a high watermark that is behind the one of the leader before (KIP-207). So the first answer of
each leader epoch is completed by the end that ListOffsets gives, which waits until the leader knows it.

Must not interpret transactions. Start at `WholeLog.read`.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.client.config import ConsumerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.fetching.offsets import look_up
from kafkaraw.client.network.connection import Connection
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.runtime import Runtime
from kafkaraw.core.cluster import NO_EPOCH
from kafkaraw.core.fetch.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kafkaraw.core.retry import Backoff
from kafkaraw.errors import (
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    RetriableError,
    StaleMetadataError,
    UnknownTopicError,
)
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import ZERO_UUID, FileSlice, Uuid
from kafkaraw.protocol.error_codes import ErrorCode, error_for, is_retriable
from kafkaraw.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from kafkaraw.records import Batch, BatchHeader, ControlType, Record, TopicPartition, control_type_of, iter_headers

_FETCH_KEY: Final = 1
_BY_ID_FROM_VERSION: Final = 13
_EPOCHS_FROM_VERSION: Final = 12
_FETCH_BYTES: Final = 4 << 20
_REPLACED: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
# The leader has moved, or does not know yet what it needs to know.
_PASSING: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
_TRIES_OUT_OF_RANGE: Final = 3


class TopicReplacedError(KafkaError):
    """The topic was deleted, or deleted and created again: what was read before is not what is there now."""


@dataclass(frozen=True, slots=True)
class LogBatch:
    """One record batch of a log.

    Attributes:
        header: its header: offsets, producer id and epoch.
        ends: how a control batch ends the transaction of its producer; None for a batch of records.
        records: its records; empty for a control batch.
    """

    header: BatchHeader
    ends: ControlType | None
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class LogSlice:
    """What one Fetch brought.

    Attributes:
        batches: whole batches, from the offset asked for on.
        next_offset: where to read next.
        high_watermark: the offset after the last record that all in-sync replicas have; at least that of the leaders
            before.
        log_start_offset: the first offset that can be read.
        last_epoch: leader epoch of the last batch before `next_offset`; goes along with the next read.
    """

    batches: tuple[LogBatch, ...]
    next_offset: int
    high_watermark: int
    log_start_offset: int
    last_epoch: int = NO_EPOCH


class WholeLog:
    """One partition, read batch by batch.

    Args:
        topic_partition: which.
        config: of the client that reads; what is about records, such as `isolation_level`, does not count.
        runtime: network, clock and randomness; the real ones when None.

    Attributes:
        topic_id: of the topic that is read; zero until `open`, and where brokers have no topic ids.
    """

    def __init__(
        self, topic_partition: TopicPartition, config: ConsumerConfig, *, runtime: Runtime | None = None
    ) -> None:
        self.topic_id: Uuid = ZERO_UUID
        self._topic_partition = topic_partition
        self._settled_epoch: int | None = None  # of the leader that knows its high watermark
        self._engine = Engine.on(config, runtime)
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)

    async def open(self, timeout: float) -> None:
        """Find the topic, and keep its id: from now on only the topic of this id is read.

        Raises:
            KafkaError: the topic does not exist, or no broker answered in time.
        """
        topic = self._topic_partition.topic
        self._engine.use_topics([topic])
        deadline = Deadline(timeout)
        await self._engine.refresh([topic], timeout=deadline.remaining)
        await self._engine.wait_for_topics([topic], deadline.remaining, allow_auto_create=False)
        self.topic_id = self._engine.cluster.topic_id_of(topic)

    async def read(self, offset: int, *, wait_ms: int, timeout: float, last_epoch: int = NO_EPOCH) -> LogSlice:
        """Send one Fetch to the leader, and send it again after errors that may pass.

        Args:
            offset: where to read; below the log's start, reading begins there.
            last_epoch: leader epoch of the batch that was read before this offset; it must be in the log still.
            wait_ms: how long the broker may wait for a batch, in milliseconds.
            timeout: seconds for all attempts.

        Raises:
            TopicReplacedError: the topic that `open` found is gone.
            LogTruncationError: the log ends before `offset`, or has other batches there than when it was read.
            KafkaTimeoutError: the time is up; says what happened last.
            KafkaError: an error that no attempt would change.
        """
        deadline, attempt, out_of_range = Deadline(timeout), 0, 0
        problem: KafkaError | None = None
        while True:
            try:
                if attempt:
                    await self._refresh(deadline)
                found = await self._once(offset, last_epoch, wait_ms, deadline)
                code = found.error_code
                if not code:
                    return self._slice(offset, last_epoch, found, await self._end_offset(deadline))
                if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    start_offset = await self._start_offset(deadline)
                    if offset < start_offset:
                        offset, last_epoch = start_offset, NO_EPOCH
                        continue
                    out_of_range += 1  # a leader that is behind says so, too: ask again before it counts
                    if out_of_range == _TRIES_OUT_OF_RANGE:
                        raise LogTruncationError(f"{self._name} ends before offset {offset}, where it was read before")
                elif code not in _PASSING and not is_retriable(code):
                    raise error_for(code, f"read {self._name}", resource=self._topic_partition.topic, operation="READ")
                problem = error_for(code, f"read {self._name}")
            except (RetriableError, UnknownTopicError) as error:  # `_refresh` detects a deleted topic
                if problem is None or not deadline.expired:  # after the deadline, every request times out
                    problem = error
            if deadline.expired:
                raise KafkaTimeoutError(f"read {self._name}: not done within {timeout:g} s; last seen: {problem}")
            await deadline.sleep(self._backoff.delay_ms(attempt, self._engine.runtime.rng) / 1000)
            attempt += 1

    async def close(self) -> None:
        """Close the connections. May be called twice."""
        await self._engine.close()

    @property
    def _name(self) -> str:
        return f"{self._topic_partition.topic}-{self._topic_partition.partition}"

    async def _once(self, offset: int, last_epoch: int, wait_ms: int, deadline: Deadline) -> PartitionData:
        config = self._engine.config
        leader = self._engine.cluster.leader_of(self._topic_partition)
        if leader is None:
            raise StaleMetadataError(f"{self._name} has no leader")
        timeout = deadline.at_most(config.request_timeout_ms / 1000)
        connection = await self._engine.connection(leader, timeout=timeout, lane="fetch")
        if connection.version_for(_FETCH_KEY) < _BY_ID_FROM_VERSION:
            await self._refresh(deadline)  # such a broker is asked by name: the id is in the metadata
        response = await connection.request(
            self._request(offset, last_epoch, wait_ms, connection),
            timeout=deadline.at_most(config.request_timeout_ms / 1000),
        )
        if response.error_code:
            raise error_for(response.error_code, f"read {self._name}")
        found = response.responses[0].partitions[0]
        if found.error_code in _REPLACED:
            await self._refresh(deadline)  # raises if it is another topic
        if found.diverging_epoch.end_offset >= 0:
            raise LogTruncationError(
                f"{self._name} was cut off at offset {found.diverging_epoch.end_offset} and has grown again: what was "
                f"read before offset {offset} is not there any more"
            )
        return found

    def _request(self, offset: int, last_epoch: int, wait_ms: int, connection: Connection) -> FetchRequest:
        topic, partition = self._topic_partition
        asked = FetchPartition(
            partition=partition,
            current_leader_epoch=self._engine.cluster.leader_epoch_of(self._topic_partition),
            fetch_offset=offset,
            last_fetched_epoch=last_epoch if connection.version_for(_FETCH_KEY) >= _EPOCHS_FROM_VERSION else NO_EPOCH,
            partition_max_bytes=_FETCH_BYTES,
        )
        named = FetchTopic(topic=topic, topic_id=self.topic_id, partitions=[asked])
        return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=_FETCH_BYTES, isolation_level=0, topics=[named])

    async def _end_offset(self, deadline: Deadline) -> int:
        """Return the end of the log if the leader is new; else 0, because Fetch responses have the end."""
        epoch = self._engine.cluster.leader_epoch_of(self._topic_partition)
        if epoch == self._settled_epoch:
            return 0
        found = await look_up(self._engine, {self._topic_partition: LATEST_TIMESTAMP}, deadline=deadline)
        self._settled_epoch = epoch
        return found[self._topic_partition].offset

    async def _start_offset(self, deadline: Deadline) -> int:
        found = await look_up(self._engine, {self._topic_partition: EARLIEST_TIMESTAMP}, deadline=deadline)
        return found[self._topic_partition].offset

    async def _refresh(self, deadline: Deadline) -> None:
        topic = self._topic_partition.topic
        await self._engine.refresh([topic], timeout=deadline.remaining)
        now = self._engine.cluster.topic_id_of(topic)
        if self._engine.cluster.error_of(topic) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicReplacedError(f"topic {topic!r} was deleted while it was in use")
        if self.topic_id not in (ZERO_UUID, now) and now != ZERO_UUID:
            raise TopicReplacedError(
                f"topic {topic!r} was deleted and created again: its id was {self.topic_id}, and is {now}"
            )

    def _slice(self, offset: int, last_epoch: int, found: PartitionData, end_offset: int) -> LogSlice:
        batches = []
        next_offset = offset
        assert not isinstance(found.records, FileSlice)  # only brokers have those
        for header, wire in iter_headers(memoryview(found.records or b"")):
            next_offset, last_epoch = header.next_offset, header.partition_leader_epoch
            if header.is_control:
                batches.append(LogBatch(header, control_type_of(wire)))
            else:
                records = tuple(Batch(*self._topic_partition, [(header, wire)], start_offset=offset))
                batches.append(LogBatch(header, None, records))
        high_watermark = max(found.high_watermark, end_offset)
        return LogSlice(tuple(batches), next_offset, high_watermark, found.log_start_offset, last_epoch)
