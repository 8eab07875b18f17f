"""Where the batches of one segment are: three columns, one row per batch, searched by bisection.

Kept in memory and rebuilt by reading the batch headers when a segment is opened. 24 bytes per batch.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right


class BatchIndex:
    """Rows in file order; a row says where its batch ends, its last offset, and the highest timestamp up to it."""

    __slots__ = ("_ends", "_last_offsets", "_max_timestamps")

    def __init__(self) -> None:
        self._ends = array("q")
        self._last_offsets = array("q")
        self._max_timestamps = array("q")

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Note a batch of `size` bytes that follows the last one."""
        if self._ends:
            size += self._ends[-1]
            highest = self._max_timestamps[-1]
            max_timestamp = highest if highest > max_timestamp else max_timestamp
        self._ends.append(size)
        self._last_offsets.append(last_offset)
        self._max_timestamps.append(max_timestamp)

    def cut(self, row: int) -> None:
        """Forget the rows from `row` on."""
        del self._ends[row:], self._last_offsets[row:], self._max_timestamps[row:]

    def last_offset(self, row: int) -> int:
        """The last offset of the batch of a row."""
        return self._last_offsets[row]

    @property
    def end_position(self) -> int:
        """Where the last batch ends, in bytes; 0 when there is none."""
        return self._ends[-1] if self._ends else 0

    @property
    def max_timestamp(self) -> int:
        """The highest timestamp of all batches, in ms; -1 when there is none."""
        return self._max_timestamps[-1] if self._max_timestamps else -1

    def start_of(self, row: int) -> int:
        """Where the batch of a row starts, in bytes."""
        return self._ends[row - 1] if row else 0

    def end_of(self, row: int) -> int:
        """Where the batch of a row ends, in bytes."""
        return self._ends[row]

    def row_of_offset(self, offset: int) -> int:
        """The first row whose batch reaches `offset`; the number of rows when none does."""
        return bisect_left(self._last_offsets, offset)

    def row_of_timestamp(self, timestamp_ms: int) -> int:
        """The first row whose batch has a record at or after `timestamp_ms`; the number of rows when none has."""
        return bisect_left(self._max_timestamps, timestamp_ms)

    def end_within(self, row: int, size_max: int) -> int:
        """The end of the last whole batch, from `row` on, that fits into `size_max` bytes; the row's start if none."""
        start = self.start_of(row)
        fitting = bisect_right(self._ends, start + size_max, lo=row)
        return self._ends[fitting - 1] if fitting > row else start
