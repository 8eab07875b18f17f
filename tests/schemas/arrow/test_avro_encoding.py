"""Arrow to Avro: what fastavro reads, what decoding returns, and both implementations against each other."""

from __future__ import annotations

import io
import json
import random
from types import ModuleType
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafkaraw.errors import ConfigError, InternalError, SerializationError, UsageError
from kafkaraw.schemas.arrow import _implementation, plain_encoding
from kafkaraw.schemas.arrow import encode as encode_module
from kafkaraw.schemas.arrow.avro_schemas import avro_schema_of
from kafkaraw.schemas.arrow.columns import Column, Kind, Type
from kafkaraw.schemas.arrow.decode import decode_arrow
from kafkaraw.schemas.arrow.encode import encode_arrow
from kafkaraw.schemas.arrow.encode_program import EncodeFault, EncodeNode, EncodeOp, EncodeProgram, Presence
from kafkaraw.schemas.arrow.program import Fault, Op
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


def with_nulls(column: pa.Array, rng: random.Random) -> pa.Array:
    """The column with nulls anywhere, above values too; or as it is."""
    if rng.random() < 0.4:
        return column
    return pc.if_else(pa.array([rng.random() < 0.3 for _ in column]), pa.scalar(None, column.type), column)


def forms_of(column: pa.Array, rng: random.Random) -> list[pa.Array]:
    """Parts and copies of a column: with offsets of their own, empty, of nulls, of structs whose fields are slices."""
    size, first = len(column), rng.randrange(len(column))
    fields = [each.with_nullable(True) for each in column.type]
    children = [with_nulls(column.field(place), rng).slice(first) for place in range(len(fields))]
    twice = pa.concat_arrays([column.slice(1), column]).slice(first, rng.randrange(9))
    taken = column.take(pa.array([rng.randrange(size) for _ in range(5)]))
    forms = [column.slice(0, 0), column.slice(size), column.slice(first), twice, taken, with_nulls(column, rng)]
    made = pa.StructArray.from_arrays(children, fields=fields) if fields else column
    return [*forms, pa.nulls(4, column.type), made, made.slice(1)]


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(1000, 4000), marks=pytest.mark.soak)])
def test_both_implementations_write_the_same_of_columns_in_any_memory(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds:
        rng, maker = random.Random(seed), Maker(seed)
        schema = maker.record()
        registry = StubRegistry(schema)
        values = [framed(1, maker.encode(schema)) for _ in range(rng.choice((1, 12, 40)))]
        column = decode_arrow(pa.RecordBatch.from_pydict({"value": [None, *values]}), registry).column("value")
        for form in forms_of(column, rng):
            batch, written = pa.RecordBatch.from_arrays([form], ["value"]), []
            for implementation in IMPLEMENTATIONS.values():
                monkeypatch.setattr(encode_module, "encoding", implementation)
                try:
                    records = encode_arrow(batch, registry, topic="t", value_schema=json.dumps(schema)).column("value")
                    written.append(records.to_pylist())
                except SerializationError as error:
                    written.append(str(error))
            assert written[0] == written[-1], f"seed {seed}"


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


@pytest.mark.parametrize("name", ["encoding", "decoding"])
def test_a_compiled_module_that_was_built_from_other_sources_is_refused(name: str) -> None:
    numbers = {
        "LAST": (max(EncodeOp), max(EncodeFault), max(Presence)),
        "NUMBERS": {
            "Kind": {each.name: each.value for each in Kind},
            "first and last": (min(Op), max(Op), min(Fault), max(Fault)),
        },
    }
    fresh, older, oldest = (ModuleType(f"_{name}") for _ in range(3))
    vars(fresh).update(numbers)
    vars(older).update(LAST=(16, 10, 2), NUMBERS={**numbers["NUMBERS"], "first and last": (0, 29, 0, 15)})
    _implementation.check(fresh, name)
    for compiled in (older, oldest):
        with pytest.raises(ConfigError, match=f"_{name} was built from other sources than these: build it again"):
            _implementation.check(compiled, name)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"op": 37}, "node 0 has the operation 37"),
        ({"op": -1}, "node 0 has the operation -1"),
        ({"source": 3}, "node 0 has the operation 7, and column 3 of 3"),
        ({"op": EncodeOp.ARRAY, "children": (2,)}, "node 0 has the child 2, and there are 2 nodes"),
        ({"op": EncodeOp.MEMBERS, "children": (0, 0)}, "node 0 has 2 members"),
        ({"op": EncodeOp.PROTOBUF_ONEOF, "branches": (0, 3)}, "node 0 reads column 3 of 3"),
    ],
)
def test_a_program_that_would_read_outside_of_its_columns_is_refused(changed: dict[str, Any], message: str) -> None:
    """The operations of a later version ended the process, where the compiled module was an older one."""
    compiled = IMPLEMENTATIONS.get("_encoding")
    if compiled is None:
        pytest.skip("the compiled module is not there")
    nodes = [EncodeNode(EncodeOp.BYTES, 2, ""), EncodeNode(EncodeOp.NULL, 0, "")]
    for name, value in changed.items():
        setattr(nodes[0], name, value)
    program = EncodeProgram(Column("", Type.NULL), nodes)
    with pytest.raises(InternalError, match=message):
        compiled.encode(program, [(None, None, None, 0, 0)] * 3, 1, b"")


def test_entries_of_a_map_may_begin_anywhere() -> None:
    schema = {"type": "map", "values": "long"}
    kind = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    fields = [pa.field("key", pa.string(), nullable=False), kind.item_field]
    entries = pa.StructArray.from_arrays([pa.array(list("abcdef")), pa.array(range(6))], fields=fields).slice(2)
    offsets = pa.array([0, 1, 3], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(kind, 2, [None, offsets], children=[entries])
    batch = pa.RecordBatch.from_arrays([column], ["value"])
    for given in (batch, batch.slice(1)):
        records = encode_arrow(given, StubRegistry(), topic="t", value_schema=json.dumps(schema)).column("value")
        assert records.to_pylist() == [framed(1, b"\2\2c\4\0"), framed(1, b"\4\2d\6\2e\x08\0")][-len(given) :]
