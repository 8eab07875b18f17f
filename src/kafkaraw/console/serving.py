"""Runs the console with uvicorn, on a socket that is opened first, so that its address is known and errors are clear.

Start at `Console`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from kafkaraw.console.app import create_app
from kafkaraw.console.settings import ConsoleSettings
from kafkaraw.errors import KafkaError, NetworkError, Stage

_BACKLOG: Final = 128
_CONNECTIONS_MAX: Final = 200
_KEEP_ALIVE_S: Final = 30
_STOP_S: Final = 3
_STARTED_CHECK_S: Final = 0.005


class Console:
    """A console that listens.

    Args:
        settings: of the console.

    Raises:
        NetworkError: the address is in use, or is none of this machine.
        ConfigError: the audit log cannot be written.
    """

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._socket = _listening(settings.host, settings.port)
        try:
            self._app = create_app(settings)
        except KafkaError:
            self._socket.close()
            raise
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        """The address of the first page."""
        host = self._settings.host
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return f"http://{host}:{self._socket.getsockname()[1]}/"

    async def run(self, on_started: Callable[[], None] = lambda: None) -> None:
        """Answer requests until `stop` is called."""
        config = uvicorn.Config(
            self._app,
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS_MAX,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_STOP_S,
        )
        self._server = server = uvicorn.Server(config)
        with contextlib.suppress(AttributeError):
            server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]  # the command has its own
        serving = asyncio.create_task(server.serve(sockets=[self._socket]), name="console")
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(_STARTED_CHECK_S)
        if not serving.done():
            on_started()
        await serving

    def stop(self) -> None:
        """End soon; from any thread."""
        if self._server is not None:
            self._server.should_exit = True
        else:
            self._socket.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
    except OSError as error:
        raise NetworkError(f"--host {host}: {error.strerror}", stage=Stage.RESOLVE) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        text = (
            f"the console cannot listen on {host}:{port}: {error.strerror}; choose another --port, or 0 for a free one"
        )
        raise NetworkError(text, stage=Stage.CONNECT) from error
    return sock
