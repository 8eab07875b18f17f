"""A node answers one large request at a time, so that its memory is used once, however many connections send one.

The answer to a request of a megabyte takes some 100 MB while it is made, and it is made in turns with other work. A
connection whose large request has to wait keeps the bytes of it. Small requests never wait here. A large request that
waits for something, such as replication, lets the next one begin, if few others do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LARGE_REQUEST_BYTES: Final = 1 << 13
"""Size in bytes from which on a request is large: an entry has 2 bytes at least, so it may have 4,096 entries, which
take 2 MB."""


ASIDE_MAX: Final = 4
"""Number of large requests that may wait for an event without delaying others: each stays in memory."""


class LargeRequests:
    """The large requests of a node, in order of arrival; the first one is in progress."""

    def __init__(self) -> None:
        self._places: dict[object, Callable[[], None]] = {}
        self._aside: set[object] = set()

    def enter(self, owner: object, begin: Callable[[], None]) -> None:
        """Queue a request; call `begin` when it is first in the queue, immediately if the queue is empty.

        Args:
            owner: the object that must `leave` later; it must not be in the queue already.
            begin: begins the work.
        """
        self._places[owner] = begin
        if len(self._places) == 1:
            begin()

    def leave(self, owner: object) -> None:
        """Remove a request that is answered, or whose connection is lost; then begin the next one."""
        self._aside.discard(owner)
        self._free(owner)

    def step_aside(self, owner: object) -> None:
        """Let the next request begin while the first one waits for something; it stays the first if too many do."""
        if owner in self._places and len(self._aside) < ASIDE_MAX:
            self._aside.add(owner)
            self._free(owner)

    def _free(self, owner: object) -> None:
        is_first = next(iter(self._places), None) == owner
        self._places.pop(owner, None)
        if is_first and self._places:
            asyncio.get_running_loop().call_soon(self._begin, next(iter(self._places)))

    def _begin(self, owner: object) -> None:
        """Begin the next request, if it is still in the queue; otherwise `leave` has begun the one after it."""
        begin = self._places.get(owner)
        if begin is not None:
            begin()
