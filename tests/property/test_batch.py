"""Record batches under all inputs: what goes in comes out, and no bytes do harm."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.records import HEADER_SIZE, Batch, Columns, encode_batch, fill, iter_headers, parse_header
from kafkaraw.records.batch import PlainRecord
from kafkaraw.records.columns import COLUMN_NAMES
from kafkaraw.records.header import stamp_crc
from tests.examples import examples
from tests.records.twins import implementation

__all__ = ["implementation"]  # both twins

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
SIZE_MAX_BYTES = 1_000_000

blobs = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=200) | st.just(b"long" * 5000)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
timestamps = st.integers(-1, 2**63 - 1) | st.integers(1_700_000_000_000, 1_700_000_100_000)
records_of = st.lists(
    st.tuples(timestamps, blobs, blobs, st.none() | st.lists(st.tuples(names, blobs), max_size=3)), max_size=20
)

SAMPLE: list[PlainRecord] = [
    (1_700_000_000_000 + number, None if number % 3 else b"key-%d" % number, b"value-%d" % number * 5, headers)
    for number in range(8)
    for headers in [[("name", b"text"), ("null", None)] if number % 2 else None]
]


def read_all(data: bytes | bytearray, *, check_crcs: bool) -> int:
    """Read in every way there is; the ways must agree."""
    batch = Batch("t", 0, memoryview(data), start_offset=0, size_max_bytes=SIZE_MAX_BYTES, check_crcs=check_crcs)
    records = list(batch)
    assert batch.values() == [record.value for record in records]
    assert all(record.offset < batch.next_offset for record in records)
    return len(records)


def survives(data: bytes | bytearray, *, check_crcs: bool) -> bool:
    """Whether the data was read; the only other outcome allowed is a refusal."""
    try:
        read_all(data, check_crcs=check_crcs)
    except (CorruptBatchError, BatchTooLargeError):
        return False
    return True


def fills(data: bytes | bytearray) -> bool:
    """The same for columns, which must hold together afterwards."""
    columns = Columns(COLUMN_NAMES, 0)
    try:
        for _, wire in iter_headers(memoryview(data)):
            fill(wire, columns, columns.rows, "ms", size_max_bytes=SIZE_MAX_BYTES)
    except (CorruptBatchError, BatchTooLargeError):
        return False
    finally:
        for array in columns.to_arrow_arrays().values():
            array.validate(full=True)
    return True


@pytest.mark.parametrize("codec", CODEC_NAMES)
@settings(max_examples=examples(60), deadline=None)
@given(records=records_of, base_offset=st.integers(0, 2**62))
def test_what_goes_in_comes_out(codec: str, records: list[PlainRecord], base_offset: int) -> None:
    data = encode_batch(records, codec=codec, base_offset=base_offset)
    header = parse_header(data)
    assert header.size == len(data)
    assert header.records_count == len(records)
    assert header.max_timestamp == max((record[0] for record in records), default=-1)
    found = list(Batch("t", 0, memoryview(data), start_offset=base_offset))
    assert [(record.timestamp_ms, record.key, record.value, record.headers) for record in found] == [
        (timestamp_ms, key, value, headers or []) for timestamp_ms, key, value, headers in records
    ]
    assert [record.offset for record in found] == list(range(base_offset, base_offset + len(records)))


@settings(max_examples=examples(60), deadline=None)
@given(records=records_of, start=st.integers(0, 25), end=st.none() | st.integers(0, 25))
def test_columns_agree_with_records(records: list[PlainRecord], start: int, end: int | None) -> None:
    data = memoryview(encode_batch(records))
    batch = Batch("t", 0, data, start_offset=start, end_offset=end)
    arrow = batch.to_arrow(["offset", "key", "value", "headers"])
    arrow.validate(full=True)
    assert [
        (row["offset"], row["key"], row["value"], [(header["key"], header["value"]) for header in row["headers"] or ()])
        for row in arrow.to_pylist()
    ] == [(record.offset, record.key, record.value, record.headers) for record in batch]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_batch_cut_at_any_byte_is_left_out(codec: str) -> None:
    data = encode_batch(SAMPLE, codec=codec)
    for cut in range(len(data)):
        assert read_all(data[:cut], check_crcs=True) == 0
    assert read_all(data, check_crcs=True) == len(SAMPLE)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_body_cut_at_any_byte_is_refused_even_with_a_matching_checksum(codec: str) -> None:
    data = encode_batch(SAMPLE, codec=codec)
    refused = 0
    for cut in range(HEADER_SIZE, len(data)):
        part = bytearray(data[:cut])
        struct.pack_into(">i", part, 8, cut - 12)
        stamp_crc(part)
        refused += not survives(part, check_crcs=True)
        assert not fills(part) or codec in ("gzip", "lz4", "zstd"), "all records are there, only the trailer is not"
    assert refused >= len(data) - HEADER_SIZE - 16


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_no_flipped_bit_is_read_as_if_nothing_had_happened(codec: str) -> None:
    """The checksum covers all but base offset, length, leader epoch, magic and itself."""
    data = encode_batch(SAMPLE, codec=codec)
    for at in range(21, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        assert not survives(damaged, check_crcs=True), f"byte {at}"


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_do_no_harm_without_checksums(codec: str, seed: int) -> None:
    rng = random.Random(f"{codec} {seed}")
    data = encode_batch(SAMPLE, codec=codec)
    outcomes = set()
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        outcomes.add(survives(damaged, check_crcs=False))
        outcomes.add(fills(damaged))
    assert False in outcomes


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=st.binary(max_size=200), codec_id=st.integers(0, 7), count=st.integers(0, 2**31 - 1) | st.integers(0, 20))
def test_any_body_gives_records_or_a_refusal(body: bytes, codec_id: int, count: int) -> None:
    data = bytearray(encode_batch([])) + body
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">hi", data, 21, codec_id, max(count - 1, 0))
    struct.pack_into(">i", data, 57, count)
    stamp_crc(data)
    assert survives(data, check_crcs=True) == fills(data)


@settings(max_examples=examples(300), deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_give_batches_or_a_refusal(data: bytes) -> None:
    assert survives(data, check_crcs=False) in (True, False)
