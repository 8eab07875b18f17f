"""What a consumer has in hand: batches that it took from the fetcher and that the user has not been given yet.

Whole answers are taken, so that threads are crossed and the next Fetch is sent once for each; they are given batch by
batch, record by record, or some megabyte at a time, in any mixture, and nothing is lost when the reader stops in the
middle. Used by both faces of the consumer, by the blocking one on its caller's thread while no call is under way. Knows
nothing of fetching. Start at `next_batch` and `records`.

Ctrl-C and what other signal handlers raise may come at any call and at any jump back (that is where Python looks for
signals). Whatever it interrupts, the next record to give is the one behind the last one that was given: what is given
is decided first, and noted in statements that have neither a call nor a jump, the last ones before `return` or `yield`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias, TypeVar

from kafkaraw.errors import DeserializationError, ProtocolError
from kafkaraw.records import Batch, Record, TopicPartition

T = TypeVar("T")
Conversion: TypeAlias = Callable[[list[Batch]], tuple[T, Sequence[Batch]]]
"""Returns what the user is given for some batches, and the batches or rests of batches that are left.

When it raises a `ProtocolError`, the first wire batch of the first batch is damaged.
"""


class RecordCursor:
    """The batch that is being read record by record, how far it has been read, and the batches that wait behind it.

    Args:
        paused: partitions of which nothing is given for the time being; what is in hand of them stays.

    Attributes:
        called_home: while set, nothing is given, as if nothing was in hand, so that the caller comes to ask for more.
    """

    def __init__(self, paused: Collection[TopicPartition] = ()) -> None:
        self.called_home = False
        self._paused = paused
        self._visits = 0
        self._waiting: list[Batch] = []  # the loop's thread may still put some at its end after a call was interrupted
        self._batch: Batch | None = None  # the one being read
        self._records: Iterator[Record] | None = None  # None, too, when reading it was interrupted
        self._last: Record | None = None
        self._given: dict[TopicPartition, int] = {}  # the batches of the last call that gave some: where they start
        self._settled: Record | None = None  # the last record, when the user has come back since
        self._moved: dict[TopicPartition, None] = {}  # see `moved`

    def put(self, batches: Iterable[Batch]) -> None:
        """Take batches in hand, behind those that are there."""
        came = list(batches)
        self._waiting.extend(came)
        self._moved.update((batch.topic_partition, None) for batch in came)

    # -- giving

    def next_batch(self) -> Batch | None:
        """The rest of the batch that was being read, or the next one; None when there is none to give."""
        index = self._come_for_next()
        if index is None:
            return None
        batch = self._waiting[index]
        given = {batch.topic_partition: batch.start_offset}
        self._moved[batch.topic_partition] = None
        self._given = given
        del self._waiting[index]
        return batch

    def take(self, records_max: int | None, size_bytes: int | None = None) -> list[Batch]:
        """Batches for one call, one for each partition.

        Args:
            records_max: most records in all of them together; None is no limit.
            size_bytes: enough is when they have so many bytes; None is no limit.
        """
        return self.take_converted(_unchanged, records_max, size_bytes)

    def take_converted(self, convert: Conversion[T], records_max: int | None, size_bytes: int | None = None) -> T:
        """As `take`, and convert the batches; if that fails, they stay in hand, but for a damaged wire batch.

        Args:
            convert: is called with no batches when there is nothing to give.
            records_max: as `take`.
            size_bytes: as `take`.

        Raises:
            CorruptBatch: the first wire batch is damaged; the next call goes on behind it.
            BatchTooLarge: as above.
        """
        batches, count, behind = self._chosen(records_max, size_bytes)
        try:
            converted, left = convert(batches)
        except ProtocolError:
            if not batches:
                raise
            rest = batches[0].behind_damage()
            waiting = [*([rest] if rest.records_count else ()), *batches[1:], *behind]
            self._moved[rest.topic_partition] = None
            self._waiting[:count] = waiting
            raise
        starts = {batch.topic_partition: batch.start_offset for batch in left}
        given = {
            of: batch.start_offset for batch in batches if starts.get(of := batch.topic_partition) != batch.start_offset
        }
        self._moved.update(dict.fromkeys(given))
        waiting = [*left, *behind]
        self._given = given
        self._waiting[:count] = waiting
        return converted

    def _chosen(self, records_max: int | None, size_bytes: int | None) -> tuple[list[Batch], int, list[Batch]]:
        """The batches of one call, how many that wait they are made of, and what is left of these."""
        if self._come_for_next() is None:
            return [], 0, []
        count, left = 0, list[Batch]()
        taken: dict[TopicPartition, Batch] = {}
        while (records_max is None or records_max > 0) and (size_bytes is None or size_bytes > 0):
            if count == len(self._waiting) or self._waiting[count].topic_partition in taken:
                break  # a second one of a partition waits for the next call
            batch = self._waiting[count]
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
        return list(taken.values()), count, left

    def records(self) -> Iterator[Record]:
        """Give record by record what is in hand; ends when nothing is left of it.

        Raises:
            CorruptBatch: a wire batch is damaged; the next call goes on behind it.
            DeserializationError: a record cannot be converted; it is the next one to give.
        """
        while self._begin():
            records = self._records
            assert records is not None
            try:
                for record in records:
                    self._last = record
                    yield record
                    if self._records is not records:  # dropped, or taken over by another way of reading
                        break
                    if self.called_home:
                        return
                else:
                    self._forget()
            except GeneratorExit:
                raise
            except BaseException as error:
                if self._records is records:  # else something else is being read by now
                    self._records = None  # it may have had the next record already
                    self._stopped_by(error)
                raise

    def next_record(self) -> Record | None:
        """The next record; None when nothing is left in hand.

        Raises:
            CorruptBatch: as `records`.
        """
        while self._begin():
            records = self._records
            assert records is not None
            try:
                record = next(records, None)
            except BaseException as error:
                self._records = None  # it may have had the next record already
                self._stopped_by(error)
                raise
            if record is not None:
                self._last = record
                return record
            self._forget()
        return None

    # -- asking, and letting go

    @property
    def holds_records(self) -> bool:
        """Whether something in hand can be given now."""
        batches = self._waiting if self._batch is None else (self._batch, *self._waiting)
        return not self.called_home and any(batch.topic_partition not in self._paused for batch in batches)

    @property
    def mark(self) -> tuple[int, int]:
        """Something that is another one whenever the user has come for something since; for any thread to look at."""
        last = self._last
        return self._visits, -1 if last is None else last.offset

    def position_in(self, topic_partition: TopicPartition) -> int | None:
        """The offset of the next record to give of this partition; None when nothing of it is in hand."""
        batch, last = self._read_so_far()
        if batch is not None and batch.topic_partition == topic_partition:
            return _next_offset(batch, last)
        # Metrics ask on other threads, so the batches that wait are looked at as they are now.
        starts = (batch.start_offset for batch in list(self._waiting) if batch.topic_partition == topic_partition)
        return next(starts, None)

    def positions(self) -> dict[TopicPartition, int]:
        """`position_in` of every partition of which something is in hand; for any thread to ask."""
        batch, last = self._read_so_far()
        # The first batch of a partition comes first, so it is the last one to be put into the dictionary.
        found = {waiting.topic_partition: waiting.start_offset for waiting in reversed(list(self._waiting))}
        if batch is not None:
            found[batch.topic_partition] = _next_offset(batch, last)
        return found

    def moved(self) -> Collection[TopicPartition]:
        """The partitions of which `position_in` may tell something else than when this was asked last."""
        moved, self._moved = self._moved, {}
        batch = self._batch
        return moved.keys() if batch is None else {**moved, batch.topic_partition: None}

    @property
    def unsettled(self) -> dict[TopicPartition, int]:
        """What the user was given last and may be busy with, as they have not come for more since: where it starts."""
        batch, last = self._read_so_far()
        if batch is None:
            return self._given
        return {} if last is None or last is self._settled else {batch.topic_partition: last.offset}

    def settle(self) -> None:
        """The user has come back: they are done with what they were given."""
        self._given, self._settled = {}, self._last

    def set_aside(self) -> None:
        """Put what is left of the batch that is being read in front of those that wait; to be done after a pause."""
        batch = self._batch
        if batch is None:
            return
        given, rest = self.unsettled, batch.starting_at(_next_offset(batch, self._last))
        front = [rest] if rest.records_count else []  # none when only a transaction's marker is left
        self._moved[batch.topic_partition] = None
        self._given = given
        self._waiting[:0] = front
        self._batch = self._records = self._last = None

    def drop(self, topic_partition: TopicPartition | None = None) -> None:
        """Let go of everything, or of what belongs to one partition."""
        if topic_partition is None:
            self._moved.update((batch.topic_partition, None) for batch in self._waiting)
            self._waiting.clear()
            self._forget()
            self._given = {}
            return
        self._moved[topic_partition] = None
        if self._batch is not None and self._batch.topic_partition == topic_partition:
            self._forget()
        self._waiting[:] = [batch for batch in self._waiting if batch.topic_partition != topic_partition]
        self._given = {of: start for of, start in self._given.items() if of != topic_partition}

    # -- inside

    def _read_so_far(self) -> tuple[Batch | None, Record | None]:
        """The batch that is being read and the last record given of it, though their reader may go on meanwhile."""
        while True:
            batch, last = self._batch, self._last
            if batch is None or last is None or (last.topic, last.partition) == batch.topic_partition:
                return batch, last

    def _come_for_next(self) -> int | None:
        """The user comes for a batch: which one that waits is the next to give; None when there is none."""
        self._visits += 1
        self.set_aside()
        self._given = {}
        if self.called_home:
            return None
        for index, batch in enumerate(self._waiting):
            if batch.topic_partition not in self._paused:
                return index
        return None

    def _begin(self) -> bool:
        """See that a batch is being read; says whether there is one."""
        while True:
            batch = self._batch
            is_paused = self._paused and batch is not None and batch.topic_partition in self._paused
            if batch is not None and not is_paused and not self.called_home:
                if self._records is None:
                    self._records = iter(batch.starting_at(_next_offset(batch, self._last)))
                return True
            index = self._come_for_next()
            if index is None:
                return False
            batch = self._waiting[index]
            records = iter(batch)  # calls interceptors: meanwhile they or other threads may close, seek or read
            if self._batch is not None or not any(each is batch for each in self._waiting):
                continue
            self._moved[batch.topic_partition] = None
            self._last, self._records, self._batch = None, records, batch
            try:
                self._waiting.remove(batch)
            except ValueError:  # another thread has dropped it just now
                self._forget()
                continue
            return True

    def _stopped_by(self, error: BaseException) -> None:
        """A record could not be given; when the batch or the record is to blame, and no interruption, see to that."""
        if isinstance(error, DeserializationError):
            self._set_aside_before_the_next()
        elif isinstance(error, ProtocolError):
            self._skip_damage()

    def _skip_damage(self) -> None:
        """The wire batch that holds the next record is damaged: go on behind it."""
        batch = self._batch
        if batch is None:
            return
        rest = batch.starting_at(_next_offset(batch, self._last)).behind_damage()
        front = [rest] if rest.records_count else []
        self._moved[batch.topic_partition] = None
        self._given = {}
        self._waiting[:0] = front
        self._batch = self._records = self._last = None

    def _set_aside_before_the_next(self) -> None:
        """The next record cannot be given; whoever asked for it is done with those before."""
        self.set_aside()
        self._given = {}

    def _forget(self) -> None:
        if self._batch is not None:
            self._moved[self._batch.topic_partition] = None
        self._batch = self._records = self._last = None


def _next_offset(batch: Batch, last: Record | None) -> int:
    """Where a batch goes on behind the last record that was given of it."""
    return batch.start_offset if last is None else last.offset + 1


def _unchanged(batches: list[Batch]) -> tuple[list[Batch], Sequence[Batch]]:
    return batches, ()


def by_partition(batches: list[Batch]) -> tuple[dict[TopicPartition, Batch], Sequence[Batch]]:
    """The `Conversion` of `poll`."""
    return {batch.topic_partition: batch for batch in batches}, ()
