"""Control batches: the markers that end a transaction. They take up offsets and are never shown to users.

A control batch holds one record: key = int16 version, int16 type; value = int16 version, int32 coordinator epoch.
Start at `control_type`. What a marker means for a reader is decided in `core.fetch`.

Source: KIP-98; Kafka's ControlRecordType and EndTransactionMarker.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from kafkaraw.light_classes import NamedTuple
from kafkaraw.records._implementation import read_records
from kafkaraw.records.batch import encode_batch
from kafkaraw.records.header import CONTROL_BIT, parse_header

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


class ControlType(IntEnum):
    """The kinds of marker that this package understands; others exist and are skipped."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1


def control_type(record_key: bytes | None) -> ControlType:
    """Return the type of the record of a control batch; UNKNOWN is not an error, newer brokers have more types."""
    if record_key is None or len(record_key) < _KEY.size:
        return ControlType.UNKNOWN
    version, kind = _KEY.unpack_from(record_key)
    if version < 0 or kind not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlType.UNKNOWN
    return ControlType(kind)


class Marker(NamedTuple):
    """The content of a control batch.

    Attributes:
        kind: how the transaction ended.
        coordinator_epoch: epoch of the coordinator that ended it; -1 if the batch is of an unknown kind.
    """

    kind: ControlType
    coordinator_epoch: int = -1


def marker_of(batch: memoryview) -> Marker:
    """Read a control batch.

    Args:
        batch: one whole control batch, its checksum verified or not.

    Raises:
        CorruptBatchError: its record cannot be decoded.
    """
    header = parse_header(batch)
    shown = header._replace(attributes=header.attributes & ~CONTROL_BIT)  # readers of records skip control batches
    for record in read_records(batch, shown, "", 0):
        kind, value = control_type(record.key), record.value
        if kind is ControlType.UNKNOWN or value is None or len(value) < _VALUE.size:
            return Marker(kind)
        return Marker(kind, _VALUE.unpack_from(value)[1])
    return Marker(ControlType.UNKNOWN)


def control_type_of(batch: memoryview) -> ControlType:
    """Return how a transaction ended; arguments and errors as for `marker_of`."""
    return marker_of(batch).kind


def encode_control_batch(
    kind: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Write the batch that ends a transaction in one partition.

    Args:
        kind: ABORT or COMMIT.
        producer_id: id of the producer of the transaction.
        producer_epoch: its epoch.
        coordinator_epoch: epoch of the transaction coordinator that ended it.
        timestamp_ms: when it ended.
        base_offset: the marker's offset.
        partition_leader_epoch: epoch of the partition's leader; -1 if it is filled in later.
    """
    record = (timestamp_ms, _KEY.pack(_VERSION, kind), _VALUE.pack(_VERSION, coordinator_epoch), ())
    return encode_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=partition_leader_epoch,
    )
