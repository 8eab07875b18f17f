"""Backoff: how long to wait before a retry, and before the next connection attempt to a broker. Pure.

Time and randomness are arguments. `Backoff` is Kafka's exponential backoff with jitter. `ReconnectPolicy` applies it to
each broker: the wait between attempts grows from `reconnect_backoff_ms` to its maximum, and the time for an attempt
from `socket_connection_setup_timeout_ms` to its maximum (KIP-601). A successful connection resets both. Two attempts
begin at least the shortest backoff apart even then, so that a broker that accepts and closes connections is not
contacted in a busy loop. Start at `Backoff.delay_ms`.
"""

from __future__ import annotations

from collections.abc import Hashable
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


@dataclass(slots=True)
class _Record:
    """What is known about one way to a broker."""

    failures: int = 0
    not_before_ms: float = 0.0


class ReconnectPolicy:
    """Counts the connection attempts, by the key with which the caller identifies brokers.

    Args:
        backoff: pauses between attempts.
        setup_timeout: how long an attempt may take, by the number of failures before it.
        rng: the source of the jitter.
    """

    def __init__(self, backoff: Backoff, setup_timeout: Backoff, rng: RandomSource) -> None:
        self._backoff = backoff
        self._setup_timeout = setup_timeout
        self._rng = rng
        self._records: dict[Hashable, _Record] = {}

    def pause_ms(self, key: Hashable, now_ms: float) -> float:
        """How long to wait before dialling, in milliseconds; 0 when it may be done now."""
        record = self._records.get(key)
        return 0.0 if record is None else max(record.not_before_ms - now_ms, 0.0)

    def setup_timeout_ms(self, key: Hashable) -> float:
        """How long this attempt may take, in milliseconds; the first one gets exactly what is set."""
        record = self._records.get(key)
        if record is None or not record.failures:
            return self._setup_timeout.initial_ms
        return self._setup_timeout.delay_ms(record.failures, self._rng)

    def began(self, key: Hashable, now_ms: float) -> None:
        """An attempt begins."""
        record = self._records.setdefault(key, _Record())
        record.not_before_ms = now_ms + self._backoff.initial_ms

    def failed(self, key: Hashable, now_ms: float) -> None:
        """The attempt failed."""
        record = self._records.setdefault(key, _Record())
        record.not_before_ms = now_ms + self._backoff.delay_ms(record.failures, self._rng)
        record.failures += 1

    def succeeded(self, key: Hashable) -> None:
        """The broker is ready for requests."""
        record = self._records.setdefault(key, _Record())
        record.failures = 0
