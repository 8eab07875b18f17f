"""A blocking wait of a thread that Ctrl-C always interrupts.

Python runs signal handlers on the main thread only, between two of its instructions. A signal may come after this
thread has released the interpreter and before it begins to wait (on a busy machine that may take long), or the system
may deliver it to another thread. Then Python only sets a flag, which does not interrupt the wait. So a wait is divided
into short ones. For threads only: a coroutine uses timers. Start at `wait_interruptibly`.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

SLICE_S: Final = 1.0
"""Duration of one short wait, and the longest delay of a Ctrl-C. Waking up once a second costs nothing."""


def wait_interruptibly(wait: Callable[[float], bool], timeout: float | None) -> bool:
    """Call `wait(seconds)` until it says that it is over, or the time is up; returns whether it is over.

    Args:
        wait: waits for so many seconds at most, and returns whether it is over; `Event.wait`, for one.
        timeout: in seconds; None for as long as it takes.
    """
    if timeout is None:
        while not wait(SLICE_S):
            pass
        return True
    if timeout <= SLICE_S:
        return wait(max(timeout, 0.0))
    end = monotonic() + timeout
    while (left := end - monotonic()) > SLICE_S:
        if wait(SLICE_S):
            return True
    return wait(max(left, 0.0))
