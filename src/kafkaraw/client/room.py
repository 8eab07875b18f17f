"""The queue of senders who wait for room in the producer's buffer.

First come, first served: one is let in at a time, and lets the next one in when there is room left. It knows no bytes;
whoever frees some calls `let_one_in`, or `let_one_in_soon` when it is little: waking a thread for every batch that is
acknowledged would cost more than filling the batch.
"""

from __future__ import annotations

import asyncio
from collections import deque

from kafkaraw.errors import KafkaError

PATIENCE_S = 0.005
"""How long a sender waits for more room when there is some, but little."""


class Room:
    """Who waits for room; lives on one loop.

    Attributes:
        releases: how often room was made; compared by `wait`, because room may be made on this loop between a refusal
            on another thread and the wait that follows it.
    """

    def __init__(self) -> None:
        self.releases = 0
        self._queue: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

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
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def let_one_in_soon(self) -> None:
        """Wake the one who has waited longest in `PATIENCE_S`, unless `let_one_in` comes first."""
        if self._queue and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._be_patient_no_more)

    def _be_patient_no_more(self) -> None:
        self._timer = None
        self.let_one_in()

    def fail(self, error: KafkaError) -> None:
        """Send everybody home."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(error)
