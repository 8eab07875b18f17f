"""Kafka's metadata log (KRaft): from snapshots and segments to a `MetadataImage`, and from an image to a snapshot.

This module must not open files: `read_metadata` takes a function that does. Start there, or at `bootstrap_snapshot`.

Source: org.apache.kafka.snapshot.{Snapshots, RecordsSnapshotWriter}, KIP-630;
org.apache.kafka.metadata.bootstrap.BootstrapDirectory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kafkaraw.core.log.batches import iter_batches, problem_of
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.framed_records import decode_framed, encode_framed, metadata_classes
from kafkaraw.core.log.metadata_image import MetadataImage
from kafkaraw.core.log.names import (
    BOOTSTRAP_FILE,
    METADATA_FOLDER,
    FileKind,
    OffsetFile,
    offset_of,
    parse_metadata_snapshot,
)
from kafkaraw.errors import CorruptBatchError, ProtocolError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import encode_message
from kafkaraw.protocol.embedded.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from kafkaraw.records import Batch, BatchHeader, encode_batch
from kafkaraw.records.header import CONTROL_BIT

REMEDY: Final = "restore the file from a backup or from another controller; nothing was changed"
_PREFIX: Final = struct.Struct(">qi")
_BATCH_SIZE_MAX: Final = 8 << 20
"""KRaft writes no larger batches (KafkaRaftClient.MAX_BATCH_SIZE_BYTES): a larger one is damaged, not cut short."""
_CONTROL_KEY: Final = struct.Struct(">hh")
_SNAPSHOT_HEADER, _SNAPSHOT_FOOTER = 3, 4
_BATCH_RECORDS: Final = 1000

ReadFile = Callable[[str], memoryview]
"""Returns the content of a file of the metadata log's folder, or of `BOOTSTRAP_FILE`."""


class MetadataEnd(NamedTuple):
    """The end of a metadata log.

    Attributes:
        offset: the next offset.
        epoch: the leader epoch of the last batch or snapshot; 0 if there is none.
    """

    offset: int
    epoch: int


def read_metadata(
    names: Iterable[str], has_bootstrap: bool, read: ReadFile, image: MetadataImage | None = None
) -> tuple[MetadataImage, MetadataEnd]:
    """Replay a metadata log: its newest snapshot, then the records behind it.

    A batch that is cut short at the end of the last segment was not acknowledged when the node was killed, and is left
    out, as Kafka truncates it. A log without records has the bootstrap snapshot for its content.

    Args:
        names: of the files in its folder.
        has_bootstrap: whether the log directory has `BOOTSTRAP_FILE`.
        read: returns the content of one of these files.
        image: what is replayed on; None for an empty one.

    Raises:
        DamagedFileError: a file is damaged, missing, or written by a newer release.
    """
    image = image or MetadataImage()
    names = list(names)
    snapshots = sorted(found for found in map(parse_metadata_snapshot, names) if found is not None)
    bases = sorted(found for found in (offset_of(name, FileKind.LOG) for name in names) if found is not None)
    end = MetadataEnd(0, 0)
    if snapshots:
        newest = snapshots[-1]
        _replay_snapshot(newest.name, read(newest.name), image)
        end = MetadataEnd(newest.end_offset, newest.epoch)
    while len(bases) > 1 and bases[1] <= end.offset:  # the snapshot has all of it
        del bases[0]
    if bases and bases[0] > end.offset:
        file = OffsetFile(bases[0], FileKind.LOG).name
        problem = f"the metadata log begins at offset {bases[0]}, its newest snapshot ends at {end.offset}"
        raise DamagedFileError(f"{METADATA_FOLDER}/{file}", 0, problem, REMEDY)
    for base in bases:
        end = _replay_segment(base, read, image, end, is_last=base == bases[-1])
    if not end.offset and has_bootstrap:
        _replay_snapshot(BOOTSTRAP_FILE, read(BOOTSTRAP_FILE), image)
    return image, end


