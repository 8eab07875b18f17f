"""What a sender gets, compiled: `Ticket`; and `Outcome`, the base of the promise that it asks.

Their twins in plain Python are in `_fallback/open_batches.py` and `outcome.py`. A ticket is made for every record, so
it holds as little as it can and costs nothing but its memory. This is Cython in its pure-Python mode, as
`_open_batches.py` is, where tickets are made.
"""

from __future__ import annotations

import cython

from kafkaraw.errors import copy_to_raise
from kafkaraw.records.record import RecordMetadata


@cython.cclass
class Outcome:
    """The base of a promise. See `outcome.PlainOutcome`."""

    def __cinit__(self, *_: object, **__: object):
        self.error = None
        self.parts = None


@cython.final
@cython.no_gc  # a promise holds a ticket only while a callback waits, and producers settle every promise
@cython.freelist(64)
@cython.cclass
class Ticket:
    """A claim on the outcome of one record: its batch's promise and its index in the batch.

    Attributes:
        batch_promise: the promise of the batch.
        index: the record's index in it.
        timestamp_ms: the timestamp it was given.
    """

    def __init__(self, batch_promise: Outcome, index: cython.Py_ssize_t, timestamp_ms: cython.longlong) -> None:
        self.batch_promise = batch_promise
        self.index = index
        self.timestamp_ms = timestamp_ms

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.batch_promise.done

    def result(self, timeout: object = None) -> RecordMetadata:
        """Wait until the broker has answered for this record.

        Args:
            timeout: seconds; None waits until the producer's delivery timeout decides.

        Raises:
            KafkaTimeoutError: still no outcome; the record may yet be delivered.
            KafkaError: the record was given up, and why.
        """
        promise: object = self.batch_promise
        if not promise.done:
            promise.waiter.wait(promise, timeout)
        return self._outcome()

    @cython.binding(False)  # called for every record by who keeps tickets, and this is a third cheaper
    def exception(self) -> BaseException | None:
        """The error of a record that failed, a copy for each call; None when it is acknowledged or still under way."""
        promise: Outcome = self.batch_promise
        index: object = None
        if promise.parts is not None:
            promise, index = cython.cast(object, promise).part_of(self.index)
        if promise.error is None:
            return None
        cython.cast(object, promise).note_seen((self.index if index is None else index,))
        return copy_to_raise(promise.error)

    def add_done_callback(self, callback: object) -> None:
        """Call `callback(ticket)` once the outcome is known; at once when it is."""

        def tell(promise: object) -> None:
            if promise.error is not None:
                self.exception()  # what the callback is told, `flush` need not report
            callback(self)

        self.batch_promise.add_callback(tell)

    def __await__(self):
        promise: object = self.batch_promise
        if not promise.done:
            yield from promise.waiter.awaitable(promise).__await__()
        return self._outcome()

    def _outcome(self) -> object:
        promise: object = self.batch_promise
        index: cython.Py_ssize_t = self.index
        if promise.parts is not None:
            promise, index = promise.part_of(index)
        if promise.error is not None:
            promise.note_seen((index,))
            raise copy_to_raise(promise.error)
        offset = promise.base_offset + index if promise.base_offset >= 0 else -1
        append_time = promise.log_append_time_ms
        timestamp_ms = append_time if append_time >= 0 else self.timestamp_ms
        return RecordMetadata(promise.topic, promise.partition, offset, timestamp_ms)

    def __repr__(self) -> str:
        promise: object = self.batch_promise
        return f"Ticket({promise.topic}-{promise.partition}, record {self.index}, {promise.state.value})"


@cython.cfunc
def ticket_of(promise: Outcome, index: cython.Py_ssize_t, timestamp: cython.longlong) -> Ticket:
    """Make a ticket; `Ticket(...)` would take a tuple."""
    ticket: Ticket = Ticket.__new__(Ticket)
    ticket.batch_promise = promise
    ticket.index = index
    ticket.timestamp_ms = timestamp
    return ticket
