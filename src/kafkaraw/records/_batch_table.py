"""The state of a producer's open batches, compiled: `BatchTable`, and `SendFastPath`. Start at `BatchTable.take_plain`.

`take_plain` is what a record costs: it adds a record to the open batch of its partition, without making anything but
the ticket. It leaves every other record, about one in a batch, to `OpenBatches.append` in `records/open_batches.py`,
which makes all decisions. Here are only changes of the state, each of them atomic.

The documentation of the interface is in the twin in plain Python, `_fallback/batch_table.py`. This is Cython in its
pure-Python mode, as `_builder.py` is, where records are encoded.

The GIL is the lock. It is released only where Python code runs, which includes destructors that a garbage collection
calls, and a collection may start wherever a container is created. So each method creates its containers first, then
reads and changes the state without running Python code. The comment "In one go" marks such places.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_GET_SIZE
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.kafkaraw.records._builder import BatchBuilder, Block, Pool, encode_headers, murmur2
from cython.cimports.kafkaraw.records._ticket import Outcome, Ticket, ticket_of
from cython.cimports.posix.time import CLOCK_REALTIME, clock_gettime, timespec

from kafkaraw.records.interface import KEY_SIZE_SAFE
from kafkaraw.records.partitioning import HASHES, KeyHash, Partitioner, StickyPartitioner

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_VARINT_SIZE_MAX = cython.declare(cython.Py_ssize_t, 10)
_FIRST_BLOCK_SIZE = cython.declare(cython.Py_ssize_t, 64 * 1024)
_MURMUR2 = cython.declare(cython.int, KeyHash.MURMUR2)
_TOO_LARGE = cython.declare(cython.Py_ssize_t, 2**62)
_KEY_SIZE_SAFE = cython.declare(cython.Py_ssize_t, KEY_SIZE_SAFE)


@cython.final
@cython.cclass
class TopicBatches:
    """The open batches of one topic. See `_fallback.batch_table.TopicBatches`."""

    def __init__(
        self,
        name: str,
        partition_count: cython.Py_ssize_t,
        sticky_partition: cython.Py_ssize_t,
        batch_size: cython.Py_ssize_t,
        sticky: StickyPartitioner,
    ) -> None:
        self.name = name
        self.sticky_partition = sticky_partition
        self.batch_size = batch_size
        self.sticky = sticky
        self.takes_turns = False
        self.batches = [None] * partition_count


@cython.final
@cython.cclass
class OpenBatch(BatchBuilder):
    """A batch that takes records for one partition. See `_fallback.batch_table.OpenBatch`."""

    def __init__(
        self,
        size_max_bytes: cython.Py_ssize_t,
        pool: Pool,
        topic: TopicBatches,
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
class BatchTable:
    """The topics, their open batches, the sealed ones, the memory in use. See `_fallback.batch_table.BatchTable`."""

    def __init__(
        self,
        batch_size: cython.Py_ssize_t,
        buffer_memory: cython.longlong,
        clock_ms: object,
        partitioner: Partitioner,
        *,
        value_size_safe: cython.Py_ssize_t,
        system_clock: bool,
        new_lock: object,
    ) -> None:
        self.topics = {}
        self.refusal = None
        self._has_function = partitioner.function is not None
        self.decides_each = self._has_function or partitioner.every_record
        self._buffer_memory = buffer_memory
        self._used = 0
        self._clock_ms = clock_ms
        self._system_clock = system_clock
        self._value_size_safe = value_size_safe
        self._open = {}
        self._sealed = []
        self._hash = HASHES[partitioner.key_hash]
        self._key_hash = partitioner.key_hash
        self._null_is_a_key = partitioner.null_is_a_key
        self._empty_is_a_key = partitioner.empty_is_a_key
        self._pool = Pool(max(batch_size, _HEADER_SIZE + _VARINT_SIZE_MAX), buffer_memory)

    # ---- reading

    @property
    def used_bytes(self) -> int:
        """Memory in use by open, sealed and unreleased batches."""
        return self._used

    @property
    def is_full(self) -> bool:
        """Whether `buffer_memory` is in use."""
        return self._used >= self._buffer_memory

    @property
    def has_sealed(self) -> bool:
        """Whether there are sealed batches to take."""
        return bool(self._sealed)

    def now_ms(self) -> int:
        """Return the time, by the wall clock."""
        return self._now()

    def _now(self) -> cython.Py_ssize_t:
        time: timespec
        if self._system_clock:
            clock_gettime(CLOCK_REALTIME, cython.address(time))
            return cython.cast(cython.longlong, time.tv_sec) * 1000 + time.tv_nsec // 1_000_000
        return self._clock_ms()

    def hash_of(self, key: bytes | None) -> int:
        """Return the hash of a key, not negative; -1 if no key selects the record's partition."""
        return self._hash_of(key)

    def _hash_of(self, key: bytes | None) -> cython.Py_ssize_t:
        if key is None:
            if not self._null_is_a_key:
                return -1
            key = b""
        elif not self._empty_is_a_key and not key:
            return -1
        if self._key_hash == _MURMUR2:
            return murmur2(key) & 0x7FFFFFFF
        return self._hash(key)

    def open_batches(self) -> list:
        """Return the open batches, in the order in which they were opened."""
        return list(self._open)

    # ---- topics

    def add_topic(self, topic: TopicBatches) -> None:
        """Add a topic."""
        self._last_name = None
        self.topics[topic.name] = topic

    def remove_topic(self, name: str) -> list:
        """Remove a topic, if it is known; return its open batches."""
        self._last_name = None
        topic: TopicBatches = self.topics.pop(name, None)
        return [] if topic is None else self.resize(topic, 0)

    def resize(self, topic: TopicBatches, count: cython.Py_ssize_t) -> list:
        """Change the number of partitions of a topic; return the open batches of those that are removed."""
        added: list = [None] * count
        known: cython.Py_ssize_t = len(topic.batches)
        if count > known:
            topic.batches.extend(added[known:])
            return []
        removed: list = topic.batches[count:]
        # In one go.
        del topic.batches[count:]
        return [batch for batch in removed if batch is not None]

    # ---- records in

    def take(
        self, topic: object, value: object, key: object, headers: object, partition: object, timestamp_ms: object
    ) -> Ticket | None:
        """Add a record that is plain, small and fits its open batch; None for any other: try `OpenBatches.append`."""
        return self.take_plain(topic, value, key, headers, partition, timestamp_ms)

    def take_plain(
        self, topic: object, value: object, key: object, headers: object, partition: object, timestamp_ms: object
    ) -> Ticket | None:
        """The same, for compiled callers."""
        if type(value) is bytearray:
            value = bytes(value)
        size: cython.Py_ssize_t = _size_of(value, key)
        tail: bytes | None = None
        hashed: cython.longlong = -1
        number: cython.longlong = 0
        if headers is not None:
            tail = _encoded(headers)
            if tail is None:
                return None
            size += PyBytes_GET_SIZE(tail) + _VARINT_SIZE_MAX * len(headers)
        if size > self._value_size_safe:
            return None
        time: cython.longlong = self._now() if timestamp_ms is None else _number_of(timestamp_ms)
        if partition is not None:
            number = _number_of(partition)
        elif self._has_function:
            return None
        else:
            hashed = self._hash_of(key)
        if topic is not self._last_name:  # mostly it is the same object, which saves looking it up
            if not isinstance(topic, str):
                return None
            self._last_topic = self.topics.get(topic)
            self._last_name = topic
        known: TopicBatches = self._last_topic
        # In one go.
        if known is None or time < 0 or self.refusal is not None or self._used >= self._buffer_memory:
            return None
        if partition is None:
            number = self._partition_for(known, hashed)
        if not 0 <= number < len(known.batches):
            return None
        found: object = known.batches[number]
        if found is None:
            return None
        ticket: Ticket = self._add(cython.cast(OpenBatch, found), time, key, value, tail)
        if self.decides_each and partition is None and hashed < 0 and ticket is not None:
            known.sticky_partition = number
        return ticket

    def _partition_for(self, topic: TopicBatches, hashed: cython.longlong) -> cython.Py_ssize_t:
        """Return the partition of a record that names none; -1 if `OpenBatches` chooses it. Runs no Python code."""
        count: cython.Py_ssize_t = len(topic.batches)
        if hashed >= 0:
            return hashed % count if count else -1
        if not self.decides_each:
            return topic.sticky_partition
        if not topic.takes_turns:
            return -1
        return 0 if topic.sticky_partition + 1 >= count else topic.sticky_partition + 1

    def add(
        self,
        batch: OpenBatch,
        time_ms: cython.longlong,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
    ) -> Ticket | None:
        """Add a record to an open batch; None if it does not fit, or the batch is not open."""
        return None if batch.topic is None else self._add(batch, time_ms, key, value, headers)

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

    # ---- batches

    def new_batch(self, topic: TopicBatches, partition: cython.Py_ssize_t, promise: Outcome) -> OpenBatch:
        """Make an empty batch, which is not in the table."""
        return OpenBatch(topic.batch_size, self._pool, topic, partition, promise, self._now())

    def open(
        self,
        batch: OpenBatch,
        time_ms: cython.longlong,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
    ) -> Ticket | None:
        """Put a new batch into the table, with its first record; None if that is not possible any more."""
        batch.put(time_ms, key, value, headers)
        return ticket_of(batch.promise, 0, time_ms) if self.insert(batch) else None

    def insert(self, batch: OpenBatch) -> cython.bint:
        """Put a new batch into the table; runs no Python code."""
        batches: list = batch.topic.batches
        if self.refusal is not None or batch.partition >= len(batches) or batches[batch.partition] is not None:
            return False
        batches[batch.partition] = batch
        self._open[batch] = None
        self._used += batch.size_bytes
        return True

    def seal(self, batch: OpenBatch) -> bool:
        """Take a batch out of the open ones; False if it is not open. One without records is dropped."""
        if batch.topic is None:
            return False
        batches: list = batch.topic.batches
        if batch.partition < len(batches) and batches[batch.partition] is batch:
            batches[batch.partition] = None
        batch.topic = None
        del self._open[batch]
        if batch.records_count:
            self._sealed.append(batch)
        else:
            self._used -= _HEADER_SIZE
        return True

    def sealed_batches(self) -> list:
        """Return the sealed batches, oldest first, and keep them; see `remove_sealed`."""
        return list(self._sealed)

    def remove_sealed(self, batches: list) -> bool:
        """Remove what `sealed_batches` returned; False if another thread has removed them."""
        count: cython.Py_ssize_t = len(batches)
        if count and (len(self._sealed) < count or self._sealed[0] is not batches[0]):
            return False
        del self._sealed[:count]
        return True

    def release(self, size_bytes: cython.longlong) -> None:
        """Count the memory of a batch as free."""
        self._used -= size_bytes


