"""One segment: a log file of consecutive wire batches, and its three index files.

The log file holds what producers sent, byte for byte, apart from base offset and leader epoch, which lie outside the
checksum. Messages of magic 0 and 1, as an old broker's directory may hold them, are served as they are.

The offset and time indexes are sparse: a read starts at the nearest entry, and reads batch headers from there. The ends
of the last reads and of the log are remembered, so that readers who follow each other's or their own last read, or the
tail of the log, read no header. Index files are opened when they are first needed (large ones are read in blocks, see
`index_file`), and written when the segment is rolled or closed: after an unclean stop, the broker rebuilds those of the
segments behind its recovery point.
Source: org.apache.kafka.storage.internals.log.LogSegment.
"""

from __future__ import annotations

import contextlib
import logging
import struct
from collections.abc import Iterator
from typing import Final

from kafkaraw.broker.log.index_file import LOADED_BYTES_MAX, IndexFile
from kafkaraw.broker.log.storage import Content, LogFile, LogStorage
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import (
    TIME_ENTRY_SIZE,
    AbortedTransaction,
    decode_transaction_index,
    encode_offset_index,
    encode_time_index,
    encode_transaction_index,
)
from kafkaraw.core.log.names import FileKind, OffsetFile, Stage
from kafkaraw.core.log.recovery import Segment as RecoveredSegment
from kafkaraw.core.log.rolling import SegmentSettings, should_roll
from kafkaraw.core.log.segment_indexes import NO_TIMESTAMP, OffsetIndex, TimeIndex
from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.net import Clock
from kafkaraw.records import HEADER_SIZE, BatchHeader, OldFormatError, parse_header
from kafkaraw.records.header import LENGTH_PREFIX_SIZE, MAGIC
from kafkaraw.records.legacy import old_header

WINDOW_BYTES: Final = 1 << 20
"""How much is read at once when a segment is read from end to end."""
LOOKUP_BYTES: Final = 8192
"""How much is read at once when a batch is looked up: a little more than `index.interval.bytes`."""
PLACES_MAX: Final = 16
"""How many ends of reads a segment remembers."""
SEGMENT_KINDS: Final = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TRANSACTION_INDEX,
)
"""The files of a segment, in the order in which Kafka renames them."""
_PLACE: Final = struct.Struct(">qi4xb6xi8xq")  # base offset, length, magic, last offset delta, highest timestamp
_OLD_TIMESTAMP: Final = struct.Struct(">q")
_OLD_TIMESTAMP_AT: Final = 18
_LENGTH_MIN: Final = 14

_logger = logging.getLogger("kafkaraw.broker")


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """What retention, cleaner and tools have to know of a segment.

    Attributes:
        base_offset: the first offset that it may hold.
        next_offset: the base offset of the next segment, or the log end offset.
        size_bytes: bytes of its log file.
        largest_timestamp_ms: the largest timestamp of its records; if they have none, when the broker began to use it.
        has_timestamps: whether `largest_timestamp_ms` is of a record.
        first_timestamp_ms: the highest timestamp of its first batch; -1 if it has none.
        created_ms: when the broker created or opened it.
        is_active: whether it is the last one, which is appended to.
    """

    base_offset: int
    next_offset: int
    size_bytes: int
    largest_timestamp_ms: int
    has_timestamps: bool
    first_timestamp_ms: int
    created_ms: int
    is_active: bool


