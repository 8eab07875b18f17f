"""Reconciliation: the next step of a member of a streams group from its current to its target tasks. Pure.

As in a consumer group, the member revokes first, and waits for tasks that others have not revoked yet. A task is also
taken while another member of the same process has it, in any role: the members of a process share a state directory.
Source: org.apache.kafka.coordinator.group.streams.CurrentAssignmentBuilder of Kafka 4.3; KIP-1071.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.streams_assignor import TaskMap, Tasks
from kafkaraw.broker.groups.streams_group import NOTHING_OWNED, Owned, OwnedTasks, StreamsMember, TaskState
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode

IsTaken: TypeAlias = Callable[[tuple[str, int]], bool]


class TakenTasks(NamedTuple):
    """The tasks that members have, or have not revoked yet.

    Attributes:
        active: those that run anywhere.
        here: those of the member's process, in any role.
    """

    active: frozenset[tuple[str, int]]
    here: frozenset[tuple[str, int]]


def taken_tasks(members: Iterable[StreamsMember], process_id: str) -> TakenTasks:
    """Return the tasks that are not free for a member of a process."""
    active: set[tuple[str, int]] = set()
    here: set[tuple[str, int]] = set()
    for member in members:
        for tasks in (member.assigned, member.revoking):
            active.update(_ids(tasks.active))
            if member.process_id == process_id:
                here.update(task for role in tasks for task in _ids(role))
    return TakenTasks(frozenset(active), frozenset(here))


def _ids(owned: Owned) -> Iterable[tuple[str, int]]:
    return ((name, partition) for name, partitions in owned.items() for partition in partitions)


def reconcile(
    member: StreamsMember, target_epoch: int, target: Tasks, taken: TakenTasks, claimed: Tasks | None
) -> StreamsMember:
    """Take the next step of a member towards its target assignment.

    Args:
        member: the member before the step.
        target_epoch: epoch of the target assignment.
        target: its target assignment.
        taken: the tasks that are not free.
        claimed: the tasks that the member reports; None if it reports none.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH, the member has to rejoin.
    """
    epoch = member.epoch
    if member.state is TaskState.STABLE and epoch == target_epoch:
        return member
    if member.state is TaskState.UNREVOKED_TASKS:
        if claimed is None or member.revoking.overlaps(claimed):
            return member
        epoch += 1
    elif member.state is TaskState.UNKNOWN:
        if claimed is None or any(any(role.values()) for role in claimed):
            raise ApiError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
            )
        epoch = target_epoch
    return _next(member, epoch, target_epoch, target, taken, claimed)


class _Difference(NamedTuple):
    """What a member keeps, revokes and gets of one role, and whether it waits for more."""

    kept: Owned
    revoked: Owned
    added: Owned
    waits: bool


def _next(
    member: StreamsMember, epoch: int, target_epoch: int, target: Tasks, taken: TakenTasks, claimed: Tasks | None
) -> StreamsMember:
    def is_here(task: tuple[str, int]) -> bool:
        return task in taken.here

    assigned = member.assigned
    parts = (
        _difference(assigned.active, target.active, target_epoch, lambda task: task in taken.active or is_here(task)),
        _difference(assigned.standby, target.standby, 0, is_here),
        _difference(assigned.warmup, target.warmup, 0, is_here),
    )
    kept = OwnedTasks(*(part.kept for part in parts))
    revoked = OwnedTasks(*(part.revoked for part in parts))
    if any(revoked) and (claimed is None or revoked.overlaps(claimed)):
        return member.at(epoch, TaskState.UNREVOKED_TASKS, kept, revoked)
    state = TaskState.UNRELEASED_TASKS if any(part.waits for part in parts) else TaskState.STABLE
    owned = OwnedTasks(*(_merged(part.kept, part.added) for part in parts))
    return member.at(target_epoch, state, owned, NOTHING_OWNED)


def _difference(current: Owned, target: TaskMap, epoch: int, is_taken: IsTaken) -> _Difference:
    kept: dict[str, dict[int, int]] = {}
    revoked: dict[str, dict[int, int]] = {}
    added: dict[str, dict[int, int]] = {}
    waits = False
    for name in sorted({*current, *target}):
        owned, wanted = current.get(name, {}), target.get(name, frozenset())
        for partition, since in owned.items():
            (kept if partition in wanted else revoked).setdefault(name, {})[partition] = since
        for partition in sorted(wanted - owned.keys()):
            if is_taken((name, partition)):
                waits = True
            else:
                added.setdefault(name, {})[partition] = epoch
    return _Difference(kept, revoked, added, waits)


def _merged(kept: Owned, added: Owned) -> Owned:
    return {name: {**kept.get(name, {}), **added.get(name, {})} for name in sorted({*kept, *added})}
