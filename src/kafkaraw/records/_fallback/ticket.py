"""What a sender gets, in plain Python: `Ticket`; and `Outcome`, the base of the promise that it asks.

The twin of `_ticket.py`, for machines without a C compiler. What the result of a record is, `BatchPromise` says.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaraw.records.promise import BatchPromise
    from kafkaraw.records.record import RecordMetadata


class Outcome:
    """The base of a promise: the attributes that every ticket reads.

    Attributes:
        error: why the batch failed; None if it did not.
        parts: after a batch split, the promise of each part with the index of its first record; else None.
    """

    __slots__ = ("error", "parts")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.parts: list[tuple[int, BatchPromise]] | None = None


class Ticket:
    """A handle of the result of one record: its batch's promise and its index in the batch.

    Attributes:
        batch_promise: the promise of the batch.
        index: the record's index in it.
        timestamp_ms: the timestamp it was given.
    """

    __slots__ = ("batch_promise", "index", "timestamp_ms")

    def __init__(self, batch_promise: BatchPromise, index: int, timestamp_ms: int) -> None:
        self.batch_promise: BatchPromise = batch_promise
        self.index: int = index
        self.timestamp_ms: int = timestamp_ms

    @property
    def done(self) -> bool:
        """Return whether the result is known."""
        return self.batch_promise.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the broker has responded for this record.

        Args:
            timeout: seconds; None waits until the producer's delivery timeout.

        Raises:
            KafkaTimeoutError: there is no result yet; the record may still be delivered.
            KafkaError: the record failed; the error says why.
        """
        promise = self.batch_promise
        if not promise.done:
            promise.waiter.wait(promise, timeout)
        return promise.metadata_of(self.index, self.timestamp_ms)

    def exception(self) -> BaseException | None:
        """Return the error of a failed record, a copy for each call; None if it is acknowledged or still pending."""
        return self.batch_promise.exception_of(self.index)

    def add_done_callback(self, callback: Callable[[Ticket], None]) -> None:
        """Call `callback(ticket)` once the result is known; immediately if it is."""

        def tell(promise: BatchPromise) -> None:
            if promise.error is not None:
                self.exception()  # `flush` need not report an error that the callback gets
            callback(self)

        self.batch_promise.add_callback(tell)

    def __await__(self) -> Generator[object, object, RecordMetadata]:
        promise = self.batch_promise
        if not promise.done:
            yield from promise.waiter.awaitable(promise).__await__()
        return promise.metadata_of(self.index, self.timestamp_ms)

    def __repr__(self) -> str:
        promise = self.batch_promise
        return f"Ticket({promise.topic}-{promise.partition}, record {self.index}, {promise.state.value})"
