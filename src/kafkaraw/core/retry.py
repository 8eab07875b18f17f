"""How long to wait before trying again: exponential backoff with jitter. Pure: randomness is passed in."""

from __future__ import annotations

from typing import Protocol

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass


class RandomSource(Protocol):
    """The one thing that is asked of a random source; `random.Random` has it."""

    def uniform(self, a: float, b: float) -> float:
        """Return a number between `a` and `b`."""
        ...


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that grow from `initial_ms` to `max_ms`, each spread so that many clients do not return at once.

    Attributes:
        initial_ms: the first wait, in milliseconds.
        max_ms: no wait is longer, jitter included, in milliseconds.
        multiplier: how much longer each wait is than the one before.
        jitter: how far a wait may be from its nominal value, as a fraction: 0.2 means 80 % to 120 %.

    Raises:
        ConfigError: a value outside its limits.

    Source: KIP-580, Kafka class ExponentialBackoff.
    """

    initial_ms: float
    max_ms: float
    multiplier: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if self.initial_ms < 0 or self.max_ms < self.initial_ms:
            raise ConfigError(f"a backoff needs 0 <= initial_ms <= max_ms, got {self.initial_ms} and {self.max_ms}")
        if self.multiplier < 1 or not 0 <= self.jitter < 1:
            raise ConfigError(f"a backoff needs multiplier >= 1 and 0 <= jitter < 1, got {self}")

    def delay_ms(self, attempt: int, rng: RandomSource) -> float:
        """Return how long to wait, in milliseconds.

        Args:
            attempt: how many waits there have been already, from 0.
            rng: the source of the jitter.
        """
        nominal_ms = self.initial_ms
        for _ in range(attempt):
            if nominal_ms in (0, self.max_ms) or self.multiplier == 1:
                break
            nominal_ms = min(nominal_ms * self.multiplier, self.max_ms)
        return min(nominal_ms * rng.uniform(1 - self.jitter, 1 + self.jitter), self.max_ms)
