"""What is committed when offsets are stored by hand; unsubscribe, commit and assignments as Java's users expect."""

from __future__ import annotations

import pytest

from kafkaraw import AsyncConsumer, Consumer, OffsetAndMetadata, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import UsageError
from tests.client.virtual_cluster import VirtualCluster, on_cluster

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def fill(cluster: VirtualCluster, count: int = 10) -> None:
    await cluster.create("t", 2)
    async with cluster.producer() as producer:
        for number in range(count):
            await producer.send("t", b"v", partition=number % 2)


async def committed(cluster: VirtualCluster) -> dict[TopicPartition, int]:
    async with cluster.consumer(group_id="g") as other:
        found = await other.committed([P0, P1])
    return {of: at.offset for of, at in found.items() if at is not None}


async def drain(consumer: AsyncConsumer, count: int) -> None:
    """Read so many records."""
    while count > 0:
        count -= sum(batch.records_count for batch in (await consumer.poll(5)).values())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_only_stored_offsets_are_committed_automatically(protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        settings = {"group_id": "g", "enable_auto_offset_store": False, "auto_commit_interval_ms": 1000}
        async with cluster.consumer(**settings, group_protocol=protocol) as consumer:
            consumer.subscribe(["t"])
            await drain(consumer, 10)
            for _ in range(5):
                assert await consumer.poll(1) == {}
            assert await committed(cluster) == {}, "records were given, and none was stored"
            consumer.store_offsets({P0: 3})
            for _ in range(5):
                assert await consumer.poll(1) == {}
            assert await committed(cluster) == {P0: 3}
            consumer.store_offsets({P0: 4, P1: OffsetAndMetadata(2, "note")})
            consumer.store_offsets({P0: 5})
        assert await committed(cluster) == {P0: 5, P1: 2}, "close() commits"

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def test_commit_without_offsets_commits_what_is_stored() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        settings = {"group_id": "g", "enable_auto_offset_store": False, "enable_auto_commit": False}
        async with cluster.consumer(**settings) as consumer:
            consumer.assign([P0, P1])
            await drain(consumer, 10)
            await consumer.commit()
            assert await committed(cluster) == {}
            consumer.store_offsets({P1: 4})
            await consumer.commit()
        assert await committed(cluster) == {P1: 4}

    on_cluster(test)


def test_stored_offsets_are_committed_before_partitions_are_revoked() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        async with cluster.consumer(group_id="g", enable_auto_offset_store=False) as consumer:
            consumer.subscribe(["t"])
            await drain(consumer, 10)
            consumer.store_offsets({P0: 2})
            await consumer.unsubscribe()
            assert await committed(cluster) == {P0: 2}
            with pytest.raises(UsageError, match="not assigned"):
                consumer.store_offsets({P0: 3})

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def test_wrong_offsets_to_store_are_refused() -> None:
    async def test(cluster: VirtualCluster) -> None:
        async with cluster.consumer() as consumer:
            with pytest.raises(UsageError, match="store_offsets: this consumer has no group"):
                consumer.store_offsets({P0: 1})
        async with cluster.consumer(group_id="g") as consumer:
            with pytest.raises(UsageError, match="enable_auto_offset_store=False"):
                consumer.store_offsets({P0: 1})
        async with cluster.consumer(group_id="g", enable_auto_offset_store=False) as consumer:
            with pytest.raises(UsageError, match="t-0 is not assigned"):
                consumer.store_offsets({P0: 1})
            consumer.assign([P0])
            with pytest.raises(UsageError, match=r"store_offsets: t-0: offset -1 must be 0 or more"):
                consumer.store_offsets({P0: -1})

    on_cluster(test)


# ---- as in Java


@pytest.mark.parametrize("group_id", [None, "g"])
def test_unsubscribe_drops_partitions_that_were_assigned_by_hand(group_id: str | None) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        async with cluster.consumer(group_id=group_id) as consumer:
            consumer.assign([P0, P1])
            await drain(consumer, 10)
            await consumer.unsubscribe()
            assert consumer.assignment() == []
            with pytest.raises(UsageError, match="nothing is assigned"):
                await consumer.poll(1)
            assert await committed(cluster) == ({P0: 5, P1: 5} if group_id else {})
            if group_id is not None:
                consumer.subscribe(["t"])  # no assignment is in its way

    on_cluster(test, group_initial_rebalance_delay_ms=0)


def test_partitions_are_added_and_taken_away_one_by_one() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        async with cluster.consumer() as consumer:
            consumer.incremental_assign([P0])
            await drain(consumer, 3)
            consumer.seek(P0, 2)
            consumer.incremental_assign([P1, P0])
            assert consumer.assignment() == [P0, P1]
            assert await consumer.position(P0) == 2, "what was assigned stays as it is"
            await drain(consumer, 8)
            with pytest.raises(UsageError, match="t-7 is not assigned"):
                consumer.incremental_unassign([P0, TopicPartition("t", 7)])
            assert consumer.assignment() == [P0, P1]
            consumer.incremental_unassign([P0])
            assert consumer.assignment() == [P1]
            assert await consumer.position(P1) == 5

    on_cluster(test)


def test_a_subscription_refuses_partitions_one_by_one() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        async with cluster.consumer(group_id="g") as consumer:
            consumer.subscribe(["t"])
            with pytest.raises(UsageError, match="unsubscribe"):
                consumer.incremental_assign([P0])

    on_cluster(test)


def test_commit_returns_after_the_callbacks_of_earlier_commits() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        told: list[tuple[int, object]] = []
        async with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
            consumer.assign([P0])
            for offset in range(1, 4):
                consumer.commit_nowait({P0: offset}, lambda at, error: told.append((at[P0].offset, error)))
            await consumer.commit({P0: 4})
            assert told == [(1, None), (2, None), (3, None)]
        assert await committed(cluster) == {P0: 4}

    on_cluster(test)


def test_list_topics_names_every_topic_with_its_partitions() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await fill(cluster)
        await cluster.create("a", 1)
        async with cluster.consumer() as consumer:
            assert await consumer.list_topics() == {"a": [TopicPartition("a", 0)], "t": [P0, P1]}
            await cluster.create("b", 1)
            assert (await consumer.list_topics()).keys() == {"a", "b", "t"}

    on_cluster(test)


def test_the_blocking_face_does_the_same() -> None:
    with EmbeddedBroker(properties={"num.partitions": 2, "auto.create.topics.enable": True}) as broker:
        servers = broker.bootstrap_servers
        with Consumer(bootstrap_servers=servers, group_id="g", enable_auto_offset_store=False) as consumer:
            assert consumer.partitions_for("t") == [P0, P1]
            assert consumer.list_topics()["t"] == [P0, P1]
            consumer.incremental_assign([P0, P1])
            consumer.incremental_unassign([P1])
            consumer.store_offsets({P0: 7})
            consumer.commit()
            assert consumer.committed([P0])[P0].offset == 7
            consumer.subscribe([])
            assert consumer.assignment() == []
            consumer.subscribe(["t"])
            assert consumer.subscription() == ["t"]
            consumer.subscribe([])
            assert consumer.subscription() == []
        with Consumer(bootstrap_servers=servers) as consumer, pytest.raises(UsageError, match="group_id"):
            consumer.subscribe([])
