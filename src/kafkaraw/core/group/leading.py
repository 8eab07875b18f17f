"""What the leader of a classic group does: read the others' subscriptions, and make the assignment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkaraw.core.group.asking_assignors import ask_assignment
from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.core.group.subscription import MemberSubscription, decode_subscription, encode_assignment
from kafkaraw.protocol.messages.join_group import JoinGroupResponseMember

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
        GroupError: the assignor failed, or gave out what it must not.
    """
    wanted = {topic for member in members.values() for topic in member.topics}
    existing = {topic: topics[topic] for topic in sorted(wanted & topics.keys())}
    assignment = ask_assignment(assignor, existing, members)
    return {member_id: encode_assignment(assignment.get(member_id, ())) for member_id in members}
