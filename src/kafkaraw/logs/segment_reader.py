"""Read batches of log segments in large ranges, and say what is damaged. Nothing is written.

`read_pieces` yields the batches of a planned range as `LogBatch` objects, for callers that decode them into columns.
`iter_wires` yields wire batches with their positions, for callers that need headers. Checksums are verified just before
the records are decoded, two megabytes at a time, so that both find the bytes in the processor's cache. On other
filesystems than the local one, the next range is read while the last one is decoded.

A position from an index is not trusted: the batch there must be whole, valid and not behind the first offset to read;
otherwise the segment is read from its beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Final

from kafkaraw.core.log.batches import is_valid, iter_batches, problem_of
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.log.names import Stage
from kafkaraw.core.log.read_plan import NO_INDEX, AbortedOffsets, LogSegment, Piece, UncheckedOffsetIndex
from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.logs.files import RangeFile, is_local, open_file, read_file, shown_file
from kafkaraw.records import HEADER_SIZE, Batch, BatchHeader, OldFormatError, Wire, batches_of, parse_header, verify_crc
from kafkaraw.records.header import LENGTH_PREFIX_SIZE, MAGIC, whole_batches

_log = logging.getLogger(__name__)

_READ_BYTES_LOCAL: Final = 2 << 20
"""Bytes of one read, more only for a larger batch: what stays in the processor's cache until it is decoded."""
_READ_BYTES_REMOTE: Final = 8 << 20
"""The same of other filesystems, where a request costs more than the bytes."""
_READ_BYTES_MIN: Final = 256 << 10
_GROUP_BYTES: Final = 2 << 20


_REMEDY: Final = "set failOnDataLoss to false to read the records around it, or read another replica"


class LogRange(NamedTuple):
    """Offsets of one partition, and where they are: the work of a reader. It may go to another process.

    Attributes:
        root: what opens the filesystem.
        topic: the topic.
        partition: the partition.
        start: first offset.
        end: offset after the last one.
        pieces: the bytes to read, in the order of the offsets.
        aborted: transactions whose records are left out.
    """

    root: str
    topic: str
    partition: int
    start: int
    end: int
    pieces: tuple[Piece, ...]
    aborted: tuple[AbortedTransaction, ...] = ()


class Damages:
    """What a reader does about damaged places: raise an error, or skip, count and log them.

    Args:
        fails: whether to raise.

    Attributes:
        count: damaged places that were skipped.
        size_bytes: their bytes.
    """

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails
        self.count: int = 0
        self.size_bytes: int = 0

    def found(self, file: str, position: int, problem: str, remedy: str = _REMEDY) -> None:
        """Report a damaged place.

        Raises:
            DamagedFileError: damaged places are an error.
        """
        if self._fails:
            raise DamagedFileError(file, position, problem, remedy)
        self.count += 1
        _log.warning("%s: byte %d: %s; it is skipped", file, position, problem)

    def changed(self, file: str, position: int, problem: str) -> None:
        """Report a file that a broker has removed, replaced or truncated since the read was planned.

        Raises:
            DamagedFileError: damaged places are an error.
        """
        remedy = "a broker writes to this directory: run the query again, or read a snapshot of the disk"
        self.found(file, position, problem, remedy)

    def skipped(self, size_bytes: int) -> None:
        """Count the bytes of a place that was reported."""
        self.size_bytes += size_bytes


class Positioned(NamedTuple):
    """A wire batch and where it is in its file.

    Messages of magic 0 and 1 become batches of magic 2, together: these have the positions of all of them.
    """

    position: int
    end: int
    header: BatchHeader
    wire: memoryview


class LogBatch(NamedTuple):
    """Batches of a log, to be decoded.

    Attributes:
        batch: their records.
        file: the log file, for errors.
        wires: the same, one by one.
    """

    batch: Batch
    file: str
    wires: Sequence[Positioned]


