"""`RecordAccumulator`: takes records into open batches, within the buffer memory, and hands over sealed batches.

What a record costs is in `records.OpenBatches.take`; here is what happens once per batch, and to records that `take`
leaves: a check of their fields and size, the wait for the topic's metadata (`ProducerMetadata`) or for buffer memory
(`BufferPool`). `PartitionLoad` feeds the partitioner. Nothing here sends, and nothing here knows the sender.

Everything runs on the producer's loop, but for `append`, `error_of`, `ProducerMetadata.counts_of` and `outdated`, which
any thread may call. Start at `RecordAccumulator.append` and `RecordAccumulator.drain`.

Source: Kafka's RecordAccumulator, BufferPool, ProducerMetadata and BuiltInPartitioner.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NoReturn

from kafkaraw.client.arguments import topic_of
from kafkaraw.client.config import ProducerConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.metrics.producer_metrics import ProducerMetrics
from kafkaraw.client.network.engine import Engine
from kafkaraw.client.sending.waiting import PromiseWaiter
from kafkaraw.core.cluster import ClusterView
from kafkaraw.core.producer.batch_sizes import BatchSizes
from kafkaraw.core.producer.events import BatchesSealed, Unacknowledged, describe
from kafkaraw.core.producer.machine import ProducerMachine
from kafkaraw.core.producer.partition_load import PartitionLoadStats
from kafkaraw.errors import (
    BufferFullError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
    StaleMetadataError,
    UsageError,
    copy_to_raise,
)
from kafkaraw.light_classes import replace
from kafkaraw.net.clock import SystemClock
from kafkaraw.net.threads import new_loop_lock
from kafkaraw.records import (
    KEY_SIZE_SAFE,
    PARTITIONERS,
    AppendStatus,
    Headers,
    KeyHash,
    OpenBatches,
    Partitioner,
    SealedBatch,
    Ticket,
    TopicPartition,
)

RECORD_OVERHEAD_BYTES: Final = 61 + 21
"""Batch header, and the most that lengths, timestamp and offset of a record take (Kafka's upper bound)."""
RETRY_S: Final = 0.005
"""How long after a release that left less than half of the buffer memory free the next waiter is admitted."""
BACKPRESSURE_BYTES: Final = 4 * 1024 * 1024
"""Bytes that fit the caches that a processor shares with little else."""
DRAIN_S_MAX: Final = 0.02
"""How long a sender of rows waits at most until the network has caught up."""
LOAD_UPDATED_AFTER_MS: Final = 5
IDLE_LOOKS_MAX: Final = 16
"""Looks for idle topics within `metadata_max_idle_ms`, at most; so a topic may be kept a sixteenth longer."""


class RecordAccumulator:
    """The records of one producer that are not sent yet.

    Args:
        config: the settings.
        engine: has the cluster's metadata, the clock and the randomness.
        machine: knows which batches wait to be sent; only asked, never changed.
        waiter: how tickets wait.
        metrics: counts the waits for memory.

    Attributes:
        record_size_max: the largest record in bytes, before compression.
        open_batches: take records.
        pool: the buffer memory.
        metadata: of the topics that records are sent to.
    """

    def __init__(
        self,
        config: ProducerConfig,
        engine: Engine,
        machine: ProducerMachine,
        waiter: PromiseWaiter,
        metrics: ProducerMetrics,
    ) -> None:
        self._config = config
        self._clock = engine.runtime.clock
        self._machine = machine
        self._metrics = metrics
        self._is_closed = False
        self.record_size_max: int = min(config.max_request_size, config.buffer_memory)
        self.open_batches: OpenBatches = OpenBatches(
            config.batch_size,
            config.compression_type,
            config.compression_level,
            config.buffer_memory,
            self._clock.time_ms,
            waiter=waiter,
            new_lock=new_loop_lock,
            value_size_safe=self.record_size_max - RECORD_OVERHEAD_BYTES - KEY_SIZE_SAFE,
            system_clock=isinstance(self._clock, SystemClock),
            partitioner=partitioner_of(config),
            check_size=partial(check_record_size, config),
        )
        self.pool: BufferPool = BufferPool(self.open_batches, config.buffer_memory)
        self._batch_sizes = BatchSizes(config.batch_size, self.open_batches.limit_batches)
        self._load = PartitionLoad(
            PartitionLoadStats(config.partitioner_adaptive_partitioning_enable, engine.runtime.rng),
            config.partitioner_availability_timeout_ms,
            engine.cluster,
            machine,
            self.open_batches,
        )
        idle_ms = max(config.metadata_max_idle_ms, config.linger_ms)
        self.metadata: ProducerMetadata = ProducerMetadata(engine, self.open_batches, self._load, idle_ms)

    # ---- records in

    def append(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> tuple[AppendStatus, Ticket | None]:
        """Add a record to the open batch of its partition, if that needs no waiting; for those `take` has left.

        Raises:
            RecordTooLargeError: over `max_request_size` or `buffer_memory`.
            UsageError: a field of the wrong type.
        """
        try:
            # open batches refuse what is not bytes
            return self.open_batches.append(topic, key, value, headers, timestamp_ms, partition)  # type: ignore[arg-type]
        except (UsageError, TypeError, ValueError, AttributeError) as error:
            if not isinstance(error, UsageError) or type(error) is UsageError:
                check_record_types(topic, value, key, headers)
            raise

    async def wait_for_memory(self, releases: int, deadline: Deadline, *, first: bool) -> None:
        """Wait for buffer memory, as `BufferPool.wait`.

        Raises:
            KafkaTimeoutError: there is none when the deadline passes.
            ClosedError: the producer was closed meanwhile.
        """
        before, admitted = deadline.remaining, False
        self._metrics.senders_waiting += 1
        try:
            admitted = await self.pool.wait(releases, before, first=first)
        finally:
            self._metrics.senders_waiting -= 1
            self._metrics.waited_for_memory(before - deadline.remaining, in_vain=not admitted)
        if not admitted:
            self.pool.offer()
            last_error = self._machine.last_error
            last_seen = "" if last_error is None else f"; last seen: {last_error}"
            raise KafkaTimeoutError(
                f"buffer_memory={self._config.buffer_memory} bytes stayed full for "
                f"max_block_ms={self._config.max_block_ms}; not acknowledged: "
                f"{describe(self._machine.unacknowledged())}{last_seen}"
            )

    def error_of(self, status: AppendStatus, topic: str) -> KafkaError:
        """Make the error of a record that `append` did not take, for callers that do not wait.

        Raises:
            UsageError: the topic is no name.
        """
        if status is AppendStatus.FULL:
            self._metrics.waited_for_memory(0.0, in_vain=True)
            bytes_max = self._config.buffer_memory
            return BufferFullError(f"buffer_memory={bytes_max} bytes are full of unacknowledged records")
        topic_of(topic, "send_nowait")
        return StaleMetadataError(f"topic {topic!r} (or that partition) is not known yet; call partitions_for() first")

    def pause(self, refuse: Callable[[], NoReturn]) -> None:
        """Call `refuse` instead of taking records, until `resume`; without effect once closed."""
        if not self._is_closed:
            self.open_batches.refuse(refuse)

    def resume(self) -> None:
        """Take records again after `pause`; without effect once closed."""
        if not self._is_closed:
            self.open_batches.refuse(None)

    def close(self, kind: type[KafkaError], message: str) -> None:
        """Refuse all records from now on, with this error; on any thread."""

        def refuse() -> NoReturn:
            raise kind(message)

        self._is_closed = True
        self.open_batches.refuse(refuse)

    # ---- batches out

    def drain(self, now_ms: int, *, everything: bool) -> BatchesSealed | None:
        """Hand over the batches that are full or have lingered, or all; None if there are none.

        Args:
            now_ms: the loop's time.
            everything: seal all open batches.
        """
        self.metadata.sync()
        wall_ms, linger_ms = self._clock.time_ms(), self._config.linger_ms
        sealed = self.open_batches.seal_all() if everything else self.open_batches.seal_due(wall_ms, linger_ms)
        if not sealed:
            return None
        self.metadata.note_used([batch.topic for batch in sealed], now_ms)
        return BatchesSealed(sealed, [min(max(0, wall_ms - batch.created_ms), linger_ms) for batch in sealed])

    def note_sealed(self, batches: Iterable[SealedBatch], now_ms: int) -> None:
        """Note that batches which were made elsewhere are sent now.

        Raises:
            KafkaError: no records are taken: the producer is closed, or no transaction is open.
        """
        self.open_batches.check_refusal()
        self.metadata.note_used({batch.topic for batch in batches}, now_ms)

    def drain_unsent(self) -> list[tuple[SealedBatch, Unacknowledged]]:
        """Return all batches, each with its report, when the machine takes no more batches."""
        return [(batch, _report_unsent(batch)) for batch in self.open_batches.seal_all()]

    def due_ms(self, now_ms: int) -> int | None:
        """When `drain` has a lingering batch to hand over; None without open batches.

        Batches are dated by the wall clock, which may be set: it is never later than `linger_ms` from now.
        """
        due_ms = self.open_batches.next_due_ms(self._config.linger_ms)
        if due_ms is None:
            return None
        return now_ms + min(max(due_ms - self._clock.time_ms(), 0), self._config.linger_ms)

    def update_load(self, sealed: BatchesSealed, now_ms: int) -> None:
        """Update the partition load of the topics of these batches, which the machine knows by now."""
        self._load.update((batch.topic for batch in sealed.batches), now_ms)

    def forget_idle_topics(self, busy: Collection[str], now_ms: int) -> frozenset[str]:
        """Forget the topics to which nothing was sent for `metadata_max_idle_ms`; see `ProducerMetadata.take_idle`."""
        idle = self.metadata.take_idle(busy, now_ms)
        for topic in idle:
            self._batch_sizes.forget(topic)
        return idle

    def note_written(self, batch: SealedBatch) -> None:
        """A broker has written a batch of this size."""
        if self._batch_sizes.learned:
            self._batch_sizes.written(batch.topic, batch.size_bytes)

    def note_too_large(self, batch: SealedBatch) -> None:
        """A broker has refused a batch of this size as too large; the next batches of the topic are smaller."""
        self._batch_sizes.refused(batch.topic, batch.size_bytes)


def _report_unsent(batch: SealedBatch) -> Unacknowledged:
    count = batch.records_count
    return Unacknowledged(batch.topic, batch.partition, count, 0, count - 1, maybe_written=False)


# -- what a record may be


def check_record_size(config: ProducerConfig, topic: str, value: object, key: object, headers: Headers | None) -> None:
    """Refuse a record that is too large, before compression, by Kafka's upper bound of its size.

    Source: Kafka's AbstractRecords.estimateSizeInBytesUpperBound.

    Raises:
        RecordTooLargeError: over `max_request_size` or `buffer_memory`.
    """
    if headers is None and key is None and type(value) is bytes:  # most records
        size = RECORD_OVERHEAD_BYTES + len(value)
        if size <= config.max_request_size and size <= config.buffer_memory:
            return
    size = RECORD_OVERHEAD_BYTES + _size(value) + _size(key)
    size += sum(10 + len(name.encode()) + _size(content) for name, content in headers or ())
    for name in ("max_request_size", "buffer_memory"):
        limit = getattr(config, name)
        if size > limit:
            raise RecordTooLargeError(
                f"a record for topic {topic!r} takes {size} bytes uncompressed, {name} is {limit}; raise it (the "
                f"topic's max.message.bytes counts, too) or send less in one record"
            )


def _size(field: object) -> int:
    """Return the length of a field; 0 for a wrong type, which is refused elsewhere with a better message."""
    if field is None:
        return 0
    return getattr(field, "nbytes", 0) or (len(field) if hasattr(field, "__len__") else 0)


_PAIRS: Final = "give a list of pairs, as in headers=[('trace-id', b'42')]"
_BYTES: Final = (bytes, bytearray, memoryview)


def check_record_types(topic: object, value: object, key: object, headers: object) -> None:
    """Say which argument of `send` has the wrong type, after a record was refused; return if none has.

    Types are shown, contents are not: they may be secret.

    Raises:
        UsageError: the topic, the value, the key or the headers are of the wrong type.
    """
    where = f"send to topic {topic_of(topic, 'send')!r}"
    for name, content in (("value", value), ("key", key)):
        if content is not None and not isinstance(content, _BYTES):
            raise UsageError(
                f"{where}: a record's {name} is bytes or None, not {type(content).__name__}; encode it, or give the "
                f"producer a {name}_serializer"
            )
    if headers is not None:
        _check_header_types(headers, where)


def _check_header_types(headers: object, where: str) -> None:
    if isinstance(headers, Mapping):
        raise UsageError(f"{where}: headers are pairs, not a {type(headers).__name__}; give list(headers.items())")
    if isinstance(headers, str | bytes | Iterator) or not isinstance(headers, Iterable):
        raise UsageError(f"{where}: headers are pairs, not {type(headers).__name__}; {_PAIRS}")
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            shown = f"{type(header).__name__} of {len(header)}" if isinstance(header, tuple) else type(header).__name__
            raise UsageError(f"{where}: a header is a pair of name and value, not {shown}; {_PAIRS}")
        name, content = header
        if not isinstance(name, str):
            raise UsageError(f"{where}: a header's name is text, not {type(name).__name__} {name!r}; {_PAIRS}")
        if content is not None and not isinstance(content, _BYTES):
            raise UsageError(
                f"{where}: the value of header {name!r} is bytes or None, not {type(content).__name__}; encode it"
            )


# -- the buffer memory


class BufferPool:
    """The buffer memory of one producer, and the queue of senders that wait for it; lives on one loop.

    Waiters are admitted in the order in which they came, one at a time: a waiter that leaves memory over calls `offer`,
    which admits the next one. A release that leaves little memory admits a waiter only after `RETRY_S`: waking a thread
    for every batch that is acknowledged would cost more than filling the batch.

    A waiter that was admitted may be cancelled, raise, or be interrupted on its thread before it admits the next one.
    So as long as there are waiters and memory, the pool itself admits one every `RETRY_S`: no admission is lost.

    Args:
        open_batches: count the bytes in use.
        size_bytes: `buffer_memory`.

    Attributes:
        releases: how often memory was released; compared by `wait`, because memory may be released on this loop between
            an append that failed on another thread and the wait that follows it.
    """

    def __init__(self, open_batches: OpenBatches, size_bytes: int) -> None:
        self.releases: int = 0
        self._open_batches = open_batches
        self._size_bytes = size_bytes
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._drained = asyncio.Event()

    async def wait(self, releases: int, timeout: float, *, first: bool) -> bool:
        """Wait to be admitted; False when the time is up.

        Args:
            releases: what `releases` was before the record was refused.
            timeout: in seconds.
            first: wait at the head of the queue, having been admitted before and found too little memory.
        """
        if self.releases != releases:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if first:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        try:
            await asyncio.wait([waiter], timeout=timeout)
        except asyncio.CancelledError:
            if _was_admitted(waiter):  # and does not come: the next one does
                self.admit_one()
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        if not waiter.done():
            return False
        waiter.result()
        return True

    def release(self, batch: SealedBatch) -> None:
        """Release the memory of a batch, and admit a waiter: at once if half of the memory is free, else soon."""
        self._open_batches.release(batch)
        used_bytes = self._open_batches.used_bytes
        self.releases += 1
        if used_bytes <= BACKPRESSURE_BYTES // 2:
            self._drained.set()
        if used_bytes <= self._size_bytes // 2:
            self.admit_one()
        elif used_bytes < self._size_bytes:
            self.admit_one_soon()

    def offer(self) -> None:
        """Admit a waiter if there is memory."""
        if self._open_batches.used_bytes < self._size_bytes:
            self.admit_one()

    def admit_one(self) -> None:
        """Wake the waiter that has waited longest."""
        self._cancel_timer()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                break
        self.admit_one_soon()

    def admit_one_soon(self) -> None:
        """Wake the waiter that has waited longest in `RETRY_S`, if there is memory then; `admit_one` may come first."""
        if self._waiters and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self.offer()  # without memory, the next release admits a waiter

    def fail(self, error: KafkaError) -> None:
        """End all waits with an error."""
        self._cancel_timer()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(copy_to_raise(error))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def needs_backpressure(self) -> bool:
        """Whether more is in use than fits the caches: a sender of many rows then does well to call `drain`.

        What is sent while it is in the processor's caches costs a quarter less, and memory that is used again needs no
        fresh pages. This is no bound: with a slow network, senders use all of the buffer memory.
        """
        return self._open_batches.used_bytes > BACKPRESSURE_BYTES

    async def drain(self) -> None:
        """Wait until half of `BACKPRESSURE_BYTES` is in use, or `DRAIN_S_MAX` has passed."""
        self._drained.clear()
        if self.needs_backpressure:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S_MAX):
                    await self._drained.wait()


def _was_admitted(waiter: asyncio.Future[None]) -> bool:
    return waiter.done() and not waiter.cancelled() and waiter.exception() is None


# -- the topics


class ProducerMetadata:
    """The topics that one producer sends to: their partition counts, carried from the metadata to the open batches.

    A topic to which nothing was sent for `metadata_max_idle_ms` is forgotten, with all that is kept by topic or
    partition, and is learned again with its next record.  Source: Kafka's ProducerMetadata.retainTopic.

    Args:
        engine: has the cluster's metadata.
        open_batches: take records of topics whose partitions are known.
        load: learns which partitions have leaders.
        max_idle_ms: how long a topic is kept to which nothing is sent.

    Attributes:
        idle_at_ms: when `take_idle` has something to look at, on the loop's clock; None without topics.
    """

    def __init__(self, engine: Engine, open_batches: OpenBatches, load: PartitionLoad, max_idle_ms: int) -> None:
        self._engine = engine
        self._open_batches = open_batches
        self._load = load
        self._counts: dict[str, int] = {}
        self._max_idle_ms = max_idle_ms
        self._used_ms: dict[str, int] = {}
        self.idle_at_ms: int | None = None
        self._as_of: int | None = None

    @property
    def outdated(self) -> bool:
        """Whether the cluster's metadata is newer than what `sync` has seen. On any thread."""
        return self._as_of != self._engine.cluster.updated_ms

    def counts_of(self, topics: Iterable[str]) -> dict[str, int] | None:
        """Return how many partitions topics have; None unless all are known. On any thread."""
        counts = {topic: self._counts.get(topic, 0) for topic in topics}
        return counts if all(counts.values()) else None

    def is_known(self, topic: str) -> bool:
        """Whether the partition count of a topic is known."""
        return topic in self._counts

    async def learn(self, topic: str, partition: int | None, deadline: Deadline) -> int:
        """Wait until a topic, and that partition of it, is known; returns its partition count.

        Raises:
            UsageError: it has no such partition.
            KafkaError: there is no such topic, or the time is up.
        """
        if topic in self._counts and partition is not None:  # so it is the partition that is not known
            await self._engine.refresh([topic], timeout=deadline.remaining)
        await self._engine.wait_for_topics([topic], timeout=deadline.remaining)
        count = self.take(topic)
        if partition is not None and not 0 <= partition < count:
            raise UsageError(f"topic {topic!r} has partitions 0 to {count - 1}, there is no partition {partition}")
        return count

    def take(self, topic: str) -> int:
        """Carry a topic's partition count over; 0 when the cluster's metadata has none."""
        count = len(self._engine.cluster.partitions_of(topic) or ())
        if count and topic not in self._counts:
            self.note_used((topic,), int(asyncio.get_running_loop().time() * 1000))
        if count and self._counts.get(topic) != count:
            self._open_batches.set_partitions(topic, count)
            self._counts[topic] = count
            self._engine.use_topics(self._counts)
        if count:
            self._load.learn(topic, count)
        return count

    def sync(self) -> None:
        """Carry over new partitions, and forget topics that do not exist any more, if there is newer metadata."""
        if not self.outdated:
            return
        self._as_of = self._engine.cluster.updated_ms
        for topic in list(self._counts):
            if not self.take(topic):
                self._forget(topic)
                self._engine.use_topics(self._counts)

    def note_used(self, topics: Iterable[str], now_ms: int) -> None:
        """Note that records are sent to these topics now."""
        for topic in topics:
            self._used_ms[topic] = now_ms
        if self.idle_at_ms is None:
            self.idle_at_ms = now_ms + self._max_idle_ms

    def take_idle(self, busy: Collection[str], now_ms: int) -> frozenset[str]:
        """Forget the topics to which nothing was sent for long, and return them; their open batches are sealed.

        Args:
            busy: the topics of which batches are queued or in flight; these are not idle.
            now_ms: the time.
        """
        self.note_used(self._used_ms.keys() & busy, now_ms)
        idle = {topic for topic, used_ms in self._used_ms.items() if used_ms + self._max_idle_ms <= now_ms}
        for topic in idle:
            self._used_ms.pop(topic)
            self._forget(topic)
        if idle:
            self._engine.use_topics(self._counts)
        used_ms = min(self._used_ms.values(), default=None)
        if used_ms is None:
            self.idle_at_ms = None
        else:  # each look costs as much as there are topics, so there is not one for each topic that becomes idle
            self.idle_at_ms = max(used_ms + self._max_idle_ms, now_ms + self._max_idle_ms // IDLE_LOOKS_MAX)
        return frozenset(idle)

    def _forget(self, topic: str) -> None:
        self._open_batches.forget_topic(topic)
        self._load.forget(topic)
        self._counts.pop(topic, None)


# -- the partitioner


def partitioner_of(config: ProducerConfig) -> Partitioner:
    """Return the partitioner that the settings ask for."""
    choice = config.partitioner
    partitioner = PARTITIONERS[choice] if isinstance(choice, str) else Partitioner(function=choice)
    return replace(partitioner, key_hash=KeyHash.NONE) if config.partitioner_ignore_keys else partitioner


class PartitionLoad:
    """The load of partitions, for the sticky partitioner: which partitions take the next records without a key.

    Gathers what `core/producer/partition_load.py` decides on: leaders from the metadata, and queued batches from the
    machine. Updated when batches are sealed, but not for each: the queues change little meanwhile.
    Source: KIP-794; Kafka's RecordAccumulator.partitionReady.

    Args:
        stats: decides.
        availability_timeout_ms: partitions of brokers to which nothing could be sent for so long are left out; 0 leaves
            none out.
        cluster: knows the leaders.
        machine: knows the queued batches.
        open_batches: are given the order.
    """

    def __init__(
        self,
        stats: PartitionLoadStats,
        availability_timeout_ms: int,
        cluster: ClusterView,
        machine: ProducerMachine,
        open_batches: OpenBatches,
    ) -> None:
        self._stats = stats
        self._timeout_ms = availability_timeout_ms
        self._cluster = cluster
        self._machine = machine
        self._open_batches = open_batches
        self._counts: dict[str, int] = {}
        self._led: dict[str, list[int]] = {}
        self._update_ms = 0

    def learn(self, topic: str, partitions_count: int) -> None:
        """Take over which partitions of a topic have leaders; whenever there is new metadata."""
        self._counts[topic] = partitions_count
        self._led[topic] = [
            partition
            for partition in range(partitions_count)
            if self._cluster.leader_of(TopicPartition(topic, partition)) is not None
        ]
        self._update_ms = 0

    def forget(self, topic: str) -> None:
        """Forget a topic that is not sent to any more."""
        self._counts.pop(topic, None)
        self._led.pop(topic, None)

    def update(self, topics: Iterable[str], now_ms: int) -> None:
        """Set the order of partitions anew for topics of which batches were sealed; mostly it is too early for that."""
        if now_ms < self._update_ms:
            return
        self._update_ms = now_ms + LOAD_UPDATED_AFTER_MS
        waiting = self._machine.waiting()
        held_up = self._machine.blocked_nodes(now_ms - self._timeout_ms) if self._timeout_ms else set()
        for topic in set(topics) & self._led.keys():
            led = self._led[topic]
            unavailable = [
                partition
                for partition in led
                if held_up and self._cluster.leader_of(TopicPartition(topic, partition)) in held_up
            ]
            of_topic = {partition: count for (of, partition), count in waiting.items() if of == topic}
            self._open_batches.set_partition_order(
                topic, self._stats.order(self._counts[topic], led, of_topic, unavailable)
            )
