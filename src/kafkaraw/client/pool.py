"""The connections of a client: one for each broker and lane, opened when first asked for.

A lane is a connection of its own to the same broker, because a broker answers one connection's requests in order: a
long-polling Fetch on the "main" lane would hold up the next Produce. The pool does not retry: whoever asks knows
whether trying again makes sense.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from kafkaraw.client.config import ClientConfig
from kafkaraw.client.connection import Connection
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.runtime import Runtime
from kafkaraw.core.cluster import BrokerNode
from kafkaraw.errors import ClosedError, NetworkError, Stage

Lane = Literal["main", "fetch", "spare fetch"]
_Key = tuple[int, Lane]


class ConnectionPool:
    """Opens, keeps and closes connections; any number of tasks may ask for the same one."""

    def __init__(self, config: ClientConfig, runtime: Runtime) -> None:
        self._config = config
        self._runtime = runtime
        self._open: dict[_Key, tuple[str, Connection]] = {}
        self._opening: dict[_Key, asyncio.Task[Connection]] = {}
        self._closed = False

    def is_connected(self, node_id: int, lane: Lane = "main") -> bool:
        """Whether a connection is there to be used at once."""
        entry = self._open.get((node_id, lane))
        return entry is not None and not entry[1].closed

    async def get(self, node: BrokerNode, lane: Lane, deadline: Deadline) -> Connection:
        """The connection to a broker, opened if need be; one attempt at a time, shared by all who wait.

        Raises:
            KafkaError: the broker cannot be reached; the message names it.
            KafkaTimeoutError: the deadline passed first.
        """
        if self._closed:
            raise ClosedError("the client is closed")
        key = (node.node_id, lane)
        address, connection = self._open.get(key, ("", None))
        if connection is not None and not connection.closed:
            if address == node.address:
                return connection
            connection.abort()  # the broker moved: this is another machine now
        attempt = self._opening.get(key)
        if attempt is None:
            attempt = asyncio.create_task(self._connect(key, node), name=f"connect {node.address} {lane}")
            attempt.add_done_callback(_retrieve)
            self._opening[key] = attempt
        return await deadline.wait(asyncio.shield(attempt), f"connecting to broker {node.node_id} at {node.address}")

    async def dial(self, host: str, port: int, name: str = "bootstrap") -> Connection:
        """A new connection that the pool does not keep, ready for requests; `name` stands in the connection log."""
        return await Connection.open(
            self._runtime.network,
            host,
            port,
            client_id=self._config.client_id,
            connect_timeout=self._config.socket_connection_setup_timeout_ms / 1000,
            request_timeout=self._config.answer_timeout_ms / 1000,
            name=name,
        )

    def adopt(self, node: BrokerNode, connection: Connection) -> None:
        """Keep a connection made by `dial` as the broker's main one."""
        if self._closed:
            connection.abort()
            return
        self._open[node.node_id, "main"] = (node.address, connection)

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        self._closed = True
        attempts = list(self._opening.values())
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        connections = [connection for _, connection in self._open.values()]
        self._open.clear()
        for connection in connections:
            await connection.close()

    async def _connect(self, key: _Key, node: BrokerNode) -> Connection:
        try:
            connection = await self.dial(node.host, node.port, f"node {node.node_id}")
        except NetworkError as error:
            raise self._explained(node, error) from error
        finally:
            del self._opening[key]
        self._open[key] = (node.address, connection)
        return connection

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


def _retrieve(attempt: asyncio.Task[Connection]) -> None:
    """Take note of a failure that nobody waits for any more, or asyncio reports it as lost."""
    if not attempt.cancelled():
        attempt.exception()
