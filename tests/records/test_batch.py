"""What a record batch keeps, and what it refuses."""

from __future__ import annotations

import struct

import pytest

from kafkaraw.errors import BatchTooLargeError, ConfigError, CorruptBatchError, UsageError
from kafkaraw.records import (
    HEADER_SIZE,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Batch,
    ControlType,
    Record,
    TopicPartition,
    encode_batch,
    encode_control_batch,
    iter_headers,
    parse_header,
    patch_header,
    verify_crc,
)
from kafkaraw.records.batch import PlainRecord
from kafkaraw.records.header import stamp_crc
from kafkaraw.records.varint import encode_varint

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

RECORDS: list[PlainRecord] = [
    (1_700_000_000_000, b"key", b"value", [("name", b"header value"), ("null", None), ("", b""), ("name", b"again")]),
    (1_700_000_000_007, None, b"null key", None),
    (1_699_999_999_990, b"null value", None, None),
    (1_700_000_000_000, b"", b"", []),
    (1_700_000_000_000, b"k" * 300, b"v" * 70_000, [("größe", "größe".encode())]),
]


def read(data: bytes, start_offset: int = 0, **settings: int | bool) -> list[Record]:
    return list(Batch("topic", 3, memoryview(data), start_offset=start_offset, **settings))


def as_records(plain: list[PlainRecord], base_offset: int = 0) -> list[Record]:
    return [
        Record("topic", 3, base_offset + index, timestamp_ms, TIMESTAMP_CREATE_TIME, key, value, list(headers or ()))
        for index, (timestamp_ms, key, value, headers) in enumerate(plain)
    ]


def handmade(body: bytes, count: int, *, last_offset_delta: int | None = None, attributes: int = 0) -> bytes:
    """A batch with a correct header and checksum around any body at all."""
    batch = bytearray(encode_batch([]))
    batch += body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, attributes)
    struct.pack_into(">i", batch, 23, count - 1 if last_offset_delta is None else last_offset_delta)
    struct.pack_into(">i", batch, 57, count)
    stamp_crc(batch)
    return bytes(batch)


def handmade_record(*fields: int | bytes, length: int | None = None) -> bytes:
    """Attributes byte, then varints for numbers and bytes as they are, behind a length."""
    rest = b"\x00" + b"".join(encode_varint(field) if isinstance(field, int) else field for field in fields)
    return encode_varint(len(rest) if length is None else length) + rest


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_every_codec_gives_back_what_was_put_in(codec: str) -> None:
    assert read(encode_batch(RECORDS, codec=codec)) == as_records(RECORDS)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_values_are_those_of_the_records(codec: str) -> None:
    batch = Batch("topic", 3, memoryview(encode_batch(RECORDS, codec=codec)), start_offset=0)
    assert batch.values() == [value for _, _, value, _ in RECORDS]


def test_the_header_says_what_was_asked_for() -> None:
    data = encode_batch(
        RECORDS,
        codec="zstd",
        base_offset=2**40,
        producer_id=77,
        producer_epoch=5,
        base_sequence=2**31 - 1,
        transactional=True,
        partition_leader_epoch=9,
    )
    header = parse_header(data)
    assert header.base_offset == 2**40
    assert header.last_offset == 2**40 + 4
    assert header.next_offset == 2**40 + 5
    assert header.size == len(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 5, 2**31 - 1)
    assert (header.codec_id, header.is_transactional, header.is_control) == (4, True, False)
    assert header.partition_leader_epoch == 9
    assert header.records_count == len(RECORDS)
    assert header.base_timestamp == 1_700_000_000_000
    assert header.max_timestamp == 1_700_000_000_007
    assert header.timestamp_type == TIMESTAMP_CREATE_TIME
    assert not header.has_delete_horizon


def test_a_batch_of_more_records_than_the_varint_table_has_is_kept() -> None:
    records: list[PlainRecord] = [(index, None, b"%d" % index, None) for index in range(20_000)]
    assert read(encode_batch(records, base_offset=5)) == as_records(records, 5)


def test_batches_follow_one_another() -> None:
    data = encode_batch(RECORDS, base_offset=10) + encode_batch(RECORDS, base_offset=40, codec="lz4")
    batch = Batch("topic", 3, memoryview(data), start_offset=10)
    assert [record.offset for record in batch] == [10, 11, 12, 13, 14, 40, 41, 42, 43, 44]
    assert batch.next_offset == 45
    assert batch.records_count == 10
    assert batch.size_bytes == len(data)
    assert batch.topic_partition == TopicPartition("topic", 3)


