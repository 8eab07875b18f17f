"""UpdateRaftVoter (82): a voter reports new addresses or versions (KIP-853)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import int16, int32, string, uint16, uuid


@struct
class Listener:
    """An address of the voter."""

    name: string
    host: string
    port: uint16


@struct
class KRaftVersionFeature:
    """Versions of KRaft that the voter supports."""

    min_supported_version: int16
    max_supported_version: int16


@struct
class CurrentLeader:
    """Where the leader is; -1 when unknown.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
    """

    leader_id: int32 = -1
    leader_epoch: int32 = -1
    host: string = ""
    port: int32 = 0


@request(api_key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest(Request["UpdateRaftVoterResponse"]):
    """Update a voter; sent by the voter to the leader of the quorum.

    Attributes:
        cluster_id: id of the cluster; null when unknown.
        current_leader_epoch: the epoch that the sender believes in; -1 does not check.
        voter_directory_id: id of the voter's metadata directory.
    """

    cluster_id: string | None
    current_leader_epoch: int32
    voter_id: int32
    voter_directory_id: uuid
    listeners: list[Listener]
    k_raft_version_feature: KRaftVersionFeature


@response(api_key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse(Response):
    """Whether it was taken.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = 0
    error_code: int16
    current_leader: CurrentLeader = field(default_factory=CurrentLeader, tag=0)
