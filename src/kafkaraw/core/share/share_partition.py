"""A partition as one share group reads it: which member may have which record. Pure.

The leader of the partition reads batches from `next_fetch_offset` on, and `acquire` locks records in them for a member,
until it acknowledges them, leaves, or the lock expires (`expire`). The caller writes the returned state batches to the
share coordinator and reports the result with `completed`; until then, the records of the write are not available.
The start offset moves forward behind records that the group is done with. ACQUIRED is never stored: after a change of
leader (`load`) such records are available again. Start at `acquire` and `acknowledge`.
Source: kafka.server.share.SharePartition of Kafka 4.3; KIP-932, KIP-1206, KIP-1222.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

from kafkaraw.core.share.in_flight import InFlight, InFlightBatch, InFlightBatches
from kafkaraw.core.share.record_states import STATE_AFTER, AcknowledgeType, AcquireMode, RecordState
from kafkaraw.core.share.state_batches import StateBatch
from kafkaraw.light_classes import NamedTuple, dataclass, field, replace
from kafkaraw.protocol.error_codes import ErrorCode

THROTTLED_DELIVERY_COUNT_MIN: Final = 2
"""Records that were delivered this often, at least, may be delivered in smaller batches."""
BATCH_NOT_ACQUIRED: Final = "The batch cannot be acknowledged. The batch is not in the acquired state."
OFFSET_NOT_ACQUIRED: Final = "The offset cannot be acknowledged. The offset is not acquired."


class Refused(Exception):
    """An acknowledgement that the states of the records do not allow.

    Attributes:
        code: the error code for the member.
        message: Kafka's text.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message: str = message


class LogBatch(NamedTuple):
    """The offsets of a batch in the log."""

    first: int
    last: int


