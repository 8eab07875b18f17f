"""Kafka's columns as Arrow batches that Spark takes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from kafkaraw.errors import ConfigError
from kafkaraw.ranges.rows import BatchAssembler, decoded_columns
from kafkaraw.records import Columns, encode_batch, fill
from kafkaraw.spark.arrow_schemas import arrow_schema
from kafkaraw.spark.reading.arrow import check_selection, schema_text
from tests.spark.spark_types import struct


def test_the_schema_is_that_of_sparks_own_connector():
    assert schema_text(include_headers=False) == (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    assert schema_text(include_headers=True).endswith(", headers array<struct<key:string,value:binary>>")


def test_decoded_batches_have_exactly_the_schema_that_spark_expects():
    schema = arrow_schema(struct(schema_text(include_headers=True)))
    wire = memoryview(
        encode_batch([(1_500, b"k", b"v", [("h", b"1"), ("h", None)]), (1_501, None, None, [])], base_offset=7)
    )
    columns = Columns(decoded_columns(schema))
    rows = fill(wire, columns, 0, "us")
    batch = BatchAssembler(schema).assemble(columns.to_arrow_arrays(rows), [("t", 3, rows)])
    assert batch.schema.equals(schema)
    rows = batch.to_pylist()
    assert [str(row.pop("timestamp")) for row in rows] == [
        "1970-01-01 00:00:01.500000+00:00",
        "1970-01-01 00:00:01.501000+00:00",
    ]
    shared = {"topic": "t", "partition": 3, "timestampType": 0}
    headers = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert rows == [
        {"key": b"k", "value": b"v", "offset": 7, "headers": headers} | shared,
        {"key": None, "value": None, "offset": 8, "headers": None} | shared,
    ]


def test_a_selection_decodes_only_its_columns_and_keeps_their_order():
    schema = arrow_schema(struct("partition int not null, value binary"))
    assert decoded_columns(schema) == {"value"}
    batch = BatchAssembler(schema).assemble({"value": pa.array([b"a", b"b"])}, [("t", 3, 2)])
    assert batch.schema.equals(schema)
    assert batch.to_pylist() == [{"partition": 3, "value": b"a"}, {"partition": 3, "value": b"b"}]


def test_constant_columns_are_built_once_and_shared():
    schema = arrow_schema(struct("topic string"))
    assembler = BatchAssembler(schema)
    first, second = assembler.assemble({}, [("t", 0, 10)]), assembler.assemble({}, [("t", 0, 5)])
    assert first.column(0).buffers()[2].address == second.column(0).buffers()[2].address
    assert assembler.assemble({}, [("t", 0, 100_000)]).column(0)[99_999].as_py() == "t"


def test_rows_of_several_partitions_have_their_topics_and_partitions():
    schema = arrow_schema(struct("topic string, partition int"))
    batch = BatchAssembler(schema).assemble({}, [("t", 3, 2), ("t", 4, 1), ("u", 4, 1)])
    assert batch.to_pydict() == {"topic": ["t", "t", "t", "u"], "partition": [3, 3, 4, 4]}


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("value string", "the column value is binary, not string; convert it after load"),
        ("id bigint", "there is no column 'id'; choose from key, value, topic"),
        (
            "headers array<string>",
            "headers is array<struct<key:string,value:binary>> or map<string,binary>, not array<string>",
        ),
        ("value binary not null", "the column value is null in some records: leave out NOT NULL"),
    ],
)
def test_a_selection_of_unknown_columns_is_refused(ddl, message):
    with pytest.raises(ConfigError) as error:
        check_selection(struct(ddl))
    assert message in str(error.value)


def test_an_empty_selection_is_refused():
    with pytest.raises(ConfigError, match="chooses no column"):
        check_selection(StructType())


@pytest.mark.parametrize("form", ["array<struct<key:string,value:binary>>", "map<string,binary>"])
def test_a_selection_may_take_any_of_the_columns(form):
    check_selection(struct(f"headers {form}, timestampType int not null"))


HEADERS = st.none() | st.lists(
    st.tuples(st.sampled_from(["a", "b", "é"]), st.none() | st.binary(max_size=3)), min_size=1, max_size=4
)


@given(rows=st.lists(HEADERS, max_size=6), skipped=st.integers(0, 2), left=st.integers(0, 2))
def test_as_a_map_the_last_header_of_a_name_counts(rows, skipped, left):
    """Also of a part of an array, which begins and ends somewhere in its buffers."""
    array = arrow_schema(struct("headers array<struct<key:string,value:binary>>")).field(0).type
    schema = arrow_schema(struct("headers map<string,binary>"))
    pairs = [None if row is None else [{"key": name, "value": value} for name, value in row] for row in rows]
    whole = pa.array([[{"key": "x", "value": b"1"}]] * skipped + pairs + [None] * left, array)
    part = whole.slice(skipped, len(rows))
    batch = BatchAssembler(schema).assemble({"headers": part}, [("t", 0, len(rows))])
    batch.validate(full=True)
    found = batch.column(0).to_pylist()
    assert [None if row is None else dict(row) for row in found] == [None if row is None else dict(row) for row in rows]
    assert [len(row or ()) for row in found] == [len(dict(row or ())) for row in rows]
