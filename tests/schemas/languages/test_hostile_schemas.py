"""Hostile schemas: size, depth, recursion, references, patterns that explode. Each test bounds processor time.

`make soak` has the largest texts that are read at all; other runs have a quarter, which takes hours, too, if the time
is quadratic.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafkaraw.schemas import Schema, SchemaBundle, SchemaParseError, SchemaType
from kafkaraw.schemas.languages import incompatibilities, parse
from kafkaraw.schemas.languages.avro import resolution
from kafkaraw.schemas.languages.limits import TEXT_CHARACTERS_MAX
from tests.simulation import seeds

PART = 1 if seeds.with_soak else 4
"""By what the sizes of texts are divided, where a smaller one is no less hostile."""


@contextmanager
def cpu_seconds_at_most(limit: float) -> Iterator[None]:
    started = time.process_time()
    yield
    took = time.process_time() - started
    assert took < limit, f"{took:.1f} s of processor time"


def avro(contents: Any, references: dict[str, SchemaBundle] | None = None) -> Any:
    text = contents if isinstance(contents, str) else json.dumps(contents)
    return parse(SchemaBundle(Schema(text), references or {}))


def json_schema(contents: Any, references: dict[str, SchemaBundle] | None = None) -> Any:
    text = contents if isinstance(contents, str) else json.dumps(contents)
    return parse(SchemaBundle(Schema(text, SchemaType.JSON), references or {}))


def protobuf(text: str, references: dict[str, SchemaBundle] | None = None) -> Any:
    return parse(SchemaBundle(Schema(text, SchemaType.PROTOBUF), references or {}))


LANGUAGES = list(SchemaType)
SMALLEST = {SchemaType.AVRO: '"int"', SchemaType.JSON: "{}", SchemaType.PROTOBUF: 'syntax = "proto3"; message A {}'}


@pytest.mark.parametrize("language", LANGUAGES)
def test_too_long_texts_are_refused(language: SchemaType) -> None:
    with pytest.raises(SchemaParseError, match="characters"), cpu_seconds_at_most(0.5):
        parse(SchemaBundle(Schema(" " * TEXT_CHARACTERS_MAX + '"x"', language)))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "text", ["[" * (500_000 // PART), '{"a":' * (200_000 // PART), '{"items":' * 90_000 + "{}" + "}" * 90_000]
)
def test_deeply_nested_text_is_refused(language: SchemaType, text: str) -> None:
    with pytest.raises(SchemaParseError), cpu_seconds_at_most(3):
        parse(SchemaBundle(Schema(text, language)))


@pytest.mark.parametrize("language", LANGUAGES)
def test_references_in_a_circle_are_refused(language: SchemaType) -> None:
    inner: dict[str, SchemaBundle] = {}
    bundle = SchemaBundle(Schema(SMALLEST[language], language), inner)
    inner["again"] = bundle
    with pytest.raises(SchemaParseError, match="circle"):
        parse(bundle)


@pytest.mark.parametrize("language", LANGUAGES)
def test_too_many_references_are_refused(language: SchemaType) -> None:
    leaf = SchemaBundle(Schema(SMALLEST[language], language))
    with pytest.raises(SchemaParseError, match="references"), cpu_seconds_at_most(2):
        parse(SchemaBundle(leaf.schema, {f"r{index}": leaf for index in range(5_000)}))
    chain = leaf
    for index in range(500):
        chain = SchemaBundle(leaf.schema, {f"r{index}": chain})
    with pytest.raises(SchemaParseError, match="levels"), cpu_seconds_at_most(2):
        parse(chain)


def test_references_that_share_references_are_read_once() -> None:
    diamond = SchemaBundle(Schema('{"type":"fixed","name":"F","size":1}'))
    for level in range(40):  # 2^40 paths
        diamond = SchemaBundle(
            Schema(f'{{"type":"fixed","name":"F{level}","size":1}}'), {f"a{level}": diamond, f"b{level}": diamond}
        )
    with cpu_seconds_at_most(2):
        parse(diamond)


def test_long_chain_of_avro_types_is_refused_or_read_in_bounded_time() -> None:
    chain = [{"type": "record", "name": f"R{i}", "fields": [{"name": "n", "type": f"R{i + 1}"}]} for i in range(8_000)]
    with pytest.raises(SchemaParseError, match="nested deeper"), cpu_seconds_at_most(3):
        avro([*chain, {"type": "record", "name": "R8000", "fields": []}])


def test_avro_types_defined_again_and_again_are_read_in_bounded_time() -> None:
    huge = {"type": "record", "name": "H", "fields": [{"name": f"f{i}", "type": "int"} for i in range(5_000 // PART)]}
    again = {"type": "record", "name": "S", "fields": [{"name": "h", "type": "H"}]}
    fields = [{"name": f"s{i}", "type": again} for i in range(5_000 // PART)]
    with cpu_seconds_at_most(5 / PART):
        avro({"type": "record", "name": "R", "fields": [{"name": "h", "type": huge}, *fields]})


def test_wide_avro_unions_are_compared_in_bounded_time() -> None:
    def union(prefix: str) -> Any:
        return avro([{"type": "record", "name": f"{prefix}{i}", "fields": []} for i in range(400)])  # 160,000 pairs

    with cpu_seconds_at_most(10):
        found = incompatibilities(union("a"), union("b"))
    assert found


def test_avro_types_that_contain_each_other_are_compared_in_bounded_time() -> None:
    def tangle(kind: str) -> Any:
        names = [f"R{i}" for i in range(60)]
        last = {"name": "x", "type": kind}
        return avro(
            [
                {"type": "record", "name": name, "fields": [{"name": n, "type": n} for n in names] + [last]}
                for name in names
            ]
        )

    with cpu_seconds_at_most(10):
        assert incompatibilities(tangle("int"), tangle("string"))


def test_avro_defaults_that_contain_each_other_are_refused() -> None:
    with pytest.raises(SchemaParseError, match="contain each other"):
        avro('{"type":"record","name":"R","fields":[{"name":"a","type":"R","default":{}}]}')


def test_unclosed_comment_and_strings_of_quotes_are_read_in_linear_time() -> None:
    for text in (
        "/*" * (400_000 // PART),
        '"' + '\\"' * (400_000 // PART),
        "//" * (400_000 // PART),
        "/* */" * (150_000 // PART),
    ):
        with pytest.raises(SchemaParseError), cpu_seconds_at_most(3):
            avro(text)


def test_json_definitions_that_double_are_compared_in_bounded_time() -> None:
    def doubling(leaf: str) -> Any:
        definitions: dict[str, Any] = {
            f"d{i}": {"properties": {n: {"$ref": f"#/definitions/d{i + 1}"} for n in "ab"}} for i in range(60)
        }
        definitions["d60"] = {"type": leaf}
        return json_schema({"$ref": "#/definitions/d0", "definitions": definitions})

    with cpu_seconds_at_most(10):
        found = incompatibilities(doubling("string"), doubling("integer"))
    assert [one.rule for one in found] == ["UNEXPECTED_EXCEPTION"]
    with cpu_seconds_at_most(10):
        assert incompatibilities(doubling("number"), doubling("integer")) == ()


def test_json_combinations_that_multiply_are_compared_in_bounded_time() -> None:
    def wide(offset: int) -> Any:
        return json_schema({"oneOf": [{"properties": {"a": {"maxLength": i + offset}}} for i in range(300 // PART)]})

    with cpu_seconds_at_most(20 / PART**2):
        assert incompatibilities(wide(0), wide(1_000_000)) is not None


def test_long_chains_of_json_references_are_compared() -> None:
    def chain(leaf: str) -> Any:
        definitions: dict[str, Any] = {
            f"d{i}": {"properties": {"n": {"$ref": f"#/definitions/d{i + 1}"}}} for i in range(1_500)
        }
        definitions["d1500"] = {"type": leaf}
        return json_schema({"$ref": "#/definitions/d0", "definitions": definitions})

    with cpu_seconds_at_most(10):
        found = incompatibilities(chain("string"), chain("integer"))
    assert [one.rule for one in found] == ["TYPE_CHANGED"]
    assert found[0].path.count("properties") == 1_500


def test_json_patterns_that_explode_do_not() -> None:
    evil = {"patternProperties": {"^(a+)+$": {"type": "string"}}}
    added = evil | {"properties": {"a" * 60 + "!": {"type": "string"}}}
    with cpu_seconds_at_most(1):
        incompatibilities(json_schema(added), json_schema(evil))


def test_large_ordinary_schemas_are_read_quickly() -> None:
    fields = [{"name": f"field_{i}", "type": ["null", "string"], "default": None} for i in range(2_000)]
    with cpu_seconds_at_most(3):
        avro({"type": "record", "name": "R", "fields": fields})
    with cpu_seconds_at_most(5):
        json_schema({"properties": {f"field_{i}": {"type": ["null", "string"]} for i in range(2_000)}})


PROTO_TEXTS = {
    "nested messages": "message A {" * (80_000 // PART),
    "nested groups": "message A {" + "optional group G = 1 {" * (40_000 // PART),
    "nested options": "option x = " + "{ a: " * (150_000 // PART),
    "nested lists": "option x = " + "[" * (500_000 // PART),
    "long name": "option " + "a." * (400_000 // PART) + "b = 1;",
    "path of an option": "option (a)" + ".b" * (400_000 // PART) + " = 1;",
    "unclosed comment": "/*" * (400_000 // PART),
    "unclosed string": 'import "' + '\\"' * (400_000 // PART),
    "quotes": "import " + "'" * (800_000 // PART + 1) + ";",
    "spaces": " " * (900_000 // PART) + "?",
    "long number": "message A { int32 a = " + "9" * (900_000 // PART) + "; }",
    "dots": "message A { " + "." * (900_000 // PART) + " }",
}


@pytest.mark.parametrize("which", PROTO_TEXTS)
def test_hostile_proto_texts_are_refused_in_bounded_time(which: str) -> None:
    with pytest.raises(SchemaParseError), cpu_seconds_at_most(5):
        protobuf(PROTO_TEXTS[which])


def test_proto_imports_in_a_circle_are_refused() -> None:
    one = SchemaBundle(Schema('syntax = "proto3"; import "two"; message A {}', SchemaType.PROTOBUF))
    two = SchemaBundle(Schema('syntax = "proto3"; import "one"; message B {}', SchemaType.PROTOBUF))
    with pytest.raises(SchemaParseError):
        protobuf('syntax = "proto3"; import "one"; message C {}', {"one": one, "two": two})
    with pytest.raises(SchemaParseError):
        protobuf('syntax = "proto3"; import "default"; message C {}')


def test_large_proto_files_are_read_and_compared_quickly() -> None:
    def large(kind: str) -> Any:
        messages = "".join(f"message M{i} {{ M{(i + 1) % 2_000} next = 1; {kind} x = 2; }}" for i in range(2_000))
        return protobuf(f'syntax = "proto3"; package p; {messages}')

    with cpu_seconds_at_most(15):
        one, other = large("int32"), large("string")
        assert len(incompatibilities(one, other)) in {1, 2_000}


def test_chains_of_imported_messages_are_compared() -> None:
    def chain(kind: str) -> Any:
        imported = "".join(f"message M{i} {{ M{i + 1} a = 1; M{i + 1} b = 2; }}" for i in range(1_000))
        imported += f"message M1000 {{ {kind} x = 1; }}"
        bundle = SchemaBundle(Schema(f'syntax = "proto3"; package o; {imported}', SchemaType.PROTOBUF))
        return protobuf('syntax = "proto3"; import "o"; message A { o.M0 m = 1; }', {"o": bundle})

    with cpu_seconds_at_most(15):
        assert incompatibilities(chain("int32"), chain("string"))
        assert not incompatibilities(chain("int32"), chain("int64"))


def test_base64_that_is_no_descriptor_is_refused() -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    broken = descriptor_pb2.FileDescriptorProto(name="x")
    broken.message_type.add(name="A").field.add(name="a", number=1, oneof_index=7)
    with pytest.raises(SchemaParseError):
        protobuf(base64.b64encode(broken.SerializeToString()).decode())
    for text in ("AAAA" * 1_000, "/79/" * 200_000, "CgA="):
        with pytest.raises(SchemaParseError), cpu_seconds_at_most(3):
            protobuf(text)


def test_unions_of_records_that_contain_each_other_are_compared_within_a_number_of_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """200 records, each with a union of all records before it: 40,000 pairs, and each pair meets up to 200 others."""
    count = 200 if seeds.with_soak else 100  # an eighth of the steps
    monkeypatch.setattr(resolution, "STEPS_MAX", resolution.STEPS_MAX * count**3 // 200**3)

    def records(count: int) -> Any:
        def one(number: int) -> Any:
            union = ["null", "R", *(f"S{before}" for before in range(number))]
            return {"type": "record", "name": f"S{number}", "fields": [{"name": "x", "type": union}]}

        fields = [{"name": f"a{number}", "type": ["null", one(number)]} for number in range(count)]
        return avro({"type": "record", "name": "R", "fields": fields})

    new, old = records(count), records(count - 1)
    with cpu_seconds_at_most(8):
        (found,) = incompatibilities(new, old)
    assert "steps to be compared" in found.message("new", "old")


def test_unions_of_records_without_a_common_field_are_compared_within_a_number_of_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of the 600 * 600 pairs of branches has 20 incompatibilities, all of which would be kept."""
    branches = 600 if seeds.with_soak else 60
    monkeypatch.setattr(resolution, "STEPS_MAX", resolution.STEPS_MAX * branches**2 // 600**2)

    def union(prefix: str) -> Any:
        fields = [{"name": f"{prefix}{number}", "type": "int"} for number in range(20)]
        return avro([{"type": "record", "name": f"{prefix}R{number}", "fields": fields} for number in range(branches)])

    with cpu_seconds_at_most(8):
        (found,) = incompatibilities(union("a"), union("b"))
    assert "steps to be compared" in found.message("new", "old")


def test_numbers_with_large_exponents_are_cheap() -> None:
    names = range(20_000 // PART)
    small, large = (
        "{" + ",".join(f'"p{name}":{{"maxLength":{number}}}' for name in names) + "}" for number in ("1", "1e99999")
    )
    with cpu_seconds_at_most(6):
        one, other = json_schema(f'{{"properties":{small}}}'), json_schema(f'{{"properties":{large}}}')
        assert not incompatibilities(other, one)
        assert len(incompatibilities(one, other)) == len(names)
