"""JSON with JSON schemas to Arrow: types, random documents against the standard library's json, and damaged records."""

from __future__ import annotations

import base64
import datetime
import json
import random
import struct
import warnings
from typing import Any

import pyarrow as pa
import pytest

from kafkaraw.errors import DeserializationError, SerializationError, UsageError
from kafkaraw.schemas.arrow.decode import ColumnDecoder, decode_arrow
from kafkaraw.schemas.arrow.encode import ColumnEncoder, encode_arrow
from kafkaraw.schemas.arrow.plans import Texts
from kafkaraw.schemas.errors import SchemaParseError, SubjectNotFoundError
from kafkaraw.schemas.model import (
    Metadata,
    RegisteredSchema,
    RuleSet,
    Schema,
    SchemaBundle,
    SchemaReference,
    SchemaType,
)

SEEDS = range(80)


class Schemas:
    """Returns JSON schemas by number, from 1."""

    def __init__(self, *schemas: Any, references: dict[str, Any] | None = None) -> None:
        self.references = {name: json.dumps(each) for name, each in (references or {}).items()}
        named = tuple(SchemaReference(name, name, 1) for name in self.references)
        self.schemas = [
            each if isinstance(each, Schema) else Schema(json.dumps(each), SchemaType.JSON, named) for each in schemas
        ]

    def schema_by_id(self, number: int) -> RegisteredSchema:
        return RegisteredSchema("t-value", number, number, None, self.schemas[number - 1])

    def version(self, subject: str, version: int | str) -> RegisteredSchema:
        if not self.schemas:
            raise SubjectNotFoundError(f"Subject {subject!r} not found", status=404, error_code=40401)
        return self.schema_by_id(len(self.schemas))

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        self.schemas.append(schema)
        return self.schema_by_id(len(self.schemas))

    lookup = register

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        raise AssertionError(guid)

    def bundle(self, schema: Schema) -> SchemaBundle:
        found = {
            each.name: SchemaBundle(Schema(self.references[each.name], SchemaType.JSON)) for each in schema.references
        }
        return SchemaBundle(schema, found)


def framed(document: Any, number: int = 1) -> bytes:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return b"\0" + struct.pack(">I", number) + text


def batch_of(*values: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def type_of(schema: Any, **given: Any) -> pa.DataType:
    return ColumnDecoder(Schemas(schema), "json", json.dumps(schema), **given).arrow_type


def decoded(schema: Any, *documents: Any, **given: Any) -> list[Any]:
    found = decode_arrow(batch_of(*map(framed, documents)), Schemas(schema), value="json", on_error="raise", **given)
    found.validate(full=True)
    return found.column("value").to_pylist()


def reasons(schema: Any, *values: bytes | None, **given: Any) -> list[str | None]:
    found = decode_arrow(batch_of(*values), Schemas(schema), value="json", **given)
    found.validate(full=True)
    return found.column("value_error").to_pylist()


INTEGER, STRING, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}
CONNECT = "org.apache.kafka.connect.data."


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (INTEGER, "int64"),
        ({"type": "number"}, "double"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": "boolean"}, "bool"),
        (STRING, "string"),
        ({"type": "string", "format": "date-time"}, "string"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": "a"}, "string"),
        ({"type": "integer", "enum": [1, 2]}, "int64"),
        ({"enum": [1, "a"]}, "string"),
        ({"type": ["string", "integer"]}, "string"),
        ({"type": "array", "items": INTEGER}, "list<element: int64 not null>"),
        ({"type": "array", "items": {"type": ["null", "integer"]}}, "list<element: int64>"),
        ({"type": "array"}, "list<element: string>"),
        ({"type": "array", "prefixItems": [INTEGER], "items": INTEGER}, "list<element: string>"),
        ({"type": "array", "items": [INTEGER, STRING]}, "list<element: string>"),
        ({"type": "object", "additionalProperties": INTEGER}, "map<string, int64>"),
        ({"type": "object"}, "string"),
        ({"type": "object", "properties": {"a": INTEGER}}, "struct<a: int64>"),
        ({"type": "object", "properties": {"a": INTEGER}, "required": ["a"]}, "struct<a: int64 not null>"),
        ({"properties": {"a": {"oneOf": [NULL, INTEGER]}}, "required": ["a"]}, "struct<a: int64>"),
        ({"properties": {"a": {"anyOf": [INTEGER, NULL]}}, "required": ["a"]}, "struct<a: int64>"),
        ({"properties": {"a": {"oneOf": [STRING, INTEGER]}}}, "struct<a: string>"),
        ({"properties": {"a": {"allOf": [INTEGER]}}, "required": ["a"]}, "struct<a: int64 not null>"),
        ({"properties": {"a": {"type": "array", "items": {"$ref": "#"}}}}, "struct<a: list<element: string>>"),
        ({"$defs": {"x": INTEGER}, "properties": {"a": {"$ref": "#/$defs/x"}}}, "struct<a: int64>"),
        ({**INTEGER, "connect.type": "int16"}, "int32"),
        ({**INTEGER, "connect.type": "int32", "title": f"{CONNECT}Date"}, "date32[day]"),
        ({**INTEGER, "connect.type": "int64", "title": f"{CONNECT}Timestamp"}, "timestamp[us, tz=UTC]"),
        ({**STRING, "connect.type": "bytes"}, "binary"),
        (True, "string"),
    ],
)
def test_the_type_of_a_column_follows_from_the_schema(schema: Any, expected: str) -> None:
    assert str(type_of(schema)) == expected


