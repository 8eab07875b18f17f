"""Our serializers and confluent-kafka's write the same bytes, and read each other's, over one registry."""

from __future__ import annotations

import datetime
import json
import uuid
import warnings

import pytest
from google.protobuf import descriptor_pool, timestamp_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaraw.client.deserializers import DeserializationContext
from kafkaraw.client.serializers import SerializationContext
from kafkaraw.schemas.model import Schema, SchemaReference, SchemaType
from kafkaraw.schemas.serializers.avro import AvroDeserializer, AvroSerializer
from kafkaraw.schemas.serializers.confluent_names import from_confluent
from kafkaraw.schemas.serializers.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from kafkaraw.schemas.serializers.protobuf import ProtobufDeserializer, ProtobufSerializer
from tests.schemas.serializers import avro_cases
from tests.schemas.serializers.protobuf_cases import F, classes_of, files, fill, message, proto_file
from tests.schemas.serializers.registries import ConfluentRegistry, theirs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # authlib's, about httpx
    from confluent_kafka import schema_registry as confluent
    from confluent_kafka.schema_registry import avro as confluent_avro
    from confluent_kafka.schema_registry import json_schema as confluent_json
    from confluent_kafka.schema_registry import protobuf as confluent_protobuf
    from confluent_kafka.serialization import SerializationContext as ConfluentContext

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=20)
HEADER = {"schema.id.serializer": confluent.header_schema_id_serializer}


def registry():
    return confluent.SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4()}"})


def compare(ours, theirs_ser, our_reader, their_reader, value, same=lambda value: value):
    """Both write the value; the bytes and headers are equal, and both read them."""
    our_headers, their_headers = [], []
    made = ours(value, SerializationContext("orders", "value", our_headers))
    expected = theirs_ser(value, ConfluentContext("orders", "value", their_headers))
    assert made == expected
    assert our_headers == their_headers
    read = our_reader(made, DeserializationContext("orders", "value", our_headers))
    their_context = ConfluentContext("orders", "value", our_headers)
    if len(made) > 5 or our_headers == []:
        assert same(read) == same(their_reader(made, their_context))
    return read


@RELAXED
@given(st.data())
@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_avro(framing, data):
    schema = data.draw(avro_cases.schemas())
    value = data.draw(avro_cases.values(schema).filter(lambda value: value is not None))
    text, client = json.dumps(schema), registry()
    their_conf = HEADER if framing == "header" else {}
    their_writer = confluent_avro.AvroSerializer(client, text, conf=their_conf)
    our_writer = AvroSerializer(ConfluentRegistry(client), their_writer._schema.schema_str, framing=framing)
    our_headers, their_headers = [], []
    made = our_writer(value, SerializationContext("orders", "value", our_headers))
    assert made == their_writer(value, ConfluentContext("orders", "value", their_headers))
    assert our_headers == their_headers
    context = DeserializationContext("orders", "value", our_headers)
    read = AvroDeserializer(ConfluentRegistry(client))(made, context)
    if len(made) > 5:  # theirs refuses records that take no bytes
        their_reader = confluent_avro.AvroDeserializer(client)
        assert read == their_reader(made, ConfluentContext("orders", "value", our_headers))


def test_avro_with_references():
    client = registry()
    item = Schema('{"type": "record", "name": "shop.Item", "fields": [{"name": "sku", "type": "string"}]}')
    version = ConfluentRegistry(client).register("item", item).version
    order = Schema(
        '{"type": "record", "name": "shop.Order", "fields": [{"name": "item", "type": "shop.Item"},'
        ' {"name": "gift", "type": ["null", "Item"], "default": null}]}',
        references=(SchemaReference("shop.Item", "item", version),),
    )
    read = compare(
        AvroSerializer(ConfluentRegistry(client), order),
        confluent_avro.AvroSerializer(client, theirs(order)),
        AvroDeserializer(ConfluentRegistry(client)),
        confluent_avro.AvroDeserializer(client),
        {"item": {"sku": "a"}, "gift": {"sku": "b"}},
    )
    assert read == {"item": {"sku": "a"}, "gift": {"sku": "b"}}


