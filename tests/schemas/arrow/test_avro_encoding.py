"""Arrow to Avro: what fastavro reads, what decoding returns, and both implementations against each other."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kafkaraw.errors import SerializationError, UsageError
from kafkaraw.schemas.arrow import _implementation, plain_encoding
from kafkaraw.schemas.arrow import encode as encode_module
from kafkaraw.schemas.arrow.avro_schemas import avro_schema_of
from kafkaraw.schemas.arrow.decode import decode_arrow
from kafkaraw.schemas.arrow.encode import encode_arrow
from kafkaraw.schemas.arrow.encode_program import EncodeFault, EncodeOp, Presence
from kafkaraw.schemas.model import Schema
from tests.schemas.arrow.random_avro import Maker, varint
from tests.schemas.arrow.stub_registry import StubRegistry
from tests.schemas.arrow.test_avro_columns import comparable, framed, same

SEEDS = range(120)
MILLISECONDS = {"type": "long", "logicalType": "timestamp-millis"}
IMPLEMENTATIONS = {
    _implementation.encoding.__name__.rpartition(".")[2]: _implementation.encoding,
    "plain_encoding": plain_encoding,
}


@pytest.fixture(params=sorted(IMPLEMENTATIONS), autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_module, "encoding", IMPLEMENTATIONS[request.param])


def encoded(values: list[Any], schema: Any, kind: pa.DataType | None = None) -> list[bytes | None]:
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["value"])
    return encode_arrow(batch, StubRegistry(), topic="t", value_schema=json.dumps(schema)).column("value").to_pylist()


def test_random_columns_are_read_by_fastavro_and_come_back() -> None:
    for seed in SEEDS:
        maker = Maker(seed)
        schema = maker.record()
        registry = StubRegistry(schema)
        values = [framed(1, maker.encode(schema)) for _ in range(12)]
        typed = decode_arrow(pa.RecordBatch.from_pydict({"value": [None, *values]}), registry)
        assert typed.column("value_error").null_count == 13, f"seed {seed}"
        for batch in (typed, typed.slice(3, 7)):
            again = encode_arrow(batch, registry, topic="t", value_schema=json.dumps(schema)).column("value")
            for ours, record in zip(batch.column("value").to_pylist(), again.to_pylist(), strict=True):
                assert (record is None) == (ours is None), f"seed {seed}"
                if record is not None:
                    theirs = fastavro.schemaless_reader(io.BytesIO(record[5:]), fastavro.parse_schema(schema))
                    assert record[:5] == framed(1, b""), f"seed {seed}"
                    assert same(comparable(ours), comparable(theirs)), f"seed {seed}: {ours} {theirs}"
            back = decode_arrow(pa.RecordBatch.from_arrays([again], ["value"]), registry).column("value")
            assert back.equals(batch.column("value")) or str(back) == str(batch.column("value")), f"seed {seed}"


def test_bytes_equal_those_of_fastavro() -> None:
    """Where the encoding is unique: blocks are one block in both."""
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "n", "type": ["null", "int"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        ],
    }
    from decimal import Decimal

    rows = [
        {"id": i * 7**i, "n": None if i % 2 else -i, "tags": ["a"] * i, "d": Decimal(i * 1000 - 3) / 100}
        for i in range(9)
    ]
    for row, record in zip(rows, encoded(rows, schema), strict=True):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
        assert record == framed(1, out.getvalue())


@pytest.mark.parametrize(
    ("schema", "values", "message"),
    [
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
            [{"a": 1}, {"a": None}],
            "value of row 1: field a: it is null, and the schema has no null there",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            ["A", "C"],
            "value of row 1: it is none of the enum's symbols A, B",
        ),
        (
            {"type": "fixed", "name": "F", "size": 2},
            [b"ab", b"abc"],
            "value of row 1: it has 3 bytes, and the schema's fixed has 2",
        ),
        (["int", "string"], [{"member0": 1, "member1": "x"}], "value of row 0: 2 members of a union are not null"),
        (["int", "string"], [{"member0": None, "member1": None}], "value of row 0: 0 members of a union are not null"),
    ],
)
def test_a_value_that_does_not_fit_names_row_and_field(schema: Any, values: list[Any], message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        encoded(values, schema)


def test_microseconds_become_milliseconds_rounded_down() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "t", "type": MILLISECONDS}]}
    values = [-(2**63), -(2**63) + 1, -1_001, -1_000, -1, 0, 999, 2**63 - 1]
    column = pa.StructArray.from_arrays([pa.array(values).cast(pa.timestamp("us", "UTC"))], names=["t"])
    batch = pa.record_batch({"value": column})
    records = encode_arrow(batch, StubRegistry(), topic="t", value_schema=json.dumps(schema)).column("value")
    assert records.to_pylist() == [framed(1, varint(value // 1_000)) for value in values]


@pytest.mark.parametrize("kind", ["array", "map"])
def test_a_field_inside_of_lists_that_the_schema_lacks_is_refused(kind: str) -> None:
    """Arrow's casts would leave it out."""
    item = {"type": "record", "name": "I", "fields": [{"name": "x", "type": ["null", "long"]}]}
    items = {"type": kind, "items" if kind == "array" else "values": item}
    schema = {"type": "record", "name": "R", "fields": [{"name": "l", "type": items}]}
    inner = pa.struct([("x", pa.int64()), ("z", pa.int64())])
    several = pa.list_(inner) if kind == "array" else pa.map_(pa.string(), inner)
    row = {"x": 1, "z": 5}
    with pytest.raises(UsageError, match=r"the schema has no field l(\[\]|\{\})\.z"):
        encoded([{"l": [row] if kind == "array" else [("k", row)]}], schema, pa.struct([("l", several)]))


