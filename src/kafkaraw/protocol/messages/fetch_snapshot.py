"""FetchSnapshot (59): copy a snapshot of the metadata log (KIP-630)."""

from __future__ import annotations

from kafkaraw.protocol.declare import Request, Response, field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int16, int32, int64, record_bytes, string, uint16, uuid


@struct
class SnapshotId:
    """Name of a snapshot."""

    end_offset: int64
    epoch: int32


@struct
class FetchSnapshotRequestPartitionSnapshot:
    """Which piece of which snapshot.

    Attributes:
        current_leader_epoch: the epoch that the follower believes in.
        position: byte at which the piece begins.
        replica_directory_id: id of the replica's log directory; zero when unknown.
    """

    partition: int32
    current_leader_epoch: int32
    snapshot_id: SnapshotId
    position: int64
    replica_directory_id: uuid = field(versions="1+", default=ZERO_UUID, tag=0, ignorable=True)


@struct
class FetchSnapshotRequestTopicSnapshot:
    """Partitions of one topic."""

    name: string
    partitions: list[FetchSnapshotRequestPartitionSnapshot]


@struct
class LeaderIdAndEpoch:
    """A leader; -1 when the node does not know it.

    Attributes:
        leader_id: broker that leads; -1 when there is none.
        leader_epoch: grows with every election; -1 when unknown.
    """

    leader_id: int32 = 0
    leader_epoch: int32 = 0


@struct
class FetchSnapshotResponsePartitionSnapshot:
    """One piece.

    Attributes:
        size: size of the whole snapshot in bytes.
        position: byte at which the piece begins.
        unaligned_records: bytes of the snapshot, cut anywhere.
    """

    index: int32
    error_code: int16
    snapshot_id: SnapshotId
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch, tag=0)
    size: int64
    position: int64
    unaligned_records: record_bytes | None = field(nullable="none")


@struct
class FetchSnapshotResponseTopicSnapshot:
    """The pieces for one topic."""

    name: string
    partitions: list[FetchSnapshotResponsePartitionSnapshot]


@struct
class NodeEndpoint:
    """Address of a node."""

    node_id: int32 = field(versions="1+", default=0)
    host: string = field(versions="1+", default="")
    port: uint16 = field(versions="1+", default=0)


@request(api_key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest(Request["FetchSnapshotResponse"]):
    """Ask for a piece of a snapshot; sent by followers to the leader of the quorum.

    Attributes:
        cluster_id: id of the cluster; null when unknown.
        replica_id: broker id of the follower; -1 for none.
        max_bytes: largest answer in bytes.
    """

    cluster_id: string | None = field(default=None, tag=0)
    replica_id: int32 = -1
    max_bytes: int32 = 2_147_483_647
    topics: list[FetchSnapshotRequestTopicSnapshot]


@response(api_key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse(Response):
    """The pieces.

    Attributes:
        throttle_time_ms: how long the broker wants this client to stay quiet (KIP-219), in milliseconds.
    """

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    error_code: int16
    topics: list[FetchSnapshotResponseTopicSnapshot]
    node_endpoints: list[NodeEndpoint] = field(versions="1+", default_factory=list, tag=0)
