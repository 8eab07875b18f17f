"""`BrokerNode`: one broker on a network. It opens the storage, listens, and keeps track of connections.

Everything ambient is passed in (network, storage, clock, randomness), so that a simulation can run it as it is; real
ones are chosen in `system`. Requests are handled by `connection` and `handlers`.
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
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Broker
from kafkaraw.broker.turns import run_async
from kafkaraw.errors import UsageError
from kafkaraw.net import Clock, Link, Listener, Network
from kafkaraw.net.wire_log import tapped

DRAIN_TIMEOUT_S = 1.0
"""How long clients have, when the broker stops, to read answers that are on their way."""

_logger = logging.getLogger("kafkaraw.broker")


class BrokerNode:
    """A broker: one node, of a cluster or by itself.

    Args:
        config: the broker's properties.
        network: how clients reach it.
        storage: where its logs are; closed with the broker.
        clock: wall clock.
        rng: for ids; `random.Random` or alike.
        faults: what is to go wrong; None for a plan of its own, empty at first.
        max_versions: answer like this Kafka release, such as "2.4"; None is the newest.
        controller: what the cluster's nodes share, opened; None for a node that is a cluster by itself.

    Raises:
        ConfigError: the release is not a known one.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        network: Network,
        storage: LogStorage,
        clock: Clock,
        rng: RandomBits,
        faults: Faults | None = None,
        max_versions: str | None = None,
        controller: Controller | None = None,
    ) -> None:
        self.config = config
        self.faults = faults if faults is not None else Faults()
        self.state = BrokerState(config, storage, clock, rng, max_versions=max_versions, controller=controller)
        self._network = network
        self._listeners: list[Listener] = []
        self._connections: dict[BrokerConnection, str] = {}  # with the address of the peer
        self._count = ConnectionCount(config.connection_limits)
        self._endpoints: dict[str, Endpoint] = {}
        self._all_gone: asyncio.Event | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients are to be given, `host:port`, with commas when there are several listeners.

        Raises:
            UsageError: the broker is not running.
        """
        if not self._endpoints:
            raise UsageError("the broker has no address before it is started")
        return ",".join(str(endpoint).partition("://")[2] for endpoint in self._endpoints.values())

    async def start(self) -> None:
        """Open the storage, listen, and take part in the cluster.

        Raises: see `prepare`.
        """
        await self.prepare()
        self.state.controller.brokers_up([self.description])

    @property
    def description(self) -> Broker:
        """What clients are told of this node."""
        return Broker(self.config.node_id, dict(self._endpoints), self.config.rack)

    async def prepare(self) -> None:
        """Open the storage and listen; the cluster has not been told yet that this node is there.

        Raises:
            ConfigError: the storage belongs to another broker, or is damaged.
            NetworkError: an address is taken, or not this machine's.
            OSError: the storage cannot be read or written.
        """
        try:
            await run_async(self.state.opening())
            for endpoint, advertised in zip(self.config.listeners, self.config.advertised_listeners, strict=True):
                await self._listen(endpoint, advertised)
        except BaseException:
            await self.stop()
            raise
        _logger.info("node %d listens on %s", self.config.node_id, self.bootstrap_servers)

    async def _listen(self, endpoint: Endpoint, advertised: Endpoint) -> None:
        security = self.config.security
        login = security.wants_login(endpoint.name)
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
        """A connection stands, TLS included; returns why it is one too many, and nothing when it may stay."""
        self._connections[connection] = address
        self._count.limits = self.state.config.connection_limits  # they change while the broker runs
        return self._count.add(address)

    def forget(self, connection: BrokerConnection) -> None:
        """A connection is gone."""
        address = self._connections.pop(connection, None)
        if address is not None:
            self._count.remove(address)
        if self._all_gone is not None and not self._connections:
            self._all_gone.set()

    @property
    def connections_count(self) -> int:
        """Connections that stand."""
        return len(self._connections)

    async def stop(self) -> None:
        """Stop listening, drop the connections, write everything out and let go of the storage.

        Others lead instead of it before it goes, where they can. Stopping twice does nothing.
        """
        self.state.controller.broker_down(self.config.node_id)
        await self._stop_listening()
        await self._end_connections()
        self.state.close()

    async def kill(self) -> None:
        """Stop as a process does that is killed: connections break, and nothing is synced or said. For fault tests."""
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
        """Let answers on their way arrive, for clients that read them soon; then drop the rest."""
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
    """A connection that is turned away when there are too many."""

    def __init__(self, node: BrokerNode, listener: str) -> None:
        super().__init__(node.state, listener, node.forget, faults=node.faults)
        self._node = node

    def link_made(self, link: Link) -> None:
        """The connection stands."""
        super().link_made(link)
        address = link.peer.rpartition(":")[0].strip("[]")
        reason = self._node.admit(self, address)
        if reason:
            _logger.warning("closing the connection from %s: %s", link.peer, reason)
            link.abort()
            return
        delay_ms = self._node.state.throttling.connection_delay_ms(address)
        if delay_ms:
            # Closed late, so that a client that tries again at once waits meanwhile (KIP-612).
            _logger.info("turning away the connection from %s: it is above its quota of new ones", link.peer)
            self.close_later(delay_ms / 1000)