def test_records_before_the_position_asked_for_are_left_out() -> None:
    data = encode_batch(RECORDS, base_offset=10) + encode_batch(RECORDS, base_offset=15)
    assert [record.offset for record in read(data, start_offset=12)] == list(range(12, 20))
    assert [record.offset for record in read(data, start_offset=15)] == list(range(15, 20))
    assert read(data, start_offset=20) == []


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_records_from_the_end_offset_on_are_left_out(codec: str) -> None:
    data = encode_batch(RECORDS, base_offset=10, codec=codec) + encode_batch(RECORDS, base_offset=15, codec=codec)
    for start, end in ((10, 10), (10, 12), (12, 13), (10, 15), (14, 17), (10, 20), (10, 100)):
        batch = Batch("topic", 3, memoryview(data), start_offset=start, end_offset=end)
        wanted = list(range(start, min(end, 20)))
        assert [record.offset for record in batch] == wanted
        assert len(batch.values()) == len(wanted)
        assert batch.to_arrow(["offset"]).column("offset").to_pylist() == wanted
        assert batch.next_offset == min(end, 20)
        assert batch.records_count >= len(wanted)


def test_a_batch_can_be_given_from_a_later_offset_on() -> None:
    data = encode_batch(RECORDS, base_offset=10) + encode_batch(RECORDS, base_offset=15)
    rest = Batch("topic", 3, memoryview(data), start_offset=10, end_offset=18).starting_at(14)
    assert [record.offset for record in rest] == [14, 15, 16, 17]
    assert (rest.start_offset, rest.next_offset) == (14, 18)


def test_a_batch_may_be_read_twice() -> None:
    batch = Batch("topic", 3, memoryview(encode_batch(RECORDS)), start_offset=0)
    assert list(batch) == list(batch)


@pytest.mark.parametrize("cut", [0, 1, 16, 17, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 1, -1])
def test_a_batch_cut_short_at_the_end_is_ignored(cut: int) -> None:
    whole = encode_batch(RECORDS)
    tail = encode_batch(RECORDS, base_offset=5)
    batch = Batch("topic", 3, memoryview(whole + tail[:cut]), start_offset=0)
    assert list(batch) == as_records(RECORDS)
    assert batch.next_offset == 5
    assert batch.size_bytes == len(whole)


def test_without_a_whole_batch_the_position_stays() -> None:
    batch = Batch("topic", 3, memoryview(encode_batch(RECORDS)[:-1]), start_offset=123)
    assert batch.next_offset == 123
    assert list(batch) == []


def test_with_log_append_time_every_record_has_the_time_of_the_batch() -> None:
    data = bytearray(encode_batch(RECORDS, codec="gzip"))
    patch_header(data, base_offset=100, partition_leader_epoch=4, max_timestamp=1_800_000_000_000)
    verify_crc(data)
    records = read(bytes(data))
    assert {record.timestamp_ms for record in records} == {1_800_000_000_000}
    assert {record.timestamp_type for record in records} == {TIMESTAMP_LOG_APPEND_TIME}
    assert [record.offset for record in records] == [100, 101, 102, 103, 104]
    assert parse_header(data).partition_leader_epoch == 4


def test_timestamps_as_far_apart_as_can_be_come_back() -> None:
    records: list[PlainRecord] = [(-1, None, b"", None), (2**63 - 1, None, b"", None), (0, None, b"", None)]
    assert [record.timestamp_ms for record in read(encode_batch(records))] == [-1, 2**63 - 1, 0]


def test_offset_and_leader_epoch_change_without_a_new_checksum() -> None:
    data = bytearray(encode_batch(RECORDS))
    before = parse_header(data).crc
    patch_header(data, base_offset=7, partition_leader_epoch=1)
    assert parse_header(data).crc == before
    verify_crc(data)


def test_a_batch_emptied_by_compaction_still_moves_the_position() -> None:
    data = bytearray(encode_batch([], base_offset=50))
    struct.pack_into(">i", data, 23, 9)
    stamp_crc(data)
    batch = Batch("topic", 3, memoryview(data), start_offset=50)
    assert list(batch) == []
    assert batch.values() == []
    assert batch.next_offset == 60
    assert parse_header(data).base_timestamp == -1


