"""EndQuorumEpoch (54): a leader of the metadata quorum resigns (KIP-595)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, string, uint16, uuid


@struct
class ReplicaInfo:
    """A voter that may stand for election.

    Attributes:
        candidate_directory_id: id of the candidate's metadata directory.
    """

    candidate_id: int32 = field(versions="1+", default=0)
    candidate_directory_id: uuid = field(versions="1+", default=ZERO_UUID)


@struct
class EndQuorumEpochRequestPartitionData:
    """The end of the epoch of one partition.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
        preferred_successors: voters in the order in which they should stand, in version 0.
        preferred_candidates: the same with directory ids, from version 1.
    """

    partition_index: int32
    leader_id: int32
    leader_epoch: int32
    preferred_successors: list[int32] = field(versions="0", default_factory=list, ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field(versions="1+", default_factory=list, ignorable=True)


@struct
class EndQuorumEpochRequestTopicData:
    """Partitions of one topic."""

    topic_name: string
    partitions: list[EndQuorumEpochRequestPartitionData]


@struct
class LeaderEndpoint:
    """An address of the leader."""

    name: string = field(versions="1+", default="")
    host: string = field(versions="1+", default="")
    port: uint16 = field(versions="1+", default=0)


@struct
class EndQuorumEpochResponsePartitionData:
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
class EndQuorumEpochResponseTopicData:
    """The answers for one topic."""

    topic_name: string
    partitions: list[EndQuorumEpochResponsePartitionData]


@struct
class NodeEndpoint:
    """Address of a node."""

    node_id: int32 = field(versions="1+", default=0)
    host: string = field(versions="1+", default="")
    port: uint16 = field(versions="1+", default=0)


@request(api_key=54, versions="0-1", flexible="1+")
class EndQuorumEpochRequest(Request["EndQuorumEpochResponse"]):
    """Resign; sent by the leader to the voters.

    Version 1 has directory ids and endpoints (KIP-853).

    Attributes:
        cluster_id: id of the cluster; null when unknown.
    """

    cluster_id: string | None = None
    topics: list[EndQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field(versions="1+", default_factory=list, ignorable=True)


@response(api_key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse(Response):
    """Whether it was taken."""

    error_code: int16
    topics: list[EndQuorumEpochResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field(versions="1+", default_factory=list, tag=0)
