"""Protobuf schemas: texts, imports, descriptors as protoc makes them, and which changes are compatible.

The tables that Confluent publishes are not part of this repository; `KAFKARAW_CONFLUENT_TABLES` names their folder.
"""
# ruff: noqa: E501, W293

from __future__ import annotations

import base64
import json
import os
import random
from pathlib import Path

import pytest

from kafkaraw.schemas import CompatibilityLevel, Schema, SchemaBundle, SchemaParseError, SchemaReference, SchemaType
from kafkaraw.schemas.languages import check, parse
from kafkaraw.schemas.languages.protobuf import ProtobufSchema, parse_protobuf
from kafkaraw.schemas.languages.protobuf.differences import Version, differences
from kafkaraw.schemas.languages.protobuf.known import CONFLUENT_FILES
from tests.schemas.languages.protoc import comparable, compiled

pytest.importorskip("google.protobuf")
TABLES = os.environ.get("KAFKARAW_CONFLUENT_TABLES")


def proto(text: str, validate: bool = True, version: int = 1, **files: str) -> ProtobufSchema:
    names = {f"{name}.proto": text for name, text in files.items()}
    bundles: dict[str, SchemaBundle] = {}
    for name, other in names.items():  # a file may import those before it
        bundles[name] = SchemaBundle(Schema(other, SchemaType.PROTOBUF), dict(bundles))
    listed = tuple(SchemaReference(name, name, version) for name in names)
    return parse_protobuf(SchemaBundle(Schema(text, SchemaType.PROTOBUF, listed), bundles), validate=validate)


UNUSUAL = {
    "proto3": """
        // A comment.
        syntax = 'proto3'; /* another
        one */ package a.b;
        import "google/protobuf/timestamp.proto";
        option java_package = "x" "y";
        option optimize_for = CODE_SIZE;
        message message {
          option deprecated = true;
          string message = 1; int32 option = 2; repeated message repeated = 3; optional bytes optional = 4;
          map<string, .a.b.message.Inner> things = 5 [deprecated = true];
          map<int32, Colour> colours_of_x = 16;
          oneof oneof { google.protobuf.Timestamp at = 6; Inner inner = 7 [json_name = "In\\"ner"]; }
          reserved 8, 10 to 12, 100 to max; reserved "old", "older";
          message Inner { enum Kind { option allow_alias = true; A = 0; B = 0; C = -1; reserved 5 to 7; } Kind k = 1; }
          enum Colour { RED = 0 [deprecated = true]; }
          int64 to = 13; bool max = 14; repeated sint64 packed = 15 [packed = false, jstype = JS_STRING];
        }
        service S { option deprecated = true; rpc Do (message) returns (stream message.Inner) { option deprecated = true; }
          rpc Go(stream .a.b.message) returns (message); }
        enum Top { ZERO = 0x0; ONE = 01; }
    """,
    "proto2": """
        syntax = "proto2";
        message A {
          required int32 x = 1 [default = -0x10]; optional string s = 2 [default = "a\\tb\\x41\\101'\\"q"];
          optional double d = 3 [default = inf]; optional E e = 4 [default = TWO]; optional bytes b = 5 [default = "\\377"];
          optional group G = 6 { optional int32 y = 1; } repeated group H = 7 { message N {} optional N n = 1; }
          extensions 100 to 199, 300; extensions 1000 to max;
          extend A { optional int32 inside = 150; }
          enum E { ONE = 1; TWO = 2; }
          oneof o { int32 p = 8; group Q = 9 { optional int32 z = 1; } }
          optional float f = 10 [default = 1.5e3]; optional bool t = 11 [default = true];
        }
        extend A { optional string outside = 151; repeated A.E many = 152; }
    """,
    "no syntax": "message A { optional A a = 1; }",
    "edition": """
        edition = "2023";
        option features.field_presence = IMPLICIT;
        message A { string s = 1 [features.field_presence = EXPLICIT]; int32 i = 2; }
    """,
    "custom options": """
        syntax = "proto3"; package p;
        import "google/protobuf/descriptor.proto";
        message Info { string text = 1; repeated int32 numbers = 2; Info more = 3; Kind kind = 4; double d = 5; }
        enum Kind { K0 = 0; K1 = 1; }
        extend google.protobuf.FieldOptions { Info info = 50001; repeated string tag = 50002; }
        extend google.protobuf.MessageOptions { int32 size = 50003; }
        message A {
          option (size) = 7;
          string a = 1 [(info) = { text: "x" numbers: [1, 2] more { kind: K1 } d: -1.5 }, (tag) = "t1", (p.tag) = "t2"];
          string b = 2 [(.p.info).text = "y", (info).more.text = "z"];
        }
    """,
    "confluent": """
        syntax = "proto3";
        import "confluent/meta.proto"; import "confluent/type/decimal.proto";
        message A {
          string ssn = 1 [(confluent.field_meta) = { doc: "d", tags: ["PII", "X"], params: [{ key: "k", value: "v" }] }];
          confluent.type.Decimal amount = 2 [(confluent.field_meta).tags = "M"];
        }
    """,
    "empty": 'syntax = "proto3";',
    "scopes": """
        syntax = "proto3"; package a.b.c;
        message X { message Y { message X { int32 i = 1; } X inner = 1; .a.b.c.X outer = 2; c.X middle = 3; b.c.X.Y y = 4; } }
    """,
}


