"""Avro to Arrow: against fastavro on random schemas, on damaged bytes, and both implementations against each other."""

from __future__ import annotations

import datetime
import io
import json
import mmap
import struct
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kafkaraw.errors import BatchTooLargeError, DeserializationError, UsageError
from kafkaraw.schemas.arrow import _implementation, plain_decoding, plans
from kafkaraw.schemas.arrow import decode as decode_module
from kafkaraw.schemas.arrow.assembling import assemble
from kafkaraw.schemas.arrow.avro_plan import UnresolvedError, columns_of, program_for
from kafkaraw.schemas.arrow.avro_types import load
from kafkaraw.schemas.arrow.columns import Kind
from kafkaraw.schemas.arrow.decode import ColumnDecoder, decode_arrow
from kafkaraw.schemas.arrow.encode import encode_arrow
from kafkaraw.schemas.arrow.program import Fault, Op, explain
from kafkaraw.schemas.errors import (
    NotARegistryError,
    RegistryAuthorizationError,
    RegistryError,
    RegistryUnavailableError,
    SchemaReferenceError,
    SubjectNotFoundError,
)
from kafkaraw.schemas.model import RegisteredSchema, RuleSet, Schema, SchemaBundle, SchemaType
from tests.schemas.arrow.random_avro import Maker, varint
from tests.schemas.arrow.stub_registry import StubRegistry

SEEDS = range(120)


@pytest.fixture(params=["few", pytest.param("many", marks=pytest.mark.soak)])
def seeds(request: pytest.FixtureRequest) -> range:
    return SEEDS if request.param == "few" else range(SEEDS.stop, 2000)


IMPLEMENTATIONS = {
    _implementation.decoding.__name__.rpartition(".")[2]: _implementation.decoding,
    "plain_decoding": plain_decoding,
}


@pytest.fixture(params=sorted(IMPLEMENTATIONS))
def decoding(request: pytest.FixtureRequest) -> Any:
    return IMPLEMENTATIONS[request.param]


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + payload


def run(
    decoding: Any, writer: Any, reader: Any, payloads: list[bytes | None], recursion_max: int = 0
) -> tuple[Any, dict[int, str]]:
    """Decode payloads of one writer; return the array and the reasons of the bad ones."""
    readers = load(json.dumps(reader))
    columns = columns_of(readers, recursion_max)
    program = program_for(load(json.dumps(writer)), readers, columns)
    column = pa.array(payloads, pa.binary())
    decoder = decoding.Decoder(columns)
    validity, offsets, data = column.buffers()
    faults = decoder.decode(
        validity, offsets, data or b"", 0, len(column), bytes(4 * len(column)), [decoding.prepare(program)], [0]
    )
    array = assemble(columns, decoder.take())
    array.validate(full=True)
    return array, {
        row: explain(program, fault, node, position, detail, len(payloads[row]))
        for row, _, fault, node, position, detail in faults
    }


def comparable(value: Any) -> Any:
    """Return a value of Arrow or of fastavro in one form: members of unions as the value itself, moments as numbers."""
    match value:
        case dict():
            if value and all(name.startswith("member") for name in value):
                present = [each for each in value.values() if each is not None]
                return comparable(present[0]) if present else None
            return {name: comparable(each) for name, each in value.items()}
        case list() if value and all(isinstance(each, tuple) for each in value):
            return {key: comparable(each) for key, each in value}
        case list():
            return [comparable(each) for each in value]
        case float():
            return repr(value)
        case datetime.datetime():
            return value.isoformat()
        case Decimal():
            return value
    return value


