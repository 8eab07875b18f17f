"""Topics change while clients use them: partitions come, records go, a topic goes and comes again under its name."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.errors import BrokerError
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.records import TopicPartition
from tests.client.virtual_cluster import VirtualCluster, on_cluster

P0 = TopicPartition("t", 0)


async def fill(cluster: VirtualCluster, *values: bytes) -> None:
    async with cluster.producer() as producer:
        for value in values:
            await producer.send("t", value, partition=0)


def test_a_producer_uses_partitions_that_were_added():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer(metadata_max_age_ms=2_000) as producer, cluster.admin() as admin:
            await producer.send("t", b"x", b"key")
            await admin.create_partitions({"t": 8})
            await asyncio.sleep(5)
            tickets = [await producer.send("t", b"x", b"%d" % number) for number in range(50)]
            await producer.flush()
            assert len(await producer.partitions_for("t")) == 8
            assert len({ticket.result().partition for ticket in tickets}) > 4

    on_cluster(life)


def test_partitions_for_returns_added_partitions_after_metadata_max_age_ms():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.consumer(metadata_max_age_ms=2_000) as consumer, cluster.admin() as admin:
            consumer.assign(await consumer.partitions_for("t"))
            await admin.create_partitions({"t": 3})
            while len(await consumer.partitions_for("t")) < 3:
                await consumer.poll(1)
            assert cluster.now < 10
            consumer.assign(await consumer.partitions_for("t"))
            async with cluster.producer() as producer:
                await producer.send("t", b"new", partition=2)
            batches = await consumer.poll(10)
            assert list(batches) == [TopicPartition("t", 2)]

    on_cluster(life)


@pytest.mark.parametrize(("reset", "first"), [("earliest", b"4"), ("latest", b"new")])
def test_a_consumer_before_the_new_start_goes_where_its_setting_says(reset: str, first: bytes):
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        await fill(cluster, *(b"%d" % number for number in range(6)))
        async with cluster.admin() as admin:
            await admin.delete_records({P0: 4})
        async with cluster.consumer(auto_offset_reset=reset) as consumer:
            consumer.assign([P0])
            consumer.seek(P0, 1)
            got = asyncio.ensure_future(consumer.poll(30))
            await asyncio.sleep(5)
            await fill(cluster, b"new")
            records = [record for batch in (await got).values() for record in batch]
            assert records[0].value == first

    on_cluster(life)


def test_without_a_reset_the_consumer_is_told():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        await fill(cluster, b"0", b"1", b"2")
        async with cluster.admin() as admin:
            await admin.delete_records({P0: 2})
        async with cluster.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([P0])
            consumer.seek(P0, 0)
            with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
                await consumer.poll(30)

    on_cluster(life)


def test_a_consumer_in_the_middle_of_a_batch_that_starts_before_goes_on():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer(linger_ms=100) as producer:
            for number in range(6):
                await producer.send("t", b"%d" % number, partition=0)
        async with cluster.admin() as admin:
            await admin.delete_records({P0: 3})
        assert [record.value for record in await cluster.read("t", 3)] == [b"3", b"4", b"5"]

    on_cluster(life)


def test_a_topic_made_anew_under_its_name_is_another_one():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        await fill(cluster, *(b"old %d" % number for number in range(5)))
        async with cluster.consumer(metadata_max_age_ms=2_000) as consumer, cluster.admin() as admin:
            consumer.assign([P0])
            (batch,) = (await consumer.poll(10)).values()
            assert batch.next_offset == 5
            old_id = consumer.topic_id("t")
            await admin.delete_topics(["t"])
            new_id = (await admin.create_topics(["t"]))["t"].topic_id
            await fill(cluster, b"new 0", b"new 1")
            values: list[bytes | None] = []
            while len(values) < 2 and cluster.now < 120:
                values += [record.value for batch in (await consumer.poll(5)).values() for record in batch]
            assert values == [b"new 0", b"new 1"]
            assert consumer.topic_id("t") == new_id != old_id
            assert consumer.topic_id("another") == ZERO_UUID

    on_cluster(life)


def test_a_producer_goes_on_in_a_topic_made_anew():
    async def life(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer() as producer, cluster.admin() as admin:
            for number in range(3):
                await producer.send("t", b"old %d" % number)
            await producer.flush()
            await admin.delete_topics(["t"])
            await admin.create_topics(["t"])
            ticket = await producer.send("t", b"new")
            await producer.flush()
            assert ticket.result().offset == 0
        assert [record.value for record in await cluster.read("t", 1)] == [b"new"]

    on_cluster(life)
