"""The sticky task assignor of streams groups: which member runs which tasks. Pure.

Active tasks stay with the member that had them, then go to a member that had a standby copy, then to the least loaded
process. Standby tasks go to processes that do not run the task. No member gets more than its share.
Start at `assign_tasks`.
Source: org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor of Kafka 4.3; KIP-1071.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from kafkaraw.light_classes import NamedTuple, dataclass, field

TaskMap: TypeAlias = Mapping[str, frozenset[int]]
"""Subtopology id -> partitions of its tasks."""


class TaskId(NamedTuple):
    """One task."""

    subtopology_id: str
    partition: int


class Tasks(NamedTuple):
    """The tasks of a member, by role."""

    active: TaskMap
    standby: TaskMap
    warmup: TaskMap


NO_TASKS: Final = Tasks({}, {}, {})


class TaskMember(NamedTuple):
    """What the assignor knows of a member.

    Attributes:
        process_id: of the process, which may hold several members.
        previous: its previous target assignment.
    """

    process_id: str
    previous: Tasks = NO_TASKS


class SubtopologyTasks(NamedTuple):
    """The tasks of one subtopology.

    Attributes:
        size: number of tasks.
        is_stateful: whether it has changelog topics, so that standby tasks make sense.
    """

    size: int
    is_stateful: bool


def assign_tasks(
    members: Mapping[str, TaskMember], subtopologies: Mapping[str, SubtopologyTasks], standby_replicas: int
) -> dict[str, Tasks]:
    """Assign all tasks.

    Args:
        members: the members, by id.
        subtopologies: the tasks, by subtopology id.
        standby_replicas: number of standby copies of each stateful task.

    Returns:
        the tasks of each member. Without members, no task is assigned. If there are fewer processes than copies of a
        task, it has fewer copies.
    """
    return _Assignment(members, subtopologies, standby_replicas).made() if members else {}


@dataclass(slots=True)
class _Process:
    """A process: the number of tasks of each member, and all its tasks."""

    counts: dict[str, int] = field(default_factory=dict)
    tasks: set[TaskId] = field(default_factory=set)

    @property
    def load(self) -> float:
        """Tasks per member."""
        return sum(self.counts.values()) / len(self.counts)

    def least_loaded(self) -> str:
        """Return the member with the fewest tasks."""
        return min(self.counts, key=lambda member_id: self.counts[member_id])


@dataclass(slots=True)
class _Quota:
    """The most tasks that a member gets; shrinks when members have their share, so that the rest is spread evenly.

    Attributes:
        tasks: tasks that are not with a member that has its share.
        members: members that do not have their share.
        each: the share.
    """

    tasks: int
    members: int
    each: int = 0

    def __post_init__(self) -> None:
        self.each = -(-self.tasks // self.members) if self.members else 0

    def given(self, count: int) -> None:
        """Note that a member has this number of tasks now."""
        if count == self.each:
            self.members -= 1
            self.tasks -= count
            self.__post_init__()


class _Assignment:
    """One computation."""

    def __init__(
        self, members: Mapping[str, TaskMember], subtopologies: Mapping[str, SubtopologyTasks], standby_replicas: int
    ) -> None:
        self._members = members
        self._replicas = standby_replicas
        self._active_ids = _ids(subtopologies)
        self._stateful_ids = _ids({name: one for name, one in subtopologies.items() if one.is_stateful})
        self._active: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
        self._standby: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
        active_count = len(self._active_ids)
        self._active_quota = _Quota(active_count, len(members))
        self._total_quota = _Quota(active_count + len(self._stateful_ids) * standby_replicas, len(members))
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[TaskId, str] = {}
        self._had_standby: dict[TaskId, list[str]] = {}
        for member_id, member in members.items():
            self._processes.setdefault(member.process_id, _Process()).counts[member_id] = 0
            self._had_active.update(dict.fromkeys(_tasks_in(member.previous.active), member_id))
            for task in _tasks_in(member.previous.standby):
                self._had_standby.setdefault(task, []).append(member_id)

    def made(self) -> dict[str, Tasks]:
        self._assign_active()
        if self._replicas:
            self._assign_standby()
        return {
            member_id: Tasks(_by_subtopology(self._active[member_id]), _by_subtopology(self._standby[member_id]), {})
            for member_id in self._members
        }

    # ---- active tasks

    def _assign_active(self) -> None:
        # Tasks of equal partitions of all subtopologies have mostly been together.
        left = sorted(self._active_ids, key=lambda task: (task.partition, task.subtopology_id))
        left = [task for task in left if not self._keeps(task, self._had_active.get(task))]
        left = [task for task in left if not self._keeps(task, self._least_loaded_of(self._had_standby.get(task, ())))]
        heap = self._by_load()
        for task in sorted(left):
            _, order, process = heapq.heappop(heap)
            self._give(task, process.least_loaded(), is_active=True)
            heapq.heappush(heap, (process.load, order, process))

    def _keeps(self, task: TaskId, member_id: str | None) -> bool:
        """Give an active task to a member that had it, if the member is below its share."""
        if member_id is None or self._count(member_id) >= self._active_quota.each:
            return False
        self._give(task, member_id, is_active=True)
        return True

    # ---- standby tasks

    def _assign_standby(self) -> None:
        left: list[tuple[TaskId, int]] = []
        order = sorted(self._stateful_ids, key=lambda task: (task.partition, task.subtopology_id), reverse=True)
        for task in order:
            given = 0
            while given < self._replicas and self._keeps_standby(task):
                given += 1
            if given < self._replicas:
                left.append((task, self._replicas - given))
        heap = self._by_load()
        for task, missing in sorted(left, reverse=True):
            for _ in range(missing):
                if not self._give_to_least_loaded(task, heap):
                    break  # every process has a copy

    def _keeps_standby(self, task: TaskId) -> bool:
        """Give a standby task to the member that ran it, or to one that had a copy."""
        for member_id in (self._had_active.get(task), self._least_loaded_of(self._had_standby.get(task, ()), task)):
            if member_id is None or task in self._process(member_id).tasks:
                continue
            if self._count(member_id) < self._total_quota.each:
                self._give(task, member_id, is_active=False)
                return True
        return False

    def _give_to_least_loaded(self, task: TaskId, heap: list[tuple[float, int, _Process]]) -> bool:
        passed: list[tuple[float, int, _Process]] = []
        found = False
        while heap and not found:
            load, order, process = heapq.heappop(heap)
            if task not in process.tasks:
                self._give(task, process.least_loaded(), is_active=False)
                load, found = process.load, True
            passed.append((load, order, process))
        for entry in passed:
            heapq.heappush(heap, entry)
        return found

    # ---- members and processes

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _count(self, member_id: str) -> int:
        return self._process(member_id).counts[member_id]

    def _by_load(self) -> list[tuple[float, int, _Process]]:
        heap = [(process.load, order, process) for order, process in enumerate(self._processes.values())]
        heapq.heapify(heap)
        return heap

    def _least_loaded_of(self, member_ids: Iterable[str], task: TaskId | None = None) -> str | None:
        """Return the member with the least load, of its process and itself; with a task, one that can take a copy."""
        best: str | None = None
        for member_id in member_ids:
            process = self._process(member_id)
            if best is None or (
                process.load < self._process(best).load
                and (task is None or task not in process.tasks)
                and self._count(member_id) < self._count(best)
            ):
                best = member_id
        return best if best is None or task is None or task not in self._process(best).tasks else None

    def _give(self, task: TaskId, member_id: str, *, is_active: bool) -> None:
        process = self._process(member_id)
        process.tasks.add(task)
        process.counts[member_id] += 1
        (self._active if is_active else self._standby)[member_id].add(task)
        if is_active:
            self._active_quota.given(process.counts[member_id])
        self._total_quota.given(process.counts[member_id])


def _ids(subtopologies: Mapping[str, SubtopologyTasks]) -> list[TaskId]:
    return [TaskId(name, partition) for name in sorted(subtopologies) for partition in range(subtopologies[name].size)]


def _tasks_in(tasks: TaskMap) -> Iterable[TaskId]:
    return (TaskId(name, partition) for name, partitions in tasks.items() for partition in sorted(partitions))


def _by_subtopology(tasks: Iterable[TaskId]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for task in tasks:
        found.setdefault(task.subtopology_id, set()).add(task.partition)
    return {name: frozenset(found[name]) for name in sorted(found)}
