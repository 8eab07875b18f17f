"""Closes idle connections. Brokers close them after ten minutes, and could then lose a request that was just sent.

One timer for all of them, set only while there are any. Start at `IdleWatch.watch`.
"""

from __future__ import annotations

import asyncio
import logging

from kafkaraw.client.network.connection import Connection

log = logging.getLogger(__name__)


class IdleWatch:
    """Watches connections for disuse.

    Args:
        max_idle_ms: how long one may be unused, in milliseconds; negative for ever.
    """

    def __init__(self, max_idle_ms: int) -> None:
        self._max_idle_s = max_idle_ms / 1000
        self._watched: list[Connection] = []
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, connection: Connection) -> None:
        """Close this one when its time has come."""
        if self._max_idle_s < 0:
            return
        # Connections that broke are let go here: the timer may be far away, and a broker may be lost again and again.
        self._watched = [each for each in self._watched if not each.closed] + [connection]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._max_idle_s, self._look)

    def stop(self) -> None:
        """Watch no more."""
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        now_s = loop.time()
        for connection in self._watched:
            if not connection.closed and _unused_s(connection, now_s) >= self._max_idle_s:
                log.info("closing the connection to %s: unused for %g s", connection.peer, self._max_idle_s)
                connection.abort()
        self._watched = [connection for connection in self._watched if not connection.closed]
        if self._watched:
            longest = max(_unused_s(connection, now_s) for connection in self._watched)
            # Not more often than once a second, nor than the limit itself.
            pause = max(self._max_idle_s - longest, min(self._max_idle_s, 1.0))
            self._timer = loop.call_later(pause, self._look)


def _unused_s(connection: Connection, now_s: float) -> float:
    since = connection.idle_since
    return 0.0 if since is None else now_s - since
