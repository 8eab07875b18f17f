"""Failed batches whose errors nobody has looked at: `flush()` and `close()` tell of them, so that no loss is silent.

Whoever takes a ticket's error (`result()`, `await`, `exception()`, a callback) knows of it already; then these stay
quiet about that batch.
"""

from __future__ import annotations

from collections import deque

from kafkaraw.core.producer.report import Unacknowledged, describe, summarise
from kafkaraw.errors import DeliveryError, DeliveryTimeout
from kafkaraw.records import BatchPromise

REMEMBERED_MAX = 10_000


class UnseenFailures:
    """The failures since the last report; the oldest are forgotten when there are very many."""

    def __init__(self) -> None:
        self._failures: deque[tuple[BatchPromise, Unacknowledged]] = deque(maxlen=REMEMBERED_MAX)

    def add(self, promise: BatchPromise, report: Unacknowledged) -> None:
        """Remember a batch that failed."""
        self._failures.append((promise, report))

    def raise_if_any(self) -> None:
        """Report what has not been seen, once.

        Raises:
            DeliveryError: some records failed; a `DeliveryTimeout` when all of them did so by running out of time.
        """
        if not self._failures:
            return
        unseen = [(promise.error, report) for promise, report in self._failures if not promise.seen]
        self._failures.clear()
        if not unseen:
            return
        errors = [error for error, _ in unseen]
        entries = summarise([report for _, report in unseen])
        kind = DeliveryTimeout if all(isinstance(error, DeliveryTimeout) for error in errors) else DeliveryError
        message = f"records sent before were not acknowledged: {describe(entries)}; the first error: {errors[0]}"
        raise kind(message, unacknowledged=entries) from errors[0]
