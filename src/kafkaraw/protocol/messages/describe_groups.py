"""DescribeGroups (15): state and members of classic groups."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, string


@struct
class DescribedGroupMember:
    """A member.

    Attributes:
        group_instance_id: name of a static member (KIP-345), or null.
        client_id: client id of its requests.
        client_host: address it came from.
        member_metadata: its subscription.
        member_assignment: its part.
    """

    member_id: string
    group_instance_id: string | None = field(versions="4+", default=None, ignorable=True)
    client_id: string
    client_host: string
    member_metadata: bytes
    member_assignment: bytes


@struct
class DescribedGroup:
    """One group.

    Attributes:
        error_message: the broker's words; null when it has none.
        group_state: Empty, PreparingRebalance, CompletingRebalance, Stable or Dead.
        protocol_type: `consumer` for consumers.
        protocol_data: the assignor in use.
        authorized_operations: bits of allowed operations; -2147483648 when not asked for.
    """

    error_code: int16
    error_message: string | None = field(versions="6+", default=None)
    group_id: string
    group_state: string
    protocol_type: string
    protocol_data: string
    members: list[DescribedGroupMember]
    authorized_operations: int32 = field(versions="3+", default=-2_147_483_648)


@request(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    """Ask about groups; must reach each group's coordinator.

    Versions: 3 has authorized operations (KIP-430), 4 static members (KIP-345), 5 is flexible, 6 answers
    GROUP_ID_NOT_FOUND (KIP-1043).
    """

    groups: list[string]
    include_authorized_operations: boolean = field(versions="3+", default=False)


@response(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse(Response):
    """The groups.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    groups: list[DescribedGroup]
