"""JSON schemas: texts, references, drafts, and what changes between versions are compatible.

The table has cases of our own, after the rules of Confluent's registry. The tables that Confluent publishes are not
part of this repository; `KAFKARAW_CONFLUENT_TABLES` names a folder with them (see `test_published_tables`).
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.schemas import CompatibilityLevel, Schema, SchemaBundle, SchemaParseError, SchemaReference, SchemaType
from kafkaraw.schemas.languages import check, parse
from kafkaraw.schemas.languages.java_order import in_hash_order
from kafkaraw.schemas.languages.json_schema import JsonSchema, parse_json_schema
from kafkaraw.schemas.languages.json_schema.differences import differences
from kafkaraw.schemas.languages.json_schema.matching import matching_size
from kafkaraw.schemas.languages.json_schema.messages import COMPATIBLE
from tests.examples import examples

MODERN = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
TABLES = os.environ.get("KAFKARAW_CONFLUENT_TABLES")


def schema(contents: Any, **references: Any) -> JsonSchema:
    bundles = {name: SchemaBundle(Schema(json.dumps(one), SchemaType.JSON)) for name, one in references.items()}
    listed = tuple(SchemaReference(name, name, 1) for name in references)
    text = contents if isinstance(contents, str) else json.dumps(contents)
    return parse_json_schema(SchemaBundle(Schema(text, SchemaType.JSON, listed), bundles))


def rules(before: Any, after: Any) -> list[str]:
    return [f"{one.rule} {one.path}" for one in schema(after).incompatibilities(schema(before))]


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


TEXT, COUNT = {"type": "string"}, {"type": "integer"}

DRAFT_6 = {"$schema": "http://json-schema.org/draft-06/schema#"}
DRAFT_2019 = {"$schema": "https://json-schema.org/draft/2019-09/schema"}
TO_M = {"properties": {"x": {"$ref": "#/definitions/m"}}}
"""In drafts 4, 6 and 7 `#/...` may be a part of the whole text, as in Everit's library."""


def inside(kind: dict[str, Any]) -> dict[str, Any]:
    """A definition with an `$id`, which refers to its own definition."""
    own = {"$id": "sub/x", "properties": {"p": {"$ref": "#/definitions/y"}}, "definitions": {"y": kind}}
    return {"x": own}


