"""`Cluster`: several nodes in one process and on one event loop, which can be started, stopped and killed.

Network, storage, clock and randomness are passed in, as for a single node, so that a simulation runs the same code.
`embedded_cluster` runs a cluster on a thread with real sockets. The `controller` elects leaders; this module only
starts and stops nodes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Final, Protocol

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.faults import Faults
from kafkaraw.broker.ids import RandomBits, random_uuid
from kafkaraw.broker.listeners import Endpoint
from kafkaraw.broker.log.directories import Storages
from kafkaraw.broker.log.storage import ROOT, LogStorage
from kafkaraw.broker.partitions.elections import NO_LEADER, PartitionState
from kafkaraw.broker.partitions.replication import Replication
from kafkaraw.broker.server import BrokerNode
from kafkaraw.core.log.directories import CLUSTER_FILE
from kafkaraw.errors import ConfigError, KafkaTimeoutError, UsageError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.net import Clock, Network
from kafkaraw.records import TopicPartition

CLUSTER_VERSION: Final = 1
WAIT_TIMEOUT_S: Final = 10.0


class Held(Protocol):
    """A port that is reserved for a stopped node."""

    def release(self) -> None:
        """Release the port."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment of a cluster: network, storage, clock and randomness.

    Attributes:
        network: the network on which nodes listen.
        storage_of: opens the log directories of the node with a given id; called at each start of the node.
        facts: storage of the cluster metadata that all nodes share; closed with the cluster.
        clock: wall clock.
        rng: source of random ids; `random.Random` or similar.
        replication_delay_s: returns the delay of the next message between nodes, in seconds; None is no delay.
        hold_port: reserves the port of a stopped node until it restarts; None if no other process could take the port.
    """

    network: Network
    storage_of: Callable[[int], Storages]
    facts: LogStorage
    clock: Clock
    rng: RandomBits
    replication_delay_s: Callable[[], float] | None = None
    hold_port: Callable[[str, int], Held] | None = None


class Cluster:
    """The nodes of one cluster.

        async with Cluster(range(3), config_of, surroundings) as cluster:
            await cluster.kill_node(cluster.leader_of("t", 0))

    Args:
        node_ids: ids of the initial nodes.
        config_of: returns the properties of the node with a given id. A listener on port 0 keeps the port that it gets.
        surroundings: network, storage, clock and randomness.
        faults: the fault plan of all nodes; None for a new, empty plan.
        max_versions: support only the API versions of this Kafka release, such as "2.4"; None is the newest release.
    """

    def __init__(
        self,
        node_ids: Sequence[int],
        config_of: Callable[[int], BrokerConfig],
        surroundings: Surroundings,
        *,
        faults: Faults | None = None,
        max_versions: str | None = None,
    ) -> None:
        if not node_ids:
            raise ConfigError("a cluster has at least one node, not 0")
        self.faults: Faults = faults if faults is not None else Faults()
        self.nodes: dict[int, BrokerNode] = {}
        self.replication: Replication = Replication(surroundings.replication_delay_s)
        self._configs = {node_id: config_of(node_id) for node_id in node_ids}
        self.controller: Controller = Controller(
            self._configs[node_ids[0]], surroundings.facts, surroundings.rng, self.replication
        )
        self._config_of = config_of
        self._around = surroundings
        self._max_versions = max_versions
        self._held_ports: dict[int, list[Held]] = {}

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes of the cluster, running or not."""
        return sorted(self._configs)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, running or not, for the clients' option `bootstrap_servers`."""
        endpoints = [one for node_id in self.node_ids for one in self._configs[node_id].advertised_listeners]
        return ",".join(str(endpoint).partition("://")[2] for endpoint in endpoints)

    def address_of(self, node_id: int) -> str:
        """Return the addresses of a node, running or not: `host:port`, separated by commas for several listeners.

        Raises:
            UsageError: the node does not exist.
        """
        self._check_known(node_id)
        endpoints = self._configs[node_id].advertised_listeners
        return ",".join(str(endpoint).partition("://")[2] for endpoint in endpoints)

    @property
    def controller_id(self) -> int:
        """The id of the node that Metadata responses name as the controller."""
        return self.controller.catalog.controller_id

    def partition_state(self, topic: str, partition: int) -> PartitionState:
        """Return the replicas, leader and ISR of a partition.

        Raises:
            UsageError: the partition does not exist.
        """
        state = self.controller.catalog.state_of(TopicPartition(topic, partition))
        if state is None:
            raise UsageError(f"there is no partition {topic}-{partition}")
        return state

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Return the id of the leader of a partition; None if it has no leader."""
        leader = self.partition_state(topic, partition).leader
        return None if leader == NO_LEADER else leader

    def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the in-sync replicas of a partition."""
        return list(self.partition_state(topic, partition).isr)

    def coordinator_of(self, group_id: str) -> int | None:
        """Return the id of the coordinator of a group; None if there is none, as before any group is used."""
        node = next(iter(self.nodes.values()), None)
        return None if node is None else node.state.groups.topic.leader_for(group_id, self.controller.catalog)

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all nodes.

        Raises:
            ConfigError: a storage belongs to another cluster or node, or is corrupt.
            NetworkError: an address is already in use, or does not belong to this machine.
            OSError: a storage cannot be read or written.
        """
        try:
            self._open_facts()
            for node_id in self.node_ids:
                await self._prepare(node_id)
        except BaseException:
            await self.stop()
            raise
        self.controller.brokers_up([node.description for node in self.nodes.values()])

    def _open_facts(self) -> None:
        text = self._around.facts.read_text(ROOT, CLUSTER_FILE)
        cluster_id, known = str(random_uuid(self._around.rng)), []
        if text is not None:
            try:
                content = json.loads(text)
                cluster_id, known = str(content["cluster_id"]), [int(node_id) for node_id in content["nodes"]]
            except (KeyError, TypeError, ValueError) as error:
                raise ConfigError(f"{CLUSTER_FILE} in the data directory is damaged: {error}") from error
        for node_id in known:
            self._configs.setdefault(node_id, self._config_of(node_id))
        self.controller.open(cluster_id, elect=True)
        self._write_facts()

    def _write_facts(self) -> None:
        content = {
            "version": CLUSTER_VERSION,
            "cluster_id": self.controller.catalog.cluster_id,
            "nodes": self.node_ids,
        }
        self._around.facts.write_text(ROOT, CLUSTER_FILE, json.dumps(content) + "\n")

    async def _prepare(self, node_id: int) -> BrokerNode:
        config = self._configs[node_id]
        node = BrokerNode(
            config,
            network=self._around.network,
            storage=self._around.storage_of(node_id),
            clock=self._around.clock,
            rng=self._around.rng,
            faults=self.faults,
            max_versions=self._max_versions,
            controller=self.controller,
        )
        await node.prepare()
        self._release_ports(node_id)
        self.nodes[node_id] = node
        self._configs[node_id] = _pinned(config, node.description.endpoints.values())
        self.controller.catalog.racks[node_id] = config.rack
        return node

    async def stop(self) -> None:
        """Stop all nodes at the same time, without electing other leaders. A second call has no effect."""
        await self._end(lambda node: node.stop())

    async def kill(self) -> None:
        """Kill all nodes at the same time, as if the machine had crashed."""
        await self._end(lambda node: node.kill())

    async def _end(self, end: Callable[[BrokerNode], Coroutine[object, None, None]]) -> None:
        nodes, self.nodes = list(self.nodes.values()), {}
        self.controller.close()
        for node_id in list(self._held_ports):
            self._release_ports(node_id)
        try:
            await asyncio.gather(*(end(node) for node in nodes))
        finally:
            self._around.facts.close()

    # -- nodes -------------------------------------------------------------------------------------------------------

    async def start_node(self, node_id: int) -> None:
        """Start a stopped node. Its replicas rejoin the ISR once they have caught up.

        Raises:
            UsageError: the node is already running, or does not exist.
            NetworkError: its address is already in use.
        """
        if node_id in self.nodes:
            raise UsageError(f"node {node_id} is already running")
        self._check_known(node_id)
        node = await self._prepare(node_id)
        self.controller.brokers_up([node.description])

    def _check_known(self, node_id: int) -> None:
        if node_id not in self._configs:
            raise UsageError(f"there is no node {node_id}; there are {self.node_ids}")

    async def stop_node(self, node_id: int) -> None:
        """Stop a node gracefully: its partitions get other leaders first.

        Raises:
            UsageError: the node is not running.
        """
        await self._remove(node_id).stop()
        self._hold_ports(node_id)

    async def kill_node(self, node_id: int) -> None:
        """Stop a node as if its process was killed: nothing is flushed or announced. Other replicas become leaders.

        Raises:
            UsageError: the node is not running.
        """
        await self._remove(node_id).kill()
        self._hold_ports(node_id)

    def _hold_ports(self, node_id: int) -> None:
        """Reserve the ports of a stopped node: clients keep connecting to them, so no other process may get them."""
        hold = self._around.hold_port
        if hold is not None:
            self._held_ports[node_id] = [hold(one.host, one.port) for one in self._configs[node_id].listeners]

    def _release_ports(self, node_id: int) -> None:
        for held in self._held_ports.pop(node_id, []):
            held.release()

    def _remove(self, node_id: int) -> BrokerNode:
        self._check_known(node_id)
        node = self.nodes.pop(node_id, None)
        if node is None:
            raise UsageError(f"node {node_id} does not run; those that do are {sorted(self.nodes)}")
        return node

    async def add_node(self) -> int:
        """Start a new node and return its id. It gets replicas of new and of reassigned partitions."""
        node_id = max(self._configs) + 1
        self._configs[node_id] = self._config_of(node_id)
        try:
            await self.start_node(node_id)
        except BaseException:
            del self._configs[node_id]
            raise
        self._write_facts()
        return node_id

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Make a node the leader of a partition.

        Raises:
            UsageError: the partition does not exist, or the node is not running or not in sync.
        """
        self.controller.move_leader(TopicPartition(topic, partition), node_id)

    def pause_replication(self, node_id: int) -> None:
        """Stop replication to the followers on a node until `resume_replication`."""
        self.replication.hold(node_id)

    def resume_replication(self, node_id: int) -> None:
        """Resume replication after `pause_replication`."""
        self.replication.release(node_id)

    async def wait_for(self, is_so: Callable[[], bool], what: str, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Wait until a condition holds; it is checked after each change of a partition's state.

        Raises:
            KafkaTimeoutError: the condition did not hold within `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                while not is_so():
                    await self.controller.next_change()
        except TimeoutError:
            raise KafkaTimeoutError(f"after {timeout:g} s still not true: {what}") from None

    async def wait_until_in_sync(self, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Wait until every partition has a leader and every replica on a running node is in sync.

        Raises:
            KafkaTimeoutError: this did not happen within `timeout` seconds.
        """
        await self.wait_for(self._is_in_sync, "all replicas on running nodes are in sync", timeout)

    def _is_in_sync(self) -> bool:
        catalog = self.controller.catalog
        return all(
            state.leader != NO_LEADER and all(node in state.isr for node in state.replicas if node in catalog.brokers)
            for topic in catalog.topics()
            for state in catalog.states_of(topic)
        )

    async def __aenter__(self) -> Cluster:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()


def _pinned(config: BrokerConfig, addresses: Iterable[Endpoint]) -> BrokerConfig:
    """Return the properties with the ports that a node got, so that it listens on the same ports after a restart."""
    ports = {endpoint.name: endpoint.port for endpoint in addresses}
    return replace(
        config,
        listeners=tuple(_with_port(one, ports[one.name]) for one in config.listeners),
        advertised_listeners=tuple(
            _with_port(endpoint, ports[endpoint.name]) for endpoint in config.advertised_listeners
        ),
    )


def _with_port(endpoint: Endpoint, port: int) -> Endpoint:
    return endpoint if endpoint.port else replace(endpoint, port=port)
