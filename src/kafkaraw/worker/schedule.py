"""Which records may run now, and which offsets may be committed. Pure: no handler, broker or clock.

Theory of operation. Each delivered record is a `WorkItem`, in two queues:

- a *lane*: the unfinished records that run one after the other, such as those of one key. Only the first record of a
  lane may run. It is ready at its time, and starts when a slot is free; there are `concurrency` slots.
- its *partition*, in the order of offsets. The offset of the first unfinished record may be committed, or the position
  behind all delivered records if all are done. So a committed offset never passes an unfinished record.

A record leaves its slot when its handler has returned, and its lane when its results are acknowledged. A record that
waits for a repeated call keeps the lane, and has no slot.

When a partition is revoked, `freeze` drops the records that have not started, `release` those in work. A dropped record
keeps slot and lane until its handler has ended, because a thread cannot be interrupted: if the partition is assigned
again, records of the same key wait. Start at `deliver` and `start`; `share_schedule.py` is for share groups.
"""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkaraw.client.interceptors import ProducerRecord
from kafkaraw.core.fetch.offsets import NO_EPOCH, OffsetAndMetadata
from kafkaraw.errors import InternalError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.records import TopicPartition
from kafkaraw.worker.settings import HandlerSpec, Ordering

if TYPE_CHECKING:
    from kafkaraw.client.sharing.batch import ShareRecord
    from kafkaraw.records import Record

Lane: TypeAlias = Hashable


class State(StrEnum):
    """Where a record is between its delivery and its commit."""

    QUEUED = "queued"
    """It waits for earlier records of its lane, for its time, or for a slot."""
    RUNNING = "running"
    """Its handler is called."""
    SENDING = "sending"
    """Its results, its copy for the retry topic or its dead letter are not acknowledged yet."""
    DONE = "done"
    """It may be committed; in a share group: accepted, or rejected if it was written as a dead letter."""
    FAILED = "failed"
    """It can be neither handled nor written as a dead letter: the worker stops, and does not commit it."""
    DROPPED = "dropped"
    """Its partition was revoked or lost, or it was released to the share group: its next owner handles it."""


TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.QUEUED: frozenset({State.RUNNING, State.DROPPED}),
    State.RUNNING: frozenset({State.QUEUED, State.SENDING, State.DONE, State.FAILED, State.DROPPED}),
    State.SENDING: frozenset({State.DONE, State.FAILED, State.DROPPED}),
    State.DONE: frozenset(),
    State.FAILED: frozenset({State.DROPPED}),
    State.DROPPED: frozenset(),
}
"""State -> the states that may follow it."""


@dataclass(slots=True, eq=False)
class WorkItem:
    """A record that was delivered and is not committed yet.

    Attributes:
        record: as it was read, with bytes.
        original: the record that was read first: of a copy in a retry topic, what it is a copy of.
        handler: handles it.
        partition: it was read from.
        lane: records of the same partition and lane run one after the other.
        leader_epoch: in which the record was written; -1 when unknown.
        ready_s: it must not run before, on the clock of `Schedule.start`.
        attempts: how often its handler was called, by earlier owners of the record, too.
        tries: how often it was started here, which determines the next wait.
        state: where it is.
        has_slot: it counts for the concurrency.
        is_dead: its dead letter is acknowledged.
        deliveries_left: how often a share group may deliver it again; None in a consumer group.
        results: records to send when it is committed; only of transactional workers.
    """

    record: Record | ShareRecord
    original: Record | ShareRecord
    handler: HandlerSpec
    partition: TopicPartition
    lane: Lane
    leader_epoch: int = NO_EPOCH
    ready_s: float = 0.0
    attempts: int = 0
    tries: int = 0
    state: State = State.QUEUED
    has_slot: bool = False
    is_dead: bool = False
    deliveries_left: int | None = None
    results: Sequence[ProducerRecord] = ()

    def move(self, after: State) -> None:
        """Change the state.

        Raises:
            InternalError: the table has no such transition.
        """
        if after not in TRANSITIONS[self.state]:
            raise InternalError(f"{self}: {self.state} -> {after} is no transition")
        self.state = after

    @property
    def is_in_work(self) -> bool:
        """Whether it has started and is neither done nor dropped."""
        return self.state is State.RUNNING or self.state is State.SENDING

    def __str__(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition} at offset {self.record.offset}"


def lane_of(record: Record | ShareRecord, ordering: Ordering) -> Lane:
    """Return the lane of a record within its partition: its key, its offset if it has no order, or one for all."""
    if ordering is Ordering.PARTITION:
        return None
    if ordering is Ordering.UNORDERED or record.key is None:
        return record.offset
    return record.key


