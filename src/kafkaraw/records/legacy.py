"""Message sets of magic 0 and 1, from before Kafka 0.11, as batches of magic 2, for whoever reads.

Topics that old producers wrote are still served as they are. Nothing behind this module knows the old formats: `modern`
turns a `records` field that holds them into batches of today, offsets and timestamps kept. Nothing writes them.

    offset int64, size int32, crc uint32, magic int8, attributes int8, [magic 1: timestamp int64],
    key_size int32, key, value_size int32, value

The checksum (CRC-32) covers everything from `magic` on. A compressed message is a wrapper: its value is a message set,
its offset that of the last message in it. In magic 1 the offsets inside count from 0, and a wrapper of LogAppendTime
gives its timestamp to all. Messages of magic 0 have no timestamp.

What is damaged stays damaged: it becomes a batch with a wrong checksum or content, so that it raises when it is reached
and what comes before it can be read.

Source: KIP-31, KIP-32; Kafka's LegacyRecord and AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkaraw.errors import BatchTooLarge, CorruptBatch
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES, codec_by_id
from kafkaraw.records.header import (
    CODEC_MASK,
    HEADER_SIZE,
    LAYOUT,
    LENGTH_PREFIX_SIZE,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMELESS_BIT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Buffer,
    OldFormat,
    Wire,
    iter_headers,
    parse_header,
    stamp_crc,
    whole_batches,
)
from kafkaraw.records.varint import encode_varint
from kafkaraw.records.xxh32 import xxh32

_PREFIX: Final = struct.Struct(">qi")
_MAGIC_AT: Final = 16
_BODY_AT: Final = 16  # of what the checksum covers, within a message
_SIZES_MIN: Final = (14, 22)  # of a message by magic, without key and value
_KEY_AT: Final = (18, 26)
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT64: Final = struct.Struct(">q")
_TIMESTAMP_AT: Final = 18
_LZ4: Final = 3
_ZSTD: Final = 4
_TOGETHER_MAX: Final = 1000
"""Most messages without a wrapper that become one batch."""
_DELTA_MAX: Final = 2**31 - 1
_WRONG: Final = 0xFFFFFFFF


class _Message(NamedTuple):
    """One message; `timestamp_ms` is -1 in magic 0."""

    offset: int
    magic: int
    attributes: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None

    @property
    def codec_id(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def time_flags(self) -> int:
        """The attributes of a batch of magic 2 that say the same of timestamps."""
        return TIMELESS_BIT if self.magic == 0 else self.attributes & TIMESTAMP_TYPE_BIT


def modern(records: memoryview) -> memoryview:
    """A `records` field without messages of magic 0 and 1.

    Args:
        records: batches and messages, one after the other, in the order of their offsets; the last may be cut short.

    Returns:
        The same field when there are none, else batches that hold the same records.

    Raises:
        CorruptBatch: a length that cannot be, or a format that is not known.
    """
    pieces: list[bytes | memoryview] = []
    at = 0
    while (old_at := _first_old(records, at)) is not None:
        made, used = _run(records[old_at:])
        pieces += (records[at:old_at], *made)
        at = old_at + used
        if not used:
            return memoryview(b"".join(pieces))
    return memoryview(b"".join((*pieces, records[at:]))) if pieces else records


def _first_old(records: memoryview, at: int) -> int | None:
    """Where the first message of magic 0 or 1 is, from `at` on, where a batch or a message starts."""
    try:
        for header, _ in iter_headers(records[at:]):
            at += header.size
    except OldFormat:
        return at
    return None


def batches_of(records: memoryview) -> list[Wire]:
    """The whole batches of a `records` field, with those that messages of magic 0 and 1 turn into.

    Raises:
        CorruptBatch: a length that cannot be, or a format that is not known.
    """
    try:
        return whole_batches(records)
    except OldFormat:
        return whole_batches(modern(records))


def old_header(buffer: Buffer, base_offset: int) -> BatchHeader:
    """The header that stands for one message, for who keeps logs and does not look into them.

    Args:
        buffer: the first bytes of the message, at least those before its key.
        base_offset: the first offset that it may have; a wrapper tells the last one only.

    Raises:
        CorruptBatch: too few bytes, or a length that cannot be.
    """
    magic = buffer[_MAGIC_AT] if len(buffer) > _MAGIC_AT else 0
    if magic >= MAGIC or len(buffer) < _KEY_AT[magic]:
        raise CorruptBatch(f"{len(buffer)} bytes are not the start of a message of magic 0 or 1")
    offset, size = _PREFIX.unpack_from(buffer)
    if size < _SIZES_MIN[magic]:
        raise CorruptBatch(f"a message of magic {magic} has {_SIZES_MIN[magic]} bytes or more, not {size}")
    (crc,) = _UINT32.unpack_from(buffer, LENGTH_PREFIX_SIZE)
    timestamp = _INT64.unpack_from(buffer, _TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
    attributes = buffer[_MAGIC_AT + 1] & (CODEC_MASK | TIMESTAMP_TYPE_BIT)
    first = min(base_offset, offset)
    producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    return BatchHeader(
        first, size, -1, magic, crc, attributes, offset - first, timestamp, timestamp, *producer, offset - first + 1
    )


def verify_message(wire: memoryview) -> None:
    """Check one whole message; of a wrapper, not what is in it.

    Raises:
        CorruptBatch: its checksum or its lengths are wrong.
    """
    if _message(wire) is None:
        offset, _ = _PREFIX.unpack_from(wire)
        raise CorruptBatch(f"the message at offset {offset} is damaged: its checksum or its lengths are wrong")


def _run(records: memoryview) -> tuple[list[bytes], int]:
    """The batches that a run of old messages turns into, and how many bytes the run has; 0 when none is whole."""
    made: list[bytes] = []
    together: list[_Message] = []
    at = 0
    while True:
        end = _end_of(records, at)
        if not end or records[at + _MAGIC_AT] >= MAGIC:
            break
        wire = records[at:end]
        at = end
        message = _message(wire)
        if message is None or message.codec_id or not _goes_with(message, together):
            made += _plain(together)
            together = []
        if message is None:
            made.append(_damaged(wire))
        elif message.codec_id:
            made.append(_unwrapped(wire, message))
        else:
            together.append(message)
    return made + _plain(together), at


def _end_of(records: memoryview, at: int) -> int:
    """Where the message that starts at `at` ends; 0 when it is not whole."""
    if len(records) - at <= _MAGIC_AT:
        return 0
    _, size = _PREFIX.unpack_from(records, at)
    magic = records[at + _MAGIC_AT]
    if magic < MAGIC and size < _SIZES_MIN[magic]:
        raise CorruptBatch(f"a message of magic {magic} has {_SIZES_MIN[magic]} bytes or more, not {size}", offset=at)
    end = at + LENGTH_PREFIX_SIZE + size
    return end if at < end <= len(records) else 0


def _message(wire: memoryview) -> _Message | None:
    """One message; None when its checksum or its lengths are wrong."""
    (crc,) = _UINT32.unpack_from(wire, LENGTH_PREFIX_SIZE)
    if crc != zlib.crc32(wire[_BODY_AT:]):
        return None
    offset, _ = _PREFIX.unpack_from(wire)
    magic = wire[_MAGIC_AT]
    timestamp = _INT64.unpack_from(wire, _TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
    fields = []
    at = _KEY_AT[magic]
    for _ in ("key", "value"):
        if at + 4 > len(wire):
            return None
        (size,) = _INT32.unpack_from(wire, at)
        at += 4
        if at + size > len(wire):
            return None
        fields.append(None if size < 0 else bytes(wire[at : at + size]))
        at += max(size, 0)
    if offset < 0 or at != len(wire):
        return None
    return _Message(offset, magic, wire[_MAGIC_AT + 1], timestamp, *fields)


def _goes_with(message: _Message, together: Sequence[_Message]) -> bool:
    """Whether a message may be in one batch with those before it: a batch has one kind of timestamps."""
    if not together:
        return True
    first, last = together[0], together[-1]
    flags = message.time_flags
    return (
        len(together) < _TOGETHER_MAX
        and last.offset < message.offset <= first.offset + _DELTA_MAX
        and flags == first.time_flags
        and (flags != TIMESTAMP_TYPE_BIT or message.timestamp_ms == first.timestamp_ms)
    )


def _plain(messages: Sequence[_Message]) -> list[bytes]:
    return [_batch(messages, messages[0].time_flags)] if messages else []


def _batch(messages: Sequence[_Message], time_flags: int) -> bytes:
    """One batch of magic 2 with these records."""
    first = messages[0]
    body = bytearray()
    for message in messages:
        record = b"".join(
            (
                b"\0",
                encode_varint(message.timestamp_ms - first.timestamp_ms),
                encode_varint(message.offset - first.offset),
                _field(message.key),
                _field(message.value),
                b"\0",
            )
        )
        body += encode_varint(len(record)) + record
    times = (first.timestamp_ms, max(message.timestamp_ms for message in messages))
    return _assembled(bytes(body), time_flags, first.offset, messages[-1].offset - first.offset, times, len(messages))


def _field(data: bytes | None) -> bytes:
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def _assembled(
    body: bytes, attributes: int, base_offset: int, last_offset_delta: int, times: tuple[int, int], count: int
) -> bytes:
    producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    length = HEADER_SIZE + len(body) - LENGTH_PREFIX_SIZE
    head = LAYOUT.pack(base_offset, length, -1, MAGIC, 0, attributes, last_offset_delta, *times, *producer, count)
    batch = bytearray(head + body)
    stamp_crc(batch)
    return bytes(batch)


def _unwrapped(wire: memoryview, wrapper: _Message) -> bytes:
    """The batch that a compressed message turns into."""
    try:
        data = _decompressed(wrapper)
        inner = _inner_messages(memoryview(data), wrapper)
    except (CorruptBatch, BatchTooLarge):
        # Its content, under its codec: whoever reaches it is told what is wrong, and no earlier.
        times = (wrapper.timestamp_ms, wrapper.timestamp_ms)
        return _assembled(wrapper.value or b"", wrapper.codec_id | wrapper.time_flags, wrapper.offset, 0, times, 1)
    if inner is None:
        return _damaged(wire)
    return _batch(inner, wrapper.time_flags if inner[0].magic else TIMELESS_BIT)


def _decompressed(wrapper: _Message) -> bytes:
    data = wrapper.value
    if data is None or wrapper.codec_id >= _ZSTD:
        raise CorruptBatch(f"a message of magic {wrapper.magic} cannot be compressed like this")
    if wrapper.codec_id == _LZ4 and wrapper.magic == 0:
        data = with_right_lz4_checksum(data)
    return codec_by_id(wrapper.codec_id).decompress(data, DECOMPRESSED_SIZE_MAX_BYTES)


def _inner_messages(data: memoryview, wrapper: _Message) -> list[_Message] | None:
    """The messages in a wrapper, with the offsets and timestamps that they have; None when one is damaged.

    Raises:
        CorruptBatch: a length that cannot be.
    """
    found: list[_Message] = []
    at = 0
    while end := _end_of(data, at):
        message = _message(data[at:end]) if data[at + _MAGIC_AT] < MAGIC else None
        if message is None or message.codec_id or (found and message.offset <= found[-1].offset):
            return None
        found.append(message)
        at = end
    if not found:
        return None
    if wrapper.magic == 0:
        return found
    # A wrapper at 0 is what some producers sent, and what nobody gave offsets to.
    shift = wrapper.offset - found[-1].offset if wrapper.offset else 0
    if shift < 0:
        return None
    stamped = wrapper.attributes & TIMESTAMP_TYPE_BIT
    return [
        message._replace(
            offset=message.offset + shift,
            timestamp_ms=wrapper.timestamp_ms if stamped and message.magic else message.timestamp_ms,
        )
        for message in found
    ]


def _damaged(wire: memoryview) -> bytes:
    """A batch that takes up the message's offset and raises when it is read."""
    offset, _ = _PREFIX.unpack_from(wire)
    batch = bytearray(_assembled(bytes(wire), 0, max(offset, 0), 0, (NO_TIMESTAMP, NO_TIMESTAMP), 1))
    _UINT32.pack_into(batch, _MAGIC_AT + 1, parse_header(batch).crc ^ _WRONG)
    return bytes(batch)


_LZ4_FLAGS_AT: Final = 4
_LZ4_HAS_SIZE: Final = 0x08
_LZ4_HAS_DICTIONARY: Final = 0x01


def with_right_lz4_checksum(data: bytes) -> bytes:
    """An LZ4 frame of magic 0 with the checksum of its header as it should be.

    Producers of that time computed it over other bytes than the format says (KAFKA-3160), and readers ignored it.
    """
    flags = data[_LZ4_FLAGS_AT] if len(data) > _LZ4_FLAGS_AT else 0
    end = _LZ4_FLAGS_AT + 2 + (8 if flags & _LZ4_HAS_SIZE else 0) + (4 if flags & _LZ4_HAS_DICTIONARY else 0)
    if len(data) <= end:
        return data
    checksum = xxh32(data[_LZ4_FLAGS_AT:end]) >> 8 & 0xFF
    return data[:end] + bytes((checksum,)) + data[end + 1 :]
