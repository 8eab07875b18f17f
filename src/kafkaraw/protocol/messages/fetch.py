"""Fetch."""

from __future__ import annotations

from kafkaraw.protocol.declare import field, request, response, struct
from kafkaraw.protocol.types import ZERO_UUID, int8, int16, int32, int64, record_bytes, string, uuid


@struct
class ReplicaState:
    """Part of Fetch."""

    replica_id: int32 = field(versions="15+", default=-1)
    replica_epoch: int64 = field(versions="15+", default=-1)


@struct
class FetchPartition:
    """Part of Fetch."""

    partition: int32
    current_leader_epoch: int32 = field(versions="9+", default=-1, ignorable=True)
    fetch_offset: int64
    last_fetched_epoch: int32 = field(versions="12+", default=-1)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int32
    replica_directory_id: uuid = field(versions="17+", default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: int64 = field(versions="18+", default=(1 << 63) - 1, tag=1, ignorable=True)


@struct
class FetchTopic:
    """Part of Fetch."""

    topic: string = field(versions="0-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    """Part of Fetch."""

    topic: string = field(versions="7-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[int32] = field(versions="7+", default_factory=list)


@struct
class EpochEndOffset:
    """Part of Fetch."""

    epoch: int32 = field(versions="12+", default=-1)
    end_offset: int64 = field(versions="12+", default=-1)


@struct
class LeaderIdAndEpoch:
    """Part of Fetch."""

    leader_id: int32 = field(versions="12+", default=-1)
    leader_epoch: int32 = field(versions="12+", default=-1)


@struct
class SnapshotId:
    """Part of Fetch."""

    end_offset: int64 = -1
    epoch: int32 = -1


@struct
class AbortedTransaction:
    """Part of Fetch."""

    producer_id: int64 = field(versions="4+", default=0)
    first_offset: int64 = field(versions="4+", default=0)


@struct
class PartitionData:
    """Part of Fetch."""

    partition_index: int32
    error_code: int16
    high_watermark: int64
    last_stable_offset: int64 = field(versions="4+", default=-1, ignorable=True)
    log_start_offset: int64 = field(versions="5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(versions="12+", default_factory=EpochEndOffset, tag=0)
    current_leader: LeaderIdAndEpoch = field(versions="12+", default_factory=LeaderIdAndEpoch, tag=1)
    snapshot_id: SnapshotId = field(versions="12+", default_factory=SnapshotId, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(versions="4+", default_factory=list, ignorable=True)
    preferred_read_replica: int32 = field(versions="11+", default=-1)
    records: record_bytes | None


@struct
class FetchableTopicResponse:
    """Part of Fetch."""

    topic: string = field(versions="0-12", default="", ignorable=True)
    topic_id: uuid = field(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    """Part of Fetch."""

    node_id: int32 = field(versions="16+", default=0)
    host: string = field(versions="16+", default="")
    port: int32 = field(versions="16+", default=0)
    rack: string | None = field(versions="16+", default=None)


@request(api_key=1, versions="0-18", flexible="12+", removed="0-3")
class FetchRequest:
    """Fetch request."""

    cluster_id: string | None = field(versions="12+", default=None, tag=0, ignorable=True)
    replica_id: int32 = field(versions="0-14", default=-1)
    replica_state: ReplicaState = field(versions="15+", default_factory=ReplicaState, tag=1)
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field(versions="3+", default=2_147_483_647, ignorable=True)
    isolation_level: int8 = field(versions="4+", default=0, ignorable=True)
    session_id: int32 = field(versions="7+", default=0, ignorable=True)
    session_epoch: int32 = field(versions="7+", default=-1, ignorable=True)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic] = field(versions="7+", default_factory=list)
    rack_id: string = field(versions="11+", default="", ignorable=True)


@response(api_key=1, versions="0-18", flexible="12+", removed="0-3")
class FetchResponse:
    """Fetch response."""

    throttle_time_ms: int32 = field(versions="1+", default=0, ignorable=True)
    error_code: int16 = field(versions="7+", default=0, ignorable=True)
    session_id: int32 = field(versions="7+", default=0)
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint] = field(versions="16+", default_factory=list, tag=0)