def read_pieces(work: LogRange, damages: Damages) -> Iterator[LogBatch]:
    """Yield the batches of a range that have records for the user. A batch is valid until the next one is requested.

    Args:
        work: what to read.
        damages: what to do about damaged places.

    Raises:
        DamagedFileError: a batch is damaged, and `damages` raises.
        OSError: a file cannot be read.
    """
    aborted = AbortedOffsets(work.aborted)
    for piece in work.pieces:
        try:
            reader = _SegmentReader(work.root, piece, damages)
        except FileNotFoundError:
            damages.changed(shown_file(work.root, piece.segment.log), 0, "the file does not exist any more")
            damages.skipped(piece.segment.size_bytes)
            continue
        with closing(reader):
            yield from reader.batches(work.topic, work.partition, aborted)


def iter_wires(root: str, segment: LogSegment, start_offset: int, position: int = 0) -> Iterator[Positioned]:
    """Yield the batches of a segment from an offset on; those that are damaged are left out, checksums not verified.

    Args:
        root: what opens the filesystem.
        segment: the segment.
        start_offset: first offset.
        position: where to start, from an index.

    Raises:
        OSError: the file cannot be read.
    """
    piece = Piece(segment, position, segment.size_bytes, start_offset, 2**63 - 1)
    with closing(_SegmentReader(root, piece, _Ignored())) as reader:
        for chunk in reader.chunks():
            yield from chunk


class _Ignored(Damages):
    """Damaged places that another reader reports."""

    def __init__(self) -> None:
        super().__init__(fails=False)

    def found(self, file: str, position: int, problem: str, remedy: str = "") -> None:
        """Ignore it."""


