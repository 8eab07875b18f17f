"""Records of __share_group_state.  Source: KIP-932."""

from __future__ import annotations

from kafkaraw.protocol.declare import data, field, struct
from kafkaraw.protocol.types import int8, int16, int32, int64, string, uuid


@data(versions="0", record_type=0)
class ShareSnapshotKey:
    """Key of a snapshot; begins with int16 0.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    group_id: string
    topic_id: uuid
    partition: int32


@struct
class StateBatch:
    """The state of a range of records.

    Attributes:
        delivery_state: 0 available, 2 acknowledged, 4 archived.
    """

    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


@data(versions="0", flexible="0+", record_type=0)
class ShareSnapshotValue:
    """The whole state of a share partition.

    Attributes:
        snapshot_epoch: epoch of the snapshot, raised by every snapshot.
        state_epoch: epoch of the state, raised by every reset.
        leader_epoch: grows with every election; -1 when unknown.
        start_offset: first offset still in flight.
        delivery_complete_count: records that are done with; -1 when unknown.
        create_timestamp: in milliseconds since 1970.
        write_timestamp: in milliseconds since 1970.
    """

    snapshot_epoch: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(default=-1, tag=0)
    create_timestamp: int64
    write_timestamp: int64
    state_batches: list[StateBatch]


@data(versions="0", record_type=1)
class ShareUpdateKey:
    """Key of a change; begins with int16 1.

    Attributes:
        topic_id: id of the topic, which survives no deletion; zero for none.
    """

    group_id: string
    topic_id: uuid
    partition: int32


@data(versions="0", flexible="0+", record_type=1)
class ShareUpdateValue:
    """A change to a snapshot.

    Attributes:
        snapshot_epoch: epoch of the snapshot, raised by every snapshot.
        leader_epoch: grows with every election; -1 when unknown.
        start_offset: first offset still in flight; -1 for no change.
        delivery_complete_count: records that are done with; -1 when unknown.
    """

    snapshot_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(default=-1, tag=0)
    state_batches: list[StateBatch]
