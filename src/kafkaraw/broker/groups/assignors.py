"""The server-side assignors of consumer groups: range and uniform. Pure functions.

`range` assigns each member a contiguous range of the partitions of each topic. `uniform` distributes partitions evenly
and is sticky. As in Kafka 4.3, racks are ignored.
Source: org.apache.kafka.coordinator.group.assignor.{RangeAssignor, UniformAssignor}; KIP-848.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol import Uuid

PartitionsByTopic = Mapping[Uuid, frozenset[int]]
"""Topic id -> partitions."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member, as input of an assignor.

    Attributes:
        topics: ids of its subscribed topics.
        assignment: its previous target assignment.
    """

    instance_id: str | None
    topics: frozenset[Uuid]
    assignment: PartitionsByTopic = field(default_factory=dict)


Members = Mapping[str, MemberSpec]
Counts = Mapping[Uuid, int]
Assignor = Callable[[Members, Counts], dict[str, PartitionsByTopic]]


def assign_range(members: Members, counts: Counts) -> dict[str, PartitionsByTopic]:
    """Assign each member a contiguous range of the partitions of each topic; static members keep their order.

    Args:
        members: members by member id.
        counts: number of partitions of every subscribed topic.
    """
    ordered = sorted(members, key=lambda name: _range_order(name, members[name].instance_id))
    found: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in ordered}
    for topic_id, count in counts.items():
        readers = [member_id for member_id in ordered if topic_id in members[member_id].topics]
        start = 0
        for place, member_id in enumerate(readers):
            end = start + count // len(readers) + (place < count % len(readers))
            if start < end:
                found[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(found)


def _range_order(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)


def assign_uniform(members: Members, counts: Counts) -> dict[str, PartitionsByTopic]:
    """Assign all members the same number of partitions, and move as few partitions as possible.

    Args:
        members: members by member id.
        counts: number of partitions of every subscribed topic.
    """
    kept = {member_id: _kept(spec, counts) for member_id, spec in members.items()}
    taken = {each for parts in kept.values() for each in parts}
    free = [
        (topic_id, partition)
        for topic_id, count in sorted(counts.items())
        for partition in range(count)
        if (topic_id, partition) not in taken
    ]
    if len({spec.topics for spec in members.values()}) <= 1:
        _fill_evenly(kept, free)
    else:
        _balance(members, kept, free)
    return {member_id: _grouped(parts) for member_id, parts in kept.items()}


_Placed = dict[str, dict[tuple[Uuid, int], None]]


def _kept(spec: MemberSpec, counts: Counts) -> dict[tuple[Uuid, int], None]:
    return {
        (topic_id, partition): None
        for topic_id, partitions in sorted(spec.assignment.items())
        if topic_id in spec.topics
        for partition in sorted(partitions)
        if partition < counts.get(topic_id, 0)
    }


def _fill_evenly(kept: _Placed, free: list[tuple[Uuid, int]]) -> None:
    """Assign partitions if all members have the same topics: each gets the quota, and some get one more."""
    total = len(free) + sum(map(len, kept.values()))
    quota, extra = divmod(total, len(kept)) if kept else (0, 0)
    # Members that already have the most partitions get the extra ones, so that the fewest partitions move.
    order = sorted(kept, key=lambda member_id: -len(kept[member_id]))
    quotas = {member_id: quota + (place < extra) for place, member_id in enumerate(order)}
    for member_id, parts in kept.items():
        while len(parts) > quotas[member_id]:
            free.append(parts.popitem()[0])
    left = iter(free)
    for member_id, parts in kept.items():
        while len(parts) < quotas[member_id]:
            parts[next(left)] = None


def _balance(members: Members, kept: _Placed, free: list[tuple[Uuid, int]]) -> None:
    """Assign partitions if members have different topics: to the member with the fewest, then balance by moves."""

    def readers(topic_id: Uuid) -> list[str]:
        return [member_id for member_id, spec in members.items() if topic_id in spec.topics]

    for topic_id, partition in sorted(free, key=lambda each: (len(readers(each[0])), each)):
        least = min(readers(topic_id), key=lambda member_id: len(kept[member_id]), default=None)
        if least is not None:
            kept[least][topic_id, partition] = None
    moved = True
    while moved:
        moved = False
        for owner in sorted(kept, key=lambda member_id: -len(kept[member_id])):
            for topic_id, partition in list(kept[owner]):
                least = min(readers(topic_id), key=lambda member_id: len(kept[member_id]))
                if len(kept[owner]) - len(kept[least]) > 1:
                    del kept[owner][topic_id, partition]
                    kept[least][topic_id, partition] = None
                    moved = True


def _grouped(parts: Mapping[tuple[Uuid, int], None]) -> PartitionsByTopic:
    found: dict[Uuid, set[int]] = {}
    for topic_id, partition in parts:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}


ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
"""The assignors by Kafka's names."""
