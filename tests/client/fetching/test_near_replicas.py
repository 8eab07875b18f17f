"""A consumer reads from a replica in its rack, and from the leader when that is gone (KIP-392)."""

from __future__ import annotations

import asyncio

import pytest

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.records import TopicPartition
from tests.broker.handlers.test_fetch_from_followers import RackedNodes, nodes_that_give, racked, written
from tests.broker.virtual_nodes import VirtualNodes
from tests.client.scripted_cluster import runtime_of

P0 = TopicPartition("t", 0)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return nodes_that_give(monkeypatch)


async def read(consumer: AsyncConsumer, count: int) -> list[bytes | None]:
    got: list[bytes | None] = []
    while len(got) < count:
        for batch in (await consumer.poll(30)).values():
            got += batch.values()
    return got


def test_a_consumer_in_a_rack_reads_from_the_replica_there_and_survives_its_end(given: list[int]) -> None:
    async def life(nodes: VirtualNodes) -> None:
        assert isinstance(nodes, RackedNodes)
        await written(nodes)
        async with AsyncConsumer(
            runtime=runtime_of(nodes.simulation),
            bootstrap_servers="127.0.0.1:9092",
            auto_offset_reset="earliest",
            client_rack="b",
        ) as consumer:
            consumer.assign([P0])
            assert await read(consumer, 3) == [b"v"] * 3
            assert set(given) <= {1, 2}
            near = given[-1]
            await nodes.cluster.kill_node(near)
            await nodes.produce(0, b"w", timeout_ms=60_000)
            assert await read(consumer, 1) == [b"w"]
            assert near != given[-1]
            await asyncio.sleep(0)

    racked(life)
