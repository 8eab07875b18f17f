"""Columns into batches, in plain Python: each row is sent as a record. Start at `Rows.append_to`.

The interface is in `records/interface.py`. The compiled twin uses this one for what it leaves out: a partitioner that
is a function, and one that changes the partition with every record.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import UsageError
from kafkaraw.records._fallback.checksum import HEADERS, PARTITION, SEED, TIMESTAMP, hash_bytes, hash_number
from kafkaraw.records.interface import AppendStatus
from kafkaraw.records.record import Header
from kafkaraw.records.rows import (
    UNSOUND,
    BadRow,
    BytesColumn,
    Fault,
    HeadersColumn,
    NumbersColumn,
    RowColumns,
    SentPart,
)

if TYPE_CHECKING:
    from kafkaraw.records.open_batches import OpenBatches
    from kafkaraw.records.promise import BatchPromise

ROWS_AT_ONCE: Final = 16_384
"""Maximum number of rows before other threads get their turn."""
_FIXED_BYTES: Final = 61 + 21
"""Batch header, and the most that lengths, timestamp and offset of a record take (Kafka's upper bound)."""


def topic_seeds(topics: Sequence[str]) -> list[int]:
    """Where the checksum of a row begins, by the number of its topic."""
    return [hash_bytes(SEED, topic.encode()) for topic in topics]


class Rows:
    """Columns to send.

    Args:
        columns: the rows; their buffers must not change.
    """

    def __init__(self, columns: RowColumns) -> None:
        self.count: int = columns.count
        self._columns = columns

    def check(self, partition_counts: Sequence[int], size_max: int) -> BadRow | None:
        """Find the first row that cannot be sent.

        Args:
            partition_counts: for each topic.
            size_max: maximum size of one record in bytes, lengths included.
        """
        if not _are_sound(self._columns):
            return BadRow(Fault.LAYOUT, 0, 0)
        for row in range(self.count):
            fault = self._fault_of(row, partition_counts, size_max)
            if fault is not None:
                return fault
        return None

    def _fault_of(self, row: int, partition_counts: Sequence[int], size_max: int) -> BadRow | None:
        columns = self._columns
        size = _FIXED_BYTES + sum(10 + len(name.encode()) + len(value or b"") for name, value in self._headers(row))
        for column in (columns.key, columns.value):
            span = None if column is None else _span(column, row)
            size += 0 if span is None else span[1] - span[0]
        if size > size_max:
            return BadRow(Fault.SIZE, row, size)
        timestamp = _number(columns.timestamp, row)
        if timestamp is not None and timestamp < 0:
            return BadRow(Fault.TIMESTAMP, row, timestamp)
        topic = self._topic(row)
        if not 0 <= topic < len(partition_counts):
            return BadRow(Fault.TOPIC, row, topic)
        partition = _number(columns.partition, row)
        if partition is not None and not 0 <= partition < partition_counts[topic]:
            return BadRow(Fault.PARTITION, row, partition)
        return None

    def checksum(self) -> int:
        """Return the sum of the checksums of all rows, modulo 2**64, over the bytes of their records, in any order.

        A row's checksum covers its topic, key, value and headers, and timestamp and partition unless they are null.

        Raises:
            UsageError: the buffers contradict each other.
        """
        columns = self._columns
        if not _are_sound(columns):
            raise UsageError(UNSOUND)
        seeds = topic_seeds(columns.topics)
        total = 0
        for row in range(self.count):
            topic = self._topic(row)
            if not 0 <= topic < len(seeds):
                raise UsageError(UNSOUND)
            value = hash_bytes(seeds[topic], _bytes(columns.key, row))
            value = hash_bytes(value, _bytes(columns.value, row))
            for salt, column in ((TIMESTAMP, columns.timestamp), (PARTITION, columns.partition)):
                number = _number(column, row)
                if number is not None:
                    value = hash_number(value, salt, number)
            headers = self._headers(row)
            if headers:
                value = hash_number(value, HEADERS, len(headers))
                for name, content in headers:
                    value = hash_bytes(hash_bytes(value, name.encode()), content)
            total += value
        return total % 2**64

    def append_to(self, open_batches: OpenBatches, start: int) -> tuple[AppendStatus, int, list[SentPart]]:
        """Add rows from `start` on to open batches, in their order, until one does not fit.

        Returns:
            the status as of `OpenBatches.append`, the first row that was not added, and the rows of each batch.
        """
        status = most = AppendStatus.OK
        parts: dict[BatchPromise, SentPart] = {}
        row = start
        for row in range(start, min(self.count, start + ROWS_AT_ONCE)):
            status, promise, index = self._append(open_batches, row)
            if promise is None:
                return status, row, list(parts.values())
            part = parts.get(promise, SentPart(promise, index, 0, row))
            parts[promise] = part._replace(rows_count=part.rows_count + 1)
            if status is not AppendStatus.OK:
                most = status
            if status is AppendStatus.SEALED:
                break
        return most, min(row + 1, self.count), list(parts.values())

    def _append(self, open_batches: OpenBatches, row: int) -> tuple[AppendStatus, BatchPromise | None, int]:
        columns = self._columns
        status, ticket = open_batches.append(
            columns.topics[self._topic(row)],
            _bytes(columns.key, row),
            _bytes(columns.value, row),
            self._headers(row),
            _number(columns.timestamp, row),
            _number(columns.partition, row),
        )
        if ticket is None:
            return status, None, 0
        return status, ticket.batch_promise, ticket.index

    def _topic(self, row: int) -> int:
        number = _number(self._columns.topic, row)
        return 0 if self._columns.topic is None else -1 if number is None else number

    def _headers(self, row: int) -> list[Header]:
        column = self._columns.headers
        if column is None or not _is_valid(column.validity, column.first + row):
            return []
        start, end = _ends(column, column.first + row)
        return [((_bytes(column.names, at) or b"").decode(), _bytes(column.values, at)) for at in range(start, end)]


def _is_valid(validity: memoryview | None, position: int) -> bool:
    return validity is None or bool(validity[position >> 3] >> (position & 7) & 1)


def _ends(column: BytesColumn | HeadersColumn, position: int) -> tuple[int, int]:
    start, end = (
        struct.unpack_from("=2q", column.ends, 8 * position)
        if column.wide
        else struct.unpack_from("=2i", column.ends, 4 * position)
    )
    return start, end


def _span(column: BytesColumn, row: int) -> tuple[int, int] | None:
    position = column.first + row
    return _ends(column, position) if _is_valid(column.validity, position) else None


def _bytes(column: BytesColumn | None, row: int) -> bytes | None:
    span = None if column is None else _span(column, row)
    if column is None or span is None:
        return None
    return bytes(column.data[span[0] : span[1]])


def _number(column: NumbersColumn | None, row: int) -> int | None:
    if column is None:
        return None
    position = column.first + row
    if not _is_valid(column.validity, position):
        return None
    number: int = struct.unpack_from("=q", column.numbers, 8 * position)[0]
    return number


def _are_sound(columns: RowColumns) -> bool:
    """Whether the buffers are as large as they have to be, and each row lies within the data."""
    rows, headers = columns.count, columns.headers
    return (
        all(column is None or _is_sound(column, rows) for column in (columns.key, columns.value))
        and (headers is None or _headers_are_sound(headers, rows))
        and all(
            column is None
            or (column.numbers.nbytes >= 8 * (column.first + rows) and _is_marked(column.validity, column.first + rows))
            for column in (columns.timestamp, columns.partition, columns.topic)
        )
    )


def _is_marked(validity: memoryview | None, positions: int) -> bool:
    return validity is None or validity.nbytes * 8 >= positions


def _is_sound(column: BytesColumn, rows: int) -> bool:
    """Whether each row lies within the data."""
    return _ends_are_sound(column, rows, column.data.nbytes)


def _headers_are_sound(column: HeadersColumn, rows: int) -> bool:
    size = 8 if column.wide else 4
    headers = min(
        (inner.ends.nbytes // (8 if inner.wide else 4)) - 1 - inner.first for inner in (column.names, column.values)
    )
    return (
        column.ends.nbytes >= size * (column.first + rows + 1)
        and _ends_are_sound(column, rows, headers)
        and all(_is_sound(inner, headers) for inner in (column.names, column.values))
    )


def _ends_are_sound(column: BytesColumn | HeadersColumn, rows: int, limit: int) -> bool:
    if column.ends.nbytes < (8 if column.wide else 4) * (column.first + rows + 1):
        return False
    if not _is_marked(column.validity, column.first + rows):
        return False
    return all(0 <= start <= end <= limit for start, end in (_ends(column, column.first + row) for row in range(rows)))