def same(ours: Any, theirs: Any) -> bool:
    """Compare; an empty map of Arrow is an empty list."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, int) and isinstance(
        theirs, str
    ):  # fastavro prefers the first branch, Java and we the same type
        return repr(float(ours)) == theirs
    if isinstance(ours, bytes) and isinstance(theirs, str):
        return ours == theirs.encode()
    if isinstance(ours, str) and isinstance(theirs, bytes):
        return ours.encode() == theirs
    return ours == theirs or (ours == [] and theirs == {})


def read_with_fastavro(payload: bytes, writer: Any, reader: Any = None) -> Any:
    return fastavro.schemaless_reader(
        io.BytesIO(payload), fastavro.parse_schema(writer), None if reader is None else fastavro.parse_schema(reader)
    )


def test_random_records_equal_those_of_fastavro(decoding: Any, seeds: range) -> None:
    for seed in seeds:
        maker = Maker(seed)
        schema = maker.record()
        payloads = [maker.encode(schema) for _ in range(20)]
        array, reasons = run(decoding, schema, schema, payloads)
        assert not reasons, f"seed {seed}: {reasons}"
        for payload, ours in zip(payloads, array.to_pylist(), strict=True):
            theirs = read_with_fastavro(payload, schema)
            assert same(comparable(ours), comparable(theirs)), f"seed {seed}: {ours} {theirs} {json.dumps(schema)}"


def test_records_resolve_to_random_readers_as_in_fastavro(decoding: Any, seeds: range) -> None:
    for seed in seeds:
        maker = Maker(seed)
        writer = maker.record()
        reader = maker.reader_of(writer)
        payloads = [maker.encode(writer) for _ in range(8)]
        array, reasons = run(decoding, writer, reader, payloads)
        assert not reasons, f"seed {seed}: {reasons}"
        for payload, ours in zip(payloads, array.to_pylist(), strict=True):
            try:
                theirs = read_with_fastavro(payload, writer, reader)
            except UnicodeDecodeError:
                continue  # it takes the first branch of a union, a string, for bytes; Java and we take bytes
            assert same(comparable(ours), comparable(theirs)), (
                f"seed {seed}: {ours} {theirs} {json.dumps([writer, reader])}"
            )


def test_damaged_records_are_null_and_lose_no_other_record(decoding: Any, seeds: range) -> None:
    """Each second record is damaged; the others have the values that they have alone."""
    damaged_count = 0
    for seed in seeds:
        maker = Maker(seed)
        schema = maker.record()
        good = [maker.encode(schema) for _ in range(6)]
        expected = run(decoding, schema, schema, good)[0].to_pylist()
        mixed: list[bytes | None] = []
        for payload in good:
            changed = bytearray(payload)
            match maker.random.randrange(3):
                case 0:
                    del changed[maker.random.randrange(len(changed) + 1) :]
                case 1:
                    changed += maker.random.randbytes(3)
                case _:
                    for _ in range(3 if changed else 0):
                        changed[maker.random.randrange(len(changed))] = maker.random.randrange(256)
            mixed += [payload, bytes(changed)]
        array, reasons = run(decoding, schema, schema, mixed)
        assert array.take(list(range(0, len(mixed), 2))).to_pylist() == expected, f"seed {seed}"
        assert [row for row in range(len(mixed)) if not array[row].is_valid] == sorted(reasons), f"seed {seed}"
        damaged_count += len(reasons)
    assert damaged_count > 2 * len(seeds)


def test_both_implementations_have_the_same_columns_and_reasons(seeds: range) -> None:
    for seed in seeds:
        maker = Maker(seed)
        writer = maker.record()
        reader = maker.reader_of(writer)
        payloads: list[bytes | None] = [None]
        for _ in range(10):
            payload = bytearray(maker.encode(writer))
            payload += b"" if maker.random.random() < 0.8 else b"x"
            if payload and maker.random.random() < 0.6:
                payload[maker.random.randrange(len(payload))] ^= 1 << maker.random.randrange(8)
            payloads.append(bytes(payload))
        found = [run(each, writer, reader, payloads) for each in IMPLEMENTATIONS.values()]
        for array, reasons in found[1:]:
            assert array.equals(found[0][0]) or str(array) == str(found[0][0]), f"seed {seed}"  # NaN is no NaN
            assert reasons == found[0][1], f"seed {seed}"


@pytest.mark.parametrize(
    ("payload", "number"), [(b"\xff" * 9 + b"\x7f", -(2**63)), (b"\x81" + b"\x80" * 8 + b"\x02", -1)]
)
def test_bits_of_a_long_beyond_64_are_dropped_as_by_java(decoding: Any, payload: bytes, number: int) -> None:
    array, reasons = run(decoding, "long", "long", [payload])
    assert (array.to_pylist(), reasons) == ([number], {})


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        ("string", b"", "byte 0 of 0: 1 bytes are needed, 0 are left: the record is truncated or damaged"),
        (
            "string",
            varint(9) + b"abc",
            "byte 1 of 4: 9 bytes are needed, 3 are left: the record is truncated or damaged",
        ),
        ("string", varint(-4), "byte 0 of 1: a size of -4 is negative"),
        ("string", varint(2) + b"\xc3\x28", "byte 1 of 3: the string is not UTF-8"),
        ("string", varint(3) + b"\xed\xa0\x80", "byte 1 of 4: the string is not UTF-8"),
        ("long", b"\xff" * 10, "byte 0 of 10: a number does not end within ten bytes"),
        ("int", varint(2**31), "byte 0 of 5: the int 2147483648 does not fit 32 bits"),
        ("boolean", b"\2", "byte 0 of 1: a boolean is 2, it can be 0 or 1"),
        (["null", "int"], b"\4", "byte 0 of 1: the union has no branch 2"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2", "byte 1 of 1: the enum has no symbol 1"),
        ("int", b"\2\2", "byte 1 of 2: 1 bytes follow the record: it was written with another schema"),
        (
            {"type": "array", "items": "null"},
            varint(2**40),
            "byte 0 of 6: an array or map of 1099511627776 items is more than the record can hold",
        ),
        (
            {"type": "array", "items": "int"},
            varint(-(2**63)),
            "byte 0 of 10: an array or map of -9223372036854775808 items is more than the record can hold",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0},
            varint(1) + b"\x64",
            "byte 1 of 2: the decimal has more digits than its precision",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
            varint(17) + b"\0" + b"\xff" * 16,
            "byte 1 of 18: the decimal has more digits than its precision",
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            varint(2**60),
            f"byte 9 of 9: {2**60} milliseconds do not fit in microseconds",
        ),
    ],
)
def test_bad_bytes_have_a_reason_with_their_place(decoding: Any, schema: Any, payload: bytes, reason: str) -> None:
    array, reasons = run(decoding, schema, schema, [payload])
    assert array.to_pylist() == [None]
    assert reasons == {0: reason}


def test_a_skipped_recursive_value_is_bounded_in_depth(decoding: Any) -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    writer = {"type": "record", "name": "R", "fields": [{"name": "n", "type": node}, {"name": "a", "type": "int"}]}
    reader = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    array, reasons = run(decoding, writer, reader, [b"\2" * 20 + b"\0\x08", b"\2" * 100_000 + b"\0\x08"])
    assert array.to_pylist() == [{"a": 4}, None]
    assert reasons[1].endswith("values are nested more than 256 deep")


def test_a_recursive_record_is_refused_or_cut(decoding: Any) -> None:
    """As Spark's recursiveFieldMaxDepth."""
    fields = [{"name": "a", "type": "int"}, {"name": "next", "type": ["null", "N"]}]
    schema = {"type": "record", "name": "N", "fields": fields}
    with pytest.raises(UsageError, match="the record N contains itself"):
        columns_of(load(json.dumps(schema)))
    array, reasons = run(decoding, schema, schema, [b"\2\2\4\2\6\0"], recursion_max=2)
    assert not reasons
    assert array.to_pylist() == [{"a": 1, "next": {"a": 2}}]


@pytest.mark.parametrize(
    ("writer", "reader", "message"),
    [
        ("string", "int", "the writer's string is not the reader's int"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            "timestamp-millis is not the reader's timestamp-micros",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            r"decimal\(9,2\) is not the reader's decimal\(9,3\)",
        ),
        ("int", ["null", "string"], r"the writer's int is none of the reader's union \[null, string\]"),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "F", "size": 3},
            "fixed F of 2 bytes is not the reader's fixed F of 3 bytes",
        ),
        (
            {"type": "record", "name": "R", "fields": []},
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
            "field a: the writer does not have it, and the reader's schema has no default",
        ),
        (
            {"type": "record", "name": "R", "fields": []},
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]},
            'field a: the default "x" is not a int',
        ),
    ],
)
def test_a_schema_that_does_not_resolve_is_refused_before_decoding(writer: Any, reader: Any, message: str) -> None:
    readers = load(json.dumps(reader))
    with pytest.raises(UnresolvedError, match=message):
        program_for(load(json.dumps(writer)), readers, columns_of(readers))


def test_only_records_with_an_unresolved_branch_are_bad(decoding: Any) -> None:
    array, reasons = run(decoding, ["int", "string"], "long", [b"\0\x08", b"\2\2x"])
    assert array.to_pylist() == [4, None]
    assert reasons == {1: "byte 1 of 3: the writer's string is not the reader's long"}


