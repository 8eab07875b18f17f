"""What is stored about a share partition, and its records in `__share_group_state`, in Apache Kafka's formats.

A snapshot has the whole state; an update has what a write has changed since the last snapshot. Pure.
Source: org.apache.kafka.coordinator.share.{ShareGroupOffset, ShareCoordinatorRecordHelpers,
ShareCoordinatorRecordSerde} of Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from kafkaraw.core.share.state_batches import NO_START_OFFSET, StateBatch, combined
from kafkaraw.light_classes import NamedTuple, dataclass, replace
from kafkaraw.protocol import Uuid, decode_message, encode_message
from kafkaraw.protocol.embedded import share_state as stored

NO_EPOCH: Final = -1
UNKNOWN_COUNT: Final = -1
SNAPSHOT: Final = 0
UPDATE: Final = 1
_VERSION: Final = struct.Struct(">h")
_MESSAGE_VERSION: Final = 0


class ShareKey(NamedTuple):
    """A share partition: a partition, as one group reads it."""

    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key by which clients and brokers look up the share coordinator."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


@dataclass(frozen=True, slots=True)
class ShareState:
    """The stored state of a share partition.

    Attributes:
        snapshot_epoch: incremented by each snapshot.
        state_epoch: the group epoch at the last initialization; writes of an earlier one are fenced.
        leader_epoch: leader epoch of the partition; writes of an earlier leader are fenced.
        start_offset: the first record that the group is not done with; -1 before the partition is first read.
        complete_count: number of records from the start offset on that are done with; -1 if unknown (KIP-1226).
        batches: the states of ranges of records, in the order of offsets.
        created_ms: time of the snapshot, in milliseconds since 1970.
        written_ms: time of the last write, in milliseconds since 1970.
    """

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_START_OFFSET
    complete_count: int = UNKNOWN_COUNT
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0

    def updated(self, update: ShareUpdate) -> ShareState:
        """Return the state after an update."""
        start_offset = self.start_offset if update.start_offset == NO_START_OFFSET else update.start_offset
        return replace(
            self,
            leader_epoch=self.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch,
            start_offset=start_offset,
            complete_count=update.complete_count,
            batches=tuple(combined((*self.batches, *update.batches), start_offset)),
        )


@dataclass(frozen=True, slots=True)
class ShareUpdate:
    """A write to the state of a share partition.

    Attributes:
        leader_epoch: the new leader epoch; -1 keeps it.
        start_offset: the new start offset; -1 keeps it.
        complete_count: number of records from the start offset on that are done with; -1 if unknown.
        batches: the states of ranges of records.
    """

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...] = ()


class ShareRecord(NamedTuple):
    """A record of `__share_group_state`; None is a tombstone, which deletes the state."""

    key: ShareKey
    value: ShareState | ShareUpdate | None


def encode_record(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Return the bytes of key and value."""
    key, value = record
    if isinstance(value, ShareUpdate):
        return _with_version(
            UPDATE, stored.ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
        ), _with_version(
            _MESSAGE_VERSION,
            stored.ShareUpdateValue(
                snapshot_epoch=value.snapshot_epoch,
                leader_epoch=value.leader_epoch,
                start_offset=value.start_offset,
                delivery_complete_count=value.complete_count,
                state_batches=_stored_batches(value.batches),
            ),
        )
    encoded = _with_version(
        SNAPSHOT, stored.ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    )
    if value is None:
        return encoded, None
    return encoded, _with_version(
        _MESSAGE_VERSION,
        stored.ShareSnapshotValue(
            snapshot_epoch=value.snapshot_epoch,
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.complete_count,
            create_timestamp=value.created_ms,
            write_timestamp=value.written_ms,
            state_batches=_stored_batches(value.batches),
        ),
    )


def decode_record(key: bytes, value: bytes | None) -> ShareRecord | None:
    """Decode a record; return None for a record type of a later Kafka.

    Raises:
        ProtocolError: its bytes are invalid.
        struct.error: it is shorter than a version number.
    """
    (number,) = _VERSION.unpack_from(key)
    if number not in (SNAPSHOT, UPDATE):
        return None
    message: type[stored.ShareSnapshotKey | stored.ShareUpdateKey]
    message = stored.ShareSnapshotKey if number == SNAPSHOT else stored.ShareUpdateKey
    ids = decode_message(message, _MESSAGE_VERSION, key, _VERSION.size)
    share_key = ShareKey(ids.group_id, Uuid(ids.topic_id), ids.partition)
    if value is None:
        return ShareRecord(share_key, None)
    (version,) = _VERSION.unpack_from(value)
    if number == UPDATE:
        return ShareRecord(
            share_key, _update_of(decode_message(stored.ShareUpdateValue, version, value, _VERSION.size))
        )
    return ShareRecord(share_key, _state_of(decode_message(stored.ShareSnapshotValue, version, value, _VERSION.size)))


def _update_of(value: stored.ShareUpdateValue) -> ShareUpdate:
    return ShareUpdate(
        snapshot_epoch=value.snapshot_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        complete_count=value.delivery_complete_count,
        batches=_batches_of(value.state_batches),
    )


def _state_of(value: stored.ShareSnapshotValue) -> ShareState:
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        complete_count=value.delivery_complete_count,
        batches=_batches_of(value.state_batches),
        created_ms=value.create_timestamp,
        written_ms=value.write_timestamp,
    )


def _with_version(version: int, message: object) -> bytes:
    return _VERSION.pack(version) + encode_message(message, _MESSAGE_VERSION)


def _stored_batches(batches: Sequence[StateBatch]) -> list[stored.StateBatch]:
    return [
        stored.StateBatch(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    ]


def _batches_of(batches: Iterable[stored.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )
