"""A whole node on a network in memory and on virtual time: starting, stopping, crashing, several listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.server import BrokerNode
from kafkaraw.errors import KafkaError, NetworkError, UsageError
from kafkaraw.net import Link
from kafkaraw.protocol import RequestHeader, decode_response, encode_request
from kafkaraw.protocol.apis import api_of
from kafkaraw.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkaraw.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkaraw.protocol.messages.metadata import MetadataRequest
from kafkaraw.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkaraw.records import encode_batch
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.support import disk_without_luck

PORT = 9092


class RawClient:
    """A client that writes requests and waits for answers, one at a time."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._answer: asyncio.Future[memoryview] | None = None
        self.lost = asyncio.Event()

    async def dial(self, port: int = PORT) -> RawClient:
        self.link = await self._simulation.network.dial("127.0.0.1", port, self, timeout=5, frame_size_max=1 << 26)
        return self

    async def ask(self, message: Any, version: int) -> Any:
        api = api_of(message)
        self._answer = asyncio.get_running_loop().create_future()
        self.link.send([encode_request(RequestHeader(api.key, version, 1, "raw"), message)])
        _, answer = decode_response(await self._answer, api.key, version)
        return answer

    async def produce(self, *values: bytes) -> Any:
        now_ms = self._simulation.clock.time_ms()
        data = encode_batch([(now_ms, None, value, []) for value in values])
        topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=data)])]
        answer = await self.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
        return answer.responses[0].partition_responses[0]

    async def create(self) -> None:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        await self.ask(CreateTopicsRequest(topics=[topic]), 7)

    async def fetch(self, offset: int, max_wait_ms: int = 500) -> Any:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="t", partitions=[partition])]
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics)
        return (await self.ask(request, 12)).responses[0].partitions[0]

    def link_made(self, link: Link) -> None:
        pass

    def frame_received(self, frame: memoryview) -> None:
        assert self._answer is not None
        self._answer.set_result(frame)

    def link_lost(self, error: KafkaError | None) -> None:
        self.lost.set()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NetworkError("lost", stage="request"))

    def writing_paused(self, paused: bool) -> None:
        pass


def make_node(simulation: Simulation, storage: LogStorage | None = None, **properties: Any) -> BrokerNode:
    config = BrokerConfig.parse({name.replace("_", "."): value for name, value in properties.items()})
    return BrokerNode(
        config,
        network=simulation.network,
        storage=storage or MemoryStorage(),
        clock=simulation.clock,
        rng=simulation.rng,
    )


def simulate(scenario: Callable[[Simulation], Awaitable[Any]], seed: int = 1) -> Any:
    return run_virtual(scenario, seed)


def test_what_one_client_produces_another_fetches_as_it_comes():
    async def scenario(simulation: Simulation) -> None:
        async with make_node(simulation):
            writer, reader = await RawClient(simulation).dial(), await RawClient(simulation).dial()
            await writer.create()
            waiting = asyncio.create_task(reader.fetch(0, max_wait_ms=60_000))
            await asyncio.sleep(5)
            assert (await writer.produce(b"a", b"b")).base_offset == 0
            got = await waiting
            assert got.high_watermark == 2
            assert len(got.records) > 0
            assert simulation.loop.time() < 6

    simulate(scenario)


def test_the_same_seed_gives_the_same_bytes():
    async def scenario(simulation: Simulation) -> str:
        async with make_node(simulation):
            client = await RawClient(simulation).dial()
            await client.create()
            for value in (b"a", b"b", b"c"):
                await client.produce(value)
            await client.fetch(0)
            await client.ask(MetadataRequest(topics=None), 12)
        return simulation.network.digest()

    assert simulate(scenario, 3) == simulate(scenario, 3)
    assert simulate(scenario, 3) != simulate(scenario, 4)


def test_a_stopped_broker_refuses_connections_and_keeps_its_data():
    async def scenario(simulation: Simulation) -> None:
        storage = disk_without_luck()
        node = make_node(simulation, storage)
        await node.start()
        client = await RawClient(simulation).dial()
        await client.create()
        await client.produce(b"kept")
        await node.stop()
        await asyncio.wait_for(client.lost.wait(), 5)
        with pytest.raises(NetworkError):
            await RawClient(simulation).dial()
        storage.lose_unsynced()
        async with make_node(simulation, storage):
            client = await RawClient(simulation).dial()
            assert (await client.fetch(0)).high_watermark == 1
        await node.stop()

    simulate(scenario)


def test_a_killed_broker_keeps_what_the_operating_system_had():
    async def scenario(simulation: Simulation) -> None:
        storage = disk_without_luck()
        node = make_node(simulation, storage, log_flush_interval_messages=2)
        await node.start()
        client = await RawClient(simulation).dial()
        await client.create()
        for value in (b"a", b"b", b"c"):
            await client.produce(value)
        await node.kill()
        await asyncio.wait_for(client.lost.wait(), 5)
        storage.lose_unsynced()
        async with make_node(simulation, storage):
            client = await RawClient(simulation).dial()
            assert (await client.fetch(0)).high_watermark == 2

    simulate(scenario)


def test_a_waiting_fetch_does_not_delay_the_stop():
    async def scenario(simulation: Simulation) -> None:
        node = make_node(simulation)
        await node.start()
        client = await RawClient(simulation).dial()
        await client.create()
        waiting = asyncio.create_task(client.fetch(0, max_wait_ms=600_000))
        await asyncio.sleep(1)
        before = simulation.loop.time()
        await node.stop()
        assert simulation.loop.time() - before < 2
        with pytest.raises(NetworkError):
            await waiting

    simulate(scenario)


def test_clients_of_each_listener_get_the_address_of_that_listener():
    async def scenario(simulation: Simulation) -> None:
        node = make_node(
            simulation,
            listeners="IN://127.0.0.1:1000,OUT://127.0.0.1:2000",
            listener_security_protocol_map="IN:PLAINTEXT,OUT:PLAINTEXT",
            advertised_listeners="OUT://broker.example:29092",
        )
        async with node:
            assert node.bootstrap_servers == "127.0.0.1:1000,broker.example:29092"
            for port, told in ((1000, ("127.0.0.1", 1000)), (2000, ("broker.example", 29092))):
                client = await RawClient(simulation).dial(port)
                broker = (await client.ask(MetadataRequest(topics=[]), 12)).brokers[0]
                assert (broker.host, broker.port) == told

    simulate(scenario)


def test_port_0_is_reported_as_the_chosen_port():
    async def scenario(simulation: Simulation) -> None:
        node = make_node(simulation, listeners="PLAINTEXT://127.0.0.1:0")
        async with node:
            port = int(node.bootstrap_servers.rpartition(":")[2])
            assert port > 0
            client = await RawClient(simulation).dial(port)
            assert (await client.ask(MetadataRequest(topics=[]), 12)).brokers[0].port == port

    simulate(scenario)


def test_connections_above_the_limit_are_turned_away():
    async def scenario(simulation: Simulation) -> None:
        async with make_node(simulation, max_connections=2) as node:
            clients = [await RawClient(simulation).dial() for _ in range(3)]
            await asyncio.wait_for(clients[2].lost.wait(), 5)
            await clients[0].create()
            assert node.connections_count == 2

    simulate(scenario)


def test_a_port_that_is_taken_fails_the_start_and_frees_the_storage():
    async def scenario(simulation: Simulation) -> None:
        async with make_node(simulation):
            second = make_node(simulation)
            with pytest.raises(NetworkError, match="9092"):
                await second.start()
            with pytest.raises(UsageError):
                _ = second.bootstrap_servers

    simulate(scenario)