def _replay_segment(base: int, read: ReadFile, image: MetadataImage, end: MetadataEnd, *, is_last: bool) -> MetadataEnd:
    name = OffsetFile(base, FileKind.LOG).name
    data, shown = read(name), f"{METADATA_FOLDER}/{name}"
    at = 0
    for position, header in iter_batches(data, shown):
        _check(data, position, header, shown)
        at = position + header.size
        if header.base_offset < end.offset:
            continue  # the snapshot has it
        if header.base_offset > end.offset:
            problem = f"offset {header.base_offset} follows {end.offset}"
            raise DamagedFileError(shown, position, problem, REMEDY)
        _replay_batch(data, position, header, shown, image)
        end = MetadataEnd(header.next_offset, header.partition_leader_epoch)
    left = len(data) - at
    if left and (not is_last or (left >= _PREFIX.size and _PREFIX.unpack_from(data, at)[1] > _BATCH_SIZE_MAX)):
        raise DamagedFileError(shown, at, f"{left} bytes are no whole batch", REMEDY)
    return end


def _replay_snapshot(name: str, data: memoryview, image: MetadataImage) -> None:
    shown = name if name == BOOTSTRAP_FILE else f"{METADATA_FOLDER}/{name}"
    at, is_whole = 0, False
    for position, header in iter_batches(data, shown):
        _check(data, position, header, shown)
        is_whole = _replay_batch(data, position, header, shown, image) == _SNAPSHOT_FOOTER
        at = position + header.size
    if at < len(data) or not is_whole:
        raise DamagedFileError(shown, at, "the snapshot ends without its footer", REMEDY)


def _check(data: memoryview, position: int, header: BatchHeader, shown: str) -> None:
    problem = problem_of(data, position, header, header.base_offset)
    if problem:
        raise DamagedFileError(shown, position, problem, REMEDY)


def _replay_batch(data: memoryview, position: int, header: BatchHeader, shown: str, image: MetadataImage) -> int:
    """Replay the records of a batch; return the type of its last control record, -1 if it has none."""
    plain = header._replace(attributes=header.attributes & ~CONTROL_BIT)  # readers skip control batches
    wire = data[position : position + header.size]
    kind = -1
    try:
        for record in Batch("", 0, [(plain, wire)], start_offset=0, check_crcs=False):
            if header.is_control:
                kind = _CONTROL_KEY.unpack_from(record.key or b"")[1]
            else:
                message, _ = decode_framed(record.value or b"", metadata_classes())
                image.apply(message)
    except (ProtocolError, CorruptBatchError, struct.error) as error:
        problem = f"the batch at offset {header.base_offset} cannot be read: {error}"
        raise DamagedFileError(shown, position, problem, REMEDY) from None
    return kind


def bootstrap_snapshot(image: MetadataImage, timestamp_ms: int) -> bytes:
    """Return the content of `BOOTSTRAP_FILE`, from which a controller starts a metadata log with these records.

    Args:
        image: the metadata.
        timestamp_ms: when it is written, in milliseconds since 1970.
    """
    return b"".join(_snapshot_batches(image, timestamp_ms))


def _snapshot_batches(image: MetadataImage, timestamp_ms: int) -> Iterator[bytes]:
    first = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=timestamp_ms)
    yield _control_batch(_SNAPSHOT_HEADER, encode_message(first, 0), 0, timestamp_ms)
    offset = 1
    values = [encode_framed(*framed) for framed in image.records()]
    for start in range(0, len(values), _BATCH_RECORDS):
        part = values[start : start + _BATCH_RECORDS]
        rows = [(timestamp_ms, None, value, None) for value in part]
        yield encode_batch(rows, base_offset=offset, partition_leader_epoch=0)
        offset += len(part)
    last = encode_message(SnapshotFooterRecord(version=0), 0)
    yield _control_batch(_SNAPSHOT_FOOTER, last, offset, timestamp_ms)


def _control_batch(kind: int, value: bytes, offset: int, timestamp_ms: int) -> bytes:
    row = (timestamp_ms, _CONTROL_KEY.pack(0, kind), bytes(value), None)
    return encode_batch([row], base_offset=offset, control=True, partition_leader_epoch=0)