def test_a_recursive_schema_has_as_many_levels_as_are_set_and_json_text_below() -> None:
    schema = {"properties": {"n": INTEGER, "next": {"$ref": "#"}}, "required": ["n"]}
    assert str(type_of(schema, recursion_max=1)) == (
        "struct<n: int64 not null, next: struct<n: int64 not null, next: string>>"
    )
    document = {"n": 1, "next": {"n": 2, "next": {"n": 3}}}
    assert decoded(schema, document) == [{"n": 1, "next": '{"n":2,"next":{"n":3}}'}]
    assert decoded(schema, document, recursive_field_max_depth=1) == [{"n": 1, "next": {"n": 2, "next": '{"n":3}'}}]


def test_connects_types_are_read_as_its_converter_writes_them() -> None:
    properties = {
        "day": {**INTEGER, "connect.type": "int32", "title": f"{CONNECT}Date"},
        "at": {**INTEGER, "connect.type": "int64", "title": f"{CONNECT}Timestamp"},
        "raw": {**STRING, "connect.type": "bytes"},
        "small": {**INTEGER, "connect.type": "int8"},
    }
    schema = {"type": "object", "properties": properties}
    document = {"day": 1, "at": 1_500, "raw": base64.b64encode(b"\0\xff").decode(), "small": 5.0}
    (row,) = decoded(schema, document)
    at = datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, datetime.UTC)
    assert row == {"day": datetime.date(1970, 1, 2), "at": at, "raw": b"\0\xff", "small": 5}
    assert reasons(schema, *(framed(each) for each in ({"at": 2**62}, {"raw": "%"}, {"small": 2**31}))) == [
        f"field at: it is {2**62}, the column has milliseconds since 1970, an integer that fits in microseconds",
        'field raw: it is "%", the column has a string in base64',
        f"field small: it is {2**31}, the column has an integer of 32 bits",
    ]