class Acquired(NamedTuple):
    """A range of records that was locked for a member.

    Attributes:
        delivery_count: how often they have been delivered, this time included.
    """

    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """What a member says about a range of records: a type for each, or one for all."""

    first: int
    last: int
    types: Sequence[AcknowledgeType]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the group.

    Attributes:
        delivery_count_limit: how often a record is delivered before it is archived.
        lock_duration_ms: how long a record is locked for a member.
        records_in_flight_max: limit of records between the start offset and the next offset that is read.
        renews: whether members may renew locks.
    """

    delivery_count_limit: int = 5
    lock_duration_ms: int = 30_000
    records_in_flight_max: int = 2_000
    renews: bool = True


class Request(NamedTuple):
    """A member's wish for records.

    Attributes:
        batch_size: number of records after which a new range begins, at the next batch of the log.
        max_records: limit of records; see `AcquireMode`.
    """

    member_id: str
    mode: AcquireMode
    batch_size: int
    max_records: int


@dataclass(slots=True)
class PendingWrite:
    """Changes of states that are to be written.

    Attributes:
        batches: the new states.
    """

    batches: list[StateBatch] = field(default_factory=list)
    parts: list[tuple[InFlightBatch, int]] = field(default_factory=list)


class SharePartition:
    """One share partition on the leader.

    Attributes:
        settings: the settings of the group; they may change at any time.
        start_offset: the first record that the group is not done with.
        next_offset: the offset behind the records that were ever read.
    """

    def __init__(self, settings: Settings, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        self.settings: Settings = settings
        self.start_offset: int = start_offset
        self.next_offset: int = start_offset
        self._batches = InFlightBatches()
        self._locks: list[tuple[float, int, int]] = []  # a heap: when a lock expires, and its first and last offset
        self._may_have_available = True
        for batch in batches:
            if batch.first_offset > self.next_offset:
                self._add(self.next_offset, batch.first_offset - 1, InFlight(RecordState.AVAILABLE, 0))
            state = InFlight(RecordState(batch.state), batch.delivery_count)
            self._add(batch.first_offset, batch.last_offset, state)
        self.advance()

    def _add(self, first: int, last: int, state: InFlight) -> InFlightBatch:
        batch = InFlightBatch(first, last, state)
        self._batches.add(batch)
        self.next_offset = max(self.next_offset, last + 1)
        return batch

    # ---- questions

    @property
    def in_flight(self) -> int:
        """Number of records between the start offset and the next offset that is read."""
        return self.next_offset - self.start_offset if self._batches else 0

    @property
    def batches_in_flight(self) -> int:
        """Number of batches in flight, each with one state or one for each of its records."""
        return sum(1 for _ in self._batches)

    @property
    def complete_count(self) -> int:
        """Number of records from the start offset on that the group is done with (KIP-1226)."""
        return sum(
            last - max(first, self.start_offset) + 1
            for batch in self._batches
            for first, last, state in batch.parts(self.start_offset, batch.last)
            if state.state.is_terminal and last >= self.start_offset
        )

    def next_fetch_offset(self) -> int:
        """Return where to read: at the first available record, or behind all that were read."""
        if self._may_have_available:
            for batch in self._batches:
                for first, last, state in batch.parts(self.start_offset, batch.last):
                    if state.is_available and last >= self.start_offset:
                        return max(first, self.start_offset)
            self._may_have_available = False
        return self.next_offset

    @property
    def can_acquire(self) -> bool:
        """Whether there is an available record, or room for more records in flight."""
        return self.next_fetch_offset() != self.next_offset or self.in_flight < self.settings.records_in_flight_max

    def deadline_ms(self) -> float | None:
        """Return when to call `expire`; None if no record is locked."""
        return self._locks[0][0] if self._locks else None

    # ---- acquiring

    def acquire(
        self, request: Request, fetch_offset: int, fetched: Sequence[LogBatch], now_ms: float
    ) -> list[Acquired]:
        """Lock records for a member.

        Args:
            request: the member's wish.
            fetch_offset: where the log was read.
            fetched: the batches that were read, in the order of offsets.
            now_ms: the time.
        """
        if not fetched or request.max_records <= 0 or fetched[-1].last < self.start_offset:
            return []
        last = fetched[-1].last
        room = min(request.max_records, self.settings.records_in_flight_max - self.in_flight)
        if room <= 0:
            if fetch_offset >= self.next_offset:
                return []
            room = min(request.max_records, self.next_offset - fetch_offset)
            last = min(last, self.next_offset - 1)
        base = fetched[0].first
        self._archive(fetch_offset, base - 1, RecordState.AVAILABLE)
        found: list[Acquired] = []
        known = self._batches.between(base, last)
        position = max(base, self.start_offset) if not known else known[-1].last + 1
        if not known and not self._batches:
            position = max(position, self.next_offset)
        left, is_throttled = room, False
        for batch in known:
            if left <= 0:
                break
            throttles = self._throttles(batch, base, last)
            if throttles and left < room:
                is_throttled = True
                break
            count = self._acquire_known(batch, request, (base, last), left, found, now_ms, throttles=throttles)
            left -= count
            if throttles and count:
                is_throttled = True
                break
        if not is_throttled and left > 0 and position <= last:
            self._acquire_new(request, fetched, (position, last), left, found, now_ms)
        return found

    def _acquire_known(
        self,
        batch: InFlightBatch,
        request: Request,
        span: tuple[int, int],
        left: int,
        found: list[Acquired],
        now_ms: float,
        *,
        throttles: bool,
    ) -> int:
        """Lock the available records of a batch that was read before; return their number."""
        first, last = max(span[0], self.start_offset), span[1]
        limited = request.mode is AcquireMode.RECORD_LIMIT and batch.last - batch.first + 1 > left
        if batch.records is None:
            if not batch.whole.is_available:
                return 0
            if batch.first >= first and batch.last <= last and not limited and not throttles:
                batch.whole = batch.whole.acquired(request.member_id, self._lock(batch.first, batch.last, now_ms))
                found.append(Acquired(batch.first, batch.last, batch.whole.delivery_count))
                return batch.last - batch.first + 1
        return self._acquire_each(batch, request, (first, last), left if limited else None, found, now_ms)

    def _acquire_each(
        self,
        batch: InFlightBatch,
        request: Request,
        span: tuple[int, int],
        limit: int | None,
        found: list[Acquired],
        now_ms: float,
    ) -> int:
        """Lock single records; those that were delivered often come in smaller and smaller numbers, at last alone."""
        records, most = batch.split(), self.settings.delivery_count_limit
        throttled_from = self._throttled_from
        count, throttled_limit, own = 0, None, list[Acquired]()
        for offset in range(max(span[0], batch.first), min(span[1], batch.last) + 1):
            state = records[offset]
            if not state.is_available:
                continue
            if most > THROTTLED_DELIVERY_COUNT_MIN and state.delivery_count == most - 1 and count:
                break
            if state.delivery_count >= throttled_from and throttled_limit is None:
                throttled_limit = max(1, len(records) >> (state.delivery_count - throttled_from + 1))
            records[offset] = state = state.acquired(request.member_id, self._lock(offset, offset, now_ms))
            count += 1
            if own and own[-1].last + 1 == offset and own[-1].delivery_count == state.delivery_count:
                own[-1] = own[-1]._replace(last=offset)
            else:
                own.append(Acquired(offset, offset, state.delivery_count))
            is_last = state.delivery_count == most and most > THROTTLED_DELIVERY_COUNT_MIN
            if is_last or count in (limit, throttled_limit):
                break
        found.extend(own)
        return count

    @property
    def _throttled_from(self) -> int:
        return max(THROTTLED_DELIVERY_COUNT_MIN, ceil(self.settings.delivery_count_limit / 2))

    def _throttles(self, batch: InFlightBatch, first: int, last: int) -> bool:
        counts = [state.delivery_count for _, _, state in batch.parts(first, last) if state.is_available]
        return max(counts, default=0) >= self._throttled_from

    def _acquire_new(
        self,
        request: Request,
        fetched: Sequence[LogBatch],
        span: tuple[int, int],
        room: int,
        found: list[Acquired],
        now_ms: float,
    ) -> None:
        """Lock records that were not read before: whole batches of the log, or at most `room` records."""
        first, last = span
        if room < last - first + 1:
            wanted = first + room - 1
            last = next((batch.last for batch in fetched if batch.first <= wanted <= batch.last), wanted)
        is_first = not self._batches
        if request.mode is AcquireMode.RECORD_LIMIT:
            self._acquire_up_to(request.member_id, first, last, min(last, first + room - 1), found, now_ms)
        else:
            for start, end in _ranges(first, last, fetched, request.batch_size):
                until_ms = self._lock(start, end, now_ms)
                self._add(start, end, InFlight(RecordState.ACQUIRED, 1, request.member_id, until_ms))
                found.append(Acquired(start, end, 1))
        if is_first:
            self.start_offset = first

    def _acquire_up_to(
        self, member_id: str, first: int, last: int, locked_last: int, found: list[Acquired], now_ms: float
    ) -> None:
        until_ms = self._lock(first, locked_last, now_ms)
        locked = InFlight(RecordState.ACQUIRED, 1, member_id, until_ms)
        batch = self._add(first, last, locked)
        if locked_last < last:
            batch.split().update(dict.fromkeys(range(locked_last + 1, last + 1), InFlight(RecordState.AVAILABLE, 0)))
            self._may_have_available = True
        found.append(Acquired(first, locked_last, 1))

    def _lock(self, first: int, last: int, now_ms: float) -> float:
        until_ms = now_ms + self.settings.lock_duration_ms
        heapq.heappush(self._locks, (until_ms, first, last))
        return until_ms

    def archive_aborted(self, acquired: Sequence[Acquired], aborted: Sequence[LogBatch]) -> list[Acquired]:
        """Archive acquired records of aborted transactions; return the other acquired ranges."""
        left = list(acquired)
        for gone in aborted:
            self._archive(gone.first, gone.last, RecordState.ACQUIRED)
            left = [part for each in left for part in _cut(each, gone)]
        return left

    # ---- acknowledging

    def acknowledge(self, member_id: str, acknowledgements: Iterable[Acknowledgement], now_ms: float) -> PendingWrite:
        """Apply acknowledgements of a member: all of them, or none.

        Raises:
            Refused: the records are not acquired by the member.
        """
        pending = PendingWrite()
        try:
            for each in acknowledgements:
                if each.last >= self.start_offset:
                    for batch in self._acknowledged_batches(each):
                        self._acknowledge_batch(member_id, each, batch, pending, now_ms)
        except Refused:
            self.completed(pending, succeeded=False, now_ms=now_ms)
            raise
        return pending

    def _acknowledged_batches(self, each: Acknowledgement) -> list[InFlightBatch]:
        floor = self._batches.floor(each.first)
        if floor is None and each.first < self.start_offset:
            floor = self._batches.floor(self.start_offset)
        if floor is None:
            raise Refused(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
        found = self._batches.between(floor.first, each.last)
        for is_past, which in ((found[-1].last < each.first, "first"), (each.last > found[-1].last, "last")):
            if is_past:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"Batch record not found. The {which} offset in request is past acquired records.",
                )
        return [batch for batch in found if batch.last >= max(self.start_offset, each.first)]

    def _acknowledge_batch(
        self, member_id: str, each: Acknowledgement, batch: InFlightBatch, pending: PendingWrite, now_ms: float
    ) -> None:
        whole = batch.records is None
        if whole:
            _check_owner(batch.whole, member_id, BATCH_NOT_ACQUIRED, "Member is not the owner of batch record")
        is_full = batch.first >= max(each.first, self.start_offset) and batch.last <= each.last
        if whole and is_full and len(each.types) == 1:
            self._acknowledge_part(batch, batch.first, batch.last, each.types[0], pending, now_ms)
            return
        batch.split()
        for offset, _, state in batch.parts(max(each.first, self.start_offset), each.last):
            _check_owner(state, member_id, OFFSET_NOT_ACQUIRED, "Member is not the owner of offset")
            kind = each.types[0] if len(each.types) == 1 else each.types[offset - each.first]
            self._acknowledge_part(batch, offset, offset, kind, pending, now_ms)

    def _acknowledge_part(
        self, batch: InFlightBatch, first: int, last: int, kind: AcknowledgeType, pending: PendingWrite, now_ms: float
    ) -> None:
        state = batch.get(first)
        if kind is not AcknowledgeType.RENEW:
            self._begin(batch, first, last, STATE_AFTER[kind], pending)
        elif not self.settings.renews:
            raise Refused(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")
        else:
            batch.put(first, replace(state, locked_until_ms=self._lock(first, last, now_ms)))

    def _begin(self, batch: InFlightBatch, first: int, last: int, wanted: RecordState, pending: PendingWrite) -> None:
        """Change a state; the change counts once it is written."""
        state = batch.get(first)
        after = replace(state.released(wanted, self.settings.delivery_count_limit), before=state)
        batch.put(first, after)
        pending.parts.append((batch, first))
        pending.batches.append(StateBatch(first, last, after.state, after.delivery_count))

    def release(self, member_id: str) -> PendingWrite:
        """Release all records of a member that has left."""
        pending = PendingWrite()
        for batch in self._batches:
            if batch.records is None and batch.first < self.start_offset <= batch.last:
                batch.split()
            for first, last, state in list(batch.parts(batch.first, batch.last)):
                if state.state is RecordState.ACQUIRED and state.member_id == member_id:
                    wanted = RecordState.ARCHIVED if last < self.start_offset else RecordState.AVAILABLE
                    self._begin(batch, first, last, wanted, pending)
        return pending

    def completed(self, pending: PendingWrite, *, succeeded: bool, now_ms: float) -> None:
        """Note the result of a write: its changes count, or are taken back."""
        for batch, first in pending.parts:
            state = batch.get(first)
            before = state.before
            if before is None:  # archived meanwhile, because the start of the log has moved
                continue
            if succeeded:
                batch.put(first, replace(state, before=None))
            elif before.locked_until_ms <= now_ms:
                batch.put(first, before.released(RecordState.AVAILABLE, self.settings.delivery_count_limit))
            else:
                batch.put(first, before)
            self._may_have_available = True
        if succeeded:
            self.advance()

    # ---- time, and the start of the log

    def expire(self, now_ms: float) -> list[StateBatch]:
        """Release the records whose locks have expired; return their states, which are to be written."""
        found: list[StateBatch] = []
        while self._locks and self._locks[0][0] <= now_ms:
            _, first, last = heapq.heappop(self._locks)
            for batch in self._batches.between(first, last):
                if batch.records is None and batch.first < self.start_offset <= batch.last:
                    batch.split()
                for start, end, state in list(batch.parts(first, last)):
                    locked = state.state is RecordState.ACQUIRED and state.locked_until_ms <= now_ms
                    if locked and state.before is None:
                        wanted = RecordState.ARCHIVED if end < self.start_offset else RecordState.AVAILABLE
                        after = state.released(wanted, self.settings.delivery_count_limit)
                        batch.put(start, after)
                        found.append(StateBatch(start, end, after.state, after.delivery_count))
        self._may_have_available = self._may_have_available or bool(found)
        return found

    def move_start(self, log_start_offset: int) -> None:
        """Give up the records before the start of the log; those that members have stay acquired."""
        if log_start_offset <= self.start_offset:
            return
        if self._batches:
            self._archive(self.start_offset, log_start_offset - 1, RecordState.AVAILABLE)
        self.start_offset = log_start_offset
        self.next_offset = max(self.next_offset, log_start_offset)

    def _archive(self, first: int, last: int, wanted: RecordState) -> None:
        """Archive the records of a range that are in a state."""
        for batch in self._batches.between(first, last) if first <= last else ():
            if batch.records is None and batch.whole.state is not wanted:
                continue
            if batch.records is None and not (batch.first >= first and batch.last <= last):
                batch.split()
            for start, _, state in list(batch.parts(first, last)):
                if state.state is wanted:
                    batch.put(start, state.archived())

    def advance(self) -> None:
        """Move the start offset behind the records that the group is done with."""
        while self._batches:
            batch = self._batches.first()
            for first, last, state in batch.parts(self.start_offset, batch.last):
                if last >= self.start_offset and (not state.state.is_terminal or state.before is not None):
                    self.start_offset = max(self.start_offset, first)
                    return
            if batch.records is not None and any(
                state.state is RecordState.ACQUIRED for _, _, state in batch.parts(batch.first, self.start_offset - 1)
            ):
                return
            self._batches.pop_first()
            following = self._batches.first().first if self._batches else self.next_offset
            self.start_offset = max(self.start_offset, following)
        self.next_offset = max(self.next_offset, self.start_offset)


def _check_owner(state: InFlight, member_id: str, not_acquired: str, not_owner: str) -> None:
    if state.before is not None:
        message = "The record state is invalid. The acknowledgement of delivery could not be completed."
        raise Refused(ErrorCode.INVALID_RECORD_STATE, message)
    if state.state is not RecordState.ACQUIRED:
        raise Refused(ErrorCode.INVALID_RECORD_STATE, not_acquired)
    if state.member_id != member_id:
        raise Refused(ErrorCode.INVALID_RECORD_STATE, not_owner)


def _ranges(first: int, last: int, fetched: Sequence[LogBatch], batch_size: int) -> list[tuple[int, int]]:
    """Divide a range at batches of the log, after `batch_size` records each."""
    found = []
    start = first
    if last - first + 1 > batch_size:
        for batch in fetched:
            if batch.first > last:
                break
            if batch.first - start >= batch_size:
                found.append((start, batch.first - 1))
                start = batch.first
    return [*found, (start, last)]


def _cut(acquired: Acquired, gone: LogBatch) -> list[Acquired]:
    """Return what is left of an acquired range without another range."""
    if acquired.last < gone.first or acquired.first > gone.last:
        return [acquired]
    left = []
    if acquired.first < gone.first:
        left.append(acquired._replace(last=gone.first - 1))
    if acquired.last > gone.last:
        left.append(acquired._replace(first=gone.last + 1))
    return left