def test_symbols_that_the_reader_lacks_become_its_default_or_are_bad(decoding: Any) -> None:
    writer = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    array, reasons = run(decoding, writer, {**writer, "symbols": ["B"]}, [b"\0", b"\2"])
    assert array.to_pylist() == [None, "B"]
    assert "neither the symbol number 0 of the writer nor a default" in reasons[0]
    array, reasons = run(decoding, writer, {**writer, "symbols": ["B", "C"], "default": "C"}, [b"\0", b"\2"])
    assert array.to_pylist() == ["C", "B"]


def test_a_schema_whose_columns_explode_is_refused() -> None:
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}
    for level in range(1, 30):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(UsageError, match="more than 10,000 columns"):
        columns_of(load(json.dumps(schema)))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"type":' * 100_000])
def test_a_deep_schema_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"nested more than 64 deep|not JSON"):
        load(text)


def test_the_constants_of_the_compiled_module_are_those_of_python() -> None:
    compiled = IMPLEMENTATIONS.get("_decoding")
    if compiled is None:
        pytest.skip("the compiled module is not there")
    assert compiled.NUMBERS["Kind"] == {each.name: each.value for each in Kind}
    assert compiled.NUMBERS["first and last"] == (min(Op), max(Op), min(Fault), max(Fault))


# -- decode_arrow

V1 = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
V2 = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "-"}],
}


def batch_of(values: list[bytes | None], **others: Any) -> Any:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **others})


def test_records_of_several_writers_resolve_to_the_newest_in_row_order() -> None:
    values = [framed(1, b"\2"), framed(2, b"\4\2x"), None, framed(1, b"\6"), framed(2, b"\x08\2y")]
    registry = StubRegistry(V1, V2)
    decoded = decode_arrow(batch_of(values), registry)
    assert decoded.column("value").to_pylist() == [
        {"id": 1, "note": "-"},
        {"id": 2, "note": "x"},
        None,
        {"id": 3, "note": "-"},
        {"id": 4, "note": "y"},
    ]
    assert decoded.column("value_error").null_count == 5
    assert sorted(registry.asked) == [1, 2]


