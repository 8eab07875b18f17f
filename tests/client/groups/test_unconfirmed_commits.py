"""An automatic commit whose answer is lost may have taken effect: what is committed afterwards does not rely on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kafkaraw import AsyncConsumer, TopicPartition
from tests.client.groups.test_group import PROTOCOLS, both_protocols
from tests.client.virtual_cluster import VirtualCluster, on_cluster

FIRST = TopicPartition("t", 0)
RECORDS = 10
INTERVAL_MS = 1_000
SETTINGS = {"group_id": "g", "auto_commit_interval_ms": INTERVAL_MS, "request_timeout_ms": 500}

Begin = Callable[[VirtualCluster, AsyncConsumer], Awaitable[None]]


async def fill(cluster: VirtualCluster) -> None:
    await cluster.create(FIRST.topic)
    async with cluster.producer(linger_ms=0) as producer:
        for number in range(RECORDS):
            await producer.send(FIRST.topic, b"%d" % number, partition=0)


async def read_to_the_end(consumer: AsyncConsumer) -> None:
    while await consumer.position(FIRST) < RECORDS:
        await consumer.poll(0.1)


def stored(cluster: VirtualCluster) -> int | None:
    """What the coordinator has, whatever its clients have heard of it."""
    found = cluster.node.state.groups.coordinator("g").committed_offsets("g", [FIRST], stable=False)[FIRST]
    return getattr(found, "offset", None)


async def lose_answer_of_automatic_commit(cluster: VirtualCluster, consumer: AsyncConsumer) -> None:
    """The coordinator stores the end; the consumer does not hear of it, and cannot ask again for some time."""
    faults = cluster.node.faults
    faults.on("OffsetCommit").swallow(handled=True)
    faults.on("OffsetCommit", times=None, nth=2).swallow()
    await read_to_the_end(consumer)
    while stored(cluster) != RECORDS:
        await consumer.poll(0.1)


def with_consumer(test: Begin, **settings: object) -> int | None:
    """Run a test on a consumer that has committed 2; what its group stands at in the end."""

    async def life(cluster: VirtualCluster) -> int | None:
        await fill(cluster)
        consumer = cluster.consumer(**SETTINGS, **settings)
        if settings:
            consumer.subscribe([FIRST.topic])
            while not consumer.assignment():
                await consumer.poll(0.1)
        else:
            consumer.assign([FIRST])
        await consumer.commit({FIRST: 2})
        consumer.seek(FIRST, 2)
        await test(cluster, consumer)
        return stored(cluster)

    return on_cluster(life, group_initial_rebalance_delay_ms=0)


BY_HAND_OR_MEMBER = pytest.mark.parametrize("settings", [{}, *PROTOCOLS.values()], ids=["by hand", *PROTOCOLS])


@BY_HAND_OR_MEMBER
def test_close_commits_lower_offset_after_commit_without_response(settings: dict[str, object]) -> None:
    async def test(cluster: VirtualCluster, consumer: AsyncConsumer) -> None:
        await lose_answer_of_automatic_commit(cluster, consumer)
        cluster.node.faults.clear()
        consumer.seek(FIRST, 2)
        await consumer.close()

    assert with_consumer(test, **settings) == 2


@BY_HAND_OR_MEMBER
def test_next_automatic_commit_commits_lower_offset(settings: dict[str, object]) -> None:
    async def test(cluster: VirtualCluster, consumer: AsyncConsumer) -> None:
        await lose_answer_of_automatic_commit(cluster, consumer)
        consumer.pause([FIRST])
        consumer.seek(FIRST, 2)
        cluster.node.faults.clear()
        for _ in range(70):  # longer than a commit goes on without an answer
            await consumer.poll(1)
        assert stored(cluster) == 2
        cluster.silence()
        await consumer.close(0)

    assert with_consumer(test, **settings) == 2


@both_protocols
def test_confirmed_offset_is_not_committed_again(protocol: str) -> None:
    async def test(cluster: VirtualCluster, consumer: AsyncConsumer) -> None:
        await read_to_the_end(consumer)
        while stored(cluster) != RECORDS:
            await consumer.poll(0.1)
        await consumer.poll(1)
        count = cluster.node.faults.on("OffsetCommit", times=None).delay(0)
        for _ in range(5):
            await consumer.poll(INTERVAL_MS / 1000)
        await consumer.close()
        assert count.hits == 0

    assert with_consumer(test, **PROTOCOLS[protocol]) == RECORDS
