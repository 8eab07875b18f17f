"""Serializers: which schema they use, when they ask the registry, framing, rules, errors; classes as records."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import gc
import json
from enum import Enum
from typing import Annotated, NotRequired, TypedDict

import pydantic
import pytest
from google.protobuf import descriptor_pool, struct_pb2

from kafkaraw.client.deserializers import DeserializationContext
from kafkaraw.client.serializers import SerializationContext
from kafkaraw.errors import ConfigError, SerializationError, UsageError
from kafkaraw.schemas.errors import FramingError, RegistryUnavailableError, SchemaParseError
from kafkaraw.schemas.framing import describe, read_frame, write_header, write_indexes, write_prefix
from kafkaraw.schemas.model import Metadata, RuleSet, Schema, SchemaReference, SchemaType
from kafkaraw.schemas.serializers import common
from kafkaraw.schemas.serializers.avro import AvroDeserializer, AvroSerializer
from kafkaraw.schemas.serializers.classes import json_schema_of, schema_of
from kafkaraw.schemas.serializers.common import UnreadableError
from kafkaraw.schemas.serializers.confluent_names import from_confluent
from kafkaraw.schemas.serializers.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from kafkaraw.schemas.serializers.protobuf import ProtobufDeserializer, ProtobufSerializer
from tests.schemas.serializers.protobuf_cases import F, classes_of, message, proto_file
from tests.schemas.serializers.registries import AsyncFakeRegistry, FakeRegistry

ORDER = '{"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}]}'
WIDER = (
    '{"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"},'
    ' {"name": "note", "type": "string", "default": "-"}]}'
)
VALUE = SerializationContext("orders", "value", [])
KEY = SerializationContext("orders", "key", [])
READ = DeserializationContext("orders", "value", [])


@pytest.fixture
def registry():
    return FakeRegistry()


def test_the_registry_is_asked_once_for_each_subject(registry):
    serializer, deserializer = AvroSerializer(registry, ORDER), AvroDeserializer(registry)
    for _ in range(3):
        data = serializer({"id": 5}, VALUE)
        assert data == b"\0\0\0\0\1\x0a"
        assert deserializer(data, READ) == {"id": 5}
        serializer({"id": 5}, KEY)
    assert registry.asked == {"register": 2, "schema_by_id": 1}
    assert sorted(registry.subjects) == ["orders-key", "orders-value"]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("topic", "orders-value"),
        ("record", "shop.Order"),
        ("topic-record", "orders-shop.Order"),
        (lambda context, name: f"{name}/{context.field}", "shop.Order/value"),
    ],
)
def test_subject_strategies(registry, subject, expected):
    AvroSerializer(registry, ORDER, subject=subject)({"id": 1}, VALUE)
    assert list(registry.subjects) == [expected]


def test_a_function_of_the_headers_chooses_the_subject_of_each_record(registry):
    serializer = AvroSerializer(registry, ORDER, subject=lambda context, name: dict(context.headers)["tenant"].decode())
    for tenant in (b"a", b"b", b"a"):
        serializer({"id": 1}, SerializationContext("orders", "value", [("tenant", tenant)]))
    assert list(registry.subjects) == ["a", "b"]
    assert registry.asked["register"] == 2


def test_a_schema_without_a_name_has_no_subject_by_record(registry):
    with pytest.raises(UsageError, match="has no name"):
        AvroSerializer(registry, '"string"', subject="record")("a", VALUE)


def test_without_registering_the_schema_must_be_there(registry):
    serializer = AvroSerializer(registry, ORDER, auto_register=False)
    with pytest.raises(Exception, match="Schema not found in orders-value"):
        serializer({"id": 1}, VALUE)
    registry.register("orders-value", Schema(ORDER))
    assert serializer({"id": 1}, VALUE) == b"\0\0\0\0\1\2"


def test_the_latest_version_an_id_or_metadata_select_a_registered_schema(registry):
    registry.register("orders-value", Schema(ORDER, metadata=Metadata(properties={"stage": "old"})))
    registry.register("orders-value", Schema(WIDER))
    assert AvroSerializer(registry, use_latest_version=True)({"id": 1}, VALUE) == b"\0\0\0\0\2\2\2-"
    assert AvroSerializer(registry, use_schema_id=1)({"id": 1}, VALUE) == b"\0\0\0\0\1\2"
    by_metadata = AvroSerializer(registry, ORDER, use_latest_with_metadata={"stage": "old"})
    assert by_metadata({"id": 1}, VALUE) == b"\0\0\0\0\1\2"
    assert registry.asked["register"] == 2


def test_the_latest_version_is_asked_for_again_and_kept_while_the_registry_is_down(registry, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(common.time, "monotonic", lambda: now[0])
    registry.register("orders-value", Schema(ORDER))
    serializer = AvroSerializer(registry, use_latest_version=True)
    deserializer = AvroDeserializer(registry, use_latest_version=True)
    old = serializer({"id": 1}, VALUE)
    assert deserializer(old, READ) == {"id": 1}
    registry.register("orders-value", Schema(WIDER))
    now[0] = 299
    assert serializer({"id": 1}, VALUE) == old
    now[0] = 301
    registry.failure = RegistryUnavailableError("down")
    assert serializer({"id": 1}, VALUE) == old
    assert deserializer(old, READ) == {"id": 1}
    registry.failure = None
    now[0] = 602
    assert serializer({"id": 1}, VALUE) == b"\0\0\0\0\2\2\2-"
    assert deserializer(old, READ) == {"id": 1, "note": "-"}


def test_header_framing_writes_the_guid_and_is_read_first(registry):
    headers = [("mine", b"1")]
    data = AvroSerializer(registry, ORDER, framing="header")(
        {"id": 5}, SerializationContext("orders", "value", headers)
    )
    assert data == b"\x0a"
    name, header = headers[1]
    assert name == "__value_schema_id"
    assert header == write_header(registry.by_id[1].guid)
    deserializer = AvroDeserializer(registry)
    context = DeserializationContext("orders", "value", headers)
    assert [deserializer(data, context) for _ in range(2)] == [{"id": 5}] * 2
    assert registry.asked["schema_by_guid"] == 1
    assert deserializer(header + data, READ) == {"id": 5}  # a GUID in front, as confluent-kafka reads it, too
    with_id = DeserializationContext("orders", "value", [("__value_schema_id", write_prefix(1))])
    assert deserializer(data, with_id) == {"id": 5}


def test_header_framing_needs_a_registry_that_sends_guids():
    serializer = AvroSerializer(FakeRegistry(sends_guids=False), ORDER, framing="header")
    with pytest.raises(SerializationError, match="sends no GUID for schema 1 of subject 'orders-value'"):
        serializer({"id": 1}, VALUE)


RULES = RuleSet(domain_rules=({"name": "hide", "type": "ENCRYPT", "kind": "TRANSFORM", "mode": "WRITEREAD"},))


def test_a_schema_with_rules_is_refused_unless_they_are_to_be_ignored(registry):
    registry.register("orders-value", Schema(ORDER, rule_set=RULES))
    with pytest.raises(SerializationError, match=r"has rules, which kafkaraw does not run: hide \(ENCRYPT\)"):
        AvroSerializer(registry, use_latest_version=True)({"id": 1}, VALUE)
    with pytest.raises(UnreadableError, match="stay encrypted"):
        AvroDeserializer(registry)(b"\0\0\0\0\1\2", READ)
    assert AvroSerializer(registry, use_latest_version=True, ignore_rules=True)({"id": 1}, VALUE) == b"\0\0\0\0\1\2"
    assert AvroDeserializer(registry, ignore_rules=True)(b"\0\0\0\0\1\2", READ) == {"id": 1}
    disabled = RuleSet(domain_rules=({**RULES.domain_rules[0], "disabled": True},))
    registry.register("other-value", Schema(ORDER, rule_set=disabled))
    context = SerializationContext("other", "value", [])
    assert AvroSerializer(registry, use_latest_version=True)({"id": 1}, context) is not None


def test_a_mismatch_names_field_schema_and_subject(registry):
    with pytest.raises(SerializationError) as raised:
        AvroSerializer(registry, ORDER)({"id": "x"}, VALUE)
    assert str(raised.value) == (
        "id: the schema has long here, and the value is 'x' (str) (Avro schema shop.Order, id 1, subject orders-value)"
    )


def test_a_schema_of_another_language_is_refused(registry):
    registry.register("orders-value", Schema("{}", SchemaType.JSON))
    with pytest.raises(SerializationError, match="is JSON, and AvroSerializer writes AVRO"):
        AvroSerializer(registry, use_latest_version=True)({}, VALUE)
    with pytest.raises(UnreadableError, match="is JSON, and AvroDeserializer reads AVRO"):
        AvroDeserializer(registry)(b"\0\0\0\0\1\2", READ)
    with pytest.raises(ConfigError, match="the schema is JSON, not AVRO"):
        AvroSerializer(registry, Schema("{}", SchemaType.JSON))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "pass the schema, or say which registered one"),
        ({"schema": ORDER, "use_latest_version": True, "auto_register": True}, "auto_register=True does not go with"),
        ({"use_latest_version": True, "use_schema_id": 1}, "give only one of"),
        ({"schema": ORDER, "framing": "suffix"}, "framing='suffix' is neither"),
        ({"schema": ORDER, "subject": "tipic"}, "subject='tipic' is no strategy; use 'topic'"),
        ({"schema": ORDER, "strict": "x"}, "strict='x'"),
        ({"schema": ORDER, "to_dict": 5}, "to_dict must be a function"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(registry, arguments, message):
    with pytest.raises(ConfigError, match=message):
        AvroSerializer(registry, **arguments)


def test_a_wrong_schema_is_refused_when_the_serializer_is_made(registry):
    with pytest.raises(SchemaParseError):
        AvroSerializer(registry, '{"type": "record", "name": "R"}')


def test_prepare_finds_faults_before_the_first_record(registry):
    assert AvroSerializer(registry, ORDER).prepare("orders").subject == "orders-value"
    assert AvroSerializer(registry, ORDER).prepare("orders", "key").subject == "orders-key"
    registry.failure = RegistryUnavailableError("down")
    with pytest.raises(RegistryUnavailableError):
        AvroSerializer(registry, ORDER).prepare("other")


def test_to_dict_and_from_dict_convert_objects(registry):
    serializer = AvroSerializer(registry, ORDER, to_dict=lambda number, context: {"id": number})
    deserializer = AvroDeserializer(registry, from_dict=lambda made, context: (context.topic, made["id"]))
    assert deserializer(serializer(7, VALUE), READ) == ("orders", 7)


# -- with AsyncRegistry


def test_a_hit_is_synchronous_and_a_miss_is_awaited_once():
    async def test():
        registry = AsyncFakeRegistry()
        serializer, deserializer = AvroSerializer(registry, ORDER), AvroDeserializer(registry)
        made = await asyncio.gather(*[serializer({"id": number}, VALUE) for number in range(5)])
        assert made[3] == b"\0\0\0\0\1\6"
        assert registry.asked["register"] == 1
        assert serializer({"id": 1}, VALUE) == b"\0\0\0\0\1\2"
        assert await deserializer(made[3], READ) == {"id": 3}
        assert deserializer(made[3], READ) == {"id": 3}
        assert (await AvroSerializer(registry, ORDER).prepare("more")).subject == "more-value"

    asyncio.run(test())


def test_a_cancelled_task_does_not_stop_the_look_up_of_others():
    async def test():
        registry = AsyncFakeRegistry()
        registry.gate = asyncio.Event()
        serializer = AvroSerializer(registry, ORDER)
        first, second = (asyncio.ensure_future(serializer({"id": 1}, VALUE)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        registry.gate.set()
        assert await second == b"\0\0\0\0\1\2"
        assert registry.asked["register"] == 1

    asyncio.run(test())
    gc.collect()


# -- framing


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "there are no bytes at all"),
        (b'{"id": 1}', "look like JSON text without framing"),
        (b" [1]", "look like JSON text"),
        (b"hello world", "look like plain text"),
        (b"\0\0\1", "begin like a prefix and end after 3 bytes"),
        (b"\x03\0" + bytes(16) + b"x", "AWS Glue's framing"),
        (b"\xc3\x01" + bytes(range(8)) + b"x", "single object encoding, with a fingerprint of the schema"),
        (b"Obj\x01", "look like an Avro file"),
        (b"\x08\x96\x01\x12\x07testing", "look like a Protobuf message"),
        (b"\xff\xfe\xfd\xfc\xfb", "bare Avro or another binary format"),
    ],
)
def test_bytes_without_framing_are_described(registry, data, message):
    with pytest.raises(FramingError) as raised:
        AvroDeserializer(registry)(data, READ)
    assert message in str(raised.value)
    assert "the bytes of the value have no schema id in front, and the record no header with one" in str(raised.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0\0\0\0\x63abc", "a schema with id 99, which the registry does not have: a producer with another registry"),
        (b"\0\0\0\0\0\0\0\0\7abc", "Apicurio's framing with an id of 8 bytes"),
    ],
)
def test_an_unknown_id_is_described(registry, data, message):
    with pytest.raises(FramingError) as raised:
        AvroDeserializer(registry)(data, READ)
    assert message in str(raised.value)


def test_a_damaged_header_is_described(registry):
    for header in (b"", b"\1abc", b"\2" + bytes(16), write_prefix(1) + b"x"):
        with pytest.raises(FramingError, match="the header of the bytes of the value"):
            AvroDeserializer(registry)(b"\2", DeserializationContext("t", "value", [("__value_schema_id", header)]))


def test_message_indexes_are_bounded():
    assert write_indexes([0]) == b"\0"
    assert write_indexes([1, 0]) == b"\4\2\0"
    assert read_frame(write_prefix(7, [2, 300]) + b"x", with_indexes=True).message_indexes == (2, 300)
    for indexes in (b"\xff\xff\xff\xff\x0f", b"\xca\x01", b"\1", b"\4\2", b"\2\xff\xff\xff\xff\xff\xff", b""):
        with pytest.raises(FramingError, match=r"Protobuf|message index"):
            read_frame(b"\0\0\0\0\1" + indexes, with_indexes=True)


def test_describing_is_bounded():
    assert "Protobuf" not in describe(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" * 100_000)


# -- JSON Schema

NESTED = '{"type": "object", "properties": {"lines": {"items": {"type": "integer"}}, "name": {"pattern": "^(a+)+$"}}}'


def test_json_schema_names_what_does_not_fit(registry):
    with pytest.raises(
        SerializationError, match=r'lines\[1\]: "x" is not of type "integer" \(JSON schema, id 1, subject'
    ):
        JsonSchemaSerializer(registry, NESTED)({"lines": [1, "x"]}, VALUE)
    with pytest.raises(UnreadableError, match="lines"):
        JsonSchemaDeserializer(registry)(b'\0\0\0\0\1{"lines": ["x"]}', READ)
    assert JsonSchemaDeserializer(registry, validate=False)(b'\0\0\0\0\1{"lines": ["x"]}', READ) == {"lines": ["x"]}


@pytest.mark.parametrize(
    "data",
    [
        b'{"lines": ' + b"[" * 100_000,
        b"1" * 5_000_000 + b"e",
        b'{"a": NaN}',
        b"\xff",
        b"",
        b'{"name": "' + b"a" * 40 + b'!"}',
    ],
)
def test_hostile_json_is_refused_in_bounded_time(registry, data):
    registry.register("orders-value", Schema(NESTED, SchemaType.JSON))
    with pytest.raises(UnreadableError):
        JsonSchemaDeserializer(registry)(b"\0\0\0\0\1" + data, READ)


def test_a_pattern_that_explodes_is_bounded(registry):
    text = r'{"type": "object", "properties": {"a": {"pattern": "^(?=(a+)+$)(a|aa)+b$"}}}'
    with pytest.raises(SerializationError):
        JsonSchemaSerializer(registry, text)({"a": "a" * 60}, VALUE)


def test_a_json_reference_to_a_url_is_not_fetched(registry):
    with pytest.raises((SchemaParseError, SerializationError, ValueError)):
        JsonSchemaSerializer(registry, '{"$ref": "http://127.0.0.1:9/schema.json"}')({}, VALUE)


# -- Protobuf


def test_protobuf_without_a_class_reads_by_the_writers_schema(registry):
    pool, file = (
        descriptor_pool.DescriptorPool(),
        proto_file("o.proto", "shop", [message("A"), message("B", [("id", F.TYPE_INT64, "", False)], [message("C")])]),
    )
    pool.Add(file)
    kinds = {kind.DESCRIPTOR.name: kind for kind in classes_of(pool, "o.proto")}
    deserializer = ProtobufDeserializer(registry)
    for kind, value, indexes in (("B", {"id": 5}, b"\2\2"), ("A", {}, b"\0"), ("C", {}, b"\4\2\0")):
        data = ProtobufSerializer(registry, kinds[kind])(value, VALUE)
        assert data[5 : 5 + len(indexes)] == indexes
        made = deserializer(data, READ)
        assert made.DESCRIPTOR.full_name == kinds[kind].DESCRIPTOR.full_name
        assert made.SerializeToString() == kinds[kind](**value).SerializeToString()
    with pytest.raises(UnreadableError, match=r"message indexes \[7\], and the schema has only 2 messages at the top"):
        deserializer(b"\0\0\0\0\1\2\x0e", READ)
    with pytest.raises(UnreadableError, match=r"message indexes \[1, 4\], and the schema has only 1 messages in"):
        deserializer(b"\0\0\0\0\1\4\2\x08", READ)


def test_protobuf_without_a_class_may_read_by_the_latest_schema(registry):
    old, new = (f'syntax = "proto3"; package p; message A {{ int32 x = 1;{more} }}' for more in ("", " int32 y = 2;"))
    written = registry.register("t-value", Schema(old, SchemaType.PROTOBUF))
    registry.register("t-value", Schema(new, SchemaType.PROTOBUF))
    data = write_prefix(written.id) + b"\0\x08\x07"
    context = DeserializationContext("t", "value", [])
    assert not hasattr(ProtobufDeserializer(registry)(data, context), "y")
    for subject in ("topic", lambda _, name: "t-value" if name == "p.A" else "x"):
        message = ProtobufDeserializer(registry, subject=subject, use_latest_version=True)(data, context)
        assert (message.x, message.y) == (7, 0)
    registry.register("t-value", Schema(new.replace(" A ", " B "), SchemaType.PROTOBUF))
    with pytest.raises(UnreadableError, match=r"a p\.A, which the latest version"):
        ProtobufDeserializer(registry, use_latest_version=True)(data, context)


def test_protobuf_refuses_other_messages_and_unknown_fields(registry):
    serializer = ProtobufSerializer(registry, struct_pb2.Struct)
    with pytest.raises(SerializationError, match=r"writes messages of google.protobuf.Struct, not Value; pass one"):
        serializer(struct_pb2.Value(), VALUE)
    with pytest.raises(SerializationError, match=r"message google.protobuf.Struct:"):
        serializer({"nothing": 5}, VALUE)
    with pytest.raises(ConfigError, match="is no class that protoc generates"):
        ProtobufSerializer(registry, dict)


@pytest.mark.parametrize("data", [b"\x0a\xff\xff\xff\xff\x0f", b"\x08", bytes([0x1A, 0x7F]) * 40, None])
def test_hostile_protobuf_is_refused(registry, data):
    serializer = ProtobufSerializer(registry, struct_pb2.Value)
    good = serializer(struct_pb2.Value(number_value=1), VALUE)
    if data is None:  # lists within lists, 500 deep
        data = b""
        for _ in range(500):
            inner = b"\x0a" + varint(len(data)) + data
            data = b"\x32" + varint(len(inner)) + inner
    with pytest.raises(UnreadableError, match=r"no message of google.protobuf.Value"):
        ProtobufDeserializer(registry, struct_pb2.Value)(good[:7] + data, READ)


def varint(number):
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


# -- classes


class Color(Enum):
    RED = "red"
    GREEN = "green"


@dataclasses.dataclass
class Line:
    sku: str
    price: Annotated[decimal.Decimal, {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]
    color: Color = Color.RED


@dataclasses.dataclass
class Order:
    id: int
    at: datetime.datetime
    lines: list[Line]
    by_name: dict[str, Line]
    note: str | None = None
    count: Annotated[int, {"type": "int"}] = 3
    tags: list[str] = dataclasses.field(default_factory=list)
    parent: Order | None = None


class Model(pydantic.BaseModel):
    id: int
    color: Color = Color.GREEN
    inner: InnerModel | None = None


class InnerModel(pydantic.BaseModel):
    names: list[str]


class Typed(TypedDict):
    id: int
    note: NotRequired[str]


LINE = Line("a", decimal.Decimal("1.50"), Color.GREEN)
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "value",
    [
        Order(1, AT, [LINE], {"x": LINE}, "n", 4, ["t"], Order(2, AT, [], {})),
        Order(1, AT, [], {}),
        Model(id=1, inner=InnerModel(names=["a"])),
        Line("b", decimal.Decimal("-0.01")),
    ],
)
def test_instances_of_classes_are_written_and_made_again(registry, value):
    kind = type(value)
    data = AvroSerializer(registry, kind)(value, VALUE)
    assert AvroDeserializer(registry, into=kind)(data, READ) == value


def test_the_schema_of_a_class():
    assert json.loads(schema_of(Line, namespace="shop").text) == {
        "type": "record",
        "name": "Line",
        "namespace": "shop",
        "fields": [
            {"name": "sku", "type": "string"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["red", "green"]}, "default": "red"},
        ],
    }
    assert json.loads(schema_of(Typed).text)["fields"] == [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ]


def test_a_reader_of_a_class_takes_records_of_an_older_schema(registry):
    @dataclasses.dataclass
    class Newer:
        id: int
        note: str = "-"

    old = '{"type": "record", "name": "Newer", "fields": [{"name": "id", "type": "int"}]}'
    data = AvroSerializer(registry, old)({"id": 1}, VALUE)
    assert AvroDeserializer(registry, into=Newer)(data, READ) == Newer(1, "-")


def test_a_class_whose_types_have_no_counterpart_is_refused():
    @dataclasses.dataclass
    class Bad:
        price: decimal.Decimal

    with pytest.raises(ConfigError, match=r"Bad.price: Decimal has no counterpart in Avro; annotate it"):
        schema_of(Bad)
    with pytest.raises(ConfigError, match="is neither a dataclass, nor a TypedDict, nor a pydantic model"):
        schema_of(int)


def test_an_instance_that_contains_itself_is_refused(registry):
    order = Order(1, AT, [], {})
    order.parent = order
    with pytest.raises(SerializationError, match="nested"):
        AvroSerializer(registry, Order)(order, VALUE)


ANY_DEPTH = (
    '{"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "object", "additionalProperties": {"$ref": "#"}},'
    ' {"type": "integer"}]}'
)


def nested(depth):
    made = 1
    for _ in range(depth):
        made = [made]
    return made


@pytest.mark.parametrize("encode", [None, json.dumps])
def test_json_that_is_nested_too_deep_or_contains_itself_is_refused(registry, encode):
    serializer = JsonSchemaSerializer(registry, ANY_DEPTH, encode=encode)
    assert serializer({"a": nested(200)}, VALUE).endswith(b"]}")
    endless = []
    endless.extend([endless, endless])
    for value in (nested(100_000), endless):
        with pytest.raises(SerializationError, match=r"nested more than 1024 deep, or contains itself"):
            serializer({"a": value}, VALUE)


@pytest.mark.parametrize("decode", [None, json.loads, lambda data: nested(100_000)])
def test_hostile_depth_of_json_is_refused(registry, decode):
    JsonSchemaSerializer(registry, ANY_DEPTH)({"a": 1}, VALUE)
    with pytest.raises(UnreadableError, match=r"depth|deep"):
        JsonSchemaDeserializer(registry, decode=decode)(b"\0\0\0\0\1" + b"[" * 100_000 + b"]" * 100_000, READ)


def test_integers_beyond_64_bits_are_refused_or_written_by_another_encoder(registry):
    with pytest.raises(SerializationError, match="64-bit"):
        JsonSchemaSerializer(registry, ANY_DEPTH)({"a": 2**70}, VALUE)
    data = JsonSchemaSerializer(registry, ANY_DEPTH, encode=json.dumps)({"a": 2**70}, VALUE)
    assert JsonSchemaDeserializer(registry, decode=json.loads)(data, READ) == {"a": 2**70}


@pytest.mark.parametrize("kind", [Line, Model, Typed])
def test_json_schemas_of_classes(registry, kind):
    value = {Line: LINE, Model: Model(id=1, inner=InnerModel(names=["a"])), Typed: {"id": 1}}[kind]
    assert json_schema_of(kind).schema_type is SchemaType.JSON
    data = JsonSchemaSerializer(registry, kind)(value, VALUE)
    into = None if kind is Line else kind  # a Decimal is text in JSON
    made = JsonSchemaDeserializer(registry, into=into)(data, READ)
    assert made == ({"sku": "a", "price": "1.50", "color": "green"} if kind is Line else value)


# -- names of confluent-kafka


def test_configurations_of_confluent_kafka():
    def topic_subject_name_strategy(context, name): ...

    def mine(context, name): ...

    assert from_confluent({"auto.register.schemas": False, "use.latest.version": True, "normalize.schemas": True}) == {
        "auto_register": False,
        "use_latest_version": True,
        "normalize": True,
    }
    assert from_confluent({"subject.name.strategy": topic_subject_name_strategy}) == {"subject": "topic"}
    assert from_confluent({"subject.name.strategy": mine}) == {"subject": mine}
    assert from_confluent({"subject.name.strategy.type": "RECORD", "use.schema.id": None}) == {"subject": "record"}
    assert from_confluent({"validate.strict": True, "validate.strict.allow.default": True}) == {"strict": True}
    assert from_confluent({"validate.strict.allow.default": True}) == {"strict": "allow-defaults"}
    assert from_confluent({"validate": False, "validation.rules.execution": "DISABLED"}) == {"validate": False}


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"auto.register.schema": True}, "the nearest one is 'auto.register.schemas'"),
        ({"auto.register.schemas": "yes"}, "auto.register.schemas must be of type bool"),
        ({"use.schema.id": True}, "use.schema.id must be of type int"),
        ({"subject.name.strategy.type": "NONE"}, "use TOPIC, RECORD, TOPIC_RECORD or ASSOCIATED"),
        ({"subject.name.strategy.conf": {"cluster": "x"}}, "strategy.conf has subject.name.strategy.kafka.cluster.id"),
        ({"schema.id.serializer": print}, "prefix_schema_id_serializer and header_schema_id_serializer"),
        ({"validation.rules.execution": "BEFORE_DOMAIN_RULES"}, "kafkaraw does not have this"),
    ],
)
def test_configurations_without_a_counterpart_are_refused(conf, message):
    with pytest.raises(ConfigError, match=message):
        from_confluent(conf)


def test_a_serializer_made_of_a_configuration_works(registry):
    registry.register("shop.Order", Schema(ORDER))
    conf = {"auto.register.schemas": False, "subject.name.strategy.type": "RECORD", "normalize.schemas": False}
    assert AvroSerializer(registry, ORDER, **from_confluent(conf))({"id": 1}, VALUE) == b"\0\0\0\0\1\2"


def test_references_are_fetched_when_the_serializer_is_first_used(registry):
    registry.register("item", Schema('{"type": "record", "name": "shop.Item", "fields": []}'))
    text = '{"type": "record", "name": "shop.Order", "fields": [{"name": "item", "type": "shop.Item"}]}'
    order = Schema(text, references=(SchemaReference("shop.Item", "item", 1),))
    data = AvroSerializer(registry, order, subject="record")({"item": {}}, VALUE)
    assert AvroDeserializer(registry, order)(data, READ) == {"item": {}}
    assert "shop.Order" in registry.subjects
