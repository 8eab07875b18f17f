"""The 61-byte header of a record batch, magic 2: parse, walk, check, patch.

    base_offset int64, batch_length int32, partition_leader_epoch int32, magic int8, crc uint32,
    attributes int16, last_offset_delta int32, base_timestamp int64, max_timestamp int64,
    producer_id int64, producer_epoch int16, base_sequence int32, records_count int32

The checksum (CRC-32C) covers everything from `attributes` on, which is why a broker may set offset and leader epoch
without computing it again. Start at `iter_headers`. Nothing here reads the records after the header.

Source: KIP-98; Kafka's DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, TypeAlias

from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records.record import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NONE

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61
"""Bytes before the first record."""
LENGTH_PREFIX_SIZE: Final = 12
"""Bytes that `batch_length` does not count: base_offset and itself."""
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
TIMELESS_BIT: Final = 0x4000
"""Our own bit: no record of the batch has a timestamp, because it was made of messages of magic 0. Kafka's is 0."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1

LAYOUT: Final = struct.Struct(">qiibIhiqqqhii")
ATTRIBUTES_AT: Final = 21
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_PARTITION_LEADER_EPOCH_AT: Final = 12
_MAX_TIMESTAMP_AT: Final = 35
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT64: Final = struct.Struct(">q")
_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43
_BATCH_LENGTH_MIN: Final = HEADER_SIZE - LENGTH_PREFIX_SIZE
_INT64_MAX: Final = 2**63 - 1


class OldFormatError(CorruptBatchError):
    """A message of magic 0 or 1 where a batch of magic 2 was expected; `kafkaraw.records.legacy` reads them."""


