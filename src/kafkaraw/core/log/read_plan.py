"""Plan how a log directory is read without a broker: which segments, which bytes.

Pure: callers pass names, sizes and the bytes of indexes. An index only says where to begin: what is read there is
checked by the reader, so a damaged index costs time, never a record. Start at `segments_of`, then
`UncheckedOffsetIndex`, `cut_points` (tasks of about equal size) and `pieces` (the bytes of a range).
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from kafkaraw.core.log.indexes import OFFSET_ENTRY_SIZE, AbortedTransaction, used_size
from kafkaraw.core.log.names import FileKind, OffsetFile
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records.header import Buffer

_ENTRY: Final = struct.Struct(">ii")


class LogSegment(NamedTuple):
    """The files of one segment.

    Attributes:
        base_offset: the offset in its name.
        size_bytes: bytes of the log file that are read; a torn tail is not.
        log: path of the log file.
        offset_index: path of the offset index; empty if there is none.
        time_index: as `offset_index`.
        transaction_index: as `offset_index`; a segment without aborted transactions has none.
    """

    base_offset: int
    size_bytes: int
    log: str
    offset_index: str = ""
    time_index: str = ""
    transaction_index: str = ""


def segments_of(folder: str, names: Mapping[str, str], sizes: Mapping[str, int]) -> list[LogSegment]:
    """Return the segments of a folder, in the order of their offsets.

    Args:
        folder: its path.
        names: live files, from `loading.finish_renames`.
        sizes: bytes of each file, by its name on disk.
    """

    def path(base: int, kind: FileKind) -> str:
        source = names.get(OffsetFile(base, kind).name)
        return "" if source is None else f"{folder}/{source}"

    bases = sorted(int(name[:20]) for name in names if name.endswith(FileKind.LOG))
    return [
        LogSegment(
            base,
            sizes[names[OffsetFile(base, FileKind.LOG).name]],
            path(base, FileKind.LOG),
            path(base, FileKind.OFFSET_INDEX),
            path(base, FileKind.TIME_INDEX),
            path(base, FileKind.TRANSACTION_INDEX),
        )
        for base in bases
    ]


class UncheckedOffsetIndex:
    """The entries of an `.index` file, searched where they lie: a segment of 1 GB may have 260,000.

    Entries are not checked: a reader that starts at a position must verify what it finds there.

    Args:
        data: the bytes of the file; empty if there is none.
        base_offset: of the segment.
        size_bytes: of the log file; entries beyond it are left out.
    """

    __slots__ = ("_base_offset", "_data", "_size_bytes", "count")

    def __init__(self, data: Buffer, base_offset: int, size_bytes: int) -> None:
        self._data = memoryview(data)
        self._base_offset = base_offset
        self._size_bytes = size_bytes
        self.count: int = used_size(data, OFFSET_ENTRY_SIZE) // OFFSET_ENTRY_SIZE
        self.count = bisect_left(range(self.count), size_bytes, key=self._position)

    def _relative_offset(self, number: int) -> int:
        offset: int = _ENTRY.unpack_from(self._data, number * OFFSET_ENTRY_SIZE)[0]
        return offset

    def _position(self, number: int) -> int:
        position: int = _ENTRY.unpack_from(self._data, number * OFFSET_ENTRY_SIZE)[1]
        return position

    def entry(self, number: int) -> tuple[int, int]:
        """Return (last offset of a batch, its position), counted from 0; position 0 for one outside the file."""
        offset, position = _ENTRY.unpack_from(self._data, number * OFFSET_ENTRY_SIZE)
        return self._base_offset + offset, position if 0 <= position < self._size_bytes else 0

    def position_before(self, offset: int) -> int:
        """Return the position of the last indexed batch that ends with this offset or before it; 0 if none does."""
        number = bisect_right(range(self.count), offset - self._base_offset, key=self._relative_offset)
        return self.entry(number - 1)[1] if number else 0

    def position_behind(self, offset: int) -> int | None:
        """Return the position of the first indexed batch that ends with this offset or after it; None if none does."""
        number = bisect_left(range(self.count), offset - self._base_offset, key=self._relative_offset)
        return self.entry(number)[1] if number < self.count else None

    def next_position(self, position: int) -> int | None:
        """Return the first indexed position behind this one; None if there is none."""
        number = bisect_right(range(self.count), position, key=self._position)
        found = self.entry(number)[1] if number < self.count else 0
        return found if found > position else None

    def offset_at(self, position: int) -> tuple[int, int] | None:
        """Return the first entry at this position or behind it; None if there is none."""
        number = bisect_left(range(self.count), position, key=self._position)
        return self.entry(number) if number < self.count else None


NO_INDEX: Final = UncheckedOffsetIndex(b"", 0, 0)


def overlapping(segments: Sequence[LogSegment], start: int, end: int) -> list[tuple[LogSegment, int, int]]:
    """Return the segments that may have offsets of a range, each with the part of the range that is its own."""
    found = []
    for number, segment in enumerate(segments):
        behind = segments[number + 1].base_offset if number + 1 < len(segments) else end
        low, high = max(start, segment.base_offset), min(end, behind)
        if low < high and segment.size_bytes:
            found.append((segment, low, high))
    return found


def cut_points(
    segments: Sequence[LogSegment],
    index_of: Callable[[LogSegment], UncheckedOffsetIndex],
    start: int,
    end: int,
    bytes_max: int,
) -> list[int]:
    """Return offsets at which to cut a range so that each part has at most about `bytes_max` bytes of log files.

    A cut is the base offset of a segment, or lies behind an indexed batch of a large one.

    Args:
        segments: of the partition, in the order of their offsets.
        index_of: loads the offset index of a segment; called for segments that do not fit in one part.
        start: first offset of the range.
        end: offset after the range.
        bytes_max: bytes of a part.
    """
    cuts: list[int] = []
    used = 0
    for segment, low, high in overlapping(segments, start, end):
        if used and used + segment.size_bytes > bytes_max:
            cuts.append(low)
            used = 0
        if segment.size_bytes <= bytes_max:
            used += segment.size_bytes
            continue
        index = index_of(segment)
        first = index.position_before(low) if low > segment.base_offset else 0
        last = index.position_behind(high) or segment.size_bytes
        parts = -(-max(last - first, 1) // bytes_max)
        for part in range(1, parts):
            entry = index.offset_at(first + (last - first) * part // parts)
            if entry is not None:
                cuts.append(entry[0] + 1)
        used = (last - first) // parts
    rising = [start]
    for cut in cuts:
        if rising[-1] < cut < end:
            rising.append(cut)
    return rising[1:]


class Piece(NamedTuple):
    """Bytes of one log file to read.

    Attributes:
        segment: the segment.
        position: where to start: a batch begins there, unless the index is wrong.
        likely_end: where the offsets probably end; the reader goes on until it has seen a batch behind them.
        start_offset: first offset to read.
        end_offset: offset after the last one to read.
    """

    segment: LogSegment
    position: int
    likely_end: int
    start_offset: int
    end_offset: int


def pieces(
    segments: Sequence[LogSegment],
    index_of: Callable[[LogSegment], UncheckedOffsetIndex],
    start: int,
    end: int,
    log_end: int,
) -> list[Piece]:
    """Return the bytes to read for a range of offsets.

    The index of a segment is loaded only if the range begins or ends within the segment.

    Args:
        segments: of the partition, in the order of their offsets.
        index_of: loads the offset index of a segment.
        start: first offset of the range.
        end: offset after the range.
        log_end: offset after the last batch of the log.
    """
    behind = {low.base_offset: high.base_offset for low, high in pairwise(segments)}
    found = []
    for segment, low, high in overlapping(segments, start, end):
        position, likely_end = 0, segment.size_bytes
        ends_within = high < behind.get(segment.base_offset, log_end)
        if low > segment.base_offset or ends_within:
            index = index_of(segment)
            position = index.position_before(low)
            likely_end = (index.position_behind(high) if ends_within else None) or segment.size_bytes
        found.append(Piece(segment, position, likely_end, low, high))
    return found


class AbortedOffsets:
    """Which batches belong to aborted transactions.

    Args:
        transactions: the aborted transactions, in any order.
    """

    __slots__ = ("_of_producer",)

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._of_producer: dict[int, list[tuple[int, int]]] = {}
        for one in transactions:
            self._of_producer.setdefault(one.producer_id, []).append((one.first_offset, one.last_offset))
        for ranges in self._of_producer.values():
            ranges.sort()

    def __bool__(self) -> bool:
        return bool(self._of_producer)

    def has(self, producer_id: int, offset: int) -> bool:
        """Return whether a transactional batch of this producer that starts at this offset was aborted."""
        ranges = self._of_producer.get(producer_id)
        if ranges is None:
            return False
        number = bisect_right(ranges, (offset, 2**63)) - 1
        return number >= 0 and ranges[number][1] >= offset


class ReplicaEnd(NamedTuple):
    """What decides which replica of a partition is read.

    Attributes:
        epoch: leader epoch of the last batch; -1 if the log is empty.
        end_offset: offset after the last valid batch.
        start_offset: the log start offset.
    """

    epoch: int
    end_offset: int
    start_offset: int


def best_replica(replicas: Sequence[ReplicaEnd]) -> int:
    """Return the number of the replica to read.

    As in an election by logs: the newest leader epoch, then the longest log; of equal ones that with the most records
    before, then the first.
    """
    return max(
        range(len(replicas)),
        key=lambda n: (replicas[n].epoch, replicas[n].end_offset, -replicas[n].start_offset, -n),
    )


def missing_partitions(found: Iterable[int]) -> list[int]:
    """Return the partitions of a topic that must exist because a later one does."""
    known = sorted(set(found))
    return [missing for low, high in pairwise([-1, *known]) for missing in range(low + 1, high)]
