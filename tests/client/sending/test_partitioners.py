"""Where records go that are given no partition: the settings, on a real broker on virtual time."""

from __future__ import annotations

import random
import zlib
from collections import Counter

import pytest

from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.client.java_names import settings_from_properties
from kafkaraw.client.sending.accumulator import LOAD_UPDATED_AFTER_MS, PartitionLoad, partitioner_of
from kafkaraw.core.producer.partition_load import PartitionLoadStats
from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.records import PARTITIONERS, KeyHash, TopicPartition, partition_for_key
from tests.client.virtual_cluster import on_cluster

KEYS = [b"key-%d" % number for number in range(40)]


def sent_to(keys, *, partitions=5, **settings):
    async def test(cluster):
        await cluster.create("t", partitions)
        async with cluster.producer(**settings) as producer:
            tickets = [await producer.send("t", b"value of %s" % (key or b"none"), key) for key in keys]
            return [(await ticket).partition for ticket in tickets]

    return on_cluster(test)


def test_keys_go_to_javas_partitions_by_default():
    assert sent_to(KEYS) == [partition_for_key(key, 5) for key in KEYS]


def test_keys_go_to_librdkafkas_partitions():
    assert sent_to(KEYS, partitioner="consistent_random") == [zlib.crc32(key) % 5 for key in KEYS]


def test_round_robin_gives_each_partition_the_same():
    assert Counter(sent_to(KEYS, partitioner="round_robin")) == dict.fromkeys(range(5), 8)


def test_ignored_keys_fill_batch_after_batch():
    assert len(set(sent_to(KEYS, partitioner_ignore_keys=True))) == 1


def test_a_function_may_decide_by_the_value():
    def choose(topic, key, value, partitions):
        return partitions - 1 if value == b"value of key-7" else None

    chosen = sent_to(KEYS, partitioner=choose)
    assert chosen == [4 if key == b"key-7" else partition_for_key(key, 5) for key in KEYS]


def test_a_function_that_leaves_the_topic_is_told_so():
    with pytest.raises(UsageError, match="chose 5 for topic 't', which has partitions 0 to 4"):
        sent_to(KEYS, partitioner=lambda *_: 5)


def config(**settings):
    return parse(ProducerConfig, {"bootstrap_servers": "a:1", **settings})


@pytest.mark.parametrize("name", PARTITIONERS)
def test_every_name_is_a_setting(name):
    assert partitioner_of(config(partitioner=name)) is PARTITIONERS[name]
    assert partitioner_of(config(partitioner=name, partitioner_ignore_keys=True)).key_hash is KeyHash.NONE


def test_a_name_that_is_none_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'murmur2_random'"):
        config(partitioner="murmur2-random")


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
        ("org.apache.kafka.clients.producer.UniformStickyPartitioner", "sticky"),
        ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", "default"),
    ],
)
def test_javas_partitioners_have_names_here(java, ours):
    settings = settings_from_properties(ProducerConfig, {"partitioner.class": java, "partitioner.ignore.keys": "true"})
    assert settings == {"partitioner": ours, "partitioner_ignore_keys": True}


class Cluster(dict):
    """Leaders by partition."""

    def leader_of(self, topic_partition: TopicPartition):
        return self.get(topic_partition.partition)


class Machine:
    def __init__(self, waiting, held_up=()):
        self.now_waiting = {TopicPartition("t", partition): count for partition, count in waiting.items()}
        self.now_held_up = set(held_up)
        self.asked_since = None

    def waiting(self):
        return self.now_waiting

    def blocked_nodes(self, since_ms):
        self.asked_since = since_ms
        return self.now_held_up


class Open:
    def __init__(self):
        self.orders = []

    def set_partition_order(self, topic, order):
        self.orders.append((topic, list(order)))


def load_of(cluster, machine, timeout_ms=0, partitions=3):
    open_batches = Open()
    made = PartitionLoad(PartitionLoadStats(True, random.Random(3)), timeout_ms, cluster, machine, open_batches)
    made.learn("t", partitions)
    return made, open_batches


def test_partitions_with_queued_batches_take_fewer_records():
    machine = Machine({0: 1000})
    made, open_batches = load_of(Cluster({0: 1, 1: 1, 2: 2}), machine)
    made.update(["t", "unknown"], 100)
    ((topic, order),) = open_batches.orders
    assert topic == "t"
    assert set(order) == {1, 2}, "0 has one chance in two thousand"


def test_the_order_is_not_updated_with_every_batch():
    made, open_batches = load_of(Cluster({0: 1, 1: 1, 2: 2}), Machine({}))
    for now_ms in range(100, 100 + LOAD_UPDATED_AFTER_MS + 1):
        made.update(["t"], now_ms)
    assert open_batches.orders == [("t", []), ("t", [])]


def test_partitions_without_leader_take_no_records_until_there_is_one():
    cluster = Cluster({0: 1, 2: 1})
    made, open_batches = load_of(cluster, Machine({}))
    made.update(["t"], 100)
    cluster[1] = 1
    made.learn("t", 3)
    made.update(["t"], 101)
    assert open_batches.orders == [("t", [0, 2]), ("t", [])]


def test_partitions_of_unavailable_brokers_take_no_records():
    machine = Machine({}, held_up=[1])
    made, open_batches = load_of(Cluster({0: 1, 1: 2, 2: 3}), machine, timeout_ms=30)
    made.update(["t"], 100)
    assert machine.asked_since == 70
    assert open_batches.orders == [("t", [1, 2])]
