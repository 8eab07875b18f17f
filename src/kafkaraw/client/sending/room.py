"""The queue of senders that wait for the producer's buffer memory.

First come, first served: one sender is let in at a time, and lets the next one in when there is memory left. The code
that frees memory calls `let_one_in`, or `let_one_in_soon` when it is little: waking a thread for every batch that is
acknowledged would cost more than filling the batch.

A sender that was let in may be cancelled, raise, or be interrupted on its thread before it lets the next one in. So as
long as senders wait and there is memory, `Room` itself lets one in every `PATIENCE_S`: no turn can be lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from kafkaraw.errors import KafkaError, copy_to_raise

PATIENCE_S = 0.005
"""How long a sender waits for more room when there is some, but little."""
AHEAD_BYTES = 4 * 1024 * 1024
"""As much as fits the caches that a processor shares with little else."""
DRAIN_SECONDS_MAX = 0.02


class Room:
    """Who waits for room; lives on one loop.

    Args:
        has_room: says whether there is memory to be had.

    Attributes:
        releases: how often room was made; compared by `wait`, because room may be made on this loop between a refusal
            on another thread and the wait that follows it.
    """

    def __init__(self, has_room: Callable[[], bool]) -> None:
        self.releases = 0
        self._has_room = has_room
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
        except asyncio.CancelledError:
            if _was_let_in(turn):  # and does not come: the next one does
                self.let_one_in()
            raise
        finally:
            if turn in self._queue:
                self._queue.remove(turn)
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
                break
        self.let_one_in_soon()

    def let_one_in_soon(self) -> None:
        """Wake the one who has waited longest in `PATIENCE_S`, if there is room then; `let_one_in` may come first."""
        if self._queue and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._be_patient_no_more)

    def _be_patient_no_more(self) -> None:
        self._timer = None
        if self._has_room():  # else the next release lets one in
            self.let_one_in()

    def fail(self, error: KafkaError) -> None:
        """Send everybody home."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(copy_to_raise(error))


def _was_let_in(turn: asyncio.Future[None]) -> bool:
    return turn.done() and not turn.cancelled() and turn.exception() is None


class Ahead:
    """How far a sender of many rows is ahead of the network; one that is too far waits a moment, but no longer.

    What is sent while it is in the processor's caches costs a quarter less, and memory that is used again needs no
    fresh pages. So this is no bound: a slow network gets what there is room for.

    Args:
        used_bytes: says how many bytes are collected and not yet acknowledged.
    """

    def __init__(self, used_bytes: Callable[[], int]) -> None:
        self._used_bytes = used_bytes
        self._drained = asyncio.Event()

    def __bool__(self) -> bool:
        return self._used_bytes() > AHEAD_BYTES

    def note(self, used_bytes: int) -> None:
        """Bytes were acknowledged, and so many are left; on the loop."""
        if used_bytes <= AHEAD_BYTES // 2:
            self._drained.set()

    async def drain(self) -> None:
        """Wait until half of it has left, or `DRAIN_SECONDS_MAX`."""
        self._drained.clear()
        if self:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS_MAX):
                    await self._drained.wait()
