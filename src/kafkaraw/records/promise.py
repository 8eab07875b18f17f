"""The one promise that a batch makes to all of its records.

A record's `Ticket` is only (promise, index): a future per record would cost more than sending the record. The promise
is pure: it knows no thread and no event loop. Whoever wants to wait asks the `Waiter` that the client passed in, which
builds on `add_callback`. Start at `BatchPromise`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol

_LOG = logging.getLogger("kafkaraw.records")


class PromiseState(Enum):
    """What became of a batch so far. The only transition is PENDING -> DONE."""

    PENDING = "pending"
    DONE = "done"


class Waiter(Protocol):
    """How to wait for a promise: supplied by the client, which owns threads and loops."""

    def wait(self, promise: BatchPromise, timeout: float | None) -> None:
        """Block until the promise is done.

        Args:
            promise: what to wait for.
            timeout: seconds; None waits without limit.

        Raises:
            KafkaTimeoutError: the promise is still pending after `timeout`.
        """

    def awaitable(self, promise: BatchPromise) -> Awaitable[None]:
        """Give something that the running loop can await until the promise is done."""


class BatchPromise:
    """The outcome of one batch: a base offset, or an error; set once, from any thread.

    Attributes:
        topic: the batch's topic.
        partition: the batch's partition.
        waiter: how to wait for it.
        base_offset: offset of the first record; -1 when unknown.
        log_append_time_ms: the broker's timestamp for the whole batch; -1 when the producer's counts.
        error: why the batch failed; None when it did not.
        error_seen: whether somebody looked at the error, or will be told: `flush` reports the others.
    """

    __slots__ = (
        "_callbacks",
        "_state",
        "base_offset",
        "error",
        "error_seen",
        "log_append_time_ms",
        "partition",
        "topic",
        "waiter",
    )

    def __init__(self, topic: str, partition: int, waiter: Waiter) -> None:
        self.topic = topic
        self.partition = partition
        self.waiter = waiter
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error: BaseException | None = None
        self.error_seen = False
        self._state = PromiseState.PENDING
        # append and popleft are atomic, so a callback added while the promise is being kept runs exactly once.
        self._callbacks: deque[Callable[[BatchPromise], None]] = deque()

    @property
    def state(self) -> PromiseState:
        """PENDING or DONE."""
        return self._state

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._state is PromiseState.DONE

    def resolve(self, base_offset: int, log_append_time_ms: int = -1) -> bool:
        """Say that the broker has the batch.

        Args:
            base_offset: offset of the first record; -1 when the broker did not say.
            log_append_time_ms: the broker's timestamp; -1 under CreateTime.

        Returns:
            False when the outcome was known already (an answer after the delivery timeout): the first one counts.
        """
        if self.done:
            return False
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._finish()
        return True

    def fail(self, error: BaseException) -> bool:
        """Say that the batch was given up; False when the outcome was known already."""
        if self.done:
            return False
        self.error = error
        self._finish()
        return True

    def add_callback(self, callback: Callable[[BatchPromise], None]) -> None:
        """Call `callback(promise)` once the outcome is known, at once when it is; in the thread that settles it."""
        self._callbacks.append(callback)
        if self.done:
            self._run_callbacks()

    def _finish(self) -> None:
        self._state = PromiseState.DONE
        self._run_callbacks()

    def _run_callbacks(self) -> None:
        while True:
            try:
                callback = self._callbacks.popleft()
            except IndexError:
                return
            try:
                callback(self)
            except Exception:  # noqa: BLE001  # the user's code: it must hurt neither other callbacks nor the loop
                _LOG.exception("a callback of a batch for %s-%d failed", self.topic, self.partition)
