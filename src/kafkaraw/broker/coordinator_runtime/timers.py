"""The timeouts of a coordinator, by name: of sessions, joins and rebalances. Pure; time is passed in.

Setting a timeout again replaces the previous one, as each heartbeat does with the session timeout. The driver reads
`deadline_ms` and calls `tick`.
Source: org.apache.kafka.coordinator.common.runtime.CoordinatorTimer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

_SLACK_MS: Final = 0.001
"""Tolerance: an event loop may wake up early by the resolution of its clock."""


class Timers:
    """Deadlines on one clock.

    Args:
        now_ms: a clock that never goes back, in milliseconds.
        on_set: called with each deadline that is set, so that the driver can wake up earlier.
    """

    def __init__(self, now_ms: Callable[[], float], on_set: Callable[[float], None] = lambda at_ms: None) -> None:
        self._now_ms = now_ms
        self._on_set = on_set
        self._set: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._stopped = False

    def __contains__(self, name: Hashable) -> bool:
        return name in self._set

    def set(self, name: Hashable, delay_ms: float, act: Callable[[], None]) -> None:
        """Call a function after a delay; replaces what was set under this name."""
        if self._stopped:
            return
        at_ms = self._now_ms() + delay_ms
        self._set[name] = (at_ms, act)
        self._on_set(at_ms)

    def cancel(self, name: Hashable) -> None:
        """Cancel the timeout of this name."""
        self._set.pop(name, None)

    def stop(self) -> None:
        """Cancel all timeouts, and set no more."""
        self._stopped = True
        self._set.clear()

    def deadline_ms(self) -> float | None:
        """Return when `tick` must be called; None if nothing is set."""
        return min((at_ms for at_ms, _ in self._set.values()), default=None)

    def tick(self) -> None:
        """Call what is due, the oldest first."""
        now_ms = self._now_ms() + _SLACK_MS
        due = sorted(((at_ms, order) for order, (at_ms, _) in enumerate(self._set.values()) if at_ms <= now_ms))
        names = list(self._set)
        for _, order in due:
            # An earlier timeout may have set it again, or cancelled it.
            name = names[order]
            found = self._set.get(name)
            if found is not None and found[0] <= now_ms:
                del self._set[name]
                found[1]()
