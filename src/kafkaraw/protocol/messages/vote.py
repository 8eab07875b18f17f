"""Vote (52): a candidate asks the other controllers for their vote (KIP-595)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, boolean, int16, int32, int64, string, uint16, uuid


@struct
class VoteRequestPartitionData:
    """The candidacy for one partition.

    Attributes:
        replica_epoch: epoch of the election.
        replica_id: broker id of the candidate.
        replica_directory_id: id of the replica's log directory; zero when unknown.
        voter_directory_id: id of the voter's metadata directory; zero when unknown.
        last_offset_epoch: epoch of the candidate's last record.
        last_offset: offset after the candidate's last record.
        pre_vote: only ask whether a vote would be given.
    """

    partition_index: int32
    replica_epoch: int32
    replica_id: int32
    replica_directory_id: uuid = field(versions="1+", default=ZERO_UUID, ignorable=True)
    voter_directory_id: uuid = field(versions="1+", default=ZERO_UUID, ignorable=True)
    last_offset_epoch: int32
    last_offset: int64
    pre_vote: boolean = field(versions="2+", default=False)


@struct
class VoteRequestTopicData:
    """Partitions of one topic; there is one, __cluster_metadata."""

    topic_name: string
    partitions: list[VoteRequestPartitionData]


@struct
class VoteResponsePartitionData:
    """The vote for one partition.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
        vote_granted: whether the vote was given.
    """

    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32
    vote_granted: boolean


@struct
class VoteResponseTopicData:
    """The answers for one topic."""

    topic_name: string
    partitions: list[VoteResponsePartitionData]


@struct
class NodeEndpoint:
    """Address of a node."""

    node_id: int32 = field(versions="1+", default=0)
    host: string = field(versions="1+", default="")
    port: uint16 = field(versions="1+", default=0)


@request(api_key=52, versions="0-2", flexible="0+")
class VoteRequest(Request["VoteResponse"]):
    """Ask for a vote; sent by a candidate to the voters of the metadata quorum.

    Version 1 has directory ids (KIP-853), 2 asks before an election whether it could be won (KIP-996).

    Attributes:
        cluster_id: id of the cluster; null does not check.
        voter_id: the voter addressed; -1 when unknown.
    """

    cluster_id: string | None = None
    voter_id: int32 = field(versions="1+", default=-1, ignorable=True)
    topics: list[VoteRequestTopicData]


@response(api_key=52, versions="0-2", flexible="0+")
class VoteResponse(Response):
    """The vote."""

    error_code: int16
    topics: list[VoteResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field(versions="1+", default_factory=list, tag=0)