def test_a_compacted_batch_keeps_its_holes() -> None:
    body = handmade_record(0, 1, -1, 1, b"a", 0) + handmade_record(0, 4, -1, 1, b"b", 0)
    data = handmade(body, 2, last_offset_delta=6)
    batch = Batch("topic", 3, memoryview(data), start_offset=0)
    assert [(record.offset, record.value) for record in batch] == [(1, b"a"), (4, b"b")]
    assert batch.next_offset == 7
    assert [record.offset for record in read(data, start_offset=2)] == [4]


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_control_batches_move_the_position_and_are_never_handed_out(kind: ControlType) -> None:
    marker = encode_control_batch(
        kind, producer_id=7, producer_epoch=0, coordinator_epoch=3, timestamp_ms=5, base_offset=5
    )
    data = encode_batch(RECORDS, transactional=True) + marker
    batch = Batch("topic", 3, memoryview(data), start_offset=0)
    assert list(batch) == as_records(RECORDS)
    assert len(batch.values()) == len(RECORDS)
    assert batch.to_arrow(["offset"]).num_rows == len(RECORDS)
    assert batch.next_offset == 6
    assert batch.records_count == len(RECORDS)


def test_a_damaged_batch_is_found_by_its_checksum() -> None:
    data = bytearray(encode_batch(RECORDS))
    data[-5] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum of the batch at offset 0"):
        read(bytes(data))
    assert len(read(bytes(data), check_crcs=False)) == len(RECORDS)


def test_good_batches_before_a_damaged_one_are_handed_out() -> None:
    data = bytearray(encode_batch(RECORDS) + encode_batch(RECORDS, base_offset=5))
    data[-1] ^= 1
    records = iter(Batch("topic", 3, memoryview(data), start_offset=0))
    assert [next(records).offset for _ in RECORDS] == [0, 1, 2, 3, 4]
    with pytest.raises(CorruptBatchError, match="offset 5"):
        next(records)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_that_says_it_is_an_old_message_is_a_damaged_one(magic: int) -> None:
    data = bytearray(encode_batch(RECORDS))
    data[16] = magic
    with pytest.raises(CorruptBatchError, match="checksum of the batch at offset 0"):
        list(read(bytes(data)))
    assert list(read(bytes(data[:30]))) == [], "cut short"


def test_unknown_message_formats_are_refused() -> None:
    data = bytearray(encode_batch(RECORDS))
    data[16] = 3
    with pytest.raises(CorruptBatchError, match="magic 3"):
        read(bytes(data))


@pytest.mark.parametrize(
    ("at", "layout", "value", "message"),
    [
        (8, ">i", -1, "batch length -1"),
        (8, ">i", -(2**31), "batch length"),
        (8, ">i", 0, "batch length 0"),
        (8, ">i", HEADER_SIZE - 13, "batch length 48"),
        (0, ">q", -1, "base offset -1"),
        (0, ">q", 2**63 - 1, "last offset delta"),
        (23, ">i", -1, "last offset delta -1"),
        (57, ">i", -1, "records count -1"),
    ],
)
def test_headers_that_no_batch_can_have_are_refused(at: int, layout: str, value: int, message: str) -> None:
    data = bytearray(encode_batch(RECORDS))
    struct.pack_into(layout, data, at, value)
    with pytest.raises(CorruptBatchError, match=message):
        list(iter_headers(memoryview(data)))


def test_a_header_needs_all_its_bytes() -> None:
    with pytest.raises(CorruptBatchError, match="61 bytes, 60 are left"):
        parse_header(encode_batch([])[:60])
    with pytest.raises(CorruptBatchError, match="61 bytes, 10 are left"):
        verify_crc(bytes(10))


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_claim_of_two_billion_records_is_refused_at_once(codec: str) -> None:
    data = bytearray(encode_batch(RECORDS, codec=codec))
    struct.pack_into(">i", data, 23, 2**31 - 1)
    struct.pack_into(">i", data, 57, 2**31 - 1)
    stamp_crc(data)
    with pytest.raises(CorruptBatchError, match="cannot hold 2147483647 records"):
        read(bytes(data))


@pytest.mark.parametrize("count", [4, 6])
def test_a_wrong_number_of_records_is_refused(count: int) -> None:
    data = bytearray(encode_batch(RECORDS))
    struct.pack_into(">i", data, 57, count)
    stamp_crc(data)
    with pytest.raises(CorruptBatchError):
        read(bytes(data))


