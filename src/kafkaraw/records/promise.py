"""The promise of a batch: one result for all of its records.

A record's `Ticket` is only (promise, index): a future per record would cost more than sending the record. The promise
is pure: it uses no thread and no event loop. To wait, a caller uses the `Waiter` that the client passed in, which
builds on `add_callback`. Start at `BatchPromise`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, Protocol

from kafkaraw.errors import copy_to_raise
from kafkaraw.records._implementation import Outcome
from kafkaraw.records.record import RecordMetadata

_LOG = logging.getLogger("kafkaraw.records")


class PromiseState(Enum):
    """The state of a batch. The only transition is PENDING -> DONE."""

    PENDING = "pending"
    DONE = "done"


_NOTHING_SEEN: Final[set[int]] = set()
_PENDING: Final = PromiseState.PENDING  # members of an enum are slow to look up
_DONE: Final = PromiseState.DONE


class Waiter(Protocol):
    """How to wait for a promise: implemented by the client, which owns threads and loops."""

    def wait(self, promise: BatchPromise, timeout: float | None) -> None:
        """Block until the promise is done.

        Args:
            promise: the promise to wait for.
            timeout: seconds; None waits without limit.

        Raises:
            KafkaTimeoutError: the promise is still pending after `timeout`.
        """

    def awaitable(self, promise: BatchPromise) -> Awaitable[None]:
        """Return an awaitable for the running loop that is done when the promise is."""


class BatchPromise(Outcome):
    """The result of one batch: a base offset, or an error; set once, from any thread.

    After a batch split, the promise is done when its parts are. Each part has its own promise; `part_of` returns the
    one with the result of a record.

    Attributes:
        topic: the batch's topic.
        partition: the batch's partition.
        waiter: how to wait for it.
        base_offset: offset of the first record; -1 if it is not known.
        log_append_time_ms: the broker's timestamp for the whole batch; -1 if the producer's timestamps are used.
        error: why the batch failed; None if it did not.
        parts: after a batch split, the promise of each part with the index of its first record; else None.
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
        self.topic: str = topic
        self.partition: int = partition
        self.waiter: Waiter = waiter
        self.base_offset: int = -1
        self.log_append_time_ms: int = -1
        self.error = None
        self._seen: set[int] = _NOTHING_SEEN
        self.parts = None
        self.whole: BatchPromise | None = None
        self._state = _PENDING
        # append and popleft are atomic, so a callback added while the promise is being set runs exactly once.
        self._callbacks: deque[Callable[[BatchPromise], None]] = deque()

    @property
    def state(self) -> PromiseState:
        """PENDING or DONE."""
        return self._state

    @property
    def done(self) -> bool:
        """Return whether the result is known."""
        return self._state is _DONE

    def resolve(self, base_offset: int, log_append_time_ms: int = -1) -> bool:
        """Set the result: the broker has acknowledged the batch.

        Args:
            base_offset: offset of the first record; -1 if the broker did not return it.
            log_append_time_ms: the broker's timestamp; -1 under CreateTime.

        Returns:
            False if the result was known already (a response after the delivery timeout): the first one is kept.
        """
        if self.done:
            return False
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._finish()
        return True

    def fail(self, error: BaseException) -> bool:
        """Set the error of the batch; False if the result was known already."""
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
        """Replace the result by those of several promises, each for its number of records in order; before it is done.

        Once all of them are done this one is: with the first error, if any of them failed.
        """
        parts = [BatchPromise(self.topic, self.partition, self.waiter) for _ in records_counts]
        self.parts = [(sum(records_counts[:number]), part) for number, part in enumerate(parts)]
        for part in parts:
            part.whole = self
            part.add_callback(self._part_done)
        return parts

    def exception_of(self, index: int) -> BaseException | None:
        """Return the error of one record, a copy for each call; None if it is acknowledged or still pending."""
        promise, index = (self, index) if self.parts is None else self.part_of(index)
        if promise.error is None:
            return None
        promise.note_seen((index,))
        return copy_to_raise(promise.error)

    def metadata_of(self, index: int, timestamp_ms: int) -> RecordMetadata:
        """Return the result of one record; raise its error if it has failed. After the promise is done.

        Args:
            index: the record's index in the batch.
            timestamp_ms: the timestamp that the producer gave it.
        """
        promise, index = (self, index) if self.parts is None else self.part_of(index)
        if promise.error is not None:
            promise.note_seen((index,))
            raise copy_to_raise(promise.error)
        offset = promise.base_offset + index if promise.base_offset >= 0 else -1
        append_time_ms = promise.log_append_time_ms
        return RecordMetadata(
            promise.topic, promise.partition, offset, append_time_ms if append_time_ms >= 0 else timestamp_ms
        )

    def part_of(self, index: int) -> tuple[BatchPromise, int]:
        """Return the promise with the result of one record, and the record's index in it."""
        promise = self
        while promise.parts is not None:
            first, promise = next(entry for entry in reversed(promise.parts) if entry[0] <= index)
            index -= first
        return promise, index

    def pieces_of(self, index: int, count: int) -> Iterator[tuple[BatchPromise, int, int]]:
        """Return the promises of a range of records, each with its first index and number of records."""
        if self.parts is None:
            yield self, index, count
            return
        ends = [first for first, _ in self.parts[1:]] + [index + count]
        for (first, part), end in zip(self.parts, ends, strict=True):
            begin, here = max(index, first), min(index + count, end)
            if begin < here:
                yield from part.pieces_of(begin - first, here - begin)

    def note_seen(self, indexes: Iterable[int]) -> None:
        """Mark the error of these records as reported to the sender; for a batch that has failed."""
        if self._seen is _NOTHING_SEEN:
            self._seen = set()
        self._seen.update(indexes)

    def is_seen(self, records_count: int) -> bool:
        """Return whether the error was reported for each of the batch's records; `flush` reports the others."""
        return len(self._seen) >= records_count

    def _part_done(self, _: BatchPromise) -> None:
        parts = [part for _, part in self.parts or ()]
        if not self.done and all(part.done for part in parts):
            self.base_offset = parts[0].base_offset
            self.log_append_time_ms = parts[0].log_append_time_ms
            self.error = next((part.error for part in parts if part.error is not None), None)
            self._finish()

    def add_callback(self, callback: Callable[[BatchPromise], None]) -> None:
        """Call `callback(promise)` once the result is known, immediately if it is; in the thread that sets it."""
        self._callbacks.append(callback)
        if self.done:
            self._run_callbacks()

    def remove_callback(self, callback: Callable[[BatchPromise], None]) -> None:
        """Remove a callback, if it has not been called yet; on any thread."""
        while True:
            try:
                self._callbacks.remove(callback)
            except ValueError:  # it was removed or called already
                return
            except IndexError:  # another thread changed the queue meanwhile
                continue
            return

    @property
    def has_callbacks(self) -> bool:
        """Return whether a callback is still to be called."""
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
            except Exception:  # noqa: BLE001  # a user's error must not stop other callbacks or the loop
                _LOG.exception("a callback of a batch for %s-%d failed", self.topic, self.partition)
            except BaseException as error:  # noqa: BLE001  # sys.exit(), or Ctrl-C: run the other callbacks first
                leaving = error
        if leaving is not None:
            raise leaving
