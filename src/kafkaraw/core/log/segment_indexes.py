"""The sparse indexes of one segment: when an entry is added, where a read of the log must start, when an index is full.

An index holds the bytes of its file, so that it is loaded and written without decoding; a search unpacks the entries
that it compares. `indexes` has the formats. Start at `OffsetIndex.lookup`.

Source: org.apache.kafka.storage.internals.log.{OffsetIndex, TimeIndex, TransactionIndex}.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import Final

from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    AbortedTransaction,
    OffsetEntry,
    TimeEntry,
    used_size,
)
from kafkaraw.light_classes import NamedTuple

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
NO_TIMESTAMP: Final = -1
_REMEDY: Final = "it is rebuilt from the log"


class OffsetIndex:
    """Where batches start: (last offset of the batch, its position), one entry in every `index.interval.bytes`.

    Args:
        base_offset: of the segment.
        data: the bytes of its file.
        file: its name, for errors.

    Raises:
        DamagedFileError: half an entry at the end, or a last entry that is below the base offset.
    """

    __slots__ = ("base_offset", "data")

    def __init__(self, base_offset: int, data: bytes = b"", file: str = ".index") -> None:
        self.base_offset = base_offset
        self.data = _entries(data, OFFSET_ENTRY_SIZE, file)
        if self.data and self.last.offset < base_offset:
            problem = f"the last entry has offset {self.last.offset}, below the base offset {base_offset}"
            raise DamagedFileError(file, len(self.data) - OFFSET_ENTRY_SIZE, problem, _REMEDY)

    def __len__(self) -> int:
        return len(self.data) // OFFSET_ENTRY_SIZE

    def append(self, last_offset: int, position: int) -> None:
        """Add the batch that ends with `last_offset` and starts at `position`."""
        self.data += _OFFSET_ENTRY.pack(last_offset - self.base_offset, position)

    @property
    def last(self) -> OffsetEntry:
        """The last entry; the start of the segment if there is none."""
        return self._entry(len(self) - 1)

    def lookup(self, offset: int) -> int:
        """Return a position at or before the batch that holds `offset`; batches between the two are few."""
        relative, data = offset - self.base_offset, self.data
        at = bisect_right(range(len(self)), relative, key=lambda row: _INT32.unpack_from(data, 8 * row)[0])
        return self._entry(at - 1).position

    def lookup_position(self, position: int) -> int:
        """Return the position of the last entry that is not behind `position`; 0 if there is none."""
        data = self.data
        at = bisect_right(range(len(self)), position, key=lambda row: _INT32.unpack_from(data, 8 * row + 4)[0])
        return self._entry(at - 1).position

    def first_at(self, position: int) -> OffsetEntry | None:
        """Return the first entry at `position` or behind it."""
        data = self.data
        at = bisect_left(range(len(self)), position, key=lambda row: _INT32.unpack_from(data, 8 * row + 4)[0])
        return self._entry(at) if at < len(self) else None

    def offset_of_row(self, row: int) -> int:
        """Return the offset of an entry; the base offset if `row` is negative."""
        return self._entry(row).offset

    def truncate_to(self, offset: int) -> bool:
        """Remove the entries at `offset` and behind it. Return whether there were any."""
        relative, data = offset - self.base_offset, self.data
        at = bisect_left(range(len(self)), relative, key=lambda row: _INT32.unpack_from(data, 8 * row)[0])
        changes = at < len(self)
        del self.data[at * OFFSET_ENTRY_SIZE :]
        return changes

    def _entry(self, row: int) -> OffsetEntry:
        if row < 0:
            return OffsetEntry(self.base_offset, 0)
        offset, position = _OFFSET_ENTRY.unpack_from(self.data, row * OFFSET_ENTRY_SIZE)
        return OffsetEntry(self.base_offset + offset, position)


class TimeIndex:
    """The highest timestamp so far, and the last offset of the batch that has it; it grows with the offset index.

    Args:
        base_offset: of the segment.
        data: the bytes of its file.
        file: its name, for errors.

    Raises:
        DamagedFileError: half an entry at the end, or a last entry that is below the base offset.
    """

    __slots__ = ("base_offset", "data")

    def __init__(self, base_offset: int, data: bytes = b"", file: str = ".timeindex") -> None:
        self.base_offset = base_offset
        # An entry of timestamp 0 at the base offset is all zeros; zeros that were allocated in advance are more.
        self.data = bytearray(data) if len(data) == TIME_ENTRY_SIZE else _entries(data, TIME_ENTRY_SIZE, file)
        if self.data and self.last.offset < base_offset:
            problem = f"the last entry has offset {self.last.offset}, below the base offset {base_offset}"
            raise DamagedFileError(file, len(self.data) - TIME_ENTRY_SIZE, problem, _REMEDY)

    def __len__(self) -> int:
        return len(self.data) // TIME_ENTRY_SIZE

    def append(self, timestamp_ms: int, offset: int) -> bool:
        """Add an entry if the highest timestamp has grown since the last one. Return whether it was added."""
        if timestamp_ms <= self.last.timestamp_ms:
            return False
        self.data += _TIME_ENTRY.pack(timestamp_ms, offset - self.base_offset)
        return True

    @property
    def last(self) -> TimeEntry:
        """The last entry; no timestamp at the base offset if there is none."""
        return self._entry(len(self) - 1)

    def lookup(self, timestamp_ms: int) -> int:
        """Return an offset at or before the first record with this timestamp or a later one."""
        data = self.data
        at = bisect_right(range(len(self)), timestamp_ms, key=lambda row: _INT64.unpack_from(data, 12 * row)[0])
        return self._entry(at - 1).offset

    def truncate_to(self, offset: int) -> bool:
        """Remove the entries at `offset` and behind it. Return whether there were any."""
        relative, data = offset - self.base_offset, self.data
        at = bisect_left(range(len(self)), relative, key=lambda row: _INT32.unpack_from(data, 12 * row + 8)[0])
        changes = at < len(self)
        del self.data[at * TIME_ENTRY_SIZE :]
        return changes

    def _entry(self, row: int) -> TimeEntry:
        if row < 0:
            return TimeEntry(NO_TIMESTAMP, self.base_offset)
        timestamp, offset = _TIME_ENTRY.unpack_from(self.data, row * TIME_ENTRY_SIZE)
        return TimeEntry(timestamp, self.base_offset + offset)


def _entries(data: bytes, entry_size: int, file: str) -> bytearray:
    """Return the entries, without the zeros behind the last one, which a broker that was killed leaves there."""
    if len(data) % entry_size:
        whole = len(data) - len(data) % entry_size
        raise DamagedFileError(file, whole, f"{len(data) - whole} bytes are behind the last whole entry", _REMEDY)
    return bytearray(memoryview(data)[: used_size(data, entry_size)])


class AbortedIn(NamedTuple):
    """What `aborted_between` has found.

    Attributes:
        transactions: the aborted transactions with records in the range.
        is_complete: whether later entries, also those of later segments, cannot have records in the range.
    """

    transactions: list[AbortedTransaction]
    is_complete: bool


def aborted_between(entries: list[AbortedTransaction], offset: int, end_offset: int) -> AbortedIn:
    """Find the aborted transactions of a segment that have records at `offset` or later, and before `end_offset`.

    Args:
        entries: those of the segment's transaction index; their last offsets grow.
        offset: the first offset that is read.
        end_offset: the offset behind the last one that is read.
    """
    at = bisect_left(entries, offset, key=lambda entry: entry.last_offset)
    found = []
    for entry in entries[at:]:
        if entry.first_offset < end_offset:
            found.append(entry)
        if entry.last_stable_offset >= end_offset:
            return AbortedIn(found, True)
    return AbortedIn(found, False)
