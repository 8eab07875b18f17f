"""Avro's JSON encoding, over random schemas and values: nothing is lost on the way to text and back."""

from __future__ import annotations

import io
import json
import math

import fastavro
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kafkaraw.schemas.avro_json import AvroJson

PRIMITIVES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(),
    "bytes": st.binary(max_size=8),
}


@st.composite
def schemas_and_values(draw: st.DrawFn) -> tuple[object, object]:
    """A schema, and a value in the form that fastavro writes."""
    counter = iter(range(10_000))

    def make(depth: int, *, in_union: bool = False) -> tuple[object, st.SearchStrategy[object]]:
        kinds = [*PRIMITIVES, "enum", "fixed", "timestamp"]
        if depth:
            kinds += ["record", "array", "map"] + ([] if in_union else ["union"])
        kind = draw(st.sampled_from(kinds))
        name = f"ns.N{next(counter)}"
        named = (lambda values: values.map(lambda value: (name, value))) if in_union else (lambda values: values)
        if kind in PRIMITIVES:
            return kind, PRIMITIVES[kind]
        if kind == "timestamp":
            return {"type": "long", "logicalType": "timestamp-millis"}, PRIMITIVES["long"]
        if kind == "enum":
            return {"type": "enum", "name": name, "symbols": ["A", "B"]}, named(st.sampled_from("AB"))
        if kind == "fixed":
            return {"type": "fixed", "name": name, "size": 3}, named(st.binary(min_size=3, max_size=3))
        if kind == "array":
            items, values = make(depth - 1)
            return {"type": "array", "items": items}, st.lists(values, max_size=3)
        if kind == "map":
            inner, values = make(depth - 1)
            return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=3), values, max_size=3)
        if kind == "record":
            fields = [make(depth - 1) for _ in range(draw(st.integers(0, 3)))]
            schema = {
                "type": "record",
                "name": name,
                "fields": [{"name": f"f{number}", "type": field} for number, (field, _) in enumerate(fields)],
            }
            values = st.fixed_dictionaries({f"f{number}": value for number, (_, value) in enumerate(fields)})
            return schema, named(values)
        branches = {}
        for schema, values in (make(depth - 1, in_union=True) for _ in range(3)):
            key = schema if isinstance(schema, str) else schema.get("name", schema["type"])  # type: ignore[union-attr]
            branches.setdefault(key, (schema, values))
        return [schema for schema, _ in branches.values()], st.one_of([values for _, values in branches.values()])

    schema, values = make(3)
    return schema, draw(values)


def without_logical_types(schema: object) -> object:
    return json.loads(json.dumps(schema).replace('"logicalType"', '"unused"'))


@given(schemas_and_values())
def test_avro_to_json_and_back_gives_the_same_bytes(case: tuple[object, object]) -> None:
    schema, value = case
    out = io.BytesIO()
    try:
        fastavro.schemaless_writer(out, fastavro.parse_schema(without_logical_types(schema)), value)
    except ValueError:  # fastavro finds no branch for a list of named branches
        assume(False)
    form = AvroJson(fastavro.parse_schema(schema))
    assert form.payload(form.text(out.getvalue())) == out.getvalue()


RECORD = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "next", "type": ["null", "Order"], "default": None},
        {"name": "rate", "type": "double", "default": 0},
    ],
}


def order() -> AvroJson:
    return AvroJson(fastavro.parse_schema(RECORD))


def test_values_of_unions_have_their_branch_and_may_be_given_without_it() -> None:
    form = order()
    payload = form.payload(b'{"id": 1, "note": "x", "next": {"id": 2}, "rate": "NaN"}')
    shown = json.loads(form.text(payload))
    assert shown["note"] == {"string": "x"}
    assert shown["next"]["shop.Order"]["id"] == 2
    assert shown["rate"] == "NaN"
    assert form.payload(json.dumps(shown).encode()) == payload
    assert form.payload(b'{"id": 1, "next": {"Order": {"id": 2}}, "rate": 1}') == form.payload(
        b'{"id": 1, "next": {"shop.Order": {"id": 2}}, "rate": 1.0}'
    )


def test_json_that_does_not_fit_names_the_field() -> None:
    form = order()
    for text, wanted in [
        (b'{"id": "x"}', "id: must be long: a number in its range, not 'x'"),
        (b'{"id": 9223372036854775808}', "id: must be long"),
        (b"{}", "id: missing, and the field has no default"),
        (b'{"id": 1, "nte": 1}', "the record: shop.Order has no field 'nte'"),
        (b'{"id": 1, "note": 5}', "note: fits no branch of the union"),
        (b'{"id": 1, "next": {"id": true}}', "next.id: must be long"),
        (b"[", "Expecting value"),
        (b"[" * 100_000, "nested too deep"),
    ]:
        with pytest.raises(ValueError) as raised:
            form.payload(text)
        assert wanted in str(raised.value), text


def test_avro_that_does_not_fit_is_an_error() -> None:
    form = order()
    good = form.payload(b'{"id": 1}')
    for payload in (b"", good[:-1], good + b"x", b"\xff" * 30):
        with pytest.raises(ValueError):
            form.text(payload)


def test_numbers_that_json_does_not_have_are_text() -> None:
    form = AvroJson(fastavro.parse_schema("double"))
    for value, text in [(math.inf, b'"Infinity"'), (-math.inf, b'"-Infinity"'), (math.nan, b'"NaN"')]:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, "double", value)
        assert form.text(out.getvalue()) == text
        assert form.payload(text) == out.getvalue()


def test_a_value_that_is_nested_deep_or_has_endless_items_is_an_error() -> None:
    nested = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    form = AvroJson(fastavro.parse_schema(nested))
    assert json.loads(form.text(b"\2\0"))["next"] == {"L": {"next": None}}
    for payload in (b"\2" * 1_000_000 + b"\0", b"\2" * 5_000 + b"\0"):
        with pytest.raises(ValueError, match="nested"):
            form.text(payload)
    with pytest.raises(ValueError):
        AvroJson(fastavro.parse_schema({"type": "array", "items": "null"})).text(b"\xfe\xff\xff\xff\x0f\0")