def test_a_sliced_batch_and_a_table_of_chunks_decode_as_a_whole_one() -> None:
    whole = batch_of([framed(1, varint(n)) for n in range(50)] + [None], topic=["t"] * 51)
    expected = [{"id": n} for n in range(50)] + [None]
    assert decode_arrow(whole.slice(7, 44), StubRegistry(V1)).column("value").to_pylist() == expected[7:]
    table = pa.Table.from_batches([whole.slice(0, 20), whole.slice(20)])
    assert decode_arrow(table, StubRegistry(V1)).column("value").to_pylist() == expected
    large = whole.set_column(0, "value", whole.column("value").cast(pa.large_binary()))
    assert decode_arrow(large, StubRegistry(V1)).column("value").to_pylist() == expected


def test_bad_records_are_null_with_their_reason() -> None:
    values = [framed(1, b"\2"), b'{"id": 1}', framed(9, b"\2"), framed(1, b""), b"", framed(1, b"\4")]
    decoded = decode_arrow(batch_of(values), StubRegistry(V1))
    assert decoded.column("value").to_pylist() == [{"id": 1}, None, None, None, None, {"id": 2}]
    reasons = decoded.column("value_error").to_pylist()
    assert reasons[0] is None and reasons[5] is None
    assert reasons[1].startswith("it is not framed: 9 bytes that begin with 7b 22 69 64 22; framed ones begin with 00")
    assert reasons[2] == "the registry has no schema 9"
    assert reasons[3] == "byte 0 of 0, field id: 1 bytes are needed, 0 are left: the record is truncated or damaged"
    assert reasons[4].startswith("it is not framed: 0 bytes that begin with nothing")


def test_on_error_raise_names_topic_partition_and_offset() -> None:
    batch = batch_of([framed(1, b"\2"), b"x", b"y"], topic=["t"] * 3, partition=[4] * 3, offset=[7, 8, 9])
    with pytest.raises(
        DeserializationError, match=r"value of t-4 at offset 8: it is not framed.*1 more records"
    ) as caught:
        decode_arrow(batch, StubRegistry(V1), on_error="raise")
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 4, 8)
    assert decode_arrow(batch.slice(0, 1), StubRegistry(V1), on_error="raise").schema.names == [
        "value",
        "topic",
        "partition",
        "offset",
    ]


def test_a_writer_that_does_not_resolve_makes_its_records_bad_and_no_other() -> None:
    other = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}
    decoded = decode_arrow(
        batch_of([framed(1, b"\2"), framed(2, b"\2x")]), StubRegistry(V1, other), reader_schema=json.dumps(V1)
    )
    assert decoded.column("value").to_pylist() == [{"id": 1}, None]
    assert decoded.column("value_error")[1].as_py() == "schema 2: field id: the writer's string is not the reader's int"


def test_guids_in_front_of_the_bytes_are_found(decoding: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_module, "decoding", decoding)
    monkeypatch.setattr(plans, "decoding", decoding)
    plans.plan_for.cache_clear()
    known, unknown = (b"\1" + uuid.UUID(int=number).bytes for number in (7, 8))
    rows = [known + b"\2", framed(1, b"\4"), known[:-1], unknown + b"\2", known, b"\2" + known]
    decoded = decode_arrow(batch_of(rows), StubRegistry(V1))
    assert decoded.column("value").to_pylist() == [{"id": 1}, {"id": 2}, None, None, None, None]
    reasons = decoded.column("value_error").to_pylist()
    assert reasons[2].startswith("it is not framed: 16 bytes") and reasons[5].startswith("it is not framed")
    assert "no schema with the GUID" in reasons[3] and "byte 0 of 0" in reasons[4]
    plans.plan_for.cache_clear()


def test_headers_may_be_maps_and_other_types_are_refused() -> None:
    pair = ("__value_schema_id", b"\0\0\0\0\1")
    as_maps = pa.array([None, [pair], [("other", b"")], [pair]], pa.map_(pa.string(), pa.binary()))
    values = pa.array([None, b"\2", b"\4", b"\6"], pa.binary())
    batch = pa.RecordBatch.from_arrays([values, as_maps], ["value", "headers"])
    for first in range(4):
        decoded = decode_arrow(batch.slice(first), StubRegistry(V1)).column("value").to_pylist()
        assert decoded == [None, {"id": 1}, None, {"id": 3}][first:]
    for other in (pa.array(["a", "b", "c", "d"]), pa.array([[1]] * 4)):
        with pytest.raises(UsageError, match=r"the column headers is .*rename it, or leave it out"):
            decode_arrow(pa.RecordBatch.from_arrays([values, other], ["value", "headers"]), StubRegistry(V1))


