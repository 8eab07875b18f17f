"""The queue of senders who wait for room in the producer's buffer.

First come, first served: one is let in at a time, and lets the next one in when there is room left. It knows no bytes;
whoever frees some calls `let_one_in`.
"""

from __future__ import annotations

import asyncio
from collections import deque

from kafkaraw.errors import KafkaError


class Room:
    """Who waits for room; lives on one loop.

    Attributes:
        releases: how often room was made; compared by `wait`, because room may be made on this loop between a refusal
            on another thread and the wait that follows it.
    """

    def __init__(self) -> None:
        self.releases = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    async def wait(self, releases: int, timeout: float, *, first: bool) -> bool:
        """Wait to be let in; False when the time is up.

        Args:
            releases: what `releases` was before the refusal.
            timeout: in seconds.
            first: stand at the head of the queue, having been let in before to no avail.
        """
        if self.releases != releases:
            return True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if first:
            self._queue.appendleft(turn)
        else:
            self._queue.append(turn)
        try:
            await asyncio.wait([turn], timeout=timeout)
        finally:
            if turn in self._queue:
                self._queue.remove(turn)
            elif not turn.done():
                turn.cancel()
        if not turn.done():
            return False
        turn.result()
        return True

    def let_one_in(self) -> None:
        """Wake the one who has waited longest."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def fail(self, error: KafkaError) -> None:
        """Send everybody home."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(error)
