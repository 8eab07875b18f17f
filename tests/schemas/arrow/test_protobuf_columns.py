"""Protobuf to Arrow: against protobuf's own classes on random messages, and both implementations against each other."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from kafkaraw.errors import UsageError
from kafkaraw.schemas.arrow import _implementation, plain_decoding
from kafkaraw.schemas.arrow.assembling import assemble
from kafkaraw.schemas.arrow.decode import decode_arrow
from kafkaraw.schemas.arrow.program import explain
from kafkaraw.schemas.arrow.protobuf_plan import columns_of, program_for
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaBundle, SchemaType
from tests.schemas.arrow.random_avro import varint

SEEDS = range(60)
IMPLEMENTATIONS = [_implementation.decoding, plain_decoding]
F = descriptor_pb2.FieldDescriptorProto
NUMBERS = {
    F.TYPE_INT32: (-(2**31), 2**31 - 1),
    F.TYPE_SINT32: (-(2**31), 2**31 - 1),
    F.TYPE_SFIXED32: (-(2**31), 2**31 - 1),
    F.TYPE_UINT32: (0, 2**32 - 1),
    F.TYPE_FIXED32: (0, 2**32 - 1),
    F.TYPE_INT64: (-(2**63), 2**63 - 1),
    F.TYPE_SINT64: (-(2**63), 2**63 - 1),
    F.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    F.TYPE_UINT64: (0, 2**64 - 1),
    F.TYPE_FIXED64: (0, 2**64 - 1),
}
KEYS = [*NUMBERS, F.TYPE_BOOL, *[F.TYPE_STRING] * 8]
SCALARS = [*NUMBERS, F.TYPE_DOUBLE, F.TYPE_FLOAT, F.TYPE_BOOL, F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_ENUM]


class Messages:
    """Random message types and values from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.file = descriptor_pb2.FileDescriptorProto(name=f"f{seed}.proto", package="p", syntax="proto3")
        self.file.dependency.append("google/protobuf/timestamp.proto")
        enum = self.file.enum_type.add(name="E")
        for name, number in (("ZERO", 0), ("ONE", 1), ("MINUS", -7)):
            enum.value.add(name=name, number=number)
        self.message("M", 3)
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
        pool.Add(self.file)
        self.pool = pool
        self.descriptor = pool.FindMessageTypeByName("p.M")

    def message(self, name: str, depth: int) -> None:
        made = descriptor_pb2.DescriptorProto(name=name)
        r = self.random
        for number in r.sample([1, 2, 3, 15, 16, 2047, 536870911, 40, 41, 42], r.randint(1, 7)):
            field = made.field.add(name=f"f{number}", number=number, label=F.LABEL_OPTIONAL)
            if r.random() < 0.3:
                field.label = F.LABEL_REPEATED
            if depth > 1 and r.random() < 0.3:
                inner = f"{name}_{number}"
                self.message(inner, depth - 1)
                field.type, field.type_name = F.TYPE_MESSAGE, f".p.{inner}"
            elif r.random() < 0.1:
                field.type, field.type_name = F.TYPE_MESSAGE, ".google.protobuf.Timestamp"
            else:
                field.type = r.choice(SCALARS)
                if field.type == F.TYPE_ENUM:
                    field.type_name = ".p.E"
                if field.label == F.LABEL_OPTIONAL and r.random() < 0.3:
                    if not made.oneof_decl:
                        made.oneof_decl.add(name="choice")
                    field.oneof_index = 0
        if r.random() < 0.4:
            entry = made.nested_type.add(name="MapEntry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=r.choice(KEYS), label=F.LABEL_OPTIONAL)
            kind = r.choice([F.TYPE_INT64, F.TYPE_STRING, F.TYPE_ENUM])
            value = entry.field.add(name="value", number=2, type=kind, label=F.LABEL_OPTIONAL)
            if kind == F.TYPE_ENUM:
                value.type_name = ".p.E"
            made.field.add(
                name="map", number=77, type=F.TYPE_MESSAGE, label=F.LABEL_REPEATED, type_name=f".p.{name}.MapEntry"
            )
        self.file.message_type.append(made)

    def value(self, descriptor: Any) -> Any:
        made = message_factory.GetMessageClass(descriptor)()
        for field in descriptor.fields:
            if self.random.random() < 0.3:
                continue
            holder = getattr(made, field.name)
            if field.name == "map":
                key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
                for _ in range(self.random.randint(0, 3)):
                    holder[self.scalar(key)] = self.scalar(value)
            elif field.is_repeated:
                for _ in range(self.random.randint(0, 4)):
                    if field.message_type is None:
                        holder.append(self.scalar(field))
                    else:
                        holder.add().CopyFrom(self.nested(field.message_type))
            elif field.message_type is not None:
                holder.CopyFrom(self.nested(field.message_type))
            else:
                setattr(made, field.name, self.scalar(field))
        return made

    def nested(self, descriptor: Any) -> Any:
        if descriptor.full_name != "google.protobuf.Timestamp":
            return self.value(descriptor)
        kind = message_factory.GetMessageClass(descriptor)
        return kind(seconds=self.random.randint(-(10**9), 2 * 10**9), nanos=self.random.randint(0, 999_999) * 1000)

    def scalar(self, field: Any) -> Any:
        r = self.random
        if field.type in NUMBERS:
            low, high = NUMBERS[field.type]
            return r.choice([0, 1, low, high, r.randint(low, high)])
        match field.type:
            case F.TYPE_BOOL:
                return r.random() < 0.5
            case F.TYPE_STRING:
                return "".join(r.choices("abäß漢😀", k=r.choice([0, 1, 20])))
            case F.TYPE_BYTES:
                return r.randbytes(r.choice([0, 3, 40]))
            case F.TYPE_ENUM:
                return r.choice([0, 1, -7, 99])
        return r.choice([0.0, -0.5, 1.25, 2.0**40])


def expected(message: Any) -> Any:
    """What a message is in columns."""
    if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
        return message.seconds * 10**6 + message.nanos // 1000
    present = {field.name: value for field, value in message.ListFields()}
    found = {}
    for field in message.DESCRIPTOR.fields:
        value = present.get(field.name)
        if field.name == "map":
            kind, item = (field.message_type.fields_by_number[number] for number in (1, 2))
            found[field.name] = {plain(kind, key): plain(item, each) for key, each in (value or {}).items()}
        elif field.is_repeated:
            found[field.name] = [plain(field, each) for each in value or ()]
        else:
            found[field.name] = None if value is None else plain(field, value)
    return found


def plain(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return expected(value)
    if field.type == F.TYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else f"UNKNOWN_ENUM_VALUE_E_{value}"
    if field.type in (F.TYPE_UINT64, F.TYPE_FIXED64):
        return Decimal(value)
    return value


def seen(value: Any) -> Any:
    match value:
        case dict():
            return {name: dict(each) if name == "map" else seen(each) for name, each in value.items()}
        case list():
            return [seen(each) for each in value]
    return round(value.timestamp() * 10**6) if hasattr(value, "timestamp") else value


def run(decoding: Any, descriptor: Any, payloads: list[bytes], recursion_max: int = 0) -> tuple[Any, dict[int, str]]:
    columns = columns_of(descriptor, recursion_max)
    program = program_for(descriptor, columns)
    column = pa.array(payloads, pa.binary())
    decoder = decoding.Decoder(columns)
    validity, offsets, data = column.buffers()
    faults = decoder.decode(
        validity, offsets, data, 0, len(column), bytes(4 * len(column)), [decoding.prepare(program)], [0]
    )
    array = assemble(columns, decoder.take())
    array.validate(full=True)
    return array, {
        row: explain(program, fault, node, position, detail, len(payloads[row]))
        for row, _, fault, node, position, detail in faults
    }


@pytest.mark.parametrize("decoding", IMPLEMENTATIONS)
def test_random_messages_equal_those_of_protobuf(decoding: Any) -> None:
    for seed in SEEDS:
        maker = Messages(seed)
        values = [maker.value(maker.descriptor) for _ in range(15)]
        array, reasons = run(decoding, maker.descriptor, [each.SerializeToString() for each in values])
        assert not reasons, f"seed {seed}"
        for ours, theirs in zip(array.to_pylist(), values, strict=True):
            assert seen(ours) == expected(theirs), f"seed {seed}"


@pytest.mark.parametrize("decoding", IMPLEMENTATIONS)
def test_damaged_messages_lose_no_other_and_are_what_protobuf_reads(decoding: Any) -> None:
    """A damaged message is bad, or has the values that protobuf reads."""
    bad_count = read_count = 0
    for seed in SEEDS:
        maker = Messages(seed)
        kind = message_factory.GetMessageClass(maker.descriptor)
        good = [maker.value(maker.descriptor) for _ in range(6)]
        mixed: list[bytes] = []
        for each in good:
            changed = bytearray(each.SerializeToString())
            for _ in range(2 if changed else 0):
                changed[maker.random.randrange(len(changed))] = maker.random.randrange(256)
            mixed += [
                each.SerializeToString(),
                bytes(changed[: maker.random.choice([len(changed), len(changed) // 2])]),
            ]
        array, reasons = run(decoding, maker.descriptor, mixed)
        assert not [row for row in reasons if row % 2 == 0], f"seed {seed}: {reasons}"
        for row, payload in enumerate(mixed):
            if row in reasons:
                assert not array[row].is_valid
                bad_count += 1
                continue
            theirs = kind()
            theirs.ParseFromString(payload)  # raises if we read what protobuf refuses
            if "f" not in str(array.type) or "timestamp" not in str(array.type):
                assert seen(array[row].as_py()) == expected(theirs) or "nan" in str(theirs), f"seed {seed} row {row}"
            read_count += row % 2
    assert bad_count > len(SEEDS) and read_count > len(SEEDS)


def test_both_implementations_have_the_same_columns_and_reasons() -> None:
    for seed in SEEDS:
        maker = Messages(seed)
        payloads = []
        for _ in range(10):
            payload = bytearray(maker.value(maker.descriptor).SerializeToString())
            if payload:
                payload[maker.random.randrange(len(payload))] ^= 1 << maker.random.randrange(8)
            payloads.append(bytes(payload))
        (ours, our_reasons), (theirs, their_reasons) = (
            run(each, maker.descriptor, payloads) for each in IMPLEMENTATIONS
        )
        assert our_reasons == their_reasons, f"seed {seed}"
        assert ours.equals(theirs) or str(ours) == str(theirs), f"seed {seed}"


PROTO = """syntax = "proto3"; package shop;
message Order { int64 id = 1; string name = 2; repeated int32 lines = 3; message Inner { bool b = 1; } }
message Other { string text = 1; }
message Loop { int32 a = 1; Loop next = 2; }
"""


class OneFile:
    """A registry with one Protobuf schema."""

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        return RegisteredSchema("t-value", 1, schema_id, None, Schema(PROTO, SchemaType.PROTOBUF))

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        return self.schema_by_id(1)

    def bundle(self, schema: Schema) -> SchemaBundle:
        return SchemaBundle(schema)


def test_framed_messages_are_found_by_their_indexes() -> None:
    prefix = b"\0\0\0\0\1"
    order = b"\x08\5\x12\1x\x1a\2\1\2"
    values = [prefix + b"\0" + order, prefix + varint(1) + varint(0) + order, prefix + varint(1) + varint(1) + b"\n\1t"]
    values += [prefix + varint(1) + varint(9), prefix + b"\xff\xff\xff\xff\xff", prefix]
    decoded = decode_arrow(pa.RecordBatch.from_pydict({"value": values}), OneFile(), value="protobuf")
    found = {"id": 5, "name": "x", "lines": [1, 2]}
    assert decoded.column("value").to_pylist() == [found, found, None, None, None, None]
    reasons = decoded.column("value_error").to_pylist()
    assert reasons[2] == "schema 1: the message is shop.Other, and the columns are those of shop.Order"
    assert reasons[3] == "schema 1: the schema has no message with the indexes [9]"
    assert reasons[4].startswith("it is not framed") and reasons[5].startswith("it is not framed")


def test_a_message_inside_itself_is_refused_or_cut() -> None:
    from kafkaraw.schemas.languages import parse

    file = parse(SchemaBundle(Schema(PROTO, SchemaType.PROTOBUF))).native
    loop = file.message_types_by_name["Loop"]
    with pytest.raises(UsageError, match=r"shop\.Loop contains itself"):
        columns_of(loop)
    array, reasons = run(_implementation.decoding, loop, [b"\x08\1\x12\4\x08\2\x12\0"], recursion_max=2)
    assert not reasons
    assert array.to_pylist() == [{"a": 1, "next": {"a": 2}}]
