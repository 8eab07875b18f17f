"""`LagHistory`: the lag of a group at several times, and what follows: its trend and rates. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from kafkaraw.light_classes import NamedTuple

_MS: Final = 1000


class LagSample(NamedTuple):
    """Sums over the partitions of a group at a time.

    Attributes:
        at_ms: the time, on the clock of the caller.
        lag: records that are left.
        committed: of committed offsets.
    """

    at_ms: float
    lag: int
    committed: int = 0


class LagHistory:
    """The newest samples of one group.

    Args:
        samples_max: how many are kept.
        window_ms: trend and rates are those of this time, or of the last two samples if they are further apart.
    """

    def __init__(self, samples_max: int, window_ms: float) -> None:
        self._samples: deque[LagSample] = deque(maxlen=samples_max)
        self._window_ms = window_ms

    @property
    def samples(self) -> Sequence[LagSample]:
        """The samples, the oldest one first."""
        return self._samples

    def add(self, sample: LagSample) -> None:
        """Take the next sample."""
        self._samples.append(sample)

    @property
    def lag_per_s(self) -> float | None:
        """By how much the lag grows; negative if it falls; None before there are two samples."""
        first, last = self._window()
        return (last.lag - first.lag) * _MS / (last.at_ms - first.at_ms) if last.at_ms > first.at_ms else None

    @property
    def consumed_per_s(self) -> float | None:
        """Offsets that the group commits; None before there are two samples."""
        first, last = self._window()
        elapsed_ms = last.at_ms - first.at_ms
        return max(last.committed - first.committed, 0) * _MS / elapsed_ms if elapsed_ms > 0 else None

    @property
    def written_per_s(self) -> float | None:
        """Records that arrive; None before there are two samples."""
        growth, consumed = self.lag_per_s, self.consumed_per_s
        return None if growth is None or consumed is None else max(growth + consumed, 0.0)

    def _window(self) -> tuple[LagSample, LagSample]:
        if not self._samples:
            return LagSample(0, 0), LagSample(0, 0)
        last = self._samples[-1]
        before = self._samples[-2] if len(self._samples) > 1 else last
        within = (each for each in self._samples if last.at_ms - each.at_ms <= self._window_ms and each is not last)
        return next(within, before), last
