"""When a producer makes its next step: soon, or by a time; whoever asks twice gets one.

A step looks at all that may be due, so it may come too early, but never too late. Knows nothing of what is done in it.
Start at `Steps.make_by`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kafkaraw.errors import UsageError

ANOTHER_LOOP: Final = "this producer belongs to another event loop; make one for each, or use kafkaraw.Producer"


class Steps:
    """The steps of one producer, all on one loop.

    Args:
        step: makes one; it says so with `begun`, also when it is called by somebody else.

    Attributes:
        loop: where they are made; nothing is as long as it is None. Set once.
    """

    __slots__ = ("_is_called", "_is_scheduled", "_leaving", "_step", "_timer", "_timer_s", "loop")

    def __init__(self, step: Callable[[], None]) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._step = step
        self._timer: asyncio.Handle | None = None
        self._timer_s = 0.0  # when it fires; uvloop's handle of a time that has passed cannot tell
        self._is_scheduled = False
        self._is_called = False
        self._leaving: BaseException | None = None

    def begun(self) -> None:
        """A step is being made: what is asked for from now on needs another one."""
        self._is_scheduled = self._is_called = False

    def make_soon(self) -> None:
        """Have one made soon; on the loop.

        Raises:
            UsageError: that loop has ended, and another one runs.
        """
        if not self._is_scheduled and self.loop is not None:
            self._check_loop(self.loop)
            self._is_scheduled = True
            self.loop.call_soon(self._step)

    def make_soon_from_thread(self) -> None:
        """Have one made soon; on any thread. Costs nothing while an earlier call has not been heard."""
        if not self._is_called and self.loop is not None:
            self._is_called = True
            self.loop.call_soon_threadsafe(self._step)

    def make_by(self, time_ms: int) -> None:
        """Keep one timer, at or before the time of the next step: early costs less than setting it anew.

        Raises:
            UsageError: as `make_soon`.
        """
        assert self.loop is not None
        if self._timer is not None:
            if self._timer_s * 1000 <= time_ms + 1:
                return
            self._timer.cancel()
        self._check_loop(self.loop)
        # half a millisecond late, so that the clock, cut to milliseconds, has certainly reached the time
        self._timer_s = (time_ms + 0.5) / 1000
        self._timer = self.loop.call_at(self._timer_s, self._on_timer)

    def is_due_within(self, ms: float) -> bool:
        """Whether the timer fires by then; on any thread: it may be replaced meanwhile, but only by an earlier one."""
        loop = self.loop
        return self._timer is not None and loop is not None and self._timer_s <= loop.time() + ms / 1000

    def cancel_timer(self) -> None:
        """Nothing is to be made by any time."""
        if self._timer is not None:
            self._timer.cancel()

    def now_s(self) -> float:
        """The loop's time."""
        assert self.loop is not None
        return self.loop.time()

    def now_ms(self) -> int:
        """The loop's time, cut to milliseconds."""
        return int(self.now_s() * 1000)

    def raise_soon(self, error: BaseException) -> None:
        """Have the loop raise what a callback raised to end the process, in a turn of its own; of several, the first.

        Raised at once, it would leave a change half made: answers behind it in the same read would not be looked at.
        """
        if self._leaving is None and self.loop is not None and not self.loop.is_closed():
            self._leaving = error
            self.loop.call_soon(self._leave)

    def _leave(self) -> None:
        error, self._leaving = self._leaving, None
        if error is not None:
            raise error

    def _check_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop.is_closed():
            raise UsageError(ANOTHER_LOOP)

    def _on_timer(self) -> None:
        self._timer = None
        self._step()
