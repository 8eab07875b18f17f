"""`EmbeddedCluster`: several brokers, started in one line, to test how clients behave when a broker fails.

All nodes run in this process and share one loop thread. Each node has its own listener and its own data directory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkaraw.broker.cluster import WAIT_TIMEOUT_S, Cluster
from kafkaraw.broker.configs.arguments import DataDirs, chosen_node_ids, cluster_configs, data_directories
from kafkaraw.broker.faults import Faults
from kafkaraw.broker.old_releases import Offer
from kafkaraw.broker.settings import Value
from kafkaraw.broker.system import real_cluster
from kafkaraw.errors import UsageError
from kafkaraw.net import LoopThread

if TYPE_CHECKING:
    from kafkaraw.broker.telemetry.received import ClientMetric

START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 30.0

T = TypeVar("T")


class EmbeddedCluster:
    """Several Kafka brokers on this machine. They listen on 127.0.0.1, unless the property `listeners` is set.

        with EmbeddedCluster() as cluster:
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
            cluster.kill_node(cluster.leader_of("flights"))

    The default replication factor (`default.replication.factor`) is the number of nodes, at most 3.

    Args:
        nodes: number of nodes; None is the number of `node_ids`, or 3 without them.
        node_ids: ids of the nodes; None is 0, 1, 2 and so on.
        port: port of the first node; each further node has the next port. 0 (and None) selects a free port for each.
        ports: the port of each node, in the order of the ids: a list, or a range with a step.
        data_dir: directory in which topics are stored, or several as a list, with a subdirectory for each node; None
            keeps them in memory.
        properties: Kafka's broker properties, the same for all nodes.
        users: users that may authenticate: passwords by user name. Without `listeners`, listeners are SASL_PLAINTEXT.
        racks: the rack of each node, in the order of the ids; None for no racks.
        max_versions: support only the API versions of this Kafka release, such as "2.4"; None is the newest release.

    Raises:
        ConfigError: a property is unknown or has an invalid value, ids or ports contradict each other, or the release
            is unknown.
    """

    def __init__(  # noqa: PLR0913  # each has a default
        self,
        nodes: int | None = None,
        *,
        node_ids: Sequence[int] | None = None,
        port: int | None = None,
        ports: Sequence[int] | None = None,
        data_dir: DataDirs = None,
        properties: Mapping[str, Value] | None = None,
        users: Mapping[str, str] | None = None,
        racks: Sequence[str] | None = None,
        max_versions: str | None = None,
    ) -> None:
        Offer(max_versions)  # an unknown release is an error here already
        self._node_ids = chosen_node_ids(nodes, node_ids)
        port = port if ports is not None else port or 0
        self._config_of = cluster_configs(self._node_ids, properties, port=port, ports=ports, users=users, racks=racks)
        self._config_of(self._node_ids[0])  # an invalid property is an error here already, too
        self._data_dirs = data_directories(data_dir)
        self._faults = Faults()
        self._max_versions = max_versions
        self._owner_process_id = os.getpid()
        self._loop_thread: LoopThread | None = None
        self._cluster: Cluster | None = None

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, running or not, for the clients' option `bootstrap_servers`.

        Raises:
            UsageError: the cluster is not running.
        """
        return self._running.bootstrap_servers

    @property
    def faults(self) -> Faults:
        """The faults to inject into requests, on all nodes or on one (`node=`), and whether they have happened."""
        return self._faults

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes of the cluster, running or not."""
        return self._running.node_ids

    @property
    def nodes(self) -> list[int]:
        """The ids of the running nodes."""
        return sorted(self._running.nodes)

    @property
    def controller_id(self) -> int:
        """The id of the node that Metadata responses name as the controller."""
        return self._running.controller_id

    def address_of(self, node_id: int) -> str:
        """Return the address of a running node, as `host:port`.

        Raises:
            UsageError: the node is not running.
        """
        node = self._running.nodes.get(node_id)
        if node is None:
            raise UsageError(f"node {node_id} does not run; those that do are {self.nodes}")
        return node.bootstrap_servers

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Return the id of the leader of a partition; None if it has no leader.

        Raises:
            UsageError: the partition does not exist.
        """
        return self._running.leader_of(topic, partition)

    def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the in-sync replicas of a partition.

        Raises:
            UsageError: the partition does not exist.
        """
        return self._running.isr_of(topic, partition)

    def coordinator_of(self, group_id: str) -> int | None:
        """Return the id of the coordinator of a group; None if there is none, as before any group is used."""
        return self._running.coordinator_of(group_id)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def client_metrics(self) -> list[ClientMetric]:
        """Return the newest metrics that clients have pushed to any node; see `EmbeddedBroker.client_metrics`.

        Raises:
            UsageError: the cluster is not running, or the package protobuf is missing.
        """
        from kafkaraw.broker.telemetry.received import read_client_metrics  # most clusters get none

        return read_client_metrics(self._running.controller.received_metrics)

    def stop_node(self, node_id: int, timeout: float = STOP_TIMEOUT_S) -> None:
        """Stop a node gracefully: its partitions get other leaders first.

        Raises:
            UsageError: the node is not running.
        """
        self._run(lambda cluster: cluster.stop_node(node_id), timeout)

    def kill_node(self, node_id: int, timeout: float = STOP_TIMEOUT_S) -> None:
        """Stop a node as if its process was killed: nothing is flushed or announced. Other replicas become leaders.

        Raises:
            UsageError: the node is not running.
        """
        self._run(lambda cluster: cluster.kill_node(node_id), timeout)

    def start_node(self, node_id: int, timeout: float = START_TIMEOUT_S) -> None:
        """Start a stopped node; see also `wait_until_in_sync`.

        Raises:
            UsageError: the node is already running, or does not exist.
            NetworkError: another process uses the node's port.
        """
        self._run(lambda cluster: cluster.start_node(node_id), timeout)

    def add_node(self, timeout: float = START_TIMEOUT_S) -> int:
        """Start a new node and return its id. It gets replicas of new and of reassigned partitions."""
        return self._run(lambda cluster: cluster.add_node(), timeout)

    def move_leader(self, topic: str, partition: int, node_id: int, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Make a node the leader of a partition.

        Raises:
            UsageError: the partition does not exist, or the node is not running or not in sync.
        """

        async def move(cluster: Cluster) -> None:
            cluster.move_leader(topic, partition, node_id)

        self._run(move, timeout)

    def pause_replication(self, node_id: int, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Stop replication to the followers on a node until `resume_replication`. They lag and leave the ISR."""

        async def pause(cluster: Cluster) -> None:
            cluster.pause_replication(node_id)

        self._run(pause, timeout)

    def resume_replication(self, node_id: int, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Resume replication after `pause_replication`."""

        async def resume(cluster: Cluster) -> None:
            cluster.resume_replication(node_id)

        self._run(resume, timeout)

    def wait_until_in_sync(self, timeout: float = WAIT_TIMEOUT_S) -> None:
        """Wait until every partition has a leader and every replica on a running node is in sync.

        Raises:
            KafkaTimeoutError: this did not happen within `timeout` seconds.
        """
        self._run(lambda cluster: cluster.wait_until_in_sync(timeout), timeout + WAIT_TIMEOUT_S)

    # -- start and stop ----------------------------------------------------------------------------------------------

    @property
    def _running(self) -> Cluster:
        if self._cluster is None:
            raise UsageError("the cluster is not running: use it in a `with` statement, or call start()")
        return self._cluster

    def _run(self, action: Callable[[Cluster], Coroutine[Any, Any, T]], timeout: float) -> T:
        cluster, loop_thread = self._running, self._loop_thread
        if os.getpid() != self._owner_process_id:
            raise UsageError("the cluster runs in the process that started it; this one is forked from that")
        assert loop_thread is not None
        return loop_thread.run(action(cluster), timeout)

    def start(self) -> EmbeddedCluster:
        """Start the cluster. Clients can connect as soon as this returns.

        Raises:
            UsageError: the cluster is already running.
            ConfigError: the data directory cannot be used.
            NetworkError: a port is already in use.
        """
        if self._cluster is not None:
            raise UsageError("the cluster is running already")
        cluster = real_cluster(self._node_ids, self._config_of, self._data_dirs, self._faults, self._max_versions)
        loop_thread = LoopThread("kafkaraw-cluster")
        try:
            loop_thread.run(cluster.start(), START_TIMEOUT_S)
        except BaseException:
            loop_thread.stop()
            raise
        self._cluster, self._loop_thread = cluster, loop_thread
        return self

    def stop(self) -> None:
        """Stop all nodes. When this returns, `data_dir` is complete. A second call has no effect."""
        self._end(lambda cluster: cluster.stop())

    def kill(self) -> None:
        """Stop all nodes as if the machine had crashed: connections break, and nothing is flushed."""
        self._end(lambda cluster: cluster.kill())

    def _end(self, end: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
        cluster, self._cluster = self._cluster, None
        loop_thread, self._loop_thread = self._loop_thread, None
        if os.getpid() != self._owner_process_id:
            return  # a forked child has copies of its parent's objects and must not stop them
        if cluster is not None and loop_thread is not None:
            try:
                loop_thread.run(end(cluster), STOP_TIMEOUT_S)
            finally:
                loop_thread.stop()

    def __enter__(self) -> EmbeddedCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> EmbeddedCluster:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
