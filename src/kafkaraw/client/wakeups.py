"""`Wakeups`: lets another thread, or a signal handler, interrupt a call of a consumer that waits.

As Java's `KafkaConsumer.wakeup`: the calls that wait raise `WakeupError`; if none waits, the next call that may wait
raises it. A waiting call is cancelled as by Ctrl-C, so no record that it has not returned is lost. This module does not
depend on consumers. Start at `wake` and `interruptible`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from kafkaraw.errors import WakeupError

T = TypeVar("T")


class _Call:
    """One call that may wait.

    Args:
        task: the task that makes the call.

    Attributes:
        task: as given.
        cancelling: the number of cancellation requests of the task when the call began.
        is_cancelled: `wake` has cancelled the task.
    """

    __slots__ = ("cancelling", "is_cancelled", "task")

    def __init__(self, task: asyncio.Task[object]) -> None:
        self.task = task
        self.cancelling = task.cancelling()
        self.is_cancelled = False


class Wakeups:
    """The wakeups of one consumer, all of whose calls wait on one loop.

    Args:
        is_kept: called when a call completed before `wake` interrupted it, so that the next call must raise.

    Attributes:
        is_wanted: `wake` was called, and no call has raised `WakeupError` for it yet.
    """

    __slots__ = ("_is_kept", "_loop", "_waiting", "is_wanted")

    def __init__(self, is_kept: Callable[[], None]) -> None:
        self.is_wanted: bool = False
        self._is_kept = is_kept
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[_Call, None] = {}

    def wake(self) -> None:
        """Interrupt the calls that wait, or else the next one. May be called on any thread and in signal handlers."""
        self.is_wanted = True
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._end_waiting)
        except RuntimeError:  # the loop is closed: no call waits there
            self._loop = None

    async def interruptible(self, work: Coroutine[object, None, T]) -> T:
        """Run a coroutine that may wait, so that `wake` can interrupt it.

        Raises:
            WakeupError: `wake` was called, before or meanwhile. The coroutine has not begun, or was cancelled.
        """
        task = asyncio.current_task()
        assert task is not None
        self._loop = task.get_loop()  # before the look, so that `wake` sees it or is seen
        if self.is_wanted:
            work.close()
            self.is_wanted = False
            raise _error()
        call = _Call(task)
        self._waiting[call] = None
        try:
            return await work
        except asyncio.CancelledError:
            if call.is_cancelled:
                call.is_cancelled = False
                if task.uncancel() <= call.cancelling:
                    raise _error() from None
                self._keep()
            raise
        finally:
            del self._waiting[call]
            if call.is_cancelled:
                task.uncancel()
                self._keep()

    def _keep(self) -> None:
        self.is_wanted = True
        self._is_kept()

    def _end_waiting(self) -> None:
        """On the loop. A call that began after `wake` may have raised the error already."""
        if self.is_wanted and self._waiting:
            self.is_wanted = False
            for call in self._waiting:
                call.is_cancelled = True
                call.task.cancel()


def _error() -> WakeupError:
    return WakeupError("wakeup() was called: the call ends early, and no record is lost")
