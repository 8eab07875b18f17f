"""DescribeQuorum (55): leader, voters and observers of the metadata quorum (KIP-595, KIP-836)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, int64, string, uint16, uuid


@struct
class DescribeQuorumRequestPartitionData:
    """One partition."""

    partition_index: int32


@struct
class DescribeQuorumRequestTopicData:
    """Partitions of one topic."""

    topic_name: string
    partitions: list[DescribeQuorumRequestPartitionData]


@struct
class ReplicaState:
    """How far one replica is.

    Attributes:
        replica_directory_id: id of the replica's log directory; zero when unknown.
        log_end_offset: offset after its last record; -1 unknown.
        last_fetch_timestamp: when it last fetched, in milliseconds since 1970; -1 unknown.
        last_caught_up_timestamp: when it last had all records, in milliseconds since 1970; -1 unknown.
    """

    replica_id: int32
    replica_directory_id: uuid = field(versions="2+", default=ZERO_UUID)
    log_end_offset: int64
    last_fetch_timestamp: int64 = field(versions="1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int64 = field(versions="1+", default=-1, ignorable=True)


@struct
class DescribeQuorumResponsePartitionData:
    """The quorum of one partition.

    Attributes:
        error_message: the broker's words; null when it has none.
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
        high_watermark: offset after the last record that all in-sync replicas have.
    """

    partition_index: int32
    error_code: int16
    error_message: string | None = field(versions="2+", default="", ignorable=True)
    leader_id: int32
    leader_epoch: int32
    high_watermark: int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


@struct
class DescribeQuorumResponseTopicData:
    """The answers for one topic."""

    topic_name: string
    partitions: list[DescribeQuorumResponsePartitionData]


@struct
class Listener:
    """One address."""

    name: string = field(versions="2+", default="")
    host: string = field(versions="2+", default="")
    port: uint16 = field(versions="2+", default=0)


@struct
class Node:
    """A voter and its addresses."""

    node_id: int32 = field(versions="2+", default=0)
    listeners: list[Listener] = field(versions="2+", default_factory=list)


@request(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    """Ask about the quorum; any broker passes it to the leader."""

    topics: list[DescribeQuorumRequestTopicData]


@response(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Response):
    """The quorum.

    Attributes:
        error_message: the broker's words; null when it has none.
    """

    error_code: int16
    error_message: string | None = field(versions="2+", default="", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData]
    nodes: list[Node] = field(versions="2+", default_factory=list)
