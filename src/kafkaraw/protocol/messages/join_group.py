"""JoinGroup (11): become a member of a classic consumer group, or stay one through a rebalance."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, string


@struct
class JoinGroupRequestProtocol:
    """An assignor.

    Attributes:
        metadata: the member's subscription, in the format that the protocol type prescribes.
    """

    name: string
    metadata: bytes


@struct
class JoinGroupResponseMember:
    """A member, as the leader sees it.

    Attributes:
        group_instance_id: name of a static member (KIP-345), or null.
        metadata: the member's subscription.
    """

    member_id: string
    group_instance_id: string | None = field(versions="5+", default=None, ignorable=True)
    metadata: bytes


@request(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Request["JoinGroupResponse"]):
    """Join; must reach the group's coordinator.

    Versions: 1 has a rebalance timeout (KIP-62), 4 answers MEMBER_ID_REQUIRED first (KIP-394), 5 static members
    (KIP-345), 6 is flexible, 7 answers with the protocol type (KIP-559), 8 gives a reason (KIP-800), 9 lets the
    leader skip the assignment (KIP-814).

    Attributes:
        session_timeout_ms: after so long without a heartbeat the member is out, in milliseconds.
        rebalance_timeout_ms: how long members may take to join again, in milliseconds; -1 for the session timeout.
        member_id: empty at first; then what the coordinator gave.
        group_instance_id: name of a static member (KIP-345), or null.
        protocol_type: `consumer` for consumers, `connect` for Connect workers.
        protocols: assignors that the member knows, the preferred one first.
        reason: why it joins, for the broker's log.
    """

    group_id: string
    session_timeout_ms: int32
    rebalance_timeout_ms: int32 = field(versions="1+", default=-1, ignorable=True)
    member_id: string
    group_instance_id: string | None = field(versions="5+", default=None)
    protocol_type: string
    protocols: list[JoinGroupRequestProtocol]
    reason: string | None = field(versions="8+", default=None, ignorable=True)


@response(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse(Response):
    """The leader of the group, and for the leader: all members.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        generation_id: grows with every rebalance; -1 when not a member.
        protocol_type: `consumer` for consumers; null when unknown.
        protocol_name: the assignor that all members know; null when there is none.
        leader: member id of the leader, which makes the assignment.
        skip_assignment: the leader need not assign; all others ignore it.
        members: all members; empty for members other than the leader.
    """

    throttle_time_ms: int32 = field(versions="2+", default=0, ignorable=True)
    error_code: int16
    generation_id: int32 = -1
    protocol_type: string | None = field(versions="7+", default=None, ignorable=True)
    protocol_name: string | None = field(nullable="7+")
    leader: string
    skip_assignment: boolean = field(versions="9+", default=False)
    member_id: string
    members: list[JoinGroupResponseMember]
