"""Producer snapshots in Kafka's file format: the producer state of segments, written when the segments are removed.

Without a snapshot, a restarted broker would append a duplicate batch again, because the original batch is deleted. As
in Kafka, the snapshot has the last batch of each producer. `kafka-dump-log.sh` reads these files.

    version int16 (1), crc uint32 (CRC-32C of all that follows), entries int32, then for each
    producer_id int64, epoch int16, last_sequence int32, last_offset int64, offset_delta int32, timestamp int64,
    coordinator_epoch int32, current_transaction_first_offset int64

Source: org.apache.kafka.storage.internals.log.ProducerStateManager.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.names import FileKind, OffsetFile, offset_of
from kafkaraw.light_classes import NamedTuple

NONE: Final = -1
VERSION: Final = 1
_REMEDY: Final = "remove the file: the broker rebuilds the producer state from the log and an older snapshot"
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class ProducerSnapshot(NamedTuple):
    """One producer. Offsets and sequences are -1 if it has appended nothing with its epoch."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


def file_name(end_offset: int) -> str:
    """Return Kafka's file name of the snapshot of the producers before an offset."""
    return OffsetFile(end_offset, FileKind.PRODUCER_SNAPSHOT).name


def end_offset_of(name: str) -> int | None:
    """The offset in a file's name; None when it is no snapshot."""
    return offset_of(name, FileKind.PRODUCER_SNAPSHOT)


def encode_snapshot(producers: Iterable[ProducerSnapshot]) -> bytes:
    """The bytes of a file."""
    from crc32c import crc32c  # at the first snapshot, as in `records.header`

    rows = [_ENTRY.pack(*producer) for producer in producers]
    content = _COUNT.pack(len(rows)) + b"".join(rows)
    return _HEAD.pack(VERSION, crc32c(content)) + content


def decode_snapshot(data: bytes, file: str = "producer snapshot") -> list[ProducerSnapshot]:
    """Read a file.

    Args:
        data: its bytes.
        file: its name, for errors.

    Raises:
        DamagedFileError: it is damaged, or of another version.
    """
    from crc32c import crc32c  # as in `encode_snapshot`

    if len(data) < _HEAD.size + _COUNT.size:
        raise DamagedFileError(file, len(data), f"{len(data)} bytes are not a producer snapshot", _REMEDY)
    version, crc = _HEAD.unpack_from(data)
    content = data[_HEAD.size :]
    if version != VERSION:
        raise DamagedFileError(file, 0, f"version {version} is unknown, only {VERSION} is", _REMEDY)
    computed = crc32c(content)
    if crc != computed:
        raise DamagedFileError(file, 2, f"its checksum is {crc}, that of its content {computed}", _REMEDY)
    (count,) = _COUNT.unpack_from(content)
    if count * _ENTRY.size != len(content) - _COUNT.size:
        raise DamagedFileError(file, _HEAD.size, f"{count} producers do not fill {len(content)} bytes", _REMEDY)
    return [ProducerSnapshot._make(row) for row in _ENTRY.iter_unpack(content[_COUNT.size :])]
