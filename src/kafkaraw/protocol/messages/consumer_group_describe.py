"""ConsumerGroupDescribe (69): state and members of groups of the new protocol (KIP-848)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int8, int16, int32, string, uuid


@struct
class TopicPartitions:
    """Partitions of one topic.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    topic_id: uuid
    topic_name: string
    partitions: list[int32]


@struct
class Assignment:
    """Partitions of a member."""

    topic_partitions: list[TopicPartitions]


@struct
class Member:
    """One member.

    Attributes:
        instance_id: name of a static member, or null.
        rack_id: the rack; null when unknown.
        member_epoch: grows with every new assignment.
        assignment: what it owns.
        target_assignment: what it should own.
        member_type: 0 classic, 1 consumer; -1 unknown.
    """

    member_id: string
    instance_id: string | None = None
    rack_id: string | None = None
    member_epoch: int32
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: int8 = field(versions="1+", default=-1, ignorable=True)


@struct
class DescribedGroup:
    """One group.

    Attributes:
        error_message: the broker's words; null when it has none.
        group_state: Empty, Assigning, Reconciling, Stable or Dead.
        group_epoch: grows with every change of the group.
        assignment_epoch: group epoch that the assignment was made for.
        authorized_operations: bits of allowed operations; -2147483648 when not asked for.
    """

    error_code: int16
    error_message: string | None = None
    group_id: string
    group_state: string
    group_epoch: int32
    assignment_epoch: int32
    assignor_name: string
    members: list[Member]
    authorized_operations: int32 = -2_147_483_648


@request(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
    """Ask about groups; must reach each group's coordinator.

    Version 1 has the type of a member (KIP-1099).
    """

    group_ids: list[string]
    include_authorized_operations: boolean


@response(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Response):
    """The groups.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup]
