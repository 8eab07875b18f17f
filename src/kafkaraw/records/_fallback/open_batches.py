"""The accumulator of a producer, in plain Python: `Sender`, `OpenBatches`, `Ticket`. Start at `OpenBatches.append`.

The interface and its documentation are in `records/interface.py`; this is its twin for machines without a C compiler.

Source: Kafka's RecordAccumulator and BuiltInPartitioner.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import wraps
from typing import Concatenate, Final, NoReturn, ParamSpec, TypeVar

from kafkaraw.errors import UsageError, copy_to_raise
from kafkaraw.records._fallback.builder import BatchBuilder, as_bytes
from kafkaraw.records.compression import codec_by_name
from kafkaraw.records.interface import KEY_SIZE_SAFE, AppendStatus, Lock
from kafkaraw.records.interface import Ticket as TicketInterface
from kafkaraw.records.partitioning import (
    PARTITIONERS,
    STICKY_SIZE_MAX,
    Partitioner,
    PartitionFunction,
    chosen,
    whole_number,
)
from kafkaraw.records.promise import BatchPromise, Waiter
from kafkaraw.records.record import Headers, RecordMetadata
from kafkaraw.records.sealed import SealedBatch
from kafkaraw.records.varint import VARINTS

P = ParamSpec("P")
T = TypeVar("T")
_join: Final = b"".join
_new: Final = object.__new__
_SIZE_MAX: Final = 2**31 - 1
_OK: Final = AppendStatus.OK  # members of an enum are slow to look up
_OPENED: Final = AppendStatus.OPENED
_SEALED: Final = AppendStatus.SEALED
_FULL: Final = (AppendStatus.FULL, None)
_UNKNOWN_TOPIC: Final = (AppendStatus.UNKNOWN_TOPIC, None)

_INT64_MAX: Final = 2**63 - 1


class Ticket:
    """A handle of the result of one record: its batch's promise and its index in the batch.

    Attributes:
        batch_promise: the promise of the batch.
        index: the record's index in it.
        timestamp_ms: the timestamp it was given.
    """

    __slots__ = ("batch_promise", "index", "timestamp_ms")

    def __init__(self, batch_promise: BatchPromise, index: int, timestamp_ms: int) -> None:
        self.batch_promise = batch_promise
        self.index = index
        self.timestamp_ms = timestamp_ms

    @property
    def done(self) -> bool:
        """Return whether the result is known."""
        return self.batch_promise.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the broker has responded for this record.

        Args:
            timeout: seconds; None waits until the producer's delivery timeout.

        Raises:
            KafkaTimeoutError: there is no result yet; the record may still be delivered.
            KafkaError: the record failed; the error says why.
        """
        promise = self.batch_promise
        if not promise.done:
            promise.waiter.wait(promise, timeout)
        return self._outcome()

    def exception(self) -> BaseException | None:
        """Return the error of a failed record, a copy for each call; None if it is acknowledged or still pending."""
        promise, index = self.batch_promise, self.index
        if promise.parts is not None:
            promise, index = promise.part_of(index)
        if promise.error is None:
            return None
        promise.note_seen((index,))
        return copy_to_raise(promise.error)

    def add_done_callback(self, callback: Callable[[TicketInterface], None]) -> None:
        """Call `callback(ticket)` once the result is known; immediately if it is."""

        def tell(promise: BatchPromise) -> None:
            if promise.error is not None:
                self.exception()  # `flush` need not report an error that the callback gets
            callback(self)

        self.batch_promise.add_callback(tell)

    def __await__(self) -> Generator[object, object, RecordMetadata]:
        promise = self.batch_promise
        if not promise.done:
            yield from promise.waiter.awaitable(promise).__await__()
        return self._outcome()

    def _outcome(self) -> RecordMetadata:
        promise, index = self.batch_promise, self.index
        if promise.parts is not None:
            promise, index = promise.part_of(index)
        if promise.error is not None:
            promise.note_seen((index,))
            raise copy_to_raise(promise.error)
        offset = promise.base_offset + index if promise.base_offset >= 0 else -1
        append_time = promise.log_append_time_ms
        timestamp_ms = append_time if append_time >= 0 else self.timestamp_ms
        return RecordMetadata(promise.topic, promise.partition, offset, timestamp_ms)

    def __repr__(self) -> str:
        promise = self.batch_promise
        return f"Ticket({promise.topic}-{promise.partition}, record {self.index}, {promise.state.value})"


