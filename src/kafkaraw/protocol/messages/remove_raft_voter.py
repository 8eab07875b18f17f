"""RemoveRaftVoter (81): remove a voter from the metadata quorum (KIP-853)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response
from kafkaraw.protocol.types import int16, int32, string, uuid


@request(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"]):
    """Remove a voter; must reach the leader of the quorum (any broker passes it on).

    Attributes:
        cluster_id: id of the cluster; null when unknown.
        voter_directory_id: id of the voter's metadata directory.
    """

    cluster_id: string | None
    voter_id: int32
    voter_directory_id: uuid


@response(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse(Response):
    """Whether it was removed.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
        error_message: the broker's words; null when it has none.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: string | None = field(ignorable=True)