@pytest.mark.parametrize("text", ['"string"', '"bytes"', '{"type": "bytes"}', "string", '"long"', '["null", "int"]'])
def test_avro_schemas_that_are_no_records(text):
    client = registry()
    value = {"bytes": b"ab", "string": "ab", "long": 5}.get(text.strip('"'), b"ab" if "bytes" in text else 5)
    theirs_text = text if text[0] in '{["' else f'"{text}"'
    their_writer = confluent_avro.AvroSerializer(client, theirs_text)
    compare(
        AvroSerializer(ConfluentRegistry(client), their_writer._schema.schema_str),
        their_writer,
        AvroDeserializer(ConfluentRegistry(client)),
        confluent_avro.AvroDeserializer(client),
        value,
    )
    assert AvroSerializer(ConfluentRegistry(client), text).schema_type is SchemaType.AVRO


def test_an_avro_readers_schema_resolves_as_theirs_does():
    client = registry()
    old = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}'
    new = (
        '{"type": "record", "name": "R", "fields": [{"name": "c", "type": ["null", "long"], "default": null},'
        ' {"name": "a", "type": "double"}]}'
    )
    compare(
        AvroSerializer(ConfluentRegistry(client), old),
        confluent_avro.AvroSerializer(client, old),
        AvroDeserializer(ConfluentRegistry(client), new),
        confluent_avro.AvroDeserializer(client, new),
        {"a": 5, "b": "x"},
    )


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | avro_cases.TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(avro_cases.TEXT, inner, max_size=3),
    max_leaves=8,
)
PARTS = st.sampled_from(
    [{"type": "string", "maxLength": 5}, {"type": "integer", "minimum": 0}, {"type": ["number", "null"]},
     {"enum": ["a", 1, None]}, {"const": 3},
     {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, {"oneOf": [{"type": "null"}, {"type": "string"}]},
     {"type": "object", "additionalProperties": {"type": "integer"}}, {"pattern": "^[a-z]*$", "type": "string"},
     {"format": "date-time"}, {"multipleOf": 2}, {"$ref": "#/definitions/small"}, True, {"not": {"type": "string"}}]
)  # fmt: skip


@RELAXED
@given(
    st.dictionaries(st.sampled_from("abc"), PARTS, max_size=3),
    st.lists(st.sampled_from("abc"), unique=True),
    st.dictionaries(st.sampled_from("abcd"), JSON_VALUES),
)
def test_json_schema(properties, required, value):
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "T", "type": "object",
              "properties": properties, "required": required, "definitions": {"small": {"maximum": 5}}}  # fmt: skip
    client, text = registry(), json.dumps(schema)
    our_writer = JsonSchemaSerializer(ConfluentRegistry(client), text)
    their_writer = confluent_json.JSONSerializer(text, client)
    outcomes = []
    for writer, context in ((our_writer, SerializationContext), (their_writer, ConfluentContext)):
        try:
            outcomes.append(writer(value, context("orders", "value", [])))
        except Exception as error:  # noqa: BLE001 - each client has errors of its own
            outcomes.append(type(error).__name__)
    assert outcomes == [outcomes[0]] * 2
    if isinstance(outcomes[0], bytes):
        our_reader = JsonSchemaDeserializer(ConfluentRegistry(client))
        their_reader = confluent_json.JSONDeserializer(text, schema_registry_client=client)
        read = our_reader(outcomes[0], DeserializationContext("orders", "value", []))
        assert read == their_reader(outcomes[0], ConfluentContext("orders", "value", [])) == value


def test_json_schema_with_references():
    client = registry()
    item = Schema('{"type": "object", "properties": {"sku": {"type": "string"}}}', SchemaType.JSON)
    version = ConfluentRegistry(client).register("item", item).version
    order = Schema(
        '{"title": "Order", "type": "object", "properties": {"item": {"$ref": "item.json"}}}',
        SchemaType.JSON,
        (SchemaReference("item.json", "item", version),),
    )
    ours = JsonSchemaSerializer(ConfluentRegistry(client), order)
    theirs_ser = confluent_json.JSONSerializer(theirs(order), client)
    our_reader = JsonSchemaDeserializer(ConfluentRegistry(client))
    their_reader = confluent_json.JSONDeserializer(theirs(order), schema_registry_client=client)
    compare(ours, theirs_ser, our_reader, their_reader, {"item": {"sku": "a"}})
    for writer, context in ((ours, SerializationContext), (theirs_ser, ConfluentContext)):
        with pytest.raises(Exception, match=r"is not of type [\"']string[\"']"):
            writer({"item": {"sku": 5}}, context("orders", "value", []))


# -- Protobuf


