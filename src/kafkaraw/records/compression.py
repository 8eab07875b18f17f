"""The codecs of record batches: one table, one compress and one decompress function each.

Every decompressor takes a limit and stops as soon as the output exceeds it, regardless of the size that the input
claims, so that a few hostile bytes cannot fill the memory. Start at `CODECS`. This module does not know record layout.

The libraries are imported by the codec that uses them: a program uses one or two codecs, and all take 10 ms.

Source: KIP-57 (lz4 framing), KIP-110 (zstd), snappy-java's SnappyOutputStream (xerial framing).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Final

from kafkaraw.errors import BatchTooLargeError, ConfigError, CorruptBatchError
from kafkaraw.light_classes import dataclass
from kafkaraw.records.header import BatchHeader, Buffer

DECOMPRESSED_SIZE_MAX_BYTES: Final = 128 * 1024 * 1024
"""Default limit on the decompressed size of one batch."""

_CHUNK_MIN: Final = 64 * 1024
_CHUNK_MAX: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Codec:
    """One way to compress the records of a batch.

    Attributes:
        id: number in the attributes of a batch.
        name: its `compression_type`.
        compress: (data, level or None for the codec's default) -> compressed.
        decompress: (data, limit in bytes) -> decompressed; raises CorruptBatchError or BatchTooLargeError.
    """

    id: int
    name: str
    compress: Callable[[Buffer, int | None], bytes]
    decompress: Callable[[Buffer, int], bytes]


def too_large(size_max_bytes: int) -> BatchTooLargeError:
    """Return the error of a batch that exceeds the limit on its decompressed size."""
    return BatchTooLargeError(f"a batch has more than the {size_max_bytes} bytes allowed when decompressed")


def batch_too_large(header: BatchHeader, size_max_bytes: int) -> BatchTooLargeError:
    """Return the same error for readers, with the batch and how to continue without it."""
    return BatchTooLargeError(
        f"the batch at offset {header.base_offset} has more than the {size_max_bytes} bytes allowed when decompressed; "
        f"to go on without it, seek to offset {header.next_offset}"
    )


def of_partition(error: BatchTooLargeError, topic: str, partition: int) -> BatchTooLargeError:
    """Return the error with the partition in front."""
    return BatchTooLargeError(f"{topic}-{partition}: {error.message}")


def _corrupt(codec: str, reason: object) -> CorruptBatchError:
    return CorruptBatchError(f"{codec} data cannot be decompressed: {reason}")


def _next_chunk(size: int, size_max_bytes: int, room: int) -> int:
    """Return the output size to request: geometric growth, and never more than one byte beyond the limit."""
    return min(max(size, _CHUNK_MIN), _CHUNK_MAX, max(room, _CHUNK_MIN), size_max_bytes + 1)


def _joined(parts: list[bytes]) -> bytes:
    """Return the parts as one, and empty the list: of large ones, no second copy is in memory."""
    if sum(map(len, parts)) < _CHUNK_MAX:
        return b"".join(parts)
    output = BytesIO()
    parts.reverse()
    while parts:
        output.write(parts.pop())
    return output.getvalue()


# -- none


def _compress_none(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


def _decompress_none(data: Buffer, size_max_bytes: int) -> bytes:
    if len(data) > size_max_bytes:
        raise too_large(size_max_bytes)
    return bytes(data)


# -- gzip

_GZIP_WINDOW: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_PIECE: Final = 16 * 1024


def _compress_gzip(data: Buffer, level: int | None) -> bytes:
    deflate = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    return deflate.compress(data) + deflate.flush()


def _decompress_gzip(data: Buffer, size_max_bytes: int) -> bytes:
    """Decompress the members one after the other; ignore bytes after the last one, as Java's GZIPInputStream does.

    The input is passed in small pieces: zlib copies the rest after each member, and there may be very many members.
    """
    data = bytes(data)
    parts: list[bytes] = []
    size = at = 0
    while at == 0 or data.startswith(_GZIP_MAGIC, at):
        inflate = zlib.decompressobj(_GZIP_WINDOW)
        ended = has_more = False  # has_more: the last call had no room for all output
        while not ended:
            piece = data[at : at + _GZIP_PIECE]
            if not piece and not has_more:
                raise _corrupt("gzip", "it ends too early")
            room = min(size_max_bytes - size + 1, _CHUNK_MAX)  # zlib has what a call returns in memory twice
            try:
                part = inflate.decompress(piece, room)
            except zlib.error as error:
                raise _corrupt("gzip", error) from None
            ended = inflate.eof
            at += len(piece) - len(inflate.unused_data if ended else inflate.unconsumed_tail)
            has_more = len(part) == room
            parts.append(part)
            size += len(part)
            if size > size_max_bytes:
                raise too_large(size_max_bytes)
    return _joined(parts)


# -- snappy

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE: Final = 32 * 1024
_SNAPPY_RATIO_MAX: Final = 32
"""A three-byte copy makes at most 64 bytes: a claimed size of more than this many times the input is false."""


def _compress_snappy(data: Buffer, level: int | None) -> bytes:
    """Write what snappy-java's SnappyOutputStream writes, as Java producers do."""
    import cramjam

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_SIZE]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, size_max_bytes: int) -> bytes:
    data = bytes(data)
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_snappy_block(data, size_max_bytes, 0)
    output = BytesIO()  # many small parts would stay in memory beside the whole
    at = len(_XERIAL_HEADER)
    while at < len(data):
        if data.startswith(_XERIAL_MAGIC, at):  # streams that were concatenated
            at += len(_XERIAL_HEADER)
            continue
        block_at = at + 4
        at = block_at + int.from_bytes(data[at:block_at], "big")
        if at > len(data) or block_at > len(data):
            raise _corrupt("snappy", "a block is longer than the data")
        output.write(_decompress_snappy_block(data[block_at:at], size_max_bytes, output.tell()))
    if at > len(data):
        raise _corrupt("snappy", "its header is cut short")
    return output.getvalue()


