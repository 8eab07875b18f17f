"""When a broker may be dialled again, and how long an attempt may take. Pure: time and randomness are passed in.

A broker that cannot be reached is left alone for longer and longer (`reconnect_backoff_ms` to `_max_ms`), and given
longer and longer to answer (`socket_connection_setup_timeout_ms` to `_max_ms`, KIP-601), both with jitter, so that a
thousand clients do not come back in the same moment. One success forgets all of it; but even then two attempts begin at
least the shortest back-off apart, or a broker that accepts and hangs up would be dialled in a busy loop.
"""

from __future__ import annotations

from collections.abc import Hashable

from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.light_classes import dataclass


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
