"""Runs the console on a socket that is opened first, so that its address is known and errors are clear.

Start at `Console`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from kafkaraw.console.app import create_app
from kafkaraw.console.settings import ConsoleSettings
from kafkaraw.web_server import HttpServer, Limits

LIMITS: Final = Limits(connections=200, backlog=128, keep_alive_s=30, may_be_silent=True, stop_s=3)
"""Live pages may be silent; `streams` closes those that are not read, and the server what they leave unsent."""


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
        self._app = create_app(settings)
        self._server = HttpServer("console", settings.host, settings.port, LIMITS)
        self._port = self._server.port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ending = asyncio.Event()

    @property
    def url(self) -> str:
        """The address of the first page."""
        host = self._settings.host
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return f"http://{host}:{self._port}/"

    async def run(self, on_started: Callable[[], None] = lambda: None) -> None:
        """Answer requests until `stop` is called."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._server.start(self._app, None, has_lifespan=True)
            on_started()
            await self._is_ending.wait()
        finally:
            await self._server.stop()

    def stop(self) -> None:
        """End soon; from any thread, after `run` was called."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._is_ending.set)
