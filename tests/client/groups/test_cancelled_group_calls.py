"""Two calls wait for the same thing of a group, and the first is cancelled at any turn of the loop: the second goes on.

What the clients share (connections, metadata, requests) is tested likewise in `tests/client`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw import AsyncConsumer, TopicPartition
from tests.client.groups.test_group import PROTOCOLS, both_protocols
from tests.client.virtual_cluster import VirtualCluster, on_cluster

FIRST = TopicPartition("t", 0)
TURNS = 60
LONGEST_S = 5.0

Call = Callable[[], Awaitable[object]]


async def cancel_first(first: Call, second: Call, turns: int) -> None:
    """Make both calls, cancel the first after so many turns of the loop; the second must return in time."""
    calls = [asyncio.ensure_future(call()) for call in (first, second)]
    for _ in range(turns):
        await asyncio.sleep(0)
    calls[0].cancel()
    async with asyncio.timeout(LONGEST_S):
        await calls[1]
    await asyncio.gather(calls[0], return_exceptions=True)


async def filled(cluster: VirtualCluster) -> None:
    await cluster.create("t")
    async with cluster.producer() as producer:
        await producer.send("t", b"v", partition=0)


def by_hand(cluster: VirtualCluster) -> AsyncConsumer:
    consumer = cluster.consumer(group_id="g")
    consumer.assign([FIRST])
    return consumer


def test_several_tasks_may_wait_for_committed_offsets() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await filled(cluster)
        async with by_hand(cluster) as consumer:
            assert await asyncio.gather(*(consumer.position(FIRST) for _ in range(3))) == [0, 0, 0]

    on_cluster(test)


def test_partitions_assigned_while_another_task_waits_get_committed_offsets() -> None:
    async def test(cluster: VirtualCluster) -> None:
        await cluster.create("t", 2)
        second = TopicPartition("t", 1)
        async with by_hand(cluster) as consumer:
            await consumer.commit({FIRST: 0, second: 0})
            waiting = [asyncio.create_task(consumer.position(FIRST)) for _ in range(3)]
            await asyncio.sleep(0)
            consumer.assign([FIRST, second])
            assert await asyncio.gather(*waiting, consumer.position(second)) == [0, 0, 0, 0]

    on_cluster(test)


@pytest.mark.parametrize("turns", range(0, TURNS, 3))
def test_cancelled_offset_fetch_does_not_block_others(turns: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await filled(cluster)
        async with by_hand(cluster) as consumer:
            await cancel_first(lambda: consumer.position(FIRST), lambda: consumer.poll(3), turns)

    on_cluster(test)


@pytest.mark.parametrize("turns", range(0, TURNS, 3))
def test_cancelled_commit_lets_next_commit_through(turns: int) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await filled(cluster)
        async with by_hand(cluster) as consumer:
            await consumer.commit({FIRST: 0})
            for _ in range(2):  # the second time behind one that nobody waits for
                await cancel_first(lambda: consumer.commit({FIRST: 1}), lambda: consumer.commit({FIRST: 2}), turns)
                consumer.commit_nowait({FIRST: 3})
            assert (await consumer.committed([FIRST]))[FIRST].offset in (2, 3)

    on_cluster(test)


@both_protocols
@pytest.mark.parametrize("turns", range(0, TURNS, 6))
def test_cancelled_close_is_completed_by_next_close(turns: int, protocol: str) -> None:
    async def test(cluster: VirtualCluster) -> None:
        await filled(cluster)
        told: list[object] = []
        consumer = cluster.consumer(group_id="g", **PROTOCOLS[protocol])
        consumer.subscribe(["t"], on_revoked=told.append)
        while not await consumer.poll(5):
            pass
        await cancel_first(consumer.close, consumer.close, turns)
        assert told == [[FIRST]]
        async with cluster.consumer(group_id="g") as after:
            found = (await after.committed([FIRST]))[FIRST]
            assert found is not None and found.offset == 0  # the task that reads may be busy with the record

    on_cluster(test, group_initial_rebalance_delay_ms=0)
