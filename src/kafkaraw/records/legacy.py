"""Message sets of magic 0 and 1, from before Kafka 0.11, as batches of magic 2, for readers.

Brokers still serve topics of old producers in the old formats. `modern` converts a `records` field that holds them into
batches of magic 2, with equal offsets and timestamps. `mixed_batches` does the same, but leaves compressed messages as
they are: a few bytes may become 128 MiB, so a reader decompresses one at a time, with `unwrapped`, when it reaches it.
Until then a header of the old magic represents the message. Nothing writes the old formats.

    offset int64, size int32, crc uint32, magic int8, attributes int8, [magic 1: timestamp int64],
    key_size int32, key, value_size int32, value

The checksum (CRC-32) covers everything from `magic` on. A compressed message is a wrapper: its value is a message set,
its offset that of the last message in it. In magic 1 the offsets inside count from 0, and the timestamp of a wrapper of
LogAppendTime applies to all messages. Messages of magic 0 have no timestamp.

Damaged messages stay damaged: they become a batch with a wrong checksum or content, so that it raises when it is
reached and the records before it can be read.

Source: KIP-31, KIP-32; Kafka's LegacyRecord and AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.light_classes import NamedTuple
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
    OldFormatError,
    Wire,
    iter_headers,
    parse_header,
    stamp_crc,
    whole_batches,
)
from kafkaraw.records.varint import encode_varint

_PREFIX: Final = struct.Struct(">qi")
_MAGIC_AT: Final = 16
_BODY_AT: Final = 16  # start of the bytes under the checksum, within a message
_SIZES_MIN: Final = (14, 22)  # of a message by magic, without key and value
_KEY_AT: Final = (18, 26)
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT64: Final = struct.Struct(">q")
_TIMESTAMP_AT: Final = 18
_LZ4: Final = 3
_ZSTD: Final = 4
_TOGETHER_MAX: Final = 1000
"""Maximum number of messages without a wrapper in one batch."""
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
        """The attributes of a batch of magic 2 with the same timestamp type."""
        return TIMELESS_BIT if self.magic == 0 else self.attributes & TIMESTAMP_TYPE_BIT


def modern(records: memoryview) -> memoryview:
    """Return a `records` field without messages of magic 0 and 1.

    Args:
        records: batches and messages, one after the other, in the order of their offsets; the last may be cut short.

    Returns:
        The same field if there are none, else batches that hold the same records.

    Raises:
        CorruptBatchError: an impossible length, or an unknown format.
    """
    pieces: list[bytearray | memoryview] = []
    at = 0
    while (old_at := _first_old(records, at)) is not None:
        made, used = _run(records[old_at:])
        pieces.append(records[at:old_at])
        pieces += (_unwrapped(piece) if isinstance(piece, memoryview) else piece for piece in made)
        at = old_at + used
        if not used:
            return memoryview(b"".join(pieces))
    return memoryview(b"".join((*pieces, records[at:]))) if pieces else records


def _first_old(records: memoryview, at: int) -> int | None:
    """Return the position of the first message of magic 0 or 1 from `at` on; a batch or a message starts at `at`."""
    try:
        for header, _ in iter_headers(records[at:]):
            at += header.size
    except OldFormatError:
        return at
    return None


def mixed_batches(records: memoryview) -> list[Wire]:
    """Return the whole batches of a `records` field that has messages of magic 0 and 1; see `batch.batches_of`."""
    wires: list[Wire] = []
    at = 0
    while (old_at := _first_old(records, at)) is not None:
        wires += whole_batches(records[at:old_at])
        made, used = _run(records[old_at:])
        for piece in made:
            if isinstance(piece, memoryview):
                wires.append((old_header(piece, wires[-1][0].next_offset if wires else 0), piece))
            else:
                wires += whole_batches(memoryview(piece))
        at = old_at + used
        if not used:
            return wires
    return wires + whole_batches(records[at:])


def unwrapped(wire: memoryview) -> list[Wire]:
    """Convert a compressed message of magic 0 or 1 into a batch; damaged content raises when it is read."""
    return whole_batches(memoryview(_unwrapped(wire)))


def old_header(buffer: Buffer, base_offset: int) -> BatchHeader:
    """Return the header that represents one message, for brokers, which store logs without reading their messages.

    Args:
        buffer: the first bytes of the message, at least those before its key.
        base_offset: the first offset that it may have; a wrapper holds only its last one.

    Raises:
        CorruptBatchError: too few bytes, or an impossible length.
    """
    magic = buffer[_MAGIC_AT] if len(buffer) > _MAGIC_AT else 0
    if magic >= MAGIC or len(buffer) < _KEY_AT[magic]:
        raise CorruptBatchError(f"{len(buffer)} bytes are not the start of a message of magic 0 or 1")
    offset, size = _PREFIX.unpack_from(buffer)
    if size < _SIZES_MIN[magic]:
        raise CorruptBatchError(f"a message of magic {magic} has {_SIZES_MIN[magic]} bytes or more, not {size}")
    (crc,) = _UINT32.unpack_from(buffer, LENGTH_PREFIX_SIZE)
    timestamp = _INT64.unpack_from(buffer, _TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
    attributes = buffer[_MAGIC_AT + 1] & (CODEC_MASK | TIMESTAMP_TYPE_BIT)
    first = min(base_offset, offset)
    producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    return BatchHeader(
        first, size, -1, magic, crc, attributes, offset - first, timestamp, timestamp, *producer, offset - first + 1
    )


def verify_message(wire: memoryview) -> None:
    """Check one whole message, but not the content of a wrapper.

    Raises:
        CorruptBatchError: its checksum or its lengths are wrong.
    """
    if _message(wire) is None:
        offset, _ = _PREFIX.unpack_from(wire)
        raise CorruptBatchError(f"the message at offset {offset} is damaged: its checksum or its lengths are wrong")


def _run(records: memoryview) -> tuple[list[bytearray | memoryview], int]:
    """Convert a run of old messages into batches; return them and the bytes of the run, 0 if no message is whole.

    Compressed messages stay as they are, as a `memoryview`.
    """
    made: list[bytearray | memoryview] = []
    together: list[_Message] = []
    at = 0
    while True:
        end = _end_of(records, at)
        if not end or records[at + _MAGIC_AT] >= MAGIC:
            break
        wire = records[at:end]
        at = end
        if _is_wrapper(wire):
            made += (*_plain(together), wire)
            together = []
            continue
        message = _message(wire)
        if message is None or not _goes_with(message, together):
            made += _plain(together)
            together = []
        if message is None:
            made.append(_damaged(wire))
        else:
            together.append(message)
    return made + _plain(together), at


def _is_wrapper(wire: memoryview) -> bool:
    """Return whether the attributes name a codec; a message with an impossible offset is damaged, compressed or not."""
    offset, _ = _PREFIX.unpack_from(wire)
    return bool(wire[_MAGIC_AT + 1] & CODEC_MASK) and offset >= 0


def _end_of(records: memoryview, at: int) -> int:
    """Return where the message that starts at `at` ends; 0 if it is not whole."""
    if len(records) - at <= _MAGIC_AT:
        return 0
    _, size = _PREFIX.unpack_from(records, at)
    magic = records[at + _MAGIC_AT]
    if magic < MAGIC and size < _SIZES_MIN[magic]:
        size_min = _SIZES_MIN[magic]
        raise CorruptBatchError(f"a message of magic {magic} has {size_min} bytes or more, not {size}", offset=at)
    end = at + LENGTH_PREFIX_SIZE + size
    return end if at < end <= len(records) else 0


def _message(wire: memoryview, *, verify: bool = True) -> _Message | None:
    """Read one message; None if its checksum or its lengths are wrong."""
    (crc,) = _UINT32.unpack_from(wire, LENGTH_PREFIX_SIZE)
    if verify and crc != zlib.crc32(wire[_BODY_AT:]):
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
    """Return whether a message fits into one batch with those before it: a batch has one timestamp type."""
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


def _plain(messages: Sequence[_Message]) -> list[bytearray | memoryview]:
    return [_batch(messages, messages[0].time_flags)] if messages else []


def _batch(messages: Iterable[_Message], time_flags: int) -> bytearray:
    """Return one batch of magic 2 with these records, at least one. Large keys and values are copied once."""
    batch = bytearray(HEADER_SIZE)
    first = last = None
    newest = count = 0
    for message in messages:
        if first is None:
            first, newest = message, message.timestamp_ms
        last, count = message, count + 1
        newest = max(newest, message.timestamp_ms)
        before_key = b"".join(
            (
                b"\0",
                encode_varint(message.timestamp_ms - first.timestamp_ms),
                encode_varint(message.offset - first.offset),
                _field_size(message.key),
            )
        )
        before_value = _field_size(message.value)
        key, value = message.key or b"", message.value or b""
        batch += encode_varint(len(before_key) + len(key) + len(before_value) + len(value) + 1)
        for piece in (before_key, key, before_value, value, b"\0"):
            batch += piece
    assert first is not None and last is not None, "a batch is made of messages"
    return _with_header(
        batch, time_flags, first.offset, last.offset - first.offset, (first.timestamp_ms, newest), count
    )


def _field_size(data: bytes | None) -> bytes:
    return encode_varint(-1 if data is None else len(data))


def _with_header(
    batch: bytearray, attributes: int, base_offset: int, last_offset_delta: int, times: tuple[int, int], count: int
) -> bytearray:
    """Write the header into a batch that has room for it, and return the batch."""
    producer = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    length = len(batch) - LENGTH_PREFIX_SIZE
    fields = (base_offset, length, -1, MAGIC, 0, attributes, last_offset_delta, *times, *producer, count)
    LAYOUT.pack_into(batch, 0, *fields)
    stamp_crc(batch)
    return batch


def _unwrapped(wire: memoryview) -> bytearray:
    """Convert a compressed message into a batch."""
    wrapper = _message(wire)
    if wrapper is None:
        return _damaged(wire)
    try:
        data = memoryview(_decompressed(wrapper))
        shift = _shift(data, wrapper)
    except (CorruptBatchError, BatchTooLargeError):
        # Its content, under its codec: a reader that reaches it gets the error, and no earlier.
        times = (wrapper.timestamp_ms, wrapper.timestamp_ms)
        content = bytearray(HEADER_SIZE) + (wrapper.value or b"")
        return _with_header(content, wrapper.codec_id | wrapper.time_flags, wrapper.offset, 0, times, 1)
    if shift is None:
        return _damaged(wire)
    return _batch(_inner_messages(data, wrapper, shift), wrapper.time_flags if data[_MAGIC_AT] else TIMELESS_BIT)


def _decompressed(wrapper: _Message) -> bytes:
    data = wrapper.value
    if data is None or wrapper.codec_id >= _ZSTD:
        raise CorruptBatchError(f"a message of magic {wrapper.magic} cannot be compressed like this")
    if wrapper.codec_id == _LZ4 and wrapper.magic == 0:
        data = with_right_lz4_checksum(data)
    return codec_by_id(wrapper.codec_id).decompress(data, DECOMPRESSED_SIZE_MAX_BYTES)


def _shift(data: memoryview, wrapper: _Message) -> int | None:
    """Return the distance of the offsets in a wrapper from those of the messages; None if a message is damaged.

    Offsets that are too far apart for one batch are damage: a broker assigned them to one message after the other.

    The messages are checked one by one, and read again for their content: there may be millions of them.

    Raises:
        CorruptBatchError: an impossible length.
    """
    first_offset = last_offset = -1
    at = 0
    while end := _end_of(data, at):
        message = _message(data[at:end]) if data[at + _MAGIC_AT] < MAGIC else None
        if message is None or message.codec_id or message.offset <= last_offset:
            return None
        if last_offset < 0:
            first_offset = message.offset
        last_offset = message.offset
        if last_offset - first_offset > _DELTA_MAX:
            return None
        at = end
    if last_offset < 0:
        return None
    # Some producers sent wrappers with offset 0, to which no broker has assigned an offset.
    shift = wrapper.offset - last_offset if wrapper.magic and wrapper.offset else 0
    return None if shift < 0 else shift


def _inner_messages(data: memoryview, wrapper: _Message, shift: int) -> Iterator[_Message]:
    """Yield the messages in a wrapper, which `_shift` has checked, with their own offsets and timestamps."""
    stamped = wrapper.magic and wrapper.attributes & TIMESTAMP_TYPE_BIT
    at = 0
    while end := _end_of(data, at):
        message = _message(data[at:end], verify=False)
        assert message is not None, "it was checked"
        timestamp_ms = wrapper.timestamp_ms if stamped and message.magic else message.timestamp_ms
        yield message._replace(offset=message.offset + shift, timestamp_ms=timestamp_ms)
        at = end


def _damaged(wire: memoryview) -> bytearray:
    """Return a batch that has the message's offset and raises when it is read."""
    offset, _ = _PREFIX.unpack_from(wire)
    batch = _with_header(bytearray(HEADER_SIZE) + wire, 0, max(offset, 0), 0, (NO_TIMESTAMP, NO_TIMESTAMP), 1)
    _UINT32.pack_into(batch, _MAGIC_AT + 1, parse_header(batch).crc ^ _WRONG)
    return batch


