"""Records of __remote_log_metadata in the text that kafka-dump-log prints: what Java's `toString` returns.

Source: org.apache.kafka.server.log.remote.storage.{RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate,
RemotePartitionDeleteMetadata}, org.apache.kafka.server.log.remote.metadata.storage.RemoteLogSegmentMetadataSnapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ProtocolError

if TYPE_CHECKING:
    from kafkaraw.protocol.embedded.remote_log_records import (
        RemoteLogSegmentIdEntry,
        SegmentLeaderEpochEntry,
        TopicIdPartitionEntry,
    )

_SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_DELETE_STATES: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def remote_log_text(message: object) -> str:
    """Return the text of a record of __remote_log_metadata.

    Raises:
        ProtocolError: it has a state that no release has.
    """
    from kafkaraw.protocol.embedded import remote_log_records as records  # only for this topic

    match message:
        case records.RemoteLogSegmentMetadataRecord():
            return (
                f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(message.remote_log_segment_id)}, "
                f"startOffset={message.start_offset}, endOffset={message.end_offset}, brokerId={message.broker_id}, "
                f"maxTimestampMs={message.max_timestamp_ms}, eventTimestampMs={message.event_timestamp_ms}, "
                f"segmentLeaderEpochs={_epochs(message.segment_leader_epochs)}, "
                f"segmentSizeInBytes={message.segment_size_in_bytes}, "
                f"customMetadata={_custom(message.custom_metadata)}, "
                f"state={_state(_SEGMENT_STATES, message.remote_log_segment_state)}, "
                f"txnIdxEmpty={_boolean(message.txn_index_empty)}}}"
            )
        case records.RemoteLogSegmentMetadataUpdateRecord():
            return (
                f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(message.remote_log_segment_id)}, "
                f"customMetadata={_custom(message.custom_metadata)}, "
                f"state={_state(_SEGMENT_STATES, message.remote_log_segment_state)}, "
                f"eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
            )
        case records.RemotePartitionDeleteMetadataRecord():
            return (
                f"RemotePartitionDeleteMetadata{{topicPartition={_partition(message.topic_id_partition)}, "
                f"state={_state(_DELETE_STATES, message.remote_partition_delete_state)}, "
                f"eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
            )
        case records.RemoteLogSegmentMetadataSnapshotRecord():
            return (
                f"RemoteLogSegmentMetadataSnapshot{{segmentId={message.segment_id}, "
                f"startOffset={message.start_offset}, endOffset={message.end_offset}, "
                f"maxTimestampMs={message.max_timestamp_ms}, "
                f"segmentLeaderEpochs={_epochs(message.segment_leader_epochs)}, "
                f"segmentSizeInBytes={message.segment_size_in_bytes}, "
                f"customMetadata={_custom(message.custom_metadata)}, "
                f"state={_state(_SEGMENT_STATES, message.remote_log_segment_state)}, "
                f"txnIdxEmpty={_boolean(message.txn_index_empty)}}}"
            )
    raise TypeError(f"{type(message).__name__} is no record of __remote_log_metadata")


def _partition(entry: TopicIdPartitionEntry) -> str:
    return f"{entry.id}:{entry.name}-{entry.partition}"


def _segment_id(entry: RemoteLogSegmentIdEntry) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(entry.topic_id_partition)}, id={entry.id}}}"


def _epochs(entries: Sequence[SegmentLeaderEpochEntry]) -> str:
    offsets = {entry.leader_epoch: entry.offset for entry in entries}
    return f"{{{', '.join(f'{epoch}={offset}' for epoch, offset in sorted(offsets.items()))}}}"


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _state(names: Sequence[str], number: int) -> str:
    if not 0 <= number < len(names):
        raise ProtocolError(f"state {number} is unknown, the last one is {len(names) - 1}")
    return names[number]


def _boolean(value: bool) -> str:
    return "true" if value else "false"
