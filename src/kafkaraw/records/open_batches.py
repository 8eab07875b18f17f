"""The open batches of a producer: which partition takes a record, when a batch is opened and when it is sealed.

These decisions are made about once per batch, by the same code for both implementations. What runs once per record is
`BatchTable.take`, compiled or in plain Python: it adds a record to an open batch that has room for it, and leaves all
other records to `OpenBatches.append`. The table is the state that threads share, and each of its methods is one atomic
change; so nothing here holds a lock. A method that returns False or None has changed nothing, because another thread
was faster; then the caller looks at the table again.

The client decides when batches are sent (`seal_due`, `seal_all`). Start at `OpenBatches.append`.

Source: Kafka's RecordAccumulator and BuiltInPartitioner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from kafkaraw.errors import UsageError
from kafkaraw.records._implementation import BatchTable, Ticket, TopicBatches, as_bytes, encode_headers
from kafkaraw.records.compression import codec_by_name
from kafkaraw.records.interface import AppendStatus, Lock
from kafkaraw.records.partitioning import (
    PARTITIONERS,
    STICKY_SIZE_MAX,
    Partitioner,
    StickyPartitioner,
    chosen,
    whole_number,
)
from kafkaraw.records.promise import BatchPromise, Waiter
from kafkaraw.records.record import Headers
from kafkaraw.records.sealed import SealedBatch

if TYPE_CHECKING:
    from kafkaraw.records._fallback.batch_table import OpenBatch

_SIZE_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_STICKY: Final = -1
"""In place of a partition: the sticky one, whichever that is at the moment."""
_OK: Final = AppendStatus.OK  # members of an enum are slow to look up
_OPENED: Final = AppendStatus.OPENED
_SEALED: Final = AppendStatus.SEALED
_FULL: Final = (AppendStatus.FULL, None)
_UNKNOWN_TOPIC: Final = (AppendStatus.UNKNOWN_TOPIC, None)

CheckSize: TypeAlias = Callable[[str, bytes | None, bytes | None, Headers | None], None]


def _accept(*_: object) -> None:
    pass


class OpenBatches:
    """The open batches, one per partition at most. Every method is thread-safe.

    Args:
        batch_size: uncompressed bytes at which a batch is sealed; a larger record gets a batch of its own.
        codec: name of the compression.
        level: its level; None for the codec's default.
        buffer_memory: bytes of open, sealed and unreleased batches above which no record is added.
        clock_ms: wall clock, milliseconds.
        waiter: how tickets wait; from the client.
        new_lock: makes the lock of the plain Python implementation; `threading.RLock`. The compiled one has the GIL.
        value_size_safe: values (and headers) of at most this many bytes need no check of size if the key has
            `KEY_SIZE_SAFE` or less.
        check_size: raises if a record, of which topic, value, key and headers are given, is too large; called for the
            records that need this check, and those that open a batch.
        system_clock: `clock_ms` is the system's clock, which the compiled implementation reads without a call.
        partitioner: chooses the partition of records that name none.

    Attributes:
        table: the state that the threads share.
        take: `BatchTable.take`, for callers in Python.
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
        new_lock: Callable[[], Lock],
        value_size_safe: int = _SIZE_MAX,
        system_clock: bool = False,
        partitioner: Partitioner = PARTITIONERS["default"],
        check_size: CheckSize = _accept,
    ) -> None:
        self.table: BatchTable = BatchTable(
            batch_size,
            buffer_memory,
            clock_ms,
            partitioner,
            value_size_safe=value_size_safe,
            system_clock=system_clock,
            new_lock=new_lock,
        )
        self.take: Callable[
            [str, bytes | bytearray | None, bytes | None, Headers | None, int | None, int | None], Ticket | None
        ] = self.table.take
        self._batch_size = batch_size
        self._codec = codec_by_name(codec)
        self._level = level
        self._waiter = waiter
        self._function = partitioner.function
        self._every_record = partitioner.every_record
        self._check_size = check_size

    @property
    def used_bytes(self) -> int:
        """Memory in use by open, sealed and unreleased batches."""
        return self.table.used_bytes

    # ---- topics

    def set_partitions(self, topic: str, count: int) -> None:
        """Set the number of partitions of a topic, at least 1; seal batches of partitions that no longer exist."""
        if count < 1:
            raise UsageError(f"topic {topic} cannot have {count} partitions")
        known = self.table.topics.get(topic)
        if known is None:
            # Not always 0: many short-lived producers of one record each must not all write to one partition.
            first = self.table.now_ms() % count
            sticky = StickyPartitioner(count, min(self._batch_size // 2, STICKY_SIZE_MAX))
            known = TopicBatches(topic, count, first, self._batch_size, sticky)
            known.takes_turns = self._every_record and self._function is None
            self.table.add_topic(known)
            return
        known.sticky_partition %= count
        known.sticky.set_partitions(count)
        known.takes_turns = self._every_record and self._function is None
        for batch in self.table.resize(known, count):
            self.seal(batch)

    def set_partition_order(self, topic: str, order: Sequence[int]) -> None:
        """Set which partitions take the records without a key, in a cyclic order.

        Args:
            topic: an unknown topic is ignored.
            order: partitions of the topic, each as often as its share; empty for all of them in turn.
        """
        known = self.table.topics.get(topic)
        if known is not None:
            known.sticky.set_order(order)
            known.takes_turns = self._every_record and self._function is None and not order

    def limit_batches(self, topic: str, size: int) -> None:
        """Seal the next batches of a topic, if it is known, at a smaller size than `batch_size`."""
        known = self.table.topics.get(topic)
        if known is not None:
            known.batch_size = min(size, self._batch_size)

    def forget_topic(self, topic: str) -> None:
        """Refuse records of the topic from now on; seal its open batches."""
        for batch in self.table.remove_topic(topic):
            self.seal(batch)

    # ---- records in

    def refuse(self, refusal: Callable[[], NoReturn] | None) -> None:
        """Call `refusal`, which raises, instead of adding records; None to add them again.

        A record that a thread is adding at this moment is either refused, or in a batch that `seal_all` returns.
        """
        self.table.refusal = refusal

    def check_refusal(self) -> None:
        """Raise if records are refused."""
        refusal = self.table.refusal
        if refusal is not None:
            refusal()

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
        table = self.table
        refusal = table.refusal
        if refusal is not None:
            refusal()
        known = table.topics.get(topic)  # once: a topic that becomes known later is left to the next call
        if type(value) is not bytes and value is not None:
            value = as_bytes(value, "value")
        if type(key) is not bytes and key is not None:
            key = as_bytes(key, "key")
        if partition is None and table.decides_each and known is not None:
            partition = self._decide(known, key, value)
        ticket = self.take(topic, value, key, headers, partition, timestamp_ms)
        if ticket is not None:
            return _OK, ticket
        tail = encode_headers(headers) if headers else None
        self._check_size(topic, value, key, headers)
        time_ms = table.now_ms() if timestamp_ms is None else _time_of(timestamp_ms)
        if known is None:
            return _UNKNOWN_TOPIC
        number = _STICKY
        if partition is not None:
            number = whole_number(partition)
            if not 0 <= number < len(known.batches):
                return _UNKNOWN_TOPIC
        elif (hashed := table.hash_of(key)) >= 0:
            number = hashed % max(1, len(known.batches))  # 0: it was forgotten just now
        if table.is_full:
            self.check_refusal()
            self.seal_open()
            return _FULL
        return self._append_to(known, number, time_ms, key, value, tail)

    def _decide(self, topic: TopicBatches, key: bytes | None, value: bytes | None) -> int | None:
        """Choose by the user's function, or the next partition if each record takes another one; None leaves it open.

        A user's function may send records itself. If a topic `takes_turns`, `take` makes the same choice, and moves on
        with the records that it takes.
        """
        if self._function is not None:
            count = len(topic.batches)  # 0: it was forgotten just now
            return chosen(self._function, topic.name, key, value, count) if count else None
        if self.table.hash_of(key) >= 0:
            return None
        partition = topic.sticky_partition = topic.sticky.next_after(topic.sticky_partition)
        return partition

    def _append_to(
        self,
        topic: TopicBatches,
        number: int,
        time_ms: int,
        key: bytes | None,
        value: bytes | None,
        tail: bytes | None,
    ) -> tuple[AppendStatus, Ticket | None]:
        """Append to the open batch of a partition if the record fits there, or to a new one.

        A batch without room is sealed. If that moves the sticky partition, the record follows.
        """
        table, sealed = self.table, False
        while True:
            refusal = table.refusal
            if refusal is not None:  # it may have been set since the last call into user code
                refusal()
            partition = topic.sticky_partition if number == _STICKY else number
            try:
                batch = topic.batches[partition]
            except IndexError:  # it was removed meanwhile
                if number != _STICKY or not topic.batches:
                    return _UNKNOWN_TOPIC
                topic.sticky_partition = 0  # a thread had moved it by the number of partitions that there were before
                continue
            if batch is not None:
                ticket = table.add(batch, time_ms, key, value, tail)
                if ticket is not None:
                    return _SEALED if sealed else _OK, ticket
                sealed = True
                if self.seal(batch) and number == _STICKY and topic.sticky_partition != partition:
                    continue
            batch = self.new_batch(topic, partition)
            ticket = table.open(batch, time_ms, key, value, tail)
            if ticket is not None:
                if batch.size_bytes > topic.batch_size:
                    self.seal(batch)
                return _SEALED if table.has_sealed else _OPENED, ticket

    def new_batch(self, topic: TopicBatches, partition: int) -> OpenBatch:
        """Make an empty batch for a partition, which is not in the table yet."""
        promise = BatchPromise(topic.name, partition, self._waiter)
        return self.table.new_batch(topic, partition, promise)

    # ---- batches out

    def seal(self, batch: OpenBatch) -> bool:
        """Seal a batch, and move the sticky partition if that was its turn; False if it was sealed already.

        If each record takes another partition, a sealed batch moves nothing.
        """
        topic = batch.topic
        if topic is None or not self.table.seal(batch):
            return False
        if batch.partition == topic.sticky_partition and not self._every_record:
            topic.sticky_partition = topic.sticky.note_sealed(batch.partition, batch.size_bytes)
        return True

    def seal_open(self) -> None:
        """Seal every batch."""
        for batch in self.table.open_batches():
            self.seal(batch)

    def seal_due(self, now_ms: int, linger_ms: int) -> list[SealedBatch]:
        """Seal batches that have waited `linger_ms`, and return all sealed ones, in order.

        A batch with a creation time in the future is due too: the wall clock was set back.
        """
        for batch in self.table.open_batches():  # in the order in which they were opened
            if batch.created_ms <= now_ms < batch.created_ms + linger_ms:
                break
            self.seal(batch)
        return self.take_sealed()

    def seal_all(self) -> list[SealedBatch]:
        """Seal every batch, and return all sealed ones, in order."""
        self.seal_open()
        return self.take_sealed()

    def take_sealed(self) -> list[SealedBatch]:
        """Return the batches sealed so far, oldest first; each is returned once.

        The table gives them away when the list is complete: an exception before that, such as one of a signal handler,
        loses none.
        """
        while True:
            batches = self.table.sealed_batches()
            sealed = [
                SealedBatch(batch, batch.promise, codec=self._codec, level=self._level, created_ms=batch.created_ms)
                for batch in batches
            ]
            if self.table.remove_sealed(batches):
                return sealed

    def next_due_ms(self, linger_ms: int) -> int | None:
        """Return when the next batch is due, by the same clock; None without open batches."""
        batches = self.table.open_batches()
        return batches[0].created_ms + linger_ms if batches else None

    def release(self, sealed: SealedBatch) -> None:
        """Release the memory of a batch that is acknowledged or has failed; a second call does nothing."""
        if not sealed.released:
            sealed.released = True
            self.table.release(sealed.size_bytes)


def _time_of(timestamp_ms: object) -> int:
    """Check the timestamp of a record to be sent; -1, which old records have, cannot be sent."""
    if type(timestamp_ms) is not int or not 0 <= timestamp_ms <= _INT64_MAX:
        raise UsageError(f"timestamp {timestamp_ms!r} is not a number of milliseconds since 1970; None is now")
    return timestamp_ms
