"""Waiting until all that was sent before has an outcome: what `flush` and `close` do, for coroutines and for threads.

There is no timer for each call that waits: the owner looks at `Settling.due_ms` when it sets its own, and calls
`expire`. A batch that gets its outcome only notes that a call need not wait for it any more; the owner ends such calls
with `end_settled`, after everything that follows from the outcomes has been written down and all callbacks were called.

Everything here runs on the producer's loop, but for `FlushCall.finish`. Start at `Settling.wait` and `FlushCall`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafkaraw.client.sending.failures import UnreportedFailures
from kafkaraw.core.producer.machine import ProducerMachine
from kafkaraw.core.producer.report import Unacknowledged, describe
from kafkaraw.errors import DeliveryTimeoutError
from kafkaraw.records import BatchPromise

_SECONDS_MAX: Final = 1e9
"""A wait without end is one of so long: no infinity becomes milliseconds."""


class Flush:
    """One call that waits for batches.

    Args:
        settling: all calls that wait.
        promises: of the batches.
        due_ms: when it waits no longer.
        over: told once whether all of them have an outcome.

    Attributes:
        due_ms: as given.
        before: failures from before the call that no other one had reported.
        awaited: failures of the batches that it waited for.
    """

    __slots__ = ("_missing", "_over", "_promises", "_settling", "awaited", "before", "due_ms")

    def __init__(
        self, settling: Settling, promises: Sequence[BatchPromise], due_ms: int, over: Callable[[bool], None]
    ) -> None:
        self.due_ms = due_ms
        self.before = settling.failures.now()
        self.awaited: dict[BatchPromise, Unacknowledged] = {}
        self._settling = settling
        self._promises = dict.fromkeys(promises)
        self._missing = len(self._promises)
        self._over = over
        settling.calls.add(self)
        for promise in self._promises:
            promise.add_callback(self._count_down)

    def note_failure(self, promise: BatchPromise, report: Unacknowledged) -> None:
        """A batch fails, or a part of one."""
        whole: BatchPromise | None = promise
        while whole is not None and whole not in self._promises:
            whole = whole.whole
        if whole is not None:
            self.awaited[promise] = report

    @property
    def is_settled(self) -> bool:
        """Whether every batch has an outcome."""
        return not self._missing

    def _count_down(self, _: BatchPromise) -> None:
        self._missing -= 1
        if not self._missing:
            self._settling.may_end = True

    def end(self, settled: bool) -> None:
        """Wait no longer; only the first end counts."""
        if self in self._settling.calls:
            self.forget()
            self._over(settled)

    def forget(self) -> None:
        """The call waits no more."""
        self._settling.calls.discard(self)
        if self._missing:
            for promise in self._promises:
                promise.remove_callback(self._count_down)


class Sending(Protocol):
    """What has to be done for those who wait."""

    def send_everything(self) -> None:
        """Send what has been collected, now."""

    def step_by(self, time_ms: int) -> None:
        """See to it that `Settling.expire` is called at that time, or earlier."""

    def now_ms(self) -> int:
        """The loop's time, cut to milliseconds."""


class Settling:
    """All calls that wait.

    Args:
        machine: knows what has no outcome yet.
        failures: those that no call has reported.
        sending: see there.

    Attributes:
        failures: as given.
        calls: those that wait.
        may_end: whether `end_settled` has something to do.
    """

    def __init__(self, machine: ProducerMachine, failures: UnreportedFailures, sending: Sending) -> None:
        self.failures = failures
        self.calls: set[Flush] = set()
        self.may_end = False
        self._machine = machine
        self._sending = sending

    @property
    def due_ms(self) -> int | None:
        """When the first of them has waited for too long; None when there is none."""
        return min(flush.due_ms for flush in self.calls) if self.calls else None

    def expire(self, now_ms: int) -> None:
        """End those that have waited for too long."""
        for flush in [flush for flush in self.calls if flush.due_ms <= now_ms]:
            flush.end(False)

    def note_failure(self, promise: BatchPromise, report: Unacknowledged) -> None:
        """A batch fails: to be called before its promise does."""
        self.failures.add(promise, report)
        for flush in self.calls:
            flush.note_failure(promise, report)

    def end_settled(self) -> None:
        """End the calls whose batches all have an outcome; to be called when nothing is left to be written down."""
        if self.may_end:
            self.may_end = False
            for flush in [flush for flush in self.calls if flush.is_settled]:
                flush.end(True)

    async def wait(self, seconds: float, what: str) -> None:
        """Send everything, wait until every batch that there is now has an outcome, and report failures.

        Raises:
            DeliveryTimeoutError: some have none in time.
            DeliveryError: some have failed; or failed before, and no call has reported it.
        """
        settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def over(all_of_it: bool) -> None:
            if not settled.done():  # the call may have been cancelled
                settled.set_result(all_of_it)

        flush = self.begin(seconds, over)
        try:
            if not flush.is_settled and not await settled:
                raise self.too_late(what, seconds)
        finally:
            flush.forget()
        self.report(flush)

    def report(self, flush: Flush) -> None:
        """Report the failures that are a call's to report; on the call's own thread.

        Raises:
            DeliveryError: there are some.
        """
        self.failures.report(flush.before, flush.awaited)

    def report_rest(self) -> None:
        """Report all failures that no call has reported; at the end."""
        self.failures.report(self.failures.now(), {})

    def too_late(self, what: str, seconds: float) -> DeliveryTimeoutError:
        """The error of a call that waited for so long and no longer."""
        entries, last_error = self._machine.unacknowledged(), self._machine.last_error
        last_seen = "" if last_error is None else f"; last seen: {last_error}"
        message = f"{what}: not acknowledged within {seconds:g} s: {describe(entries)}{last_seen}"
        return DeliveryTimeoutError(message, unacknowledged=entries)

    def begin(self, seconds: float, over: Callable[[bool], None]) -> Flush:
        """Send everything; unless all of it has an outcome now, `over` is told once whether it has, in time."""
        self._sending.send_everything()
        promises = [batch.promise for batch in self._machine.unsettled()]
        due_ms = self._sending.now_ms() + int(min(seconds, _SECONDS_MAX) * 1000) + 1  # the time is cut to milliseconds
        flush = Flush(self, promises, due_ms, over)
        if flush.is_settled:
            flush.forget()
        else:
            self._sending.step_by(due_ms)
        return flush


class FlushCall:
    """A `flush` of a thread that waits: begun on the loop, and finished on the thread.

    Args:
        check: raises if the producer takes no calls; called on the loop.
        settling: all calls that wait.
        seconds: how long it may take.
    """

    def __init__(self, check: Callable[[], None], settling: Settling, seconds: float) -> None:
        self._check = check
        self._settling = settling
        self._seconds = seconds
        self._flush: Flush | None = None

    def begin(self, over: Callable[[BaseException | None], None]) -> None:
        """Begin; `over` is told once it is over, with a `DeliveryTimeoutError` if it takes too long. On the loop."""
        self._check()
        self._flush = self._settling.begin(
            self._seconds, lambda settled: over(None if settled else self._settling.too_late("flush", self._seconds))
        )
        if self._flush.is_settled:
            over(None)

    def finish(self) -> None:
        """Report failures, after it is over; on the thread that waited.

        Raises:
            DeliveryError: there are some.
        """
        if self._flush is not None:
            self._settling.report(self._flush)
