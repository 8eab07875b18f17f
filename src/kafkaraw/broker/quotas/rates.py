"""Kafka's windowed rate and token bucket, which measure the usage of a quota. Pure; times are milliseconds.

Source: org.apache.kafka.common.metrics.stats.{SampledStat, Rate, TokenBucket} and QuotaUtils.
"""

from __future__ import annotations

from kafkaraw.light_classes import NamedTuple, dataclass


class Windows(NamedTuple):
    """The time over which a rate is measured: a number of windows, of which the last one is still open."""

    number: int
    size_ms: int


@dataclass(slots=True)
class _Sample:
    begins_ms: int
    last_ms: int
    total: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.begins_ms = self.last_ms = now_ms
        self.total = 0.0


class WindowedRate:
    """Amounts per second, over the windows.

    Args:
        windows: over which time.
        now_ms: the present.
    """

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self._windows = windows
        self._samples = [_Sample(now_ms, now_ms)]
        self._current = 0

    @property
    def last_ms(self) -> int:
        """When something was recorded last."""
        return max(sample.last_ms for sample in self._samples)

    def record(self, amount: float, now_ms: int) -> None:
        """Take note of an amount; a negative one takes an earlier one back."""
        sample = self._samples[self._current]
        if now_ms - sample.begins_ms >= self._windows.size_ms:
            sample = self._next(now_ms)
        sample.total += amount
        sample.last_ms = now_ms

    def _next(self, now_ms: int) -> _Sample:
        # One window more than asked for: the oldest overlaps the beginning of the time that is measured.
        self._current = (self._current + 1) % (self._windows.number + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms, now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def per_second(self, now_ms: int) -> float:
        """The rate at present."""
        measured_ms = self._measured_ms(now_ms)
        return sum(sample.total for sample in self._samples) / (measured_ms / 1000)

    def delay_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may happen for the rate to come down to `bound`; 0 when it is not above it."""
        rate = self.per_second(now_ms)
        return int((rate - bound) / bound * self._measured_ms(now_ms) + 0.5) if rate > bound else 0

    def _measured_ms(self, now_ms: int) -> int:
        """The time since the oldest window began, but never less than all whole windows."""
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._windows.number * self._windows.size_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min(sample.begins_ms for sample in self._samples)
        missing = self._windows.number - 1 - elapsed_ms // self._windows.size_ms
        return max(1, elapsed_ms + max(0, missing) * self._windows.size_ms)


class TokenBucket:
    """Allows bursts: tokens come back at the rate of the quota, up to what all windows would give.

    Args:
        windows: how many tokens there can be, in time.
        now_ms: the present.
        bound: tokens per second.
    """

    def __init__(self, windows: Windows, now_ms: int, bound: float) -> None:
        self._burst_s = windows.number * windows.size_ms / 1000
        self._tokens = self._burst_s * bound
        self.last_ms: int = now_ms

    def record(self, amount: float, bound: float, now_ms: int) -> None:
        """Take tokens, even those that are not there yet."""
        self._refill(bound, now_ms)
        self._tokens = min(self._burst_s * bound, self._tokens - amount)

    def delay_ms(self, bound: float, now_ms: int) -> int:
        """How long it takes until no token is owed; 0 when none is."""
        self._refill(bound, now_ms)
        return int(-self._tokens / bound * 1000 + 0.5) if self._tokens < 0 else 0

    def _refill(self, bound: float, now_ms: int) -> None:
        self._tokens = min(self._burst_s * bound, self._tokens + bound * (now_ms - self.last_ms) / 1000)
        self.last_ms = now_ms
