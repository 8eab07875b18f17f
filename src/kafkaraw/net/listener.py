"""Accepts connections: each gets a handler of its own.

A listener owns the listening sockets only; who accepted a link closes it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol

from kafkaraw.net.fork import release_in_child
from kafkaraw.net.link import LinkHandler
from kafkaraw.net.os_errors import cannot_listen
from kafkaraw.net.transport import StreamLink

_BACKLOG = 512
TLS_HANDSHAKE_TIMEOUT_S = 10.0
"""Before the TLS handshake has ended, no other code has the connection, so the listener ends it."""


class Listener(Protocol):
    """An address that accepts connections."""

    @property
    def host(self) -> str:
        """The address that was asked for."""
        ...

    @property
    def port(self) -> int:
        """The port, chosen by the system when 0 was asked for."""
        ...

    async def close(self) -> None:
        """Accept no more. Links that stand are left alone."""
        ...


class StreamListener:
    """A listener on TCP sockets."""

    def __init__(self, server: asyncio.Server, host: str) -> None:
        self._server = server
        self.host = host
        self.port: int = server.sockets[0].getsockname()[1]
        release_in_child(self)

    async def close(self) -> None:
        """Accept no more. Links that stand are left alone."""
        # Not wait_closed(): from Python 3.12 on it waits for the links, too.
        self._server.close()

    def descriptors(self) -> list[int]:
        """Return the descriptors of the listening sockets, for `net.fork`."""
        return [sock.fileno() for sock in self._server.sockets]


async def listen(
    host: str,
    port: int,
    make_handler: Callable[[], LinkHandler],
    *,
    frame_size_max: int,
    tls: ssl.SSLContext | None = None,
) -> StreamListener:
    """Accept connections on an address of this machine.

    Args:
        host: address or name; an empty string means all.
        port: TCP port, 0 for a free one.
        make_handler: called for each connection.
        frame_size_max: largest frame to accept, in bytes.
        tls: how to speak TLS; None for plain TCP.

    Raises:
        NetworkError: the address is taken, or not this machine's.
    """
    loop = asyncio.get_running_loop()

    def accept() -> StreamLink:
        return StreamLink(loop, make_handler(), frame_size_max=frame_size_max)

    try:
        server = await loop.create_server(
            accept,
            host or None,
            port,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=None if tls is None else TLS_HANDSHAKE_TIMEOUT_S,
        )
    except OSError as error:
        raise cannot_listen(error, host, port) from error
    return StreamListener(server, host)
