"""Which records of a share group may run now, and what the group hears of each of them. Pure: no handler or clock.

Theory of operation. A delivered record is a `WorkItem` with a `Lock`: the broker has locked the record for this worker,
and delivers it again when the lock expires. There is no order, so each record is ready at once, and starts when a slot
is free. The lock is given up with one answer:

- a record that is done is accepted, or rejected if its dead letter is in the log;
- one whose call failed is released after the wait between two calls, so that any worker may take it; until then it has
  no slot, and its lock is renewed;
- one that has failed for good is released when the worker stops.

A lock is renewed when half of it has passed. While the broker has not answered, the record cannot be acknowledged: the
answer waits in the lock. Start at `deliver`, `renew` and `answered`.
Source: KIP-932, KIP-1222.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kafkaraw.core.share.acknowledgements import AcknowledgeType, RecordsInHand
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.records import TopicPartition
from kafkaraw.worker.schedule import Slots, State, WorkItem

_WARNED_BEFORE: Final = 0.25
"""The part of a lock that is left when the log warns of a lock that cannot be renewed."""

SLACK_S: Final = 0.001
"""Tolerance: an event loop may wake up early by the resolution of its clock."""


@dataclass(slots=True, eq=False)
class Lock:
    """The acquisition lock of one record.

    Attributes:
        item: the record.
        in_hand: takes its acknowledgement.
        until_s: the broker may deliver the record again after this time.
        renewed_s: when the renewal was asked for that has no answer yet; None for none.
        answer: what to acknowledge when the renewal is answered; None while the record is unfinished.
        is_warned: the log has said that it ends.
    """

    item: WorkItem
    in_hand: RecordsInHand
    until_s: float
    renewed_s: float | None = None
    answer: AcknowledgeType | None = None
    is_warned: bool = False


class Place(NamedTuple):
    """A record of a topic."""

    partition: TopicPartition
    offset: int


class ShareSchedule(Slots):
    """The records that are locked for one worker.

    Args:
        concurrency: number of slots.
        records_max: number of locked records from which no more are wanted.

    Attributes:
        can_renew: whether the brokers can renew locks.
        lock_s: how long a lock lasts, in seconds; None before the first response of a broker.
        accepted: records that were accepted.
        rejected: records that were rejected.
        released: records that were released.
        renewals: locks that were renewed.
        late: acknowledgements that came after the lock had expired: the records are delivered again.
    """

    def __init__(self, concurrency: int, records_max: int) -> None:
        super().__init__(concurrency)
        self.can_renew: bool = True
        self.lock_s: float | None = None
        self.accepted: int = 0
        self.rejected: int = 0
        self.released: int = 0
        self.renewals: int = 0
        self.late: int = 0
        self._records_max = records_max
        self._locks: dict[Place, Lock] = {}
        self._to_release: list[tuple[float, int, WorkItem]] = []

    # -- records

    def wanted(self, now_s: float) -> int:
        """Return the number of records to acquire: those that a slot is free for, since locks run from then on."""
        if self.is_stopping:
            return 0
        waits = {id(item) for _, _, item in self._to_release}
        ready = sum(
            item.state is State.QUEUED and item.ready_s <= now_s and id(item) not in waits for item in self._all()
        )
        return max(0, min(self.concurrency - self.running - ready, self._records_max - len(self._locks)))

    def deliver(self, items: Iterable[WorkItem], in_hand: RecordsInHand, until_s: float) -> None:
        """Add records. One that a handler still works on gets its new lock: it is not started a second time.

        Args:
            items: the records, of one partition.
            in_hand: takes their acknowledgements.
            until_s: when their locks expire.
        """
        for item in items:
            place = _place_of(item)
            before = self._locks.get(place)
            if before is not None and before.item.is_in_work:  # its lock expired, and it came back to this worker
                self._locks[place] = Lock(before.item, in_hand, until_s)
                continue
            if before is not None:
                self._drop(before.item)
            self._locks[place] = Lock(item, in_hand, until_s)
            self._offer(item)

    def retry(self, item: WorkItem, ready_s: float) -> None:
        """Run a record again later, under the same lock: the call has not begun."""
        self._leave_slot(item)
        if item.state is not State.DROPPED:
            item.ready_s = ready_s
            item.move(State.QUEUED)
            self._offer(item)

    def release_later(self, item: WorkItem, at_s: float) -> None:
        """Release a record at a time; if its lock cannot be renewed, before it expires."""
        self._leave_slot(item)
        lock = self._lock_of(item)
        if lock is None:
            return
        item.move(State.QUEUED)
        if not self.can_renew and self.lock_s is not None:
            at_s = min(at_s, lock.until_s - self.lock_s * _WARNED_BEFORE)
        heapq.heappush(self._to_release, (at_s, next(self._numbers), item))

    def end(self, item: WorkItem, after: State) -> None:
        """Note that a record is done or has failed, and acknowledge it; of a dropped one, that its handler has ended.

        Args:
            item: the record.
            after: DONE or FAILED.
        """
        self._leave_slot(item)
        if item.state is State.DROPPED:
            return
        item.move(after)
        if after is State.FAILED:
            self._answer(item, AcknowledgeType.RELEASE)
        else:
            self._answer(item, AcknowledgeType.REJECT if item.is_dead else AcknowledgeType.ACCEPT)

    def release_due(self, now_s: float) -> int:
        """Release the records whose wait is over; when the worker stops, all that have not started. Return how many."""
        due: list[WorkItem] = []
        while self._to_release and (self.is_stopping or self._to_release[0][0] <= now_s + SLACK_S):
            due.append(heapq.heappop(self._to_release)[2])
        if self.is_stopping:
            due += [item for item in self._all() if item.state is State.QUEUED and item not in due]
        due = [item for item in due if item.state is State.QUEUED]
        for item in due:
            item.move(State.DROPPED)
            self._answer(item, AcknowledgeType.RELEASE)
        return len(due)

    def release_at_s(self) -> float | None:
        """Return when `release_due` has to be called next; None if it does not."""
        return self._to_release[0][0] if self._to_release else None

    # -- locks

    @property
    def held(self) -> int:
        """Number of records that are locked for the worker and not acknowledged."""
        return len(self._locks)

    def renew(self, now_s: float) -> int:
        """Renew the locks of which half has passed; return how many. Their records are unfinished."""
        if self.lock_s is None or not self.can_renew:
            return 0
        due = [lock for lock in self._unfinished() if lock.until_s - now_s <= self.lock_s / 2]
        for lock in due:
            lock.renewed_s = now_s
            lock.in_hand.acknowledge(lock.item.record.offset, AcknowledgeType.RENEW)
        return len(due)

    def ending(self, now_s: float) -> list[WorkItem]:
        """Return the unfinished records whose locks are about to expire and cannot be renewed, each one once."""
        if self.lock_s is None or self.can_renew:
            return []
        left_s = self.lock_s * _WARNED_BEFORE
        due = [lock for lock in self._unfinished() if not lock.is_warned and lock.until_s - now_s <= left_s]
        for lock in due:
            lock.is_warned = True
        return [lock.item for lock in due]

    def answered(self, partition: TopicPartition, offsets: Sequence[int], *, is_stored: bool) -> list[WorkItem]:
        """Take the broker's answer to acknowledgements; return the records in work whose locks are lost.

        Args:
            partition: of the records.
            offsets: of the records.
            is_stored: the broker has stored them; else it has released the records, or will.
        """
        lost: list[WorkItem] = []
        for offset in offsets:
            lock = self._locks.get(Place(partition, offset))
            if lock is None or lock.renewed_s is None:  # it was the last answer
                self.late += not is_stored
                continue
            renewed_s, lock.renewed_s = lock.renewed_s, None
            if not is_stored:
                self.late += lock.answer is not None
                lost += self._lose(lock)
            elif lock.answer is not None:
                self._acknowledge(lock, lock.answer)
            else:
                self.renewals += 1
                lock.until_s = renewed_s + (self.lock_s or 0)
        return lost

    def lose(self, in_hand: RecordsInHand) -> list[WorkItem]:
        """The broker has released these records; return those in work, which are dropped."""
        lost: list[WorkItem] = []
        for lock in [lock for lock in self._locks.values() if lock.in_hand is in_hand]:
            lost += self._lose(lock)
        return lost

    def _lose(self, lock: Lock) -> list[WorkItem]:
        del self._locks[_place_of(lock.item)]
        return self._drop(lock.item)

    def _drop(self, item: WorkItem) -> list[WorkItem]:
        """Drop an unfinished record; return it if it is in work."""
        was_in_work = item.is_in_work
        if was_in_work or item.state is State.QUEUED:
            item.move(State.DROPPED)
        return [item] if was_in_work else []

    def _answer(self, item: WorkItem, kind: AcknowledgeType) -> None:
        """Acknowledge a record for good, after the answer to a renewal that is under way."""
        lock = self._lock_of(item)
        if lock is None:
            return
        if lock.renewed_s is not None and not lock.in_hand.holds(item.record.offset):
            lock.answer = kind
        else:
            self._acknowledge(lock, kind)

    def _acknowledge(self, lock: Lock, kind: AcknowledgeType) -> None:
        del self._locks[_place_of(lock.item)]
        lock.in_hand.acknowledge(lock.item.record.offset, kind)
        self.accepted += kind is AcknowledgeType.ACCEPT
        self.rejected += kind is AcknowledgeType.REJECT
        self.released += kind is AcknowledgeType.RELEASE

    def _lock_of(self, item: WorkItem) -> Lock | None:
        lock = self._locks.get(_place_of(item))
        return lock if lock is not None and lock.item is item else None

    def _unfinished(self) -> Iterator[Lock]:
        return (lock for lock in self._locks.values() if lock.renewed_s is None and lock.answer is None)

    def _all(self) -> Iterator[WorkItem]:
        return (lock.item for lock in self._locks.values())


def _place_of(item: WorkItem) -> Place:
    return Place(item.partition, item.record.offset)
