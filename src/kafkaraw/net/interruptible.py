"""A wait of a thread that blocks, which Ctrl-C is sure to end.

Python runs signal handlers on the main thread only, between two of its instructions. A signal that comes when this
thread has let go of the interpreter but has not begun to wait yet (a busy machine may keep it there for long), or that
the system gives to another thread, only leaves a note; the wait does not hear of it, and would go on until it is over.
So nobody waits in one piece. For threads only: a coroutine has its loop's timers. Start at `wait_interruptibly`.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

SLICE_S: Final = 1.0
"""How long one piece may be: so late may a Ctrl-C be heard, at the worst; waking up once a second costs nothing."""


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