class _SegmentReader:
    """Reads a piece of one segment."""

    def __init__(self, root: str, piece: Piece, damages: Damages) -> None:
        self._root = root
        self._damages = damages
        self._read_bytes = _READ_BYTES_LOCAL if is_local(root) else _READ_BYTES_REMOTE
        self._shown = shown_file(root, piece.segment.log)
        segment = piece.segment
        file = _open_planned(root, segment)
        self._ranges = _Ranges(root, file)
        size = file.size()
        if size < segment.size_bytes:
            try:
                damages.changed(self._shown, size, f"the file ends there, and had {segment.size_bytes} bytes")
            except DamagedFileError:
                self._ranges.close()
                raise
            damages.skipped(segment.size_bytes - size)
            piece = piece._replace(segment=segment._replace(size_bytes=size))
        self._piece = piece
        self._index: UncheckedOffsetIndex | None = None

    def close(self) -> None:
        """Close the file."""
        self._ranges.close()

    def batches(self, topic: str, partition: int, aborted: AbortedOffsets) -> Iterator[LogBatch]:
        """Yield groups of batches with verified checksums."""
        start, end = self._piece.start_offset, self._piece.end_offset
        for chunk in self.chunks():
            group: list[Positioned] = []
            size = 0
            for each in chunk:
                header = each.header
                if header.next_offset <= start or header.is_control or not header.records_count:
                    continue
                if header.base_offset >= end:
                    break
                if header.magic == MAGIC and not self._is_intact(each):
                    continue
                if aborted and header.is_transactional and aborted.has(header.producer_id, header.base_offset):
                    continue
                group.append(each)
                size += len(each.wire)
                if size >= _GROUP_BYTES:
                    yield self._group(topic, partition, group)
                    group, size = [], 0
            if group:
                yield self._group(topic, partition, group)

    def _is_intact(self, each: Positioned) -> bool:
        try:
            verify_crc(each.wire)
        except CorruptBatchError as error:
            self._damages.found(self._shown, each.position, str(error))
            self._damages.skipped(each.end - each.position)
            return False
        return True

    def _group(self, topic: str, partition: int, wires: list[Positioned]) -> LogBatch:
        start, end = self._piece.start_offset, self._piece.end_offset
        data: list[Wire] = [(each.header, each.wire) for each in wires]
        has_old = any(header.magic != MAGIC for header, _ in data)
        batch = Batch(topic, partition, data, start_offset=start, end_offset=end, check_crcs=has_old)
        return LogBatch(batch, self._shown, wires)

    def chunks(self) -> Iterator[list[Positioned]]:
        """Yield the whole batches of each read, up to the first one behind the last offset."""
        piece, size = self._piece, self._piece.segment.size_bytes
        position, needed = piece.position, 0
        is_checked = not position
        while position < size:
            wanted = min(max(piece.likely_end - position, _READ_BYTES_MIN), self._read_bytes)
            view = self._ranges.read(position, min(max(wanted, needed), size - position))
            if not is_checked and not self._starts_well(view):
                _log.debug("%s: no batch starts at byte %d, as the index says", self._shown, position)
                position, is_checked = 0, True
                continue
            is_checked = True
            found, used, problem = _whole(view, position, self._shown)
            if found and found[-1].header.next_offset >= piece.end_offset:
                yield found
                return
            if not used and not problem:
                needed = _size_of_first(view)
                if needed <= len(view) or position + needed > size or len(view) < min(wanted, size - position):
                    problem = f"{size - position} bytes at the end are no whole batch"
            if used or problem:
                needed = 0
            if not problem and position + used < size:
                self._ranges.expect(position + used, min(self._read_bytes, size - position - used))
            if found:
                yield found
            position += used
            if problem:
                position = self._behind_damage(position, problem)

    def _starts_well(self, view: memoryview) -> bool:
        """Return whether the first batch is whole, valid, and not behind the first offset to read."""
        try:
            at, header = next(iter_batches(view, self._shown))
        except (StopIteration, DamagedFileError):
            return False
        return header.base_offset <= self._piece.start_offset and not problem_of(view, at, header, 0)

    def _behind_damage(self, position: int, problem: str) -> int:
        """Report a damaged place and return where to go on: at the next batch that an index or a length leads to."""
        self._damages.found(self._shown, position, problem)
        size = self._piece.segment.size_bytes
        behind = size
        for candidate in self._candidates(position):
            if candidate == size or (candidate < size and self._has_batch(candidate)):
                behind = candidate
                break
        self._damages.skipped(behind - position)
        return behind

    def _candidates(self, position: int) -> Iterator[int]:
        head = self._ranges.read(position, LENGTH_PREFIX_SIZE)
        if len(head) == LENGTH_PREFIX_SIZE:
            size = _size_of_first(head)
            if size >= HEADER_SIZE:
                yield position + size
        if self._index is None:
            self._index = load_index(self._root, self._piece.segment)
        at = self._index.next_position(position)
        while at is not None:
            yield at
            at = self._index.next_position(at)

    def _has_batch(self, position: int) -> bool:
        left = self._piece.segment.size_bytes - position
        try:
            header = parse_header(self._ranges.read(position, min(HEADER_SIZE, left)))
            if header.size > left:
                return False
            view = self._ranges.read(position, header.size)
        except CorruptBatchError:
            return False
        return is_valid(view, 0, header)


def load_index(root: str, segment: LogSegment) -> UncheckedOffsetIndex:
    """Return the offset index of a segment; an empty one if there is none, or it cannot be read."""
    if not segment.offset_index:
        return NO_INDEX
    try:
        return UncheckedOffsetIndex(read_file(root, segment.offset_index), segment.base_offset, segment.size_bytes)
    except OSError as error:
        _log.warning("%s is not used: %s", shown_file(root, segment.offset_index), error)
        return NO_INDEX