@dataclass(slots=True, eq=False)
class PartitionWork:
    """The unfinished records of an assigned partition, and how far it may be committed.

    Attributes:
        items: delivered records in the order of offsets, from the first unfinished one on.
        finished: done records before `items` that are not committed yet; only of transactional workers.
        position: behind all delivered records; None before the first poll.
        leader_epoch: of the record before `items`; -1 when unknown.
        committed: the last offset that was committed in this assignment.
        is_frozen: it is being revoked: no more records are taken or started.
    """

    items: deque[WorkItem] = field(default_factory=deque)
    finished: list[WorkItem] = field(default_factory=list)
    position: OffsetAndMetadata | None = None
    leader_epoch: int = NO_EPOCH
    committed: int | None = None
    is_frozen: bool = False

    def advance(self, *, keeps_finished: bool) -> None:
        """Remove the done records in front."""
        while self.items and self.items[0].state is State.DONE:
            item = self.items.popleft()
            self.leader_epoch = item.leader_epoch
            if keeps_finished:
                self.finished.append(item)

    @property
    def committable(self) -> OffsetAndMetadata | None:
        """The offset that may be committed, with the leader epoch of the record before it; None if none is known."""
        if not self.items:
            return self.position
        return OffsetAndMetadata(self.items[0].record.offset, leader_epoch=self.leader_epoch)


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """Offsets that may be committed now.

    Attributes:
        offsets: the next offset to read, by partition, with the leader epoch before it (KIP-320).
        items: the done records before them that were not committed, in the order of each partition; only of
            transactional workers.
    """

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    items: Sequence[WorkItem]


class Slots(ABC):
    """Which records run: at most `concurrency` at a time, each of them not before its time.

    Args:
        concurrency: number of slots.

    Attributes:
        concurrency: as given.
        running: number of slots in use.
        is_stopping: no more records are started.
    """

    def __init__(self, concurrency: int) -> None:
        self.concurrency: int = concurrency
        self.running: int = 0
        self.is_stopping: bool = False
        self._ready: deque[WorkItem] = deque()
        self._delayed: list[tuple[float, int, WorkItem]] = []
        self._numbers = itertools.count()

    def start(self, now_s: float) -> list[WorkItem]:
        """Return the records that may run now, and count them as running.

        Args:
            now_s: the time, on the clock of `WorkItem.ready_s`.
        """
        while self._delayed and self._delayed[0][0] <= now_s:
            self._ready.append(heapq.heappop(self._delayed)[2])
        started: list[WorkItem] = []
        while self._ready and self.running < self.concurrency and not self.is_stopping:
            item = self._ready.popleft()
            if item.state is State.QUEUED:  # not dropped since
                item.move(State.RUNNING)
                item.has_slot = True
                self.running += 1
                started.append(item)
        return started

    def deadline_s(self) -> float | None:
        """Return when `start` has to be called next because of the time; None if it does not."""
        while self._delayed and self._delayed[0][2].state is not State.QUEUED:
            heapq.heappop(self._delayed)
        return self._delayed[0][0] if self._delayed and not self.is_stopping else None

    def sending(self, item: WorkItem) -> None:
        """Note that the handler of a record has returned, and its results are sent."""
        self._leave_slot(item)
        if item.state is State.RUNNING:
            item.move(State.SENDING)

    @abstractmethod
    def retry(self, item: WorkItem, ready_s: float) -> None:
        """Run a record again later."""

    def release_later(self, item: WorkItem, _at_s: float) -> None:
        """Give a record back to its share group at a time."""
        raise InternalError(f"{item}: only records of share groups are released")

    @abstractmethod
    def end(self, item: WorkItem, after: State) -> None:
        """Note that a record is done or has failed; of a dropped one, that its handler has ended.

        Args:
            item: the record.
            after: DONE or FAILED.
        """

    @property
    def queued(self) -> int:
        """The number of records that have not started, or wait for a repeated call."""
        return sum(item.state is State.QUEUED for item in self._all())

    @property
    def in_work(self) -> list[WorkItem]:
        """The records that have started and are neither done nor dropped."""
        return [item for item in self._all() if item.is_in_work]

    @abstractmethod
    def _all(self) -> Iterator[WorkItem]: ...

    def _offer(self, item: WorkItem) -> None:
        heapq.heappush(self._delayed, (item.ready_s, next(self._numbers), item))

    def _leave_slot(self, item: WorkItem) -> None:
        if item.has_slot:
            item.has_slot = False
            self.running -= 1


