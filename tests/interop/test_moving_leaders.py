"""Foreign clients on our cluster while leaders move and nodes stop and die: nothing lost, nothing twice, in order."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Protocol

import pytest

from kafkaraw.broker import EmbeddedCluster
from kafkaraw.client.admin import NewTopic
from kafkaraw.client.blocking import Admin

SECONDS_MAX = 60.0
BATCH = 25


class Writer(Protocol):
    """A client's idempotent producer with acks=all."""

    def send(self, values: list[bytes]) -> None:
        """Send to partition 0 of "t", and return when all are acknowledged."""

    def close(self) -> None:
        """Let go."""


class Reader(Protocol):
    """A client's consumer of partition 0 of "t", assigned, from the start."""

    def read(self, count: int) -> list[bytes]:
        """The next `count` values."""

    def close(self) -> None:
        """Let go."""


class ConfluentWriter:
    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import Producer

        self.failures: list[object] = []
        self.producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )

    def send(self, values: list[bytes]) -> None:
        for value in values:
            self.producer.produce("t", value, partition=0, on_delivery=self._delivered)
        assert self.producer.flush(SECONDS_MAX) == 0
        assert not self.failures

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failures.append(error)

    def close(self) -> None:
        pass


class ConfluentReader:
    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self.consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "g", "log_level": 0})
        self.consumer.assign([TopicPartition("t", 0, 0)])

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        until = time.monotonic() + SECONDS_MAX
        while len(found) < count and time.monotonic() < until:
            message = self.consumer.poll(1.0)
            if message is not None and message.error() is None:
                found.append(message.value())
        return found

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonWriter:
    def __init__(self, bootstrap_servers: str) -> None:
        from kafka import KafkaProducer

        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","), acks="all", enable_idempotence=True, linger_ms=0
        )

    def send(self, values: list[bytes]) -> None:
        for future in [self.producer.send("t", value, partition=0) for value in values]:
            future.get(timeout=SECONDS_MAX)

    def close(self) -> None:
        self.producer.close(timeout=10)


class KafkaPythonReader:
    def __init__(self, bootstrap_servers: str) -> None:
        from kafka import KafkaConsumer, TopicPartition

        self.consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers.split(","))
        self.consumer.assign([TopicPartition("t", 0)])
        self.consumer.seek_to_beginning()

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        until = time.monotonic() + SECONDS_MAX
        while len(found) < count and time.monotonic() < until:
            polled = self.consumer.poll(timeout_ms=1000, max_records=count - len(found))
            found += [record.value for records in polled.values() for record in records]
        return found

    def close(self) -> None:
        self.consumer.close()


CLIENTS = {
    "confluent-kafka": (ConfluentWriter, ConfluentReader),
    "kafka-python": (KafkaPythonWriter, KafkaPythonReader),
}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties={"min.insync.replicas": 2}) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1)], timeout=SECONDS_MAX)
        yield cluster


def happenings(cluster: EmbeddedCluster) -> Iterator[str]:
    """One thing after another that befalls the leader."""
    for name in ("move", "stop", "kill"):
        leader = cluster.leader_of("t")
        assert leader is not None
        if name == "move":
            cluster.move_leader("t", 0, next(node for node in cluster.isr_of("t") if node != leader))
        elif name == "stop":
            cluster.stop_node(leader)
        else:
            cluster.kill_node(leader)
        yield name
        if name != "move":
            cluster.start_node(leader)
            cluster.wait_until_in_sync()


# kafka-python leaves sockets to nodes that are down to the garbage collector: collected here, in no other test.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_foreign_client_writes_and_reads_through_moves_stops_and_deaths(name: str, cluster: EmbeddedCluster):
    make_writer, make_reader = CLIENTS[name]
    writer: Writer = make_writer(cluster.bootstrap_servers)
    reader: Reader = make_reader(cluster.bootstrap_servers)
    values = [b"%d" % number for number in range(4 * BATCH)]
    try:
        writer.send(values[:BATCH])
        assert reader.read(BATCH) == values[:BATCH]
        for number, what in enumerate(happenings(cluster), start=1):
            batch = values[number * BATCH : (number + 1) * BATCH]
            writer.send(batch)
            assert reader.read(BATCH) == batch, what
    finally:
        writer.close()
        reader.close()
        del writer, reader
        gc.collect()