@pytest.mark.parametrize("which", UNUSUAL)
def test_descriptor_is_the_one_that_protoc_makes(which: str) -> None:
    pytest.importorskip("grpc_tools")
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    schema = proto(UNUSUAL[which])
    mine = FileDescriptorProto.FromString(base64.b64decode(schema.serialized))
    for text in (UNUSUAL[which], schema.canonical_text, schema.normalized_text):
        expected = compiled({**CONFLUENT_FILES, "default": text}, "default")
        assert expected is not None, f"protoc refuses\n{text}"
        assert comparable(expected) == comparable(mine)


@pytest.mark.parametrize("which", UNUSUAL)
def test_texts_read_again_are_the_same(which: str) -> None:
    schema = proto(UNUSUAL[which])
    assert proto(schema.canonical_text).canonical_text == schema.canonical_text
    assert proto(schema.normalized_text).normalized_text == schema.normalized_text
    assert not schema.incompatibilities(proto(schema.normalized_text))
    assert not proto(schema.normalized_text).incompatibilities(schema)


def test_canonical_text_has_the_layout_of_confluents_registry() -> None:
    schema = proto(UNUSUAL["proto3"])
    assert schema.canonical_text == EXPECTED
    assert schema.name == "a.b.message"


EXPECTED = """\
syntax = "proto3";
package a.b;

import "google/protobuf/timestamp.proto";

option java_package = "xy";
option optimize_for = CODE_SIZE;

message message {
  reserved 8, 10 to 12, 100 to max;
  reserved "old", "older";

  option deprecated = true;

  string message = 1;
  int32 option = 2;
  repeated message repeated = 3;
  optional bytes optional = 4;
  map<string, .a.b.message.Inner> things = 5 [deprecated = true];
  map<int32, Colour> colours_of_x = 16;
  int64 to = 13;
  bool max = 14;
  repeated sint64 packed = 15 [
    packed = false,
    jstype = JS_STRING
  ];

  oneof oneof {
    google.protobuf.Timestamp at = 6;
    Inner inner = 7 [json_name = "In\\"ner"];
  }

  message Inner {
    Kind k = 1;
  
    enum Kind {
      reserved 5 to 7;
      option allow_alias = true;
      A = 0;
      B = 0;
      C = -1;
    }
  }
  enum Colour {
    RED = 0 [deprecated = true];
  }
}
enum Top {
  ZERO = 0;
  ONE = 1;
}

service S {
  option deprecated = true;

  rpc Do (message) returns (stream message.Inner) {
    option deprecated = true;
  };
  rpc Go (stream .a.b.message) returns (message);
}
"""


