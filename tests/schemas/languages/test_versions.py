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
from tests.examples import examples
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
    return JsonHistory(seed) if language is SchemaType.JSON else ProtoHistory(seed)


class JsonHistory:
    """Versions of an object, each with a few changes of the first."""

    values = ({"type": "string"}, {"type": "integer"}, {"type": "number"}, {}, {"type": "string", "default": "x"})

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.properties = {name: self.random.choice(self.values) for name in "abcdef"}
        self.additional = self.random.choice([False, False, {"type": "string"}, True])
        self.patterns = {"^[x-y]": {"type": "string"}} if self.random.random() < 0.3 else {}

    def __call__(self) -> str:
        properties = dict(self.properties)
        for _ in range(self.random.randint(0, 2)):
            name = self.random.choice("abcdefxyz")
            if self.random.random() < 0.4:
                properties.pop(name, None)
            else:
                value = self.random.choice(self.values)
                properties[name] = {"properties": {"in": value}} if self.random.random() < 0.2 else value
        required = self.random.sample("abcdef", self.random.random() < 0.2)
        schema = {"type": "object", "properties": properties, "additionalProperties": self.additional}
        schema |= {"patternProperties": self.patterns} if self.random.random() < 0.9 else {}
        schema |= {"required": required} if required else {}
        return json.dumps({"title": str(self.random.random()), **schema})


class ProtoHistory:
    """Versions of two messages, each with a few changes of the first."""

    types = ("int32", "int64", "string", "A", "E", "A.N", "map<string, int32>")

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fields = {
            number: (self.random.choice(self.types), self.random.choice(["", "", "o"])) for number in range(1, 7)
        }

    def __call__(self) -> str:
        fields = dict(self.fields)
        for _ in range(self.random.randint(0, 2)):
            number = self.random.randint(1, 9)
            if self.random.random() < 0.4:
                fields.pop(number, None)
            else:
                fields[number] = (self.random.choice(self.types), self.random.choice(["", "", "o", "p"]))
        parts: dict[str, list[str]] = {"": [], "o": [], "p": []}
        for number, (type_, oneof) in fields.items():
            parts["" if "map" in type_ else oneof].append(f"{type_} f{number} = {number};")
        oneofs = " ".join(f"oneof {name} {{ {' '.join(parts[name])} }}" for name in "op" if parts[name])
        nested = f"message N {{ {self.random.choice(['', '', 'int32 x = 1;', 'string x = 1;'])} }}"
        extra = "message B { int32 x = 1; }" if self.random.random() < 0.2 else ""
        return f'syntax = "proto3"; message A {{ {" ".join(parts[""])} {oneofs} {nested} }} {extra} enum E {{ Z = 0; }}'


@settings(max_examples=examples(150))
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
