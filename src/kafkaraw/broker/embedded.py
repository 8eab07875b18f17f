"""`EmbeddedBroker`: a broker for tests, demos and development, started in one line.

By default the broker runs in this process, on its own loop thread. With `process=True` it runs in a child process. It
never shares the loop thread of the clients.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from kafkaraw.broker.configs.arguments import DataDirs, broker_config
from kafkaraw.broker.faults import Faults
from kafkaraw.broker.old_releases import Offer
from kafkaraw.broker.server import BrokerNode
from kafkaraw.broker.settings import Value
from kafkaraw.broker.system import real_node
from kafkaraw.errors import UsageError
from kafkaraw.net import LoopThread

if TYPE_CHECKING:
    from kafkaraw.broker.child import BrokerProcess
    from kafkaraw.broker.configs.config import BrokerConfig
    from kafkaraw.broker.telemetry.received import ClientMetric

START_TIMEOUT_S = 300.0  # a recovery after SIGKILL reads about 1 GB/s
STOP_TIMEOUT_S = 30.0


class EmbeddedBroker:
    """A Kafka broker on this machine. It listens on 127.0.0.1, unless the property `listeners` is set.

        with EmbeddedBroker() as broker:
            producer = Producer(bootstrap_servers=broker.bootstrap_servers)

    Args:
        port: port to listen on; 0 (and None) selects a free port.
        data_dir: directory in which topics are stored, or several as a list; None keeps them in memory.
        process: run the broker in a child process, which ends with this process.
        properties: Kafka's broker properties, such as `{"num.partitions": 4}`.
        users: users that may authenticate: passwords by user name. Without `listeners`, the listener is SASL_PLAINTEXT.
        max_versions: support only the API versions of this Kafka release, such as "2.4"; None is the newest release.

    Raises:
        ConfigError: a property is unknown or has an invalid value, or the release is unknown.
        UsageError: `max_versions` is given together with `process=True`.
    """

    def __init__(
        self,
        port: int | None = None,
        data_dir: DataDirs = None,
        *,
        process: bool = False,
        properties: Mapping[str, Value] | None = None,
        users: Mapping[str, str] | None = None,
        max_versions: str | None = None,
    ) -> None:
        if max_versions is not None and process:
            raise UsageError("max_versions needs a broker in this process: use EmbeddedBroker without process=True")
        Offer(max_versions)  # an unknown release is an error here already
        self.config: BrokerConfig = broker_config(properties, data_dir=data_dir, port=port, default_port=0, users=users)
        self._in_process = process
        self._faults = Faults()
        self._max_versions = max_versions
        self._owner_process_id = os.getpid()
        self._child: BrokerProcess | None = None
        self._loop_thread: LoopThread | None = None
        self._node: BrokerNode | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for the clients' option `bootstrap_servers`.

        Raises:
            UsageError: the broker is not running.
        """
        if self._child is not None:
            return self._child.bootstrap_servers
        if self._node is not None:
            return self._node.bootstrap_servers
        raise UsageError("the broker is not running: use it in a `with` statement, or call start()")

    @property
    def faults(self) -> Faults:
        """The faults to inject into requests, and whether they have happened. They are kept over a restart.

        Raises:
            UsageError: the broker runs in a child process, where faults cannot be set.
        """
        if self._in_process:
            raise UsageError("faults need a broker in this process: use EmbeddedBroker() without process=True")
        return self._faults

    @property
    def process_id(self) -> int:
        """The id of the process in which the broker runs."""
        return os.getpid() if self._child is None else self._child.process_id

    def client_metrics(self) -> list[ClientMetric]:
        """Return the newest metrics that clients have pushed (KIP-714); clients push what subscriptions ask for.

        Raises:
            UsageError: the broker is not running, runs in a child process, or the package protobuf is missing.
        """
        if self._node is None:
            raise UsageError("client_metrics() needs a broker that runs, and in this process (without process=True)")
        from kafkaraw.broker.telemetry.received import read_client_metrics  # most brokers get none

        return read_client_metrics(self._node.state.controller.received_metrics)

    def start(self) -> EmbeddedBroker:
        """Start the broker. Clients can connect as soon as this returns.

        Raises:
            UsageError: the broker is already running.
            ConfigError: the data directory cannot be used.
            NetworkError: the port is already in use.
            KafkaError: the child process ended during startup.
        """
        if self._child is not None or self._node is not None:
            raise UsageError("the broker is running already")
        if self._in_process:
            from kafkaraw.broker.child import BrokerProcess  # only for a broker in a child process

            self._child = BrokerProcess(self.config)
            return self
        node = real_node(self.config, self._faults, self._max_versions)
        loop_thread = LoopThread("kafkaraw-broker")
        try:
            loop_thread.run(node.start(), START_TIMEOUT_S)
        except BaseException:
            loop_thread.stop()
            raise
        self._node, self._loop_thread = node, loop_thread
        return self

    def stop(self) -> None:
        """Stop the broker. When this returns, `data_dir` is complete. A second call has no effect."""
        self._end(kill=False)

    def kill(self) -> None:
        """Stop the broker as if it had crashed: connections break, and nothing is flushed. For fault tests."""
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        child, self._child = self._child, None
        node, self._node = self._node, None
        loop_thread, self._loop_thread = self._loop_thread, None
        if os.getpid() != self._owner_process_id:
            return  # a forked child has copies of its parent's objects and must not stop them
        if child is not None:
            (child.kill if kill else child.stop)()
        if node is not None and loop_thread is not None:
            try:
                loop_thread.run(node.kill() if kill else node.stop(), STOP_TIMEOUT_S)
            finally:
                loop_thread.stop()

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> EmbeddedBroker:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