def test_columns_of_other_types_or_with_names_that_are_taken_are_refused() -> None:
    value = pa.array([framed(1, b"\2")], pa.binary())
    for names, message in (
        (["value", "value"], "the batch has more than one column 'value'"),
        (["key", "other"], "the batch has no column 'value', its columns are key, other"),
        (["value", "value_error"], "the batch has a column 'value_error', the name of the reasons"),
    ):
        with pytest.raises(UsageError, match=message):
            decode_arrow(pa.RecordBatch.from_arrays([value, value], names), StubRegistry(V1))
    with pytest.raises(UsageError, match="the column is int64; framed records are binary"):
        decode_arrow(pa.RecordBatch.from_pydict({"value": [1]}), StubRegistry(V1))
    for kind in (pa.large_binary(), pa.binary_view(), pa.string(), pa.dictionary(pa.int32(), pa.binary())):
        found = decode_arrow(pa.RecordBatch.from_arrays([value.cast(kind)], ["value"]), StubRegistry(V1))
        assert found.column("value").to_pylist() == [{"id": 1}]


def test_ids_and_guids_in_headers_are_found() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    guid = {"key": "__value_schema_id", "value": b"\1" + uuid.UUID(int=7).bytes}
    number = {"key": "__value_schema_id", "value": b"\0" + struct.pack(">I", 1)}
    wrong = {"key": "__value_schema_id", "value": b"\7"}
    headers = pa.array([[{"key": "a", "value": b"b"}, guid], [number], None, [wrong], []], kind)
    batch = batch_of([b"\2", b"\4", framed(1, b"\6"), b"\2", framed(1, b"\x08")], headers=headers)
    decoded = decode_arrow(batch, StubRegistry(V1))
    assert decoded.column("value").to_pylist() == [{"id": 1}, {"id": 2}, {"id": 3}, None, {"id": 4}]
    assert decoded.column("value_error")[3].as_py() == (
        "its header for the schema has neither id nor GUID, it begins with 07"
    )


def test_items_behind_null_lists_of_headers_name_no_schema() -> None:
    items = pa.array([{"key": "__value_schema_id", "value": bytes([0, 0, 0, 0, at])} for at in (1, 2, 1)])
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), items, mask=pa.array([False, True, False]))
    decoded = decode_arrow(batch_of([b"\2", framed(1, b"\4"), b"\6"], headers=headers), StubRegistry(V1))
    assert decoded.column("value").to_pylist() == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_key_and_value_are_decoded_with_their_own_readers() -> None:
    batch = batch_of([framed(1, b"\2")], key=pa.array([framed(2, b"\2x")], pa.binary()))
    decoded = decode_arrow(batch, StubRegistry(V1, "string"), key="avro")
    assert decoded.to_pylist() == [{"value": {"id": 1}, "key": "x", "value_error": None, "key_error": None}]


def test_references_are_loaded_before_the_schema_that_uses_them() -> None:
    inner = {"type": "record", "name": "a.Inner", "fields": [{"name": "x", "type": "int"}]}
    outer = {"type": "record", "name": "a.Outer", "fields": [{"name": "i", "type": "a.Inner"}]}
    registry = StubRegistry(outer, references={"a.Inner": inner})
    assert decode_arrow(batch_of([framed(1, b"\2")]), registry).column("value").to_pylist() == [{"i": {"x": 1}}]


