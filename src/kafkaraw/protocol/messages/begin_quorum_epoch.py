"""BeginQuorumEpoch (53): a new leader of the metadata quorum makes itself known (KIP-595)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, string, uint16, uuid


@struct
class BeginQuorumEpochRequestPartitionData:
    """The new epoch of one partition.

    Attributes:
        voter_directory_id: id of the voter's metadata directory; zero when unknown.
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
    """

    partition_index: int32
    voter_directory_id: uuid = field(versions="1+", default=ZERO_UUID, ignorable=True)
    leader_id: int32
    leader_epoch: int32


@struct
class BeginQuorumEpochRequestTopicData:
    """Partitions of one topic."""

    topic_name: string
    partitions: list[BeginQuorumEpochRequestPartitionData]


@struct
class LeaderEndpoint:
    """An address of the leader."""

    name: string = field(versions="1+", default="")
    host: string = field(versions="1+", default="")
    port: uint16 = field(versions="1+", default=0)


@struct
class BeginQuorumEpochResponsePartitionData:
    """The answer for one partition.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
    """

    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32


@struct
class BeginQuorumEpochResponseTopicData:
    """The answers for one topic."""

    topic_name: string
    partitions: list[BeginQuorumEpochResponsePartitionData]


@struct
class NodeEndpoint:
    """Address of a node."""

    node_id: int32 = field(versions="1+", default=0)
    host: string = field(versions="1+", default="")
    port: uint16 = field(versions="1+", default=0)


@request(api_key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochRequest(Request["BeginQuorumEpochResponse"]):
    """Announce an epoch; sent by the leader to the voters.

    Version 1 has directory ids and endpoints (KIP-853).

    Attributes:
        cluster_id: id of the cluster; null when unknown.
    """

    cluster_id: string | None = None
    voter_id: int32 = field(versions="1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field(versions="1+", default_factory=list, ignorable=True)


@response(api_key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse(Response):
    """Whether it was taken."""

    error_code: int16
    topics: list[BeginQuorumEpochResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field(versions="1+", default_factory=list, tag=0)
