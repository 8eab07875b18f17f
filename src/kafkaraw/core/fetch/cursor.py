"""`RecordCursor`: the batches that a consumer has in hand, and how far the caller has read them. Pure.

The cursor takes whole responses in hand, so that the caller crosses threads, and the next Fetch is sent, once for each
response. The caller reads batches, records, or about a megabyte at a time. It may mix these ways of reading, and may
stop at any record without losing the others. Both faces of the consumer read here, the blocking one on its caller's
thread while it is in no call on the loop. This is the only code that runs per record in Python: the delivered offset is
the last record + 1, and is not written anywhere. This module must not depend on fetching. Part of `SubscriptionState`.
Start at `next_batch` and `records`.

Ctrl-C and what other signal handlers raise may come at any call and at any jump back (that is where Python looks for
signals). After any interruption, the next record to return is the one behind the last record returned: the cursor first
chooses what to return, and then stores the choice in statements without a call or a jump, the last ones before `return`
or `yield`. A handler may also read, seek or close itself. So before those statements the cursor compares `_changes`
with its value at the choice; if it differs, the cursor chooses again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from types import GeneratorType
from typing import Final, TypeAlias, TypeVar

from kafkaraw.errors import DeserializationError, ProtocolError, UsageError
from kafkaraw.records import Batch, Record, TopicPartition

T = TypeVar("T")
Conversion: TypeAlias = Callable[[list[Batch]], tuple[T, Sequence[Batch]]]
"""Returns what the caller is given for some batches, and the batches or rests of batches that are left.