# -- what is plain


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _size_of(value: object, key: object) -> cython.Py_ssize_t:
    """Return the size of a value; `_TOO_LARGE` if the value or the key is not plain, or the key not small."""
    if key is not None and (type(key) is not bytes or PyBytes_GET_SIZE(key) > _KEY_SIZE_SAFE):
        return _TOO_LARGE
    if value is None:
        return 0
    return PyBytes_GET_SIZE(value) if type(value) is bytes else _TOO_LARGE


@cython.cfunc
@cython.inline
def _number_of(value: object) -> cython.longlong:
    """Return a timestamp or a partition; -1 if it is none."""
    overflow: cython.int = 0
    if type(value) is not int:
        return -1
    number: cython.longlong = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
    return -1 if overflow else number


@cython.cfunc
def _encoded(headers: object) -> bytes | None:
    """Encode headers; None for wrong ones, which `OpenBatches.append` refuses with a reason."""
    if type(headers) is not list and type(headers) is not tuple:
        return None
    try:
        return encode_headers(headers)
    except Exception:  # noqa: BLE001 - as above
        return None


# -- what a user calls


@cython.cclass
class SendFastPath:
    """The base of `Producer`: its `send`, once per record.

    A subclass has `_send_slowly`, which gets the records that `BatchTable.take` does not take, and all records while
    there is no table.
    """

    _table: BatchTable

    def __cinit__(self, *_: object, **__: object):
        self._table = None

    def _send_through(self, table: BatchTable | None) -> None:
        """Send through this table; None sends everything by `_send_slowly`."""
        self._table = table

    @cython.annotation_typing(False)
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
        table: BatchTable = self._table
        if table is not None:
            ticket: Ticket = table.take_plain(topic, value, key, headers, partition, timestamp_ms)
            if ticket is not None:
                return ticket
        return self._send_slowly(topic, value, key, headers, partition, timestamp_ms)