CASES: list[tuple[Any, Any, list[str]]] = [
    ({"type": "integer"}, {"type": "number"}, []),
    ({"type": "number"}, {"type": "integer"}, ["TYPE_NARROWED #/"]),
    ({"type": "string"}, {"type": "integer"}, ["TYPE_CHANGED #/"]),
    ({"type": "string"}, {}, []),
    ({}, {"type": "string"}, ["TYPE_CHANGED #/"]),
    ({"type": "string"}, {"type": ["string", "null"]}, []),
    ({"type": ["string", "null"]}, {"type": "string"}, ["TYPE_CHANGED #/"]),
    ({"type": ["string", "null"]}, {"type": ["null"]}, ["SUM_TYPE_NARROWED #/"]),
    ({"maxLength": 5}, {"maxLength": 6}, []),
    ({"maxLength": 5}, {"maxLength": 4}, ["MAX_LENGTH_DECREASED #/maxLength"]),
    ({"minimum": 1}, {"minimum": 1.5}, ["MINIMUM_INCREASED #/minimum"]),
    ({"exclusiveMaximum": 2}, {"exclusiveMaximum": 1}, ["EXCLUSIVE_MAXIMUM_DECREASED #/exclusiveMaximum"]),
    ({"multipleOf": 0.1}, {"multipleOf": 0.3}, ["MULTIPLE_OF_EXPANDED #/multipleOf"]),
    ({"multipleOf": 10}, {"multipleOf": 5}, []),
    ({"pattern": "a"}, {"pattern": "b"}, ["PATTERN_CHANGED #/pattern"]),
    ({"enum": [1, 2]}, {"enum": [2, 1, 3]}, []),
    ({"enum": [1, 2]}, {"enum": [2]}, ["ENUM_ARRAY_NARROWED #/enum"]),
    ({"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}, []),
    ({"const": 1}, {"const": True}, ["ENUM_ARRAY_CHANGED #/const"]),
    (closed(a=TEXT), closed(a=TEXT, b=COUNT), []),
    (closed(a=TEXT, b=COUNT), closed(a=TEXT), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"]),
    (
        {"properties": {"a": TEXT}},
        {"properties": {"a": TEXT, "b": COUNT}},
        ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"],
    ),
    ({"properties": {"a": TEXT, "b": COUNT}}, {"properties": {"a": TEXT}}, []),
    (closed(a=TEXT), closed(a=TEXT) | {"required": ["a"]}, ["REQUIRED_ATTRIBUTE_ADDED #/required/a"]),
    (closed(a={**TEXT, "default": ""}), closed(a={**TEXT, "default": ""}) | {"required": ["a"]}, []),
    (
        {"additionalProperties": TEXT},
        {"additionalProperties": TEXT, "properties": {"a": COUNT}},
        [
            "TYPE_CHANGED #/properties/a",
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a",
        ],
    ),
    ({"patternProperties": {"^a": TEXT}}, {"patternProperties": {"^a": TEXT}, "properties": {"ab": TEXT}}, []),
    ({"items": TEXT}, {"items": COUNT}, ["TYPE_CHANGED #/items"]),
    ({"uniqueItems": False, "items": TEXT}, {"uniqueItems": True, "items": TEXT}, ["UNIQUE_ITEMS_ADDED #/uniqueItems"]),
    ({"items": [TEXT]}, {"items": [TEXT, COUNT]}, ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"]),
    ({"not": COUNT}, {"not": {"type": "number"}}, ["NOT_TYPE_EXTENDED #/not"]),
    ({"oneOf": [TEXT, COUNT]}, {"oneOf": [COUNT, TEXT, {"type": "null"}]}, []),
    ({"oneOf": [TEXT, COUNT]}, {"allOf": [TEXT, COUNT]}, ["COMBINED_TYPE_CHANGED #/"]),
    ({"anyOf": [TEXT, COUNT]}, {"anyOf": [TEXT, {"type": "null"}]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
    ({"allOf": [TEXT, {"maxLength": 3}]}, {"type": "string", "maxLength": 3}, []),
    (
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    (MODERN | {"prefixItems": [TEXT], "items": False}, MODERN | {"prefixItems": [TEXT, COUNT], "items": False}, []),
    (
        MODERN | {"properties": {"a": TEXT}},
        MODERN | {"properties": {"a": TEXT}, "unevaluatedProperties": False},
        ["UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"],
    ),
    (
        MODERN | {"dependentRequired": {"a": ["b"]}},
        MODERN | {"dependentRequired": {"a": ["c"]}},
        ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
    ),
    # Keywords of another kind than the type are a second part (Everit's SchemaExtractor).
    (TEXT, TEXT | {"minimum": 3}, ["TYPE_CHANGED #/"]),
    (
        {"type": ["string", "null"], "minimum": 3},
        {"type": ["string", "null"], "minimum": 4},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    ({"if": TEXT}, {"if": COUNT, "then": TEXT}, []),
    ({"if": TEXT, "minimum": 1}, {"minimum": 1}, []),
    (DRAFT_6 | {"if": TEXT, "then": TEXT}, DRAFT_6 | TEXT, ["TYPE_CHANGED #/"]),
    # Keywords of 2019-09 and 2020-12.
    (
        MODERN | {"contains": TEXT},
        MODERN | {"contains": TEXT, "minContains": 2},
        ["MIN_CONTAINS_INCREASED #/minContains"],
    ),
    (
        MODERN | {"contains": TEXT, "maxContains": 3},
        MODERN | {"contains": TEXT, "maxContains": 2},
        ["MAX_CONTAINS_DECREASED #/maxContains"],
    ),
    (MODERN | {"minContains": 2}, MODERN | {"minContains": 3}, []),
    (
        MODERN | {"dependentSchemas": {"a": TEXT}},
        MODERN | {"dependentSchemas": {"a": COUNT}},
        ["TYPE_CHANGED #/dependencies/a"],
    ),
    (
        MODERN | {"prefixItems": [TEXT, COUNT], "items": TEXT},
        MODERN | {"prefixItems": [TEXT], "items": TEXT},
        ["TYPE_CHANGED #/items/1", "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        MODERN | {"prefixItems": [TEXT], "unevaluatedItems": TEXT},
        MODERN | {"prefixItems": [TEXT], "unevaluatedItems": COUNT},
        ["TYPE_CHANGED #/unevaluatedItems"],
    ),
    (
        MODERN | {"$ref": "#/$defs/a", "maxLength": 3, "$defs": {"a": TEXT}},
        MODERN | {"$ref": "#/$defs/a", "maxLength": 2, "$defs": {"a": TEXT}},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
    ),
    (
        MODERN | {"$ref": "#here", "$defs": {"x": {"$anchor": "here"} | TEXT}},
        MODERN | {"$ref": "#here", "$defs": {"x": {"$anchor": "here"} | COUNT}},
        ["TYPE_CHANGED #/"],
    ),
    (
        MODERN | {"items": {"$dynamicRef": "#here"}, "$defs": {"x": {"$dynamicAnchor": "here"} | TEXT}},
        MODERN | {"items": {"$dynamicRef": "#here"}, "$defs": {"x": {"$dynamicAnchor": "here"} | COUNT}},
        ["TYPE_CHANGED #/items"],
    ),
    (
        DRAFT_2019 | {"properties": {"a": {"$recursiveRef": "#"}, "b": TEXT}},
        DRAFT_2019 | {"properties": {"a": {"$recursiveRef": "#"}, "b": COUNT}},
        ["TYPE_CHANGED #/properties/a/properties/b", "TYPE_CHANGED #/properties/b"],
    ),
    # An `$id` inside the schema names that part, and is the base of the references in it.
    *(
        (
            {"$id": "http://e.com/r"} | word | {"properties": {"a": {"$ref": "sub/x"}}, "definitions": inside(TEXT)},
            {"$id": "http://e.com/r"} | word | {"properties": {"a": {"$ref": "/sub/x"}}, "definitions": inside(COUNT)},
            ["TYPE_CHANGED #/properties/a/properties/p"],
        )
        for word in ({}, MODERN)
    ),
    (
        {"$ref": "#/definitions/n", "definitions": {"m": TEXT, "n": {"$id": "http://e.com/n", **TO_M}}},
        {"$ref": "#/definitions/n", "definitions": {"m": COUNT, "n": {"$id": "http://e.com/n", **TO_M}}},
        ["TYPE_CHANGED #/properties/x"],
    ),
    (
        {"$ref": "#/definitions/x", "definitions": {"x": TEXT}},
        {"$ref": "#/$defs/x", "definitions": {"x": COUNT}},
        ["TYPE_CHANGED #/"],
    ),
]


@pytest.mark.parametrize(("before", "after", "expected"), CASES, ids=lambda case: "")
def test_changes(before: Any, after: Any, expected: list[str]) -> None:
    assert rules(before, after) == expected


def test_message_is_the_one_of_a_verbose_answer() -> None:
    old, new = schema({"properties": {"a": TEXT}}), schema({"properties": {"a": COUNT}})
    assert check(new, [old], CompatibilityLevel.BACKWARD, versions=[3]) == (
        '{errorType:"TYPE_CHANGED", description:"A type at path \'#/properties/a\' is different between the new schema '
        "and the old schema'}",
        "{oldSchemaVersion: 3}",
        '{oldSchema: \'{"properties":{"a":{"type":"string"}}}\'}',
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    )


def test_lenient_policy_allows_additions_to_open_content() -> None:
    old, new = schema({"properties": {}}), schema({"properties": {"a": TEXT}})
    assert new.incompatibilities(old)
    assert not new.incompatibilities(old, lenient=True)


def test_canonical_text_keeps_order_and_the_digits_of_numbers() -> None:
    text = '{ "title": "T", "maximum": 1.50, "minimum": 1e10, "multipleOf": 0.0000001, "default": -0.0, "b": [ ] }'
    assert schema(text).canonical_text == (
        '{"title":"T","maximum":1.50,"minimum":1E+10,"multipleOf":1E-7,"default":0.0,"b":[]}'
    )
    assert schema(text).normalized_text.startswith('{"b":[],"default":0.0,"maximum":1.50')
    assert schema(text).name == "T"
    assert schema(text).native["maximum"] == 1.5


def test_references_of_the_bundle_are_found_by_name_and_relative_to_the_id() -> None:
    other = {"definitions": {"x": COUNT}}
    for contents in (
        {"$ref": "other.json#/definitions/x"},
        {"$id": "http://example.com/a/root.json", "properties": {"p": {"$ref": "other.json#/$defs/x"}}},
    ):
        schema(contents, **{"other.json": other})
    with pytest.raises(SchemaParseError, match="refers to nothing"):
        schema({"$ref": "missing.json"}, **{"other.json": other})


def test_metaschemas_are_found_without_a_request() -> None:
    schema({"$ref": "http://json-schema.org/draft-07/schema#"})
    schema(MODERN | {"$ref": "https://json-schema.org/draft/2020-12/schema"})


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x.json", "https://example.com/x", "file:///etc/passwd", "ftp://h/x"]
)
def test_urls_are_not_fetched(url: str) -> None:
    with pytest.raises(SchemaParseError, match="URLs are not fetched"):
        schema({"properties": {"a": {"$ref": url}}})


@pytest.mark.parametrize(
    "contents",
    [
        "[]",
        '"string"',
        "7",
        "",
        '{"type": "strnig"}',
        '{"type": 7}',
        '{"properties": []}',
        '{"properties": {"a": 7}}',
        '{"minLength": "1"}',
        '{"minLength": -1}',
        '{"required": "a"}',
        '{"allOf": []}',
        '{"allOf": {}}',
        '{"enum": 1}',
        '{"$ref": 1}',
        '{"$ref": "#/definitions/none"}',
        '{"$ref": "#"}',
        '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}',
        '{"maximum": NaN}',
        '{"maximum": 1e999999999}',
        '{"title": "\\ud800"}',
        '{"$id": "http://[x/"}',
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{"type": "string"}]}',
    ],
)
def test_texts_that_are_no_schemas_are_refused(contents: str) -> None:
    with pytest.raises(SchemaParseError):
        schema(contents)


def test_schemas_that_contain_themselves_are_compared() -> None:
    def tree(value: Any) -> dict[str, Any]:
        return {
            "$ref": "#/definitions/tree",
            "definitions": {
                "tree": {
                    "type": "object",
                    "properties": {"value": value, "children": {"items": {"$ref": "#/definitions/tree"}}},
                }
            },
        }

    assert rules(tree(COUNT), tree({"type": "number"})) == []
    found = rules(tree(TEXT), tree(COUNT))
    assert "TYPE_CHANGED #/properties/value" in found


values = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer", "minimum": 3},
            {"type": ["null", "number"]},
            {"enum": [1, "a"]},
            {"const": None},
            {"type": "string", "enum": ["x"], "maxLength": 4},
            True,
            {},
        ]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)}),
        st.fixed_dictionaries({"additionalProperties": inner, "required": st.just(["a"])}),
        st.dictionaries(
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inner, min_size=1, max_size=3),
            min_size=1,
            max_size=2,
        ),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=8,
)