def _decompress_snappy_block(block: bytes, size_max_bytes: int, size_before: int) -> bytes:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise _corrupt("snappy", f"{len(block)} bytes cannot hold {size}")
        if size_before + size > size_max_bytes:
            raise too_large(size_max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _corrupt("snappy", error) from None


# -- lz4

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_VERSION_MASK: Final = 0xC0
_LZ4_VERSION: Final = 0x40
_LZ4_INDEPENDENT_BLOCKS: Final = 0x20


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    import lz4.frame

    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=level or 0,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,  # Java refuses blocks that depend on the one before
        store_size=False,
    )
    return compressed


def _decompress_lz4(data: Buffer, size_max_bytes: int) -> bytes:
    """Read one frame; what follows it is ignored, as Kafka's Lz4BlockInputStream does."""
    import lz4.frame

    _check_lz4_header(bytes(data[:5]))
    frame = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    size = 0
    source: Buffer = data
    while not frame.eof:
        chunk = _next_chunk(max(4 * len(data), size), size_max_bytes, size_max_bytes - size + 1)
        try:
            part: bytes = frame.decompress(source, max_length=chunk)
        except (RuntimeError, EOFError) as error:
            raise _corrupt("lz4", error) from None
        if not part and not frame.eof:
            raise _corrupt("lz4", "it ends too early")
        source = b""
        parts.append(part)
        size += len(part)
        if size > size_max_bytes:
            raise too_large(size_max_bytes)
    return parts[0] if len(parts) == 1 else _joined(parts)


def _check_lz4_header(header: bytes) -> None:
    if not header.startswith(_LZ4_MAGIC) or len(header) < 5:
        raise _corrupt("lz4", "it does not start with a frame")
    flags = header[4]
    if flags & _LZ4_VERSION_MASK != _LZ4_VERSION:
        raise _corrupt("lz4", f"frame version {flags >> 6} is unknown")
    if not flags & _LZ4_INDEPENDENT_BLOCKS:
        raise _corrupt("lz4", "its blocks depend on each other, which Kafka does not allow")


# -- zstd

_ZSTD_WINDOW_MAX_BYTES: Final = 1 << 27
_ZSTD_LEVEL: Final = 3


def _compress_zstd(data: Buffer, level: int | None) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL if level is None else level).compress(data)


def _decompress_zstd(data: Buffer, size_max_bytes: int) -> bytes:
    """Read all frames, chunk by chunk: a frame may lack its size, or state a wrong one.

    Missing data at the end is found by the records count of the batch: it does not differ from the end of a stream.
    """
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX_BYTES)
    parts: list[bytes] = []
    size = 0
    with decompressor.stream_reader(BytesIO(data), read_across_frames=True) as reader:
        while True:
            chunk = _next_chunk(max(8 * len(data), size), size_max_bytes, size_max_bytes - size + 1)
            try:
                part = reader.read(chunk)
            except zstandard.ZstdError as error:
                raise _corrupt("zstd", error) from None
            if not part:
                return parts[0] if len(parts) == 1 else _joined(parts)
            parts.append(part)
            size += len(part)
            if size > size_max_bytes:
                raise too_large(size_max_bytes)


CODECS: Final = (
    Codec(0, "none", _compress_none, _decompress_none),
    Codec(1, "gzip", _compress_gzip, _decompress_gzip),
    Codec(2, "snappy", _compress_snappy, _decompress_snappy),
    Codec(3, "lz4", _compress_lz4, _decompress_lz4),
    Codec(4, "zstd", _compress_zstd, _decompress_zstd),
)
"""Every codec, at the index of its id."""

_BY_NAME: Final = {codec.name: codec for codec in CODECS}


def codec_by_name(name: str) -> Codec:
    """Find a codec by its `compression_type` name.

    Raises:
        ConfigError: no codec has that name.
    """
    codec = _BY_NAME.get(name)
    if codec is None:
        raise ConfigError(f"compression type {name!r} is unknown; known are {', '.join(_BY_NAME)}")
    return codec


def codec_by_id(codec_id: int) -> Codec:
    """Find a codec by the number in a batch's attributes.

    Raises:
        CorruptBatchError: no codec has that number.
    """
    if not 0 <= codec_id < len(CODECS):
        raise CorruptBatchError(f"codec {codec_id} is unknown")
    return CODECS[codec_id]
