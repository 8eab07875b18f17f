"""The ports of a tap: the first stands for the bootstrap servers, each broker gets one of those behind it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Final

from kafkaraw.client.config import Address
from kafkaraw.errors import NetworkError, Stage, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.net.os_errors import cannot_listen

PORTS_BY_DEFAULT: Final = 100
PORT_MAX: Final = 65_535
BACKLOG: Final = 512
_ANY: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(slots=True, eq=False)
class Gate:
    """One port on which the tap listens.

    Attributes:
        name: what is behind it, as "bootstrap servers" or "broker 1".
        port: the port.
        targets: addresses to connect to; the first one that accepts is used.
        node_id: of the broker; None for the bootstrap servers.
        sock: listens on the port.
        server: accepts connections.
    """

    name: str
    port: int
    targets: list[Address]
    node_id: int | None
    sock: socket.socket
    server: asyncio.Server | None = None


class PortRange:
    """Ports on one host.

    Args:
        host: address or name to listen on.
        first: port for the bootstrap servers; 0 takes free ports, for brokers, too.
        last: last port for brokers.
    """

    def __init__(self, host: str, first: int, last: int) -> None:
        self.host: str = host
        self.first: int = first
        self.last: int = last
        self._rest: Iterator[int] = iter(range(first + 1, last + 1))

    @classmethod
    def parse(cls, text: str) -> PortRange:
        """Read "host:port" or "host:port-last".

        Raises:
            UsageError: it is neither.
        """
        host, colon, ports = text.rpartition(":")
        first_text, dash, last_text = ports.partition("-")
        if not (colon and first_text.isdecimal() and (last_text.isdecimal() or not dash)):
            raise UsageError(f"{text!r} is no address to listen on: give HOST:PORT, or HOST:PORT-LAST for a range")
        first = int(first_text)
        last = int(last_text) if dash else min(first + PORTS_BY_DEFAULT, PORT_MAX)
        if not first <= last <= PORT_MAX:
            raise UsageError(f"{text!r} is no range of ports: they go up to {PORT_MAX}, the first one first")
        return cls(host.removeprefix("[").removesuffix("]"), first, last)

    @property
    def reachable_host(self) -> str:
        """A host at which clients on this machine reach the ports."""
        return _ANY.get(self.host, self.host)

    def open_first(self) -> tuple[socket.socket, int]:
        """Listen on the first port.

        Returns:
            The socket and its port.

        Raises:
            NetworkError: the port is taken, or the address is not this machine's.
        """
        try:
            return self._open(self.first)
        except OSError as error:
            raise cannot_listen(error, self.host, self.first) from error

    def open_next(self) -> tuple[socket.socket, int]:
        """Listen on the next port for a broker that is free.

        Raises:
            NetworkError: there is none.
        """
        if self.first == 0:
            try:
                return self._open(0)
            except OSError as error:
                raise cannot_listen(error, self.host, 0) from error
        taken = []
        for port in self._rest:
            try:
                return self._open(port)
            except OSError:
                taken.append(port)
        others = f" or taken by other processes ({', '.join(map(str, taken))})" if taken else ""
        raise NetworkError(
            f"the ports {self.first + 1} to {self.last} are in use for other brokers{others}; give a larger range: "
            f"--listen {self.host}:{self.first}-{min(self.last + PORTS_BY_DEFAULT, PORT_MAX)}",
            stage=Stage.CONNECT,
        )

    def _open(self, port: int) -> tuple[socket.socket, int]:
        family, kind, protocol, _, address = socket.getaddrinfo(
            self.host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(BACKLOG)
        except BaseException:
            sock.close()
            raise
        return sock, int(sock.getsockname()[1])
