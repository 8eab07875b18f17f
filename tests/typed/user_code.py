"""Typical code of users, for type checkers only: `make check` runs mypy --strict on it, and no test runs it."""

from __future__ import annotations

from typing import Unpack

from pyspark.sql import DataFrame

import kafkaraw.spark
from kafkaraw import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    KafkaError,
    NewTopic,
    Producer,
    ProducerConfig,
    ProducerRecord,
    ProducerSettings,
    Record,
    SecuritySettings,
    SerializationContext,
    Ticket,
    TopicPartition,
)
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.inspect import annotate
from kafkaraw.metrics import register
from kafkaraw.schemas import AsyncRegistry, AvroDeserializer, AvroSerializer, Registry

SERVERS = "localhost:9092"
LOGIN: SecuritySettings = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "me",
    "sasl_password": "secret",
}


def produce() -> int:
    def report(ticket: Ticket) -> None:
        error = ticket.exception()
        print(error if error is not None else ticket.result().offset)

    with Producer(bootstrap_servers=[SERVERS], acks="all", linger_ms=20, compression_type="zstd", **LOGIN) as producer:
        producer.send("flights", b"value", b"key", headers=[("trace", b"1")]).add_done_callback(report)
        try:
            metadata = producer.send("flights", b"value", partition=0).result(timeout=10)
        except KafkaError as error:
            raise SystemExit(str(error)) from error
        register(producer, client="flights")
        producer.flush(10)
    return metadata.offset


class Stamps:
    """An interceptor with one of the methods."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=[("at", b"gate")])


def to_bytes(value: object, context: SerializationContext) -> bytes:
    return f"{context.topic} {value}".encode()


def producer_of(**settings: Unpack[ProducerSettings]) -> Producer:
    return Producer(**settings)


def make() -> Producer:
    return producer_of(
        bootstrap_servers=SERVERS, interceptors=[Stamps()], value_serializer=to_bytes, partitioner="murmur2"
    )


def consume() -> list[bytes | None]:
    with Consumer(bootstrap_servers=SERVERS, auto_offset_reset="earliest", value_deserializer=None) as consumer:
        consumer.assign([TopicPartition("flights", 0)])
        values: list[bytes | None] = []
        for record in consumer:
            handle(record)
            values.append(record.value)
            if len(values) == 10:
                break
        for partition, batch in consumer.poll(timeout=1.0).items():
            print(partition.topic, batch.next_offset)
        print(consumer.position(TopicPartition("flights", 0)))
    return values


def handle(record: Record) -> None:
    print(record.topic, record.partition, record.offset, record.key)


def consume_in_a_group() -> None:
    def on_assigned(partitions: list[TopicPartition]) -> None:
        print(partitions)

    with Consumer(
        bootstrap_servers=SERVERS, group_id="g", group_protocol="consumer", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe(["flights"], on_assigned=on_assigned)
        for batch in consumer.batches():
            consumer.commit({TopicPartition(batch.topic, batch.partition): batch.next_offset})


def read_process_write() -> None:
    with (
        Producer(bootstrap_servers=SERVERS, transactional_id="t") as producer,
        Consumer(bootstrap_servers=SERVERS, group_id="g", isolation_level="read_committed") as consumer,
    ):
        producer.init_transactions()
        consumer.subscribe(["flights"])
        while batches := consumer.poll(1.0):
            with producer.transaction():
                for batch in batches.values():
                    for record in batch:
                        producer.send("copy", record.value, record.key)
                producer.send_offsets_to_transaction(consumer.next_offsets(), consumer.group_metadata())


async def in_asyncio() -> None:
    async with AsyncProducer(bootstrap_servers=SERVERS) as producer:
        ticket = await producer.send("flights", b"value")
        print((await ticket).offset)
    async with AsyncConsumer(bootstrap_servers=SERVERS, group_id="g") as consumer:
        consumer.subscribe(pattern="fl.*")
        async for record in consumer:
            handle(record)
            await consumer.commit()
    async with AsyncAdmin(bootstrap_servers=SERVERS) as admin:
        print([topic.name for topic in await admin.list_topics()])


def administer() -> None:
    with Admin(bootstrap_servers=SERVERS, request_timeout_ms=5_000) as admin:
        created = admin.create_topics([NewTopic("flights", 3, configs={"cleanup.policy": "compact"}), "others"])
        print(created["flights"], admin.describe_cluster().controller_id)
        for name, group in admin.describe_groups(["g"]).items():
            print(name, group.state)
        admin.delete_topics(["others"])


def with_schemas(schema: str) -> None:
    registry = Registry("http://localhost:8081", request_timeout_ms=1_000, basic_auth=("me", "secret"))
    serializer = AvroSerializer(registry, schema)
    with Producer(bootstrap_servers=SERVERS, value_serializer=serializer) as producer:
        producer.send("flights", {"number": 1})
    with Consumer(bootstrap_servers=SERVERS, value_deserializer=AvroDeserializer(registry)) as consumer:
        consumer.subscribe(["flights"])
    print(AsyncRegistry(["http://localhost:8081", "http://localhost:8082"], retries=2))


def with_broker() -> None:
    with (
        EmbeddedBroker(properties={"num.partitions": 3}) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        print(admin.list_topics())


def from_confluent() -> None:
    with Producer.from_properties({"bootstrap.servers": SERVERS, "queue.buffering.max.ms": 5}, acks=1) as producer:
        producer.send("flights", b"value")
    print(ProducerConfig().linger_ms, annotate(b"").problems)


def in_spark() -> DataFrame:
    spark = kafkaraw.spark.session("flights")
    return (
        spark.readStream.format("kafkaraw")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", "flights")
        .load()
    )
