"""Framed Avro, Protobuf and JSON to Arrow columns, and back: kafkaraw against confluent-kafka with pyarrow.

    .venv/bin/python -m bench.schemas_arrow --records 50000

Alternates both in one process and prints CPU time per record; the ratio is the median of pairs. Nine fields, about 30
bytes, as in issue 20 F. No registry: both get the schema from memory. Start at `ROWS`.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa

from kafkaraw.schemas.arrow.decode import ColumnDecoder
from kafkaraw.schemas.arrow.encode import ColumnEncoder
from kafkaraw.schemas.arrow.plans import Texts
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaBundle, SchemaType

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "city", "type": "string"},
        {"name": "count", "type": "int"},
        {"name": "rebate", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "paid", "type": "boolean"},
    ],
}
TEXT = json.dumps(SCHEMA)
ID = 7


class OneSchema:
    """A registry that has one schema."""

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        """Return the schema."""
        return RegisteredSchema(None, None, schema_id, None, Schema(TEXT))

    def schema_by_guid(self, guid: str) -> RegisteredSchema:
        """Return the schema."""
        return self.schema_by_id(ID)

    def bundle(self, schema: Schema) -> SchemaBundle:
        """Return the schema."""
        return SchemaBundle(schema)


def records(count: int) -> list[bytes]:
    """Make framed records."""
    parsed, framed = fastavro.parse_schema(SCHEMA), []
    for at in range(count):
        out = io.BytesIO()
        out.write(b"\0" + struct.pack(">I", ID))
        row: dict[str, Any] = {"id": at, "name": f"n{at % 1000}", "city": "zu", "count": at % 100, "price": at * 0.5}
        row |= {"rebate": None if at % 2 else 5, "at": 1_700_000_000_000 + at, "tags": ["a"], "paid": True}
        fastavro.schemaless_writer(out, parsed, row)
        framed.append(out.getvalue())
    return framed


def with_confluent(framed: list[bytes]) -> Callable[[], object]:
    """What a program does without kafkaraw: their deserializer for each record, then pyarrow."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient.new_client({"url": "mock://bench"})
    context = SerializationContext("t", MessageField.VALUE)
    write = AvroSerializer(client, TEXT)
    row = fastavro.schemaless_reader(io.BytesIO(framed[0][5:]), fastavro.parse_schema(SCHEMA))
    prefix = write(row, context)[:5]
    theirs = [prefix + each[5:] for each in framed]
    read = AvroDeserializer(client)

    def decode() -> object:
        return pa.Table.from_pylist([read(each, context) for each in theirs])

    return decode


def with_kafkaraw(framed: list[bytes]) -> Callable[[], object]:
    """Decode with kafkaraw."""
    column = pa.array(framed, pa.binary())
    registry = OneSchema()
    return lambda: ColumnDecoder(registry, "avro", TEXT).decode(column)


def encode_with_confluent(framed: list[bytes]) -> Callable[[], object]:
    """Encode with their serializer, record by record."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.avro import AvroSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient.new_client({"url": "mock://bench"})
    context = SerializationContext("t", MessageField.VALUE)
    write = AvroSerializer(client, TEXT)
    table = ColumnDecoder(OneSchema(), "avro", TEXT).decode(pa.array(framed, pa.binary())).array
    return lambda: [write(row, context) for row in table.to_pylist()]


def encode_with_kafkaraw(framed: list[bytes]) -> Callable[[], object]:
    """Encode with kafkaraw."""
    table = ColumnDecoder(OneSchema(), "avro", TEXT).decode(pa.array(framed, pa.binary())).array
    encoder = ColumnEncoder("avro", ID, Texts(SchemaType.AVRO, TEXT))
    return lambda: encoder.encode(table)


PROTO = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; string name = 2; string city = 3; int32 count = 4; optional int32 rebate = 5;
  google.protobuf.Timestamp at = 6; double price = 7; repeated string tags = 8; bool paid = 9; }"""


