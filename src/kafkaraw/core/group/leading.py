"""What the leader of a classic group does: read the others' subscriptions, and make the assignment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.core.group.subscription import MemberSubscription, decode_subscription, encode_assignment
from kafkaraw.errors import UsageError
from kafkaraw.protocol.messages.join_group import JoinGroupResponseMember
from kafkaraw.records import TopicPartition

Assigned = Mapping[str, bytes]


def read_members(members: Iterable[JoinGroupResponseMember]) -> dict[str, MemberSubscription]:
    """All members' subscriptions, by member id.

    Raises:
        ProtocolError: one cannot be read.
    """
    return {
        member.member_id: decode_subscription(bytes(member.metadata), member.group_instance_id) for member in members
    }


def assign_group(assignor: Assignor, topics: Topics, members: Mapping[str, MemberSubscription]) -> Assigned:
    """Share the partitions out; each member's part as bytes.

    Raises:
        UsageError: the assignor gave out what it must not.
    """
    wanted = {topic for member in members.values() for topic in member.topics}
    existing = {topic: topics[topic] for topic in sorted(wanted & topics.keys())}
    assignment = assignor.assign(existing, members)
    _check(assignor, existing, members, assignment)
    return {member_id: encode_assignment(assignment.get(member_id, ())) for member_id in members}


def _check(
    assignor: Assignor,
    topics: Topics,
    members: Mapping[str, MemberSubscription],
    assignment: Mapping[str, Sequence[TopicPartition]],
) -> None:
    strangers = assignment.keys() - members.keys()
    if strangers:
        raise UsageError(f"assignor {assignor.name!r} assigned to {sorted(strangers)}, who are no members")
    owner: dict[TopicPartition, str] = {}
    before = {partition: member_id for member_id, member in members.items() for partition in member.owned_partitions}
    for member_id, given in assignment.items():
        for partition in given:
            if partition in owner:
                raise UsageError(f"assignor {assignor.name!r} assigned {partition} to two members")
            if partition.partition >= len(topics.get(partition.topic, ())):
                raise UsageError(f"assignor {assignor.name!r} assigned {partition}, which does not exist")
            owner[partition] = member_id
    if assignor.cooperative and assignor.name != "cooperative-sticky":
        moved = sorted(partition for partition, new in owner.items() if before.get(partition, new) != new)
        if moved:
            raise UsageError(
                f"assignor {assignor.name!r} is cooperative: it must leave {moved[0]} out until it was given up"
            )
