"""Waiting until all that was sent before has an outcome: what `flush` and `close` do, for coroutines and for threads.

There is no timer for each who waits: the owner looks at `Settling.due_ms` when it sets its own, and calls `expire`.
Everything here runs on the producer's loop. Start at `Settling.wait` and `Settling.begin_flush`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafkaraw.client.sending.failures import UnseenFailures
from kafkaraw.core.producer.machine import ProducerMachine
from kafkaraw.core.producer.report import describe
from kafkaraw.errors import DeliveryTimeout, KafkaError
from kafkaraw.records import BatchPromise

_SECONDS_MAX: Final = 1e9
"""A wait without end is one of so long: no infinity becomes milliseconds."""


class Flush:
    """One call that waits for batches.

    Attributes:
        due_ms: when it waits no longer.
    """

    __slots__ = ("_missing", "_over", "_promises", "_waiting", "due_ms")

    def __init__(
        self, waiting: set[Flush], promises: Sequence[BatchPromise], due_ms: int, over: Callable[[bool], None]
    ) -> None:
        self.due_ms = due_ms
        self._waiting = waiting
        self._promises = promises
        self._missing = len(promises)
        self._over = over
        waiting.add(self)
        for promise in promises:
            promise.add_callback(self._count_down)

    def _count_down(self, _: BatchPromise) -> None:
        self._missing -= 1
        if not self._missing:
            self.end(True)

    def end(self, settled: bool) -> None:
        """Wait no longer; only the first end counts."""
        if self in self._waiting:
            self.forget()
            self._over(settled)

    def forget(self) -> None:
        """The call waits no more."""
        self._waiting.discard(self)
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
    """All who wait.

    Args:
        machine: knows what has no outcome yet.
        failures: what is told to whoever flushes.
        sending: see there.
    """

    def __init__(self, machine: ProducerMachine, failures: UnseenFailures, sending: Sending) -> None:
        self._machine = machine
        self._failures = failures
        self._sending = sending
        self._waiting: set[Flush] = set()

    @property
    def due_ms(self) -> int | None:
        """When the first of them has waited for too long; None when there is none."""
        return min(flush.due_ms for flush in self._waiting) if self._waiting else None

    def expire(self, now_ms: int) -> None:
        """End those that have waited for too long."""
        for flush in [flush for flush in self._waiting if flush.due_ms <= now_ms]:
            flush.end(False)

    async def wait(self, seconds: float, what: str) -> None:
        """Send everything and wait until every batch that there is now has an outcome.

        Raises:
            DeliveryTimeout: some have none in time.
        """
        settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def over(all_of_it: bool) -> None:
            if not settled.done():  # whoever waited may have been cancelled
                settled.set_result(all_of_it)

        flush = self._begin(seconds, over)
        if flush is not None:
            try:
                if not await settled:
                    raise self.too_late(what, seconds)
            finally:
                flush.forget()

    def begin_flush(self, seconds: float, over: Callable[[BaseException | None], None]) -> None:
        """Send everything; `over` is told once all of it has an outcome: None, or what `flush` raises."""

        def settled(all_of_it: bool) -> None:
            error: KafkaError | None = None
            try:
                if not all_of_it:
                    raise self.too_late("flush", seconds)
                self._failures.raise_if_any()
            except KafkaError as raised:
                error = raised
            over(error)

        if self._begin(seconds, settled) is None:
            settled(True)

    def too_late(self, what: str, seconds: float) -> DeliveryTimeout:
        """The error of who waited for so long and no longer."""
        entries, last_error = self._machine.unacknowledged(), self._machine.last_error
        last_seen = "" if last_error is None else f"; last seen: {last_error}"
        message = f"{what}: not acknowledged within {seconds:g} s: {describe(entries)}{last_seen}"
        return DeliveryTimeout(message, unacknowledged=entries)

    def _begin(self, seconds: float, over: Callable[[bool], None]) -> Flush | None:
        """Send everything; `over` is told later whether all of it has an outcome. None: it has one now."""
        self._sending.send_everything()
        promises = [batch.promise for batch in self._machine.unsettled()]
        if not promises:
            return None
        due_ms = self._sending.now_ms() + int(min(seconds, _SECONDS_MAX) * 1000) + 1  # the time is cut to milliseconds
        self._sending.step_by(due_ms)
        return Flush(self._waiting, promises, due_ms, over)
