"""Messages of magic 0 and 1 are read like batches: those of Java, those of kafka-python, and damaged ones."""

from __future__ import annotations

import functools
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.records import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NONE,
    Batch,
    OldFormatError,
    codec_by_name,
    encode_batch,
    iter_headers,
    legacy,
    modern,
)
from kafkaraw.records.header import BatchHeader
from kafkaraw.records.legacy import old_header, verify_message, with_right_lz4_checksum, xxh32

VECTORS = Path(__file__).parent / "vectors"
CODECS = ("none", "gzip", "snappy", "lz4")
TIME = 1_700_000_000_000
KINDS = {
    "magic0": TIMESTAMP_NONE,
    "magic1": TIMESTAMP_CREATE_TIME,
    "magic1-stamped": TIMESTAMP_LOG_APPEND_TIME,
}
# What MakeLegacyVectors.java writes: offset, timestamp, key, value. Five offsets are missing, as after compaction.
WRITTEN = [
    (1000, TIME, b"key", b"value"),
    (1001, TIME + 100, None, b"no key"),
    (1002, TIME - 900, b"tombstone", None),
    (1008, TIME, b"", b""),
    *[(1009 + number, TIME + number, b"%d" % number, b"value " * number) for number in range(20)],
]


def vector(kind: str, codec: str) -> bytes:
    return bytes.fromhex((VECTORS / f"{kind}-{codec}.hex").read_text())


def plain(batch: Batch) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(record.offset, record.timestamp_ms, record.key, record.value) for record in batch]


def read(data: bytes, start_offset: int = 0, **settings: Any) -> Batch:
    return Batch("t", 0, memoryview(data), start_offset=start_offset, **settings)


