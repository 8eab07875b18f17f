"""AddRaftVoter (80): add a voter to the metadata quorum (KIP-853)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import boolean, int16, int32, string, uint16, uuid


@struct
class Listener:
    """An address of the voter."""

    name: string
    host: string
    port: uint16


@request(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest(Request["AddRaftVoterResponse"]):
    """Add a voter; must reach the leader of the quorum (any broker passes it on).

    Attributes:
        cluster_id: id of the cluster; null when unknown.
        timeout_ms: how long to wait, in milliseconds.
        voter_directory_id: id of the voter's metadata directory.
        ack_when_committed: answer only once the change is committed (KIP-1186).
    """

    cluster_id: string | None
    timeout_ms: int32
    voter_id: int32
    voter_directory_id: uuid
    listeners: list[Listener]
    ack_when_committed: boolean = field(versions="1+", default=True)


@response(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse(Response):
    """Whether it was added.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None = field(ignorable=True)
