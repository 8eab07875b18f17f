"""Waiting for another thread or process, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.05) -> bool:
    """Return whether a condition becomes true within a time.

    Args:
        condition: is called at least once.
        timeout_s: the time, in seconds.
        every_s: pause between the calls, in seconds.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
