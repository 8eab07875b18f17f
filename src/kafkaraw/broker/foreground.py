"""`run_broker`: run a broker in the foreground until SIGINT or SIGTERM. For the command line and child processes.

Its first line of output is `bootstrap.servers=HOST:PORT`, so that scripts can wait for it and read the port. The second
line of a cluster is `control.socket=PATH`: the socket for commands that start and stop its nodes (`node_commands`).
If the metrics of clients are served, the last line is `metrics.url=URL`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kafkaraw.broker.cluster import Cluster
from kafkaraw.broker.configs.arguments import (
    DataDirs,
    broker_config,
    chosen_node_ids,
    cluster_configs,
    data_directories,
)
from kafkaraw.broker.faults import Faults
from kafkaraw.broker.node_commands import NodeCommands
from kafkaraw.broker.server import BrokerNode
from kafkaraw.broker.settings import Value
from kafkaraw.broker.system import real_cluster, real_node
from kafkaraw.errors import ConfigError
from kafkaraw.net import SystemClock
from kafkaraw.net.control_socket import ControlSocket, default_path
from kafkaraw.records.memory import rare_collections

if TYPE_CHECKING:
    from kafkaraw.broker.telemetry.prometheus import MetricsServer

ADDRESS_LINE = "bootstrap.servers="
ERROR_LINE = "error="
CONTROL_LINE = "control.socket="
METRICS_LINE = "metrics.url="
# Arguments of gc.set_threshold(). A full collection visits all partitions: 0.3 s for 10,000. With Python's thresholds,
# every other request about all of them causes one.
OnStarted: TypeAlias = Callable[[str], Callable[[], None]]
"""Called with the bootstrap servers, on a thread of its own; what it returns is called at the end."""
_METRICS_S = 5.0
"""How long the event loop may take to read metrics, in seconds."""


def run_broker(  # noqa: PLR0913  # one for each option of the command
    properties: Mapping[str, Value] | None = None,
    data_dir: DataDirs = None,
    host: str | None = None,
    port: int | None = None,
    *,
    end_with_stdin: bool = False,
    users: Mapping[str, str] | None = None,
    nodes: int | None = None,
    node_ids: Sequence[int] | None = None,
    ports: Sequence[int] | None = None,
    control_socket: Path | None = None,
    metrics: tuple[str, int] | None = None,
    on_started: OnStarted | None = None,
    faults: Faults | None = None,
) -> None:
    """Run a broker, or several in this one process, until SIGINT or SIGTERM.

    Args:
        properties: Kafka's broker properties.
        data_dir: directory in which topics are stored, or several as a list; None keeps them in memory.
        host: address to listen on; None is 127.0.0.1.
        port: port to listen on, 0 for a free one; None is 9092. Each further node has the next port.
        end_with_stdin: stop also when standard input ends, as it does when the parent process dies.
        users: users that may authenticate: passwords by user name. With users, the listener requires authentication.
        nodes: number of brokers; None is the number of `node_ids`, or 1 without them. More than one form a cluster.
        node_ids: ids of the cluster's nodes; None is 0, 1, 2 and so on.
        ports: the port of each node of a cluster, instead of `port`: a list, or a range with a step.
        control_socket: path of the socket for commands to a cluster; None is a path of its own for each process.
        metrics: host and port at which the metrics that clients push are served for Prometheus; port 0 is a free one.
        on_started: called with the bootstrap servers when clients can connect, on another thread; what it returns is
            called at the end.
        faults: the fault plan of all nodes; None for a new, empty plan.

    Raises:
        ConfigError: a property is unknown or has an invalid value, ids or ports contradict each other, or the data
            directory or the control socket cannot be used, or a package for `metrics` is missing.
        NetworkError: the address is already in use, or does not belong to this machine.
        OSError: the data directory cannot be read or written.
    """
    if (nodes is None or nodes == 1) and node_ids is None and ports is None and control_socket is None:
        node = real_node(broker_config(properties, data_dir=data_dir, host=host, port=port, users=users), faults)
        with rare_collections():
            asyncio.run(_run(node, end_with_stdin=end_with_stdin, metrics=metrics, on_started=on_started))
        return
    ids = chosen_node_ids(1 if nodes is None and node_ids is None else nodes, node_ids)
    config_of = cluster_configs(ids, properties, host=host, port=port, ports=ports, users=users)
    cluster = real_cluster(ids, config_of, data_directories(data_dir), faults)
    with rare_collections():
        asyncio.run(
            _run_cluster(cluster, control_socket, end_with_stdin=end_with_stdin, metrics=metrics, on_started=on_started)
        )


async def _run_cluster(
    cluster: Cluster,
    path: Path | None,
    *,
    end_with_stdin: bool,
    metrics: tuple[str, int] | None,
    on_started: OnStarted | None,
) -> None:
    control = ControlSocket(path or default_path(), NodeCommands(cluster).answer)
    lines = [f"{CONTROL_LINE}{control.path}"]
    try:
        await control.open()
    except ConfigError as error:
        if path is not None:
            raise
        sys.stderr.write(f"no commands about nodes are taken: {error}\n")
        lines = []
    try:
        await _run(cluster, end_with_stdin=end_with_stdin, more_lines=lines, metrics=metrics, on_started=on_started)
    finally:
        await control.close()


async def _run(
    broker: BrokerNode | Cluster,
    *,
    end_with_stdin: bool,
    more_lines: Sequence[str] = (),
    metrics: tuple[str, int] | None = None,
    on_started: OnStarted | None = None,
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if end_with_stdin:
        loop.add_reader(sys.stdin.fileno(), _end_at_eof, stop)
    async with broker:
        server = None if metrics is None else _serve_metrics(broker, metrics)
        lines = [f"{ADDRESS_LINE}{broker.bootstrap_servers}", *more_lines]
        if server is not None:
            lines.append(f"{METRICS_LINE}{server.url}")
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        end = None if on_started is None else await asyncio.to_thread(on_started, broker.bootstrap_servers)
        try:
            await stop.wait()
        finally:
            if end is not None:
                await asyncio.to_thread(end)
            if server is not None:
                server.close()


def _serve_metrics(broker: BrokerNode | Cluster, metrics: tuple[str, int]) -> MetricsServer:
    from kafkaraw.broker.share_metrics import Sample, ShareGroupCollector, share_samples
    from kafkaraw.broker.telemetry.prometheus import MetricsServer  # only with --metrics

    loop = asyncio.get_running_loop()

    def of_shares() -> list[Sample]:
        nodes = list(broker.nodes.values()) if isinstance(broker, Cluster) else [broker]
        states = [node.state for node in nodes]
        return [
            sample
            for state in states
            for sample in share_samples(state.node_id, state.share_partitions, state.groups.hosted())
        ]

    def read_shares() -> list[Sample]:
        """Read on the loop; called by the thread of the server."""
        found: Future[list[Sample]] = Future()
        loop.call_soon_threadsafe(lambda: found.set_result(of_shares()))
        return found.result(_METRICS_S)

    controller = broker.controller if isinstance(broker, Cluster) else broker.state.controller
    received, clock = controller.received_metrics, SystemClock()
    server = MetricsServer(*metrics, lambda: received.all(clock.time_ms()), [ShareGroupCollector(read_shares)])
    controller.shows_client_metrics = True
    return server


def _end_at_eof(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()
