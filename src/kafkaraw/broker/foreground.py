"""`run_broker`: a broker in the foreground, until SIGINT or SIGTERM. For the command line and child processes.

Its first line of output is `bootstrap.servers=HOST:PORT`, so that scripts can wait for it and read the port.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping

from kafkaraw.broker.config import BrokerConfig
from kafkaraw.broker.settings import Value
from kafkaraw.broker.system import real_node
from kafkaraw.errors import ConfigError

DEFAULT_PORT = 9092
LOOPBACK = "127.0.0.1"
ADDRESS_LINE = "bootstrap.servers="
ERROR_LINE = "error="


def broker_config(
    properties: Mapping[str, Value] | None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    host: str | None = None,
    port: int | None = None,
    default_port: int = DEFAULT_PORT,
    users: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Properties together with what has an argument of its own.

    Raises:
        ConfigError: a property is unknown or wrong, or contradicts an argument.
    """
    given = dict(properties or {})
    if data_dir is not None:
        if any(name in given for name in ("log.dirs", "log.dir")):
            raise ConfigError("log.dirs: give either the property or the data directory, not both")
        given["log.dirs"] = os.fspath(data_dir)
    if "listeners" not in given:
        address = host or LOOPBACK
        shown = f"[{address}]" if ":" in address else address
        given["listeners"] = (
            f"{'SASL_PLAINTEXT' if users else 'PLAINTEXT'}://{shown}:{default_port if port is None else port}"
        )
    elif host is not None or port is not None:
        raise ConfigError("listeners: give either the property or host and port, not both")
    return BrokerConfig.parse(given, users)


def run_broker(
    properties: Mapping[str, Value] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    host: str | None = None,
    port: int | None = None,
    *,
    end_with_stdin: bool = False,
    users: Mapping[str, str] | None = None,
) -> None:
    """Run a broker until SIGINT or SIGTERM.

    Args:
        properties: Kafka's broker properties.
        data_dir: where to keep topics; None keeps them in memory.
        host: address to listen on; None is 127.0.0.1.
        port: port to listen on, 0 for a free one; None is 9092.
        end_with_stdin: stop also when standard input ends, as it does when the parent process dies.
        users: passwords of those who may log in, by user name; the listener asks for a login then.

    Raises:
        ConfigError: a property is unknown or wrong, or the data directory cannot be used.
        NetworkError: the address is taken, or not this machine's.
        OSError: the data directory cannot be read or written.
    """
    config = broker_config(properties, data_dir=data_dir, host=host, port=port, users=users)
    asyncio.run(_run(config, end_with_stdin=end_with_stdin))


async def _run(config: BrokerConfig, *, end_with_stdin: bool) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if end_with_stdin:
        loop.add_reader(sys.stdin.fileno(), _end_at_eof, stop)
    async with real_node(config) as node:
        sys.stdout.write(f"{ADDRESS_LINE}{node.bootstrap_servers}\n")
        sys.stdout.flush()
        await stop.wait()


def _end_at_eof(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()
