"""What long-lived clients keep: it is bounded by what they use now, not by what they ever used."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from kafkaraw.client.config import ProducerConfig, parse
from kafkaraw.client.java_names import settings_from_properties
from kafkaraw.records import TopicPartition
from tests.client.virtual_cluster import VirtualCluster, on_cluster

TOPICS = 40


def kept_by(producer) -> dict[str, set[str]]:
    """The topics that a producer keeps something of, by where it does."""
    core = producer._core
    metadata, load = core.accumulator.metadata, core.accumulator._load
    return {
        "counts": set(metadata._counts),
        "uses": set(metadata._used_ms),
        "load": set(load._counts) | set(load._led),
        "partitions": {of.topic for of in core.sender.machine._partitions},
        "metadata": set(core._engine.cluster.topics),
        "metadata in use": set(core._engine._metadata._in_use),
    }


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_producer_forgets_topics_to_which_nothing_was_sent_for_metadata_max_idle_ms(idempotent: bool) -> None:
    async def test(cluster: VirtualCluster) -> None:
        settings = {"metadata_max_idle_ms": 10_000, "metadata_max_age_ms": 4_000, "linger_ms": 0}
        async with cluster.producer(enable_idempotence=idempotent, **settings) as producer:
            for number in range(TOPICS):
                await (await producer.send(f"t{number}", b"1"))
            assert all(len(topics) == TOPICS for topics in kept_by(producer).values())
            for _ in range(30):
                await (await producer.send("t0", b"v"))
                await asyncio.sleep(0.5)
            assert all(topics == {"t0"} for topics in kept_by(producer).values())
            await asyncio.sleep(20)  # with nothing sent at all
            assert not any(kept_by(producer).values())
            for number in (0, 1):
                for value in (b"2", b"3"):
                    await (await producer.send(f"t{number}", value))
        values = [record.value for record in await cluster.read("t1", 3)]
        assert values == [b"1", b"2", b"3"]
        assert len(await cluster.read("t0", 33)) == 33

    on_cluster(test, auto_create_topics_enable=True, num_partitions=1)


def test_topics_that_become_idle_one_after_the_other_are_looked_for_together() -> None:
    looks = 0

    async def test(cluster: VirtualCluster) -> None:
        nonlocal looks
        async with cluster.producer(metadata_max_idle_ms=16_000, linger_ms=0) as producer:
            topics = producer._core.accumulator.metadata
            take_idle = topics.take_idle

            def counted(busy: Collection[str], now_ms: int) -> frozenset[str]:
                nonlocal looks
                looks += 1
                return take_idle(busy, now_ms)

            topics.take_idle = counted
            for number in range(TOPICS):
                await (await producer.send(f"t{number}", b"1"))
                await asyncio.sleep(0.1)
            await asyncio.sleep(18)
            assert not kept_by(producer)["counts"]

    on_cluster(test, auto_create_topics_enable=True, num_partitions=1)
    assert looks <= TOPICS // 3, "a look for each second in which topics become idle, not for each topic"


def test_a_topic_with_batches_under_way_is_not_idle() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer(metadata_max_idle_ms=5_000, request_timeout_ms=2_000) as producer:
            await (await producer.send("t", b"1"))
            await cluster.kill()
            tickets = [await producer.send("t", b"%d" % number) for number in (2, 3)]
            await asyncio.sleep(30)
            assert kept_by(producer)["counts"] == {"t"}
            await cluster.restart()
            await asyncio.gather(*tickets)
            await asyncio.sleep(20)
            assert kept_by(producer)["partitions"] == set()

    on_cluster(test)


def test_a_transactional_producer_goes_on_after_its_topics_were_idle() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t")
        async with cluster.producer(transactional_id="x", metadata_max_idle_ms=5_000) as producer:
            await producer.init_transactions()
            for value in (b"1", b"2"):
                await producer.begin_transaction()
                await producer.send("t", value)
                await asyncio.sleep(12)  # idle within the transaction
                await producer.send("t", value + b" again")
                await producer.commit_transaction()
                await asyncio.sleep(12)  # and between two
        values = [record.value for record in await cluster.read("t", 4)]
        assert values == [b"1", b"1 again", b"2", b"2 again"]

    on_cluster(test)


def test_a_consumer_keeps_nothing_of_partitions_that_are_not_assigned_any_more() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.producer() as producer:
            for number in range(TOPICS):
                await producer.send(f"t{number}", b"v")
        async with cluster.consumer(auto_offset_reset="earliest", metadata_max_age_ms=5_000) as consumer:
            for number in range(TOPICS):
                partition = TopicPartition(f"t{number}", 0)
                consumer.assign([partition])
                assert partition in await consumer.poll(5)
                consumer.assign([])
                await asyncio.sleep(1)
            reading, cluster_view = consumer._reading, consumer._engine.cluster
            subscriptions, schedule = reading.subscriptions, reading.fetcher._schedule
            kept = [
                reading.cursor._moved,
                subscriptions._moved,
                subscriptions.changed,
                subscriptions.unready,
                reading.fetcher._problems,
                *(session._names for session in schedule.sessions.values()),
                cluster_view.topics,
                cluster_view._names,
                cluster_view._told_ms,
            ]
            assert max(map(len, kept)) < TOPICS // 2

    on_cluster(test, auto_create_topics_enable=True, num_partitions=1)


def test_metadata_max_idle_ms_has_javas_name() -> None:
    given = {"bootstrap.servers": "h:1", "metadata.max.idle.ms": "60000"}
    assert parse(ProducerConfig, settings_from_properties(ProducerConfig, given)).metadata_max_idle_ms == 60_000