_LZ4_FLAGS_AT: Final = 4
_LZ4_HAS_SIZE: Final = 0x08
_LZ4_HAS_DICTIONARY: Final = 0x01


def with_right_lz4_checksum(data: bytes) -> bytes:
    """Return an LZ4 frame of magic 0 with a correct checksum of its header.

    Producers of that time computed it over other bytes than the format defines (KAFKA-3160), and readers ignored it.
    """
    flags = data[_LZ4_FLAGS_AT] if len(data) > _LZ4_FLAGS_AT else 0
    end = _LZ4_FLAGS_AT + 2 + (8 if flags & _LZ4_HAS_SIZE else 0) + (4 if flags & _LZ4_HAS_DICTIONARY else 0)
    if len(data) <= end:
        return data
    checksum = xxh32(data[_LZ4_FLAGS_AT:end]) >> 8 & 0xFF
    return data[:end] + bytes((checksum,)) + data[end + 1 :]


# -- the checksum in the header of an LZ4 frame

_XXH32_MASK: Final = 0xFFFFFFFF
_XXH32_PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def xxh32(data: bytes) -> int:
    """Return the XXH32 hash of at most 15 bytes, with seed 0: the header of an LZ4 frame has at most 14.

    Source: the xxHash specification, section 3.3 (XXH32), for inputs of less than 16 bytes.
    """
    first, second, third, fourth, fifth = _XXH32_PRIMES
    found = fifth + len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        found += int.from_bytes(data[at : at + 4], "little") * third
        found = _rotated(found, 17) * fourth & _XXH32_MASK
    for byte in data[whole:]:
        found += byte * fifth
        found = _rotated(found, 11) * first & _XXH32_MASK
    found &= _XXH32_MASK
    found = (found ^ found >> 15) * second & _XXH32_MASK
    found = (found ^ found >> 13) * third & _XXH32_MASK
    return found ^ found >> 16


def _rotated(number: int, bits: int) -> int:
    number &= _XXH32_MASK
    return number << bits | number >> 32 - bits
