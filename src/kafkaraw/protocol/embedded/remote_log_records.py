"""Records of __remote_log_metadata, behind a frame with their type and version.  Source: KIP-405."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import boolean, int8, int32, int64, string, uuid


@struct
class TopicIdPartitionEntry:
    """A partition of a topic."""

    name: string
    id: uuid
    partition: int32


@struct
class RemoteLogSegmentIdEntry:
    """The identity of a remote log segment."""

    topic_id_partition: TopicIdPartitionEntry
    id: uuid


@struct
class SegmentLeaderEpochEntry:
    """Where a leader epoch starts."""

    leader_epoch: int32
    offset: int64


@data(versions="0", flexible="0+", record_type=0)
class RemoteLogSegmentMetadataRecord:
    """The copy of a segment to remote storage began.

    Attributes:
        custom_metadata: what the storage plugin returned.
        remote_log_segment_state: 0 copying, 1 copied, 2 deleting, 3 deleted.
    """

    remote_log_segment_id: RemoteLogSegmentIdEntry
    start_offset: int64
    end_offset: int64
    broker_id: int32
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: int32
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8
    txn_index_empty: boolean = field(default=False, tag=0)


@data(versions="0", flexible="0+", record_type=1)
class RemoteLogSegmentMetadataUpdateRecord:
    """The state of a remote log segment changed.

    Attributes:
        remote_log_segment_state: 0 copying, 1 copied, 2 deleting, 3 deleted.
    """

    remote_log_segment_id: RemoteLogSegmentIdEntry
    broker_id: int32
    event_timestamp_ms: int64
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8


@data(versions="0", flexible="0+", record_type=2)
class RemotePartitionDeleteMetadataRecord:
    """The deletion of a partition's remote segments proceeds.

    Attributes:
        remote_partition_delete_state: 0 marked, 1 started, 2 finished.
    """

    topic_id_partition: TopicIdPartitionEntry
    broker_id: int32
    event_timestamp_ms: int64
    remote_partition_delete_state: int8


@data(versions="0", flexible="0+", record_type=3)
class RemoteLogSegmentMetadataSnapshotRecord:
    """A remote log segment, in a snapshot."""

    segment_id: uuid
    start_offset: int64
    end_offset: int64
    broker_id: int32
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: int32
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8
    txn_index_empty: boolean = field(default=False, tag=0)
