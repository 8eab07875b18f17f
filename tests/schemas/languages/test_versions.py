"""Levels over many versions: what is remembered of earlier comparisons changes no result, and keeps them fast."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkaraw.schemas import CompatibilityLevel, Schema, SchemaBundle, SchemaParseError, SchemaType
from kafkaraw.schemas.languages import ParsedSchema, check, parse
from tests.schemas.languages.random_avro import RandomAvro

LEVEL = CompatibilityLevel
TRANSITIVE = [LEVEL.BACKWARD_TRANSITIVE, LEVEL.FORWARD_TRANSITIVE, LEVEL.FULL_TRANSITIVE]


def parsed(text: str, language: SchemaType) -> ParsedSchema:
    return parse(SchemaBundle(Schema(text, language)))


def compared_with_all(new: ParsedSchema, earlier: list[ParsedSchema], level: CompatibilityLevel) -> list[str]:
    for existing in reversed(earlier):
        found: list[str] = []
        if level.value.startswith(("FORWARD", "FULL")):
            found += [one.message("old", "new") for one in existing.incompatibilities(new)]
        if level.value.startswith(("BACKWARD", "FULL")):
            found += [one.message("new", "old") for one in new.incompatibilities(existing)]
        if found:
            return found
    return []


def random_versions(seed: int, language: SchemaType) -> Callable[[], str]:
    if language is SchemaType.AVRO:
        make = RandomAvro(seed)
        schemas = [make.schema()]

        def avro() -> str:
            schemas.append(make.changed(schemas[0]))
            return json.dumps(schemas[-1])

        return avro
    choice = random.Random(seed)
    return lambda: json_text(choice) if language is SchemaType.JSON else proto_text(choice)


def json_text(choice: random.Random) -> str:
    values = [{"type": "string"}, {"type": "integer"}, {"type": "number"}, {}, {"type": "string", "default": "x"}]
    values.append({"type": "object", "properties": {"in": choice.choice(values)}})
    schema = {
        "type": "object",
        "title": str(choice.random()),
        "properties": {
            name: choice.choice(values[-3:] if choice.random() < 0.2 else values[:2])
            for name in choice.sample("abcdef", 4)
        },
        "required": choice.sample("abcdef", choice.randint(0, 1)),
    }
    if choice.random() < 0.8:
        schema["additionalProperties"] = choice.choice([False, False, {"type": "string"}])
    if choice.random() < 0.1:
        schema["patternProperties"] = {"^[a-c]": {"type": "string"}}
    return json.dumps(schema)


def proto_text(choice: random.Random) -> str:
    def message(name: str, depth: int) -> str:
        fields: list[str] = []
        inside: list[str] = []
        for number in choice.sample(range(1, 9), 4):
            type_ = choice.choice(["int32", "int32", "int64", "string", "A", "E", "map<string, int32>"])
            (inside if choice.random() < 0.3 and "map" not in type_ else fields).append(
                f"{type_} f{number} = {number};"
            )
        oneof = f"oneof {choice.choice('op')} {{ {' '.join(inside)} }}" if inside else ""
        nested = message("N", depth + 1) if depth == 0 and choice.random() < 0.7 else ""
        return f"message {name} {{ {' '.join(fields)} {oneof} {nested} }}"

    extra = message("B", 1) if choice.random() < 0.5 else ""
    return f'syntax = "proto3"; {message("A", 0)} {extra} enum E {{ Z = 0; }}'


@settings(max_examples=150)
@given(st.integers(0, 100_000), st.sampled_from(list(SchemaType)), st.sampled_from(TRANSITIVE))
def test_remembered_comparisons_change_no_result(seed: int, language: SchemaType, level: CompatibilityLevel) -> None:
    if language is SchemaType.PROTOBUF:
        pytest.importorskip("google.protobuf")
    make = random_versions(seed, language)
    versions: list[ParsedSchema] = []
    for _ in range(15):
        try:
            new = parsed(make(), language)
        except SchemaParseError:
            continue
        found = check(new, versions, level)
        assert [one for one in found if not one.startswith(("{old", "{validate"))] == compared_with_all(
            new, versions, level
        )
        if not found:
            versions.append(new)


GROWING = {
    SchemaType.AVRO: lambda version: json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": f"f{i}", "type": ["null", "string"], "default": None} for i in range(version)],
        }
    ),
    SchemaType.JSON: lambda version: json.dumps(
        {"additionalProperties": False, "properties": {f"f{i}": {"type": "string"} for i in range(version)}}
    ),
    SchemaType.PROTOBUF: lambda version: (
        'syntax = "proto3"; message A {' + "".join(f"string f{i} = {i + 1};" for i in range(version)) + "}"
    ),
}


@pytest.mark.parametrize("language", list(SchemaType))
def test_versions_that_grow_are_compared_in_bounded_time(language: SchemaType) -> None:
    if language is SchemaType.PROTOBUF:
        pytest.importorskip("google.protobuf")
    versions: list[ParsedSchema] = []
    seconds = 0.0
    for version in range(1, 121):
        new = parsed(GROWING[language](version), language)
        started = time.process_time()
        assert check(new, versions, LEVEL.BACKWARD_TRANSITIVE) == ()
        seconds += time.process_time() - started
        versions.append(new)
    assert seconds < 2, f"{seconds:.1f} s for 7,140 comparisons"
