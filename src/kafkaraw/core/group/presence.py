"""Whether the user of a member still comes back for more: `max_poll_interval_ms`. Pure.

A member whose user is stuck must give its partitions to others. While a call of the user is under way, it is there.
"""

from __future__ import annotations


class Presence:
    """When the user was last seen.

    Args:
        interval_ms: how long they may stay away; None for ever.

    Attributes:
        is_expected: whether they have called since they last wanted nothing: who has not may stay away.
    """

    def __init__(self, interval_ms: int | None) -> None:
        self._interval_ms = interval_ms
        self.is_expected = False
        self._calls = 0
        self._seen_ms: int | None = None

    def comes(self, now_ms: int) -> None:
        """A call begins."""
        self.is_expected = True
        self._calls += 1
        self._seen_ms = now_ms

    def goes(self, now_ms: int) -> None:
        """A call ends."""
        self._calls -= 1
        self._seen_ms = now_ms

    def wants_nothing(self) -> None:
        """They have unsubscribed, so no call is owed before the next one."""
        self.is_expected = False

    def seen(self, now_ms: int) -> None:
        """There are other signs of life, such as records that are read one by one."""
        if self._seen_ms is not None:
            self._seen_ms = now_ms

    def away_ms(self, now_ms: int) -> int:
        """For how long nobody has called; 0 while a call is under way, or before the first."""
        return 0 if self._calls or self._seen_ms is None else now_ms - self._seen_ms

    @property
    def deadline_ms(self) -> int | None:
        """When the user will have been away for too long; None for never."""
        if self._calls or self._seen_ms is None or self._interval_ms is None or not self.is_expected:
            return None
        return self._seen_ms + self._interval_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether that time has come."""
        deadline_ms = self.deadline_ms
        return deadline_ms is not None and now_ms >= deadline_ms
