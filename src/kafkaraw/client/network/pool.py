"""The connections of a client: one for each broker and lane, opened when first asked for.

A lane is a connection of its own to the same broker, because a broker answers one connection's requests in order: a
long-polling Fetch on the "main" lane would delay the next Produce. The pool does not retry: the caller knows whether
the request may be retried. `IdleWatch` closes connections before the broker would (after ten minutes, by default): a
broker that closes one could lose a request that was just sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from kafkaraw.client.config import Address, ClientConfig
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.metrics.client_metrics import BOOTSTRAP, ClientMetrics
from kafkaraw.client.network.connection import CLOSE_TIMEOUT_S, Connection
from kafkaraw.client.network.security import login_at
from kafkaraw.client.runtime import Runtime
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.core.retry import Backoff, ReconnectPolicy
from kafkaraw.errors import ClosedError, KafkaError, NetworkError, Stage

if TYPE_CHECKING:
    from kafkaraw.client.credentials.source import Credentials


Lane = Literal["main", "fetch", "spare fetch", "group"]
_Key = tuple[int, Lane]


class ConnectionPool:
    """Opens, keeps and closes connections; any number of tasks may ask for the same one.

    Args:
        config: for timeouts and pauses.
        runtime: network, clock and rng.
        on_connected: called with each connection that the pool keeps.

    Raises:
        ConfigError: a package that the login needs is missing.

    Attributes:
        metrics: what is counted about each broker.
    """

    def __init__(
        self, config: ClientConfig, runtime: Runtime, on_connected: Callable[[Connection], None] = lambda _: None
    ) -> None:
        self.metrics: ClientMetrics = ClientMetrics()
        self._config = config
        self._runtime = runtime
        self._credentials = _credentials_for(config, runtime)
        self._attempts = _reconnect_policy(config, runtime)
        self._on_connected = on_connected
        self._idle = IdleWatch(config.connections_max_idle_ms)
        self._open: dict[_Key, tuple[str, Connection]] = {}
        self._opening: dict[_Key, asyncio.Task[Connection]] = {}
        self._closed = False

    def is_connected(self, node_id: int, lane: Lane = "main") -> bool:
        """Whether a connection is there to be used at once."""
        entry = self._open.get((node_id, lane))
        return entry is not None and not entry[1].closed

    def opened(self, node: BrokerNode, lane: Lane = "main") -> Connection | None:
        """The connection to a broker if there is one to be used at once."""
        address, connection = self._open.get((node.node_id, lane), ("", None))
        return connection if connection is not None and not connection.closed and address == node.address else None

    def rests(self, node: BrokerNode) -> bool:
        """Whether this broker could not be reached, and its reconnect backoff has not ended."""
        return self._attempts.pause_ms((node.address, "main"), asyncio.get_running_loop().time() * 1000) > 0

    async def get(self, node: BrokerNode, lane: Lane, deadline: Deadline) -> Connection:
        """Return the connection to a broker, opened if necessary; all waiting callers share one attempt at a time.

        Raises:
            KafkaError: the broker cannot be reached; the message names it.
            KafkaTimeoutError: the deadline passed first.
            ClosedError: the client is closed, or was meanwhile.
        """
        if self._closed:
            raise ClosedError("the client is closed")
        key = (node.node_id, lane)
        address, connection = self._open.get(key, ("", None))
        if connection is not None and not connection.closed:
            if address == node.address:
                return connection
            connection.abort()  # the broker has another address now
        attempt = self._opening.get(key)
        if attempt is None:
            attempt = asyncio.create_task(self._connect(key, node), name=f"connect {node.address} {lane}")
            attempt.add_done_callback(_retrieve)
            self._opening[key] = attempt
        return await deadline.wait_with_others(attempt, f"connecting to broker {node.node_id} at {node.address}")

    async def dial(self, host: str, port: int, name: str = BOOTSTRAP, timeout: float | None = None) -> Connection:
        """A new connection that the pool does not keep, logged in and ready for requests.

        Args:
            host: name or address.
            port: TCP port.
            name: of the node, for metrics and the connection log.
            timeout: seconds; None is `socket_connection_setup_timeout_ms`.
        """
        return await Connection.open(
            self._runtime.network,
            host,
            port,
            client_id=self._config.client_id,
            connect_timeout=timeout or self._config.socket_connection_setup_timeout_ms / 1000,
            request_timeout=self._config.answer_timeout_ms / 1000,
            metrics=self.metrics.of(name),
            login=None if self._credentials is None else login_at(host, self._credentials, self._runtime.rng),
        )

    async def dial_server(self, address: Address) -> Connection:
        """A new connection to a bootstrap server, not kept; one that failed before is left alone for a while."""
        return await self._attempt((str(address), BOOTSTRAP), address.host, address.port, BOOTSTRAP)

    def adopt(self, node: BrokerNode, connection: Connection) -> None:
        """Keep a connection made by `dial` as the broker's main one."""
        if self._closed:
            connection.abort()
            return
        connection.count_for(self.metrics.of(str(node.node_id)))
        self._keep((node.node_id, "main"), node, connection)

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Close all connections at the same time; requests in flight fail. If this is cancelled, they close at once.

        Args:
            timeout: seconds, as for `Connection.close`.
        """
        self._closed = True
        self._idle.stop()
        attempts = list(self._opening.values())
        self._opening.clear()
        for attempt in attempts:
            attempt.cancel()
        try:
            await asyncio.gather(*attempts, return_exceptions=True)
            await asyncio.gather(*(connection.close(timeout) for _, connection in self._open.values()))
        except BaseException:
            for _, connection in self._open.values():
                connection.abort()
            raise
        finally:
            self._open.clear()

    async def _connect(self, key: _Key, node: BrokerNode) -> Connection:
        try:
            connection = await self._attempt((node.address, key[1]), node.host, node.port, str(node.node_id))
        except NetworkError as error:
            raise self._explained(node, error) from error
        finally:
            self._opening.pop(key, None)
        self._keep(key, node, connection)
        return connection

    async def _attempt(self, way: tuple[str, str], host: str, port: int, name: str) -> Connection:
        """Wait until it may be dialled again, and do so."""
        loop = asyncio.get_running_loop()
        pause_ms = self._attempts.pause_ms(way, loop.time() * 1000)
        if pause_ms:
            await asyncio.sleep(pause_ms / 1000)
        self._attempts.began(way, loop.time() * 1000)
        timeout = self._attempts.setup_timeout_ms(way) / 1000
        try:
            connection = await self.dial(host, port, name, timeout)
        except KafkaError:
            self._attempts.failed(way, loop.time() * 1000)
            raise
        self._attempts.succeeded(way)
        return connection

    def _keep(self, key: _Key, node: BrokerNode, connection: Connection) -> None:
        self._open[key] = (node.address, connection)
        self._idle.watch(connection)
        self._on_connected(connection)

    def _explained(self, node: BrokerNode, error: NetworkError) -> NetworkError:
        """Say where the address comes from when the user never wrote it."""
        message = f"broker {node.node_id}: {error}"
        given = {(address.host, address.port) for address in self._config.bootstrap_servers}
        if error.stage in (Stage.RESOLVE, Stage.CONNECT) and (node.host, node.port) not in given:
            message += (
                f" (the cluster advertises {node.address} for this broker; if this machine cannot reach it, "
                f"change the broker's advertised.listeners)"
            )
        return NetworkError(message, stage=error.stage)


def _credentials_for(config: ClientConfig, runtime: Runtime) -> Credentials | None:
    """What a client logs in with; None when no login is asked for, and then no mechanism is imported.

    Raises:
        ConfigError: a package is missing; says which extra has it.
    """
    if not config.security_protocol.startswith("SASL"):
        return None
    from kafkaraw.client.credentials.choice import credentials_for

    return credentials_for(config, runtime)


def _reconnect_policy(config: ClientConfig, runtime: Runtime) -> ReconnectPolicy:
    pause_ms, setup_ms = config.reconnect_backoff_ms, config.socket_connection_setup_timeout_ms
    return ReconnectPolicy(
        Backoff(pause_ms, max(config.reconnect_backoff_max_ms, pause_ms)),
        Backoff(setup_ms, max(config.socket_connection_setup_timeout_max_ms, setup_ms)),
        runtime.rng,
    )


def _retrieve(attempt: asyncio.Task[Connection]) -> None:
    """Retrieve the exception of a task without waiters; otherwise asyncio logs that it was never retrieved."""
    if not attempt.cancelled():
        attempt.exception()


log: logging.Logger = logging.getLogger(__name__)


class IdleWatch:
    """Watches connections for disuse.

    Args:
        max_idle_ms: how long one may be unused, in milliseconds; negative for ever.
    """

    def __init__(self, max_idle_ms: int) -> None:
        self._max_idle_s = max_idle_ms / 1000
        self._watched: list[Connection] = []
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, connection: Connection) -> None:
        """Close this one when its time has come."""
        if self._max_idle_s < 0:
            return
        # Connections that broke are let go here: the timer may be far away, and a broker may be lost again and again.
        self._watched = [each for each in self._watched if not each.closed] + [connection]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._max_idle_s, self._look)

    def stop(self) -> None:
        """Watch no more."""
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        now_s = loop.time()
        for connection in self._watched:
            if not connection.closed and _unused_s(connection, now_s) >= self._max_idle_s:
                log.info("closing the connection to %s: unused for %g s", connection.peer, self._max_idle_s)
                connection.abort()
        self._watched = [connection for connection in self._watched if not connection.closed]
        if self._watched:
            longest = max(_unused_s(connection, now_s) for connection in self._watched)
            # Not more often than once a second, nor than the limit itself.
            pause = max(self._max_idle_s - longest, min(self._max_idle_s, 1.0))
            self._timer = loop.call_later(pause, self._look)


def _unused_s(connection: Connection, now_s: float) -> float:
    since = connection.idle_since
    return 0.0 if since is None else now_s - since
