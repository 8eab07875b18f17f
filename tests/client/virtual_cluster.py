"""A real broker and clients on virtual time, for tests of one rule each: no sleeping, no sockets, exact times."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kafkaraw.broker import BrokerConfig, BrokerNode
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.client.admin import AsyncAdmin, NewTopic
from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.client.producer import AsyncProducer, core_of
from kafkaraw.client.runtime import Runtime
from kafkaraw.protocol import decode_request
from kafkaraw.protocol.messages.produce import ProduceRequest
from kafkaraw.records import BatchHeader, Record, iter_headers
from kafkaraw.testing.discard import discard
from kafkaraw.testing.virtual import Simulation, run_virtual
from tests.broker.support import FEW_PARTITIONS

T = TypeVar("T")
HOST, PORT = "127.0.0.1", 9092
BOOTSTRAP = f"{HOST}:{PORT}"


class VirtualCluster:
    """One broker on virtual time, with what tests want to do to it and know of it."""

    def __init__(
        self,
        simulation: Simulation,
        properties: dict[str, object],
        max_versions: str | None = None,
        *,
        port: int = PORT,
    ) -> None:
        self.simulation = simulation
        self.port, self.bootstrap = port, f"{HOST}:{port}"
        self.max_versions = max_versions
        self.network = simulation.network
        self.storage = MemoryStorage()
        self.properties = {"listeners": f"PLAINTEXT://{self.bootstrap}", **properties}
        self._clients = 0
        self._producers: list[AsyncProducer] = []
        self.node = self.new_node()

    def new_node(self) -> BrokerNode:
        return BrokerNode(
            BrokerConfig.parse(self.properties),
            network=self.network,
            storage=self.storage,
            clock=self.simulation.clock,
            rng=random.Random(1 + self.port - PORT),  # its cluster has another id
            max_versions=self.max_versions,
        )

    @property
    def runtime(self) -> Runtime:
        """Of one client; the next one has other random numbers."""
        self._clients += 1
        return Runtime(self.network, self.simulation.clock, random.Random(1 + self._clients))

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self.simulation.loop.time()

    def producer(self, **settings: object) -> AsyncProducer:
        producer = AsyncProducer(bootstrap_servers=self.bootstrap, runtime=self.runtime, **settings)
        self._producers.append(producer)
        return producer

    def consumer(self, **settings: object) -> AsyncConsumer:
        given = {"auto_offset_reset": "earliest", **settings}
        return AsyncConsumer(bootstrap_servers=self.bootstrap, runtime=self.runtime, **given)

    def admin(self) -> AsyncAdmin:
        return AsyncAdmin(bootstrap_servers=self.bootstrap, runtime=self.runtime)

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        async with self.admin() as admin:
            renamed = {key.replace("_", "."): value for key, value in configs.items()}
            await admin.create_topics([NewTopic(name, partitions, configs=renamed)])

    async def read(self, topic: str, count: int) -> list[Record]:
        """The first `count` records of a topic."""
        records: list[Record] = []
        async with self.consumer() as consumer:
            consumer.assign(await consumer.partitions_for(topic))
            while len(records) < count:
                batches = await consumer.poll(10)
                assert batches, f"only {len(records)} of {count} records"
                records += [record for batch in batches.values() for record in batch]
        return records

    async def end(self) -> None:
        """The world ends, for producers that the test has left open, too."""
        await self.node.kill()
        for producer in self._producers:
            if core_of(producer).is_open:
                await discard(producer)

    async def kill(self) -> None:
        """As `kill -9`: connections break, the port is closed."""
        await self.node.kill()

    async def restart(self) -> None:
        self.node = self.new_node()
        await self.node.start()

    def silence(self, silent: bool = True) -> None:
        self.network.silence(HOST, self.port, silent)

    def cut(self) -> None:
        self.network.cut(HOST, self.port)

    def requests(self) -> list[object]:
        """Every request so far."""
        return [message for _, message in self._sent()]

    def produce_requests(self) -> list[tuple[float, ProduceRequest]]:
        """Every Produce request so far, with the time it was sent."""
        return [(at_s, message) for at_s, message in self._sent() if isinstance(message, ProduceRequest)]

    def _sent(self) -> list[tuple[float, object]]:
        return [
            (sent.at_s, decode_request(memoryview(sent.data)[4:])[1])
            for sent in self.network.history
            if sent.by == "client"
        ]

    def batch_headers(self) -> list[BatchHeader]:
        """The header of every batch sent so far, in order."""
        return [
            header
            for _, request in self.produce_requests()
            for topic in request.topic_data
            for partition in topic.partition_data
            for header, _ in iter_headers(memoryview(partition.records))
        ]


def on_cluster(
    test: Callable[[VirtualCluster], Awaitable[T]],
    seed: int = 1,
    *,
    max_versions: str | None = None,
    **properties: object,
) -> T:
    """Run a test with a broker; properties with `_` for `.`."""

    async def life(simulation: Simulation) -> T:
        named = FEW_PARTITIONS | {key.replace("_", "."): value for key, value in properties.items()}
        cluster = VirtualCluster(simulation, named, max_versions)
        await cluster.node.start()
        try:
            return await test(cluster)
        finally:
            await cluster.end()

    return run_virtual(life, seed)
