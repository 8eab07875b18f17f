"""Sending Arrow data: rows into open batches, and one ticket for all of them.

Does whatever needs no waiting, so that either face runs it on its caller's thread, and waits in its own way in between.
Start at `ArrowSending`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkaraw.client.arguments import topic_of
from kafkaraw.client.sending.arrow_rows import rows_of
from kafkaraw.errors import RecordTooLarge, UsageError, copy_to_raise
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import AppendStatus, BadRow, BatchPromise, Fault, OpenBatches, RowColumns, Rows, SentPart

if TYPE_CHECKING:
    from kafkaraw.client.sending.waiting import PromiseWaiter


class SentRows(NamedTuple):
    """Rows that were written together: to one partition, one after the other.

    Attributes:
        topic: where they are.
        partition: where they are.
        offset: of the first of them; -1 when the broker did not say (acks=0).
        rows_count: how many they are.
        first_row: which row the first of them is; the others follow it in the data, but maybe not at once. -1 for what
            follows where a batch was split because it was too large.
    """

    topic: str
    partition: int
    offset: int
    rows_count: int
    first_row: int


class ArrowTicket:
    """A claim on the outcome of rows that were sent together; as `Ticket`, for all of them.

    Attributes:
        rows_count: how many rows were sent.
    """

    __slots__ = ("_parts", "_promises", "_waiter", "rows_count")

    def __init__(self, waiter: PromiseWaiter) -> None:
        self.rows_count = 0
        self._waiter = waiter
        self._parts: list[SentPart] = []
        self._promises: dict[BatchPromise, int] = {}  # to its last part

    def add(self, parts: Sequence[SentPart], first_row: int) -> None:
        """Note where rows went; for `ArrowSending`."""
        for promise, first_index, rows_count, row in parts:
            self.rows_count += rows_count
            at = self._promises.get(promise)
            before = None if at is None else self._parts[at]
            if at is not None and before is not None and before.first_index + before.rows_count == first_index:
                self._parts[at] = SentPart(
                    promise, before.first_index, before.rows_count + rows_count, before.first_row
                )
            else:
                self._promises[promise] = len(self._parts)
                self._parts.append(SentPart(promise, first_index, rows_count, first_row + row))

    @property
    def done(self) -> bool:
        """Whether the outcome of every row is known."""
        return all(promise.done for promise in self._promises)

    def result(self, timeout: float | None = None) -> list[SentRows]:
        """Wait until the broker has answered for every row.

        Args:
            timeout: seconds; None waits until the producer's delivery timeout decides.

        Returns:
            where the rows are, in the order in which they were sent.

        Raises:
            KafkaTimeoutError: still no outcome of some; they may yet be delivered.
            KafkaError: some rows were given up, and why; `written()` has the others.
        """
        self._waiter.wait_all([promise for promise in self._promises if not promise.done], timeout)
        return self._outcome()

    def written(self) -> list[SentRows]:
        """Where those rows are that the broker has acknowledged so far."""
        return [where for part in self._parts for where in _where(part)]

    def exception(self) -> BaseException | None:
        """The error of the first rows that failed, a copy for each call; None when none have failed so far."""
        first: BaseException | None = None
        for promise in self._promises:
            if promise.error is not None:
                first = first or promise.error
        if first is None:
            return None
        for part in self._parts:
            for promise, index, count in part.promise.pieces_of(part.first_index, part.rows_count):
                if promise.error is not None:
                    promise.note_seen(range(index, index + count))
        return copy_to_raise(first)

    def add_done_callback(self, callback: Callable[[ArrowTicket], None]) -> None:
        """Call `callback(ticket)` once the outcome of every row is known; at once when it is."""

        def tell() -> None:
            self.exception()  # what the callback is told, `flush` need not report
            callback(self)

        self._waiter.call_after_all(list(self._promises), tell)

    def __await__(self) -> Generator[object, object, list[SentRows]]:
        for promise in self._promises:
            if not promise.done:
                yield from self._waiter.awaitable(promise).__await__()
        return self._outcome()

    def _outcome(self) -> list[SentRows]:
        error = self.exception()
        if error is not None:
            raise error
        return self.written()

    def __repr__(self) -> str:
        state = "done" if self.done else "pending"
        return f"ArrowTicket({self.rows_count} rows in {len(self._promises)} batches, {state})"


def _where(part: SentPart) -> Iterator[SentRows]:
    """Where the rows of a part are, as far as they are written; in pieces, if its batch was split."""
    row = part.first_row
    for promise, index, count in part.promise.pieces_of(part.first_index, part.rows_count):
        if promise.done and promise.error is None:
            offset = promise.base_offset + index if promise.base_offset >= 0 else -1
            yield SentRows(promise.topic, promise.partition, offset, count, row)
        row = -1


class ArrowSending:
    """One call of `send_arrow`.

    Args:
        data: Arrow data; see `arrow_rows.rows_of`.
        topic: where it goes; None when there is a column `topic`.
        open_batches: take the rows.
        waiter: how the ticket waits.

    Attributes:
        ticket: for all rows.
        topics: every topic that is named.

    Raises:
        UsageError: see `arrow_rows.rows_of`.
    """

    def __init__(self, data: object, topic: str | None, open_batches: OpenBatches, waiter: PromiseWaiter) -> None:
        self.ticket = ArrowTicket(waiter)
        self._open = open_batches
        if topic is not None:
            topic_of(topic, "send_arrow")
        self._columns = list(rows_of(data, topic))
        self._rows = [Rows(columns) for columns in self._columns]
        self.topics = list(dict.fromkeys(name for columns in self._columns for name in columns.topics))
        self._at = 0
        self._row = 0
        self._first_row = 0

    def check(self, partition_counts: dict[str, int], size_max: int) -> None:
        """Refuse everything when one row cannot be sent.

        Args:
            partition_counts: by topic.
            size_max: the most bytes of one record.

        Raises:
            RecordTooLarge: over that.
            UsageError: a row names a partition that its topic has not, or a time before 1970.
        """
        first_row = 0
        for columns, rows in zip(self._columns, self._rows, strict=True):
            bad = rows.check([partition_counts[name] for name in columns.topics], size_max)
            if bad is not None:
                raise _refusal(bad, first_row, columns, partition_counts, size_max)
            first_row += rows.count

    def go_on(self) -> AppendStatus | None:
        """Send what can be sent now; None when all is, else what there is to do before going on."""
        if self._at == len(self._rows):
            return None
        rows = self._rows[self._at]
        status, self._row, parts = rows.append_to(self._open, self._row)
        self.ticket.add(parts, self._first_row)
        if self._row == rows.count:
            self._first_row += rows.count
            self._at += 1
            self._row = 0
        return status


def _refusal(
    bad: BadRow, first_row: int, columns: RowColumns, partition_counts: dict[str, int], size_max: int
) -> UsageError | RecordTooLarge:
    row = first_row + bad.row
    match bad.fault:
        case Fault.SIZE:
            return RecordTooLarge(
                f"row {row} takes {bad.number} bytes uncompressed, and {size_max} are the most (max_request_size, "
                f"buffer_memory); raise them (the topic's max.message.bytes counts, too) or send less in one row"
            )
        case Fault.PARTITION:
            counts = {name: partition_counts[name] for name in columns.topics}
            known = ", ".join(f"{name!r} has partitions 0 to {count - 1}" for name, count in counts.items())
            return UsageError(f"column 'partition': row {row} says {bad.number}; {known}")
        case Fault.TIMESTAMP:
            return UsageError(f"column 'timestamp': row {row} says {bad.number}: no number of milliseconds since 1970")
        case _:
            return UsageError(
                "the buffers of the columns contradict each other; validate(full=True) of the data says where"
            )
