"""`make bench-schemas`: serializers of objects, ours beside confluent-kafka's, on a record of nine fields.

Both call the serializer as a producer does, with the schema known: confluent-kafka's with its registry in memory, ours
with the same one. They take turns in one process; a row shows the medians of CPU time per record, and of the factors of
the pairs. The Arrow columns are in `bench.schemas_arrow`, Spark in `bench.schemas_spark`.
Start at `cases`.
"""

from __future__ import annotations

import datetime
import json
import statistics
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import click
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.report import WIDTH, Goal
from kafkaraw.client.deserializers import DeserializationContext
from kafkaraw.client.serializers import SerializationContext
from kafkaraw.schemas.serializers.avro import AvroDeserializer, AvroSerializer
from kafkaraw.schemas.serializers.avro_codec import codec
from kafkaraw.schemas.serializers.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from kafkaraw.schemas.serializers.protobuf import ProtobufDeserializer, ProtobufSerializer
from tests.schemas.serializers.registries import ConfluentRegistry

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # authlib's, about httpx
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry import avro as confluent_avro
    from confluent_kafka.schema_registry import json_schema as confluent_json
    from confluent_kafka.schema_registry import protobuf as confluent_protobuf
    from confluent_kafka.serialization import SerializationContext as ConfluentContext

FIELDS: Final = {
    "id": "long",
    "customer": "string",
    "country": "string",
    "quantity": "int",
    "discount": ["null", "int"],
    "placed": {"type": "long", "logicalType": "timestamp-millis"},
    "price": "double",
    "paid": "boolean",
    "tags": {"type": "array", "items": "string"},
}
PLACED: Final = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)
VALUE: Final = {
    "id": 123456,
    "customer": "anna",
    "country": "NO",
    "quantity": 3,
    "discount": 5,
    "placed": PLACED,
    "price": 9.5,
    "paid": True,
    "tags": ["a", "bc"],
}
AVRO: Final = {
    "type": "record",
    "name": "shop.Order",
    "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()],
}
JSON: Final = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "country": {"type": "string"},
        "quantity": {"type": "integer"},
        "discount": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        "placed": {"type": "string"},
        "price": {"type": "number"},
        "paid": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["id", "customer"],
}
AVRO_GOAL: Final = Goal(2, 4)
OTHER_GOAL: Final = Goal(1.5, 3)


@dataclass(frozen=True, slots=True)
class Case:
    """One row: two calls that do the same.

    Attributes:
        name: what they do.
        ours: our call.
        theirs: confluent-kafka's.
        goal: of the factor between them.
    """

    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object]
    goal: Goal


def cases() -> Iterator[Case]:
    """Yield the rows, after both have written the same bytes and read the same object."""
    client = SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4()}"})
    ours = ConfluentRegistry(client)
    text = json.dumps(AVRO)
    yield from _pair(
        "Avro",
        AVRO_GOAL,
        VALUE,
        (AvroSerializer(ours, text), AvroDeserializer(ours)),
        (confluent_avro.AvroSerializer(client, text), confluent_avro.AvroDeserializer(client)),
    )
    client = SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4()}"})
    ours, text = ConfluentRegistry(client), json.dumps(JSON)
    yield from _pair(
        "JSON Schema",
        OTHER_GOAL,
        {**VALUE, "placed": PLACED.isoformat()},
        (JsonSchemaSerializer(ours, text), JsonSchemaDeserializer(ours)),
        (
            confluent_json.JSONSerializer(text, client),
            confluent_json.JSONDeserializer(text, schema_registry_client=client),
        ),
    )
    client = SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4()}"})
    ours, kind = ConfluentRegistry(client), _message_type()
    message = kind(**{**VALUE, "placed": int(PLACED.timestamp() * 1000)})
    yield from _pair(
        "Protobuf",
        OTHER_GOAL,
        message,
        (ProtobufSerializer(ours, kind), ProtobufDeserializer(ours, kind)),
        (
            confluent_protobuf.ProtobufSerializer(kind, client),
            confluent_protobuf.ProtobufDeserializer(kind, schema_registry_client=client),
        ),
    )


def _pair(language: str, goal: Goal, value: object, ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> Iterator[Case]:
    writing, reading = SerializationContext("orders", "value", []), DeserializationContext("orders", "value", [])
    context = ConfluentContext("orders", "value", [])
    data = ours[0](value, writing)
    assert data == theirs[0](value, context)
    assert ours[1](data, reading) == theirs[1](data, context) == value
    write, read = ours
    their_write, their_read = theirs
    yield Case(f"{language}: serialize", lambda: write(value, writing), lambda: their_write(value, context), goal)
    yield Case(f"{language}: deserialize", lambda: read(data, reading), lambda: their_read(data, context), goal)


def _message_type() -> type[Any]:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    numbers = {"id": 3, "quantity": 5, "discount": 5, "placed": 3, "price": 1, "paid": 8}
    for number, name in enumerate(FIELDS, 1):
        kind: Any = numbers.get(name, 9)
        label: Any = 3 if name == "tags" else 1
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def measure(case: Case, records: int, turns: int) -> tuple[float, float, float]:
    """Return microseconds of CPU per record, ours and theirs, and the factor: medians of the turns."""
    ours, theirs = [], []
    for _ in range(turns):
        theirs.append(_microseconds(case.theirs, records // 5))
        ours.append(_microseconds(case.ours, records))
    factors = [their / our for our, their in zip(ours, theirs, strict=True)]
    return statistics.median(ours), statistics.median(theirs), statistics.median(factors)


def _microseconds(call: Callable[[], object], count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - began) / count * 1e6


@click.command()
@click.option("--records", default=10_000, show_default=True, help="Records of one turn.")
@click.option("--turns", default=9, show_default=True, help="Turns of each row.")
def main(records: int, turns: int) -> None:
    """Serialize and deserialize objects with our serializers and with confluent-kafka's."""
    form = "compiled" if codec.COMPILED else "plain Python"
    table = Table(box=SIMPLE, title=f"Serializers, CPU per record; our Avro codec: {form}")
    for heading in ("", "kafkaraw µs", "confluent-kafka µs", "factor", "must", "aim"):
        table.add_column(heading, justify="left" if not heading else "right")
    missed = False
    for case in cases():
        our, their, factor = measure(case, records, turns)
        missed |= factor < case.goal.must
        goal = (f"{case.goal.must:g}x", f"{case.goal.aim:g}x")
        table.add_row(case.name, f"{our:.2f}", f"{their:.2f}", f"{factor:.1f}x", *goal)
    Console(width=WIDTH).print(table)
    if missed:
        raise SystemExit("a factor is below what it must be")


if __name__ == "__main__":
    main()
