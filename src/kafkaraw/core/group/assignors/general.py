"""Sticky assignment when members want different topics: as even as subscriptions allow. Pure.

Members keep the partitions that they own and still want. Each unassigned partition goes to the member with the fewest.
Then partitions move to members with fewer, until no member that wants a partition has at least two fewer than its
owner. Source: Kafka's AbstractStickyAssignor, KIP-54, KIP-881.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from kafkaraw.core.group.assignors.interface import Assignment, Members, RackMap, Topics
from kafkaraw.core.group.assignors.java_order import partition_hash_order
from kafkaraw.core.group.assignors.owned import Owned
from kafkaraw.core.group.consumer_protocol import text_order
from kafkaraw.records import TopicPartition

_Way = tuple[str, str]


def assign_general(topics: Topics, members: Members, racks: RackMap, owned: Owned) -> Assignment:
    """Return the partitions of each member."""
    balance = _Balance(topics, members, racks, owned)
    revoked = balance.drop_unwanted()
    free = balance.unassigned()
    begins = not any(balance.assignment.values())
    for partition in balance.give_near(free) if racks.member_racks else free:
        balance.give_to_least(partition)
    movable = [partition for partition in balance.partitions if len(balance.wanting[partition.topic]) > 1]
    balance.leave_out_fixed()
    before = {member_id: list(given) for member_id, given in balance.assignment.items()}
    fixed = balance.fixed
    if not revoked:
        free_set = set(free)
        balance.level([partition for partition in movable if partition in free_set])
    moved = balance.level(movable)
    result = balance.assignment
    if not begins and moved and _unevenness(result) >= _unevenness(before):
        result = before
    return {member_id: fixed[member_id] if member_id in fixed else result[member_id] for member_id in members}


class _Balance:
    """An assignment in the making.

    Attributes:
        wanting: members that want a topic, in their order, by topic.
        wanted: topics that exist and that a member wants, by member.
        partitions: all, those first that the fewest members want.
        fixed: what members have with whom no partition can be exchanged.
    """

    def __init__(self, topics: Topics, members: Members, racks: RackMap, owned: Owned) -> None:
        self._topics, self._members, self._racks = topics, members, racks
        self._former = owned.former
        self.assignment: Assignment = {member_id: list(given) for member_id, given in owned.partitions.items()}
        self.wanting: dict[str, list[str]] = {topic: [] for topic in topics}
        self.wanted: dict[str, list[str]] = {}
        for member_id, member in members.items():
            self.wanted[member_id] = [topic for topic in dict.fromkeys(member.topics) if topic in topics]
            for topic in self.wanted[member_id]:
                self.wanting[topic].append(member_id)
        self.partitions = [
            TopicPartition(topic, number)
            for topic in sorted(topics, key=lambda name: (len(self.wanting[name]), text_order(name)))
            for number in range(len(topics[topic]))
        ]
        self.fixed: Assignment = {}
        self._owner: dict[TopicPartition, str] = {}
        self._by_count: list[tuple[int, bytes, str]] = []
        self._movements = _Movements()
        self._even: bool | None = None

    def drop_unwanted(self) -> bool:
        """Take away what members own and do not want any more, or are far from; whether there was any."""
        dropped = False
        for member_id, given in self.assignment.items():
            topics = frozenset(self._members[member_id].topics)
            kept = [
                partition
                for partition in given
                if partition.topic in topics and not self._racks.mismatch(member_id, partition)
            ]
            dropped = dropped or len(kept) < len(given)
            self.assignment[member_id] = kept
            self._owner.update(dict.fromkeys(kept, member_id))
        self._by_count = sorted(map(self._place, self.assignment))
        return dropped

    def unassigned(self) -> list[TopicPartition]:
        return [partition for partition in self.partitions if partition not in self._owner]

    def give_near(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Give each partition to the member with the least that is not far from it; those for which there is none."""
        return [partition for partition in partitions if not self.give_to_least(partition, near=True)]

    def give_to_least(self, partition: TopicPartition, *, near: bool = False) -> bool:
        """Give a partition to the member with the least that wants it."""
        for _, _, member_id in self._by_count:
            if partition.topic in self.wanted[member_id] and not (near and self._racks.mismatch(member_id, partition)):
                self._lift(member_id)
                self.assignment[member_id].append(partition)
                self._owner[partition] = member_id
                self._place_again(member_id)
                return True
        return False

    def leave_out_fixed(self) -> None:
        """Set those members aside that have all they can have, none of which another one wants."""
        for member_id, given in list(self.assignment.items()):
            most = self._most(member_id)
            if len(given) >= most and all(len(self.wanting[partition.topic]) < 2 for partition in given):
                self._lift(member_id)
                self.fixed[member_id] = self.assignment.pop(member_id)

    def level(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions from members with more to members with less, until it is even; whether any was moved."""
        moved = False
        changed = True
        while changed:
            changed = False
            for partition in partitions:
                if self._is_even():
                    break
                changed = self._move_if_uneven(partition) or changed
            moved = moved or changed
        return moved

    def _move_if_uneven(self, partition: TopicPartition) -> bool:
        limit = len(self.assignment[self._owner[partition]]) - 1
        wanting = self.wanting[partition.topic]
        former = self._former.get(partition)
        if former in wanting and former in self.assignment and len(self.assignment[former]) < limit:
            self._move(partition, former)
            return True
        if any(len(self.assignment[member_id]) < limit for member_id in wanting):
            least = next(member_id for _, _, member_id in self._by_count if partition.topic in self.wanted[member_id])
            self._move(partition, least)
            return True
        return False

    def _move(self, partition: TopicPartition, target: str) -> None:
        """Move a partition to the target, or another one of its topic if that undoes an earlier move."""
        partition = self._movements.better_to_move(partition, self._owner[partition], target)
        source = self._owner[partition]
        self._lift(source)
        self._lift(target)
        self._movements.move(partition, source, target)
        self.assignment[source].remove(partition)
        self.assignment[target].append(partition)
        self._owner[partition] = target
        self._place_again(source)
        self._place_again(target)
        self._even = None

    def _is_even(self) -> bool:
        """Whether no member could take a partition from a member that has at least two more."""
        if self._even is None:
            self._even = self._by_count[0][0] >= self._by_count[-1][0] - 1 or not any(
                map(self._is_uneven, self.wanting)
            )
        return self._even

    def _is_uneven(self, topic: str) -> bool:
        counts = [len(self.assignment[member_id]) for member_id in self.wanting[topic] if member_id in self.assignment]
        owners = {self._owner[TopicPartition(topic, number)] for number in range(len(self._topics[topic])) if counts}
        most = max((len(self.assignment.get(owner, ())) for owner in owners), default=0)
        return bool(counts) and min(counts) + 1 < most

    def _most(self, member_id: str) -> int:
        return sum(len(self._topics[topic]) for topic in self.wanted[member_id])

    def _place(self, member_id: str) -> tuple[int, bytes, str]:
        return len(self.assignment[member_id]), text_order(member_id), member_id

    def _lift(self, member_id: str) -> None:
        """Take a member out of the order by number of partitions, before that number changes."""
        del self._by_count[bisect_left(self._by_count, self._place(member_id))]

    def _place_again(self, member_id: str) -> None:
        insort(self._by_count, self._place(member_id))


class _Movements:
    """Moves of partitions, from their first owner to the present one (PartitionMovements of AbstractStickyAssignor).

    It keeps a topic's partitions from being swapped in pairs: when one has moved from A to B and another one should
    move from B to A, it is better to move the first one back.
    """

    def __init__(self) -> None:
        self._way_of: dict[TopicPartition, _Way] = {}
        self._on_way: dict[tuple[str, _Way], dict[TopicPartition, None]] = {}

    def better_to_move(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to move from `source` to `target` instead of this one; this one when none is better."""
        if partition in self._way_of:
            source = self._way_of[partition][0]
        reverse = self._on_way.get((partition.topic, (target, source)))
        return partition_hash_order(reverse.keys())[0] if reverse else partition

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Note a move; one that leads back to the first owner is forgotten."""
        way = self._way_of.pop(partition, None)
        if way is not None:
            on_way = self._on_way[partition.topic, way]
            del on_way[partition]
            if not on_way:
                del self._on_way[partition.topic, way]
            source = way[0]
        if source != target:
            self._way_of[partition] = source, target
            self._on_way.setdefault((partition.topic, (source, target)), {})[partition] = None


def _unevenness(assignment: Assignment) -> int:
    """How far the numbers of partitions lie apart, all pairs together."""
    counts = sorted(map(len, assignment.values()))
    return sum((2 * at - len(counts) + 1) * count for at, count in enumerate(counts))
