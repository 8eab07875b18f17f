"""The simple assignor of share groups: a partition may have several members. Pure functions.

Each partition gets the same number of members, and each member as close to the same number of partitions as possible;
members keep what they had where the balance allows it.
Source: org.apache.kafka.coordinator.group.assignor.SimpleAssignor and the builders that it uses; KIP-932.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Final

from kafkaraw.broker.groups.assignors import MemberSpec, PartitionsByTopic
from kafkaraw.protocol import Uuid

NAME: Final = "simple"
_Key = tuple[Uuid, int]


def assign_simple(
    members: Mapping[str, MemberSpec], assignable: Mapping[Uuid, Iterable[int]]
) -> dict[str, PartitionsByTopic]:
    """Assign partitions to members.

    Args:
        members: members by member id.
        assignable: the partitions of each topic that members may have.
    """
    found: dict[str, set[_Key]] = {member_id: set() for member_id in members}
    for readers, topics in _by_readers(members).items():
        targets = [(topic_id, partition) for topic_id in topics for partition in sorted(assignable.get(topic_id, ()))]
        before = {
            member_id: [
                (topic_id, partition)
                for topic_id in topics
                for partition in sorted(members[member_id].assignment.get(topic_id, ()))
            ]
            for member_id in readers
        }
        for member_id, keys in _shared(readers, targets, before).items():
            found[member_id].update(keys)
    return {member_id: _grouped(keys) for member_id, keys in found.items()}


def _by_readers(members: Mapping[str, MemberSpec]) -> dict[tuple[str, ...], list[Uuid]]:
    """Return which topics are balanced together: all, if all members subscribe to the same ones, else each alone."""
    topics = sorted({topic_id for spec in members.values() for topic_id in spec.topics})
    if len({spec.topics for spec in members.values()}) <= 1:
        return {tuple(members): topics} if topics else {}
    found: dict[tuple[str, ...], list[Uuid]] = {}
    for topic_id in topics:
        readers = tuple(member_id for member_id, spec in members.items() if topic_id in spec.topics)
        found.setdefault(readers, []).append(topic_id)
    return found


def _shared(
    members: Sequence[str], targets: Sequence[_Key], before: Mapping[str, Sequence[_Key]]
) -> dict[str, list[_Key]]:
    """Assign each target to the same number of members."""
    if not targets:
        return {}
    sharing = ceil(len(members) / len(targets))
    each = sharing * len(targets) / len(members)
    room = {member_id: ceil(each * (at + 1)) - ceil(each * at) for at, member_id in enumerate(members)}
    owners: dict[_Key, list[str]] = {target: [] for target in targets}
    found: dict[str, list[_Key]] = {member_id: [] for member_id in members}
    for member_id in members:
        for key in before[member_id]:
            if key in owners and len(owners[key]) < sharing and len(found[member_id]) < room[member_id]:
                owners[key].append(member_id)
                found[member_id].append(key)
    waiting = [member_id for member_id in members if len(found[member_id]) < room[member_id]]
    for target, having in owners.items():
        for member_id in list(waiting):
            if len(having) >= sharing:
                break
            if member_id in having:
                continue
            having.append(member_id)
            found[member_id].append(target)
            waiting.remove(member_id)
            if len(found[member_id]) < room[member_id]:
                waiting.append(member_id)  # behind the others
    return found


def _grouped(keys: Iterable[_Key]) -> PartitionsByTopic:
    found: dict[Uuid, set[int]] = {}
    for topic_id, partition in keys:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}