GOOD = handmade_record(0, 0, -1, 1, b"a", 0)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("the length is negative", handmade_record(0, 0, -1, 1, b"a", 0, length=-8)),
        ("the length is too small", handmade_record(0, 0, -1, 1, b"a", 0, length=6)),
        ("the length is too large", handmade_record(0, 0, -1, 1, b"a", 0, length=9)),
        ("the length overflows", encode_varint(2**40) + GOOD),
        ("the length has eleven bytes", b"\xff" * 11 + GOOD),
        ("the offset delta is negative", handmade_record(0, -1, -1, 1, b"a", 0)),
        ("the offset delta passes the last one", handmade_record(0, 1, -1, 1, b"a", 0)),
        ("the key is longer than the record", handmade_record(0, 0, 100, 1, b"a", 0)),
        ("the key length overflows", handmade_record(0, 0, 2**62, 1, b"a", 0)),
        ("the value is longer than the record", handmade_record(0, 0, -1, 100, b"a", 0)),
        ("the header count is negative", handmade_record(0, 0, -1, 1, b"a", -1)),
        ("the header count is huge", handmade_record(0, 0, -1, 1, b"a", 2**31 - 1)),
        ("a header has no name", handmade_record(0, 0, -1, 1, b"a", 1, -1, -1)),
        ("a header name is too long", handmade_record(0, 0, -1, 1, b"a", 1, 100, b"n", -1)),
        ("a header value is too long", handmade_record(0, 0, -1, 1, b"a", 1, 1, b"n", 2**31)),
        ("bytes are left behind the record", GOOD + b"\x00"),
    ],
)
def test_records_that_do_not_fit_are_refused(name: str, body: bytes) -> None:
    data = handmade(body, 1)
    with pytest.raises(CorruptBatchError, match=r"batch at offset 0|varint"):
        read(data)
    with pytest.raises(CorruptBatchError):
        Batch("topic", 3, memoryview(data), start_offset=0).to_arrow()


def test_the_handmade_record_that_they_vary_is_good() -> None:
    assert [record.value for record in read(handmade(GOOD, 1))] == [b"a"]


def test_offsets_that_do_not_increase_are_refused() -> None:
    record = handmade_record(0, 1, -1, 1, b"a", 0)
    with pytest.raises(CorruptBatchError, match="record 1 of 2"):
        read(handmade(record + record, 2, last_offset_delta=5))


def test_any_negative_length_is_null_as_in_java() -> None:
    (record,) = read(handmade(handmade_record(0, 0, -5, -2, 1, 1, b"n", -9), 1))
    assert (record.key, record.value, record.headers) == (None, None, [("n", None)])


def test_a_header_name_that_is_not_utf8_does_not_stop_the_reader() -> None:
    (record,) = read(handmade(handmade_record(0, 0, -1, 1, b"a", 1, 2, b"\xff\xfe", 1, b"v"), 1))
    assert record.headers == [("\ufffd\ufffd", b"v")]


def test_unknown_codecs_are_refused() -> None:
    with pytest.raises(CorruptBatchError, match="codec 5"):
        read(handmade(GOOD, 1, attributes=5))


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_batch_larger_than_the_limit_is_refused(codec: str) -> None:
    data = encode_batch(RECORDS, codec=codec)
    with pytest.raises(BatchTooLargeError, match="more than the 70000 bytes"):
        read(data, size_max_bytes=70_000)
    assert len(read(data, size_max_bytes=80_000)) == len(RECORDS)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ((0, None, "text", None), "value is bytes or None, not str"),
        ((0, 7, b"", None), "key is bytes or None, not int"),
        ((0, None, b"", [(b"name", b"")]), "header's name is a string, not bytes"),
        ((0, None, b"", [("name", "text")]), "header value is bytes or None, not str"),
        ((1.5, None, b"", None), "timestamp 1.5"),
        ((-2, None, b"", None), "timestamp -2"),
        ((2**63, None, b"", None), "timestamp 9223372036854775808"),
    ],
)
def test_fields_of_the_wrong_type_are_named(record: PlainRecord, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        encode_batch([record])


def test_other_buffers_are_taken_as_bytes() -> None:
    (record,) = read(encode_batch([(0, bytearray(b"key"), memoryview(b"value"), [("h", bytearray(b"x"))])]))  # type: ignore[list-item, arg-type]
    assert (record.key, record.value, record.headers) == (b"key", b"value", [("h", b"x")])


def test_unknown_compression_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="'lzma' is unknown; known are none, gzip, snappy, lz4, zstd"):
        encode_batch(RECORDS, codec="lzma")
