"""The range and round-robin assignors. Source: Kafka's RangeAssignor (KIP-881) and RoundRobinAssignor.

Range: of each topic, every member gets a run of consecutive partitions. Topics with the same number of partitions and
the same members are divided at the same places, so that partition 7 of both is assigned to one member. When members and
replicas have racks, members in a replica's rack come first, and such topics stay divided alike.

Round robin: the partitions of all topics are assigned to the members in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import ClassVar

from kafkaraw.core.group.assignors.interface import (
    Assignment,
    Assignor,
    Members,
    Topics,
    racks_matter,
    racks_of_members,
)
from kafkaraw.core.group.assignors.java_order import member_order, partitions_in_order
from kafkaraw.core.group.consumer_protocol import text_order
from kafkaraw.records import TopicPartition


class _Topic:
    """One topic while it is shared out."""

    def __init__(
        self, name: str, partition_racks: list[frozenset[str]], members: list[str], racks: dict[str, str]
    ) -> None:
        self.name = name
        self.partition_racks = partition_racks
        self.members = members
        self.racks = {member_id: racks.get(member_id) for member_id in members}
        self.free = dict.fromkeys(range(len(partition_racks)))
        self.given = dict.fromkeys(members, 0)
        self.share, self.extra = divmod(len(partition_racks), len(members)) if members else (0, 0)
        named = {rack for rack in self.racks.values() if rack}
        self.racks_matter = bool(named) and racks_matter(named, partition_racks)
        self.knows_racks = bool(named)

    def is_near(self, member_id: str, number: int) -> bool:
        rack = self.racks.get(member_id)
        return rack is None or (self.knows_racks and rack in self.partition_racks[number])

    def room(self, member_id: str) -> int:
        return max(0, self.share + (self.extra > 0) - self.given[member_id])

    def give(self, member_id: str, numbers: list[int], assignment: Assignment) -> None:
        assignment[member_id] += [TopicPartition(self.name, number) for number in numbers]
        self.given[member_id] += len(numbers)
        if self.given[member_id] > self.share:
            self.extra -= 1
        for number in numbers:
            del self.free[number]

    def give_ranges(self, may: Callable[[str, int], bool], assignment: Assignment) -> None:
        for member_id in self.members:
            numbers = [number for number in self.free if may(member_id, number)][: self.room(member_id)]
            if numbers:
                self.give(member_id, numbers, assignment)


class RangeAssignor(Assignor):
    """Cuts each topic into as many runs as there are members."""

    name: ClassVar[str] = "range"

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Share the partitions out; see `Assignor.assign`."""
        racks = racks_of_members(members)
        assignment: Assignment = {member_id: [] for member_id in members}
        states = []
        for name in sorted(topics, key=text_order):
            wanting = [member_id for member_id, member in members.items() if name in member.topics]
            if topics[name] and wanting:
                states.append(_Topic(name, list(topics[name]), member_order(members, wanting), racks))
        racks_used = any(state.racks_matter for state in states)
        if racks_used:
            _give_to_neighbours(states, assignment)
        for state in states:
            state.give_ranges(lambda _member_id, _number: True, assignment)
        return {member_id: partitions_in_order(given) for member_id, given in assignment.items()}


def _give_to_neighbours(states: list[_Topic], assignment: Assignment) -> None:
    """Give partitions to members in a rack of theirs; topics that can be cut alike together."""
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for state in states:
        alike.setdefault((tuple(state.members), len(state.partition_racks)), []).append(state)
    for (_, count), together in alike.items():
        if len(together) > 1 and together[0].knows_racks:
            _give_alike(together, count, assignment)
        elif together[0].racks_matter:
            together[0].give_ranges(together[0].is_near, assignment)


def _give_alike(together: list[_Topic], count: int, assignment: Assignment) -> None:
    waiting = list(together[0].members)
    for number in range(count):
        near = (
            member_id
            for member_id in waiting
            if all(topic.is_near(member_id, number) and topic.room(member_id) for topic in together)
        )
        taker = next(near, None)
        if taker is None:
            continue
        for topic in together:
            topic.give(taker, [number], assignment)
        if not any(topic.room(taker) for topic in together):
            waiting.remove(taker)
            if not waiting:
                return


class RoundRobinAssignor(Assignor):
    """Deals partitions out in order; a member that does not want the topic is passed over."""

    name: ClassVar[str] = "roundrobin"

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Share the partitions out; see `Assignor.assign`."""
        assignment: Assignment = {member_id: [] for member_id in members}
        wanted = {member_id: frozenset(member.topics) for member_id, member in members.items()}
        known = frozenset().union(*wanted.values()) & topics.keys()
        turns = cycle(member_order(members))
        for topic in sorted(known, key=text_order):
            for number in range(len(topics[topic])):
                turn = next(member_id for member_id in turns if topic in wanted[member_id])
                assignment[turn].append(TopicPartition(topic, number))
        return assignment
