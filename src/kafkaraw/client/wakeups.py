"""`Wakeups`: how another thread, or a signal handler, ends a call of a consumer that waits.

As Java's `KafkaConsumer.wakeup`: the calls that wait raise `WakeupError`; if none does, the next one that could wait
raises it. A call that waits is cancelled as by Ctrl-C, so nothing that it has not returned is lost. Knows nothing of
consumers. Start at `wake` and `interruptible`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from kafkaraw.errors import WakeupError

T = TypeVar("T")


class Wakeups:
    """The wakeups of one consumer, all of whose calls wait on one loop.

    Attributes:
        is_wanted: somebody has called `wake`, and no call has raised `WakeupError` for it yet.
    """

    __slots__ = ("_loop", "_waiting", "is_wanted")

    def __init__(self) -> None:
        self.is_wanted = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[asyncio.Timeout, bool] = {}  # the calls that wait, and whether each was told to end

    def wake(self) -> None:
        """End the calls that wait, or else the next one; on any thread, and in a signal handler."""
        self.is_wanted = True
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._end_waiting)
        except RuntimeError:  # the loop is closed: no call waits there
            self._loop = None

    async def interruptible(self, work: Coroutine[object, None, T]) -> T:
        """Do work that may wait.

        Raises:
            WakeupError: `wake` was called, before or meanwhile. The work has not begun, or was cancelled.
        """
        self._loop = asyncio.get_running_loop()  # before the look, so that `wake` sees it or is seen
        if self.is_wanted:
            work.close()
            self.is_wanted = False
            raise _error()
        scope, is_raised = asyncio.timeout(None), False
        self._waiting[scope] = False
        try:
            async with scope:
                return await work
        except TimeoutError:
            is_raised = scope.expired()
            if is_raised:
                raise _error() from None
            raise
        finally:
            is_told = self._waiting.pop(scope)
            if is_told and not is_raised:  # the work was faster: the next call raises it
                self.is_wanted = True

    def _end_waiting(self) -> None:
        """On the loop. A call that began after `wake` may have raised the error already."""
        if self.is_wanted and self._waiting:
            self.is_wanted = False
            now_s = asyncio.get_running_loop().time()
            for scope in self._waiting:
                self._waiting[scope] = True
                scope.reschedule(now_s)


def _error() -> WakeupError:
    return WakeupError("wakeup() was called: the call ends early, and nothing that it has not returned is lost")
