"""`run_broker`: a broker in the foreground, until SIGINT or SIGTERM. For the command line and child processes.

Its first line of output is `bootstrap.servers=HOST:PORT`, so that scripts can wait for it and read the port.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from kafkaraw.broker.cluster import Cluster
from kafkaraw.broker.configs.arguments import broker_config, cluster_configs
from kafkaraw.broker.server import BrokerNode
from kafkaraw.broker.settings import Value
from kafkaraw.broker.system import real_cluster, real_node

ADDRESS_LINE = "bootstrap.servers="
ERROR_LINE = "error="


def run_broker(
    properties: Mapping[str, Value] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    host: str | None = None,
    port: int | None = None,
    *,
    end_with_stdin: bool = False,
    users: Mapping[str, str] | None = None,
    nodes: int = 1,
) -> None:
    """Run a broker, or several in this one process, until SIGINT or SIGTERM.

    Args:
        properties: Kafka's broker properties.
        data_dir: where to keep topics; None keeps them in memory.
        host: address to listen on; None is 127.0.0.1.
        port: port to listen on, 0 for a free one; None is 9092. Further nodes have the ports after it.
        end_with_stdin: stop also when standard input ends, as it does when the parent process dies.
        users: passwords of those who may log in, by user name; the listener asks for a login then.
        nodes: how many brokers; more than one are a cluster.

    Raises:
        ConfigError: a property is unknown or wrong, or the data directory cannot be used.
        NetworkError: the address is taken, or not this machine's.
        OSError: the data directory cannot be read or written.
    """
    broker: BrokerNode | Cluster
    if nodes == 1:
        broker = real_node(broker_config(properties, data_dir=data_dir, host=host, port=port, users=users))
    else:
        config_of = cluster_configs(nodes, properties, host=host, port=port, users=users)
        broker = real_cluster(nodes, config_of, None if data_dir is None else Path(data_dir))
    asyncio.run(_run(broker, end_with_stdin=end_with_stdin))


async def _run(broker: BrokerNode | Cluster, *, end_with_stdin: bool) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if end_with_stdin:
        loop.add_reader(sys.stdin.fileno(), _end_at_eof, stop)
    async with broker:
        sys.stdout.write(f"{ADDRESS_LINE}{broker.bootstrap_servers}\n")
        sys.stdout.flush()
        await stop.wait()


def _end_at_eof(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()
