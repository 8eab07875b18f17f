"""Every call that waits ends at its timeout, whatever the brokers do not do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kafkaraw.client.admin import AsyncAdmin
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.errors import KafkaTimeoutError
from kafkaraw.records import TopicPartition
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.client.scripted_cluster import ScriptedCluster, runtime_of

P0 = TopicPartition("t", 0)
TIMEOUT = 3.0

RAISING: dict[str, Callable[[AsyncConsumer, AsyncAdmin], Awaitable[object]]] = {
    "position": lambda consumer, admin: consumer.position(P0, TIMEOUT),
    "beginning_offsets": lambda consumer, admin: consumer.beginning_offsets([P0], TIMEOUT),
    "end_offsets": lambda consumer, admin: consumer.end_offsets([P0], TIMEOUT),
    "offsets_for_times": lambda consumer, admin: consumer.offsets_for_times({P0: 0}, TIMEOUT),
    "partitions_for": lambda consumer, admin: consumer.partitions_for("t", TIMEOUT),
    "create_topics": lambda consumer, admin: admin.create_topics(["new"], timeout=TIMEOUT),
    "delete_topics": lambda consumer, admin: admin.delete_topics(["t"], timeout=TIMEOUT),
    "list_topics": lambda consumer, admin: admin.list_topics(timeout=TIMEOUT),
    "describe_topics": lambda consumer, admin: admin.describe_topics(["t"], timeout=TIMEOUT),
}

EMPTY: dict[str, Callable[[AsyncConsumer], Awaitable[object]]] = {
    "poll": lambda consumer: consumer.poll(TIMEOUT),
    "batches": lambda consumer: anext(consumer.batches(TIMEOUT), {}),
}


def never(message: object) -> asyncio.Event:
    return asyncio.Event()


def silent_from_the_start(cluster: ScriptedCluster) -> None:
    cluster.simulation.network.silence("broker1", 9092)


def silent_after_the_handshake(cluster: ScriptedCluster) -> None:
    cluster.hold = never


def silent_after_the_start(cluster: ScriptedCluster) -> None:
    cluster.hold = lambda message: asyncio.Event() if len(cluster.seen) > 2 else None


WAYS = [silent_from_the_start, silent_after_the_handshake, silent_after_the_start]


def simulate(way: Callable[[ScriptedCluster], None], play: Callable[..., Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        cluster = await ScriptedCluster(simulation).start()
        cluster.create("t")
        runtime, servers = runtime_of(simulation), cluster.bootstrap_servers
        way(cluster)
        async with (
            AsyncConsumer(runtime=runtime, bootstrap_servers=servers) as consumer,
            AsyncAdmin(runtime=runtime, bootstrap_servers=servers) as admin,
        ):
            consumer.assign([P0])
            await play(consumer, admin)
        assert simulation.loop.time() < TIMEOUT + 2  # closing takes its second

    run_virtual(main, 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RAISING)
def test_a_call_ends_at_its_timeout(name: str, way: Callable[[ScriptedCluster], None]) -> None:
    async def play(consumer: AsyncConsumer, admin: AsyncAdmin) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(KafkaTimeoutError):
            await RAISING[name](consumer, admin)
        assert loop.time() - began == pytest.approx(TIMEOUT, abs=0.1)

    simulate(way, play)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", EMPTY)
def test_waiting_for_records_ends_at_its_timeout(name: str, way: Callable[[ScriptedCluster], None]) -> None:
    async def play(consumer: AsyncConsumer, admin: AsyncAdmin) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await EMPTY[name](consumer) == {}
        assert loop.time() - began == pytest.approx(TIMEOUT, abs=0.1)

    simulate(way, play)
