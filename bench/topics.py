"""The broker that benchmarks measure against, and a fresh topic for each measurement."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping

from bench.settings import Settings, values
from bench.worker import BenchError
from kafkaraw import Admin, NewTopic


@contextlib.contextmanager
def broker_at(bootstrap_server: str | None, properties: Mapping[str, str] | None = None) -> Iterator[tuple[str, str]]:
    """The broker to measure against, and what to call it; an embedded one has these properties."""
    if bootstrap_server is not None:
        yield bootstrap_server, f"at {bootstrap_server}"
        return
    from kafkaraw.broker import EmbeddedBroker

    with EmbeddedBroker(process=True, properties=dict(properties or {})) as broker:
        yield broker.bootstrap_servers, "kafkaraw's embedded broker, in memory, in a process of its own"


@contextlib.contextmanager
def apache_kafka() -> Iterator[tuple[str, str]]:
    """Apache Kafka, one node in a process of its own, as the interoperation tests start it."""
    from tests.interop.apache_kafka import ApacheKafka, kafka_version, why_missing

    missing = why_missing()
    if missing is not None:
        raise BenchError(missing)
    with ApacheKafka(optimize=True) as kafka:
        yield kafka.bootstrap_servers, f"Apache Kafka {kafka_version()}, one node, in a process of its own"


@contextlib.contextmanager
def new_topic(admin: Admin, partitions: int) -> Iterator[str]:
    """A topic for one measurement, deleted afterwards so that runs do not pile up in the broker."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    admin.create_topics([NewTopic(name, partitions=partitions, replication_factor=1)])
    yield name
    admin.delete_topics([name])


def count(partitions: int, bootstrap_servers: str, topic: str) -> int:
    """Records in a topic, by the rival's consumer."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench"})
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30) for index in range(partitions)]
    finally:
        consumer.close()
    return sum(high - low for low, high in ends)


def fill(settings: Settings, bootstrap_servers: str, topic: str) -> None:
    """Write the records that the consuming workloads read, evenly over the partitions, with the rival's producer."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "batch.size": settings.batch_size,
            "batch.num.messages": 1_000_000,
            "compression.type": settings.compression,
            "linger.ms": 50,
            "queue.buffering.max.messages": settings.queue_messages,
        }
    )
    made = values(settings)
    for number in range(settings.records):
        while True:
            try:
                producer.produce(topic, made[number % len(made)], partition=number % settings.partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60) != 0:
        raise BenchError("the topic to read could not be filled")