class OneMessage(OneSchema):
    """A registry that has one Protobuf schema."""

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        """Return the schema."""
        return RegisteredSchema(None, None, schema_id, None, Schema(PROTO, SchemaType.PROTOBUF))


def _message() -> Any:  # noqa: ANN401 - protobuf has no types
    from google.protobuf import message_factory

    from kafkaraw.schemas.languages import parse

    file: Any = parse(SchemaBundle(Schema(PROTO, SchemaType.PROTOBUF))).native
    return message_factory.GetMessageClass(file.message_types_by_name["Order"])


def _messages(count: int) -> list[bytes]:
    made, framed = _message(), []
    for at in range(count):
        row = made(id=at, name=f"n{at % 1000}", city="zu", count=at % 100, price=at * 0.5, tags=["a"], paid=True)
        row.at.FromMilliseconds(1_700_000_000_000 + at)
        framed.append(b"\0" + struct.pack(">I", ID) + b"\0" + row.SerializeToString())
    return framed


def protobuf_with_confluent(framed: list[bytes]) -> Callable[[], object]:
    """Decode with their deserializer, then make dicts and columns."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
        from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext("t", MessageField.VALUE)
    read = ProtobufDeserializer(_message(), {"use.deprecated.format": False})
    messages = _messages(len(framed))
    names = [field["name"] for field in SCHEMA["fields"] if field["name"] not in ("at", "tags")]

    def row(message: Any) -> dict[str, Any]:  # noqa: ANN401
        found = {name: getattr(message, name) for name in names}
        return found | {"at": message.at.ToDatetime(), "tags": list(message.tags)}

    return lambda: pa.Table.from_pylist([row(read(each, context)) for each in messages])


def protobuf_with_kafkaraw(framed: list[bytes]) -> Callable[[], object]:
    """Decode with kafkaraw."""
    column = pa.array(_messages(len(framed)), pa.binary())
    registry = OneMessage()
    return lambda: ColumnDecoder(registry, "protobuf", Schema(PROTO, SchemaType.PROTOBUF)).decode(column)


def _encode_protobuf_with_confluent(framed: list[bytes]) -> Callable[[], object]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

    message: Any = _message()
    context = SerializationContext("t", MessageField.VALUE)
    client = SchemaRegistryClient.new_client({"url": "mock://bench"})
    write = ProtobufSerializer(message, client, {"use.deprecated.format": False})
    table = _protobuf_columns(framed)
    return lambda: [write(message(**row), context) for row in table.to_pylist()]


def _encode_protobuf_with_kafkaraw(framed: list[bytes]) -> Callable[[], object]:
    table = _protobuf_columns(framed)
    encoder = ColumnEncoder("protobuf", ID, Texts(SchemaType.PROTOBUF, PROTO))
    return lambda: encoder.encode(table)


def _protobuf_columns(framed: list[bytes]) -> pa.Array:
    column = pa.array(_messages(len(framed)), pa.binary())
    return ColumnDecoder(OneMessage(), "protobuf", Schema(PROTO, SchemaType.PROTOBUF)).decode(column).array


JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "title": "Order",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": "string"},
            "city": {"type": "string"},
            "count": {"type": "integer", "minimum": 0},
            "rebate": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
            "at": {"type": "integer", "title": "org.apache.kafka.connect.data.Timestamp", "connect.type": "int64"},
            "price": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "paid": {"type": "boolean"},
        },
        "required": ["id", "name"],
    }
)


class OneJsonSchema(OneSchema):
    """A registry that has one JSON schema."""

    def schema_by_id(self, schema_id: int) -> RegisteredSchema:
        """Return the schema."""
        return RegisteredSchema(None, None, schema_id, None, Schema(JSON_SCHEMA, SchemaType.JSON))


def _documents(count: int) -> list[bytes]:
    framed = []
    for at in range(count):
        row: dict[str, Any] = {"id": at, "name": f"n{at % 1000}", "city": "zu", "count": at % 100, "price": at * 0.5}
        row |= {"rebate": None if at % 2 else 5, "at": 1_700_000_000_000 + at, "tags": ["a"], "paid": True}
        framed.append(b"\0" + struct.pack(">I", ID) + json.dumps(row, separators=(",", ":")).encode())
    return framed


def _json_with_confluent(framed: list[bytes], *, validate: bool) -> Callable[[], object]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer
        from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext("t", MessageField.VALUE)
    read = JSONDeserializer(JSON_SCHEMA, conf={"validate": validate})
    documents = _documents(len(framed))
    return lambda: pa.Table.from_pylist([read(each, context) for each in documents])


def _json_with_kafkaraw(framed: list[bytes], *, validate: bool) -> Callable[[], object]:
    column = pa.array(_documents(len(framed)), pa.binary())
    decoder = ColumnDecoder(OneJsonSchema(), "json", Schema(JSON_SCHEMA, SchemaType.JSON), validate=validate)
    return lambda: decoder.decode(column)


def _encode_json_with_confluent(framed: list[bytes]) -> Callable[[], object]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.json_schema import JSONSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext("t", MessageField.VALUE)
    write = JSONSerializer(JSON_SCHEMA, SchemaRegistryClient.new_client({"url": "mock://bench"}))
    table = pa.array([json.loads(each[5:]) for each in _documents(len(framed))])
    return lambda: [write(row, context) for row in table.to_pylist()]


def _encode_json_with_kafkaraw(framed: list[bytes]) -> Callable[[], object]:
    schema = Schema(JSON_SCHEMA, SchemaType.JSON)
    column = pa.array(_documents(len(framed)), pa.binary())
    table = ColumnDecoder(OneJsonSchema(), "json", schema).decode(column).array
    encoder = ColumnEncoder("json", ID, Texts(SchemaType.JSON, JSON_SCHEMA))
    return lambda: encoder.encode(table)


Side = Callable[[list[bytes]], Callable[[], object]]
ROWS: dict[str, tuple[Side, Side, float, float]] = {
    "Avro to Arrow columns": (with_kafkaraw, with_confluent, 15, 30),
    "Protobuf to Arrow columns": (protobuf_with_kafkaraw, protobuf_with_confluent, 8, 15),
    "JSON Schema to Arrow columns": (
        partial(_json_with_kafkaraw, validate=True),
        partial(_json_with_confluent, validate=True),
        8,
        15,
    ),
    "JSON Schema to Arrow columns, neither validates": (
        partial(_json_with_kafkaraw, validate=False),
        partial(_json_with_confluent, validate=False),
        1,
        1,
    ),
    "Arrow columns to Protobuf": (_encode_protobuf_with_kafkaraw, _encode_protobuf_with_confluent, 8, 15),
    "Arrow columns to JSON": (_encode_json_with_kafkaraw, _encode_json_with_confluent, 8, 15),
    "Arrow columns to Avro": (encode_with_kafkaraw, encode_with_confluent, 15, 30),
}
"""Name -> ours, theirs, minimum and target of the ratio."""


def seconds(run: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    framed = records(asked.records)
    print(f"{asked.records} records of {len(framed[-1])} bytes, CPU time, median of {asked.pairs} pairs")
    for name, (ours, theirs, least, target) in ROWS.items():
        if asked.only not in name:
            continue
        run_ours, run_theirs = ours(framed), theirs(framed)
        run_ours()
        pairs = [(seconds(run_ours), seconds(run_theirs)) for _ in range(asked.pairs)]
        ratio = statistics.median(slow / fast for fast, slow in pairs)
        rates = [asked.records / statistics.median(side) / 1e6 for side in zip(*pairs, strict=True)]
        verdict = "met" if ratio >= target else "minimum met" if ratio >= least else "MISSED"
        speeds = f"{rates[0]:.2f} against {rates[1]:.3f} M records/s"
        print(f"{name}: {speeds}, {ratio:.0f}x (minimum {least}, target {target}): {verdict}")


if __name__ == "__main__":
    main()
