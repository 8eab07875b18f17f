"""The broker that benchmarks measure against, and a fresh topic for each measurement."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

from kafkaraw import Admin, NewTopic


@contextlib.contextmanager
def broker_at(bootstrap_server: str | None) -> Iterator[tuple[str, str]]:
    """The broker to measure against, and what to call it."""
    if bootstrap_server is not None:
        yield bootstrap_server, f"at {bootstrap_server}"
        return
    from kafkaraw.broker import EmbeddedBroker

    with EmbeddedBroker(process=True) as broker:
        yield broker.bootstrap_servers, "kafkaraw's embedded broker, in memory, in a process of its own"


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
