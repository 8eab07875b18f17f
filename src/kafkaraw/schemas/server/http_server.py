"""The HTTP server of a registry: uvicorn on a socket of our own, on the loop that runs already.

uvicorn limits idle connections, but neither requests that arrive byte by byte nor answers that the client does not
read. So connections without progress are closed after `STALLED_S`. Start at `HttpServer.start`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from kafkaraw.errors import KafkaError, NetworkError, Stage
from kafkaraw.net.listener import stop_accepting

log: logging.Logger = logging.getLogger(__name__)

STALLED_S: Final = 120.0
"""Longer than any request takes; in seconds."""
_CHECKS: Final = 8
_BACKLOG: Final = 256
_CONNECTIONS_MAX: Final = 1_000
_KEEP_ALIVE_S: Final = 75
_GRACEFUL_STOP_S: Final = 5
_IDLE_S: Final = 1.0
_ABORT_TURNS: Final = 10
"""Turns of the loop until aborted connections are closed: 1, with TLS 3."""
_STARTED_CHECK_S: Final = 0.005


class HttpServer:
    """Serves an ASGI application.

    Args:
        host: address to listen on.
        port: port to listen on; 0 for a free one.
        stalled_s: connections without progress for so long are closed, in seconds.

    Raises:
        NetworkError: the address is in use, or is none of this machine.
    """

    def __init__(self, host: str, port: int, stalled_s: float = STALLED_S) -> None:
        self._socket = _listening(host, port)
        self._stalled_s = stalled_s
        self._server: uvicorn.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    async def start(self, app: ASGIApp, context: ssl.SSLContext | None) -> None:
        """Begin to answer requests."""
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS_MAX,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACEFUL_STOP_S,
        )
        config.load()
        config.ssl = context
        self._server = server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[self._socket]), name="registry server")
        self._tasks = [serving, asyncio.create_task(self._close_stalled(server), name="registry server's watch")]
        while not server.started:
            if serving.done():
                serving.result()
                raise KafkaError("the HTTP server of the registry ended while it started")
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
        seen: dict[Any, tuple[object, int]] = {}
        while True:
            await asyncio.sleep(self._stalled_s / _CHECKS)
            now: dict[Any, tuple[object, int]] = {}
            for connection in list(server.server_state.connections):
                state = _state_of(connection)
                before, checks = seen.get(connection, (None, 0))
                checks = checks + 1 if state == before else 0
                now[connection] = (state, checks)
                if checks >= _CHECKS:
                    log.info("a connection without progress for %g s is closed", self._stalled_s)
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


def _listening(host: str, port: int) -> socket.socket:
    # Without the protocol's number, asyncio would leave Nagle's algorithm on: 40 ms for each answer of two segments.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        text = f"the registry cannot listen on {host}:{port}: {error.strerror}; choose another port, or 0"
        raise NetworkError(text, stage=Stage.CONNECT) from error
    return sock
