"""Sticky assignment when all members want the same topics: their numbers of partitions differ by at most one. Pure.

Members keep what they own up to their share; the rest is dealt out, to neighbours first when racks matter, to members
below their share before those that may have one more. Source: Kafka's AbstractStickyAssignor, KIP-881.
"""

from __future__ import annotations

from kafkaraw.core.group.assignors.interface import Assignment, RackMap, Topics
from kafkaraw.core.group.assignors.owned import Owned
from kafkaraw.core.group.consumer_protocol import text_order
from kafkaraw.records import TopicPartition


def assign_constrained(topics: Topics, racks: RackMap, owned: Owned) -> tuple[Assignment, dict[TopicPartition, str]]:
    """Share the partitions out.

    Returns:
        what each member gets; and the new member of each partition that another one may still have.
    """
    deal = _Deal(topics, racks, owned)
    deal.keep_owned()
    deal.below.sort(key=text_order)
    deal.at_share.sort(key=text_order)
    left = racks.by_neighbours(deal.unassigned())
    if racks.member_racks:
        left = deal.to_neighbours(left)
    deal.around(left)
    return deal.assignment, deal.moving


class _Deal:
    """An assignment in the making.

    Attributes:
        below: members with less than their share.
        at_share: members with exactly their share, which may get one more.
        more_left: how many members may still have one more than the share.
    """

    def __init__(self, topics: Topics, racks: RackMap, owned: Owned) -> None:
        self._racks, self._owned = racks, owned
        self._all = [
            TopicPartition(topic, number)
            for topic in sorted(topics, key=text_order)
            for number in range(len(topics[topic]))
        ]
        self.share, self.more_left = divmod(len(self._all), len(owned.partitions)) if owned.partitions else (0, 0)
        self.most = self.share + (self.more_left > 0)
        self.below: list[str] = []
        self.at_share: list[str] = []
        self.assignment: Assignment = {member_id: [] for member_id in owned.partitions}
        self.moving: dict[TopicPartition, str] = {}
        self._taken_from: dict[TopicPartition, str] = {}

    def keep_owned(self) -> None:
        for member_id, partitions in self._owned.partitions.items():
            far = [partition for partition in partitions if self._racks.mismatch(member_id, partition)]
            self._taken_from.update(dict.fromkeys(far, member_id))
            kept = sorted(set(partitions) - set(far) - self._owned.disputed, key=_by_number)
            if len(kept) < self.share:
                self.below.append(member_id)
            elif len(kept) >= self.most and self.more_left:
                self._one_more()
                kept = self._keep(member_id, kept, self.most)
            else:
                kept = self._keep(member_id, kept, self.share)
                if self.more_left:
                    self.at_share.append(member_id)
            self.assignment[member_id] += kept

    def unassigned(self) -> list[TopicPartition]:
        taken = {partition for given in self.assignment.values() for partition in given}
        return [partition for partition in self._all if partition not in taken]

    def to_neighbours(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members in a rack of theirs; those are returned for which there is none."""
        left, turn = [], 0
        for partition in partitions:
            index = self._racks.next_neighbour(partition, self.below, turn) if self.below else None
            if index is not None:
                turn = self._fill(partition, index)
            elif not self._top_up(partition):
                left.append(partition)
        return left

    def around(self, partitions: list[TopicPartition]) -> None:
        """Deal the rest: a partition to each member below its share in turn, then one more to some."""
        turn = 0
        for partition in partitions:
            if not self.below:
                member_id = self.at_share.pop(0)
                self._give(partition, member_id)
                continue
            member_id = self.below[turn % len(self.below)]
            turn %= len(self.below)
            if self._give(partition, member_id) >= self.share:
                self.below.pop(turn)
                self.at_share.append(member_id)
                turn = turn if turn < len(self.below) else 0
            else:
                turn += 1

    def _fill(self, partition: TopicPartition, index: int) -> int:
        """Give a partition to a member below its share; says whose turn is next."""
        member_id = self.below[index]
        count = self._give(partition, member_id)
        if count >= self.share:
            self.below.pop(index)
            if count < self.most and self.more_left:
                self.at_share.append(member_id)
        else:
            index += 1
        return index % len(self.below) if self.below else 0

    def _top_up(self, partition: TopicPartition) -> bool:
        """Give one more than the share to a neighbour, if there is one that may have it."""
        index = self._racks.next_neighbour(partition, self.at_share, 0) if self.at_share else None
        if index is None:
            return False
        member_id = self.at_share[index]
        if self._give(partition, member_id) == self.most:
            self.at_share.pop(index)
            self._one_more()
        return True

    def _one_more(self) -> None:
        self.more_left -= 1
        if not self.more_left:
            self.at_share.clear()

    def _keep(self, member_id: str, partitions: list[TopicPartition], count: int) -> list[TopicPartition]:
        self._taken_from.update(dict.fromkeys(partitions[count:], member_id))
        return partitions[:count]

    def _give(self, partition: TopicPartition, member_id: str) -> int:
        self.assignment[member_id].append(partition)
        if self._taken_from.get(partition, member_id) != member_id or partition in self._owned.disputed:
            self.moving[partition] = member_id
        return len(self.assignment[member_id])


def _by_number(partition: TopicPartition) -> tuple[int, bytes]:
    return partition.partition, text_order(partition.topic)
