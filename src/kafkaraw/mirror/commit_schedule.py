"""When a flow commits its positions: `CommitSchedule`. Pure, except that it reads the loop's clock once."""

from __future__ import annotations

import asyncio
from typing import Final

CATCH_UP_INTERVALS: Final = 4
"""How many times longer than `commit_interval_s` a transaction is open at most, while older records are copied."""
COMMIT_PAUSE_S: Final = 0.05
"""The least time between two commits: each costs two round trips."""
POSITIONS_KEPT_S: Final = 6 * 3600.0
"""All positions are committed again after this time: brokers delete those that are older than a week."""


class CommitSchedule:
    """When positions are committed: when the source has no more, or after the interval.

    While old records are copied, up to `CATCH_UP_INTERVALS` intervals make one transaction: that delays them by no more
    than their age. Each commit costs the time until all batches are acknowledged, and three round trips. The first
    transaction of a session has what was read first, so that readers of the copy soon see records.

    Args:
        interval_s: of commits under load.

    Attributes:
        all_at_s: when all positions are committed again.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._sent_at_s: float | None = None  # of the first batch since the last commit
        self._committed_at_s = 0.0
        self._is_first = True
        self.all_at_s: float = asyncio.get_running_loop().time() + POSITIONS_KEPT_S

    def sent(self, now_s: float) -> None:
        """Batches were sent."""
        if self._sent_at_s is None:
            self._sent_at_s = now_s

    def is_due(self, now_s: float, *, is_idle: bool, age_s: float) -> bool:
        """Return whether to commit now.

        Args:
            now_s: the time.
            is_idle: the source has no more.
            age_s: of the last batch.
        """
        if now_s >= self.all_at_s:
            return True
        if self._sent_at_s is None:
            return False
        idle = is_idle and now_s >= self._committed_at_s + min(COMMIT_PAUSE_S, self._interval_s)
        open_s = min(max(self._interval_s, age_s), self._interval_s * CATCH_UP_INTERVALS)
        return idle or self._is_first or now_s >= self._sent_at_s + open_s

    @property
    def is_open(self) -> bool:
        """Whether batches were sent since the last commit."""
        return self._sent_at_s is not None

    def committed(self, now_s: float, *, everything: bool) -> None:
        """Positions were committed, or there was none to commit."""
        self._is_first = self._is_first and self._sent_at_s is None
        self._sent_at_s = None
        self._committed_at_s = now_s
        if everything:
            self.all_at_s = now_s + POSITIONS_KEPT_S
