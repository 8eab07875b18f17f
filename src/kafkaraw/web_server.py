"""The HTTP server of the registry and of the console: uvicorn on a socket of our own, on the loop that runs already.

uvicorn limits idle connections, but neither requests that arrive byte by byte nor answers that the client does not
read. So connections without progress are closed after `Limits.stalled_s`. Must not know what is served. Start at
`HttpServer.start`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from kafkaraw.errors import KafkaError, NetworkError, Stage
from kafkaraw.light_classes import dataclass
from kafkaraw.net.listener import stop_accepting

log: logging.Logger = logging.getLogger(__name__)

_CHECKS: Final = 8
_IDLE_S: Final = 1.0
_ABORT_TURNS: Final = 10
"""Turns of the loop until aborted connections are closed: 1, with TLS 3."""
_STARTED_CHECK_S: Final = 0.005


@dataclass(frozen=True)
class Limits:
    """How much a server lets its clients do.

    Attributes:
        connections: that are answered at once.
        backlog: connections that wait to be accepted.
        keep_alive_s: how long a connection stays open after an answer, in seconds.
        stalled_s: connections without progress for so long are closed, in seconds.
        may_be_silent: an answer under way may send nothing for longer, if the client has read all of it so far: pages
            that are live.
        stop_s: how long requests get when the server stops, in seconds.
    """

    connections: int = 1_000
    backlog: int = 256
    keep_alive_s: int = 75
    stalled_s: float = 120.0
    may_be_silent: bool = False
    stop_s: int = 5


class HttpServer:
    """Serves an ASGI application.

    Args:
        name: of the server, for messages, such as "registry".
        host: name or address to listen on.
        port: port to listen on; 0 for a free one.
        limits: of clients.

    Raises:
        NetworkError: the address is in use, or is none of this machine.
    """

    def __init__(self, name: str, host: str, port: int, limits: Limits | None = None) -> None:
        self._name = name
        self._socket = _listening(name, host, port)
        self._limits = Limits() if limits is None else limits
        self._server: uvicorn.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    async def start(self, app: ASGIApp, context: ssl.SSLContext | None, *, has_lifespan: bool = False) -> None:
        """Begin to answer requests.

        Args:
            app: answers them.
            context: of TLS; None for none.
            has_lifespan: whether the server sends ASGI lifespan events to the application.
        """
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="on" if has_lifespan else "off",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=self._limits.connections,
            backlog=self._limits.backlog,
            timeout_keep_alive=self._limits.keep_alive_s,
            timeout_graceful_shutdown=self._limits.stop_s,
        )
        config.load()
        config.ssl = context
        self._server = server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]  # commands have their own
        serving = asyncio.create_task(server.serve(sockets=[self._socket]), name=f"{self._name} server")
        watch = asyncio.create_task(self._close_stalled(server), name=f"{self._name} server's watch")
        self._tasks = [serving, watch]
        while not server.started:
            if serving.done():
                serving.result()
                raise KafkaError(f"the HTTP server of the {self._name} ended while it started")
            await asyncio.sleep(_STARTED_CHECK_S)

    async def stop(self) -> None:
        """Stop listening; requests under way get some seconds."""
        if self._server is None:
            self._socket.close()
            return
        if self._socket.fileno() >= 0:  # a second call, or the loop was cancelled
            await stop_accepting([self._socket.fileno()])
        self._server.should_exit = True
        serving, watch = self._tasks
        watch.cancel()
        while not serving.done():
            await asyncio.wait([serving], timeout=_IDLE_S)
            _abort_idle(self._server)
        await asyncio.gather(serving, watch, return_exceptions=True)
        await _abort(self._server)

    async def _close_stalled(self, server: uvicorn.Server) -> None:
        """Close connections whose state stays the same: the same request, as many bytes unsent."""
        seen: dict[Any, tuple[tuple[int, bool, int] | None, int]] = {}
        while True:
            await asyncio.sleep(self._limits.stalled_s / _CHECKS)
            now: dict[Any, tuple[tuple[int, bool, int] | None, int]] = {}
            for connection in list(server.server_state.connections):
                state = _state_of(connection)
                before, checks = seen.get(connection, (None, 0))
                _, is_answered, unsent_bytes = state
                is_silent = self._limits.may_be_silent and not is_answered and not unsent_bytes
                checks = checks + 1 if state == before and not is_silent else 0
                now[connection] = (state, checks)
                if checks >= _CHECKS:
                    log.info("a connection without progress for %g s is closed", self._limits.stalled_s)
                    connection.transport.abort()
            seen = now


def _abort_idle(server: uvicorn.Server) -> None:
    """Close connections without a request: those with TLS wait for the client's consent, some came at the last moment.

    uvicorn would wait for them until its time is up.
    """
    for connection in list(server.server_state.connections):
        _, is_answered, unsent_bytes = _state_of(connection)
        if is_answered and not unsent_bytes:
            connection.transport.abort()


async def _abort(server: uvicorn.Server) -> None:
    """Close the connections that uvicorn leaves open after its timeout, such as those whose client reads no answer.

    Without it, these connections would stay open until the garbage collector finds them, after the end of their loop.
    """
    for connection in list(server.server_state.connections):
        connection.transport.abort()
    for _ in range(_ABORT_TURNS):
        await asyncio.sleep(0)


def _state_of(connection: Any) -> tuple[int, bool, int]:  # noqa: ANN401 -- uvicorn's protocol object
    cycle = connection.cycle
    is_answered = cycle is None or cycle.response_complete
    return id(cycle), is_answered, connection.transport.get_write_buffer_size()


def _listening(name: str, host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Without the protocol's number, asyncio leaves Nagle's algorithm on: 40 ms for an answer of two segments.
        sock = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
    except OSError as error:
        text = f"the {name} cannot listen on {host}: {error.strerror}; choose an address of this machine"
        raise NetworkError(text, stage=Stage.RESOLVE) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        text = f"the {name} cannot listen on {host}:{port}: {error.strerror}; choose another port, or 0 for a free one"
        raise NetworkError(text, stage=Stage.CONNECT) from error
    return sock
