"""Arrow to Protobuf: what protobuf's runtime reads, and what decoding returns, on random messages."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory

from kafkaraw.errors import SerializationError, UsageError
from kafkaraw.schemas.arrow import _implementation, plain_encoding
from kafkaraw.schemas.arrow import encode as encode_module
from kafkaraw.schemas.arrow.decode import decode_arrow
from kafkaraw.schemas.arrow.encode import ColumnEncoder, encode_arrow
from kafkaraw.schemas.arrow.plans import Texts
from kafkaraw.schemas.arrow.protobuf_schemas import protobuf_schema_of
from kafkaraw.schemas.languages import parse
from kafkaraw.schemas.languages.protobuf.descriptors import elements_of
from kafkaraw.schemas.languages.protobuf.writing import write_proto
from kafkaraw.schemas.model import Schema, SchemaBundle, SchemaType
from tests.schemas.arrow.stub_registry import StubRegistry
from tests.schemas.arrow.test_protobuf_columns import Messages, run

SEEDS = range(120)
IMPLEMENTATIONS = {
    _implementation.encoding.__name__.rpartition(".")[2]: _implementation.encoding,
    "plain_encoding": plain_encoding,
}
FRAME = b"\0\0\0\0\1\0"


@pytest.fixture(params=sorted(IMPLEMENTATIONS), autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_module, "encoding", IMPLEMENTATIONS[request.param])


def class_of(text: str, message: str = "") -> Any:
    """The runtime's class of a message in a schema's text; the first one if no name is given."""
    file = parse(SchemaBundle(Schema(text, SchemaType.PROTOBUF))).native
    descriptor = file.message_types_by_name[message] if message else next(iter(file.message_types_by_name.values()))
    return message_factory.GetMessageClass(descriptor)


def encoder(text: str, message: str = "", recursion_max: int = 0) -> ColumnEncoder:
    return ColumnEncoder("protobuf", 1, Texts(SchemaType.PROTOBUF, text, message=message), "value", recursion_max)


def encoded(text: str, values: list[Any], kind: pa.DataType | None = None) -> list[bytes | None]:
    """The messages without their frames."""
    column = encoder(text).encode(pa.array(values, kind))
    column.validate(full=True)
    records = column.to_pylist()
    assert all(record is None or record.startswith(FRAME) for record in records)
    return [record and record[len(FRAME) :] for record in records]


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(range(1000, 6000), marks=pytest.mark.soak)])
def test_random_columns_are_read_by_protobuf_and_come_back(seeds: range) -> None:
    for seed in seeds:
        maker = Messages(seed)
        kind = message_factory.GetMessageClass(maker.descriptor)
        text = write_proto(elements_of(maker.file))
        values = [maker.value(maker.descriptor) for _ in range(12)]
        typed, reasons = run(_implementation.decoding, maker.descriptor, [each.SerializeToString() for each in values])
        assert not reasons, f"seed {seed}"
        typed = pa.concat_arrays([typed, pa.nulls(1, typed.type)])
        encoding = encoder(text, "p.M")
        for array, messages in ((typed, [*values, None]), (typed.slice(3, 7), values[3:10])):
            records = encoding.encode(array).to_pylist()
            for record, message in zip(records, messages, strict=True):
                assert (record is None) == (message is None), f"seed {seed}"
                if record is not None:
                    assert kind.FromString(framing_of(record)) == message, f"seed {seed}"
            payloads = [b"" if record is None else framing_of(record) for record in records]
            back, reasons = run(_implementation.decoding, maker.descriptor, payloads)
            assert not reasons and (back.equals(array) or str(back) == str(array) or array.null_count), f"seed {seed}"


def framing_of(record: bytes) -> bytes:
    """The message behind the id and the indexes of a framed record: a count, and one byte for each."""
    count = record[5] >> 1
    return record[6 + count :]


TYPES = """syntax = "proto3"; package t;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message All {
  int32 i = 1; sint32 s = 2; uint32 u = 3; fixed32 f = 4; sfixed32 sf = 5;
  int64 l = 6; sint64 sl = 7; uint64 ul = 8; fixed64 fl = 9; sfixed64 sfl = 10;
  float x = 11; double y = 12; bool b = 13; string t = 14; bytes r = 15; Kind k = 16;
  google.protobuf.Timestamp at = 17; google.protobuf.Duration took = 18; google.protobuf.Int32Value w = 19;
  repeated uint64 us = 20; repeated sint32 ss = 21 [packed=false]; repeated bool bs = 22; repeated Kind ks = 23;
  repeated string ts = 24; repeated google.protobuf.Timestamp ats = 25; map<string, Inner> m = 26;
  optional int32 oi = 27; optional string ot = 28; repeated double ys = 29; map<string, uint32> mu = 30;
  oneof one { int32 first = 31; Inner second = 32; }
}
message Inner { int32 a = 1; Deeper deeper = 2; message Deeper { repeated Inner2 list = 1; } }
message Inner2 { string text = 1; }
enum Kind { ZERO = 0; ONE = 1; MINUS = -3; }
"""


def test_bytes_equal_those_of_protobuf_for_each_type() -> None:
    kind = class_of(TYPES)
    extremes = [
        {"i": -(2**31), "s": -(2**31), "u": 2**32 - 1, "f": 2**32 - 1, "sf": -1, "l": -(2**63), "sl": -(2**63)},
        {"ul": 2**64 - 1, "fl": 2**64 - 1, "sfl": -(2**63), "x": -0.0, "y": float("inf"), "b": True, "t": "ä" * 100},
        {"r": b"\0" * 20_000, "k": "MINUS", "us": [0, 2**64 - 1], "ss": [0, -1], "bs": [True, False], "ks": ["ONE"]},
        {"ts": ["", "a"], "oi": 0, "ot": "", "ys": [0.0, 1.5] * 200, "mu": {"": 0}, "first": 0},
        {"second": {"a": 1, "deeper": {"list": [{"text": "x" * 200}, {"text": ""}]}}, "w": {"value": 0}},
        {"m": {"k": {"a": 5, "deeper": {}}}},
        {"i": 0, "s": 0, "u": 0, "ul": 0, "y": 0.0, "b": False, "t": "", "r": b"", "k": "ZERO", "us": [], "m": {}},
    ]
    for row in extremes:
        values = {name: list(each.items()) if name in ("m", "mu") else each for name, each in row.items()}
        values |= {name: Decimal(row[name]) for name in ("ul", "fl") if name in row}
        values |= {"us": [Decimal(each) for each in row["us"]]} if "us" in row else {}
        column = pa.array([values], pa.struct([full_type(name) for name in values]))
        (found,) = encoder(TYPES).encode(column).to_pylist()
        expected = kind(**row)
        assert found == FRAME + expected.SerializeToString(), row
        assert kind.FromString(found[len(FRAME) :]) == expected


def full_type(name: str) -> pa.Field:
    return encoder(TYPES).arrow_type.field(name)


@pytest.mark.parametrize("micros", [0, 1, -1, 999_999, -999_999, 10**6, -(10**6), -1_500_000, 2**63 - 1, -(2**63)])
def test_times_are_seconds_and_nanoseconds_as_protobuf_has_them(micros: int) -> None:
    kind = class_of(TYPES)
    at = pa.array([micros]).cast(pa.timestamp("us", "UTC"))
    took = pa.array([micros]).cast(pa.duration("us"))
    (record,) = encoder(TYPES).encode(pa.StructArray.from_arrays([at, took], names=["at", "took"])).to_pylist()
    found = kind.FromString(record[len(FRAME) :])
    assert found.at.seconds * 10**6 + found.at.nanos // 1000 == micros and 0 <= found.at.nanos < 10**9
    assert found.took.seconds * 10**9 + found.took.nanos == micros * 1000
    assert found.took.seconds * found.took.nanos >= 0 and abs(found.took.nanos) < 10**9


SHOP = """syntax = "proto3"; package shop;
message Order {
  int64 id = 1; uint32 n = 2; uint64 big = 3; Kind kind = 4; repeated int32 lines = 5;
  oneof c { int32 a = 6; string b = 7; }
  repeated Item items = 8; map<string, int64> m = 9; Item item = 10; int32 small = 11;
  message Item { uint32 count = 1; }
}
enum Kind { NONE = 0; SOME = 1; }
message Loop { int32 a = 1; Loop next = 2; repeated Loop more = 3; }
"""


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([{"n": 1}, {"n": -1}], "value of row 1: field n: -1 is not a number from 0 to 4294967295"),
        ([{"n": 2**32}], "value of row 0: field n: 4294967296 is not a number"),
        ([{"big": Decimal(0)}, {"big": Decimal(-1)}], "value of row 1: field big: it is not a number from 0 to 1844"),
        ([{"big": Decimal(2**64)}], "value of row 0: field big: it is not a number from 0 to 1844"),
        ([{"kind": "SOME"}, {"kind": "OTHER"}], "row 1: field kind: it is none of the enum's symbols NONE, SOME$"),
        ([{"kind": "UNKNOWN_ENUM_VALUE_Kind_2147483648"}], "row 0: field kind: it is none of the enum's symbols"),
        ([{"kind": "UNKNOWN_ENUM_VALUE_Kind_"}], "row 0: field kind: it is none of the enum's symbols"),
        ([{"kind": "UNKNOWN_ENUM_VALUE_Kind_1x"}], "row 0: field kind: it is none of the enum's symbols"),
        ([{"lines": [1]}, {"lines": [1, None]}], r"row 1: field lines\[\]: it is null, and the schema has no null"),
        ([{"a": 1, "b": None}, {"a": 0, "b": ""}], "row 1: field c: 2 members of the oneof are not null"),
        ([{"items": [{"count": 1}, {"count": -5}]}], r"row 0: field items\[\].count: -5 is not a number from 0"),
        ([{"item": None}, {"item": {"count": -1}}], "row 1: field item.count: -1 is not a number from 0"),
        ([{"small": 1}, {"small": 2}, {"small": 2**31}], "value of row 2: field small: .*2147483648"),
        ([{"lines": [1]}, {"lines": []}, {"lines": [2**31]}, {"lines": None}], "value of row 2: field lines: .*21474"),
    ],
)
def test_a_value_that_does_not_fit_names_row_and_field(values: list[Any], message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        encoded(SHOP, values)


def test_a_null_in_a_map_names_row_and_field() -> None:
    kind = pa.struct([("m", pa.map_(pa.string(), pa.int64()))])
    with pytest.raises(SerializationError, match=r"row 1: field m\{\}: it is null"):
        encoded(SHOP, [{"m": [("k", 1)]}, {"m": [("k", None)]}], kind)


def test_a_required_field_of_proto2_cannot_be_null() -> None:
    text = 'syntax = "proto2"; message A { required int32 a = 1; optional bool b = 2; repeated int32 n = 3; }'
    assert encoded(text, [{"a": 0, "b": False, "n": [1, 2]}]) == [b"\x08\0\x10\0\x18\1\x18\2"]
    with pytest.raises(SerializationError, match="row 1: field a: it is null, and the schema has no null there"):
        encoded(text, [{"a": 1}, {"a": None}])
    with pytest.raises(SerializationError, match="row 0: field a: it is null"):
        encoded(text, [{"b": True}])


def test_unknown_values_of_an_enum_keep_their_number() -> None:
    """As the decoder names them."""
    names = ["SOME", "UNKNOWN_ENUM_VALUE_Kind_99", "UNKNOWN_ENUM_VALUE_Kind_-2147483648"]
    found = [class_of(SHOP).FromString(each).kind for each in encoded(SHOP, [{"kind": name} for name in names])]
    assert found == [1, 99, -(2**31)]


def test_lists_and_maps_that_are_missing_or_null_are_empty() -> None:
    kind = pa.struct([("id", pa.int64()), ("lines", pa.list_(pa.int32()))])
    assert encoded(SHOP, [{"id": 1, "lines": None}, {"id": None, "lines": []}, None], kind) == [b"\x08\1", b"", None]


def test_columns_are_cast_or_refused() -> None:
    kind = pa.struct(
        [
            ("id", pa.int8()),
            ("big", pa.uint64()),
            ("n", pa.uint16()),
            ("items", pa.list_(pa.struct([("count", pa.uint8())]))),
        ]
    )
    row = {"id": 1, "big": 2**64 - 1, "n": 5, "items": [{"count": 3}]}
    (found,) = encoded(SHOP, [row], kind)
    shop = class_of(SHOP)
    assert shop.FromString(found) == shop(**row)
    with pytest.raises(UsageError, match="the schema has no field nope"):
        encoded(SHOP, [{"nope": 1}])
    with pytest.raises(UsageError, match=r"the schema has no field items\[\]\.nope"):
        encoded(SHOP, [{"items": [{"nope": 1}]}])
    with pytest.raises(UsageError, match="cannot become"):
        encoded(SHOP, [1])


@pytest.mark.parametrize(
    ("name", "frame"), [("shop.Order", b"\0"), ("shop.Order.Item", b"\4\0\2"), ("shop.Loop", b"\2\2")]
)
def test_the_indexes_of_the_message_are_behind_the_id(name: str, frame: bytes) -> None:
    """The entry of the map is a message, too, the first one inside of the order."""
    encoding = encoder(SHOP, name, 3)
    found = encoding.encode(pa.array([{}], encoding.arrow_type)).to_pylist()
    assert found == [b"\0\0\0\0\1" + frame]


def test_a_message_inside_itself_is_refused_or_cut() -> None:
    with pytest.raises(UsageError, match=r"shop\.Loop contains itself.*recursive_field_max_depth"):
        encoder(SHOP, "shop.Loop")
    kind = pa.struct([("a", pa.int32()), ("next", pa.struct([("a", pa.int32())]))])
    (record,) = encoder(SHOP, "shop.Loop", 2).encode(pa.array([{"a": 1, "next": {"a": 2}}], kind)).to_pylist()
    assert record == b"\0\0\0\0\1\2\2" + b"\x08\1\x12\2\x08\2"


class Registry(StubRegistry):
    """Its schemas are Protobuf."""

    def schema_by_id(self, schema_id: int) -> Any:
        found = super().schema_by_id(schema_id)
        return type(found)(found.subject, found.version, found.id, None, Schema(found.schema.text, SchemaType.PROTOBUF))


def test_without_a_schema_it_is_derived_from_the_column_and_reads_as_the_same() -> None:
    at = datetime(2026, 11, 23, 12, 0, 0, 5, UTC)
    rows = [
        {"id": 0, "name": "", "at": at, "line": {"line": [{"n": 1.5}], "Line": None}, "tags": ["a", ""], "raw": b"\0"},
        {"id": None, "name": None, "at": None, "line": None, "tags": [], "raw": None},
    ]
    inner = pa.struct([("line", pa.list_(pa.struct([("n", pa.float32())]))), ("Line", pa.bool_())])
    kind = pa.struct(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("line", inner),
            ("tags", pa.list_(pa.string())),
            ("raw", pa.binary()),
        ]
    )
    registry = Registry()
    batch = pa.RecordBatch.from_arrays([pa.array(rows, kind)], ["value"])
    records = encode_arrow(batch, registry, topic="t", value="protobuf")
    assert "optional int64 id = 1;" in registry.schemas[0]
    back = decode_arrow(records, registry, value="protobuf").column("value")
    assert back.to_pylist() == rows
    encode_arrow(batch, registry, topic="t", value="protobuf")
    assert len(registry.schemas) == 1


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (pa.int64(), "a Protobuf record is a message, and the column is int64"),
        (pa.struct([("a", pa.date32())]), r"field a: Protobuf has no type for date32\[day\]; cast"),
        (pa.struct([("a", pa.list_(pa.list_(pa.int32())))]), r"field a\[\]: Protobuf has no type for list"),
        (pa.struct([("a b", pa.int32())]), "field 'a b': a Protobuf field has a name"),
        (pa.struct([("s", pa.struct([("ä", pa.int32())]))]), "field 's.ä': a Protobuf field has a name"),
        (pa.struct([("m", pa.map_(pa.float32(), pa.int32()))]), "field m: .*keys that are string.*not float"),
        (pa.struct([("m", pa.map_(pa.date32(), pa.int32()))]), "field m: Protobuf has no type for date32"),
    ],
)
def test_a_type_that_protobuf_lacks_is_refused(kind: pa.DataType, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        protobuf_schema_of(kind, "R")


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("int32", [0, -(2**31)]),
        ("sint32", [0, -1]),
        ("uint32", [0, 2**32 - 1]),
        ("fixed32", [0, 2**32 - 1]),
        ("sfixed64", [0, -(2**63)]),
        ("uint64", [Decimal(0), Decimal(2**64 - 1)]),
        ("bool", [False, True]),
        ("string", ["", "ä"]),
    ],
)
def test_keys_of_maps_have_their_types_and_come_back(name: str, keys: list[Any]) -> None:
    text = f'syntax = "proto3"; message A {{ map<{name}, string> m = 1; }}'
    rows = [{"m": [(key, str(key)) for key in keys]}, {"m": []}]
    encoding = encoder(text)
    records = encoding.encode(pa.array(rows, encoding.arrow_type))
    theirs = class_of(text).FromString(records[0].as_py()[len(FRAME) :])
    assert dict(theirs.m) == {int(key) if isinstance(key, Decimal) else key: str(key) for key in keys}
    registry = Registry()
    registry.schemas.append(text)
    back = decode_arrow(pa.RecordBatch.from_arrays([records], ["value"]), registry, value="protobuf")
    assert back.column("value").to_pylist() == rows
    assert back.column("value_error").null_count == 2


def test_an_entry_of_a_map_without_key_and_value_has_their_zeros() -> None:
    text = 'syntax = "proto3"; message A { map<int64, A> m = 1; int32 i = 2; }'
    registry = Registry()
    registry.schemas.append(text)
    batch = pa.RecordBatch.from_pydict({"value": [FRAME + b"\x0a\0"]})
    back = decode_arrow(batch, registry, value="protobuf", recursive_field_max_depth=2)
    assert back.column("value").to_pylist() == [{"m": [(0, {"i": None})], "i": None}]


def test_a_schema_of_another_language_is_refused() -> None:
    with pytest.raises(UsageError, match=re.escape("the schema is AVRO, and the column is encoded as protobuf")):
        ColumnEncoder("protobuf", 1, Texts(SchemaType.AVRO, '"long"'))
