"""The codecs: what they write, what they read, and that they stop at the limit."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.records import CODECS, Codec, codec_by_id, codec_by_name

TEXT = b"".join(b"line %d of some text that repeats itself\n" % (number % 500) for number in range(5000))
LIMIT = 10 * 1024 * 1024
XERIAL_MAGIC = b"\x82SNAPPY\x00"

compressing = pytest.mark.parametrize("codec", CODECS[1:], ids=lambda codec: codec.name)


def test_the_table_is_in_the_order_of_the_ids() -> None:
    assert [(codec.id, codec.name) for codec in CODECS] == [
        (0, "none"),
        (1, "gzip"),
        (2, "snappy"),
        (3, "lz4"),
        (4, "zstd"),
    ]
    assert all(codec_by_id(codec.id) is codec_by_name(codec.name) is codec for codec in CODECS)


@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(3_000_000)], ids=["empty", "one", "text", "zeros"])
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_what_is_compressed_is_decompressed(codec: Codec, data: bytes) -> None:
    assert codec.decompress(memoryview(codec.compress(data, None)), LIMIT) == data


@compressing
def test_every_codec_makes_text_smaller(codec: Codec) -> None:
    assert len(codec.compress(TEXT, None)) < len(TEXT) / 2


@pytest.mark.parametrize(("name", "low", "high"), [("gzip", 1, 9), ("lz4", 0, 9), ("zstd", 1, 19)])
def test_a_higher_level_compresses_more(name: str, low: int, high: int) -> None:
    codec = codec_by_name(name)
    small = codec.compress(TEXT, high)
    assert len(small) < len(codec.compress(TEXT, low))
    assert codec.decompress(small, LIMIT) == TEXT


@compressing
def test_the_same_input_gives_the_same_bytes(codec: Codec) -> None:
    assert codec.compress(TEXT, None) == codec.compress(TEXT, None)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_output_of_exactly_the_limit_is_taken_and_one_byte_more_is_refused(codec: Codec) -> None:
    data = codec.compress(TEXT, None)
    assert codec.decompress(data, len(TEXT)) == TEXT
    with pytest.raises(BatchTooLargeError, match=f"{len(TEXT) - 1} bytes"):
        codec.decompress(data, len(TEXT) - 1)


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_a_decompression_bomb_costs_no_more_memory_than_the_limit_allows(name: str) -> None:
    codec = codec_by_name(name)
    bomb = codec.compress(bytes(100_000_000), None)
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLargeError):
            codec.decompress(bomb, 1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


@compressing
def test_data_that_ends_too_early_is_refused_or_shorter(codec: Codec) -> None:
    data = codec.compress(TEXT, None)
    for cut in (*range(0, 40), len(data) // 2, len(data) - 9, len(data) - 1):
        try:
            part = codec.decompress(data[:cut], LIMIT)
        except CorruptBatchError:
            continue
        assert TEXT.startswith(part)
        assert codec.name == "zstd" or (codec.name == "snappy" and cut == 16)  # the records count finds these


@compressing
def test_garbage_is_refused(codec: Codec) -> None:
    with pytest.raises(CorruptBatchError, match=f"{codec.name} data cannot be decompressed"):
        codec.decompress(b"this was never compressed by anything" * 10, LIMIT)


def test_gzip_members_follow_one_another() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"two ") + gzip.compress(b"three")
    assert codec_by_name("gzip").decompress(data, LIMIT) == b"one two three"
    with pytest.raises(BatchTooLargeError):
        codec_by_name("gzip").decompress(data, 8)


def test_very_many_gzip_members_are_read_in_linear_time() -> None:
    """Without small pieces this copies a gigabyte for every thousand members, and the suite's time limit hits."""
    assert codec_by_name("gzip").decompress(gzip.compress(b"") * 50_000 + gzip.compress(b"end"), LIMIT) == b"end"


def test_gzip_ignores_what_is_not_another_member_as_java_does() -> None:
    assert codec_by_name("gzip").decompress(gzip.compress(b"one") + bytes(8), LIMIT) == b"one"


def test_gzip_checks_its_own_checksum() -> None:
    data = bytearray(gzip.compress(b"content"))
    data[-5] ^= 1
    with pytest.raises(CorruptBatchError, match="gzip"):
        codec_by_name("gzip").decompress(data, LIMIT)


def test_gzip_without_a_gzip_header_is_refused() -> None:
    with pytest.raises(CorruptBatchError, match="gzip"):
        codec_by_name("gzip").decompress(zlib.compress(b"content"), LIMIT)


