"""The Avro codec, compiled and plain, against fastavro: the same bytes, objects and branches of unions."""

from __future__ import annotations

import copy
import datetime
import decimal
import io
import json
import sys
import time
import uuid
from collections import OrderedDict, UserDict
from enum import Enum, StrEnum
from pathlib import Path

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaraw.schemas.serializers import _avro_codec, _no_cython
from kafkaraw.schemas.serializers.avro_codec import choose, plain_codec
from kafkaraw.schemas.serializers.avro_nodes import UnresolvableError, decoder, encoder
from tests.schemas.serializers import avro_cases

PLAIN = plain_codec()
CODECS = [PLAIN, _avro_codec] if _avro_codec.COMPILED else [PLAIN]
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=25)
LONG = settings(RELAXED, max_examples=5_000)


@pytest.fixture(params=CODECS, ids=["plain", "compiled"][: len(CODECS)])
def codec(request):
    return request.param


def test_without_its_source_the_codec_is_the_compiled_one(tmp_path):
    assert choose("python", tmp_path / "_avro_codec.py") is _avro_codec
    assert not choose("python", Path(_no_cython.__file__).with_name("_avro_codec.py")).COMPILED
    assert choose("native", tmp_path / "_avro_codec.py") is _avro_codec


def parsed(schema):
    return fastavro.parse_schema(copy.deepcopy(schema), _write_hint=False)


def by_fastavro(schema, value, **options):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value, **options)
    return out.getvalue()


def encode(codec, schema, value, strict=0):
    return codec.encode(encoder(schema, codec), value, b"", strict)


def decode(codec, writer, data, reader=None, **options):
    return codec.decode(decoder(writer, reader, codec=codec, **options), data)


@RELAXED
@given(st.data())
def test_bytes_and_objects_equal_those_of_fastavro(data):
    compare_with_fastavro(data)


@pytest.mark.soak
@pytest.mark.timeout(900)
@LONG
@given(st.data())
def test_bytes_and_objects_equal_those_of_fastavro_for_many_schemas(data):
    compare_with_fastavro(data)


def compare_with_fastavro(data):
    schema = parsed(data.draw(avro_cases.schemas()))
    value = data.draw(avro_cases.values(schema))
    expected = by_fastavro(schema, value)
    read = fastavro.schemaless_reader(io.BytesIO(expected), schema, None)
    for codec in CODECS:
        assert encode(codec, schema, value) == expected
        assert decode(codec, schema, expected) == read


@RELAXED
@given(st.data())
def test_values_that_may_not_fit_are_written_as_fastavro_does_or_refused(data):
    write_values_of_another_schema(data)


@pytest.mark.soak
@pytest.mark.timeout(900)
@LONG
@given(st.data())
def test_values_that_may_not_fit_are_written_as_fastavro_does_or_refused_for_many_schemas(data):
    write_values_of_another_schema(data)


def write_values_of_another_schema(data):
    """Where both write, the bytes are equal, so the chosen branches are, too."""
    schema = parsed(data.draw(avro_cases.schemas()))
    value = data.draw(avro_cases.values(parsed(data.draw(avro_cases.schemas()))))
    try:
        expected = by_fastavro(schema, value)
    except Exception:  # noqa: BLE001 - fastavro raises errors of many kinds
        expected = None
    outcomes = []
    for codec in CODECS:
        try:
            outcomes.append(encode(codec, schema, value))
        except codec.AvroMismatchError as error:
            outcomes.append(str(error))
    assert outcomes.count(outcomes[0]) == len(outcomes)
    if expected is not None and isinstance(outcomes[0], bytes):
        assert outcomes[0] == expected


