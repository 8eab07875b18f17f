"""The sparse indexes of one segment: when an entry is added, where a read of the log must start, when an index is full.

An index holds the bytes of its file, so that it is loaded and written without decoding; or an `EntryFile`, from which
it reads those that a search compares. `indexes` has the formats. Start at `OffsetIndex.lookup`.

Source: org.apache.kafka.storage.internals.log.{OffsetIndex, TimeIndex, TransactionIndex}.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import ClassVar, Final, Protocol

from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    AbortedTransaction,
    OffsetEntry,
    TimeEntry,
)
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records.header import Buffer

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
NO_TIMESTAMP: Final = -1
_ZEROS_BYTES: Final = 3_072
"""How much is read first in search of the zeros at the end of a file; then twice as much each time."""
_REMEDY: Final = "it is rebuilt from the log"


class EntryFile(Protocol):
    """The entries of an index that stay in their file."""

    def __len__(self) -> int:
        """Number of bytes."""
        ...

    def __getitem__(self, part: slice) -> Buffer:
        """Return some of the bytes; `part` has a start and a stop, and no step."""
        ...

    def unpack_from(self, layout: struct.Struct, at: int) -> tuple[int, ...]:
        """Return the numbers at a byte, within one entry."""
        ...

    def cut(self, size_bytes: int) -> None:
        """Leave out the bytes behind the first ones."""
        ...


class _SparseIndex:
    """What both indexes have in common: entries of one size, whose numbers increase.

    Args:
        base_offset: of the segment.
        data: the bytes of its file, or the file.
        file: its name, for errors.

    Raises:
        DamagedFileError: half an entry at the end, or a last entry that is below the base offset.
    """

    __slots__ = ("_data", "base_offset")
    entry_size: ClassVar[int]

    def __init__(self, base_offset: int, data: Buffer | EntryFile = b"", file: str = "index") -> None:
        self.base_offset: int = base_offset
        self._data = self._entries(data, file)
        if len(self):
            offset = self.offset_of_row(len(self) - 1)
            if offset < base_offset:
                problem = f"the last entry has offset {offset}, below the base offset {base_offset}"
                raise DamagedFileError(file, self.size_bytes - self.entry_size, problem, _REMEDY)

    def _entries(self, data: Buffer | EntryFile, file: str) -> bytearray | EntryFile:
        """Return the entries without the zeros behind the last one, which a broker that was killed leaves there."""
        used = len(data)
        if used % self.entry_size:
            whole = used - used % self.entry_size
            raise DamagedFileError(file, whole, f"{used - whole} bytes are behind the last whole entry", _REMEDY)
        step = _ZEROS_BYTES
        while used:
            start = max(0, used - step)
            end = len(bytes(data[start:used]).rstrip(b"\0"))
            used = start + end
            if end:
                break
            step *= 2
        used = -(-used // self.entry_size) * self.entry_size
        if isinstance(data, bytes | bytearray | memoryview):
            return bytearray(data[:used])
        data.cut(used)
        return data

    def __len__(self) -> int:
        return len(self._data) // self.entry_size

    @property
    def size_bytes(self) -> int:
        """Bytes of its file."""
        return len(self._data)

    def loaded(self) -> bytearray:
        """Return the bytes of its file, in memory from now on."""
        if not isinstance(self._data, bytearray):
            self._data = bytearray(self._data[0 : len(self._data)])
        return self._data

    def offset_of_row(self, row: int) -> int:
        """Return the offset of an entry; the base offset if `row` is negative."""
        raise NotImplementedError

    def _unpack(self, layout: struct.Struct, at: int) -> tuple[int, ...]:
        data = self._data
        return layout.unpack_from(data, at) if isinstance(data, bytearray) else data.unpack_from(layout, at)

    def truncate_to(self, offset: int) -> bool:
        """Remove the entries at `offset` and behind it. Return whether there were any."""
        at = bisect_left(range(len(self)), offset, key=self.offset_of_row)
        changes = at < len(self)
        if changes:
            del self.loaded()[at * self.entry_size :]
        return changes


class OffsetIndex(_SparseIndex):
    """Where batches start: (last offset of the batch, its position), one entry in every `index.interval.bytes`."""

    __slots__ = ()
    entry_size = OFFSET_ENTRY_SIZE

    def append(self, last_offset: int, position: int) -> None:
        """Add the batch that ends with `last_offset` and starts at `position`."""
        data = self.loaded()
        data += _OFFSET_ENTRY.pack(last_offset - self.base_offset, position)

    @property
    def last(self) -> OffsetEntry:
        """The last entry; the start of the segment if there is none."""
        return self._entry(len(self) - 1)

    def lookup(self, offset: int) -> int:
        """Return a position at or before the batch that holds `offset`; batches between the two are few."""
        return self._entry(bisect_right(range(len(self)), offset, key=self.offset_of_row) - 1).position

    def lookup_position(self, position: int) -> int:
        """Return the position of the last entry that is not behind `position`; 0 if there is none."""
        return self._entry(bisect_right(range(len(self)), position, key=self._position) - 1).position

    def first_at(self, position: int) -> OffsetEntry | None:
        """Return the first entry at `position` or behind it."""
        at = bisect_left(range(len(self)), position, key=self._position)
        return self._entry(at) if at < len(self) else None

    def offset_of_row(self, row: int) -> int:
        """Return the offset of an entry; the base offset if `row` is negative."""
        return self.base_offset + self._unpack(_INT32, row * OFFSET_ENTRY_SIZE)[0] if row >= 0 else self.base_offset

    def _position(self, row: int) -> int:
        return self._unpack(_INT32, row * OFFSET_ENTRY_SIZE + 4)[0]

    def _entry(self, row: int) -> OffsetEntry:
        if row < 0:
            return OffsetEntry(self.base_offset, 0)
        offset, position = self._unpack(_OFFSET_ENTRY, row * OFFSET_ENTRY_SIZE)
        return OffsetEntry(self.base_offset + offset, position)


class TimeIndex(_SparseIndex):
    """The highest timestamp so far, and the last offset of the batch that has it; it grows with the offset index."""

    __slots__ = ()
    entry_size = TIME_ENTRY_SIZE

    def _entries(self, data: Buffer | EntryFile, file: str) -> bytearray | EntryFile:
        # An entry of timestamp 0 at the base offset is all zeros; zeros that were allocated in advance are more.
        if len(data) == TIME_ENTRY_SIZE:
            return bytearray(data[0:TIME_ENTRY_SIZE])
        return super()._entries(data, file)

    def append(self, timestamp_ms: int, offset: int) -> bool:
        """Add an entry if the highest timestamp has grown since the last one. Return whether it was added."""
        if timestamp_ms <= self.last.timestamp_ms:
            return False
        data = self.loaded()
        data += _TIME_ENTRY.pack(timestamp_ms, offset - self.base_offset)
        return True

    @property
    def last(self) -> TimeEntry:
        """The last entry; no timestamp at the base offset if there is none."""
        return self._entry(len(self) - 1)

    def lookup(self, timestamp_ms: int) -> int:
        """Return an offset at or before the first record with this timestamp or a later one."""
        at = bisect_right(
            range(len(self)), timestamp_ms, key=lambda row: self._unpack(_INT64, row * TIME_ENTRY_SIZE)[0]
        )
        return self._entry(at - 1).offset

    def offset_of_row(self, row: int) -> int:
        """Return the offset of an entry; the base offset if `row` is negative."""
        return self.base_offset + self._unpack(_INT32, row * TIME_ENTRY_SIZE + 8)[0] if row >= 0 else self.base_offset

    def _entry(self, row: int) -> TimeEntry:
        if row < 0:
            return TimeEntry(NO_TIMESTAMP, self.base_offset)
        timestamp, offset = self._unpack(_TIME_ENTRY, row * TIME_ENTRY_SIZE)
        return TimeEntry(timestamp, self.base_offset + offset)


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
