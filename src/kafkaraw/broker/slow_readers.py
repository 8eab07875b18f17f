"""Disconnects clients that do not read their responses, because these use memory and file descriptors.

A client may read slowly: it is disconnected if no byte is sent and its system acknowledges none. On systems that do not
report acknowledgements (all but Linux), a long slice of a file only counts once it is sent completely: there, a client
has to read 4 MiB within the limit, which is 14 kB/s with the default. Start at `SlowReaderWatch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kafkaraw.net import Link

CLOSING_LIMIT_S: Final = 30.0
"""How long the peer of a connection that the broker has closed may leave the rest unread: it sends no more requests."""
_LOOKS: Final = 4
"""Number of checks within the limit, so that the limit is accurate to a quarter."""


class SlowReaderWatch:
    """Gives a link up when no byte has left for too long although there are some to send.

    Args:
        link: the link.
        limit_s: how long, in seconds.
        give_up: ends the link; is given the limit in seconds.
    """

    def __init__(self, link: Link, limit_s: float, give_up: Callable[[float], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._link = link
        self._limit_s = limit_s
        self._give_up = give_up
        self._taken_bytes = (0, 0)
        self._stuck_since: float | None = None
        self._timer = self._loop.call_later(limit_s / _LOOKS, self._look)

    def closing(self) -> None:
        """Apply the limit of a closing link, which is closed once its unsent bytes are sent."""
        self._limit_s = min(self._limit_s, CLOSING_LIMIT_S)
        self._timer.cancel()
        self._timer = self._loop.call_later(self._limit_s / _LOOKS, self._look)

    def stop(self) -> None:
        """Stop checking: the link is lost, or will be immediately."""
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        taken_bytes = (self._link.sent_bytes, self._link.acknowledged_bytes)
        moved, self._taken_bytes = taken_bytes != self._taken_bytes, taken_bytes
        if not self._link.unsent_bytes:
            self._stuck_since = None
        elif moved or self._stuck_since is None:
            self._stuck_since = now
        elif now - self._stuck_since >= self._limit_s:
            self._give_up(self._limit_s)
            return
        self._timer = self._loop.call_later(self._limit_s / _LOOKS, self._look)
