"""Waiting for outcomes: of one batch, of several, or of all that was sent before; and the failures to report.

`PromiseWaiter` is how tickets wait, on a thread or in a coroutine: `records` knows promises but neither threads nor
loops, and is given one per producer. Nothing of it runs when a record is sent.

`PendingFlushes` are the calls of `flush` and `close` that wait for batches. There is no timer for each of them: the
sender looks at `due_ms` when it sets its own, and calls `expire`. A batch that gets its outcome only counts down; the
sender calls `end_settled` after it has written all state and called all callbacks.

`UnreportedFailures` are the failed batches that no call has reported: `flush()` and `close()` report them, so that no
loss is silent. A record whose ticket was asked for its error (`result()`, `await`, `exception()`), or whose callback
was called, is known to the caller. A report leaves out a batch if that holds for all of its records.

Start at `PromiseWaiter.wait` and `PendingFlushes.begin`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from kafkaraw.client.deadline import check_timeout
from kafkaraw.core.producer.events import Unacknowledged, describe, summarise
from kafkaraw.errors import DeliveryError, DeliveryTimeoutError, ForkedError, KafkaTimeoutError, UsageError
from kafkaraw.net.threads import check_holds_no_loop_lock, wait_interruptibly
from kafkaraw.records import BatchPromise

FORKED: Final = "this producer belongs to the parent process; make a new one after the fork"
REMEMBERED_MAX: Final = 10_000
"""At twice as many failed batches, the oldest ones are forgotten, down to this number."""


Failures = Mapping[BatchPromise, Unacknowledged]
_NONE: Final[Failures] = MappingProxyType({})


# -- of batches


class PromiseWaiter:
    """How the tickets of one producer wait; implements `records.Waiter`.

    Attributes:
        loop: the loop on which the producer settles its promises; waiting must not block it.
        forked: this process is a child of the one that sent the records; their outcomes are known only in the parent.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.forked = False

    def wait(self, promise: BatchPromise, timeout: float | None) -> None:
        """Block until the promise is done; see `records.Waiter.wait`.

        Raises:
            KafkaTimeoutError: it is still pending after `timeout` seconds.
            UsageError: called on the loop that has to settle it, or on a thread that the loop waits for.
        """
        if timeout is not None:
            check_timeout(timeout)
        if self._is_forked(promise):
            return
        check_holds_no_loop_lock()
        if self.loop is not None and _running_loop() is self.loop:
            raise UsageError("Ticket.result() would block the loop that has to deliver the record; `await` the ticket")
        done = threading.Event()

        def wake(_: BatchPromise) -> None:
            done.set()

        promise.add_callback(wake)
        try:
            in_time = wait_interruptibly(done.wait, timeout)
        finally:
            promise.remove_callback(wake)
        if not in_time:
            raise KafkaTimeoutError(
                f"no acknowledgement for {promise.topic}-{promise.partition} within {timeout:g} s; "
                f"the record is still on its way and may yet be written"
            )

    def wait_all(self, promises: Sequence[BatchPromise], timeout: float | None) -> None:
        """Block until all of them are done; as `wait`."""
        if timeout is not None:
            check_timeout(timeout)
        pending = [promise for promise in promises if not self._is_forked(promise)]
        if not pending:
            return
        check_holds_no_loop_lock()
        if self.loop is not None and _running_loop() is self.loop:
            raise UsageError("result() would block the loop that has to deliver the rows; `await` the ticket")
        done = threading.Event()
        forget = self.call_after_all(pending, done.set)
        try:
            in_time = wait_interruptibly(done.wait, timeout)
        finally:
            forget()
        if not in_time:
            raise KafkaTimeoutError(
                f"no acknowledgement for {sum(not promise.done for promise in pending)} batches within {timeout:g} s; "
                f"they are still on their way and may yet be written"
            )

    def call_after_all(self, promises: Sequence[BatchPromise], callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once all of them are done, at once if they are; in the thread that settles the last one.

        Returns:
            a function that ends the wait: it removes the callbacks from promises that are still pending.
        """
        left = deque(promises)

        def count_down(_: BatchPromise) -> None:
            if left.pop() is promises[0]:  # atomic: one thread gets the last one
                callback()

        if not promises:
            callback()
        for promise in promises:
            promise.add_callback(count_down)

        def forget() -> None:
            for promise in promises:
                promise.remove_callback(count_down)

        return forget

    def awaitable(self, promise: BatchPromise) -> Awaitable[None]:
        """Return a future of the running loop that is done when the promise is."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if self._is_forked(promise):
            future.set_result(None)
            return future

        def settle(_: BatchPromise) -> None:
            if _running_loop() is loop:
                _finish(future)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(_finish, future)

        promise.add_callback(settle)
        future.add_done_callback(lambda _: promise.remove_callback(settle))  # when it is cancelled
        return future

    def check_not_forked(self) -> None:
        """Refuse to go on in a child process.

        Raises:
            ForkedError: this is one.
        """
        if self.forked:
            raise ForkedError(FORKED)

    def _is_forked(self, promise: BatchPromise) -> bool:
        if self.forked:
            promise.fail(
                ForkedError(
                    f"the record for {promise.topic}-{promise.partition} was sent before the fork: the parent process "
                    f"delivers it, this one cannot know the outcome"
                )
            )
        return self.forked


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# -- of all that was sent


class Flush:
    """One call that waits for batches.

    Args:
        promises: of the batches.
        due_ms: when it stops waiting.
        before: failures from before the call that no other call has reported.
        settled: called when the last batch gets its outcome.
        over: called once, with whether all batches got an outcome in time.

    Attributes:
        due_ms: as given.
        before: as given.
        awaited: failures of the batches that it waits for.
        over: as given.
    """

    __slots__ = ("_missing", "_promises", "_settled", "awaited", "before", "due_ms", "over")

    def __init__(
        self,
        promises: Sequence[BatchPromise],
        due_ms: int,
        before: Failures,
        settled: Callable[[], None],
        over: Callable[[bool], None],
    ) -> None:
        self.due_ms: int = due_ms
        self.before: Failures = before
        self.awaited: dict[BatchPromise, Unacknowledged] = {}
        self.over: Callable[[bool], None] = over
        self._settled = settled
        self._promises = dict.fromkeys(promises)
        self._missing = len(self._promises)
        for promise in self._promises:
            promise.add_callback(self._count_down)

    @property
    def is_settled(self) -> bool:
        """Whether every batch has an outcome."""
        return not self._missing

    def note_failure(self, promise: BatchPromise, report: Unacknowledged) -> None:
        """Note that a batch, or a part of one that was split, fails; no effect unless the call waits for it."""
        whole: BatchPromise | None = promise
        while whole is not None and whole not in self._promises:
            whole = whole.whole
        if whole is not None:
            self.awaited[promise] = report

    def stop(self) -> None:
        """Leave no callback behind in promises that are still pending."""
        if self._missing:
            for promise in self._promises:
                promise.remove_callback(self._count_down)

    def _count_down(self, _: BatchPromise) -> None:
        self._missing -= 1
        if not self._missing:
            self._settled()


class PendingFlushes:
    """The calls of one producer that wait until all that was sent before has an outcome; on the producer's loop.

    Attributes:
        failures: that no call has reported.
        calls: that wait.
    """

    def __init__(self) -> None:
        self.failures: UnreportedFailures = UnreportedFailures()
        self.calls: set[Flush] = set()
        self._may_end = False

    @property
    def due_ms(self) -> int | None:
        """When the first call stops waiting; None when there is none."""
        return min(flush.due_ms for flush in self.calls) if self.calls else None

    def begin(self, promises: Sequence[BatchPromise], due_ms: int, over: Callable[[bool], None]) -> Flush:
        """Wait for batches; `over` is called once, with whether all got an outcome in time, unless all have one now."""
        flush = Flush(promises, due_ms, self.failures.now(), self._note_settled, over)
        if not flush.is_settled:
            self.calls.add(flush)
        return flush

    def forget(self, flush: Flush) -> None:
        """Stop waiting, without calling `over`."""
        self.calls.discard(flush)
        flush.stop()

    def note_failure(self, promise: BatchPromise, report: Unacknowledged) -> None:
        """Note that a batch fails; to be called before its promise fails."""
        self.failures.add(promise, report)
        for flush in self.calls:
            flush.note_failure(promise, report)

    def expire(self, now_ms: int) -> None:
        """End the calls that have waited for too long."""
        for flush in [flush for flush in self.calls if flush.due_ms <= now_ms]:
            self._end(flush, settled=False)

    def end_settled(self) -> None:
        """End the calls whose batches all have an outcome; to be called when all state is written."""
        if self._may_end:
            self._may_end = False
            for flush in [flush for flush in self.calls if flush.is_settled]:
                self._end(flush, settled=True)

    def report(self, flush: Flush) -> None:
        """Report the failures that are a call's to report; on the call's own thread.

        Raises:
            DeliveryError: there are some.
        """
        self.failures.report(flush.before, flush.awaited)

    def report_rest(self) -> None:
        """Report all failures that no call has reported; at the end.

        Raises:
            DeliveryError: there are some.
        """
        self.failures.report(self.failures.now(), {})

    def _note_settled(self) -> None:
        self._may_end = True

    def _end(self, flush: Flush, *, settled: bool) -> None:
        if flush in self.calls:  # a call that ended before may have forgotten this one
            self.forget(flush)
            flush.over(settled)


# -- failures


class UnreportedFailures:
    """The failed batches that no call has reported.

    The producer's loop adds failures. A call reports them on its own thread, at the moment when it raises: a call that
    is interrupted or cancelled before leaves them to the next one.
    """

    def __init__(self) -> None:
        self._failures: dict[BatchPromise, Unacknowledged] = {}
        self._reported: set[BatchPromise] = set()  # of these

    def add(self, promise: BatchPromise, report: Unacknowledged) -> None:
        """Remember a batch that fails; on the loop, before its promise fails."""
        self._drop_reported()
        self._failures[promise] = report
        if len(self._failures) > 2 * REMEMBERED_MAX:
            for oldest in list(self.now())[:-REMEMBERED_MAX]:
                self._failures.pop(oldest, None)

    def now(self) -> Failures:
        """Return the failures as a mapping that does not change; on any thread."""
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
