"""The one promise that a batch makes to all of its records.

A record's `Ticket` is only (promise, index): a future per record would cost more than sending the record. The promise
is pure: it knows no thread and no event loop. Whoever wants to wait asks the `Waiter` that the client passed in, which
builds on `add_callback`. Start at `BatchPromise`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, Protocol

from kafkaraw.records.outcome import Outcome

_LOG = logging.getLogger("kafkaraw.records")


class PromiseState(Enum):
    """What became of a batch so far. The only transition is PENDING -> DONE."""

    PENDING = "pending"
    DONE = "done"


_NOTHING_SEEN: Final[set[int]] = set()
_PENDING: Final = PromiseState.PENDING  # members of an enum are slow to look up
_DONE: Final = PromiseState.DONE


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


class BatchPromise(Outcome):
    """The outcome of one batch: a base offset, or an error; set once, from any thread.

    A batch that was split is done when its parts are. Each part has a promise of its own, and what holds for a record
    stands in the one that `part_of` gives.

    Attributes:
        topic: the batch's topic.
        partition: the batch's partition.
        waiter: how to wait for it.
        base_offset: offset of the first record; -1 when unknown.
        log_append_time_ms: the broker's timestamp for the whole batch; -1 when the producer's counts.
        error: why the batch failed; None when it did not.
        parts: the promises of what it was split into, each with the index of its first record; None when it was not.
    """

    __slots__ = (
        "_callbacks",
        "_seen",
        "_state",
        "base_offset",
        "log_append_time_ms",
        "partition",
        "topic",
        "waiter",
        "whole",
    )

    def __init__(self, topic: str, partition: int, waiter: Waiter) -> None:
        self.topic = topic
        self.partition = partition
        self.waiter = waiter
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.error = None
        self._seen: set[int] = _NOTHING_SEEN
        self.parts = None
        self.whole: BatchPromise | None = None
        self._state = _PENDING
        # append and popleft are atomic, so a callback added while the promise is being kept runs exactly once.
        self._callbacks: deque[Callable[[BatchPromise], None]] = deque()

    @property
    def state(self) -> PromiseState:
        """PENDING or DONE."""
        return self._state

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._state is _DONE

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
        if self.parts is not None:
            for _, part in self.parts:
                part.fail(error)
            return True
        self.error = error
        self._finish()
        return True

    def split(self, records_counts: Sequence[int]) -> list[BatchPromise]:
        """Leave the outcome to several promises, the first for the first so many records, and so on; before it is done.

        Once all of them are done this one is: with the error of the first that failed, if any did.
        """
        parts = [BatchPromise(self.topic, self.partition, self.waiter) for _ in records_counts]
        self.parts = [(sum(records_counts[:number]), part) for number, part in enumerate(parts)]
        for part in parts:
            part.whole = self
            part.add_callback(self._part_done)
        return parts

    def part_of(self, index: int) -> tuple[BatchPromise, int]:
        """The promise that holds for one record, and the index that the record has there."""
        promise = self
        while promise.parts is not None:
            first, promise = next(entry for entry in reversed(promise.parts) if entry[0] <= index)
            index -= first
        return promise, index

    def pieces_of(self, index: int, count: int) -> Iterator[tuple[BatchPromise, int, int]]:
        """The promises that hold for so many records from one on, each with the index there and how many it holds."""
        if self.parts is None:
            yield self, index, count
            return
        ends = [first for first, _ in self.parts[1:]] + [index + count]
        for (first, part), end in zip(self.parts, ends, strict=True):
            begin, here = max(index, first), min(index + count, end)
            if begin < here:
                yield from part.pieces_of(begin - first, here - begin)

    def note_seen(self, indexes: Iterable[int]) -> None:
        """The sender has looked at the error of these records, or was told; for a batch that has failed."""
        if self._seen is _NOTHING_SEEN:
            self._seen = set()
        self._seen.update(indexes)

    def is_seen(self, records_count: int) -> bool:
        """Whether the sender knows the error of each of the batch's records; `flush` reports the others."""
        return len(self._seen) >= records_count

    def _part_done(self, _: BatchPromise) -> None:
        parts = [part for _, part in self.parts or ()]
        if not self.done and all(part.done for part in parts):
            self.base_offset = parts[0].base_offset
            self.log_append_time_ms = parts[0].log_append_time_ms
            self.error = next((part.error for part in parts if part.error is not None), None)
            self._finish()

    def add_callback(self, callback: Callable[[BatchPromise], None]) -> None:
        """Call `callback(promise)` once the outcome is known, at once when it is; in the thread that settles it."""
        self._callbacks.append(callback)
        if self.done:
            self._run_callbacks()

    def remove_callback(self, callback: Callable[[BatchPromise], None]) -> None:
        """Take a callback back that was added, if it has not been called yet; on any thread."""
        while True:
            try:
                self._callbacks.remove(callback)
            except ValueError:  # it is not there any more
                return
            except IndexError:  # another thread changed the queue meanwhile
                continue
            return

    @property
    def has_callbacks(self) -> bool:
        """Whether anybody is still to be called."""
        return bool(self._callbacks)

    def _finish(self) -> None:
        self._state = _DONE
        self._run_callbacks()

    def _run_callbacks(self) -> None:
        leaving: BaseException | None = None
        while self._callbacks:
            try:
                callback = self._callbacks.popleft()
            except IndexError:  # another thread was faster
                break
            try:
                callback(self)
            except Exception:  # noqa: BLE001  # the user's code: it must hurt neither other callbacks nor the loop
                _LOG.exception("a callback of a batch for %s-%d failed", self.topic, self.partition)
            except BaseException as error:  # noqa: BLE001  # sys.exit(), or Ctrl-C: the others are told first
                leaving = error
        if leaving is not None:
            raise leaving