class Random:
    """Random schemas, and documents with what they are in columns."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def schema(self, depth: int) -> Any:
        r = self.random
        kinds = ["integer", "number", "boolean", "string", "any", "enum"]
        kind = r.choice(kinds + ["object", "array", "map"] * 2 if depth else kinds)
        made: Any
        match kind:
            case "object":
                names = [f"f{at}" for at in range(r.randint(1, 5))]
                made = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
                made["required"] = [name for name in names if r.random() < 0.5]
            case "array":
                made = {"type": "array", "items": self.schema(depth - 1)}
            case "map":
                made = {"type": "object", "additionalProperties": self.schema(depth - 1)}
            case "any":
                return {}
            case "enum":
                made = {"type": "string", "enum": ["a", "b"]}
            case _:
                made = {"type": kind}
        if "enum" in made or r.random() < 0.7:
            return made
        return r.choice([{"oneOf": [NULL, made]}, {"anyOf": [made, NULL]}, {**made, "type": ["null", made["type"]]}])

    def value(self, schema: Any) -> tuple[Any, Any]:
        """Return a value and what it is in a column."""
        r = self.random
        for word in ("oneOf", "anyOf"):
            if word in schema:
                if r.random() < 0.3:
                    return None, None
                return self.value(next(each for each in schema[word] if each != NULL))
        names = schema.get("type")
        if isinstance(names, list) and r.random() < 0.3:
            return None, None
        match names[1] if isinstance(names, list) else names:
            case "object" if "properties" in schema:
                pairs = {
                    name: self.value(each)
                    for name, each in schema["properties"].items()
                    if name in schema["required"] or r.random() < 0.6
                }
                absent = dict.fromkeys(schema["properties"])
                unknown = {"unknown": [1]} if r.random() < 0.2 else {}
                return {name: one for name, (one, _) in pairs.items()} | unknown, absent | {
                    name: other for name, (_, other) in pairs.items()
                }
            case "object":
                pairs = {self.text(): self.value(schema["additionalProperties"]) for _ in range(r.randint(0, 3))}
                return {name: one for name, (one, _) in pairs.items()}, [(n, other) for n, (_, other) in pairs.items()]
            case "array":
                items = [self.value(schema["items"]) for _ in range(r.randint(0, 3))]
                return [one for one, _ in items], [other for _, other in items]
            case "integer":
                whole = r.choice([0, -1, 2**63 - 1, -(2**63), r.randint(-(10**6), 10**6)])
                return (float(whole), whole) if abs(whole) < 2**50 and r.random() < 0.2 else (whole, whole)
            case "number":
                number = r.choice([0, 1.5, -2.25e300, 7])
                return number, float(number)
            case "boolean":
                return (chosen := r.random() < 0.5), chosen
            case "string":
                text = r.choice(schema["enum"]) if "enum" in schema else self.text()
                return text, text
        anything = r.choice([None, 1, "ß", [1, {"a": None}], {"b": [True]}])
        text = None if anything is None else json.dumps(anything, separators=(",", ":"), ensure_ascii=False)
        return anything, text

    def text(self) -> str:
        return "".join(self.random.choices('abß漢😀"\\\n', k=self.random.choice([0, 1, 12])))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("validate", [True, False])
def test_columns_have_the_values_of_random_documents(seed: int, validate: bool) -> None:
    made = Random(seed)
    schema = made.schema(3)
    pairs = [made.value(schema) for _ in range(30)]
    assert decoded(schema, *(one for one, _ in pairs), validate=validate) == [other for _, other in pairs]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("validate", [True, False])
def test_damaged_records_have_a_reason_and_the_others_stay(seed: int, validate: bool) -> None:
    made = Random(seed + 1000)
    schema = {"type": "object", "properties": {"f": made.schema(3), "n": INTEGER}, "required": ["n"]}
    schema["properties"]["g"] = made.schema(2)
    pairs = [({"n": at, "f": made.value(schema["properties"]["f"])[0]}, at) for at in range(40)]
    values = []
    for document, at in pairs:
        if "f" in document and document["f"] is None:
            del document["f"]
        raw = framed(document)
        if at % 5 == 3:
            cut = made.random.randint(5, len(raw) - 1)
            raw = made.random.choice(
                [raw[:cut], raw + b"x", framed({**document, "n": "x"}), framed({**document, "n": None})]
            )
        values.append(raw)
    found = decode_arrow(batch_of(*values), Schemas(schema), value="json", validate=validate)
    found.validate(full=True)
    whole = decode_arrow(batch_of(*(framed(each) for each, _ in pairs)), Schemas(schema), value="json")
    for at, (row, good) in enumerate(zip(found.to_pylist(), whole.to_pylist(), strict=True)):
        if at % 5 == 3:
            assert row["value"] is None and row["value_error"]
        else:
            assert row == good and row["value_error"] is None and row["value"]["n"] == at


SIMPLE = {"type": "object", "properties": {"n": INTEGER, "s": STRING}, "required": ["n"]}


def test_reasons_name_the_field_and_the_value() -> None:
    values = [framed(b"{"), framed({"n": "x"}), framed({"s": "x"}), None, b"{}", framed({"n": 1})]
    assert reasons(SIMPLE, *values) == [
        "it is no JSON: unexpected end of data: line 1 column 2 (char 1)",
        'the schema that it was written with refuses it: n: "x" is not of type "integer"',
        'the schema that it was written with refuses it: the object: "n" is a required property',
        None,
        "it is not framed: 2 bytes that begin with 7b 7d; framed ones begin with 00 and the four bytes of a schema id, "
        "or with 01 and the sixteen of a GUID, or have either in a header",
        None,
    ]
    assert reasons(SIMPLE, *values[1:3], framed({"n": 2**64 - 1}), framed([1]), validate=False) == [
        'field n: it is "x", the column has an integer of 64 bits',
        "field n: it is missing or null, and the schema of the columns requires it",
        f"field n: it is {2**64 - 1}, the column has an integer of 64 bits",
        "it is [1], the column has an object",
    ]
    with pytest.raises(DeserializationError, match=r"row 1: the schema that it was written with refuses it"):
        decode_arrow(batch_of(framed({"n": 1}), values[1]), Schemas(SIMPLE), value="json", on_error="raise")


def test_a_reason_in_a_nested_list_belongs_to_its_row() -> None:
    schema = {"type": "array", "items": {"type": "array", "items": {"type": "object", "additionalProperties": INTEGER}}}
    values = [framed(each) for each in ([], [[], [{"a": 1}]], [[{}, {"b": 2, "c": "x"}]], [[{"d": 4}]])]
    assert reasons(schema, *values, validate=False) == [
        None,
        None,
        'field [][]{}: it is "x", the column has an integer of 64 bits',
        None,
    ]


def test_each_record_is_validated_with_the_schema_that_it_was_written_with() -> None:
    closed = {**SIMPLE, "additionalProperties": False}
    newer = {"type": "object", "properties": {"n": INTEGER, "more": {"type": "integer", "minimum": 5}}}
    source = Schemas(closed, newer)
    batch = batch_of(framed({"n": 1, "s": "a"}), framed({"n": 2, "more": 7}, 2), framed({"n": 3, "more": 1}, 2))
    more = batch_of(framed({"more": 9}, 2), framed({"n": 4, "more": 7}))
    batch = pa.Table.from_batches([batch, more]).combine_chunks().to_batches()[0]
    found = decode_arrow(batch, source, value="json", reader_schema=json.dumps(closed)).to_pylist()
    assert [row["value"] for row in found] == [{"n": 1, "s": "a"}, {"n": 2, "s": None}, None, None, None]
    assert "minimum" in found[2]["value_error"]
    assert "field n: it is missing" in found[3]["value_error"]
    assert "Additional properties" in found[4]["value_error"]


def test_more_documents_than_are_read_at_once_stay_in_order() -> None:
    values = [framed({"n": at}) for at in range(3000)]
    values[1500] = framed({"n": 0.5})
    found = decode_arrow(batch_of(*values), Schemas(SIMPLE), value="json")
    found.validate(full=True)
    expected = [None if at == 1500 else {"n": at, "s": None} for at in range(3000)]
    assert found.column("value").to_pylist() == expected
    assert [at for at, each in enumerate(found.column("value_error").to_pylist()) if each] == [1500]
    empty = decode_arrow(batch_of(), Schemas(SIMPLE), value="json", reader_schema=json.dumps(SIMPLE))
    assert empty.num_rows == 0 and empty.schema.field("value").type == type_of(SIMPLE)


def test_references_are_those_of_the_registry() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "part.json"}, "b": {"$ref": "part.json#/definitions/x"}}}
    source = Schemas(schema, references={"part.json": {**SIMPLE, "definitions": {"x": STRING}}})
    found = decode_arrow(batch_of(framed({"a": {"n": 1}, "b": "t"})), source, value="json", on_error="raise")
    assert found.column("value").to_pylist() == [{"a": {"n": 1, "s": None}, "b": "t"}]
    elsewhere = Schemas({"properties": {"a": {"$ref": "http://h.example/x"}}})
    (reason,) = (
        decode_arrow(batch_of(framed({})), elsewhere, value="json", reader_schema=json.dumps(SIMPLE))
        .column("value_error")
        .to_pylist()
    )
    assert "URLs are not fetched" in reason


def test_schemas_with_rules_or_of_another_language_make_records_bad() -> None:
    rules = RuleSet((), ({"name": "encrypt", "type": "ENCRYPT"},), ())
    ruled = Schema(json.dumps(SIMPLE), SchemaType.JSON, (), Metadata({}, {}, ()), rules)
    avro = Schema('"string"', SchemaType.AVRO)
    batch = batch_of(framed({"n": 1}), framed(b"\2a", 2))
    for validate in (True, False):
        first, second = (
            decode_arrow(batch, Schemas(ruled, avro), value="json", reader_schema=json.dumps(SIMPLE), validate=validate)
            .column("value_error")
            .to_pylist()
        )
        assert "has rules" in first and "the schema is AVRO, and the column is decoded as JSON" in second


def test_deep_documents_and_schemas_whose_columns_explode_are_bounded() -> None:
    deep = b'{"n":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    (reason,) = reasons({"properties": {"x": {}}}, framed(deep))
    assert reason is not None and reason.startswith("it is no JSON")
    less = b'{"x":' + b"[" * 500 + b"]" * 500 + b"}"
    for validate in (True, False):
        (reason,) = reasons({"properties": {"x": {}}}, framed(less), validate=validate)
        assert reason is not None
    assert reason.endswith("the column has JSON as text, in UTF-8 and nested at most 254 deep")
    levels = {f"l{at}": {"properties": {n: {"$ref": f"#/$defs/l{at + 1}"} for n in "abcd"}} for at in range(30)}
    exploding = {"$defs": {**levels, "l30": INTEGER}, "properties": {"a": {"$ref": "#/$defs/l0"}}}
    with pytest.raises(UsageError, match="more than 10,000 columns"):
        type_of(exploding)
    circle = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    with pytest.raises(SchemaParseError, match=r"a \$ref refers to itself"):
        type_of(circle)


# -- encoding


def encoder(schema: Any) -> ColumnEncoder:
    return ColumnEncoder("json", 1, Texts(SchemaType.JSON, json.dumps(schema)))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_columns_are_written_as_documents_that_come_back(seed: int) -> None:
    made = Random(seed + 2000)
    schema = made.schema(3)
    batch = batch_of(*(framed(made.value(schema)[0]) for _ in range(20)), None)
    columns = decode_arrow(batch, Schemas(schema), value="json", on_error="raise").column("value")
    written = encoder(schema).encode(columns)
    again = decode_arrow(batch_of(*written.to_pylist()), Schemas(schema), value="json", on_error="raise")
    assert again.column("value").equals(columns)
    assert encoder(schema).encode(columns.slice(5, 7)).to_pylist() == written.to_pylist()[5:12]


@pytest.mark.parametrize("seed", range(20))
def test_confluents_deserializer_reads_and_validates_what_columns_become(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer
        from confluent_kafka.serialization import MessageField, SerializationContext
    made = Random(seed + 3000)
    schema = {"type": "object", "title": "T", "properties": {"f": made.schema(3)}, "required": ["f"]}
    columns = decode_arrow(
        batch_of(*(framed(made.value(schema)[0]) for _ in range(10))), Schemas(schema), value="json", on_error="raise"
    ).column("value")
    written = encoder(schema).encode(columns).to_pylist()
    read, context = JSONDeserializer(json.dumps(schema)), SerializationContext("t", MessageField.VALUE)
    assert decoded(schema, *(read(each, context) for each in written)) == columns.to_pylist()


def test_a_pattern_that_cannot_be_compiled_makes_records_bad() -> None:
    (reason,) = reasons({"properties": {"a": {"type": "string", "pattern": "(["}}}, framed({"a": "x"}))
    assert reason == 'schema 1: documents cannot be validated with the schema: "([" is not a "regex"'


def test_documents_have_no_member_for_null_in_a_property_that_is_not_required() -> None:
    schema = {
        "type": "object",
        "properties": {"n": INTEGER, "s": STRING, "r": {"oneOf": [NULL, STRING]}, "any": {}},
        "required": ["n", "r"],
    }
    rows = pa.array([{"n": 1, "s": None, "r": None, "any": '{"x": [1.0]}'}, None, {"n": 2, "s": "a", "r": "b"}])
    assert encoder(schema).encode(rows).to_pylist() == [
        b'\0\0\0\0\1{"n":1,"r":null,"any":{"x":[1.0]}}',
        None,
        b'\0\0\0\0\1{"n":2,"s":"a","r":"b"}',
    ]


@pytest.mark.parametrize(
    ("schema", "rows", "message"),
    [
        (SIMPLE, [{"n": 1}, {"n": None}], r"value of row 1: n: null is not of type"),
        ({"properties": {"x": {"type": "number"}}}, [{"x": float("nan")}], "row 0: field x: JSON has no number nan"),
        ({"properties": {"x": {}}}, [{"x": "1"}, {"x": "{"}], "row 1: field x: .* must be JSON text"),
        ({"properties": {"x": {"enum": ["a"]}}}, [{"x": "a"}, {"x": "b"}], "row 1: x: "),
        ({"type": "array", "items": {}}, [["1"], [], ["2", "}"]], r"row 2: field \[\]: "),
    ],
)
def test_a_value_that_does_not_fit_names_row_and_field(schema: Any, rows: list[Any], message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        encoder(schema).encode(pa.array(rows))


def test_items_of_a_null_list_are_not_written() -> None:
    ends, items = pa.array([0, 1, 2, 3], pa.int32()), pa.array(["1", "{", "3"])
    rows = pa.ListArray.from_arrays(ends, items, mask=pa.array([False, True, False]))
    written = encoder({"type": "array", "items": {}}).encode(rows).to_pylist()
    assert written == [b"\0\0\0\0\1[1]", None, b"\0\0\0\0\1[3]"]


def test_a_key_that_occurs_twice_is_refused() -> None:
    pairs = pa.array([[("a", 1)], [("b", 1), ("b", 2)]], pa.map_(pa.string(), pa.int64()))
    with pytest.raises(SerializationError, match="row 1: a key of the map occurs twice"):
        encoder({"type": "object", "additionalProperties": INTEGER}).encode(pairs)


def test_without_a_schema_it_is_derived_from_the_column() -> None:
    point = pa.struct([pa.field("x", pa.float64(), nullable=False)])
    fields = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("i", pa.int32()),
        pa.field("day", pa.date32()),
        pa.field("raw", pa.binary()),
        pa.field("tags", pa.list_(pa.field("element", pa.string()))),
        pa.field("m", pa.map_(pa.string(), pa.field("value", point, nullable=False))),
        pa.field("ok", pa.bool_()),
    ]
    day = datetime.date(2026, 11, 23)
    row = {"id": 1, "i": 2, "day": day, "raw": b"\0", "tags": ["a", None], "m": [("k", {"x": 1.5})], "ok": True}
    rows = pa.array([row, {"id": 2}], pa.struct(fields))
    source = Schemas()
    batch = pa.record_batch({"value": rows})
    found = decode_arrow(encode_arrow(batch, source, topic="t", value="json"), source, value="json", on_error="raise")
    assert found.schema.field("value").type == rows.type
    assert found.column("value").to_pylist() == rows.to_pylist()
    with pytest.raises(UsageError, match=r"field at: no JSON schema is derived for timestamp"):
        encode_arrow(
            pa.record_batch({"value": pa.array([{"at": datetime.datetime(2026, 1, 1)}])}),
            Schemas(),
            topic="t",
            value="json",
        )
