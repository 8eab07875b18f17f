"""`BrokerNode`: one broker on a network. It opens the storage, listens, and keeps track of connections.

Network, storage, clock and randomness are passed in, so that a simulation can run the same code; `system` provides the
real ones. `connection` and `handlers` handle requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import TracebackType

from kafkaraw.broker.configs.config import BrokerConfig
from kafkaraw.broker.connection import BrokerConnection
from kafkaraw.broker.connection_limits import ConnectionCount
from kafkaraw.broker.controller import Controller
from kafkaraw.broker.faults import Faults
from kafkaraw.broker.ids import RandomBits
from kafkaraw.broker.listeners import Endpoint
from kafkaraw.broker.log.directories import Storages
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Broker
from kafkaraw.broker.turns import run_async
from kafkaraw.errors import UsageError
from kafkaraw.net import Clock, Link, Network
from kafkaraw.net.listener import Listener
from kafkaraw.net.wire_log import tapped

DRAIN_TIMEOUT_S = 1.0
"""Time that clients have at broker shutdown to read responses that are already being sent."""

_logger = logging.getLogger("kafkaraw.broker")


class BrokerNode:
    """One broker: a node of a cluster, or a cluster of its own.

    Args:
        config: the broker's properties.
        network: the network on which it listens.
        storage: its log directories, or the storage of the only one; closed with the broker.
        clock: wall clock.
        rng: source of random ids; `random.Random` or similar.
        faults: the fault plan; None for a new, empty plan.
        max_versions: support only the API versions of this Kafka release, such as "2.4"; None is the newest release.
        controller: the cluster's controller, opened; None for a cluster of one node.

    Raises:
        ConfigError: the release is unknown.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        network: Network,
        storage: Storages,
        clock: Clock,
        rng: RandomBits,
        faults: Faults | None = None,
        max_versions: str | None = None,
        controller: Controller | None = None,
    ) -> None:
        self.config = config
        self.faults: Faults = faults if faults is not None else Faults()
        self.state: BrokerState = BrokerState(
            config, storage, clock, rng, max_versions=max_versions, controller=controller
        )
        self._network = network
        self._listeners: list[Listener] = []
        self._connections: dict[BrokerConnection, str] = {}  # with the address of the peer
        self._count = ConnectionCount(config.connection_limits)
        self._endpoints: dict[str, Endpoint] = {}
        self._all_gone: asyncio.Event | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for the clients: `host:port`, separated by commas for several listeners.

        Raises:
            UsageError: the broker is not running.
        """
        if not self._endpoints:
            raise UsageError("the broker has no address before `start`")
        return ",".join(str(endpoint).partition("://")[2] for endpoint in self._endpoints.values())

    async def start(self) -> None:
        """Open the storage, listen, and register with the controller.

        Raises: see `prepare`.
        """
        await self.prepare()
        self.state.controller.brokers_up([self.description])

    @property
    def description(self) -> Broker:
        """The description of this node in Metadata responses."""
        return Broker(self.config.node_id, dict(self._endpoints), self.config.rack)

    async def prepare(self) -> None:
        """Open the storage and listen, without registering with the controller yet.

        Raises:
            ConfigError: the storage belongs to another broker, or is corrupt.
            NetworkError: an address is already in use, or does not belong to this machine.
            OSError: the storage cannot be read or written.
        """
        try:
            await run_async(self.state.opening())
            self.state.start()
            for endpoint, advertised in zip(self.config.listeners, self.config.advertised_listeners, strict=True):
                await self._listen(endpoint, advertised)
        except BaseException:
            await self.stop()
            raise
        _logger.info("node %d listens on %s", self.config.node_id, self.bootstrap_servers)

    async def _listen(self, endpoint: Endpoint, advertised: Endpoint) -> None:
        security = self.config.security
        login = security.requires_sasl(endpoint.name)
        if login:
            _ = self.state.sasl_servers  # imported now: an import that fails later would end a client's connection
        listener = await self._network.listen(
            endpoint.host,
            endpoint.port,
            lambda: tapped(self._connection(endpoint.name), self._name_in_log, "broker"),
            frame_size_max=security.frame_size_max if login else self.config.socket_request_max_bytes,
            tls=security.tls_of(endpoint.name),
        )
        self._listeners.append(listener)
        port = advertised.port or listener.port
        self._endpoints[endpoint.name] = Endpoint(endpoint.name, advertised.host, port)

    def _name_in_log(self) -> str:
        return f"broker {self.config.node_id}"

    def _connection(self, listener: str) -> BrokerConnection:
        return _LimitedConnection(self, listener)

    def admit(self, connection: BrokerConnection, address: str) -> str:
        """Count an established connection (after TLS); return why it exceeds a limit, or nothing if it may stay."""
        self._connections[connection] = address
        self._count.limits = self.state.config.connection_limits  # they change while the broker runs
        return self._count.add(address)

    def forget(self, connection: BrokerConnection) -> None:
        """Forget a closed connection."""
        address = self._connections.pop(connection, None)
        if address is not None:
            self._count.remove(address)
        if self._all_gone is not None and not self._connections:
            self._all_gone.set()

    @property
    def connections_count(self) -> int:
        """Number of established connections."""
        return len(self._connections)

    async def stop(self) -> None:
        """Stop listening, close the connections, flush all logs and close the storage.

        Its partitions get other leaders first, where other replicas are in sync. A second call has no effect.
        """
        self.state.controller.broker_down(self.config.node_id)
        await self._stop_listening()
        await self._end_connections()
        self.state.close()

    async def kill(self) -> None:
        """Stop as if the process was killed: connections break, nothing is flushed or announced. For fault tests."""
        self._abort_connections()
        self.state.close(sync=False)
        self.state.controller.broker_down(self.config.node_id)
        await self._stop_listening()
        self._abort_connections()

    async def _stop_listening(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            await listener.close()
        self._endpoints.clear()

    async def _end_connections(self) -> None:
        """Wait until clients have read the responses being sent, up to the time limit; then close all connections."""
        for connection in list(self._connections):
            connection.close()
        if self._connections:
            self._all_gone = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), DRAIN_TIMEOUT_S)
        self._abort_connections()

    def _abort_connections(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def __aenter__(self) -> BrokerNode:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()


class _LimitedConnection(BrokerConnection):
    """A connection that is closed because it exceeds a connection limit."""

    def __init__(self, node: BrokerNode, listener: str) -> None:
        super().__init__(node.state, listener, node.forget, faults=node.faults)
        self._node = node

    def link_made(self, link: Link) -> None:
        """The connection is established."""
        super().link_made(link)
        address = link.peer.rpartition(":")[0].strip("[]")
        reason = self._node.admit(self, address)
        if reason:
            _logger.warning("closing the connection from %s: %s", link.peer, reason)
            link.abort()
            return
        delay_ms = self._node.state.throttling.connection_delay_ms(address)
        if delay_ms:
            # Closed after a delay, which throttles a client that reconnects immediately (KIP-612).
            _logger.info("rejecting the connection from %s: it exceeds its quota of connection creation", link.peer)
            self.close_later(delay_ms / 1000)
