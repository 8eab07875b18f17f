"""What is wrong with a cluster, in sentences. Pure: it reads a `ClusterStatus`.

Names in the sentences are as the cluster gave them: whoever shows them must escape them. Start at `problems_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from kafkaraw.errors import AuthorizationError
from kafkaraw.light_classes import dataclass
from kafkaraw.monitoring.status import ClusterStatus, GroupStatus

NAMES_MAX: Final = 5
"""A sentence names so many partitions or groups, and counts the others."""
DISK_USED_MAX: Final = 0.9
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_BEHIND_S: Final = 60.0


class Severity(StrEnum):
    """How bad a problem is.

    Attributes:
        ERROR: records cannot be written, or are lost.
        WARNING: it may become an error, or it is not as it should be.
        NOTE: something is not shown.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong.

    Attributes:
        severity: how bad it is.
        text: a sentence.
        subject: the kind of thing that it is about: "broker", "topic", "group" or "client".
        names: the brokers, topics or groups, all of them.
    """

    severity: Severity
    text: str
    subject: str
    names: tuple[str, ...] = ()


def problems_of(status: ClusterStatus) -> tuple[Problem, ...]:
    """Return what is wrong, the worst first."""
    found = [*_of_brokers(status), *_of_topics(status), *_of_groups(status), *_of_client(status)]
    order = list(Severity)
    return tuple(sorted(found, key=lambda problem: order.index(problem.severity)))


def _of_brokers(status: ClusterStatus) -> Iterator[Problem]:
    for broker in status.brokers:
        name = str(broker.node_id)
        if not broker.is_online:
            text = f"Broker {name} is away: {_counted(broker.replicas, 'replica')} are on it"
            yield Problem(Severity.ERROR, f"{text}.", "broker", (name,))
        for directory in broker.log_dirs:
            if directory.error is not None:
                text = f"Broker {name} cannot use its log directory {directory.path}: {directory.error}"
                yield Problem(Severity.ERROR, text, "broker", (name,))
        if broker.disk_used is not None and broker.disk_used >= DISK_USED_MAX:
            text = f"{broker.disk_used:.0%} of the disks of broker {name} are in use."
            yield Problem(Severity.WARNING, text, "broker", (name,))


def _of_topics(status: ClusterStatus) -> Iterator[Problem]:
    offline: list[str] = []
    under: list[str] = []
    for topic in status.topics:
        if topic.offline or topic.under_replicated:
            for each in status.snapshot.topics[topic.name].partitions:
                partition = f"{topic.name}-{each.partition}"
                if each.leader_id < 0:
                    offline.append(partition)
                elif len(each.isr_nodes) < len(each.replica_nodes):
                    under.append(partition)
    if offline:
        text = f"{_counted(len(offline), 'partition')} without a leader: {_listed(offline)}."
        yield Problem(Severity.ERROR, text, "topic", tuple(offline))
    if under:
        text = f"{_counted(len(under), 'under-replicated partition')}: {_listed(under)}."
        yield Problem(Severity.WARNING, text, "topic", tuple(under))


def _of_groups(status: ClusterStatus) -> Iterator[Problem]:
    yield from _lost(status)
    stopped = [group for group in status.groups if group.lag and group.members == 0 and _grows(group)]
    if stopped:
        text = f"No member, and a lag that grows: {_listed(group.group_id for group in stopped)}."
        yield Problem(Severity.WARNING, text, "group", tuple(group.group_id for group in stopped))
    slow = [group for group in status.groups if group.members != 0 and _grows(group) and _is_behind(group)]
    if slow:
        named = _listed(f"{group.group_id} (+{group.lag_per_s:,.0f} records/s)" for group in slow)
        text = f"Members that are slower than the producers: {named}."
        yield Problem(Severity.WARNING, text, "group", tuple(group.group_id for group in slow))
    moving = [group.group_id for group in status.groups if group.state in _REBALANCING]
    if moving:
        yield Problem(Severity.NOTE, f"Rebalancing: {_listed(moving)}.", "group", tuple(moving))


def _lost(status: ClusterStatus) -> Iterator[Problem]:
    snapshot = status.snapshot
    lost: dict[str, int] = {}
    for name, group in snapshot.groups.items():
        records = sum(
            max(0, snapshot.starts[key] - offset) for key, offset in group.offsets.items() if key in snapshot.starts
        )
        if records and not group.share_lags:
            lost[name] = records
    if lost:
        named = _listed(f"{name} ({records:,})" for name, records in lost.items())
        text = f"Offsets that were deleted before the group has committed them: {named}."
        yield Problem(Severity.WARNING, text, "group", tuple(lost))


def _of_client(status: ClusterStatus) -> Iterator[Problem]:
    for each in status.snapshot.missing:
        if isinstance(each.error, AuthorizationError):
            needed = each.error.operation or "DESCRIBE"
            on = " ".join(filter(None, (each.error.resource_type, each.error.resource_name)))
            why = f"it needs the permission {needed} on the {on}" if on else f"it needs the permission {needed}"
        else:
            why = str(each.error)
        yield Problem(Severity.NOTE, f"Not shown: {each.what}: {why}.", "client")
    if not status.topics:
        text = "No topic is shown: there is none, or this principal lacks the permission DESCRIBE on topics."
        yield Problem(Severity.NOTE, text, "client")


def _grows(group: GroupStatus) -> bool:
    return group.lag_per_s is not None and group.lag_per_s > 0


def _is_behind(group: GroupStatus) -> bool:
    return group.time_lag is not None and group.time_lag.seconds >= _BEHIND_S


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - NAMES_MAX
    return ", ".join(every[:NAMES_MAX]) + (f" and {more:,} more" if more > 0 else "")
