"""Arrow columns from record batches."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError, UsageError
from kafkaraw.records import (
    HEADER_SIZE,
    Batch,
    BatchHeader,
    Columns,
    encode_batch,
    encode_control_batch,
    fill,
    parse_header,
    patch_header,
    verify_crc,
)
from kafkaraw.records._implementation import fill_batches
from kafkaraw.records.batch import PlainRecord
from kafkaraw.records.columns import COLUMN_NAMES
from kafkaraw.records.control import ControlType
from kafkaraw.records.header import stamp_crc

RECORDS: list[PlainRecord] = [
    (1_000, b"k0", b"v0", [("a", b"1"), ("b", None)]),
    (2_000, None, b"v1", None),
    (3_000, b"", None, [("größe", b"")]),
    (-1, b"k3", b"", None),
]
HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
)


def view(records: list[PlainRecord], base_offset: int = 0, codec: str = "none") -> memoryview:
    return memoryview(bytearray(encode_batch(records, base_offset=base_offset, codec=codec)))


def rows(columns: Columns) -> list[dict[str, object]]:
    arrays = columns.to_arrow_arrays()
    for array in arrays.values():
        array.validate(full=True)
    return pa.RecordBatch.from_pydict(arrays).to_pylist()


def test_a_batch_becomes_arrow_with_the_promised_schema() -> None:
    batch = Batch("topic", 3, view(RECORDS, 10), start_offset=10).to_arrow()
    batch.validate(full=True)
    assert batch.schema == pa.schema(
        [
            ("topic", pa.dictionary(pa.int32(), pa.string())),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("timestamp_type", pa.int8()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", HEADERS),
        ]
    )
    second = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    assert batch.to_pylist()[0] == {
        "topic": "topic",
        "partition": 3,
        "offset": 10,
        "timestamp": second,
        "timestamp_type": 0,
        "key": b"k0",
        "value": b"v0",
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
    }
    assert batch.column("key").to_pylist() == [b"k0", None, b"", b"k3"]
    assert batch.column("value").to_pylist() == [b"v0", b"v1", None, b""]
    assert batch.column("headers").to_pylist()[1:] == [None, [{"key": "größe", "value": b""}], None]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [1000, 2000, 3000, -1]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_arrow_agrees_with_the_records(codec: str) -> None:
    records: list[PlainRecord] = [
        (
            number * 1000,
            None if number % 7 == 0 else b"k%d" % number,
            None if number % 5 == 0 else bytes(number % 300),
            [(f"h{number % 3}", b"x" * number)] * (number % 4) if number < 100 else None,
        )
        for number in range(500)
    ]
    data = memoryview(bytes(view(records, 0, codec)) + bytes(view(records[:9], 500)))
    batch = Batch("topic", 0, data, start_offset=123)
    arrow = batch.to_arrow()
    arrow.validate(full=True)
    assert [
        (row["offset"], row["key"], row["value"], [(h["key"], h["value"]) for h in row["headers"] or ()])
        for row in arrow.to_pylist()
    ] == [(record.offset, record.key, record.value, record.headers) for record in batch]


def test_columns_come_in_the_order_asked_for() -> None:
    batch = Batch("topic", 3, view(RECORDS), start_offset=0)
    assert batch.to_arrow(["value", "partition"]).to_pydict() == {
        "value": [b"v0", b"v1", None, b""],
        "partition": [3, 3, 3, 3],
    }
    assert batch.to_arrow(["topic"]).num_rows == 4


def test_unknown_columns_are_named() -> None:
    with pytest.raises(UsageError, match="'ofset'"):
        Batch("topic", 3, view(RECORDS), start_offset=0).to_arrow(["ofset"])
    with pytest.raises(UsageError, match="'topic'"):
        Columns(frozenset({"topic"}), 10)


def test_no_records_give_empty_columns_of_the_same_types() -> None:
    empty = Batch("topic", 3, memoryview(b""), start_offset=0).to_arrow()
    assert empty.num_rows == 0
    assert empty.schema == Batch("topic", 3, view(RECORDS), start_offset=0).to_arrow().schema


def test_many_batches_fill_the_same_columns() -> None:
    columns = Columns(COLUMN_NAMES, 8)
    count = fill(view(RECORDS), columns, 0, "us")
    count = fill(view(RECORDS, 4), columns, count, "us")
    assert count == columns.rows == 8
    arrays = columns.to_arrow_arrays(count)
    assert arrays["timestamp"].type == pa.timestamp("us", "UTC")
    assert arrays["timestamp"].cast(pa.int64()).to_pylist()[:4] == [1_000_000, 2_000_000, 3_000_000, -1000]
    assert arrays["offset"].to_pylist() == list(range(8))
    assert arrays["headers"].to_pylist()[:4] == arrays["headers"].to_pylist()[4:]


def test_only_the_columns_wanted_are_kept() -> None:
    columns = Columns(frozenset({"value"}), 0)
    fill(view(RECORDS), columns, 0, "ms")
    assert columns.data_size_bytes == 4
    assert list(columns.to_arrow_arrays()) == ["value"]


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [
        (0, None, [10, 11, 12, 13]),
        (11, None, [11, 12, 13]),
        (0, 12, [10, 11]),
        (11, 13, [11, 12]),
        (12, 12, []),
        (13, 11, []),
        (20, 30, []),
    ],
)
def test_only_the_offsets_wanted_are_kept(start: int, end: int | None, offsets: list[int]) -> None:
    columns = Columns(COLUMN_NAMES, 0)
    count = fill(view(RECORDS, 10), columns, 0, "ms", start_offset=start, end_offset=end)
    assert count == len(offsets)
    found = rows(columns)
    assert [row["offset"] for row in found] == offsets
    assert [row["value"] for row in found] == [RECORDS[offset - 10][2] for offset in offsets]
    assert [len(row["headers"] or ()) for row in found] == [len(RECORDS[offset - 10][3] or ()) for offset in offsets]  # type: ignore[arg-type]


def test_control_batches_add_no_rows() -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=5
    )
    columns = Columns(COLUMN_NAMES, 0)
    assert fill(memoryview(marker), columns, 0, "ms") == 0
    assert rows(columns) == []


def test_log_append_time_is_the_time_of_every_row() -> None:
    data = bytearray(view(RECORDS))
    patch_header(data, max_timestamp=5_000)
    columns = Columns(frozenset({"timestamp", "timestamp_type"}), 0)
    fill(memoryview(data), columns, 0, "us")
    arrays = columns.to_arrow_arrays()
    assert arrays["timestamp"].cast(pa.int64()).to_pylist() == [5_000_000] * 4
    assert arrays["timestamp_type"].to_pylist() == [1] * 4


def test_a_damaged_batch_leaves_the_rows_before_it() -> None:
    columns = Columns(COLUMN_NAMES, 0)
    fill(view(RECORDS), columns, 0, "ms")
    damaged = bytearray(view(RECORDS, 4))
    damaged[HEADER_SIZE] ^= 2
    with pytest.raises(CorruptBatchError):
        fill(memoryview(damaged), columns, 4, "ms")
    assert fill(view(RECORDS, 4), columns, 4, "ms") == 8
    assert [row["offset"] for row in rows(columns)] == list(range(8))


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("wanted", [COLUMN_NAMES, frozenset({"offset", "value"})], ids=["headers, too", "no headers"])
def test_each_batch_is_checked_once_and_none_is_kept_when_one_is_damaged(wanted: frozenset[str], codec: str) -> None:
    columns = Columns(wanted, 0)
    fill(view(RECORDS), columns, 0, "ms")
    wires = [(parse_header(wire), wire) for wire in (view(RECORDS, base, codec) for base in (4, 8, 12))]
    checked: list[int] = []

    def check(header: BatchHeader, wire: memoryview) -> None:
        checked.append(header.base_offset)
        verify_crc(wire)

    assert fill_batches(wires, columns, 4, "ms", check=check) == 16
    assert checked == [4, 8, 12]
    assert [row["offset"] for row in rows(columns)] == list(range(16))
    fill(view(RECORDS), columns, 0, "ms")
    wires[1][1][-1] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum of the batch at offset 8"):
        fill_batches(wires, columns, 4, "ms", check=check)
    assert checked == [4, 8, 12, 4, 8]
    assert [row["offset"] for row in rows(columns)] == list(range(4))


def test_a_column_that_arrow_cannot_address_is_refused_and_leaves_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaraw.records.columns.DATA_SIZE_MAX", 10)
    columns = Columns(COLUMN_NAMES, 0)
    fill(view(RECORDS), columns, 0, "ms")
    with pytest.raises(BatchTooLargeError, match="2 GiB"):
        fill(view([(0, b"key", bytes(11), None)], 4), columns, 4, "ms")
    assert [row["key"] for row in rows(columns)] == [b"k0", None, b"", b"k3"]


def test_times_that_microseconds_cannot_hold_are_refused_and_leave_no_row() -> None:
    columns = Columns(COLUMN_NAMES, 0)
    fill(view(RECORDS), columns, 0, "us")
    with pytest.raises(CorruptBatchError, match="timestamp does not fit"):
        fill(view([(2**63 - 1, None, b"", None)], 4), columns, 4, "us")
    assert [row["offset"] for row in rows(columns)] == [0, 1, 2, 3]
    assert Batch("t", 0, view([(2**63 - 1, None, b"", None)]), start_offset=0).to_arrow(["timestamp"]).num_rows == 1


def test_filling_again_from_an_earlier_row_replaces_the_rows_behind_it() -> None:
    columns = Columns(COLUMN_NAMES, 0)
    fill(view(RECORDS), columns, 0, "ms")
    fill(view(RECORDS, 4), columns, 2, "ms")
    found = rows(columns)
    assert [row["offset"] for row in found] == [0, 1, 4, 5, 6, 7]
    assert [row["value"] for row in found] == [b"v0", b"v1", b"v0", b"v1", None, b""]


def test_gaps_and_mixed_units_are_refused() -> None:
    columns = Columns(COLUMN_NAMES, 0)
    with pytest.raises(UsageError, match="from row 1"):
        fill(view(RECORDS), columns, 1, "ms")
    fill(view(RECORDS), columns, 0, "ms")
    with pytest.raises(UsageError, match="cannot go on in us"):
        fill(view(RECORDS), columns, 4, "us")


def test_handing_over_leaves_empty_columns_and_arrays_that_nothing_changes() -> None:
    columns = Columns(COLUMN_NAMES, 0)
    fill(view(RECORDS), columns, 0, "ms")
    values = columns.to_arrow_arrays(2)["value"]
    assert columns.rows == 0
    fill(view([(0, None, b"other", None)]), columns, 0, "us")
    assert values.to_pylist() == [b"v0", b"v1"]
    assert columns.to_arrow_arrays()["value"].to_pylist() == [b"other"]


def test_header_names_that_are_not_utf8_become_valid_strings() -> None:
    data = bytearray(view([(0, None, b"", [("ab", b"")])]))
    at = bytes(data).index(b"ab")
    data[at : at + 2] = b"\xff\xfe"
    stamp_crc(data)
    arrow = Batch("t", 0, memoryview(data), start_offset=0).to_arrow(["headers"])
    arrow.validate(full=True)
    assert arrow.column("headers").to_pylist() == [[{"key": "\ufffd\ufffd", "value": b""}]]


@pytest.mark.parametrize("nulls", ["none", "all", "first", "last", "every other"])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 1001])
def test_every_pattern_of_nulls_is_kept(nulls: str, count: int) -> None:
    def is_null(number: int) -> bool:
        return {
            "none": False,
            "all": True,
            "first": number == 0,
            "last": number == count - 1,
            "every other": number % 2 == 1,
        }[nulls]

    values = [None if is_null(number) else b"%d" % number for number in range(count)]
    batch = Batch("t", 0, view([(0, None, value, None) for value in values]), start_offset=0).to_arrow(["value"])
    batch.validate(full=True)
    assert batch.column("value").to_pylist() == values
    assert batch.column("value").null_count == values.count(None)
