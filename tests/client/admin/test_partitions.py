"""More partitions, and records deleted up to an offset: by whom, and what is said when it cannot be."""

from __future__ import annotations

import pytest

from kafkaraw.client.admin import NewPartitions
from kafkaraw.errors import BrokerError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TopicPartition
from tests.client.virtual_cluster import VirtualCluster, on_cluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def fill(cluster: VirtualCluster, count: int) -> None:
    async with cluster.producer() as producer:
        for number in range(count):
            await producer.send("t", b"%d" % number, partition=0)


def test_a_topic_grows_and_the_client_knows_it_at_once():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.admin() as admin:
            await admin.create_partitions({"t": 3})
            assert len((await admin.describe_topics(["t"]))["t"].partitions) == 3
            await admin.create_partitions({"t": NewPartitions(4, [[0]])}, validate_only=True)
            assert len((await admin.describe_topics(["t"]))["t"].partitions) == 3

    on_cluster(life)


def test_a_topic_that_cannot_grow_is_named_and_the_others_grow():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        await cluster.create("u")
        async with cluster.admin() as admin:
            with pytest.raises(BrokerError, match=r"INVALID_PARTITIONS.*'t'.*already has 1.*UNKNOWN_TOPIC.*'nope'"):
                await admin.create_partitions({"t": 1, "nope": 2, "u": 2})
            assert len((await admin.describe_topics(["u"]))["u"].partitions) == 2

    on_cluster(life)


def test_delete_records_returns_the_new_log_start_offset():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        await fill(cluster, 10)
        async with cluster.admin() as admin:
            assert await admin.delete_records({P0: 4, P1: 0}) == {P0: 4, P1: 0}
            assert await admin.delete_records({P0: -1}) == {P0: 10}
        async with cluster.consumer() as consumer:
            assert await consumer.beginning_offsets([P0]) == {P0: 10}

    on_cluster(life)


def test_an_offset_that_is_not_there_is_said_with_the_partition():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        async with cluster.admin() as admin:
            with pytest.raises(BrokerError, match=r"before offset 7 of t-0") as caught:
                await admin.delete_records({P0: 7, P1: 0})
            assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
            with pytest.raises(BrokerError, match="nope"):
                await admin.delete_records({TopicPartition("nope", 0): 0})
            with pytest.raises(BrokerError, match=r"t-9"):
                await admin.delete_records({TopicPartition("t", 9): 0})
            with pytest.raises(UsageError, match="'t' is not a partition"):
                await admin.delete_records({"t": 0})
        assert cluster.now < 1

    on_cluster(life)