def message(
    offset: int, value: bytes | None, *, magic: int = 1, attributes: int = 0, time: int = TIME, key: bytes | None = None
) -> bytes:
    """One message, right in every byte."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic else b"")
    for data in (key, value):
        body += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(offset: int, inner: bytes, codec: str = "gzip", *, magic: int = 1, **fields: Any) -> bytes:
    packed = bytes(codec_by_name(codec).compress(memoryview(inner), None))
    return message(offset, packed, magic=magic, attributes=codec_by_name(codec).id | fields.pop("flags", 0), **fields)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS)
def test_message_sets_of_java_are_read(kind: str, codec: str) -> None:
    batch = read(vector(kind, codec), 1000)
    times = {"magic0": lambda time: -1, "magic1": lambda time: time, "magic1-stamped": lambda time: TIME + 5000}[kind]
    assert plain(batch) == [(offset, times(time), key, value) for offset, time, key, value in WRITTEN]
    assert {record.timestamp_type for record in batch} == {KINDS[kind]}
    assert all(record.headers == [] for record in batch)
    assert batch.next_offset == 1029
    assert batch.records_count >= len(WRITTEN)
    assert batch.values() == [value for *_, value in WRITTEN]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS)
def test_they_become_the_same_columns(kind: str, codec: str) -> None:
    pytest.importorskip("pyarrow")
    batch = read(vector(kind, codec), 1002)
    table = batch.to_arrow(["offset", "timestamp_type", "key", "value"])
    assert table.column(0).to_pylist() == [record.offset for record in batch] == [1002, *range(1008, 1029)]
    assert set(table.column(1).to_pylist()) == {KINDS[kind]}
    assert table.column(2).to_pylist() == [record.key for record in batch]
    assert table.column(3).to_pylist() == [record.value for record in batch]


def test_the_lz4_frames_of_magic_0_have_the_checksum_that_java_never_got_right() -> None:
    data = vector("magic0", "lz4")
    frame = data[data.index(b"\x04\x22\x4d\x18") :]
    lz4 = codec_by_name("lz4")
    with pytest.raises(CorruptBatchError):
        lz4.decompress(frame, 1 << 20)
    assert lz4.decompress(with_right_lz4_checksum(frame), 1 << 20)
    right = bytes(lz4.compress(memoryview(b"data"), None))
    assert with_right_lz4_checksum(right) == right
    for cut in range(8):
        assert with_right_lz4_checksum(frame[:cut])[: cut - 1] == frame[:cut][: cut - 1]


def test_xxh32_gives_the_hashes_of_its_specification() -> None:
    assert xxh32(b"") == 0x02CC5D05
    assert xxh32(b"a") == 0x550D7456
    assert xxh32(b"abc") == 0x32D153FF
    assert xxh32(b"message digest") == 0x7C948494


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_kafka_python_are_read(magic: int, codec: str) -> None:
    legacy = pytest.importorskip("kafka.record.legacy_records", reason="kafka-python is missing")
    builder = legacy.LegacyRecordBatchBuilder(magic, codec_by_name(codec).id, 1 << 20)
    records = [(at, TIME + at, b"k%d" % at if at % 3 else None, b"v" * at if at % 5 else None) for at in range(50)]
    if codec == "lz4" and magic == 0:
        pytest.importorskip("xxhash", reason="kafka-python needs it for the wrong checksum")
    for offset, time, key, value in records:
        assert builder.append(offset, time, key, value, []) is not None
    data = bytes(builder.build())
    if codec != "none" and magic == 1:
        data = (49).to_bytes(8) + data[8:]  # as a broker sets it: the offset of the last
    assert plain(read(data)) == [(at, time if magic else -1, key, value) for at, time, key, value in records]


def test_formats_may_follow_one_another_and_a_last_message_may_be_cut_short() -> None:
    data = message(3, b"zero", magic=0) + message(4, b"one") + encode_batch([(TIME, None, b"two", [])], base_offset=5)
    data += wrapper(7, message(0, b"three") + message(1, b"four"))
    for cut in range(len(message(8, b"cut"))):
        batch = read(data + message(8, b"cut")[:cut], 3)
        assert [(record.offset, record.value) for record in batch] == [
            (3, b"zero"), (4, b"one"), (5, b"two"), (6, b"three"), (7, b"four")
        ]  # fmt: skip
        assert batch.next_offset == 8


def test_today_s_batches_are_left_alone() -> None:
    data = memoryview(encode_batch([(TIME, None, b"v", [])]) * 2)
    assert modern(data) is data
    assert modern(memoryview(b"")) == b""


def test_who_wants_batches_only_is_told_the_format() -> None:
    for magic in (0, 1):
        with pytest.raises(OldFormatError, match=f"format {magic}"):
            list(iter_headers(memoryview(message(0, b"v" * 50, magic=magic))))


def test_stamped_messages_with_different_times_keep_them() -> None:
    stamped = 0x08
    data = b"".join(message(at, b"v", attributes=stamped, time=TIME + at // 2) for at in range(6))
    assert [record.timestamp_ms - TIME for record in read(data)] == [0, 0, 1, 1, 2, 2]


def test_a_stamped_wrapper_gives_its_time_to_all_of_its_messages() -> None:
    inner = message(0, b"a", time=5) + message(1, b"b", time=6)
    batch = read(wrapper(1, inner, flags=0x08, time=TIME))
    assert [(record.timestamp_ms, record.timestamp_type) for record in batch] == [(TIME, TIMESTAMP_LOG_APPEND_TIME)] * 2


def test_a_wrapper_at_offset_0_was_given_no_offsets() -> None:
    assert [record.offset for record in read(wrapper(0, message(0, b"a") + message(1, b"b")))] == [0, 1]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(message(2, b"bad")[:-1] + b"!", id="checksum"),
        pytest.param(message(2, b"bad" * 9, attributes=1), id="not gzip"),
        pytest.param(wrapper(2, b""), id="nothing in the wrapper"),
        pytest.param(message(2, None, attributes=1), id="null in the wrapper"),
        pytest.param(wrapper(2, message(2, b"x") + message(1, b"y")), id="inner offsets that go back"),
        pytest.param(
            wrapper(0, message(0, b"x") + message(1 << 31, b"y")), id="inner offsets too far apart for a batch"
        ),
        pytest.param(wrapper(2, message(7, b"x")), id="inner offset above the wrapper's"),
        pytest.param(wrapper(2, wrapper(0, message(0, b"x"))), id="wrapper in a wrapper"),
        pytest.param(wrapper(2, message(0, b"x")[:-1] + b"!"), id="inner checksum"),
        pytest.param(wrapper(2, message(0, b"x"), "zstd"), id="zstd, which came later"),
        pytest.param(wrapper(2, encode_batch([(TIME, None, b"x", [])])), id="a batch of today in a wrapper"),
        pytest.param(wrapper(2, b"\0" * 30), id="zeros in the wrapper"),
    ],
)
def test_what_is_before_damage_can_be_read_and_the_damage_is_told_when_it_is_reached(bad: bytes) -> None:
    batch = read(message(0, b"a") + message(1, b"b") + bad + message(3, b"c"))
    records = iter(batch)
    assert [next(records).value, next(records).value] == [b"a", b"b"]
    with pytest.raises(CorruptBatchError):
        next(records)
    assert batch.next_offset == 4
    assert [record.value for record in batch.starting_at(3)] == [b"c"], "reading can go on behind it"


def test_a_wrapper_that_is_taken_in_small_parts_is_decompressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = b"".join(message(offset, b"v%d" % offset) for offset in range(100))
    rest, decompressed, found = read(wrapper(99, inner)), 0, list[int]()
    original = legacy.unwrapped

    def counted(wire: memoryview) -> list[tuple[BatchHeader, memoryview]]:
        nonlocal decompressed
        decompressed += 1
        return original(wire)

    monkeypatch.setattr(legacy, "unwrapped", counted)
    while rest.records_count:
        part = rest.first(10)
        rest = rest.starting_at(part.next_offset)
        found += [record.offset for record in part]
    assert (found, decompressed) == (list(range(100)), 1)


@functools.cache
def bomb() -> bytes:
    """A small wrapper of more than may be decompressed."""
    made = wrapper(1, bytes(129 << 20))
    assert len(made) < 1 << 20
    return made


def test_a_wrapper_that_grows_beyond_the_limit_is_told_when_it_is_reached() -> None:
    with pytest.raises((BatchTooLargeError, CorruptBatchError)):
        list(read(bomb()))


@pytest.mark.parametrize("length", [-1, 0, 13])
def test_a_length_that_cannot_be_is_damage(length: int) -> None:
    data = message(0, b"a" * 99)
    with pytest.raises(CorruptBatchError, match="bytes or more"):
        read(data[:8] + struct.pack(">i", length) + data[12:])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codec", CODECS)
def test_a_log_can_be_walked_without_looking_into_its_messages(kind: str, codec: str) -> None:
    data = vector(kind, codec)
    at, next_offset = 0, 1000
    while at < len(data):
        header = old_header(data[at : at + 61], next_offset)
        verify_message(memoryview(data)[at : at + header.size])
        with pytest.raises(CorruptBatchError, match=f"offset {header.last_offset} is damaged"):
            verify_message(memoryview(data[at : at + header.size - 1] + b"?"))
        at, next_offset = at + header.size, header.next_offset
    assert next_offset == 1029


def test_too_few_bytes_are_no_header() -> None:
    whole = message(5, b"value")
    for cut in range(26):
        with pytest.raises(CorruptBatchError):
            old_header(whole[:cut], 0)
    assert old_header(whole[:26], 0).last_offset == 5


Field = st.none() | st.binary(max_size=20)


@given(
    magic=st.sampled_from((0, 1)),
    codec=st.sampled_from(CODECS),
    fields=st.lists(st.tuples(st.integers(0, 2**40), Field, Field), min_size=1, max_size=30),
    gaps=st.data(),
)
def test_whatever_was_written_is_read_again(
    magic: int, codec: str, fields: list[tuple[int, bytes | None, bytes | None]], gaps: st.DataObject
) -> None:
    offset = gaps.draw(st.integers(0, 2**50))
    rows = []
    for time, key, value in fields:
        rows.append((offset, time if magic else -1, key, value))
        offset += gaps.draw(st.integers(1, 3))
    base = rows[0][0] if magic and codec != "none" else 0
    inner = [message(at - base, value, magic=magic, key=key, time=time) for at, time, key, value in rows]
    data = b"".join(inner)
    if codec != "none":
        if rows[-1][0] == 0:
            return
        data = wrapper(rows[-1][0], data, codec, magic=magic)
    batch = read(data, rows[0][0])
    assert plain(batch) == rows
    assert batch.next_offset == rows[-1][0] + 1


@given(st.binary(max_size=120), st.integers(0, 10**6), st.sampled_from(CODECS))
def test_damaged_bytes_are_records_or_corrupt(noise: bytes, at: int, codec: str) -> None:
    data = bytearray(vector("magic1", codec))
    at %= len(data)
    data[at : at + len(noise)] = noise
    try:
        for record in read(bytes(data), check_crcs=False):
            assert record.offset >= 0
    except (CorruptBatchError, BatchTooLargeError):
        pass
