"""The interface of assignors, and the racks of members and replicas that they consider (KIP-881).

Derive from `Assignor` to make an assignor. `racks_matter` decides whether racks influence an assignment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar

from kafkaraw.core.group.consumer_protocol import MemberSubscription
from kafkaraw.records import TopicPartition

Topics = Mapping[str, Sequence[frozenset[str]]]
"""For every topic that exists, its partitions in order: the racks of each one's replicas, as far as they are known."""

Members = Mapping[str, MemberSubscription]
Assignment = dict[str, list[TopicPartition]]


class Assignor(ABC):
    """Assigns the partitions of topics to the members of a group.

    Each consumer has its own object. The group leader calls `assign`; every member calls `assigned` with the result.

    Attributes:
        name: what all members of the group must call it.
        cooperative: members keep what they have while they rebalance, and a partition that moves is taken from its
            owner first and given to the new one in the rebalance after (KIP-429).
    """

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False

    @abstractmethod
    def assign(self, topics: Topics, members: Members) -> Mapping[str, Sequence[TopicPartition]]:
        """Assign the partitions of topics to members.

        Args:
            topics: the existing topics that members have subscribed to.
            members: by member id.

        Returns:
            the partitions of each member, by member id.
        """

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """Return bytes that this member adds to its subscription, for the leader's assignor; None for none."""
        return None

    def assigned(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:  # noqa: B027 - may be left out
        """Called with the partitions that were assigned to this member."""


def racks_of_members(members: Members) -> dict[str, str]:
    """The rack of each member that names one."""
    return {member_id: member.rack_id for member_id, member in members.items() if member.rack_id}


def racks_matter(member_racks: Collection[str], partition_racks: Collection[frozenset[str]]) -> bool:
    """Whether a member may be nearer to one partition than to another: not when all partitions are in all racks."""
    everywhere = frozenset().union(*partition_racks)
    return not everywhere.isdisjoint(member_racks) and any(racks != everywhere for racks in partition_racks)


class RackMap:
    """Racks of members and partitions, for the sticky assignors.

    Attributes:
        member_racks: of members; empty when racks do not matter.
    """

    def __init__(self, topics: Topics, members: Members) -> None:
        by_member = racks_of_members(members)
        by_partition: dict[TopicPartition, frozenset[str]] = {}
        if by_member:
            by_partition = {
                TopicPartition(topic, number): racks
                for topic, partitions in topics.items()
                for number, racks in enumerate(partitions)
            }
        matter = racks_matter(set(by_member.values()), by_partition.values())
        self.member_racks: Mapping[str, str] = by_member if matter else {}
        self.partition_racks: Mapping[TopicPartition, frozenset[str]] = by_partition if matter else {}
        in_rack: dict[str, int] = {}
        for rack in by_member.values():
            in_rack[rack] = in_rack.get(rack, 0) + 1
        self._neighbours = {
            partition: sum(in_rack.get(rack, 0) for rack in racks) for partition, racks in by_partition.items()
        }

    def mismatch(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether the member names a rack that no replica is in."""
        rack = self.member_racks.get(member_id)
        return rack is not None and rack not in self.partition_racks.get(partition, ())

    def match(self, member_id: str, partition: TopicPartition) -> bool:
        """Whether the member and a replica are in the same rack."""
        return self.member_racks.get(member_id) in self.partition_racks.get(partition, ())

    def by_neighbours(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions with the fewest members nearby first, otherwise in the order given."""
        return sorted(partitions, key=lambda partition: self._neighbours.get(partition, 0))

    def next_neighbour(self, partition: TopicPartition, members: list[str], start: int) -> int | None:
        """Index of the first member near the partition, from `start` on and around."""
        if not self.partition_racks.get(partition):
            return None
        around = ((start + step) % len(members) for step in range(len(members)))
        return next((index for index in around if self.match(members[index], partition)), None)
