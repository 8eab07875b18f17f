"""ShareGroupDescribe (77): state and members of share groups (KIP-932)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, string, uuid


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
        rack_id: the rack; null when unknown.
        member_epoch: grows with every new assignment.
    """

    member_id: string
    rack_id: string | None = None
    member_epoch: int32
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    assignment: Assignment


@struct
class DescribedGroup:
    """One group.

    Attributes:
        error_message: the broker's words; null when it has none.
        group_state: Empty, Stable or Dead.
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


@request(api_key=77, versions="0-1", flexible="0+", removed="0")
class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    """Ask about groups; must reach each group's coordinator."""

    group_ids: list[string]
    include_authorized_operations: boolean


@response(api_key=77, versions="0-1", flexible="0+", removed="0")
class ShareGroupDescribeResponse(Response):
    """The groups.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup]
