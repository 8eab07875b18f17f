"""SyncGroup (14): the leader of a classic group hands in the assignment, and each member gets its part."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, string


@struct
class SyncGroupRequestAssignment:
    """A member's part.

    Attributes:
        assignment: in the format that the protocol type prescribes.
    """

    member_id: string
    assignment: bytes


@request(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request["SyncGroupResponse"]):
    """Hand in or fetch an assignment; must reach the group's coordinator.

    Versions: 3 knows static members (KIP-345), 4 is flexible, 5 checks protocol type and name (KIP-559).

    Attributes:
        generation_id: grows with every rebalance; -1 when not a member.
        group_instance_id: name of a static member (KIP-345), or null.
        protocol_type: `consumer` for consumers; null when unknown.
        assignments: from the leader only; empty from all others.
    """

    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field(versions="3+", default=None)
    protocol_type: string | None = field(versions="5+", default=None, ignorable=True)
    protocol_name: string | None = field(versions="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment]


@response(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse(Response):
    """The member's part.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        protocol_type: `consumer` for consumers; null when unknown.
        assignment: in the format that the protocol type prescribes.
    """

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    error_code: int16
    protocol_type: string | None = field(versions="5+", default=None, ignorable=True)
    protocol_name: string | None = field(versions="5+", default=None, ignorable=True)
    assignment: bytes
