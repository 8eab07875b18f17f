"""LeaveGroup (13): leave a classic group at once, without waiting for the session to time out."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, string


@struct
class MemberIdentity:
    """A member to remove.

    Attributes:
        member_id: empty to find it by its static name.
        group_instance_id: name of a static member (KIP-345), or null.
        reason: why it leaves, for the broker's log.
    """

    member_id: string = field(versions="3+", default="")
    group_instance_id: string | None = field(versions="3+", default=None)
    reason: string | None = field(versions="5+", default=None, ignorable=True)


@struct
class MemberResponse:
    """What became of one member.

    Attributes:
        group_instance_id: name of a static member (KIP-345), or null.
    """

    member_id: string = field(versions="3+", default="")
    group_instance_id: string | None = field(versions="3+", default="")
    error_code: int16 = field(versions="3+", default=0)


@request(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """Leave; must reach the group's coordinator.

    Versions: 3 removes several members at once, by static name too (KIP-345), 4 is flexible, 5 gives a reason
    (KIP-800).

    Attributes:
        member_id: the member, up to version 2.
        members: the members, from version 3.
    """

    group_id: string
    member_id: string = field(versions="0-2", default="")
    members: list[MemberIdentity] = field(versions="3+", default_factory=list)


@response(api_key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse(Response):
    """What became of it.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    error_code: int16
    members: list[MemberResponse] = field(versions="3+", default_factory=list)
