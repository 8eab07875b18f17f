"""The wall clock, as a value that is passed in.

For timestamps that leave the process: record times, log times, token lifetimes. Never for measuring how long
something took: monotonic time comes from `loop.time()` only, so that a simulation can own it.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A wall clock."""

    def time_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The operating system's wall clock."""

    def time_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000