def test_normalized_text_sorts_and_has_full_names() -> None:
    schema = proto(
        'syntax = "proto2"; package p; import "google/protobuf/wrappers.proto"; import "google/protobuf/any.proto";\n'
        "option java_package = 'x'; option go_package = 'y';\n"
        "message A { optional B b = 2; optional google.protobuf.Any a = 1; map<string, B> m = 3; reserved 9, 5 to 6; }\n"
        "enum E { ONE = 1; ZERO = 0; } message B {}"
    )
    assert schema.normalized_text == (
        'package p;\n\nimport "google/protobuf/any.proto";\nimport "google/protobuf/wrappers.proto";\n\n'
        'option go_package = "y";\noption java_package = "x";\n\n'
        "message A {\n  reserved 5 to 6;\n  reserved 9;\n\n  optional .google.protobuf.Any a = 1;\n"
        "  optional .p.B b = 2;\n  map<string, .p.B> m = 3;\n}\nmessage B {}\nenum E {\n  ZERO = 0;\n  ONE = 1;\n}\n"
    )


@pytest.mark.parametrize("which", ["proto3", "proto2", "edition", "scopes"])
def test_base64_of_a_descriptor_is_a_schema(which: str) -> None:
    schema = proto(UNUSUAL[which])
    again = proto(schema.serialized)
    assert again.normalized_text == schema.normalized_text or which == "edition"
    assert not again.incompatibilities(schema)
    assert proto(again.canonical_text).canonical_text == again.canonical_text


def test_what_confluent_kafka_registers_is_read() -> None:
    pytest.importorskip("confluent_kafka")
    from google.protobuf import struct_pb2

    text = base64.standard_b64encode(struct_pb2.DESCRIPTOR.serialized_pb).decode()
    schema = proto(text)
    assert schema.name == "google.protobuf.Struct"
    assert "map<string, .google.protobuf.Value> fields = 1" in schema.normalized_text


def test_imports_are_the_references_of_the_bundle() -> None:
    other = 'syntax = "proto3"; package o; message M { N n = 1; } message N {}'
    again = 'syntax = "proto3"; import public "other.proto"; message U { o.M m = 1; }'
    schema = proto(
        'syntax = "proto3"; import "again.proto"; message A { U u = 1; o.N n = 2; }', other=other, again=again
    )
    descriptor = schema.native.message_types_by_name["A"]
    assert descriptor.fields_by_name["n"].message_type.full_name == "o.N"
    with pytest.raises(SchemaParseError, match=r"'missing\.proto' is not there: add a reference"):
        proto('syntax = "proto3"; import "missing.proto";')
    with pytest.raises(SchemaParseError, match="not there"):
        proto('syntax = "proto3"; import "/etc/passwd"; import "../../x.proto";')


@pytest.mark.parametrize(
    "name", ["google/protobuf/any.proto", "google/type/money.proto", "confluent/type/variant.proto"]
)
def test_well_known_files_need_no_reference(name: str) -> None:
    if name.startswith("google/type"):
        pytest.importorskip("google.type.money_pb2")
    proto(f'syntax = "proto3"; import "{name}"; message A {{}}')


WRONG = {
    "message A { string a = 1 }": "line 1, column 26: expected ';'",
    "message A {": "expected",
    "mess": "expected syntax",
    'syntax = "proto4";': "proto4",
    'syntax = "proto3";\nmessage A { Missing m = 1; }': "'Missing' is not defined",
    'syntax = "proto3"; message A { string a = 1; string b = 1; }': "same number",
    'syntax = "proto3"; message A { string a = 1; int32 a = 2; }': "refuses",
    'syntax = "proto3"; message A { string a = 0; }': "must be 1",
    'syntax = "proto3"; message A { string a = 19500; }': "19000",
    'syntax = "proto3"; message A { string a = 99999999999999999999999; }': "expected",
    'syntax = "proto3"; message A { reserved 1; string a = 1; }': "reserved",
    'syntax = "proto3"; message A {} message A {}': "refuses",
    'syntax = "proto3"; enum E { A = 1; }': "must be 0",
    'syntax = "proto3"; enum E { }': "at least one",
    'syntax = "proto3"; message A { map<float, string> m = 1; }': "keys",
    'syntax = "proto3"; message A { string a = 1 [nonsense = 3]; }': "option",
    'syntax = "proto3"; message A { string a = 1 [(nonsense) = 3]; }': "not defined",
    'syntax = "proto3"; message A { string a = 1 [default = "x"]; }': "refuses",
    'syntax = "proto3"; message A { oneof o {} }': "no fields",
    "not a schema at all \u00e9": "unexpected",
    "AAAA": "expected",
    "": "empty",
}