@RELAXED
@given(st.data())
def test_damaged_bytes_end_in_a_mismatch_or_an_object(data):
    schema = parsed(data.draw(avro_cases.schemas()))
    good = by_fastavro(schema, data.draw(avro_cases.values(schema)))
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        if bad:
            bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    bad = bytes(bad[: data.draw(st.integers(0, len(bad)))])
    outcomes = []
    for codec in CODECS:
        try:
            outcomes.append(repr(decode(codec, schema, bad)))
        except codec.AvroMismatchError as error:
            outcomes.append(str(error))
    assert outcomes.count(outcomes[0]) == len(outcomes)


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
ORDER = parsed(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "lines", "type": {"type": "array", "items": {
                "type": "record", "name": "Line", "fields": [{"name": "price", "type": MONEY}]}}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
            {"name": "notes", "type": {"type": "map", "values": "string"}, "default": {}},
            {"name": "when", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
        ],
    }
)  # fmt: skip
GOOD = {"id": 1, "lines": [{"price": decimal.Decimal("1.50")}], "state": "NEW"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "x"}, "id: the schema has int here, and the value is 'x' (str)"),
        ({"id": 2**31}, "id: 2147483648 is outside of the range of int"),
        ({"id": 1.5}, "id: the schema has int here"),
        ({"lines": [{"price": decimal.Decimal("1.505")}]}, "lines[0].price: 1.505 has 3 digits behind the point"),
        ({"lines": [{"price": decimal.Decimal("1234.50")}]}, "lines[0].price: 1234.50 has 6 digits"),
        ({"lines": [{"price": decimal.Decimal("NaN")}]}, "lines[0].price: NaN is no number"),
        ({"lines": [{}]}, "lines[0].price: the value has no such field"),
        ({"lines": "ab"}, "lines: the schema has array here"),
        ({"lines": [3]}, "lines[0]: the schema has record shop.Line here"),
        ({"state": "OLD"}, "state: 'OLD' is no symbol of enum shop.State, which has NEW, DONE"),
        ({"notes": {"a": 1}}, "notes['a']: the schema has string here"),
        ({"notes": {1: "a"}}, "notes[1]: the schema has string (the key of a map) here"),
        ({"when": "today"}, "when: the schema has a union of null, long here"),
        ({"notes": {"a": "\ud800"}}, "notes['a']: the text has a lone surrogate"),
    ],
)
def test_mismatch_names_the_path_and_the_value(codec, change, message):
    with pytest.raises(codec.AvroMismatchError) as raised:
        encode(codec, ORDER, {**GOOD, **change})
    assert str(raised.value).startswith(message)


def test_strict_refuses_extra_and_missing_fields(codec):
    with pytest.raises(codec.AvroMismatchError, match="has no field 'extra'"):
        encode(codec, ORDER, {**GOOD, "extra": 1}, strict=1)
    with pytest.raises(codec.AvroMismatchError, match=r"notes: record shop\.Order needs this field"):
        encode(codec, ORDER, GOOD, strict=1)
    assert encode(codec, ORDER, GOOD, strict=2) == by_fastavro(ORDER, GOOD, strict_allow_default=True)
    assert encode(codec, ORDER, {**GOOD, "extra": 1}) == by_fastavro(ORDER, GOOD)