When it raises a `ProtocolError`, the first wire batch of the first batch is damaged.
"""


class _InNext:
    """`next_record` is decoding a record; a generator detects that by itself."""


_IN_NEXT: Final = _InNext()


class RecordCursor:
    """The batch that is being read record by record, how far it has been read, and the batches that wait behind it.

    Args:
        paused: the paused partitions: none of their records are returned; those in hand stay.

    Attributes:
        must_enter_loop: while set, no records are returned, as if none were in hand, so the next call uses the loop.
    """

    def __init__(self, paused: Collection[TopicPartition] = ()) -> None:
        self.must_enter_loop = False
        self._paused = paused
        self._visits = 0
        self._giving: Generator[Record, None, None] | _InNext | None = None  # what may be making a record
        self._changes = 0  # how often batches that wait, or the one being read, were chosen, moved or dropped
        self._waiting: list[Batch] = []  # the loop's thread may still put some at its end after a call was interrupted
        self._batch: Batch | None = None  # the one being read
        self._records: Iterator[Record] | None = None  # None, too, when reading it was interrupted
        self._last: Record | None = None
        self._given: dict[TopicPartition, int] = {}  # the batches of the last call that gave some: where they start
        self._settled: Record | None = None  # the last record, if the caller has returned since
        self._moved: dict[TopicPartition, None] = {}  # see `moved`

    def put(self, batches: Iterable[Batch]) -> None:
        """Take batches in hand, behind those that are there."""
        came = list(batches)
        self._waiting.extend(came)
        self._moved.update((batch.topic_partition, None) for batch in came)

    # -- returning records

    def next_batch(self) -> Batch | None:
        """Return the rest of the batch that was being read, or the next batch; None when there is none."""
        self._check_not_inside()
        while True:
            choice = self._come_for_next()
            if choice is None:
                return None
            index, batch, change = choice
            of = batch.topic_partition
            given = {of: batch.start_offset}
            if self._changes == change:
                self._moved[of] = None
                self._given = given
                del self._waiting[index]
                return batch

    def take(self, records_max: int | None, size_bytes: int | None = None) -> list[Batch]:
        """Return batches for one call, one for each partition.

        Args:
            records_max: maximum number of records in all of them together; None is no limit.
            size_bytes: stop when they have this many bytes; None is no limit.
        """
        return self.take_converted(_unchanged, records_max, size_bytes)

    def take_converted(self, convert: Conversion[T], records_max: int | None, size_bytes: int | None = None) -> T:
        """As `take`, and convert the batches. If the conversion fails, they stay in hand, except a damaged wire batch.

        Args:
            convert: called with an empty list when there are no batches to return.
            records_max: as `take`.
            size_bytes: as `take`.

        Raises:
            CorruptBatchError: the first wire batch is damaged; the next call continues behind it.
            BatchTooLargeError: as above.
        """
        self._check_not_inside()
        while True:
            batches, count, behind, change = self._chosen(records_max, size_bytes)
            try:
                converted, left = convert(batches)
            except ProtocolError:
                if batches:
                    self._skip_damage_of(batches, count, behind, change)
                raise
            starts = {batch.topic_partition: batch.start_offset for batch in left}
            given = {
                of: batch.start_offset
                for batch in batches
                if starts.get(of := batch.topic_partition) != batch.start_offset
            }
            self._moved.update(dict.fromkeys(given))
            waiting = [*left, *behind]
            if self._changes == change:
                self._given = given
                self._waiting[:count] = waiting
                return converted

    def _skip_damage_of(self, batches: list[Batch], count: int, behind: list[Batch], change: int) -> None:
        """Skip the first wire batch of the first batch, which is damaged: the next call continues behind it."""
        rest = batches[0].behind_damage()
        waiting = [*([rest] if rest.records_count else ()), *batches[1:], *behind]
        self._moved[rest.topic_partition] = None
        if self._changes == change:
            self._waiting[:count] = waiting

    def _chosen(self, records_max: int | None, size_bytes: int | None) -> tuple[list[Batch], int, list[Batch], int]:
        """The batches of one call, how many that wait they are made of, what is left of these, and `_changes`."""
        choice = self._come_for_next()
        if choice is None:
            return [], 0, [], self._changes
        _, _, change = choice
        count, left = 0, list[Batch]()
        taken: dict[TopicPartition, Batch] = {}
        while (records_max is None or records_max > 0) and (size_bytes is None or size_bytes > 0):
            next_one = self._waiting[count : count + 1]
            if not next_one or next_one[0].topic_partition in taken:
                break  # a second one of a partition waits for the next call
            batch = next_one[0]
            count += 1
            if batch.topic_partition in self._paused:
                left.append(batch)
                continue
            if records_max is not None:
                head = batch.first(records_max)
                if head.next_offset < batch.next_offset:
                    left.append(batch.starting_at(head.next_offset))
                batch = head
                records_max -= batch.records_count
            if size_bytes is not None:
                size_bytes -= batch.size_bytes
            taken[batch.topic_partition] = batch
        return list(taken.values()), count, left, change

    def records(self) -> Iterator[Record]:
        """Yield the records in hand; ends when none is left.

        Raises:
            CorruptBatchError: a wire batch is damaged; the next call continues behind it.
            DeserializationError: a record cannot be deserialized; the next call returns the same record again.
            UsageError: a record is being decoded.
        """
        self._check_not_inside()
        self._giving = records = self._one_by_one()
        return records

    def _one_by_one(self) -> Generator[Record, None, None]:
        while self._begin():
            records = self._records
            if records is None:
                continue
            try:
                for record in records:
                    self._last = record
                    yield record
                    if self._records is not records:  # dropped, or taken over by another way of reading
                        break
                    if self.must_enter_loop:
                        return
                else:
                    self._end_of(records)
            except GeneratorExit:
                raise
            except BaseException as error:
                if self._records is records:  # else something else is being read by now
                    self._records = None  # it may have had the next record already
                    self._stopped_by(error)
                raise

    def next_record(self) -> Record | None:
        """Return the next record; None when none is left in hand.

        Raises:
            CorruptBatchError: as `records`.
            UsageError: a record is being decoded.
        """
        if self._giving is not None:
            self._check_not_inside()
        while self._begin():
            records = self._records
            if records is None:
                continue
            self._giving = _IN_NEXT
            try:
                record = next(records, None)
            except BaseException as error:
                if self._records is records:  # else something else is being read by now
                    self._records = None  # it may have had the next record already
                    self._stopped_by(error)
                raise
            finally:
                self._giving = None
            if self._records is not records:  # dropped
                continue
            if record is not None:
                self._last = record
                return record
            self._end_of(records)
        return None

    # -- asking, and letting go

    @property
    def holds_records(self) -> bool:
        """Whether records in hand can be returned now."""
        batches = self._waiting if self._batch is None else (self._batch, *self._waiting)
        return not self.must_enter_loop and any(batch.topic_partition not in self._paused for batch in batches)

    @property
    def mark(self) -> tuple[int, int]:
        """A value that changes whenever the caller asks for records; any thread may read it."""
        last = self._last
        return self._visits, -1 if last is None else last.offset

    def position_in(self, topic_partition: TopicPartition) -> int | None:
        """Return the offset of the next record of this partition; None when none is in hand."""
        batch, last = self._read_so_far()
        if batch is not None and batch.topic_partition == topic_partition:
            return _next_offset(batch, last)
        # Metrics ask on other threads, so the batches that wait are looked at as they are now.
        starts = (batch.start_offset for batch in list(self._waiting) if batch.topic_partition == topic_partition)
        return next(starts, None)

    def positions(self) -> dict[TopicPartition, int]:
        """Return `position_in` of every partition with records in hand; any thread may call it."""
        batch, last = self._read_so_far()
        # The first batch of a partition comes first, so it is the last one to be put into the dictionary.
        found = {waiting.topic_partition: waiting.start_offset for waiting in reversed(list(self._waiting))}
        if batch is not None:
            found[batch.topic_partition] = _next_offset(batch, last)
        return found

    def moved(self) -> Collection[TopicPartition]:
        """Return the partitions of which `position_in` may differ from when this was called last."""
        moved, self._moved = self._moved, {}
        batch = self._batch
        return moved.keys() if batch is None else {**moved, batch.topic_partition: None}

    @property
    def unsettled(self) -> dict[TopicPartition, int]:
        """Return where the last returned batches or record start, if the caller has not asked for more since."""
        batch, last = self._read_so_far()
        if batch is None:
            return self._given
        return {} if last is None or last is self._settled else {batch.topic_partition: last.offset}

    def settle(self) -> None:
        """Count the returned records as processed: the caller asks for more."""
        self._given, self._settled = {}, self._last

    def set_aside(self) -> None:
        """Put what is left of the batch that is being read in front of those that wait; to be done after a pause."""
        while (batch := self._batch) is not None:
            last = self._last
            given, rest = self.unsettled, batch.starting_at(_next_offset(batch, last))
            front = [rest] if rest.records_count else []  # none when only a transaction's marker is left
            self._moved[batch.topic_partition] = None
            if self._batch is batch and self._last is last:
                self._changes += 1
                self._given = given
                self._waiting[:0] = front
                self._batch = self._records = self._last = None
                return

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Drop everything that is in hand, or what belongs to these partitions: at once, since there may be thousands.

        Args:
            partitions: a set or the keys of a dict; None is all.
        """
        if partitions is None:
            self._moved.update((batch.topic_partition, None) for batch in self._waiting)
            nothing: list[Batch] = []
            # No call in between: another thread, which has chosen a batch, sees both or neither (`close` may do that).
            self._waiting[:] = nothing
            self._changes += 1
            self._forget()
            self._given = {}
            return
        self._changes += 1
        self._moved.update(dict.fromkeys(partitions))
        if self._batch is not None and self._batch.topic_partition in partitions:
            self._forget()
        self._waiting[:] = [batch for batch in self._waiting if batch.topic_partition not in partitions]
        self._given = {of: start for of, start in self._given.items() if of not in partitions}

    # -- inside

    def _check_not_inside(self) -> None:
        """Refuse to read in a deserializer or a signal handler that runs while a record is being decoded.

        That record would be returned after later ones, or not at all.

        Raises:
            UsageError: a record is being decoded.
        """
        giving = self._giving
        if isinstance(giving, _InNext) or (isinstance(giving, GeneratorType) and giving.gi_running):
            raise UsageError(
                "a deserializer, or a signal handler that interrupts the reading of a record, cannot read from the "
                "same consumer: the record comes first"
            )

    def _read_so_far(self) -> tuple[Batch | None, Record | None]:
        """The batch that is being read and the last record given of it, though their reader may go on meanwhile."""
        while True:
            batch, last = self._batch, self._last
            if batch is None or last is None or (last.topic, last.partition) == batch.topic_partition:
                return batch, last

    def _come_for_next(self) -> tuple[int, Batch, int] | None:
        """The caller asks for a batch: return the index of the next one, the batch, and `_changes`; or None."""
        self._visits += 1
        self._changes += 1
        self.set_aside()
        self._given = {}
        if self.must_enter_loop:
            return None
        change = self._changes
        for index, batch in enumerate(self._waiting):
            if batch.topic_partition not in self._paused:
                return index, batch, change
        return None

    def _begin(self) -> bool:
        """See that a batch is being read; says whether there is one."""
        while True:
            batch = self._batch
            is_paused = self._paused and batch is not None and batch.topic_partition in self._paused
            if batch is not None and not is_paused and not self.must_enter_loop:
                if self._records is None:
                    last = self._last
                    records = iter(batch.starting_at(_next_offset(batch, last)))
                    if self._batch is not batch or self._last is not last:
                        continue
                    self._records = records
                return True
            choice = self._come_for_next()
            if choice is None:
                return False
            index, batch, change = choice
            records = iter(batch)  # calls interceptors: meanwhile they or other threads may close, seek or read
            of = batch.topic_partition
            if self._changes == change and self._batch is None:
                self._moved[of] = None
                self._last, self._records, self._batch = None, records, batch
                del self._waiting[index]
                return True

    def _stopped_by(self, error: BaseException) -> None:
        """Handle a record that could not be returned, if the batch or the record is the cause, not an interruption."""
        if isinstance(error, DeserializationError):
            self._set_aside_before_the_next()
        elif isinstance(error, ProtocolError):
            self._skip_damage()

    def _skip_damage(self) -> None:
        """Skip the wire batch of the next record, which is damaged."""
        batch = self._batch
        if batch is None:
            return
        rest = batch.starting_at(_next_offset(batch, self._last)).behind_damage()
        front = [rest] if rest.records_count else []
        self._moved[batch.topic_partition] = None
        if self._batch is batch:
            self._changes += 1
            self._given = {}
            self._waiting[:0] = front
            self._batch = self._records = self._last = None

    def _set_aside_before_the_next(self) -> None:
        """The next record cannot be given; the caller, who has asked for it, is done with those before."""
        self.set_aside()
        self._given = {}

    def _forget(self) -> None:
        if self._batch is not None:
            self._moved[self._batch.topic_partition] = None
        self._changes += 1
        self._batch = self._records = self._last = None

    def _end_of(self, records: Iterator[Record]) -> None:
        """All of the batch that is being read was given; unless a signal handler has noticed that, and read on."""
        batch = self._batch
        of = None if batch is None else batch.topic_partition
        if of is not None and self._records is records:
            self._moved[of] = None
            self._batch = self._records = self._last = None


def _next_offset(batch: Batch, last: Record | None) -> int:
    """Return the next offset of a batch behind its last returned record."""
    return batch.start_offset if last is None else last.offset + 1


def _unchanged(batches: list[Batch]) -> tuple[list[Batch], Sequence[Batch]]:
    return batches, ()


def by_partition(batches: list[Batch]) -> tuple[dict[TopicPartition, Batch], Sequence[Batch]]:
    """The `Conversion` of `poll`."""
    return {batch.topic_partition: batch for batch in batches}, ()