@settings(max_examples=examples(150))
@given(values.filter(lambda value: isinstance(value, dict)), st.booleans())
def test_schema_is_compatible_with_itself(contents: dict[str, Any], modern: bool) -> None:
    contents = MODERN | contents if modern else contents
    one, other = schema(contents), schema(json.dumps(contents, indent=1))
    assert one.incompatibilities(other) == ()
    # Without the shortcut for equal texts, too.
    found = differences(one.root, other.root, COMPATIBLE, keep_all=True)
    assert [kind for kind, _ in found if kind not in COMPATIBLE] == []


@settings(max_examples=examples(100))
@given(st.lists(st.sets(st.integers(0, 5)), max_size=6))
def test_matching_is_the_largest(edges: list[set[int]]) -> None:
    def largest(row: int, used: frozenset[int]) -> int:
        if row == len(edges):
            return 0
        best = largest(row + 1, used)
        return max([best, *(1 + largest(row + 1, used | {one}) for one in edges[row] if one not in used)])

    found = matching_size([sorted(one) for one in edges], 6)
    assert len(set(found.values())) == len(found) == largest(0, frozenset())
    assert all(column in edges[row] for row, column in found.items())


def test_names_are_in_the_order_of_javas_hash_set() -> None:
    # jshell> new HashSet<>(List.of("name", "age", "email", "zip", "Aa", "BB"))
    assert in_hash_order([["name", "age", "email", "zip", "Aa", "BB"]]) == ["zip", "Aa", "BB", "name", "age", "email"]


@pytest.mark.skipif(TABLES is None, reason="KAFKARAW_CONFLUENT_TABLES names no folder with Confluent's tables")
def test_published_tables() -> None:
    files = sorted(Path(TABLES or "").glob("*diff-*schema-examples*.json"))
    checked = 0
    for file in files:
        if "protobuf" in file.name:
            continue
        for case in json.loads(re.sub(r",(\s*[}\]])", r"\1", file.read_text())):
            before, after = schema(case["original_schema"]), schema(case["update_schema"])
            about = f"{file.name}: {case['description']}"
            found = [f"{kind} {path}" for kind, path in differences(before.root, after.root, COMPATIBLE, keep_all=True)]
            if case["changes"] or not case["compatible"]:
                assert found == case["changes"], about
            assert (not after.incompatibilities(before)) == case["compatible"], about
            lenient = case.get("compatible_lenient", case["compatible"])
            assert (not after.incompatibilities(before, lenient=True)) == lenient, about
            checked += 1
    assert checked > 200, f"{TABLES} has no tables of JSON schemas"


def test_parse_chooses_the_language() -> None:
    assert parse(SchemaBundle(Schema("true", SchemaType.JSON))).schema_type is SchemaType.JSON
