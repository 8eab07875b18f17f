"""Failed batches that no call has reported yet: `flush()` and `close()` report them, so that no loss is silent.

A record whose ticket was asked for its error (`result()`, `await`, `exception()`) or whose callback was called is known
to its sender. A batch is left out of a report when that holds for all of its records.

The producer's loop adds failures. A call reports them on its own thread, at the moment when it raises: a call that is
interrupted or cancelled before leaves them to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kafkaraw.core.producer.report import Unacknowledged, describe, summarise
from kafkaraw.errors import DeliveryError, DeliveryTimeoutError
from kafkaraw.records import BatchPromise

REMEMBERED_MAX = 10_000
"""At twice as many failed batches, the oldest ones are forgotten, down to this number."""

Failures = Mapping[BatchPromise, Unacknowledged]
_NONE: Final[Failures] = MappingProxyType({})


class UnreportedFailures:
    """The failed batches that no call has reported."""

    def __init__(self) -> None:
        self._failures: dict[BatchPromise, Unacknowledged] = {}
        self._reported: set[BatchPromise] = set()  # of these

    def add(self, promise: BatchPromise, report: Unacknowledged) -> None:
        """Remember a batch that fails; on the loop, before anybody is told of it."""
        self._drop_reported()
        self._failures[promise] = report
        if len(self._failures) > 2 * REMEMBERED_MAX:
            for oldest in list(self.now())[:-REMEMBERED_MAX]:
                self._failures.pop(oldest, None)

    def now(self) -> Failures:
        """Those that there are, as a mapping that does not change; on any thread."""
        self._drop_reported()
        return self._failures.copy() if self._failures else _NONE  # in one go, while other threads take some out

    def report(self, before: Failures, awaited: Failures) -> None:
        """Report failures; on the thread of the call that reports them.

        Args:
            before: failures from before the call; those that another call has reported meanwhile are left out.
            awaited: failures of batches that the call waited for; each call that waited for one reports it.

        Raises:
            DeliveryError: some records failed; a `DeliveryTimeoutError` when all of them did so by running out of time.
        """
        if not before and not awaited:
            return
        known = self._failures.keys() - self._reported
        failures = {promise: report for promise, report in before.items() if promise in known} | dict(awaited)
        unseen = {promise: each for promise, each in failures.items() if not promise.is_seen(each.records_count)}
        error = _error_of(unseen) if unseen else None
        # One operation, and no call behind it: an interruption leaves all of them to the next call, or none.
        self._reported |= failures.keys()
        if error is not None:
            raise error

    def _drop_reported(self) -> None:
        for promise in list(self._reported):
            self._failures.pop(promise, None)
            self._reported.discard(promise)


def _error_of(failures: Failures) -> DeliveryError:
    errors = [promise.error for promise in failures]
    entries = summarise(list(failures.values()))
    kind = DeliveryTimeoutError if all(isinstance(error, DeliveryTimeoutError) for error in errors) else DeliveryError
    message = f"records sent before were not acknowledged: {describe(entries)}; the first error: {errors[0]}"
    error = kind(message, unacknowledged=entries)
    error.__cause__ = errors[0]
    return error
