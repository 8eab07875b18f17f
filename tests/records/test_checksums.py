"""Checksums of rows: the same from both implementations, whatever the order of rows and the layout of buffers."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.client.sending.arrow_rows import rows_of
from kafkaraw.errors import UsageError
from kafkaraw.records import BytesColumn, NumbersColumn, RowColumns, Rows
from kafkaraw.records._fallback.rows import Rows as PlainRows
from tests.examples import examples

texts = st.none() | st.binary(max_size=100)
headers = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=9), "value": texts}), max_size=3)
rows = st.fixed_dictionaries(
    {
        "key": texts,
        "value": texts,
        "topic": st.sampled_from(["a", "b", "a-topic-with-a-name-of-more-than-32-bytes"]),
        "timestamp": st.none() | st.integers(0, 2**53),
        "partition": st.none() | st.integers(0, 2**31 - 1),
        "headers": headers,
    }
)
SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "timestamp": pa.int64(),
        "partition": pa.int32(),
        "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    }
)


def table_of(given_rows: Sequence[dict[str, object]], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(list(given_rows), schema)


def checksum(data: pa.Table | pa.RecordBatch, topic: str | None = None) -> int:
    """By both implementations; they have to agree."""
    columns = list(rows_of(data, topic))
    chosen = sum(Rows(each).checksum() for each in columns) % 2**64
    assert chosen == sum(PlainRows(each).checksum() for each in columns) % 2**64
    return chosen


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(rows, max_size=8), st.randoms(use_true_random=False), st.integers(0, 8))
def test_order_and_batches_of_rows_do_not_matter(given_rows, rng, cut):
    expected = checksum(table_of(given_rows))
    shuffled = list(given_rows)
    rng.shuffle(shuffled)
    table = table_of(shuffled)
    assert checksum(table) == expected
    parts = checksum(table.slice(0, cut)) + checksum(table.slice(cut))
    assert parts % 2**64 == expected


@settings(max_examples=examples(60), deadline=None)
@given(rows, rows)
def test_rows_that_differ_have_other_checksums(one, other):
    def plain(row):
        return row | {"headers": row["headers"] or None}  # no headers, or a list without any: the record is the same

    assert (checksum(table_of([one])) == checksum(table_of([other]))) == (plain(one) == plain(other))


@settings(max_examples=examples(60), deadline=None)
@given(rows)
def test_types_that_hold_the_same_bytes_have_the_same_checksum(row):
    row = row | {"value": (row["value"] or b"").hex().encode()}
    expected = checksum(table_of([row]))
    large = SCHEMA.set(0, pa.field("key", pa.large_binary())).set(1, pa.field("value", pa.large_string()))
    assert checksum(table_of([row | {"value": row["value"].decode()}], large)) == expected


def test_a_topic_for_all_rows_counts_as_the_column_does():
    table = table_of([{"value": b"v", "topic": "a"}])
    assert checksum(table) == checksum(table.drop_columns(["topic"]), "a")
    assert checksum(table) != checksum(table.drop_columns(["topic"]), "b")


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 1000])
def test_every_byte_counts(size):
    data = bytes(range(256)) * 4
    value = data[:size]
    found = {checksum(pa.table({"value": [value[:at] + b"\xff\x01" + value[at + 1 :]]}), "t") for at in range(size + 1)}
    assert len(found | {checksum(pa.table({"value": [value]}), "t")}) == size + 2


def test_the_number_never_changes():
    table = table_of(
        [
            {"key": b"k", "value": b"value of more than 32 bytes, in lanes", "topic": "t", "timestamp": 7},
            {"topic": "t", "partition": 3, "headers": [{"key": "h", "value": None}, {"key": "", "value": b"1"}]},
        ]
    )
    assert f"{checksum(table):016x}" == "b86f538ab33a8483"


def test_two_rows_that_are_alike_do_not_cancel_out():
    row = {"value": b"v", "topic": "t"}
    assert checksum(table_of([row, row])) not in (0, checksum(table_of([row])))


@pytest.mark.parametrize(
    "columns",
    [
        RowColumns(2, ("t",), value=BytesColumn(0, None, memoryview(bytes(8)), False, memoryview(b""))),
        RowColumns(1, ("t",), topic=NumbersColumn(0, None, memoryview((1).to_bytes(8, "little")))),
        RowColumns(1, ("t",), topic=NumbersColumn(0, memoryview(b"\0"), memoryview(bytes(8)))),
        RowColumns(2, ("t",), timestamp=NumbersColumn(0, None, memoryview(bytes(8)))),
    ],
)
def test_buffers_that_contradict_each_other_are_refused(columns):
    for implementation in (Rows, PlainRows):
        with pytest.raises(UsageError, match="contradict each other"):
            implementation(columns).checksum()
