"""What a sender gets, compiled: `Ticket`; and `Outcome`, the base of the promise that it asks.

Their twins in plain Python are in `_fallback/ticket.py`. A ticket is made for every record, so it holds as little as it
can and costs nothing but its memory; what the result of a record is, `BatchPromise` says. A producer that keeps tickets
looks at each of them: an attribute of a compiled class is read at once, one of a Python class is looked up. This is
Cython in its pure-Python mode, as `_batch_table.py` is, where tickets are made.
"""

from __future__ import annotations

import cython


@cython.cclass
class Outcome:
    """The base of a promise. See `_fallback.ticket.Outcome`."""

    def __cinit__(self, *_: object, **__: object):
        self.error = None
        self.parts = None


@cython.final
@cython.no_gc  # a promise holds a ticket only while a callback waits, and producers settle every promise
@cython.freelist(64)
@cython.cclass
class Ticket:
    """A handle of the result of one record: its batch's promise and its index in the batch.

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
        """Return whether the result is known."""
        return self.batch_promise.done

    def result(self, timeout: object = None) -> object:
        """Wait until the broker has responded for this record.

        Args:
            timeout: seconds; None waits until the producer's delivery timeout.

        Raises:
            KafkaTimeoutError: there is no result yet; the record may still be delivered.
            KafkaError: the record failed; the error says why.
        """
        promise: object = self.batch_promise
        if not promise.done:
            promise.waiter.wait(promise, timeout)
        return promise.metadata_of(self.index, self.timestamp_ms)

    @cython.binding(False)  # a producer that keeps tickets calls it for each, and this is a third cheaper
    def exception(self) -> BaseException | None:
        """Return the error of a failed record, a copy for each call; None if it is acknowledged or still pending."""
        promise: Outcome = self.batch_promise
        if promise.parts is None and promise.error is None:
            return None
        return cython.cast(object, promise).exception_of(self.index)

    def add_done_callback(self, callback: object) -> None:
        """Call `callback(ticket)` once the result is known; immediately if it is."""

        def tell(promise: object) -> None:
            if promise.error is not None:
                self.exception()  # `flush` need not report an error that the callback gets
            callback(self)

        self.batch_promise.add_callback(tell)

    def __await__(self):
        promise: object = self.batch_promise
        if not promise.done:
            yield from promise.waiter.awaitable(promise).__await__()
        return promise.metadata_of(self.index, self.timestamp_ms)

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