@pytest.mark.parametrize("text", WRONG)
def test_texts_that_are_no_schemas_are_refused(text: str) -> None:
    with pytest.raises(SchemaParseError, match=WRONG[text]):
        proto(text)


def rules(before: str, after: str) -> list[str]:
    one, other = proto('syntax = "proto3"; ' + before), proto('syntax = "proto3"; ' + after)
    return [f"{each.rule} {each.path}" for each in other.incompatibilities(one)]


CASES = {
    ("message A { int32 a = 1; }", "message A { int64 a = 1; uint32 b = 2; }"): [],
    ("message A { int32 a = 1; }", "message A { sint32 a = 1; }"): ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
    ("message A { string a = 1; }", "message A { bytes renamed = 1; }"): [],
    ("message A { int32 a = 1; }", "message A {}"): [],
    ("message A { int32 a = 1; }", "message A { A a = 1; }"): ["FIELD_KIND_CHANGED #/A/1"],
    ("message A {} message B {}", "message B {}"): ["MESSAGE_REMOVED #/A"],
    ("message A { message C {} }", "message A { }"): ["MESSAGE_REMOVED #/A/C"],
    ("message A { B b = 1; } message B {} message C {}", "message A { C b = 1; } message B {} message C {}"): [
        "FIELD_NAMED_TYPE_CHANGED #/A/1"
    ],
    ("message A { E e = 1; } enum E { Z = 0; }", "message A { int32 e = 1; }"): [],
    ("package a; message A {}", "package b; message A {}"): ["PACKAGE_CHANGED #/"],
    ("message A { oneof o { int32 x = 1; int32 y = 2; } }", "message A { oneof o { int32 x = 1; } }"): [
        "ONEOF_FIELD_REMOVED #/A/o/2"
    ],
    ("message A { int32 x = 1; int32 y = 2; }", "message A { oneof o { int32 x = 1; int32 y = 2; } }"): [
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF #/A/o"
    ],
    ("message A { int32 x = 1; oneof o { int32 y = 2; } }", "message A { oneof o { int32 x = 1; int32 y = 2; } }"): [
        "FIELD_MOVED_TO_EXISTING_ONEOF #/A/o"
    ],
    ("message A { repeated int32 x = 1; }", "message A { optional int32 x = 1; }"): [
        "FIELD_NUMERIC_LABEL_CHANGED #/A/1"
    ],
    ("message A { map<string, int32> m = 1; }", "message A { map<string, sint32> m = 1; }"): [
        "FIELD_SCALAR_KIND_CHANGED #/A/1"
    ],
}


@pytest.mark.parametrize(("before", "after"), CASES)
def test_changes(before: str, after: str) -> None:
    assert rules(before, after) == CASES[before, after]


def test_message_is_the_one_of_a_verbose_answer() -> None:
    old, new = proto('syntax = "proto3"; message A {}'), proto('syntax = "proto3"; message B {}')
    assert check(new, [old], CompatibilityLevel.BACKWARD)[:2] == (
        '{errorType:"MESSAGE_REMOVED", description:"The new schema is missing a MESSAGE type at path \'#/A\' in the old '
        'schema"}',
        "{oldSchema: 'syntax = \"proto3\";\n\nmessage A {}\n'}",
    )


def test_imported_messages_are_compared_unless_both_have_the_same_version_of_a_subject() -> None:
    text = 'syntax = "proto3"; import "other.proto"; message A { M m = 1; }'
    before, after = (f'syntax = "proto3"; message M {{ {kind} x = 1; }}' for kind in ("int32", "string"))
    old = proto(text, version=1, other=before)
    assert not proto(text, version=1, other=after).incompatibilities(old)
    found = proto(text, version=2, other=after).incompatibilities(old)
    assert [f"{one.rule} {one.path}" for one in found] == [
        "FIELD_SCALAR_KIND_CHANGED #/M/1",
        "FIELD_NAMED_TYPE_CHANGED #/A/1",
    ]


