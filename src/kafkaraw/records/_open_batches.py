"""What a producer collects, compiled: `Sender`, `OpenBatches`, and no policy. Start at `OpenBatches.take`.

`take` is what a record costs: it handles those that are plain and fit their open batch, without making anything but the
ticket. Every other record, about one in a batch, goes the long way through `append`.

The interface and its documentation are in `records/interface.py`; the twin in plain Python is
`_fallback/open_batches.py`. This is Cython in its pure-Python mode, as `_builder.py` is, where records are encoded.

The GIL is the lock. It is given up only where Python code runs, which includes whatever a garbage collection calls, and
a collection may start wherever a container is made. So each method makes what it needs first, then looks at the state
and changes it in one go without running Python code. "In one go" in the comments below marks such places.

Source: Kafka's RecordAccumulator and BuiltInPartitioner.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_GET_SIZE
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.kafkaraw.records._builder import (
    BatchBuilder,
    Block,
    Pool,
    as_bytes,
    as_timestamp,
    encode_headers,
    murmur2,
)
from cython.cimports.kafkaraw.records._ticket import Outcome, Ticket, ticket_of
from cython.cimports.posix.time import CLOCK_REALTIME, clock_gettime, timespec

from kafkaraw.errors import UsageError
from kafkaraw.records.compression import codec_by_name
from kafkaraw.records.interface import KEY_SIZE_SAFE, AppendStatus
from kafkaraw.records.partitioning import (
    HASHES,
    PARTITIONERS,
    STICKY_SIZE_MAX,
    KeyHash,
    Partitioner,
    chosen,
    whole_number,
)
from kafkaraw.records.promise import BatchPromise
from kafkaraw.records.sealed import SealedBatch

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_BATCH_SIZE_MAX = cython.declare(cython.Py_ssize_t, 2**31 - 1)
_VARINT_SIZE_MAX = cython.declare(cython.Py_ssize_t, 10)
_FIRST_BLOCK_SIZE = cython.declare(cython.Py_ssize_t, 64 * 1024)
_MURMUR2 = cython.declare(cython.int, KeyHash.MURMUR2)
_KEY_SIZE_SAFE = cython.declare(cython.Py_ssize_t, KEY_SIZE_SAFE)

_OK = cython.declare(object, AppendStatus.OK)
_OPENED = cython.declare(object, AppendStatus.OPENED)
_SEALED = cython.declare(object, AppendStatus.SEALED)
_FULL = cython.declare(tuple, (AppendStatus.FULL, None))
_UNKNOWN_TOPIC = cython.declare(tuple, (AppendStatus.UNKNOWN_TOPIC, None))


# -- the batches of a producer


@cython.final
@cython.cclass
class OpenBatch(BatchBuilder):
    """A batch that takes records for one partition.

    Attributes:
        topic: None once it is sealed.
    """

    def __init__(
        self,
        size_max_bytes: cython.Py_ssize_t,
        pool: Pool,
        topic: Topic,
        partition: cython.Py_ssize_t,
        promise: Outcome,
        created_ms: cython.longlong,
    ) -> None:
        self._usual_size = pool.block_size
        self._block = Block(pool, min(pool.block_size, _FIRST_BLOCK_SIZE))
        self.topic = topic
        self.partition = partition
        self.promise = promise
        self.created_ms = created_ms


@cython.final
@cython.cclass
class Topic:
    """What `OpenBatches` knows about one topic; `batches` has one for each partition, or None."""

    def __init__(
        self,
        name: str,
        partition_count: cython.Py_ssize_t,
        sticky_partition: cython.Py_ssize_t,
        batch_size: cython.Py_ssize_t,
    ) -> None:
        self.name = name
        self.batch_size = batch_size
        self.sticky_partition = sticky_partition
        self.sticky_bytes = 0
        self.order = ()
        self.position = 0
        self.batches = [None] * partition_count


@cython.final
@cython.cclass
class OpenBatches:
    """The batches that still take records, one per partition at most. Mechanism only; every method is thread-safe.

    Args:
        batch_size: uncompressed bytes at which a batch is sealed; a larger record gets a batch of its own.
        codec: name of the compression.
        level: its level; None for the codec's default.
        buffer_memory: bytes of open, sealed and unreleased batches above which nothing more is taken.
        clock_ms: wall clock, milliseconds.
        waiter: how tickets wait; from the client.
        lock: not needed here: the GIL is the lock.
        value_size_safe: values of at most so many bytes need no check of size when the key has `KEY_SIZE_SAFE` or less.
        system_clock: `clock_ms` is the system's clock, so the system may be asked directly.
        partitioner: where records go that are not given a partition.
    """

    def __init__(  # noqa: PLR0913 - given in one place only
        self,
        batch_size: int,
        codec: str,
        level: int | None,
        buffer_memory: int,
        clock_ms: object,
        *,
        waiter: object,
        lock: object,
        value_size_safe: int = _BATCH_SIZE_MAX,
        system_clock: bool = False,
        partitioner: Partitioner = PARTITIONERS["default"],
    ) -> None:
        self._batch_size = batch_size
        self._codec = codec_by_name(codec)
        self._level = level
        self._buffer_memory = buffer_memory
        self._clock_ms = clock_ms
        self._system_clock = system_clock
        self._value_size_safe = value_size_safe
        self._refusal = None
        self._waiter = waiter
        self._topics = {}
        self._open = {}
        self._sealed_batches = []
        self._used = 0
        self._function = partitioner.function
        self._hash = HASHES[partitioner.key_hash]
        self._key_hash = partitioner.key_hash
        self._null_is_a_key = partitioner.null_is_a_key
        self._empty_is_a_key = partitioner.empty_is_a_key
        self._every_record = partitioner.every_record
        self._sticky_size = min(self._batch_size // 2, STICKY_SIZE_MAX)
        self._pool = Pool(max(self._batch_size, _HEADER_SIZE + _VARINT_SIZE_MAX), buffer_memory)

    @property
    def used_bytes(self) -> int:
        """Memory in use by open, sealed and unreleased batches."""
        return self._used

    def _now(self) -> cython.Py_ssize_t:
        time: timespec
        if self._system_clock:
            clock_gettime(CLOCK_REALTIME, cython.address(time))
            return cython.cast(cython.longlong, time.tv_sec) * 1000 + time.tv_nsec // 1_000_000
        return self._clock_ms()

    def set_partitions(self, topic: str, count: int) -> None:
        """Say how many partitions a topic has, at least 1; batches of partitions that are gone are sealed."""
        if count < 1:
            raise UsageError(f"topic {topic} cannot have {count} partitions")
        number: cython.Py_ssize_t = count
        # Not always 0: many short-lived producers of one record each must not all meet in one partition.
        first: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, self._now() % number)
        fresh = Topic(topic, number, first, self._batch_size)
        more = [None] * number
        # In one go.
        self._last_name = None
        entry: Topic = self._topics.get(topic)
        if entry is None:
            self._topics[topic] = fresh
            return
        before: cython.Py_ssize_t = len(entry.batches)
        if number < before:
            self._seal_all_of(entry, number)
            del entry.batches[number:]
        else:
            entry.batches.extend(more)
            del entry.batches[number:]
        entry.sticky_partition %= number
        entry.order = ()

    def spread(self, topic: str, order: object) -> None:
        """Say which partitions take the records that go by no key, one after the other and over again.

        Args:
            topic: does nothing when it is not known.
            order: partitions of the topic, as often as each is to take its turn; empty for all of them in turn.
        """
        turns: tuple = tuple(order)
        # In one go.
        entry: Topic = self._topics.get(topic)
        if entry is None:
            return
        partition: cython.Py_ssize_t
        for partition in turns:
            if not 0 <= partition < len(entry.batches):
                return
        entry.order = turns

    def limit_batches(self, topic: str, size: int) -> None:
        """Seal the next batches of a topic, if it is known, at a smaller size than `batch_size`."""
        size_bytes: cython.Py_ssize_t = min(size, self._batch_size)
        entry: Topic = self._topics.get(topic)
        if entry is not None:
            entry.batch_size = size_bytes

    def forget_topic(self, topic: str) -> None:
        """Refuse the topic from now on; its open batches are sealed."""
        self._last_name = None
        entry: Topic = self._topics.pop(topic, None)
        if entry is not None:
            self._seal_all_of(entry, 0)

    def refuse(self, refusal: object) -> None:
        """Call `refusal`, which raises, instead of taking records; None to take them again.

        A record that a thread is adding at this moment is either refused, or in a batch that `seal_all` hands over.
        """
        self._refusal = refusal

    def _check_taking(self) -> cython.int:
        """Raise if records are refused; runs no Python code otherwise."""
        refusal: object = self._refusal
        if refusal is not None:
            refusal()
        return 0

    def take(
        self, topic: object, value: object, key: object, headers: object, partition: object, timestamp_ms: object
    ) -> Ticket | None:
        """Add a record that is plain, small and fits its open batch; None for any other: try `append`."""
        return self.take_plain(topic, value, key, headers, partition, timestamp_ms)

    def take_plain(
        self, topic: object, value: object, key: object, headers: object, partition: object, timestamp_ms: object
    ) -> Ticket | None:
        """The same, for compiled callers."""
        if headers is not None:
            return None
        if value is None:
            if self._value_size_safe < 0:
                return None
        elif type(value) is not bytes or PyBytes_GET_SIZE(value) > self._value_size_safe:
            return None
        if key is not None and (type(key) is not bytes or PyBytes_GET_SIZE(key) > _KEY_SIZE_SAFE):
            return None
        time: cython.longlong = self._now() if timestamp_ms is None else _time_of(timestamp_ms)
        hashed: cython.longlong = -1
        if partition is None:
            if self._function is not None or self._every_record:
                return None
            hashed = self._hash_of(key)
        if topic is not self._last_name:  # mostly it is the same object, which saves looking it up
            if not isinstance(topic, str):
                return None
            self._last_topic = self._topics.get(topic)
            self._last_name = topic
        entry: Topic = self._last_topic
        # In one go.
        if entry is None or self._refusal is not None or self._used >= self._buffer_memory:
            return None
        number: cython.Py_ssize_t = entry.sticky_partition
        if partition is not None:
            number = _as_partition(partition, len(entry.batches))
            if number < 0:
                return None
        elif hashed >= 0:
            number = cython.cast(cython.Py_ssize_t, hashed % len(entry.batches))
        found: object = entry.batches[number]
        return None if found is None else self._add(cython.cast(OpenBatch, found), time, key, value, None)

    def append(
        self,
        topic: object,
        key: object,
        value: object,
        headers: object,
        timestamp_ms: object,
        partition: object,
    ) -> tuple:
        """Choose a partition and add the record to its batch.

        Args:
            topic: must be known through `set_partitions`.
            key: decides the partition unless `partition` is given.
            value: None is a tombstone.
            headers: name and value pairs.
            timestamp_ms: None takes the clock.
            partition: None leaves the choice to the partitioner.

        Returns:
            what happened, and the ticket when the record was taken.

        Raises:
            UsageError: a field of the wrong type, or no partition that the partitioner's function gave.
        """
        self._check_taking()
        if type(value) is not bytes and value is not None:
            value = as_bytes(value, "value")
        if type(key) is not bytes and key is not None:
            key = as_bytes(key, "key")
        tail: bytes | None = encode_headers(headers) if headers else None
        time: cython.longlong = self._now() if timestamp_ms is None else _time_of(timestamp_ms)
        hashed: cython.longlong = -1
        if partition is None:
            if self._function is not None:
                partition = self._ask(topic, key, value)
            hashed = self._hash_of(key)
        # In one go.
        self._check_taking()  # it may have changed since the user's partitioner was called
        entry: Topic = self._topics.get(topic)
        if entry is None:
            return _UNKNOWN_TOPIC
        count: cython.Py_ssize_t = len(entry.batches)
        sticky: cython.bint = partition is None and hashed < 0 and not self._every_record
        number: cython.Py_ssize_t
        if partition is not None:
            number = _as_partition(partition, count)
            if number < 0:
                return _UNKNOWN_TOPIC
        elif hashed >= 0:
            number = cython.cast(cython.Py_ssize_t, hashed % count)
        else:
            number = entry.sticky_partition if sticky else self._next_sticky(entry)
        if self._used >= self._buffer_memory:
            self._seal_open()
            return _FULL
        batch: OpenBatch = entry.batches[number]
        if batch is not None:
            ticket: Ticket = self._add(batch, time, key, value, tail)
            if ticket is not None:
                return (_OK, ticket)
            self._seal(batch)
            if sticky:
                number = entry.sticky_partition
        return self._append_elsewhere(entry, number, sticky, time, key, value, tail)

    def _hash_of(self, key: bytes | None) -> cython.Py_ssize_t:
        """The number of a key, not negative; -1 for a record that goes by no key. See `Partitioner.hash_of`."""
        if key is None:
            if not self._null_is_a_key:
                return -1
            key = b""
        elif not self._empty_is_a_key and not key:
            return -1
        if self._key_hash == _MURMUR2:
            return murmur2(key) & 0x7FFFFFFF
        return self._hash(key)

    def _ask(self, topic: str, key: object, value: object) -> object:
        """Let the user choose."""
        entry: Topic = self._topics.get(topic)
        if entry is None:
            return None
        count: cython.Py_ssize_t = len(entry.batches)
        return chosen(self._function, topic, key, value, count)

    def _next_sticky(self, entry: Topic) -> cython.Py_ssize_t:
        """Move on to the next partition: records without a key fill one batch after the other, not all a little."""
        entry.position += 1
        entry.sticky_bytes = 0
        if entry.order:
            entry.sticky_partition = entry.order[entry.position % len(entry.order)]
        else:
            entry.sticky_partition = (entry.sticky_partition + 1) % len(entry.batches)
        return entry.sticky_partition

    def _append_elsewhere(
        self,
        entry: Topic,
        number: cython.Py_ssize_t,
        sticky: cython.bint,
        time: cython.longlong,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
    ) -> tuple:
        """Append to the open batch of that partition when the record fits there, or to a new one."""
        batch: OpenBatch
        ticket: Ticket
        while number < len(entry.batches):
            batch = entry.batches[number]
            if batch is not None:
                ticket = self._add(batch, time, key, value, headers)
                if ticket is not None:
                    return (_SEALED, ticket)
                self._seal(batch)
                if sticky:
                    number = entry.sticky_partition
                    continue
            batch = self._open_batch(entry, number)
            if batch is not None:
                ticket = self._add(batch, time, key, value, headers)
                if batch.size_bytes > entry.batch_size:
                    self._seal(batch)
                return (_SEALED if self._sealed_batches else _OPENED, ticket)
        return _UNKNOWN_TOPIC

    def _open_batch(self, entry: Topic, number: cython.Py_ssize_t) -> OpenBatch | None:
        """Open a batch; None when another thread has opened one in the meantime, or taken the partition away.

        Raises:
            KafkaError: another thread has refused records in the meantime: it has sealed the last batches.
        """
        promise = BatchPromise(entry.name, number, self._waiter)
        batch = OpenBatch(entry.batch_size, self._pool, entry, number, promise, self._now())
        # In one go.
        self._check_taking()
        if number >= len(entry.batches) or entry.batches[number] is not None:
            return None
        entry.batches[number] = batch
        self._open[batch] = None
        self._used += _HEADER_SIZE
        return batch

    def _add(
        self,
        batch: OpenBatch,
        time: cython.longlong,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
    ) -> Ticket | None:
        """Append to a batch; None when the record does not fit. Runs no Python code."""
        before: cython.Py_ssize_t = batch.size_bytes
        index: cython.Py_ssize_t = batch.put(time, key, value, headers)
        if index < 0:
            return None
        self._used += batch.size_bytes - before
        return ticket_of(batch.promise, index, time)

    def _seal(self, batch: OpenBatch) -> cython.int:
        """Take a batch out of the open ones; runs no Python code. One without records is dropped."""
        entry: Topic = batch.topic
        if entry is not None:
            if batch.records_count:
                self._sealed_batches.append(batch)
            else:
                self._used -= _HEADER_SIZE
            entry.batches[batch.partition] = None
            batch.topic = None
            if batch.partition == entry.sticky_partition:
                entry.sticky_bytes += batch.size_bytes
                if entry.sticky_bytes >= self._sticky_size:
                    self._next_sticky(entry)
            del self._open[batch]
        return 0

    def _seal_all_of(self, entry: Topic, first: cython.Py_ssize_t) -> cython.int:
        number: cython.Py_ssize_t
        for number in range(first, len(entry.batches)):
            batch: OpenBatch = entry.batches[number]
            if batch is not None:
                self._seal(batch)
        return 0

    def _seal_open(self) -> cython.int:
        batch: OpenBatch
        for batch in list(self._open):
            self._seal(batch)
        return 0

    def take_sealed(self) -> list:
        """Hand over the batches sealed so far, oldest first; each is handed over once."""
        following: list = []
        # In one go.
        batches: list = self._sealed_batches
        self._sealed_batches = following
        handed_over: list = []
        batch: OpenBatch
        for batch in batches:
            handed_over.append(
                SealedBatch(batch, batch.promise, codec=self._codec, level=self._level, created_ms=batch.created_ms)
            )
        return handed_over

    def seal_due(self, now_ms: cython.longlong, linger_ms: cython.longlong) -> list:
        """Seal batches that have waited `linger_ms`, and hand over all sealed ones, in order.

        A batch that seems to come from the future is due too: the wall clock was set back.
        """
        batch: OpenBatch
        for batch in list(self._open):
            if not batch.created_ms <= now_ms < batch.created_ms + linger_ms:
                self._seal(batch)
        return self.take_sealed()

    def seal_all(self) -> list:
        """Seal every batch, and hand over all sealed ones, in order."""
        self._seal_open()
        return self.take_sealed()

    def next_due_ms(self, linger_ms: cython.longlong) -> int | None:
        """When `seal_due` has something to do, by the same clock; None without open batches."""
        first: cython.longlong = 0
        found: cython.bint = False
        batch: OpenBatch
        for batch in list(self._open):
            if not found or batch.created_ms < first:
                found = True
                first = batch.created_ms
        return first + linger_ms if found else None

    def release(self, sealed: SealedBatch) -> None:
        """Give back the memory of a batch that is acknowledged or given up; a second time does nothing."""
        if not sealed.released:
            sealed.released = True
            self._used -= sealed.size_bytes

    def renew_lock(self, lock: object) -> None:
        """Nothing to do: the GIL of a child process is free."""


# -- what a user calls


@cython.cclass
class Sender:
    """The base of a producer's face: `send`, once per record.

    A subclass has `_send_slowly`, which is given the records that `OpenBatches.take` does not take, and all of them
    while there is nothing to send through.
    """

    _batches: OpenBatches

    def __cinit__(self, *_: object, **__: object):
        self._batches = None

    def _send_through(self, batches: OpenBatches | None) -> None:
        """Send through these from now on; None sends everything slowly."""
        self._batches = batches

    @cython.annotation_typing(False)
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
        batches: OpenBatches = self._batches
        if batches is not None:
            ticket: Ticket = batches.take_plain(topic, value, key, headers, partition, timestamp_ms)
            if ticket is not None:
                return ticket
        return self._send_slowly(topic, value, key, headers, partition, timestamp_ms)


@cython.cfunc
@cython.exceptval(-1)
def _time_of(timestamp_ms: object) -> cython.longlong:
    """The timestamp of a record to be sent; -1, which old records have, is none to send."""
    time: cython.longlong = as_timestamp(timestamp_ms)
    if time < 0:
        raise UsageError(f"timestamp {time} is not a number of milliseconds since 1970; None is now")
    return time


@cython.cfunc
def _as_partition(value: object, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """A partition that there is, or -1."""
    if type(value) is not int:
        value = whole_number(value)
    overflow: cython.int = 0
    number: cython.longlong = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
    return -1 if overflow or not 0 <= number < count else cython.cast(cython.Py_ssize_t, number)