class Place(NamedTuple):
    """Where a batch is: its bytes, its offsets and its highest timestamp (-1 if it has none)."""

    start: int
    end: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class Segment:
    """The files of one segment. A new segment is empty; the end of an old one must be set before it is appended to.

    Args:
        storage: where the files are.
        folder: the partition's folder.
        base_offset: the first offset that the segment may hold.
        stage: the suffix of its files.
        created_ms: wall clock.

    Attributes:
        base_offset: as given.
        stage: as given, or as changed.
        next_offset: the offset after its last batch; of an inactive segment, the base offset of the next one.
        size_bytes: bytes in whole batches.
        jitter_ms: what is taken off `segment.ms`.
    """

    def __init__(
        self, storage: LogStorage, folder: str, base_offset: int, *, stage: Stage = Stage.LIVE, created_ms: int = 0
    ) -> None:
        self.folder = folder
        self.base_offset = base_offset
        self.stage: Stage = stage
        self.created_ms = created_ms
        self.next_offset: int = base_offset
        self._storage = storage
        self._file: LogFile = storage.open_file(folder, self.name)
        self.size_bytes: int = self._file.size_bytes
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._index_files: list[LogFile] = []
        self._aborted: list[AbortedTransaction] | None = None
        self._indexes_changed = False
        self._aborted_changed = False
        self._max_timestamp_ms = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._first_timestamp_ms: int | None = None
        self.jitter_ms = 0
        self._unindexed_bytes = 0
        self._last_batch = (base_offset, 0)
        self._places: dict[int, int] = {}
        if not self.size_bytes:
            self._start_empty()

    def _start_empty(self) -> None:
        self._offsets, self._times, self._aborted = OffsetIndex(self.base_offset), TimeIndex(self.base_offset), []
        self._indexes_changed = True

    @property
    def name(self) -> str:
        """Name of its log file."""
        return self._name(FileKind.LOG)

    def _name(self, kind: FileKind) -> str:
        return OffsetFile(self.base_offset, kind, self.stage).name

    # -- writing -----------------------------------------------------------------------------------------------------

    def append(self, batch: memoryview, header: BatchHeader, index_interval_bytes: int) -> None:
        """Write one whole batch, header already patched.

        Raises:
            OSError: the storage is full or broken; the segment is as it was.
        """
        position = self.size_bytes
        self._file.append(batch)
        base_offset, max_timestamp = header.base_offset, header.max_timestamp
        last_offset = base_offset + header.last_offset_delta
        if not position:
            self._first_timestamp_ms = max_timestamp
        if max_timestamp > self._max_timestamp_ms:
            self._max_timestamp_ms, self._max_timestamp_offset = max_timestamp, last_offset
        if self._unindexed_bytes > index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self._max_timestamp_ms, self._max_timestamp_offset)
            self._unindexed_bytes = 0
            self._indexes_changed = True
        size = header.batch_length + LENGTH_PREFIX_SIZE
        self._unindexed_bytes += size
        self._last_batch = (base_offset, position)
        self.size_bytes = position + size
        self.next_offset = last_offset + 1

    def add_aborted_transaction(self, aborted: AbortedTransaction) -> None:
        """Add an entry to the transaction index: the segment holds the marker that has aborted the transaction."""
        self.aborted_transactions.append(aborted)
        self._aborted_changed = True

    def allocate(self, size_bytes: int) -> None:
        """Reserve the space of the log file.

        Raises:
            OSError: the storage is full or broken.
        """
        self._file.allocate(size_bytes)

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that holds `offset`, and all that follow, from log and indexes.

        Raises:
            OSError: the storage is broken; the segment is as it was.
        """
        position = self.position_of(offset)
        offsets, times, aborted = self.offset_index, self.time_index, self.aborted_transactions
        if position < self.size_bytes:
            self._file.truncate(position)
            self.size_bytes = position
        offsets.truncate_to(offset)
        times.truncate_to(offset)
        kept = [entry for entry in aborted if entry.last_offset < offset]
        self._aborted_changed = self._aborted_changed or len(kept) < len(aborted)
        self._aborted = kept
        self._indexes_changed = True
        self._places.clear()
        self.find_end()
        if not self.size_bytes:
            self._first_timestamp_ms = None

    def end_index(self) -> None:
        """Add the largest timestamp to the time index, as at the end of a segment."""
        if self.time_index.append(self._max_timestamp_ms, self._max_timestamp_offset):
            self._indexes_changed = True

    def write_indexes(self, *, durable: bool) -> None:
        """Write the index files that have changed.

        Args:
            durable: a crash of the machine leaves them.

        Raises:
            OSError: the storage is full or broken; they are written again next time.
        """
        if self._indexes_changed and self._offsets is not None and self._times is not None:
            for kind, index in ((FileKind.OFFSET_INDEX, self._offsets), (FileKind.TIME_INDEX, self._times)):
                if len(index) or self._storage.file_size(self.folder, self._name(kind)):
                    self._storage.write_bytes(self.folder, self._name(kind), index.loaded(), durable=durable)
                else:
                    self._storage.open_file(self.folder, self._name(kind)).close()  # an empty file is made in one call
            self._indexes_changed = False
        if self._aborted_changed and self._aborted is not None:
            name = self._name(FileKind.TRANSACTION_INDEX)
            if self._aborted:
                entries = encode_transaction_index(self._aborted)
                self._storage.write_bytes(self.folder, name, entries, durable=durable)
            else:
                self._storage.remove_file(self.folder, name)
            self._aborted_changed = False

    @property
    def has_indexes_in_memory(self) -> bool:
        """Whether the offset or the time index is in memory."""
        return self._offsets is not None or self._times is not None

    def forget_indexes(self) -> None:
        """Drop the offset and time index from memory if their files are as they are; they are loaded when needed."""
        if not self._indexes_changed:
            self._offsets = self._times = None
            self._close_index_files()

    def _close_index_files(self) -> None:
        for file in self._index_files:
            file.close()
        self._index_files.clear()

    def sync(self) -> None:
        """Make the log file survive a crash of the machine."""
        self._file.sync()

    def trim(self) -> None:
        """Give back the space that was reserved behind the last batch."""
        self._file.truncate(self.size_bytes)

    def close(self) -> None:
        """Let go of the files."""
        self._file.close()
        self._close_index_files()

    def file_names(self) -> list[str]:
        """Return the names that its files have; there may be no file of some of them."""
        return [self._name(kind) for kind in SEGMENT_KINDS]

    def change_stage(self, stage: Stage) -> list[str]:
        """Rename the files, and return their new names.

        Raises:
            OSError: the storage is broken; some of the files are renamed, and the next call renames the others.
        """
        new_names = [OffsetFile(self.base_offset, kind, stage).name for kind in SEGMENT_KINDS]
        for kind, new_name in zip(SEGMENT_KINDS, new_names, strict=True):
            with contextlib.suppress(FileNotFoundError):  # no index was written yet, or no transaction was aborted
                self._storage.rename_file(self.folder, self._name(kind), new_name)
        self.stage = stage
        return new_names

    # -- opening -----------------------------------------------------------------------------------------------------

    def find_end(self) -> bool:
        """Read the batches behind the last entry of the indexes; return whether the file ends with a whole batch."""
        offsets, times = self.offset_index, self.time_index
        self._max_timestamp_ms, self._max_timestamp_offset = times.last
        position = min(offsets.last.position, self.size_bytes)
        self._unindexed_bytes = self.size_bytes - position
        self.next_offset, self._last_batch = self.base_offset, (self.base_offset, 0)
        try:
            for place in self.places(position):
                if place.max_timestamp > self._max_timestamp_ms:
                    self._max_timestamp_ms, self._max_timestamp_offset = place.max_timestamp, place.last_offset
                self.next_offset, self._last_batch = place.last_offset + 1, (place.base_offset, place.start)
        except CorruptBatchError:
            return False
        return True

    def take_recovered(self, found: RecoveredSegment) -> None:
        """Cut the log file behind its last valid batch, and take the indexes that recovery has built.

        Raises:
            OSError: the storage is full or broken.
        """
        if found.valid_bytes < self._file.size_bytes:
            self._file.truncate(found.valid_bytes)
        self.size_bytes, self.next_offset = found.valid_bytes, found.next_offset
        self._offsets = OffsetIndex(self.base_offset, encode_offset_index(found.offset_index, self.base_offset))
        self._times = TimeIndex(self.base_offset, encode_time_index(found.time_index, self.base_offset))
        self._aborted = found.transactions
        self._indexes_changed = self._aborted_changed = True
        self._places.clear()
        self.find_end()

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index."""
        if self._offsets is None:
            self._load_indexes()
            assert self._offsets is not None
        return self._offsets

    @property
    def time_index(self) -> TimeIndex:
        """The time index."""
        if self._times is None:
            self._load_indexes()
            assert self._times is not None
        return self._times

    @property
    def aborted_transactions(self) -> list[AbortedTransaction]:
        """The transaction index: the aborted transactions whose markers are in this segment."""
        if self._aborted is None:
            name = self._name(FileKind.TRANSACTION_INDEX)
            data = self._storage.read_bytes(self.folder, name) or b""
            self._aborted = decode_transaction_index(data, self.base_offset, f"{self.folder}/{name}")
        return self._aborted

    @property
    def has_aborted_transactions(self) -> bool:
        """Whether the transaction index has entries."""
        return bool(self.aborted_transactions)

    def _load_indexes(self) -> None:
        offsets_name, times_name = self._name(FileKind.OFFSET_INDEX), self._name(FileKind.TIME_INDEX)
        try:
            offsets = OffsetIndex(self.base_offset, self._index_content(offsets_name), f"{self.folder}/{offsets_name}")
            if offsets.last.position >= max(self.size_bytes, 1):
                problem = f"the last entry is at position {offsets.last.position}, the log has {self.size_bytes} bytes"
                raise DamagedFileError(f"{self.folder}/{offsets_name}", 0, problem, "it is rebuilt from the log")
            self._times = TimeIndex(self.base_offset, self._index_content(times_name), f"{self.folder}/{times_name}")
            self._offsets = offsets
        except DamagedFileError as error:
            _logger.warning("Found a corrupted index file, rebuilding index files: %s", error)
            self._close_index_files()
            self._rebuild_indexes()

    def _index_content(self, name: str) -> bytes | IndexFile:
        """Return the bytes of an index file, or the file if it is large.

        Raises:
            DamagedFileError: it is missing.
        """
        size = self._storage.file_size(self.folder, name)
        if size is not None and size > LOADED_BYTES_MAX:
            file = self._storage.open_file(self.folder, name)
            self._index_files.append(file)
            return IndexFile(file)
        data = None if size is None else self._storage.read_bytes(self.folder, name)
        if data is None:
            raise DamagedFileError(f"{self.folder}/{name}", 0, "the file is missing", "it is rebuilt from the log")
        return data

    def _rebuild_indexes(self) -> None:
        """Build the indexes from the batch headers; their files are replaced, if that is possible now."""
        offsets, times = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        highest, highest_offset, indexed = NO_TIMESTAMP, self.base_offset, 0
        with contextlib.suppress(CorruptBatchError):  # what is behind it cannot be read, with an index or without
            for place in self.places(0, WINDOW_BYTES):
                if place.max_timestamp > highest:
                    highest, highest_offset = place.max_timestamp, place.last_offset
                if place.start - indexed > LOOKUP_BYTES // 2:
                    offsets.append(place.last_offset, place.start)
                    times.append(highest, highest_offset)
                    indexed = place.start
        times.append(highest, highest_offset)
        self._offsets, self._times, self._indexes_changed = offsets, times, True
        try:
            self.write_indexes(durable=True)
        except OSError as error:
            _logger.warning("%s/%s: its index files cannot be written: %s", self.folder, self.name, error)

    # -- reading -----------------------------------------------------------------------------------------------------

    def info(self, next_offset: int, *, is_active: bool) -> SegmentInfo:
        """Return what others have to know of it.

        Args:
            next_offset: the offset before which its batches end.
            is_active: whether it is the last segment.
        """
        largest = self.largest_timestamp_ms
        return SegmentInfo(
            self.base_offset,
            next_offset,
            self.size_bytes,
            largest if largest >= 0 else self.created_ms,
            largest >= 0,
            self.first_timestamp_ms,
            self.created_ms,
            is_active,
        )

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest timestamp of its batches; -1 if there is none."""
        if self._max_timestamp_ms < 0 and self.size_bytes:
            times = self._times
            self._max_timestamp_ms = self._last_timestamp_in_file() if times is None else times.last.timestamp_ms
        return self._max_timestamp_ms

    def _last_timestamp_in_file(self) -> int:
        """Return the last timestamp of the time index, without loading all of it if that is possible."""
        name = self._name(FileKind.TIME_INDEX)
        size = self._storage.file_size(self.folder, name)
        if size and size % TIME_ENTRY_SIZE == 0:
            file = self._storage.open_file(self.folder, name)
            data = bytes(file.read(size - TIME_ENTRY_SIZE, TIME_ENTRY_SIZE))
            file.close()
            if data.strip(b"\0") or size == TIME_ENTRY_SIZE:
                return TimeIndex(self.base_offset, data).last.timestamp_ms
        return self.time_index.last.timestamp_ms

    def should_roll(self, header: BatchHeader, settings: SegmentSettings, clock: Clock) -> bool:
        """Return whether a batch goes into a new segment; see `rolling.should_roll`."""
        first = self._first_timestamp_ms
        if first is None:
            first = self.first_timestamp_ms
        return should_roll(
            settings,
            self.size_bytes,
            header.batch_length + LENGTH_PREFIX_SIZE,
            header.max_timestamp - first if first >= 0 else clock.time_ms() - self.created_ms,
            self.jitter_ms,
            header.base_offset + header.last_offset_delta - self.base_offset,
            self.offset_index.size_bytes,
            self.time_index.size_bytes,
        )

    @property
    def first_timestamp_ms(self) -> int:
        """The highest timestamp of the first batch; -1 if it has none, there is no batch, or it is damaged."""
        if self._first_timestamp_ms is None:
            if not self.size_bytes:
                return NO_TIMESTAMP
            try:
                self._first_timestamp_ms = next((place.max_timestamp for place in self.places(0)), NO_TIMESTAMP)
            except CorruptBatchError as error:  # a read of the segment tells it, too; retention must go on
                _logger.warning("the timestamp of the first batch cannot be read: %s", error)
                self._first_timestamp_ms = NO_TIMESTAMP
        return self._first_timestamp_ms

    def places(self, position: int, window_bytes: int = LOOKUP_BYTES) -> Iterator[Place]:
        """Yield where each batch is, from the one that starts at `position` on.

        Raises:
            CorruptBatchError: the file ends within a batch, or a length is impossible.
        """
        piece, piece_at, size = memoryview(b""), position, self.size_bytes
        while position < size:
            at = position - piece_at
            if len(piece) - at < HEADER_SIZE and piece_at + len(piece) < size:
                piece, piece_at, at = self._file.read(position, min(window_bytes, size - position)), position, 0
            if len(piece) - at < _PLACE.size:  # an old message may be shorter
                piece, piece_at, at = memoryview(bytes(piece[at:]).ljust(_PLACE.size, b"\0")), position, 0
            offset, length, magic, delta, timestamp = _PLACE.unpack_from(piece, at)
            if magic < MAGIC:
                delta = 0
                timestamp = _OLD_TIMESTAMP.unpack_from(piece, at + _OLD_TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
            end = position + LENGTH_PREFIX_SIZE + length
            if length < _LENGTH_MIN or end > size:
                raise CorruptBatchError(
                    f"{self.folder}/{self.name}: byte {position}: a batch of {length} bytes, {size - position} are left"
                )
            yield Place(position, end, offset, offset + delta, timestamp)
            position = end

    def headers(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of every batch from the one that holds `offset` on.

        Raises:
            CorruptBatchError: the file ends within a batch, or a header is impossible.
        """
        position, piece, piece_at = self.position_of(offset), memoryview(b""), 0
        next_offset = max(offset, self.base_offset)
        while position < self.size_bytes:
            at = position - piece_at
            if len(piece) - at < HEADER_SIZE and (not piece or piece_at + len(piece) < self.size_bytes):
                size = min(WINDOW_BYTES, self.size_bytes - position)
                piece, piece_at, at = self._file.read(position, size), position, 0
            header = _header(piece[at : at + HEADER_SIZE], next_offset)
            yield position, header
            position += header.size
            next_offset = header.next_offset

    def position_of(self, offset: int) -> int:
        """Return where the first batch starts that ends at `offset` or behind it; the size of the log if none does."""
        if offset >= self.next_offset:
            return self.size_bytes
        if offset == self._last_batch[0]:
            return self._last_batch[1]
        known = self._places.get(offset)
        if known is not None:
            return known
        found = self.size_bytes
        for place in self.places(self.offset_index.lookup(offset)):
            if place.last_offset >= offset:
                found = place.start
                break
        self.remember(offset, found)
        return found

    def remember(self, offset: int, position: int) -> None:
        """Remember where the batch with an offset starts, for the read that follows a look-up."""
        places = self._places
        if len(places) >= PLACES_MAX and offset not in places:
            del places[next(iter(places))]
        places[offset] = position

    def content(self, offset: int, size_max: int, *, at_least_one: bool, end_offset: int) -> Content | None:
        """Whole batches from the one that holds `offset` on; None when none fits (or there is none).

        Args:
            offset: the first offset wanted.
            size_max: limit in bytes.
            at_least_one: give the first batch even when it alone is above the limit.
            end_offset: give no batch that reaches this offset.
        """
        start, end = self.position_of(offset), self.position_of(end_offset)
        if start >= end:
            return None
        if end - start > size_max:
            end = self._end_within(start, size_max, at_least_one=at_least_one)
            if end == start:
                return None
        else:
            self.remember(min(end_offset, self.next_offset), end)
        return self._file.content(start, end - start)

    def copy(self, offset: int, size_max: int) -> bytes:
        """Whole batches from the one that holds `offset` on, at least one of them, as bytes of their own."""
        start, end = self.position_of(offset), self.size_bytes
        if end - start > size_max:
            end = self._end_within(start, size_max, at_least_one=True)
        else:
            self.remember(self.next_offset, end)
        return bytes(self._file.read(start, end - start))

    def _end_within(self, start: int, size_max: int, *, at_least_one: bool) -> int:
        """Return where the whole batches end that fit into `size_max` bytes from `start` on, and remember it."""
        limit = start + size_max
        position = max(start, self.offset_index.lookup_position(limit))
        for place in self.places(position):
            if place.end > limit:
                if place.start > start or not at_least_one:
                    self.remember(place.base_offset, place.start)
                    return place.start
                self.remember(place.last_offset + 1, place.end)
                return place.end
        return self.size_bytes

    def upper_bound_offset(self, start: int, size_bytes: int) -> int | None:
        """Return an offset behind the batches of a read, from the offset index; None if it has no entry behind them."""
        entry = self.offset_index.first_at(start + size_bytes)
        return None if entry is None else entry.offset

    def batch(self, place: Place) -> memoryview:
        """The bytes of one batch."""
        return self._file.read(place.start, place.end - place.start)

    def read(self, position: int, size: int) -> memoryview:
        """The bytes from `position` on."""
        return self._file.read(position, size)

    def places_from_timestamp(self, timestamp_ms: int, start_offset: int) -> Iterator[Place]:
        """Yield the batches that may have the first record with a timestamp or a later one, from an offset on."""
        offset = max(self.time_index.lookup(timestamp_ms), start_offset)
        for place in self.places(self.offset_index.lookup(offset)):
            if place.last_offset >= start_offset and place.max_timestamp >= timestamp_ms:
                yield place


def _header(start: memoryview, next_offset: int) -> BatchHeader:
    """The header of what is in a log, a batch or a message of a broker from before Kafka 0.11.

    Raises:
        CorruptBatchError: it is neither.
    """
    try:
        return parse_header(start)
    except OldFormatError:
        return old_header(start, next_offset)
