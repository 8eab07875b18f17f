"""Round robin: all partitions of all topics are dealt out like cards.  Source: Kafka's RoundRobinAssignor."""

from __future__ import annotations

from itertools import cycle
from typing import ClassVar

from kafkaraw.core.group.assignors.interface import Assignment, Assignor, Members, Topics
from kafkaraw.core.group.assignors.java_order import member_order
from kafkaraw.core.group.consumer_protocol import text_order
from kafkaraw.records import TopicPartition


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
