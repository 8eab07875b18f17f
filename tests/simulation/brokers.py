"""The simulated brokers: one, or a cluster of several; how they stop, are killed, crash and start again."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum

from kafkaraw.broker import BrokerConfig, BrokerNode, Cluster, Surroundings
from kafkaraw.broker.handlers.registration import load_handlers
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Catalog
from kafkaraw.errors import ConfigError
from kafkaraw.testing.simulated_disk import SimulatedDisk
from kafkaraw.testing.virtual import Simulation
from tests.simulation.environment import PASSWORD, PORT, USER, Environment, host_of

METADATA_KEY = 3


class StaleMetadata:
    """Brokers that answer Metadata requests from an old copy of the catalog, as Kafka's do before an update.

    Only Metadata responses are stale. The brokers of a simulation share one catalog, so a broker that is to lag gets a
    copy.
    """

    def __init__(self) -> None:
        self._catalogs: dict[BrokerState, Catalog] = {}

    def freeze(self, state: BrokerState) -> Callable[[], None]:
        """Let a broker answer from the present catalog until the returned function is called."""
        if state in self._catalogs:
            return lambda: None
        self._catalogs[state] = copy.deepcopy(state.catalog)
        return lambda: self._catalogs.pop(state, None)

    @contextmanager
    def in_effect(self) -> Iterator[None]:
        """In this context, the chosen brokers answer from their copies."""
        handle = load_handlers()[METADATA_KEY]

        def handle_with_stale_catalog(state, context, request):
            catalog = self._catalogs.get(state)
            if catalog is not None:
                state, request = copy.copy(state), replace(request, allow_auto_topic_creation=False)
                state.controller = copy.copy(state.controller)
                state.controller.catalog = catalog
            return handle(state, context, request)

        load_handlers()[METADATA_KEY] = handle_with_stale_catalog
        try:
            yield
        finally:
            load_handlers()[METADATA_KEY] = handle


class Down(Enum):
    """How a broker ends."""

    STOP = "gracefully"
    KILL = "the process is killed: what it has written is kept"
    CRASH = "the machine crashes: only what was synced is kept"


def config(environment: Environment, node_id: int) -> BrokerConfig:
    users = {USER: PASSWORD} if environment.sasl_mechanism == "PLAIN" else None
    return BrokerConfig.parse(environment.properties(node_id), users)


def disk_of(simulation: Simulation, node_id: int, environment: Environment) -> SimulatedDisk:
    """Return the disk of a node; what a crash leaves on it depends on the seed alone."""
    return SimulatedDisk(random.Random(f"disk of {node_id} {simulation.seed}"), keeps_names=environment.keeps_names)


def crash_if_due(disk: SimulatedDisk, how: Down) -> None:
    """Crash a disk with its machine.

    After a failed sync, the machine starts again, too. If only the broker did, it would recover bytes of the page cache
    that are not on the disk, and the next crash would take what is written behind them with it.
    """
    if how is Down.CRASH or disk.has_lost_writes:
        disk.lose_unsynced()


@contextmanager
def failing_with_the_disk() -> Iterator[None]:
    """A broker starts in this context: if its disk fails, raise the disk's error, which the broker explains."""
    try:
        yield
    except ConfigError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        raise


class OneBroker:
    """A cluster of one broker."""

    def __init__(self, simulation: Simulation, environment: Environment, rng: random.Random) -> None:
        self._simulation = simulation
        self._climate = environment
        self._rng = rng
        self.disks = {0: disk_of(simulation, 0, environment)}
        self._node: BrokerNode | None = None
        self.ids = [0]

    @property
    def running(self) -> list[int]:
        return [] if self._node is None else [0]

    async def start(self) -> None:
        await self.bring_up(0)

    async def bring_up(self, node_id: int) -> None:
        simulation = self._simulation
        with failing_with_the_disk():
            node = BrokerNode(
                config(self._climate, node_id),
                network=simulation.network,
                storage=self.disks[0],
                clock=simulation.clock,
                rng=self._rng,
            )
            await node.start()
        self._node = node

    def has_failed(self, node_id: int) -> bool:
        """Return whether the log directory of the broker is offline."""
        return self._node is not None and bool(self._node.state.dir_failures.offline)

    async def take_down(self, node_id: int, how: Down) -> None:
        node, self._node = self._node, None
        if node is None:
            return
        await (node.stop() if how is Down.STOP else node.kill())
        crash_if_due(self.disks[0], how)

    async def stop(self) -> None:
        if self._node is not None:
            await self._node.stop()


class SeveralBrokers:
    """A cluster of several brokers."""

    def __init__(self, simulation: Simulation, environment: Environment, rng: random.Random) -> None:
        self._simulation = simulation
        self._climate = environment
        self._rng = rng
        self._delays = random.Random(rng.random())
        self.ids = list(range(environment.first_id, environment.first_id + environment.nodes))
        self.disks = {node_id: disk_of(simulation, node_id, environment) for node_id in self.ids}
        self._facts = disk_of(simulation, self.ids[-1] + 1, environment)
        self._switching = asyncio.Lock()  # two series of faults may run at a time
        self._has_power = True
        self.stale_metadata = StaleMetadata()
        self.cluster = self._new_cluster()

    def _new_cluster(self) -> Cluster:
        surroundings = Surroundings(
            network=self._simulation.network,
            storage_of=self.disks.__getitem__,
            facts=self._facts,
            clock=self._simulation.clock,
            rng=self._rng,
            replication_delay_s=lambda: self._delays.uniform(*self._climate.replication_delay_s),
        )
        return Cluster(self.ids, lambda node_id: config(self._climate, node_id), surroundings)

    @property
    def running(self) -> list[int]:
        return sorted(self.cluster.nodes)

    async def start(self) -> None:
        await self.cluster.start()

    async def bring_up(self, node_id: int) -> None:
        async with self._switching:
            if self._has_power and node_id not in self.running:  # after a power cut, all come up together
                with failing_with_the_disk():
                    await self.cluster.start_node(node_id)

    async def take_down(self, node_id: int, how: Down) -> None:
        async with self._switching:
            if node_id not in self.running:
                return
            await (self.cluster.stop_node(node_id) if how is Down.STOP else self.cluster.kill_node(node_id))
            crash_if_due(self.disks[node_id], how)

    def has_failed(self, node_id: int) -> bool:
        """Return whether the log directory of a running node is offline."""
        node = self.cluster.nodes.get(node_id)
        return node is not None and bool(node.state.dir_failures.offline)

    def serve_stale_metadata(self, node_id: int) -> Callable[[], object]:
        """Let a node answer Metadata requests from the present catalog until the returned function is called."""
        node = self.cluster.nodes.get(node_id)
        return self.stale_metadata.freeze(node.state) if node is not None else lambda: None

    async def cut_power(self) -> None:
        """Kill all brokers at once; what was not synced is lost if brokers sync each batch."""
        async with self._switching:
            if not self._has_power:
                return
            self._has_power = False
            await self.cluster.kill()
            if self._climate.syncs_batches:
                for disk in (*self.disks.values(), self._facts):
                    disk.lose_unsynced()

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