def test_records_of_a_schema_with_rules_are_bad_unless_these_are_ignored() -> None:
    class WithRules(StubRegistry):
        def schema_by_id(self, schema_id: int) -> RegisteredSchema:
            rules = RuleSet(domain_rules=({"name": "encrypt", "type": "ENCRYPT"},))
            return RegisteredSchema(None, None, schema_id, None, Schema(json.dumps(V1), rule_set=rules))

    batch = batch_of([framed(1, b"\2")])
    assert "encrypt (ENCRYPT)" in decode_arrow(batch, WithRules()).column("value_error")[0].as_py()
    assert decode_arrow(batch, WithRules(), ignore_rules=True).column("value").to_pylist() == [{"id": 1}]
    typed = pa.RecordBatch.from_pylist([{"value": {"id": 1}}])
    with pytest.raises(UsageError, match="has rules"):
        encode_arrow(typed, WithRules(V1), topic="t")


def test_a_registry_that_is_down_raises_instead_of_making_nulls() -> None:
    class Down(StubRegistry):
        def schema_by_id(self, schema_id: int) -> RegisteredSchema:
            raise RegistryUnavailableError("the registry http://localhost:1 cannot be reached")

    with pytest.raises(RegistryUnavailableError):
        decode_arrow(batch_of([framed(1, b"\2")]), Down())


@pytest.mark.parametrize("kind", [NotARegistryError, RegistryError, RegistryAuthorizationError])
def test_only_the_answer_that_there_is_no_schema_makes_nulls(kind: type[RegistryError]) -> None:
    """A load balancer that shows a page while the registry is down must not make good records null."""

    class Page(StubRegistry):
        def schema_by_id(self, schema_id: int) -> RegisteredSchema:
            raise kind("http://localhost:8081 answers with text/html: We are back soon")

    with pytest.raises(kind, match="back soon"):
        decode_arrow(batch_of([framed(1, b"\2")]), Page(), reader_schema=json.dumps(V1))


def test_a_writer_with_a_missing_or_circular_reference_makes_its_records_bad_and_no_other() -> None:
    class Missing(StubRegistry):
        error: Exception

        def bundle(self, schema: Schema) -> SchemaBundle:
            if schema.text == self.schemas[1]:
                raise self.error
            return super().bundle(schema)

    registry = Missing(V1, V2)
    for error in (SubjectNotFoundError("no subject a"), SchemaReferenceError("the references form a circle")):
        registry.error = error
        batch = batch_of([framed(1, b"\2"), framed(2, b"\4\2x")])
        decoded = decode_arrow(batch, registry, reader_schema=json.dumps(V1))
        assert decoded.column("value").to_pylist() == [{"id": 1}, None]
        assert decoded.column("value_error")[1].as_py() == f"schema 2: {error}"


def test_numbers_that_are_no_schema_id_do_not_reach_the_registry() -> None:
    registry = StubRegistry(V1)
    decoded = decode_arrow(batch_of([framed(1, b"\2"), framed(2**31, b"\2"), framed(2**32 - 1, b"")]), registry)
    assert decoded.column("value").to_pylist() == [{"id": 1}, None, None]
    assert "4294967295 is no schema id" in decoded.column("value_error")[2].as_py()
    assert registry.asked == [1]


def test_the_newest_schema_of_another_language_is_not_the_readers() -> None:
    class WithProtobuf(StubRegistry):
        def schema_by_id(self, schema_id: int) -> RegisteredSchema:
            if schema_id == 2:
                text = 'syntax = "proto3"; message M { int32 a = 1; }'
                return RegisteredSchema(None, None, 2, None, Schema(text, SchemaType.PROTOBUF))
            return super().schema_by_id(schema_id)

    decoded = decode_arrow(batch_of([framed(1, b"\2"), framed(2, b"\0\2")]), WithProtobuf(V1))
    assert decoded.column("value").to_pylist() == [{"id": 1}, None]
    assert "is PROTOBUF" in decoded.column("value_error")[1].as_py()


