"""Listening on a port: accept connections, each with a handler of its own, and reserve the port of a stopped server.

A listener owns the listening sockets only; the object that accepted a link closes it. Start at `listen` and `HeldPort`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Protocol

from kafkaraw.net.link import LinkHandler
from kafkaraw.net.os_errors import cannot_listen
from kafkaraw.net.process_hooks import release_in_child
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
        await stop_accepting(self.descriptors())
        # Not wait_closed(): from Python 3.12 on it waits for the links, too.
        self._server.close()

    def descriptors(self) -> list[int]:
        """Return the descriptors of the listening sockets, for `net.process_hooks`."""
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


async def stop_accepting(descriptors: Iterable[int]) -> None:
    """Let the running loop accept no more on listening sockets, before their `asyncio.Server` is closed.

    A connection that asyncio has accepted, but whose transport it has not made yet, would be left open for ever by
    `Server.close`: asyncio's `Server._attach` fails for it, and no code but the garbage collector closes the socket.

    Args:
        descriptors: of the listening sockets.
    """
    loop = asyncio.get_running_loop()
    for descriptor in descriptors:
        loop.remove_reader(descriptor)
    await asyncio.sleep(0)  # connections that are accepted already get their transports in this turn


class HeldPort:
    """A port that is bound, and not listened on.

    Args:
        host: address or name that was listened on; an empty string means all.
        port: TCP port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._sockets: list[socket.socket] = []
        # If the port cannot be bound, another socket has it already: the next `listen` on it raises the error.
        with contextlib.suppress(OSError):
            for family, kind, protocol, _, address in socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                self._hold(socket.socket(family, kind, protocol), address)
        release_in_child(self)

    def _hold(self, held: socket.socket, address: tuple[object, ...]) -> None:
        try:
            # As listeners have it: two such sockets may have one port, while neither of them listens.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if held.family == socket.AF_INET6:
                held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            held.bind(address)
        except OSError:
            held.close()
            raise
        self._sockets.append(held)

    def release(self) -> None:
        """Release the port; a server that listens on it by now keeps it."""
        for held in self._sockets:
            held.close()
        self._sockets.clear()

    def descriptors(self) -> list[int]:
        """Return the descriptors of the sockets, for `net.process_hooks`."""
        return [held.fileno() for held in self._sockets]
