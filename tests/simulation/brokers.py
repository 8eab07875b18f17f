"""The brokers of a simulated world: one by itself, or a cluster of several; how they go down, and come back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from enum import Enum

from kafkaraw.broker import BrokerConfig, BrokerNode, Cluster, Surroundings
from kafkaraw.broker.log.memory_storage import MemoryStorage
from kafkaraw.testing.virtual import Simulation
from tests.simulation.climate import PASSWORD, PORT, USER, Climate, host_of
from tests.simulation.old_news import OldNews


class Down(Enum):
    """How a broker goes down."""

    STOP = "in order"
    KILL = "the process dies, what it has written is there"
    CRASH = "the machine dies, only what was synced is there"


def config(climate: Climate, node_id: int) -> BrokerConfig:
    users = {USER: PASSWORD} if climate.login == "PLAIN" else None
    return BrokerConfig.parse(climate.properties(node_id), users)


class OneBroker:
    """A broker that is a cluster by itself."""

    def __init__(self, simulation: Simulation, climate: Climate, rng: random.Random) -> None:
        self._simulation = simulation
        self._climate = climate
        self._rng = rng
        self._storage = MemoryStorage()
        self._node: BrokerNode | None = None
        self.ids = [0]

    @property
    def running(self) -> list[int]:
        return [] if self._node is None else [0]

    async def start(self) -> None:
        await self.bring_up(0)

    async def bring_up(self, node_id: int) -> None:
        simulation = self._simulation
        self._node = BrokerNode(
            config(self._climate, node_id),
            network=simulation.network,
            storage=self._storage,
            clock=simulation.clock,
            rng=self._rng,
        )
        await self._node.start()

    async def take_down(self, node_id: int, how: Down) -> None:
        node, self._node = self._node, None
        assert node is not None
        await (node.stop() if how is Down.STOP else node.kill())
        if how is Down.CRASH:
            self._storage.lose_unsynced()

    async def stop(self) -> None:
        if self._node is not None:
            await self._node.stop()


class SeveralBrokers:
    """A cluster."""

    def __init__(self, simulation: Simulation, climate: Climate, rng: random.Random) -> None:
        self._simulation = simulation
        self._climate = climate
        self._rng = rng
        self._delays = random.Random(rng.random())
        self._storages = {node_id: MemoryStorage() for node_id in range(climate.nodes)}
        self._facts = MemoryStorage()
        self._switching = asyncio.Lock()  # two series of faults may go on at a time
        self._has_power = True
        self.old_news = OldNews()
        self.cluster = self._new_cluster()
        self.ids = list(self._storages)

    def _new_cluster(self) -> Cluster:
        surroundings = Surroundings(
            network=self._simulation.network,
            storage_of=self._storages.__getitem__,
            facts=self._facts,
            clock=self._simulation.clock,
            rng=self._rng,
            replication_delay_s=lambda: self._delays.uniform(*self._climate.replication_delay_s),
        )
        return Cluster(range(self._climate.nodes), lambda node_id: config(self._climate, node_id), surroundings)

    @property
    def running(self) -> list[int]:
        return sorted(self.cluster.nodes)

    async def start(self) -> None:
        await self.cluster.start()

    async def bring_up(self, node_id: int) -> None:
        async with self._switching:
            if self._has_power and node_id not in self.running:  # after a power cut, all come up together
                await self.cluster.start_node(node_id)

    async def take_down(self, node_id: int, how: Down) -> None:
        async with self._switching:
            if node_id not in self.running:
                return
            await (self.cluster.stop_node(node_id) if how is Down.STOP else self.cluster.kill_node(node_id))
            if how is Down.CRASH:
                self._storages[node_id].lose_unsynced()

    def tell_old_news(self, node_id: int) -> Callable[[], object]:
        """Let a node tell clients what is known now, until the returned function is called."""
        node = self.cluster.nodes.get(node_id)
        return self.old_news.tell(node.state) if node is not None else lambda: None

    async def cut_power(self) -> None:
        """All go down at once, and what was not synced is lost where the climate says that machines crash."""
        async with self._switching:
            if not self._has_power:
                return
            self._has_power = False
            await self.cluster.kill()
            if self._climate.syncs:
                for storage in self._storages.values():
                    storage.lose_unsynced()

    async def restore_power(self) -> None:
        async with self._switching:
            if self._has_power:
                return
            self._has_power = True
            self.cluster = self._new_cluster()
            await self.cluster.start()

    async def stop(self) -> None:
        await self.cluster.stop()


def address_of(node_id: int) -> tuple[str, int]:
    return host_of(node_id), PORT


def bootstrap(ids: list[int]) -> str:
    return ",".join(f"{host_of(node_id)}:{PORT}" for node_id in ids)
