"""Keys land on the partitions that Java's and librdkafka's own code choose."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.records import PARTITIONERS, murmur2, partition_for_key
from tests.interop.java_tools import shared_tools

SOURCE = Path(__file__).with_name("KeyPartitions.java")
PARTITIONS_COUNT = 7
OF_LIBRDKAFKA = sorted(PARTITIONERS.keys() - {"default", "round_robin", "sticky"})


def random_keys(rng: random.Random, count: int) -> list[bytes]:
    return [rng.randbytes(rng.choice((0, 1, 2, 3, 4, 5, 7, 8, 15, 20, 33, 64, 100))) for _ in range(count)]


@pytest.mark.timeout(120)
def test_keys_land_on_javas_partitions() -> None:
    tools = shared_tools()
    rng = random.Random(6)
    cases = [(key, rng.randrange(1, 2000)) for key in random_keys(rng, 20_000)]
    printed = tools.run(SOURCE, given="".join(f"{key.hex()}\t{count}\n" for key, count in cases))
    javas = [tuple(map(int, line.split("\t"))) for line in printed.splitlines()]
    assert [(hashed & 0xFFFFFFFF, partition) for hashed, partition in javas] == [
        (murmur2(key), partition_for_key(key, count)) for key, count in cases
    ]


def librdkafkas(bootstrap_servers: str, topic: str, partitioner: str, keys: list[bytes | None]) -> list[int]:
    from confluent_kafka import Producer as ConfluentProducer

    partitions = [-1] * len(keys)
    producer = ConfluentProducer(
        {"bootstrap.servers": bootstrap_servers, "partitioner": partitioner, "sticky.partitioning.linger.ms": 0}
    )
    for index, key in enumerate(keys):

        def note(error: object, message: object, index: int = index) -> None:
            assert error is None, error
            partitions[index] = message.partition()

        producer.produce(topic, b"", key, on_delivery=note)
    assert producer.flush(30) == 0
    return partitions


@pytest.mark.timeout(60)
def test_keys_land_on_librdkafkas_partitions() -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    keys = [key for key in random_keys(random.Random(8), 2000) if key]
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", PARTITIONS_COUNT)])
        for name in OF_LIBRDKAFKA:
            theirs = librdkafkas(broker.bootstrap_servers, "t", name, keys)
            with Producer(bootstrap_servers=broker.bootstrap_servers, partitioner=name) as producer:
                tickets = [producer.send("t", b"", key) for key in keys]
                ours = [ticket.result(30).partition for ticket in tickets]
            assert ours == theirs, name


@pytest.mark.timeout(60)
def test_null_and_empty_keys_are_spread_where_librdkafka_spreads_them() -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    with EmbeddedBroker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("t", PARTITIONS_COUNT)])
        for name in OF_LIBRDKAFKA:
            for key in (None, b""):
                theirs = set(librdkafkas(broker.bootstrap_servers, "t", name, [key] * 100))
                hashed = PARTITIONERS[name].hash_of(key)
                assert (len(theirs) > 1) == (hashed < 0), (name, key, theirs)
                if hashed >= 0:
                    assert theirs == {hashed % PARTITIONS_COUNT}, (name, key)