def test_other_kinds_of_objects_are_written_like_the_plain_ones(codec):
    class Plain(Enum):
        NEW = 1

    class Text(StrEnum):
        NEW = "NEW"

    expected = by_fastavro(ORDER, GOOD)
    for value in (OrderedDict(GOOD), UserDict(GOOD), {**GOOD, "state": Plain.NEW}, {**GOOD, "state": Text.NEW}):
        assert encode(codec, ORDER, value) == expected
    assert encode(codec, ORDER, {**GOOD, "lines": tuple(GOOD["lines"])}) == expected


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_naive_times_are_local_times_as_in_fastavro(codec, zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for unit in ("millis", "micros"):
            schema = parsed({"type": "long", "logicalType": f"timestamp-{unit}"})
            value = datetime.datetime(2026, 7, 1, 12, 30, 1, 123456)
            assert encode(codec, schema, value) == by_fastavro(schema, value)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_union_branches_by_tuple_and_by_type_key(codec):
    schema = parsed(["null", "string", {"type": "record", "name": "a.A", "fields": [{"name": "x", "type": "int"}]},
                     {"type": "record", "name": "a.B",
                      "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 0}]},
                     ])  # fmt: skip
    for value in (
        ("a.B", {"x": 1}),
        ("a.A", {"x": 1}),
        {"x": 1, "-type": "a.B"},
        {"x": 1, "y": 2},
        {"x": 1},
        "s",
        None,
    ):
        assert encode(codec, schema, value) == by_fastavro(schema, value)
    with pytest.raises(
        codec.AvroMismatchError, match=r"the union has no branch 'a\.C'; it has null, string, a\.A, a\.B"
    ):
        encode(codec, schema, ("a.C", {}))


def test_records_in_unions_can_be_returned_with_their_names(codec):
    schema = parsed(["null", {"type": "record", "name": "a.A", "fields": [{"name": "x", "type": "int"}]}])
    data = by_fastavro(schema, {"x": 1})
    assert decode(codec, schema, data, tagged=True) == ("a.A", {"x": 1})
    assert fastavro.schemaless_reader(io.BytesIO(data), schema, None, return_record_name=True) == ("a.A", {"x": 1})


def test_logical_types_can_stay_numbers(codec):
    data = by_fastavro(ORDER, {**GOOD, "when": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)})
    made = decode(codec, ORDER, data, logical_types=False)
    assert made["when"] == 1767225600000
    assert made["lines"] == [{"price": b"\x00\x96"}]


def test_a_fixed_of_16_bytes_is_a_uuid(codec):
    schema = parsed({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"})
    value = uuid.UUID(int=2**127 + 5)
    assert encode(codec, schema, value) == value.bytes
    assert decode(codec, schema, value.bytes) == value


# -- resolution


def record(*fields, name="R", **more):
    return parsed({"type": "record", "name": name, "fields": [dict(field) for field in fields], **more})


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", "long", 5, 5),
        ("int", "double", 5, 5.0),
        ("long", "float", 5, 5.0),
        ("string", "bytes", "ä", "ä".encode()),
        ("bytes", "string", b"ab", "ab"),
        ("int", ["null", "int"], 5, 5),
        (["null", "int"], "int", 5, 5),
        (["int", "string"], ["string", "long"], 5, 5),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, [1, 2], [1.0, 2.0]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": ["null", "int"]}, {"a": 1}, {"a": 1}),
    ],
)
def test_a_readers_type_resolves_the_writers(codec, writer, reader, value, expected):
    writer, reader = parsed(writer), parsed(reader)
    data = by_fastavro(writer, value)
    made = decode(codec, writer, data, reader)
    assert made == expected
    assert type(made) is type(expected)
    assert fastavro.schemaless_reader(io.BytesIO(data), writer, reader) == expected


@pytest.mark.parametrize(
    ("number", "single"),
    [
        (2**24 + 1, 2.0**24),
        (2**24 + 3, 2.0**24 + 4),
        (-(2**24) - 1, -(2.0**24)),
        (-(2**24) - 3, -(2.0**24) - 4),
        (2**60 + 2**36 + 1, 2.0**60 + 2**37),  # by way of a double it would be 2**60
        (2**63 - 1, 2.0**63),
        (-(2**63), -(2.0**63)),
    ],
)
def test_a_long_that_is_read_as_float_is_rounded_to_32_bits_as_in_java(codec, number, single):
    writer = parsed("long")
    assert decode(codec, writer, by_fastavro(writer, number), parsed("float")) == single


def test_a_readers_record_renames_skips_and_fills_fields(codec):
    writer = record(
        {"name": "a", "type": "int"}, {"name": "gone", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "old", "type": "string"}, {"name": "map", "type": {"type": "map", "values": "double"}},
    )  # fmt: skip
    reader = record(
        {"name": "new", "type": "string", "aliases": ["old"]}, {"name": "a", "type": "long"},
        {"name": "more", "type": {"type": "array", "items": "int"}, "default": [1]}, name="R",
    )  # fmt: skip
    data = by_fastavro(writer, {"a": 1, "gone": ["x", None], "old": "o", "map": {"k": 1.0}})
    first = decode(codec, writer, data, reader)
    assert first == {"a": 1, "new": "o", "more": [1]}
    assert fastavro.schemaless_reader(io.BytesIO(data), writer, reader) == first
    first["more"].append(2)
    assert decode(codec, writer, data, reader)["more"] == [1]  # a default is not shared


def test_defaults_of_bytes_and_logical_types_become_objects(codec):
    writer = record({"name": "a", "type": "int"})
    reader = record(
        {"name": "b", "type": "bytes", "default": "\u00ff"},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
    )
    assert decode(codec, writer, b"\x02", reader) == {
        "b": b"\xff",
        "t": datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
    }


def test_the_readers_enum_has_a_default_for_unknown_symbols(codec):
    writer = parsed({"type": "enum", "name": "E", "symbols": ["A", "B"]})
    reader = parsed({"type": "enum", "name": "E", "symbols": ["A", "C"], "default": "C"})
    assert decode(codec, writer, b"\x02", reader) == "C"
    with pytest.raises(codec.AvroMismatchError, match="does not have symbol 1 of the writer's, and no default"):
        decode(codec, writer, b"\x02", parsed({"type": "enum", "name": "E", "symbols": ["A", "C"]}))


@pytest.mark.parametrize(
    ("writer", "reader", "message"),
    [
        ("string", "int", "the reader's schema has int, the writer's string"),
        (record({"name": "a", "type": "int"}), record({"name": "b", "type": "int"}), "field 'b' without a default"),
        (
            record({"name": "a", "type": "int"}),
            record({"name": "a", "type": "string"}),
            "a: the reader's schema has string",
        ),
        (record(name="R"), record(name="S"), "the reader's schema has record S, the writer's record R"),
        ("string", ["null", "int"], "the reader's union has no branch for string"),
    ],
)
def test_schemas_that_cannot_be_resolved_are_refused_before_data_is_read(writer, reader, message):
    with pytest.raises(UnresolvableError) as raised:
        decoder(parsed(writer), parsed(reader))
    assert message in str(raised.value)


def test_a_branch_that_the_reader_lacks_fails_only_for_its_records(codec):
    writer, reader = parsed(["int", "string"]), parsed("long")
    assert decode(codec, writer, b"\x00\x04", reader) == 2
    with pytest.raises(codec.AvroMismatchError, match="the reader's schema cannot read string"):
        decode(codec, writer, b"\x02\x02a", reader)


def test_a_record_that_contains_itself_is_resolved(codec):
    fields = [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "R"], "default": None}]
    writer = record(*fields)
    reader = record({"name": "v", "type": "long"}, fields[1], {"name": "w", "type": "int", "default": 7})
    data = by_fastavro(writer, {"v": 1, "next": {"v": 2, "next": None}})
    assert decode(codec, writer, data, reader) == {"v": 1, "next": {"v": 2, "next": None, "w": 7}, "w": 7}


