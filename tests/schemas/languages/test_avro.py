"""Avro schemas without Java: texts, names, references, levels and messages. tests/interop asks Java."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.schemas import CompatibilityLevel, Schema, SchemaBundle, SchemaParseError, SchemaReference
from kafkaraw.schemas.languages import check, incompatibilities, parse
from kafkaraw.schemas.languages.avro import AvroSchema, avro_incompatibilities, parse_avro
from tests.schemas.languages.random_avro import RandomAvro

LEVEL = CompatibilityLevel


def avro(schema: Any, **references: Any) -> AvroSchema:
    bundles = {name: SchemaBundle(Schema(json.dumps(one))) for name, one in references.items()}
    listed = tuple(SchemaReference(name, name, 1) for name in references)
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return parse_avro(SchemaBundle(Schema(text, references=listed), bundles))


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def test_canonical_text_keeps_order_of_attributes_and_drops_what_says_nothing() -> None:
    schema = avro(
        '{ "namespace": "a.b", "fields": [ {"default": 3, "type": {"type": "int"}, "name": "x", "order": "ascending"},'
        ' {"name": "again", "type": ["null", "a.b.R"], "pii": true} ], "name": "R", "type": "record", "doc": "d" }'
    )
    assert schema.canonical_text == (
        '{"type":"record","name":"R","namespace":"a.b","doc":"d","fields":[{"name":"x","type":"int","default":3},'
        '{"name":"again","type":["null","R"],"pii":true}]}'
    )
    assert schema.name == "a.b.R"


def test_normalized_text_sorts_unknown_attributes_and_aliases() -> None:
    one = avro({**record(), "zeta": {"b": 1, "a": 2}, "alpha": 1, "aliases": ["Z", "A"], "doc": ""})
    assert one.normalized_text == (
        '{"type":"record","name":"R","fields":[],"alpha":1,"zeta":{"a":2,"b":1},"aliases":["A","Z"]}'
    )
    assert '"zeta":{"b":1,"a":2},"alpha":1,"aliases":["Z","A"]' in one.canonical_text


def test_native_schema_reads_and_writes_with_fastavro() -> None:
    fastavro = pytest.importorskip("fastavro")
    import io

    schema = avro(
        record({"name": "to", "type": "x.City"}), City={"type": "enum", "name": "x.City", "symbols": ["A", "B"]}
    )
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema.native, {"to": "B"})
    assert buffer.getvalue() == b"\x02"
    assert '"symbols"' not in schema.canonical_text


def test_name_of_a_type_that_is_no_record_is_none() -> None:
    assert avro({"type": "enum", "name": "E", "symbols": []}).name is None


def test_message_of_a_syntax_error_has_line_and_column() -> None:
    with pytest.raises(SchemaParseError, match="line 2, column 4") as caught:
        avro('{"type":\n   oops}')
    assert (caught.value.line, caught.value.column) == (2, 4)


def test_message_of_a_wrong_type_has_its_path() -> None:
    with pytest.raises(SchemaParseError, match=r"fields\[1\]\.type\.items: the type 'Nope' is not defined"):
        avro(record({"name": "a", "type": "int"}, {"name": "b", "type": {"type": "array", "items": "Nope"}}))


def test_registered_schemas_may_have_defaults_and_names_that_new_ones_may_not() -> None:
    text = json.dumps(record({"name": "é", "type": "int", "default": "x"}))
    with pytest.raises(SchemaParseError):
        parse(SchemaBundle(Schema(text)))
    assert parse(SchemaBundle(Schema(text)), validate=False).canonical_text == text.replace(" ", "").replace(
        "\\u00e9", "é"
    )


ADDED = record({"name": "a", "type": "int"}, {"name": "b", "type": "int"})
BEFORE = record({"name": "a", "type": "int"})


def test_messages_are_those_of_a_verbose_answer() -> None:
    assert check(avro(ADDED), [avro(BEFORE)], LEVEL.BACKWARD, versions=[7]) == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path '/fields/1' in the new "
        "schema has no default value and is missing in the old schema', additionalInfo:'b'}",
        "{oldSchemaVersion: 7}",
        "{oldSchema: '" + avro(BEFORE).canonical_text + "'}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    )


def test_levels_choose_direction_and_versions() -> None:
    without, optional, required = (
        avro(BEFORE),
        avro(record(BEFORE["fields"][0], {"name": "b", "type": "int", "default": 0})),
        avro(ADDED),
    )
    fits = {
        LEVEL.NONE: True,
        LEVEL.BACKWARD: True,
        LEVEL.BACKWARD_TRANSITIVE: False,
        LEVEL.FORWARD: True,
        LEVEL.FORWARD_TRANSITIVE: True,
        LEVEL.FULL: True,
        LEVEL.FULL_TRANSITIVE: False,
    }
    assert {level: not check(required, [without, optional], level) for level in fits} == fits
    fits |= dict.fromkeys((LEVEL.BACKWARD_TRANSITIVE, LEVEL.BACKWARD), True)
    fits |= dict.fromkeys((LEVEL.FORWARD_TRANSITIVE, LEVEL.FULL_TRANSITIVE), False)
    assert {level: not check(without, [required, optional], level) for level in fits} == fits


def naive_check(new: AvroSchema, earlier: list[AvroSchema], level: CompatibilityLevel) -> list[str]:
    found: list[str] = []
    for existing in reversed(earlier if level.value.endswith("TRANSITIVE") else earlier[-1:]):
        if level.value.startswith(("FORWARD", "FULL")):
            found += [one.message("old", "new") for one in avro_incompatibilities(existing.root, new.root)]
        if level.value.startswith(("BACKWARD", "FULL")):
            found += [one.message("new", "old") for one in avro_incompatibilities(new.root, existing.root)]
        if found:
            break
    return found


@settings(max_examples=60)
@given(
    st.integers(0, 10_000),
    st.sampled_from([LEVEL.BACKWARD_TRANSITIVE, LEVEL.FORWARD_TRANSITIVE, LEVEL.FULL_TRANSITIVE]),
)
def test_shortcuts_find_the_same_as_comparisons_of_everything(seed: int, level: CompatibilityLevel) -> None:
    make = RandomAvro(seed)
    schema = make.schema()
    versions: list[AvroSchema] = []
    for _ in range(12):
        candidate = make.changed(schema)
        try:
            new = avro(candidate)
        except SchemaParseError:
            continue
        found = check(new, versions, level)
        assert [one for one in found if not one.startswith(("{old", "{validate"))] == naive_check(new, versions, level)
        if not found:
            versions.append(new)
            schema = candidate


def test_schema_reads_itself() -> None:
    for seed in range(100):
        try:
            schema = avro(RandomAvro(seed).schema())
        except SchemaParseError:
            continue
        found = incompatibilities(schema, avro(schema.canonical_text))
        assert not found or found[0].rule == "UNEXPECTED_EXCEPTION", seed