class BatchHeader(NamedTuple):
    """The header of one record batch, field by field as on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def codec_id(self) -> int:
        """Number of the codec that the records are compressed with; 0 is none."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """`TIMESTAMP_LOG_APPEND_TIME` (every record's time is `max_timestamp`), `TIMESTAMP_CREATE_TIME`, or none."""
        if self.attributes & TIMELESS_BIT:
            return TIMESTAMP_NONE
        return TIMESTAMP_LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else TIMESTAMP_CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether this is a transaction marker rather than records for users."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` holds the time at which tombstones may be removed (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also if compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset to fetch after this batch; never take it from the last record, because compaction leaves gaps."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes, header included."""
        return self.batch_length + LENGTH_PREFIX_SIZE


Wire: TypeAlias = tuple[BatchHeader, memoryview]
"""A batch as it was sent, with its header read."""


def parse_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """Read the header that starts at `at`; the batch may be cut short after it.

    Args:
        buffer: bytes that hold at least `HEADER_SIZE` bytes from `at` on.
        at: where the batch starts.

    Raises:
        CorruptBatchError: too few bytes, another magic, or an impossible value in a field.
    """
    if len(buffer) - at < HEADER_SIZE:
        _check_magic(buffer, at)
        raise CorruptBatchError(f"a batch header has {HEADER_SIZE} bytes, {len(buffer) - at} are left", offset=at)
    header = unpack_header(buffer, at)
    if header.magic != MAGIC:
        _check_magic(buffer, at)
    problem = _problem(header)
    if problem:
        raise CorruptBatchError(problem, offset=at)
    return header


def unpack_header(buffer: Buffer, at: int = 0) -> BatchHeader:
    """Read the header that starts at `at` without any check; there must be `HEADER_SIZE` bytes."""
    return BatchHeader._make(LAYOUT.unpack_from(buffer, at))


def _check_magic(buffer: Buffer, at: int) -> None:
    """Refuse another message format before any other check: older ones have shorter headers."""
    if len(buffer) - at <= _MAGIC_AT:
        return
    magic = buffer[at + _MAGIC_AT]
    if magic < MAGIC:
        raise OldFormatError(f"a message of format {magic}, from before Kafka 0.11, is not a batch", offset=at)
    if magic > MAGIC:
        raise CorruptBatchError(f"magic {magic} is not a known message format", offset=at)


def _problem(header: BatchHeader) -> str:
    if header.batch_length < _BATCH_LENGTH_MIN:
        return f"batch length {header.batch_length} is less than the {_BATCH_LENGTH_MIN} bytes of a header"
    if header.base_offset < 0:
        return f"base offset {header.base_offset} is negative"
    if header.last_offset_delta < 0 or header.last_offset >= _INT64_MAX:
        return f"last offset delta {header.last_offset_delta} is out of range"
    if header.records_count < 0:
        return f"records count {header.records_count} is negative"
    return ""


def iter_headers(records: memoryview) -> Iterator[Wire]:
    """Iterate over the whole batches of a Fetch or Produce `records` field.

    A batch that is cut short at the end is not an error, because brokers cut at a byte count. It is left out.

    Args:
        records: zero or more batches, one after the other.

    Yields:
        the header, and the batch it belongs to (header included) as a view into `records`.

    Raises:
        CorruptBatchError: an impossible length, or another message format.
    """
    at = 0
    size = len(records)
    while size - at >= HEADER_SIZE:
        header = parse_header(records, at)
        end = at + header.size
        if end > size:
            return
        yield header, records[at:end]
        at = end
    _check_magic(records, at)


def whole_batches(records: memoryview) -> list[Wire]:
    """Return the same as a list, for readers: if a part of the field is damaged, raise and return nothing."""
    wires: list[Wire] = []
    at, size = 0, len(records)
    unpack, make = LAYOUT.unpack_from, BatchHeader._make
    while size - at >= HEADER_SIZE:
        header = make(unpack(records, at))
        base_offset, length, _, magic, _, _, last_delta, *_, count = header
        sound = magic == MAGIC and length >= _BATCH_LENGTH_MIN and base_offset >= 0 <= last_delta and count >= 0
        if not sound or base_offset + last_delta >= _INT64_MAX:
            parse_header(records, at)  # says what is wrong
        end = at + length + LENGTH_PREFIX_SIZE
        if end > size:
            return wires
        wires.append((header, records[at:end]))
        at = end
    _check_magic(records, at)
    return wires


def verify_crc(batch: Buffer) -> None:
    """Compare the checksum of one whole batch with its content; call it before decompressing.

    Raises:
        CorruptBatchError: they differ, or there is no whole header.
    """
    if len(batch) < HEADER_SIZE:
        raise CorruptBatchError(f"a batch header has {HEADER_SIZE} bytes, {len(batch)} are left")
    (stored,) = _UINT32.unpack_from(batch, _CRC_AT)
    computed = _crc32c()(memoryview(batch)[ATTRIBUTES_AT:])
    if stored != computed:
        (base_offset,) = _INT64.unpack_from(batch, 0)
        raise CorruptBatchError(
            f"checksum of the batch at offset {base_offset} is {computed:#010x}, its header says {stored:#010x}"
        )


def stamp_crc(batch: bytearray | memoryview) -> None:
    """Compute the checksum of a whole batch and write it into its header."""
    # A batch takes about 10 microseconds, and to get the GIL back from a busy thread up to 5,000: keep it.
    _UINT32.pack_into(batch, _CRC_AT, _crc32c()(memoryview(batch)[ATTRIBUTES_AT:], gil_release_mode=0))


@cache
def _crc32c() -> Callable[..., int]:
    """Import the function at the first batch: that takes 25 ms, because the module looks up its own version."""
    from crc32c import crc32c

    return crc32c


def fill_header(
    batch: bytearray | memoryview, codec_id: int, records_count: int, base_timestamp: int, max_timestamp: int
) -> None:
    """Write the header of a new whole batch; the producer's fields and the checksum are written later."""
    last_offset_delta = max(records_count - 1, 0)
    length = len(batch) - LENGTH_PREFIX_SIZE
    producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    times = (base_timestamp, max_timestamp)
    LAYOUT.pack_into(batch, 0, 0, length, -1, MAGIC, 0, codec_id, last_offset_delta, *times, *producer, records_count)


def set_attribute(batch: bytearray | memoryview, bit: int) -> None:
    """Set one attribute bit of a whole batch; the caller updates the checksum."""
    (attributes,) = _INT16.unpack_from(batch, ATTRIBUTES_AT)
    _INT16.pack_into(batch, ATTRIBUTES_AT, attributes | bit)


def stamp_producer(
    batch: bytearray | memoryview, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool
) -> None:
    """Write the producer's identity and the first sequence number into a whole batch, and its checksum."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    (attributes,) = _INT16.unpack_from(batch, ATTRIBUTES_AT)
    attributes = attributes | TRANSACTIONAL_BIT if transactional else attributes & ~TRANSACTIONAL_BIT
    _INT16.pack_into(batch, ATTRIBUTES_AT, attributes)
    stamp_crc(batch)


def unstamped(wire: Wire) -> memoryview:
    """Return a batch as producers send it: offset 0, no leader epoch, neither append time nor delete horizon.

    The bytes are written in place, unless they are read-only. The records' own timestamps apply. The checksum stays as
    it was, and so do the producer's numbers: `stamp_producer` writes both.
    """
    header, batch = wire
    if batch.readonly:
        batch = memoryview(bytearray(batch))
    _INT64.pack_into(batch, 0, 0)
    _INT32.pack_into(batch, _PARTITION_LEADER_EPOCH_AT, -1)
    attributes = header.attributes & ~(TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT)
    if attributes != header.attributes:
        _INT16.pack_into(batch, ATTRIBUTES_AT, attributes)
    return batch


def emptied(header: BatchHeader) -> bytes:
    """Return a batch without records that has the same offsets as the one with this header.

    Compaction leaves such batches, so that readers skip them and their positions advance.
    """
    kept = header.attributes & ~CODEC_MASK
    batch = bytearray(LAYOUT.pack(*header._replace(batch_length=_BATCH_LENGTH_MIN, attributes=kept, records_count=0)))
    stamp_crc(batch)
    return bytes(batch)


def patch_header(
    batch: bytearray | memoryview,
    *,
    base_offset: int | None = None,
    partition_leader_epoch: int | None = None,
    max_timestamp: int | None = None,
) -> None:
    """Set the fields that a broker assigns to a batch, in place.

    Args:
        batch: one whole batch, writable.
        base_offset: offset of its first record.
        partition_leader_epoch: epoch of the leader that appends it.
        max_timestamp: append time in milliseconds: sets the batch to LogAppendTime. Only this one changes bytes under
            the checksum, which is then computed again.
    """
    if base_offset is not None:
        _INT64.pack_into(batch, 0, base_offset)
    if partition_leader_epoch is not None:
        _INT32.pack_into(batch, _PARTITION_LEADER_EPOCH_AT, partition_leader_epoch)
    if max_timestamp is not None:
        set_attribute(batch, TIMESTAMP_TYPE_BIT)
        _INT64.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp)
        stamp_crc(batch)


def stamp_create_time(batch: bytearray | memoryview, max_timestamp: int) -> None:
    """Set a batch to CreateTime with this highest timestamp, that of its records; in place."""
    header = unpack_header(batch)
    if header.max_timestamp == max_timestamp and header.timestamp_type == TIMESTAMP_CREATE_TIME:
        return
    _INT16.pack_into(batch, ATTRIBUTES_AT, header.attributes & ~TIMESTAMP_TYPE_BIT)
    _INT64.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    stamp_crc(batch)
