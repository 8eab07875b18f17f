"""Producers and consumers, blocking and asyncio, with a real registry: every language, one topic for each."""

from __future__ import annotations

import asyncio
import dataclasses
from importlib.util import find_spec

import pytest
from google.protobuf import wrappers_pb2

from kafkaraw import AsyncConsumer, AsyncProducer, Consumer, Producer
from kafkaraw.errors import SerializationError
from kafkaraw.schemas import (
    AsyncRegistry,
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Registry,
)
from kafkaraw.schemas.server.embedded import EmbeddedRegistry


@dataclasses.dataclass
class Order:
    id: int
    note: str | None = None


MESSAGE = wrappers_pb2.StringValue
LANGUAGES = {
    "avro": (lambda of, **more: AvroSerializer(of, Order, **more), lambda of: AvroDeserializer(of, into=Order), Order),
    "json": (
        lambda of, **more: JsonSchemaSerializer(of, Order, **more),
        lambda of: JsonSchemaDeserializer(of, into=Order),
        Order,
    ),
    "protobuf": (
        lambda of, **more: ProtobufSerializer(of, MESSAGE, **more),
        lambda of: ProtobufDeserializer(of, MESSAGE),
        lambda number: MESSAGE(value=str(number)),
    ),
}


if find_spec("kafkaraw.schemas.languages.protobuf") is None:  # the registry cannot parse it yet
    del LANGUAGES["protobuf"]


@pytest.fixture(scope="module")
def url():
    with EmbeddedRegistry() as registry:
        yield registry.url


@pytest.mark.parametrize("framing", ["prefix", "header"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_blocking_clients(kafka_broker_session, url, language, framing):
    writer, reader, make = LANGUAGES[language]
    topic = f"{language}-{framing}"
    with Registry(url) as registry:
        serializer, deserializer = writer(registry, framing=framing), reader(registry)
        with Producer(
            bootstrap_servers=kafka_broker_session.bootstrap_servers, value_serializer=serializer
        ) as producer:
            for number in range(20):
                producer.send(topic, make(number))
        with Consumer(
            bootstrap_servers=kafka_broker_session.bootstrap_servers,
            value_deserializer=deserializer,
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([(topic, 0)])
            assert [next(consumer).value for _ in range(20)] == [make(number) for number in range(20)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_asyncio_clients(kafka_broker_session, url, language):
    writer, reader, make = LANGUAGES[language]
    topic = f"{language}-asyncio"

    async def run():
        async with AsyncRegistry(url) as registry:
            async with AsyncProducer(
                bootstrap_servers=kafka_broker_session.bootstrap_servers, value_serializer=writer(registry)
            ) as producer:
                await asyncio.gather(*[producer.send(topic, make(number), partition=0) for number in range(20)])
            async with AsyncConsumer(
                bootstrap_servers=kafka_broker_session.bootstrap_servers,
                value_deserializer=reader(registry),
                auto_offset_reset="earliest",
            ) as consumer:
                consumer.assign([(topic, 0)])
                return [(await anext(consumer)).value for _ in range(20)]

    assert asyncio.run(run()) == [make(number) for number in range(20)]


def test_a_record_that_does_not_fit_names_the_field(kafka_broker_session, url):
    with (
        Registry(url) as registry,
        Producer(
            bootstrap_servers=kafka_broker_session.bootstrap_servers, value_serializer=AvroSerializer(registry, Order)
        ) as producer,
        pytest.raises(SerializationError, match="id: the schema has long here, and the value is 'x'"),
    ):
        producer.send("orders", Order("x"))
