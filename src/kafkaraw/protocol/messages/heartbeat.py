"""Heartbeat (12): keep a member of a classic group alive."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response
from kafkaraw.protocol.types import int16, int32, string


@request(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Request["HeartbeatResponse"]):
    """Stay a member; must reach the group's coordinator.

    Versions: 3 knows static members (KIP-345), 4 is flexible.

    Attributes:
        generation_id: grows with every rebalance; -1 when not a member.
        group_instance_id: name of a static member (KIP-345), or null.
    """

    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field(versions="3+", default=None)


@response(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse(Response):
    """REBALANCE_IN_PROGRESS asks the member to join again.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    error_code: int16
