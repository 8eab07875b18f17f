"""`Network`: how a client reaches a host and a broker is reached, as a value that is passed in.

The real one is `AsyncioNetwork`; simulations pass an in-memory one. Start at `Network`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kafkaraw.net.dial import dial
from kafkaraw.net.link import Link, LinkHandler

if TYPE_CHECKING:
    from kafkaraw.net.listener import Listener


class Network(Protocol):
    """Makes links."""

    async def dial(self, host: str, port: int, handler: LinkHandler, *, timeout: float, frame_size_max: int) -> Link:
        """Connect to a host.

        Args:
            host: name or address; all addresses of a name are tried, in order.
            port: TCP port.
            handler: called with all events of the link, beginning with `link_made`.
            timeout: for everything together, in seconds.
            frame_size_max: largest frame to accept, in bytes.

        Raises:
            NetworkError: stage RESOLVE, CONNECT or TLS; names the address and what to try.
        """
        ...

    async def listen(
        self,
        host: str,
        port: int,
        make_handler: Callable[[], LinkHandler],
        *,
        frame_size_max: int,
        tls: ssl.SSLContext | None = None,
    ) -> Listener:
        """Accept connections on an address of this machine.

        Args:
            host: address or name; an empty string means all.
            port: TCP port, 0 for a free one.
            make_handler: called for each connection.
            frame_size_max: largest frame to accept, in bytes.
            tls: how to speak TLS; None for the network's own way.

        Raises:
            NetworkError: the address is taken, or not this machine's.
        """
        ...


class AsyncioNetwork:
    """The operating system's TCP, on the running asyncio loop.

    Args:
        dial_tls: speak TLS like this on connections that are dialled; None for plain TCP.
        listen_tls: speak TLS like this on connections that are accepted.
    """

    def __init__(self, *, dial_tls: ssl.SSLContext | None = None, listen_tls: ssl.SSLContext | None = None) -> None:
        self._dial_tls = dial_tls
        self._listen_tls = listen_tls

    async def dial(self, host: str, port: int, handler: LinkHandler, *, timeout: float, frame_size_max: int) -> Link:
        """Connect to a host."""
        return await dial(host, port, handler, timeout=timeout, frame_size_max=frame_size_max, tls=self._dial_tls)

    async def listen(
        self,
        host: str,
        port: int,
        make_handler: Callable[[], LinkHandler],
        *,
        frame_size_max: int,
        tls: ssl.SSLContext | None = None,
    ) -> Listener:
        """Accept connections on an address of this machine."""
        from kafkaraw.net.listener import listen  # clients do not listen

        return await listen(host, port, make_handler, frame_size_max=frame_size_max, tls=tls or self._listen_tls)