@RELAXED
@given(st.data())
@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_protobuf_of_every_message_of_a_file(framing, data):
    pool, _ = data.draw(files())
    client = registry()
    kind = data.draw(st.sampled_from(classes_of(pool, "orders.proto")))
    compare(
        ProtobufSerializer(ConfluentRegistry(client), kind, framing=framing),
        confluent_protobuf.ProtobufSerializer(kind, client, HEADER if framing == "header" else {}),
        ProtobufDeserializer(ConfluentRegistry(client), kind),
        confluent_protobuf.ProtobufDeserializer(kind, schema_registry_client=client),
        fill(data.draw, kind),
    )


def imports():
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(proto_file("base.proto", "shop", [message("Base", [("id", F.TYPE_INT64, "", False)])]))
    item = message("Item", [("base", F.TYPE_MESSAGE, ".shop.Base", False)])
    pool.Add(proto_file("item.proto", "shop", [item], ["base.proto"]))
    fields = [("item", F.TYPE_MESSAGE, ".shop.Item", True), ("base", F.TYPE_MESSAGE, ".shop.Base", False),
              ("at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp", False)]  # fmt: skip
    needed = ["item.proto", "base.proto", "google/protobuf/timestamp.proto"]
    pool.Add(proto_file("order.proto", "shop", [message("Order", fields)], needed))
    return classes_of(pool, "order.proto")[0]


def test_protobuf_registers_imports_as_references():
    kind = imports()
    value = kind()
    value.item.add().base.id = 5
    value.at.FromDatetime(datetime.datetime(2026, 1, 1))
    client, other = registry(), registry()
    compare(
        ProtobufSerializer(ConfluentRegistry(client), kind),
        confluent_protobuf.ProtobufSerializer(kind, other),
        ProtobufDeserializer(ConfluentRegistry(client), kind),
        confluent_protobuf.ProtobufDeserializer(kind, schema_registry_client=client),
        value,
    )
    for subject in ("base.proto", "item.proto", "orders-value"):
        found, expected = client.get_latest_version(subject), other.get_latest_version(subject)
        assert (found.version, found.schema.schema_str) == (expected.version, expected.schema.schema_str)
        key = lambda reference: reference.name  # noqa: E731
        assert sorted(found.schema.references or [], key=key) == sorted(expected.schema.references or [], key=key)


ORDER = '{"type":"record","name":"Order","fields":[{"name":"a","type":"int"}]}'
ORDER_JSON = '{"title":"Order","type":"object","properties":{"a":{"type":"integer"}}}'
SET = {
    "auto.register.schemas": False,
    "normalize.schemas": True,
    "use.schema.id": 1,
    "use.latest.version": True,
    "use.latest.with.metadata": {"owner": "me"},
    "skip.known.types": False,
    "subject.name.strategy.type": "RECORD",
    "subject.name.strategy.conf": {"subject.name.strategy.fallback.type": "RECORD"},
    "subject.name.strategy": confluent.topic_record_subject_name_strategy,
    "reference.subject.name.strategy": confluent.reference_subject_name_strategy,
    "schema.id.serializer": confluent.header_schema_id_serializer,
    "schema.id.deserializer": confluent.prefix_schema_id_deserializer,
    "validate": False,
    "validate.strict": True,
    "validate.strict.allow.default": True,
}
"""A value other than the default one for each name; the missing ones ask for what is refused by name."""
REFUSED = {
    "use.deprecated.format",
    "validation.rules.execution",
    "validation.rules.fail.fast",
    "validation.rules.executor",
}


@pytest.mark.parametrize(
    ("theirs_class", "make"),
    [
        (confluent_avro.AvroSerializer, lambda client, given: AvroSerializer(client, ORDER, **given)),
        (confluent_avro.AvroDeserializer, AvroDeserializer),
        (confluent_json.JSONSerializer, lambda client, given: JsonSchemaSerializer(client, ORDER_JSON, **given)),
        (confluent_json.JSONDeserializer, JsonSchemaDeserializer),
        (confluent_protobuf.ProtobufSerializer, lambda client, given: ProtobufSerializer(client, imports(), **given)),
        (confluent_protobuf.ProtobufDeserializer, ProtobufDeserializer),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_every_name_of_a_configuration_is_accepted(theirs_class, make):
    client = ConfluentRegistry(registry())
    build = make if not isinstance(make, type) else lambda client, given: make(client, **given)
    defaults = theirs_class._default_conf
    build(client, from_confluent(defaults))
    for name in defaults.keys() - REFUSED:
        other = {"auto.register.schemas": False} if name[:4] == "use." and "auto.register.schemas" in defaults else {}
        build(client, from_confluent({name: SET[name]} | other))