def test_a_column_of_more_than_2_gib_is_refused_whole() -> None:
    zeros = mmap.mmap(-1, 1_500 << 20)  # takes no memory until it is read
    offsets = pa.py_buffer(struct.pack("<ii", 0, len(zeros)))
    chunk = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(zeros)])
    values = pa.chunked_array([chunk, chunk])
    with pytest.raises(BatchTooLargeError, match="2 GiB"):
        decode_arrow(pa.table({"value": values}), StubRegistry(V1))
    decoder = ColumnDecoder(StubRegistry(V1), "avro")
    with pytest.raises(BatchTooLargeError, match="2 GiB"):
        decoder.decode(values)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "record", "name": "X", "fields": [{"name": "a"}]},
        {"type": "record", "name": "X", "fields": [1]},
        {"type": "record", "name": "X", "fields": 5},
        {"type": "record", "name": "X", "fields": [{"name": 5, "type": "int"}]},
        {"type": "record", "name": "X", "fields": [{"name": "a", "type": "int", "aliases": 7}]},
        {"type": "record", "name": "X", "aliases": [1], "fields": []},
        {"type": "record", "name": "X", "fields": [{"name": "a\ud800", "type": "int"}]},
        {"type": "enum", "name": "E", "symbols": 5},
        {"type": "enum", "name": "E", "symbols": ["\ud800"]},
        {"type": "fixed", "name": "F", "size": 2**70},
        {"type": []},
    ],
)
def test_a_schema_of_another_form_is_a_reason_as_writer_and_an_error_as_reader(schema: Any) -> None:
    """The registry refuses most of them; others may have been registered elsewhere."""
    registry = StubRegistry(V1, schema)
    decoded = decode_arrow(batch_of([framed(1, b"\2"), framed(2, b"\2")]), registry, reader_schema=json.dumps(V1))
    assert decoded.column("value").to_pylist() == [{"id": 1}, None]
    assert decoded.column("value_error")[1].as_py().startswith("schema 2: ")
    if schema != {"type": []}:  # a union of nothing
        with pytest.raises(UsageError, match="Avro schema"):
            decode_arrow(batch_of([framed(1, b"\2")]), registry, reader_schema=json.dumps(schema))


def test_recursion_is_bounded_before_python_does_it() -> None:
    inner = {"type": "record", "name": "X", "fields": [{"name": "n", "type": "X", "default": {}}]}
    reader = {"type": "record", "name": "R", "fields": [{"name": "x", "type": inner, "default": {}}]}
    batch = batch_of([framed(1, b"\2")])
    decoded = decode_arrow(batch, StubRegistry(V1), reader_schema=json.dumps(reader), recursive_field_max_depth=2)
    assert "contains itself without an end" in decoded.column("value_error")[0].as_py()
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    with pytest.raises(UsageError, match="nested more than 128 deep"):
        decode_arrow(batch, StubRegistry(V1), reader_schema=json.dumps(node), recursive_field_max_depth=1_000)
    chain = [
        {"type": "record", "name": f"C{at}", "fields": [{"name": "c", "type": f"C{at - 1}"}]} for at in range(2_000)
    ]
    chain[0]["fields"] = []
    writer = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "c", "type": "C1999"}]}
    decoded = decode_arrow(
        batch, StubRegistry(writer, references={"chain": chain}), reader_schema=Schema(json.dumps(V1))
    )
    assert "nested too deep" in decoded.column("value_error")[0].as_py()


def test_an_empty_batch_has_the_columns_of_the_reader() -> None:
    decoded = decode_arrow(batch_of([]), StubRegistry(V1), reader_schema=json.dumps(V2))
    assert decoded.num_rows == 0
    assert decoded.schema.field("value").type.names == ["id", "note"]
    assert decode_arrow(batch_of([None, b"x"]), StubRegistry()).column("value").type == pa.null()