class RandomProto:
    """Makes files of one seed that protoc accepts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.types: list[str] = []

    def file(self) -> str:
        package = self.random.choice(["", "package a;", "package a.b.c;"])
        messages = " ".join(self.message(f"M{index}", 0, "") for index in range(self.random.randint(1, 4)))
        return f'syntax = "proto3"; {package} {messages} enum Top {{ TOP_ZERO = 0; }}'

    def message(self, name: str, depth: int, scope: str) -> str:
        full = f"{scope}.{name}" if scope else name
        self.types.append(full)
        inner = [
            self.message(f"N{index}", depth + 1, full) for index in range(self.random.randint(0, 2 if depth < 2 else 0))
        ]
        numbers = self.random.sample(range(1, 200), 8)
        fields = [self.field(number) for number in numbers[:5]]
        oneof = "".join(f"{self.type()} o{number} = {number};" for number in numbers[5:7])
        parts = [*fields, *inner, f"oneof choice {{ {oneof} }}", f"reserved {numbers[7]};"]
        self.random.shuffle(parts)
        return f"message {name} {{ {' '.join(parts)} }}"

    def type(self) -> str:
        scalars = ["int32", "uint64", "sint32", "fixed32", "bool", "string", "bytes", "double", "Top"]
        return self.random.choice([*scalars, *self.types])

    def field(self, number: int) -> str:
        options = self.random.choice(["", "", " [deprecated = true]", f' [json_name = "j{number}"]'])
        choice = self.random.random()
        if choice < 0.15:
            return f"map<string, {self.type()}> f{number} = {number};"
        label = "repeated " if choice < 0.4 else "optional " if choice < 0.5 else ""
        return f"{label}{self.type()} f{number} = {number}{options};"


def test_random_files_are_compiled_as_protoc_does() -> None:
    pytest.importorskip("grpc_tools")
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    for seed in range(25):
        text = RandomProto(seed).file()
        expected = compiled({"default": text}, "default")
        try:
            schema = proto(text)
        except SchemaParseError as error:
            assert expected is None, f"seed {seed}: {error}\n{text}"
            continue
        assert expected is not None, f"seed {seed}: {text}"
        mine = FileDescriptorProto.FromString(base64.b64decode(schema.serialized))
        assert comparable(mine) == comparable(expected), f"seed {seed}"
        again = proto(schema.normalized_text)
        assert again.normalized_text == schema.normalized_text == proto(schema.serialized).normalized_text
        assert not again.incompatibilities(schema)


@pytest.mark.skipif(TABLES is None, reason="KAFKARAW_CONFLUENT_TABLES names no folder with Confluent's tables")
def test_published_tables() -> None:
    (file,) = Path(TABLES or "").glob("protobuf*diff-schema-examples.json")
    for case in json.loads(file.read_text()):
        versions: list[ProtobufSchema] = []
        for which in ("original", "update"):
            texts = {one["name"]: one["dependency"] for one in case.get(f"{which}_dependencies", ())}
            references = tuple(map(SchemaReference.from_json, case.get(f"{which}_references", ())))
            schema = Schema(case[f"{which}_schema"], SchemaType.PROTOBUF, references)
            bundles = {name: SchemaBundle(Schema(text, SchemaType.PROTOBUF)) for name, text in texts.items()}
            versions.append(parse_protobuf(SchemaBundle(schema, bundles)))
        old, new = versions
        found = differences(Version(old.file, old.types), Version(new.file, new.types), keep_all=True)
        assert [f"{kind} {path}" for kind, path in found] == case["changes"], case["description"]
        assert (not new.incompatibilities(old)) == case["compatible"], case["description"]


def test_parse_chooses_the_language() -> None:
    schema = parse(SchemaBundle(Schema('syntax = "proto3"; message A {}', SchemaType.PROTOBUF)))
    assert schema.schema_type is SchemaType.PROTOBUF