def test_snappy_is_written_in_blocks_of_32_kib_as_snappy_java_does() -> None:
    data = codec_by_name("snappy").compress(TEXT, None)
    assert data.startswith(XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    at = 16
    blocks = []
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + size])))
        at += 4 + size
    assert b"".join(blocks) == TEXT
    assert [len(block) for block in blocks[:-1]] == [32 * 1024] * (len(TEXT) // (32 * 1024))


def test_raw_snappy_is_read_as_librdkafka_and_franz_go_write_it() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert codec_by_name("snappy").decompress(raw, LIMIT) == TEXT


def test_snappy_streams_may_be_concatenated() -> None:
    codec = codec_by_name("snappy")
    assert codec.decompress(codec.compress(b"one ", None) + codec.compress(b"two", None), LIMIT) == b"one two"


@pytest.mark.parametrize(
    "block",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 100) + b"short",
        b"\x00\x00",
        struct.pack(">i", 0),
    ],
)
def test_snappy_blocks_with_hostile_lengths_are_refused(block: bytes) -> None:
    with pytest.raises(CorruptBatchError, match="snappy"):
        codec_by_name("snappy").decompress(XERIAL_MAGIC + struct.pack(">ii", 1, 1) + block, LIMIT)


def test_snappy_that_claims_four_gigabytes_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatchError, match="8 bytes cannot hold 4294967295"):
            codec_by_name("snappy").decompress(b"\xff\xff\xff\xff\x0fabc", 2**40)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_lz4_is_written_with_independent_blocks() -> None:
    data = codec_by_name("lz4").compress(TEXT, None)
    assert data[:4] == b"\x04\x22\x4d\x18"
    assert data[4] & 0x20, "the flag for independent blocks"
    assert not data[4] & 0x08, "no content size"
    assert 4 <= data[5] >> 4 <= 7, "a block size that Java knows"


def test_lz4_with_dependent_blocks_is_refused_as_in_java() -> None:
    data = lz4.frame.compress(TEXT, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=True)
    with pytest.raises(CorruptBatchError, match="blocks depend on each other"):
        codec_by_name("lz4").decompress(data, LIMIT)


@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
def test_lz4_frames_of_any_flags_are_read(content_checksum: bool, store_size: bool) -> None:
    data = lz4.frame.compress(
        TEXT,
        block_size=lz4.frame.BLOCKSIZE_MAX4MB,
        block_linked=False,
        content_checksum=content_checksum,
        block_checksum=True,
        store_size=store_size,
    )
    assert codec_by_name("lz4").decompress(data, LIMIT) == TEXT


def test_lz4_of_another_frame_version_is_refused() -> None:
    data = bytearray(codec_by_name("lz4").compress(TEXT, None))
    data[4] = data[4] & 0x3F | 0x80
    with pytest.raises(CorruptBatchError, match="frame version 2"):
        codec_by_name("lz4").decompress(data, LIMIT)


def test_lz4_ignores_what_follows_the_frame_as_java_does() -> None:
    codec = codec_by_name("lz4")
    assert codec.decompress(codec.compress(TEXT, None) + b"anything", LIMIT) == TEXT


def test_zstd_frames_may_lack_their_size() -> None:
    data = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    assert zstandard.get_frame_parameters(data).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert codec_by_name("zstd").decompress(data, LIMIT) == TEXT


def test_zstd_frames_follow_one_another() -> None:
    codec = codec_by_name("zstd")
    assert codec.decompress(codec.compress(b"one ", None) + codec.compress(b"two", None), LIMIT) == b"one two"


def test_empty_zstd_frames_end_nothing() -> None:
    codec = codec_by_name("zstd")
    data = codec.compress(b"", None) + codec.compress(b"one", None) + codec.compress(b"", None)
    assert codec.decompress(data + codec.compress(b" two", None), LIMIT) == b"one two"


def test_zstd_checks_its_own_checksum() -> None:
    data = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    data[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="zstd"):
        codec_by_name("zstd").decompress(data, LIMIT)


def test_zstd_windows_of_gigabytes_are_refused() -> None:
    header = b"\x28\xb5\x2f\xfd" + bytes((0x00, (31 - 10) << 3)) + b"\x01\x00\x00"
    with pytest.raises(CorruptBatchError, match="zstd"):
        codec_by_name("zstd").decompress(header, LIMIT)
