"""`HeldPort`: reserves a port for a server that will listen on it again, while connections to it are refused.

Without it the system may assign the port of a stopped server to any other socket, even to a client that dials that
server: the client would then be connected to itself.
"""

from __future__ import annotations

import contextlib
import socket

from kafkaraw.net.fork import release_in_child


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
        """Return the descriptors of the sockets, for `net.fork`."""
        return [held.fileno() for held in self._sockets]