class Schedule(Slots):
    """The records of all assigned partitions.

    Args:
        concurrency: number of slots.
        keeps_finished: whether `commit_plan` returns the done records, for their results.
    """

    def __init__(self, concurrency: int, *, keeps_finished: bool = False) -> None:
        super().__init__(concurrency)
        self._keeps_finished = keeps_finished
        self._partitions: dict[TopicPartition, PartitionWork] = {}
        self._lanes: dict[TopicPartition, dict[Lane, deque[WorkItem]]] = {}

    # -- partitions

    @property
    def partitions(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return list(self._partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions."""
        for partition in partitions:
            self._partitions[partition] = PartitionWork()

    def freeze(self, partitions: Iterable[TopicPartition]) -> list[WorkItem]:
        """Drop the records of these partitions that have not started, and take no more; return those in work."""
        left: list[WorkItem] = []
        for partition in partitions:
            work = self._partitions.get(partition)
            if work is None:
                continue
            work.is_frozen = True
            for item in work.items:
                if item.state in (State.QUEUED, State.FAILED):
                    item.move(State.DROPPED)
                elif item.is_in_work:
                    left.append(item)
            lanes = self._lanes.pop(partition, {})
            kept = {lane: deque(item for item in items if _holds_lane(item)) for lane, items in lanes.items()}
            self._set_lanes(partition, {lane: items for lane, items in kept.items() if items})
        return left

    def release(self, partitions: Iterable[TopicPartition]) -> list[WorkItem]:
        """Remove these partitions, and return the records in work, which are dropped."""
        dropped: list[WorkItem] = []
        for partition in partitions:
            dropped += (left := self.freeze([partition]))
            for item in left:
                item.move(State.DROPPED)
            self._partitions.pop(partition, None)
        return dropped

    # -- records

    def deliver(self, partition: TopicPartition, items: Iterable[WorkItem], position: OffsetAndMetadata) -> None:
        """Add records, in the order of offsets.

        Args:
            partition: of the records; if it is revoked or being revoked, they are left out.
            items: the records.
            position: behind them, and behind offsets without records.
        """
        work = self._partitions.get(partition)
        if work is None or work.is_frozen:
            return
        if not work.items and work.position is not None:
            work.leader_epoch = work.position.leader_epoch
        lanes = self._lanes.setdefault(partition, {})
        for item in items:
            work.items.append(item)
            lane = lanes.setdefault(item.lane, deque())
            lane.append(item)
            if len(lane) == 1:
                self._offer(item)
        work.position = position

    def retry(self, item: WorkItem, ready_s: float) -> None:
        """Run a record again later; it keeps its lane. One of a partition that is being revoked is dropped."""
        self._leave_slot(item)
        work = self._partitions.get(item.partition)
        if item.state is State.RUNNING and (work is None or work.is_frozen):
            item.move(State.DROPPED)
        if item.state is State.DROPPED:
            self._leave_lane(item)
            return
        item.ready_s = ready_s
        item.move(State.QUEUED)
        self._offer(item)

    def end(self, item: WorkItem, after: State) -> None:
        """Note that a record is done or has failed; of a dropped one, that its handler has ended.

        Args:
            item: the record.
            after: DONE or FAILED.
        """
        self._leave_slot(item)
        if item.state is not State.DROPPED:
            item.move(after)
        if item.state is not State.FAILED:
            self._leave_lane(item)
        work = self._partitions.get(item.partition)
        if work is not None and item.state is State.DONE:
            work.advance(keeps_finished=self._keeps_finished)

    def _leave_lane(self, item: WorkItem) -> None:
        lanes = self._lanes.get(item.partition, {})
        lane = lanes.get(item.lane)
        if not lane or lane[0] is not item:
            return
        lane.popleft()
        if lane:
            self._offer(lane[0])
        else:
            del lanes[item.lane]
            self._set_lanes(item.partition, lanes)

    def _set_lanes(self, partition: TopicPartition, lanes: dict[Lane, deque[WorkItem]]) -> None:
        if lanes:
            self._lanes[partition] = lanes
        else:
            self._lanes.pop(partition, None)

    # -- what follows from it

    def held(self, partition: TopicPartition) -> int:
        """Return the number of records of a partition that are in memory: from the first unfinished one on."""
        work = self._partitions.get(partition)
        return 0 if work is None else len(work.items) + len(work.finished)

    def _all(self) -> Iterator[WorkItem]:
        return itertools.chain.from_iterable(work.items for work in self._partitions.values())

    def commit_plan(self, wanted: Callable[[TopicPartition], bool] = lambda _: True) -> CommitPlan:
        """Return the offsets that may be committed and are not.

        Args:
            wanted: whether to commit a partition.
        """
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        items: list[WorkItem] = []
        for partition, work in self._partitions.items():
            at = work.committable
            if at is not None and at.offset != work.committed and wanted(partition):
                offsets[partition] = at
                items += work.finished
        return CommitPlan(offsets, items)

    def committed(self, plan: CommitPlan) -> None:
        """Note that a plan was carried out."""
        done = set(map(id, plan.items))
        for partition, at in plan.offsets.items():
            work = self._partitions.get(partition)
            if work is not None:
                work.committed = at.offset
                work.finished = [item for item in work.finished if id(item) not in done]


def _holds_lane(item: WorkItem) -> bool:
    """Whether the handler of a record may still run, or its results are sent."""
    return item.is_in_work or item.has_slot