# -- hostile bytes and schemas


def varint(number):
    bits = (number << 1) ^ (number >> 63)
    made = bytearray()
    while bits > 127:
        made.append(bits & 127 | 128)
        bits >>= 7
    return bytes([*made, bits])


HUGE = varint(2**60)
NODE = record({"name": "next", "type": ["null", "R"]})
EMPTY = {"type": "record", "name": "Empty", "fields": [{"name": "n", "type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "data", "message"),
    [
        ("string", HUGE + b"x", "the length of a string is 1152921504606846976, and 1 bytes are left"),
        ("bytes", varint(-5), "the length of a bytes is -5"),
        ({"type": "array", "items": "null"}, HUGE + b"\0", "items that take no bytes; at most 100000"),
        ({"type": "array", "items": "null"}, (varint(99_999) * 5) + b"\0", "items that take no bytes"),
        ({"type": "array", "items": EMPTY}, HUGE + b"\0", "items that take no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, HUGE + b"\0", "that take no bytes"),
        ({"type": "array", "items": "long"}, HUGE + b"\2", "items of at least 1 bytes, and 1 bytes are left"),
        ({"type": "array", "items": "double"}, varint(3) + bytes(16), "items of at least 8 bytes"),
        ({"type": "array", "items": "long"}, varint(-(2**63)) + b"\0\0", "a block of the array has"),
        ({"type": "array", "items": "long"}, varint(-1) + HUGE, "a block of the array has 1152921504606846976 bytes"),
        ({"type": "map", "values": "null"}, HUGE + b"\0", "a block of the map has"),
        ("long", b"\xff" * 11, "more than 10 bytes"),
        ("long", b"\xff\xff", "the bytes end within a number"),
        ("int", varint(2**31), "which is outside of its range"),
        ("boolean", b"\2", "is 2, which is neither 0 nor 1"),
        ("boolean", b"", "the bytes end within a boolean"),
        ("double", bytes(7), "the bytes end within a double"),
        ("string", b"\2\xff", "is not UTF-8"),
        (["null", "int"], varint(2), "the union has 2 branches, and the record has branch 2"),
        (["null", "int"], varint(-1), "the record has branch -1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, varint(-1), "has 1 symbols, and the record has number -1"),
        (NODE, b"\2" * 100_000, "nested"),
        ("int", b"\2\2", "1 bytes are left behind the record"),
        ({"type": "long", "logicalType": "timestamp-millis"}, varint(2**62), "logical_types=False returns the number"),
        ({"type": "string", "logicalType": "uuid"}, b"\2x", "badly formed"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\4\x7f\xff", "more digits than"),
        ({**MONEY, "precision": 4000}, varint(99_999) + bytes(99_999), "has 99999 bytes"),
    ],
)  # fmt: skip
def test_hostile_bytes_are_refused_in_bounded_time_and_memory(codec, schema, data, message):
    schema = parsed(schema)
    began = time.process_time()
    with pytest.raises(codec.AvroMismatchError) as raised:
        decode(codec, schema, data)
    assert message in str(raised.value)
    assert time.process_time() - began < 1


def test_hostile_bytes_are_refused_while_they_are_skipped(codec):
    for part in ({"type": "array", "items": "null"}, {"type": "array", "items": "long"}, "string", NODE):
        writer = parsed({"type": "record", "name": "W", "fields": [{"name": "gone", "type": part}]})
        reader = parsed({"type": "record", "name": "W", "fields": []})
        data = b"\2" * 100_000 if part is NODE else HUGE + b"\0"
        with pytest.raises(codec.AvroMismatchError):
            decode(codec, writer, data, reader)


def doubling(levels, leaf):
    """Records of which each contains the one before twice: 2 ** levels of them without a byte of data."""
    made = {"type": "record", "name": "R0", "fields": leaf}
    for level in range(1, levels):
        fields = [{"name": "a", "type": made, "default": {}}, {"name": "b", "type": f"R{level - 1}", "default": {}}]
        made = {"type": "record", "name": f"R{level}", "fields": fields}
    return made


def test_a_schema_that_doubles_cannot_explode(codec):
    schema = parsed(doubling(40, []))
    began = time.process_time()
    with pytest.raises(codec.AvroMismatchError, match="records that take no bytes"):
        decode(codec, schema, b"")
    with pytest.raises(codec.AvroMismatchError, match="defaults expand to more than 10000 values"):
        encode(codec, schema, {})
    with pytest.raises((codec.AvroMismatchError, UnresolvableError)):
        decode(codec, record(name="W"), b"", record({"name": "x", "type": schema, "default": {}}, name="W"))
    assert time.process_time() - began < 5


def test_unions_within_unions_are_chosen_in_bounded_time(codec):
    """Each level fits the second branch only, and that is seen behind the field with all further levels."""
    inner = {
        "type": "record",
        "name": "B",
        "fields": [{"name": "x", "type": ["null", "A", "B"]}, {"name": "b", "type": "int"}],
    }
    outer = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "x", "type": ["null", "A", inner]}, {"name": "a", "type": "int"}],
    }
    schema = parsed({"type": "record", "name": "R", "fields": [{"name": "e", "type": ["null", outer, "B"]}]})
    value = None
    for _ in range(60):
        value = {"x": value, "b": 1}
    began = time.process_time()
    data = encode(codec, schema, {"e": value})
    assert decode(codec, schema, data) == {"e": value}
    with pytest.raises(codec.AvroMismatchError, match="defaults expand to more than 10000 values"):
        encode(codec, parsed(["null", "string", doubling(40, [])]), {})
    assert time.process_time() - began < 5


@pytest.mark.parametrize("value", [10**5000, [10**5000], {"a": 10**5000}], ids=["alone", "list", "map"])
@pytest.mark.parametrize("schema", ["int", "long", ["null", "long"], ["null", "string", "long"], "string"])
def test_numbers_that_cannot_be_shown_are_refused(codec, schema, value):
    with pytest.raises(codec.AvroMismatchError):
        encode(codec, parsed(schema), value)


def test_objects_that_contain_themselves_are_refused(codec):
    value = {"next": None}
    value["next"] = value
    with pytest.raises(codec.AvroMismatchError, match="nested"):
        encode(codec, NODE, value)
    schema = parsed({"type": "array", "items": ["null", "string", {"type": "array", "items": "string"}]})
    items = []
    items.append(items)
    with pytest.raises(codec.AvroMismatchError):
        encode(codec, schema, items)


def test_a_list_that_changes_while_it_is_written_is_refused(codec):
    schema = parsed({"type": "array", "items": record({"name": "a", "type": "int"})})
    items: list[object] = []

    class Growing(UserDict):
        def get(self, name, default=None):
            if len(items) < 3:
                items.append({"a": 2})
            return 1

    items.append(Growing())
    with pytest.raises(codec.AvroMismatchError, match="the list was changed while it was written"):
        encode(codec, schema, items)


def test_json_of_a_schema_from_the_registry_reads_the_same():
    schema = json.loads(json.dumps(ORDER))
    assert encode(CODECS[-1], schema, GOOD) == by_fastavro(ORDER, GOOD)


def test_the_plain_codec_needs_no_cython(monkeypatch):
    monkeypatch.setitem(sys.modules, "cython", None)
    plain = plain_codec()
    assert plain.cython is _no_cython
    assert not plain.COMPILED
    schema = parsed(["null", "double"])
    assert decode(plain, schema, encode(plain, schema, 1.5)) == 1.5