def _open_planned(root: str, segment: LogSegment) -> RangeFile:
    """Open the log file of a segment as it was when the read was planned.

    A broker that deletes or cleans a segment renames the file first, and removes it after `file.delete.delay.ms`.

    Raises:
        FileNotFoundError: it does not exist any more.
    """
    if not is_local(root):
        return open_file(root, segment.log)
    live = segment.log.removesuffix(Stage.SWAP)
    smaller: RangeFile | None = None
    for path in dict.fromkeys((segment.log, live, live + Stage.DELETED)):
        try:
            file = open_file(root, path)
        except FileNotFoundError:
            continue
        if file.size() >= segment.size_bytes:
            if smaller is not None:
                smaller.close()
            return file
        if smaller is None:
            smaller = file
        else:
            file.close()
    if smaller is None:
        raise FileNotFoundError(segment.log)
    return smaller


def _whole(view: memoryview, position: int, file: str) -> tuple[list[Positioned], int, str]:
    """Return the whole batches of a range, the bytes that they have, and what is wrong behind them."""
    try:
        found = []
        used = 0
        for header, wire in whole_batches(view):
            end = used + len(wire)
            found.append(Positioned(position + used, position + end, header, wire))
            used = end
        return found, used, ""
    except OldFormatError:
        pass
    except CorruptBatchError:
        pass
    return _walked(view, position, file)


def _walked(view: memoryview, position: int, file: str) -> tuple[list[Positioned], int, str]:
    """As `_whole`, for messages of magic 0 and 1, and up to a damaged header."""
    found: list[Positioned] = []
    used, has_old, problem = 0, False, ""
    try:
        for at, header in iter_batches(view, file):
            if header.magic >= MAGIC:
                parse_header(view, at)
            has_old |= header.magic < MAGIC
            used = at + header.size
            found.append(Positioned(position + at, position + used, header, view[at:used]))
    except DamagedFileError as error:
        problem = error.problem
    except CorruptBatchError as error:
        problem = str(error)
    if has_old:
        try:
            made = batches_of(view[:used])
        except CorruptBatchError as error:
            return [], 0, str(error)
        found = [Positioned(position, position + used, header, wire) for header, wire in made]
    return found, used, problem


def _size_of_first(view: memoryview) -> int:
    """Return the bytes of the first batch, of which there may be only the beginning; less than 61 if it is invalid."""
    if len(view) < LENGTH_PREFIX_SIZE:
        return 0
    return int.from_bytes(view[8:LENGTH_PREFIX_SIZE], "big", signed=True) + LENGTH_PREFIX_SIZE


class _Ranges:
    """Ranges of an open file, in a buffer that each read reuses: a range is valid until the next read."""

    def __init__(self, root: str, file: RangeFile) -> None:
        self._file = file
        self._buffer = bytearray()
        self._spare = bytearray()
        self._thread = None if is_local(root) else ThreadPoolExecutor(1, thread_name_prefix="kafkaraw-read-ahead")
        self._coming: tuple[int, int, Future[memoryview]] | None = None

    def read(self, position: int, size: int) -> memoryview:
        """Return bytes of the file; fewer than asked for at its end."""
        coming, self._coming = self._coming, None
        if coming is not None:
            begin, count, future = coming
            view = future.result()
            if begin == position and count >= size:
                self._buffer, self._spare = self._spare, self._buffer
                return view
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        return self._fill(self._buffer, position, size)

    def expect(self, position: int, size: int) -> None:
        """Begin to read a range that will be asked for next; without effect on the local filesystem."""
        if self._thread is None:
            return
        if len(self._spare) < size:
            self._spare = bytearray(size)
        self._coming = (position, size, self._thread.submit(self._fill, self._spare, position, size))

    def _fill(self, buffer: bytearray, position: int, size: int) -> memoryview:
        view = memoryview(buffer)[:size]
        self._file.seek(position)
        filled = 0
        while filled < size:
            count = self._file.readinto(view[filled:])
            if not count:
                break
            filled += count
        return view[:filled]

    def close(self) -> None:
        """Close the file, after a read that is under way."""
        if self._thread is not None:
            self._thread.shutdown()
        self._file.close()
