"""The state of a producer's open batches, in plain Python: `BatchTable`, and `SendFastPath`.

The twin of `_batch_table.py` for machines without a C compiler. All decisions are in `records/open_batches.py`; here
are only changes of the state. Each of them is atomic, which takes a lock.

A signal handler or `__del__` that sends may interrupt a change, on the thread that has the lock. Then no other change
is made: `take`, `add` and `seal` return as if they could not do it, and the record gets a batch of its own (`open`),
which is put in order when the sealed batches are taken. Start at `BatchTable.take`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, Final, NoReturn, ParamSpec, TypeVar

from kafkaraw.records._fallback.builder import BatchBuilder, encode_headers
from kafkaraw.records._fallback.ticket import Ticket
from kafkaraw.records._fallback.varint_table import VARINTS
from kafkaraw.records.interface import KEY_SIZE_SAFE, Lock
from kafkaraw.records.partitioning import Partitioner, StickyPartitioner
from kafkaraw.records.record import Headers

if TYPE_CHECKING:
    from kafkaraw.records.promise import BatchPromise

P = ParamSpec("P")
T = TypeVar("T")
_join: Final = b"".join
_new: Final = object.__new__
_INT64_MAX: Final = 2**63 - 1
_VARINT_SIZE_MAX: Final = 10


class TopicBatches:
    """The open batches of one topic.

    Attributes:
        name: the topic.
        batches: for each partition its open batch, or None.
        sticky_partition: takes the records whose partition no key selects.
        sticky: moves it.
        batch_size: size at which the next batches are sealed.
        takes_turns: each record whose partition no key selects moves the sticky partition to the next one.
    """

    __slots__ = ("batch_size", "batches", "name", "sticky", "sticky_partition", "takes_turns")

    def __init__(
        self, name: str, partition_count: int, sticky_partition: int, batch_size: int, sticky: StickyPartitioner
    ) -> None:
        self.name: str = name
        self.sticky_partition: int = sticky_partition
        self.batch_size: int = batch_size
        self.sticky: StickyPartitioner = sticky
        self.takes_turns: bool = False
        self.batches: list[OpenBatch | None] = [None] * partition_count


class OpenBatch(BatchBuilder):
    """A batch that takes records for one partition.

    Attributes:
        topic: the topic; None once the batch is sealed.
        partition: the partition.
        promise: for the result of the batch.
        created_ms: when it was opened.
    """

    __slots__ = ("created_ms", "partition", "promise", "topic")

    def __init__(self, topic: TopicBatches, partition: int, promise: BatchPromise, created_ms: int) -> None:
        super().__init__(topic.batch_size)
        self.topic: TopicBatches | None = topic
        self.partition: int = partition
        self.promise: BatchPromise = promise
        self.created_ms: int = created_ms


def _change(method: Callable[Concatenate[BatchTable, P], T]) -> Callable[Concatenate[BatchTable, P], T | None]:
    """Make a method one atomic change: it has the lock, with `is_changing` set.

    If the thread is in the middle of a change already, nothing is done, and None is returned.

    Python handles signals when it enters a Python function, and an interruption there would skip the function's work.
    So the lock itself is entered and left, not a function that acquires and releases it.
    """

    @wraps(method)
    def changing(self: BatchTable, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        with self._lock:
            if self.is_changing:
                return None
            self.is_changing = True
            try:
                return method(self, *args, **kwargs)
            finally:
                self.is_changing = False

    return changing


class BatchTable:
    """The topics, their open batches, the sealed ones, and the memory in use. Every method is one atomic change.

    Args:
        batch_size: the size of most batches; the compiled form makes blocks of memory of this size.
        buffer_memory: bytes in use above which `take` takes nothing.
        clock_ms: wall clock, milliseconds.
        partitioner: chooses the partition of records that name none, by their keys.
        value_size_safe: values of at most this many bytes need no check of size if the key has `KEY_SIZE_SAFE` or less.
        system_clock: `clock_ms` is the system's clock; the compiled form reads that without a call.
        new_lock: makes the lock; the compiled form needs none.

    Attributes:
        topics: by name; changed by `add_topic` and `remove_topic` only.
        refusal: raises, instead of records being added; None while they are added.
        used_bytes: memory in use by open, sealed and unreleased batches.
        decides_each: whether the partitioner chooses anew for each record that names no partition: by a function, or in
            turn. `take` does so only for topics that take turns.
        now_ms: returns the time, by the wall clock.
        hash_of: returns the hash of a key, not negative; -1 if no key selects the record's partition.
        is_changing: whether a change is under way.
    """

    def __init__(
        self,
        batch_size: int,
        buffer_memory: int,
        clock_ms: Callable[[], int],
        partitioner: Partitioner,
        *,
        value_size_safe: int,
        system_clock: bool,
        new_lock: Callable[[], Lock],
    ) -> None:
        self.topics: dict[str, TopicBatches] = {}
        self.refusal: Callable[[], NoReturn] | None = None
        self.used_bytes: int = 0
        self.now_ms = self._clock_ms = clock_ms
        self.hash_of: Callable[[bytes | None], int] = partitioner.hash_of
        # Looked at with the lock held: so if it is true, this very thread was interrupted.
        self.is_changing: bool = False
        self._lock = new_lock()
        self._buffer_memory = buffer_memory
        self._value_size_safe = value_size_safe
        self._has_function = partitioner.function is not None
        self.decides_each: bool = self._has_function or partitioner.every_record
        self._null_is_no_key = not partitioner.null_is_a_key
        self._open: dict[OpenBatch, None] = {}
        self._sealed: list[OpenBatch] = []
        self._aside: list[OpenBatch] = []

    # ---- reading

    @property
    def is_full(self) -> bool:
        """Whether `buffer_memory` is in use; not for a call that cannot wait because it has interrupted a change."""
        if self.used_bytes < self._buffer_memory:
            return False
        with self._lock:
            return not self.is_changing

    @property
    def has_sealed(self) -> bool:
        """Whether there are sealed batches to take."""
        return bool(self._sealed or self._aside)

    def open_batches(self) -> list[OpenBatch]:
        """Return the open batches, in the order in which they were opened."""
        with self._lock:  # a thread that has seen no refusal may be about to insert one
            return list(self._open)

    # ---- topics

    def add_topic(self, topic: TopicBatches) -> None:
        """Add a topic."""
        self.topics[topic.name] = topic

    def remove_topic(self, name: str) -> list[OpenBatch]:
        """Remove a topic, if it is known; return its open batches."""
        topic = self.topics.pop(name, None)
        return [] if topic is None else self.resize(topic, 0)

    def resize(self, topic: TopicBatches, count: int) -> list[OpenBatch]:
        """Change the number of partitions of a topic; return the open batches of those that are removed."""
        return self._resize(topic, count) or []

    @_change
    def _resize(self, topic: TopicBatches, count: int) -> list[OpenBatch]:
        removed = [batch for batch in topic.batches[count:] if batch is not None]
        topic.batches = [*topic.batches[:count], *[None] * (count - len(topic.batches))]
        return removed

    # ---- records in

    def take(  # noqa: C901 - one flat method, because calls cost more than all that it does
        self,
        topic: str,
        value: bytes | bytearray | None,
        key: bytes | None,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket | None:
        """Add a record that is plain, small and fits its open batch; None for any other: try `OpenBatches.append`."""
        if type(value) is not bytes:
            if type(value) is not bytearray:  # tombstones are rare
                return None
            value = bytes(value)
        if (
            len(value) > self._value_size_safe
            or (key is not None and (type(key) is not bytes or len(key) > KEY_SIZE_SAFE))
            or (partition is None and self._has_function)
        ):
            return None
        tail = b"\x00"
        if headers is not None:
            tail = _encoded(headers)
            if not tail or len(value) + len(tail) + _VARINT_SIZE_MAX * len(headers) > self._value_size_safe:
                return None
        if timestamp_ms is None:
            timestamp_ms = self._clock_ms()
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= _INT64_MAX:
            return None
        lock, interrupts, moves = self._lock, True, False
        try:  # `with` takes twice as long; an interruption may come as soon as the lock is taken, or before
            lock.acquire()
            interrupts = self.is_changing
            if interrupts:
                return None
            self.is_changing = True
            try:
                known = self.topics.get(topic)
            except TypeError:  # it cannot be looked up, as a list: `append` refuses it
                return None
            if known is None or self.refusal is not None or self.used_bytes >= self._buffer_memory:
                return None
            if partition is None:
                number = -1 if key is None and self._null_is_no_key else self.hash_of(key)
                if number >= 0:
                    partition = number % len(known.batches)
                elif not self.decides_each:
                    partition = known.sticky_partition
                elif known.takes_turns:
                    partition = (known.sticky_partition + 1) % len(known.batches)
                    moves = True
                else:
                    return None
            elif type(partition) is not int or not 0 <= partition < len(known.batches):
                return None
            try:
                batch = known.batches[partition]
                if batch is None:
                    return None
                # What `batch.put` does for such a record, without the call: it would cost a fifth of all of this.
                if timestamp_ms != batch.last_timestamp:
                    batch.set_timestamp(timestamp_ms)
                index = batch.records_count
                if key is None:
                    record = _join((batch.front, VARINTS[index], b"\x01", VARINTS[len(value)], value, tail))
                else:
                    key_size, value_size = VARINTS[len(key)], VARINTS[len(value)]
                    record = _join((batch.front, VARINTS[index], key_size, key, value_size, value, tail))
                length = VARINTS[len(record)]
            except IndexError:  # longer than the table of varints; or the partition was removed just now
                return None
            added = len(length) + len(record)
            size_bytes = batch.size_bytes + added
            if size_bytes > batch.limit:
                return None
            if timestamp_ms > batch.max_timestamp:
                batch.max_timestamp = timestamp_ms
            batch.parts += (length, record)
            batch.size_bytes = size_bytes
            batch.records_count = index + 1
            self.used_bytes += added
            if moves:
                known.sticky_partition = partition
        finally:
            if not interrupts:
                self.is_changing = False
            try:  # noqa: SIM105 - `suppress` would cost every record more than this
                lock.release()
            except RuntimeError:  # interrupted while it waited for the lock
                pass
        ticket = _new(Ticket)  # `Ticket(...)` takes twice as long
        ticket.batch_promise = batch.promise
        ticket.index = index
        ticket.timestamp_ms = timestamp_ms
        return ticket

    def add(
        self, batch: OpenBatch, time_ms: int, key: bytes | None, value: bytes | None, headers: bytes | None
    ) -> Ticket | None:
        """Add a record to an open batch; None if it does not fit, or the batch is not open."""
        with self._lock:  # as `_change`, without another call
            if self.is_changing or batch.topic is None:
                return None
            self.is_changing = True
            size_bytes = batch.size_bytes
            try:
                index = batch.put(time_ms, key, value, headers)
            finally:  # an interruption may come as soon as the record is in the batch
                self.used_bytes += batch.size_bytes - size_bytes
                self.is_changing = False
        return None if index < 0 else Ticket(batch.promise, index, time_ms)

    # ---- batches

    def new_batch(self, topic: TopicBatches, partition: int, promise: BatchPromise) -> OpenBatch:
        """Make an empty batch, which is not in the table."""
        return OpenBatch(topic, partition, promise, self._clock_ms())

    def open(
        self, batch: OpenBatch, time_ms: int, key: bytes | None, value: bytes | None, headers: bytes | None
    ) -> Ticket | None:
        """Put a new batch into the table, with its first record; None if that is not possible any more."""
        batch.put(time_ms, key, value, headers)
        ticket = Ticket(batch.promise, 0, time_ms)
        with self._lock:
            if self.is_changing:
                self._aside += (batch,)
                return ticket
            self.is_changing = True
            try:
                return ticket if self._insert(batch) else None
            finally:
                self.is_changing = False

    def _insert(self, batch: OpenBatch) -> bool:
        topic, partition = batch.topic, batch.partition
        assert topic is not None
        if self.refusal is not None or partition >= len(topic.batches) or topic.batches[partition] is not None:
            return False
        topic.batches[partition] = batch  # from here on no call, where an interruption could come
        self._open[batch] = None
        self.used_bytes += batch.size_bytes
        return True

    @_change
    def seal(self, batch: OpenBatch) -> bool:
        """Take a batch out of the open ones; False if it is not open."""
        return self._seal(batch)

    def _seal(self, batch: OpenBatch) -> bool:
        topic, partition = batch.topic, batch.partition
        if topic is None:
            return False
        batches = topic.batches
        is_there = partition < len(batches) and batches[partition] is batch
        del self._open[batch]  # from here on no call: the batch would be in no list
        if is_there:
            batches[partition] = None
        batch.topic = None
        self._sealed += (batch,)
        return True

    def sealed_batches(self) -> list[OpenBatch]:
        """Return the sealed batches, oldest first, and keep them; see `remove_sealed`."""
        return self._sealed_batches() or []

    @_change
    def _sealed_batches(self) -> list[OpenBatch]:
        while self._aside:
            batch = self._aside[0]
            topic = batch.topic
            assert topic is not None
            before = topic.batches[batch.partition] if batch.partition < len(topic.batches) else None
            if before is not None:
                self._seal(before)
            del self._aside[0]  # from here on no call, as in `_seal`
            batch.topic = None
            self.used_bytes += batch.size_bytes
            self._sealed += (batch,)
        return list(self._sealed)

    def remove_sealed(self, batches: list[OpenBatch]) -> bool:
        """Remove what `sealed_batches` returned; False if another thread has removed them."""
        with self._lock:  # also in the middle of a change, which at most adds a batch at the end
            count = len(batches)
            if count and (len(self._sealed) < count or self._sealed[0] is not batches[0]):
                return False
            del self._sealed[:count]
            return True

    def release(self, size_bytes: int) -> None:
        """Count the memory of a batch as free."""
        with self._lock:  # also in the middle of a change, which changes `used_bytes` without a call
            self.used_bytes -= size_bytes


def _encoded(headers: Headers) -> bytes:
    """Encode headers; empty bytes for wrong ones, which `OpenBatches.append` refuses with a reason."""
    if type(headers) is not list and type(headers) is not tuple:
        return b""
    try:
        return encode_headers(headers)
    except Exception:  # noqa: BLE001 - as above
        return b""


class SendFastPath:
    """The base of `Producer`: its `send`, once per record.

    A subclass has `_send_slowly`, which gets the records that `BatchTable.take` does not take, and all records while
    there is no table.
    """

    _table: BatchTable | None = None

    def _send_through(self, table: BatchTable | None) -> None:
        """Send through this table; None sends everything by `_send_slowly`."""
        self._table = table

    def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Ticket:
        """Add a record to the batch of its partition. Waits only for the topic's metadata or for `buffer_memory`.

        Args:
            topic: the topic to send to.
            value: the value: bytes, or an object that `value_serializer` accepts; None is a tombstone.
            key: decides the partition, and which records compaction keeps: bytes, or an object that `key_serializer`
                accepts.
            headers: name and value pairs.
            partition: the partition to send to; None lets the partitioner choose.
            timestamp_ms: milliseconds since 1970 UTC; None is now.

        Returns:
            a ticket: `await ticket` or `ticket.result(timeout)` returns the `RecordMetadata`, or raises.

        Raises:
            RecordTooLargeError: the record is larger than `max_request_size`, before compression.
            KafkaTimeoutError: `buffer_memory` stayed full, or the topic had no leader, for `max_block_ms`.
            UnknownTopicError: the topic does not exist.
            UsageError: a field has the wrong type, or the topic does not have the partition.
            SerializationError: a serializer refuses the value or the key.
            KafkaError: no broker can be reached; or a serializer's schema registry, for `max_block_ms`.
        """
        table = self._table
        if table is not None:
            # what is not bytes is not taken
            ticket = table.take(topic, value, key, headers, partition, timestamp_ms)  # type: ignore[arg-type]
            if ticket is not None:
                return ticket
        return self._send_slowly(topic, value, key, headers, partition, timestamp_ms)

    def _send_slowly(
        self,
        topic: str,
        value: object,
        key: object,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket:
        raise NotImplementedError