class _OpenBatch(BatchBuilder):
    """An open batch of one partition."""

    __slots__ = ("created_ms", "promise")

    def __init__(self, size_max_bytes: int, promise: BatchPromise, created_ms: int) -> None:
        super().__init__(size_max_bytes)
        self.promise = promise
        self.created_ms = created_ms


class _Topic:
    """The state of one topic in `OpenBatches`."""

    __slots__ = (
        "batch_size",
        "batches",
        "name",
        "order",
        "partition_count",
        "position",
        "sticky_bytes",
        "sticky_partition",
    )

    def __init__(self, name: str, partition_count: int, sticky_partition: int, batch_size: int) -> None:
        self.name = name
        self.batch_size = batch_size
        self.partition_count = partition_count
        self.sticky_partition = sticky_partition
        self.sticky_bytes = 0
        self.order: tuple[int, ...] = ()
        self.position = 0
        self.batches: list[_OpenBatch | None] = [None] * partition_count


def _change(method: Callable[Concatenate[OpenBatches, P], T]) -> Callable[Concatenate[OpenBatches, P], T]:
    """Make a method hold the lock, with `is_changing` set.

    Python handles signals when it enters a Python function, and an interruption there would skip the function's work.
    So the lock itself is entered and left, not a function that acquires and releases it.
    """

    @wraps(method)
    def changing(self: OpenBatches, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.lock:
            self.is_changing = True
            try:
                return method(self, *args, **kwargs)
            finally:
                self.is_changing = False

    return changing


class OpenBatches:
    """The open batches, one per partition at most. Mechanism only; every method is thread-safe.

    A signal handler or `__del__` that sends may interrupt any method in the middle of a change, on the thread that has
    the lock. Its record is put into a batch of its own, which is inserted in order when batches are returned.

    Args:
        batch_size: uncompressed bytes at which a batch is sealed; a larger record gets a batch of its own.
        codec: name of the compression.
        level: its level; None for the codec's default.
        buffer_memory: bytes of open, sealed and unreleased batches above which no record is added.
        clock_ms: wall clock, milliseconds.
        waiter: how tickets wait; from the client.
        lock: mutual exclusion for every method; `threading.RLock()`.
        value_size_safe: values of at most this many bytes need no check of size if the key has `KEY_SIZE_SAFE` or less.
        system_clock: `clock_ms` is the system's clock; makes a difference to the compiled twin only.
        partitioner: chooses the partition of records that name none.
    """

    def __init__(  # noqa: PLR0913 - given in one place only
        self,
        batch_size: int,
        codec: str,
        level: int | None,
        buffer_memory: int,
        clock_ms: Callable[[], int],
        *,
        waiter: Waiter,
        lock: Lock,
        value_size_safe: int = _SIZE_MAX,
        system_clock: bool = False,
        partitioner: Partitioner = PARTITIONERS["default"],
    ) -> None:
        self._batch_size = batch_size
        self._codec = codec_by_name(codec)
        self._level = level
        self._buffer_memory = buffer_memory
        self._clock_ms = clock_ms
        self._waiter = waiter
        self.lock = lock
        self.is_changing = False  # looked at with the lock held: so if it is true, this very thread was interrupted
        self._aside: list[tuple[_Topic, _OpenBatch]] = []
        self._value_size_safe = value_size_safe
        self._refusal: Callable[[], NoReturn] | None = None
        self._topics: dict[str, _Topic] = {}
        self._open: dict[_OpenBatch, _Topic] = {}
        self._sealed: list[SealedBatch] = []
        self._used_bytes = 0
        self._function = partitioner.function
        self._hash_of = partitioner.hash_of
        self._null_is_no_key = not partitioner.null_is_a_key
        self._every_record = partitioner.every_record
        self._sticky_size = min(batch_size // 2, STICKY_SIZE_MAX)

    @property
    def used_bytes(self) -> int:
        """Memory in use by open, sealed and unreleased batches."""
        return self._used_bytes

    @_change
    def set_partitions(self, topic: str, count: int) -> None:
        """Set the number of partitions of a topic, at least 1; seal batches of partitions that no longer exist."""
        if count < 1:
            raise UsageError(f"topic {topic} cannot have {count} partitions")
        entry = self._topics.get(topic)
        if entry is None:
            # Not always 0: many short-lived producers of one record each must not all write to one partition.
            self._topics[topic] = _Topic(topic, count, self._clock_ms() % count, self._batch_size)
            return
        for batch in entry.batches[count:]:
            if batch is not None:
                self._seal(batch)
        entry.batches = [*entry.batches[:count], *[None] * (count - entry.partition_count)]
        entry.partition_count = count
        entry.sticky_partition %= count
        entry.order = ()

    @_change
    def spread(self, topic: str, order: Sequence[int]) -> None:
        """Set which partitions get the records without a key, in a cyclic order.

        Args:
            topic: an unknown topic is ignored.
            order: partitions of the topic, each as often as its share; empty for all of them in turn.
        """
        entry = self._topics.get(topic)
        if entry is not None and all(0 <= partition < entry.partition_count for partition in order):
            entry.order = tuple(order)

    @_change
    def limit_batches(self, topic: str, size: int) -> None:
        """Seal the next batches of a topic, if it is known, at a smaller size than `batch_size`."""
        entry = self._topics.get(topic)
        if entry is not None:
            entry.batch_size = min(size, self._batch_size)

    @_change
    def forget_topic(self, topic: str) -> None:
        """Refuse records of the topic from now on; seal its open batches."""
        entry = self._topics.pop(topic, None)
        if entry is not None:
            for batch in entry.batches:
                if batch is not None:
                    self._seal(batch)

    def refuse(self, refusal: Callable[[], NoReturn] | None) -> None:
        """Call `refusal`, which raises, instead of adding records; None to add them again.

        A record that a thread is adding at this moment is either refused, or in a batch that `seal_all` returns.
        """
        self._refusal = refusal

    def _check_taking(self) -> None:
        """Raise if records are refused."""
        refusal = self._refusal
        if refusal is not None:
            refusal()

    def take(  # noqa: C901 - one flat method, because calls cost more than all that it does
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Ticket | None:
        """Add a record that is plain, small and fits its open batch; None for any other: try `append`."""
        if (
            headers is not None
            or type(value) is not bytes  # tombstones are rare
            or len(value) > self._value_size_safe
            or (key is not None and (type(key) is not bytes or len(key) > KEY_SIZE_SAFE))
            or (partition is None and (self._function is not None or self._every_record))
        ):
            return None
        timestamp_ms = self._clock_ms() if timestamp_ms is None else _time_of(timestamp_ms)
        lock, interrupts = self.lock, True
        try:  # `with` takes twice as long; an interruption may come as soon as the lock is taken, or before
            lock.acquire()
            interrupts = self.is_changing
            if interrupts:
                return None
            self.is_changing = True
            try:
                entry = self._topics.get(topic)
            except TypeError:  # it cannot be looked up, as a list: `append` refuses it
                return None
            if entry is None or self._refusal is not None or self._used_bytes >= self._buffer_memory:
                return None
            if partition is None:
                number = -1 if key is None and self._null_is_no_key else self._hash_of(key)
                partition = number % entry.partition_count if number >= 0 else entry.sticky_partition
            elif type(partition) is not int or not 0 <= partition < entry.partition_count:
                return None
            batch = entry.batches[partition]
            if batch is None:
                return None
            # What `batch.append` does for such a record, without the call: it would cost a fifth of all of this.
            if timestamp_ms != batch.last_timestamp:
                batch.set_timestamp(timestamp_ms)
            index = batch.records_count
            try:
                if key is None:
                    record = _join((batch.front, VARINTS[index], b"\x01", VARINTS[len(value)], value, b"\x00"))
                else:
                    key_size, value_size = VARINTS[len(key)], VARINTS[len(value)]
                    record = _join((batch.front, VARINTS[index], key_size, key, value_size, value, b"\x00"))
                length = VARINTS[len(record)]
            except IndexError:  # longer than the table of varints
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
            self._used_bytes += added
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

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        partition: int | None,
    ) -> tuple[AppendStatus, Ticket | None]:
        """Choose a partition and add the record to its batch.

        Args:
            topic: must be known through `set_partitions`.
            key: selects the partition unless `partition` is given.
            value: None is a tombstone.
            headers: name and value pairs.
            timestamp_ms: None for the current time.
            partition: None lets the partitioner choose.

        Returns:
            the status, and the ticket if the record was added.

        Raises:
            UsageError: a field of the wrong type, or the partitioner's function returned an invalid partition.
        """
        self._check_taking()
        if partition is None and self._function is not None:
            partition = self._ask(self._function, topic, key, value)
        with self.lock:
            self._check_taking()  # it may have changed since the user's partitioner was called
            if self.is_changing:
                return _SEALED, self._append_aside(topic, key, value, headers, timestamp_ms, partition)
            self.is_changing = True
            try:
                return self._append(topic, key, value, headers, timestamp_ms, partition)
            finally:
                self.is_changing = False

    def _append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        partition: int | None,
    ) -> tuple[AppendStatus, Ticket | None]:
        sticky = False
        entry = self._topics.get(topic)
        if entry is None:
            return _UNKNOWN_TOPIC
        if partition is None:
            if type(key) is not bytes and key is not None:
                key = as_bytes(key, "key")
            number = self._hash_of(key)
            if number >= 0:
                partition = number % entry.partition_count
            elif self._every_record:
                partition = self._next_sticky(entry)
            else:
                sticky = True
                partition = entry.sticky_partition
        elif not 0 <= (partition := whole_number(partition)) < entry.partition_count:
            return _UNKNOWN_TOPIC
        if self._used_bytes >= self._buffer_memory:
            self._seal_open()
            return _FULL
        timestamp_ms = self._clock_ms() if timestamp_ms is None else _time_of(timestamp_ms)
        batch = entry.batches[partition]
        if batch is not None:
            index = self._append_to(batch, timestamp_ms, key, value, headers)
            if index >= 0:
                return _OK, Ticket(batch.promise, index, timestamp_ms)
            self._seal(batch)
            if sticky:
                partition = entry.sticky_partition
        ticket = self._append_elsewhere(entry, partition, sticky, key, value, headers, timestamp_ms)
        return (_SEALED if self._sealed else _OPENED), ticket

    def _append_to(
        self, batch: _OpenBatch, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> int:
        """Append to a batch, as `BatchBuilder.append`, and count its memory."""
        size_bytes = batch.size_bytes
        try:
            return batch.append(timestamp_ms, key, value, headers)
        finally:  # an interruption may come as soon as the record is in the batch
            self._used_bytes += batch.size_bytes - size_bytes

    def _append_aside(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        partition: int | None,
    ) -> Ticket:
        """Put a record into a batch of its own, without touching what is being changed; `buffer_memory` may be full.

        Raises:
            UsageError: the topic or partition is not known; waiting for it would hold up the thread that it needs.
        """
        entry = self._topics.get(topic)
        if entry is not None and partition is None:
            number = self._hash_of(None if key is None else as_bytes(key, "key"))
            partition = (number if number >= 0 else entry.sticky_partition) % entry.partition_count
        if entry is None or partition is None or not 0 <= partition < entry.partition_count:
            raise UsageError(
                f"a signal handler or __del__ that interrupts send() sends to {topic!r}, partition {partition}, which "
                f"is not known yet; call partitions_for() first"
            )
        timestamp_ms = self._clock_ms() if timestamp_ms is None else _time_of(timestamp_ms)
        promise = BatchPromise(topic, partition, self._waiter)
        batch = _OpenBatch(entry.batch_size, promise, self._clock_ms())
        batch.append(timestamp_ms, key, value, headers)
        self._aside.append((entry, batch))
        return Ticket(promise, 0, timestamp_ms)

    def _ask(self, function: PartitionFunction, topic: str, key: bytes | None, value: bytes | None) -> int | None:
        """Call the user's partitioner without the lock: a function that sends something itself would wait for it."""
        entry = self._topics.get(topic)
        if entry is None:
            return None
        count = entry.partition_count
        return chosen(function, topic, key, value, count)

    def _next_sticky(self, entry: _Topic) -> int:
        """Move on to the next partition: records without a key fill one batch after the other, not all at once."""
        entry.position += 1
        entry.sticky_bytes = 0
        if entry.order:
            entry.sticky_partition = entry.order[entry.position % len(entry.order)]
        else:
            entry.sticky_partition = (entry.sticky_partition + 1) % entry.partition_count
        return entry.sticky_partition

    def _append_elsewhere(
        self,
        entry: _Topic,
        partition: int,
        sticky: bool,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
    ) -> Ticket:
        """Append to a new batch, or to the open one of the next sticky partition when the record fits there."""
        while (batch := entry.batches[partition]) is not None:
            index = self._append_to(batch, timestamp_ms, key, value, headers)
            if index >= 0:
                return Ticket(batch.promise, index, timestamp_ms)
            self._seal(batch)
            if sticky:
                partition = entry.sticky_partition
        promise = BatchPromise(entry.name, partition, self._waiter)
        batch = _OpenBatch(entry.batch_size, promise, self._clock_ms())
        batch.append(timestamp_ms, key, value, headers)  # raises before anything is changed
        self._used_bytes += batch.size_bytes
        entry.batches[partition] = batch
        self._open[batch] = entry
        if batch.size_bytes > entry.batch_size:
            self._seal(batch)
        return Ticket(promise, 0, timestamp_ms)

    def _seal(self, batch: _OpenBatch) -> None:
        sealed, entry = self._sealed_batch(batch), self._open[batch]
        del self._open[batch]  # from here on no call, where an interruption could come: the batch would be in no list
        entry.batches[batch.promise.partition] = None
        self._sealed += (sealed,)
        if batch.promise.partition == entry.sticky_partition:
            entry.sticky_bytes += batch.size_bytes
            if entry.sticky_bytes >= self._sticky_size:
                self._next_sticky(entry)

    def _seal_open(self) -> None:
        for batch in list(self._open):
            self._seal(batch)

    @_change
    def take_sealed(self) -> list[SealedBatch]:
        """Return the batches sealed so far, oldest first; each is returned once."""
        return self._hand_over()

    def _hand_over(self) -> list[SealedBatch]:
        while self._aside:
            entry, batch = self._aside[0]
            partition = batch.promise.partition
            before = entry.batches[partition] if partition < len(entry.batches) else None
            if before is not None:
                self._seal(before)
            sealed_aside = self._sealed_batch(batch)
            del self._aside[0]  # from here on no call, as in `_seal`
            self._used_bytes += batch.size_bytes
            self._sealed += (sealed_aside,)
        sealed = self._sealed
        self._sealed = []
        return sealed

    def _sealed_batch(self, batch: _OpenBatch) -> SealedBatch:
        return SealedBatch(batch, batch.promise, codec=self._codec, level=self._level, created_ms=batch.created_ms)

    @_change
    def seal_due(self, now_ms: int, linger_ms: int) -> list[SealedBatch]:
        """Seal batches that have waited `linger_ms`, and return all sealed ones, in order.

        A batch with a creation time in the future is due too: the wall clock was set back.
        """
        for batch in list(self._open):
            if not batch.created_ms <= now_ms < batch.created_ms + linger_ms:
                self._seal(batch)
        return self._hand_over()

    @_change
    def seal_all(self) -> list[SealedBatch]:
        """Seal every batch, and return all sealed ones, in order."""
        self._seal_open()
        return self._hand_over()

    @_change
    def next_due_ms(self, linger_ms: int) -> int | None:
        """Return when the next batch is due, by the same clock; None without open batches."""
        if not self._open:
            return None
        return min(batch.created_ms for batch in self._open) + linger_ms

    @_change
    def release(self, sealed: SealedBatch) -> None:
        """Release the memory of a batch that is acknowledged or has failed; a second call does nothing."""
        if not sealed.released:
            sealed.released = True
            self._used_bytes -= sealed.size_bytes

    def renew_lock(self, lock: Lock) -> None:
        """Replace the lock: in a child process a thread that no longer exists may hold the old one."""
        self.lock = lock
        self.is_changing = False


class Sender:
    """The base class of a producer: `send`, once per record.

    A subclass has `_send_slowly`, which gets the records that `OpenBatches.take` does not take, and all records
    while no batches are set.
    """

    _batches: OpenBatches | None = None

    def _send_through(self, batches: OpenBatches | None) -> None:
        """Set the batches to send through; None sends everything by `_send_slowly`."""
        self._batches = batches

    def send(  # documented where users meet it
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Ticket:
        batches = self._batches
        if batches is not None:
            # what is not bytes is not taken
            ticket = batches.take(topic, value, key, headers, partition, timestamp_ms)  # type: ignore[arg-type]
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


def _time_of(timestamp_ms: object) -> int:
    """The timestamp of a record to be sent; -1, which old records have, is none to send."""
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms <= _INT64_MAX:
        raise UsageError(f"timestamp {timestamp_ms!r} is not a number of milliseconds since 1970; None is now")
    return timestamp_ms