def test_numbers_and_texts_do_not_become_booleans() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "boolean"}]}
    with pytest.raises(UsageError, match="a is int64, and the schema's is a boolean"):
        encoded([{"a": 5}], schema, pa.struct([("a", pa.int64())]))


def test_derived_records_have_names_of_their_own() -> None:
    """Where the paths of fields, joined by underscores, would be the same."""
    row = {"a": {"b": {"x": 1}}, "a_b": {"y": 2}, "l": [{"z": 1}], "l_item": {"q": 3}}
    registry = StubRegistry()
    batch = encode_arrow(pa.RecordBatch.from_pylist([{"value": row}]), registry, topic="t")
    assert decode_arrow(batch, registry).column("value").to_pylist() == [row]
    fastavro.parse_schema(json.loads(registry.schemas[0]))


def test_a_column_of_another_type_is_cast_or_refused() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
    }
    assert encoded([{"a": 1}], schema, pa.struct([("a", pa.int8())])) == [framed(1, b"\2\0")]
    with pytest.raises(UsageError, match="the schema has no field c"):
        encoded([{"a": 1, "c": 2}], schema)
    with pytest.raises(UsageError, match="the field a is missing"):
        encoded([{"b": "x"}], schema)
    with pytest.raises(UsageError, match="cannot become"):
        encoded([["x"]], {"type": "long"})


def test_a_value_that_cannot_be_cast_names_row_and_field() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    with pytest.raises(SerializationError, match=r"value of row 2: field a: .*2147483648"):
        encoded([{"a": 1}, {"a": None}, {"a": 2**31}, {"a": 2**32}], schema)
    with pytest.raises(SerializationError, match=r"value of row 1: .*'x'"):
        encoded(["5", "x"], {"type": "long"})


def test_without_a_schema_it_is_the_latest_one_or_derived_from_the_column() -> None:
    batch = pa.RecordBatch.from_pylist([{"value": {"a": 1, "t": ["x"], "m": None}}])
    registry = StubRegistry()
    records = encode_arrow(batch, registry, topic="t")
    assert json.loads(registry.schemas[0])["fields"][0] == {"name": "a", "type": ["null", "long"], "default": None}
    assert decode_arrow(records, registry).column("value").to_pylist() == [{"a": 1, "t": ["x"], "m": None}]
    encode_arrow(batch, registry, topic="t")
    assert len(registry.schemas) == 1


def test_key_and_value_are_encoded_with_a_registered_schema() -> None:
    registry = StubRegistry('"string"', '"long"')
    batch = pa.RecordBatch.from_pydict({"key": ["k", None], "value": [1, 2]})
    found = encode_arrow(
        batch, registry, topic="t", key="avro", key_schema=registry.schema_by_id(1), value_schema=Schema('"long"')
    )
    assert found.to_pydict() == {"key": [framed(1, b"\2k"), None], "value": [framed(2, b"\2"), framed(2, b"\4")]}


def test_fields_of_the_same_name_are_refused() -> None:
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    for column in (twice, pa.StructArray.from_arrays([twice], names=["line"])):
        batch = pa.RecordBatch.from_arrays([column], ["value"])
        with pytest.raises(UsageError, match="more than one field 'id'"):
            encode_arrow(batch, StubRegistry(), topic="t")
        nested = schema if column is twice else {**schema, "name": "T", "fields": [{"name": "line", "type": schema}]}
        with pytest.raises(UsageError, match=r"more than one field (line\.)?id"):
            encode_arrow(batch, StubRegistry(), topic="t", value_schema=json.dumps(nested))


def test_a_type_that_avro_lacks_is_refused() -> None:
    with pytest.raises(UsageError, match=r"field a: Avro has no type for duration\[us\]"):
        avro_schema_of(pa.struct([("a", pa.duration("us"))]), "R")


def test_the_constants_of_the_compiled_module_are_those_of_python() -> None:
    compiled = IMPLEMENTATIONS.get("_encoding")
    if compiled is None:
        pytest.skip("the compiled module is not there")
    assert (max(EncodeOp), max(EncodeFault), max(Presence)) == compiled.LAST
