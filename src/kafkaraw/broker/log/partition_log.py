"""The log of one partition: segments in offset order, appended to at the end, read from anywhere.

It does not validate batches or assign offsets: batches arrive checked, with their base offset patched (see
`broker.partitions.partition`).
Start at `PartitionLog.open`, `append` and `read`. No retention, compaction or index files yet.
Source: org.apache.kafka.storage.internals.log.{UnifiedLog, LogLoader}.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from kafkaraw.broker.log.segment import Segment
from kafkaraw.broker.log.storage import Content, LogStorage
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE, LeaderEpochs
from kafkaraw.core.log.names import FileKind, offset_of
from kafkaraw.core.log.producer_snapshot import (
    ProducerSnapshot,
    decode_snapshot,
    encode_snapshot,
    end_offset_of,
)
from kafkaraw.core.log.producer_snapshot import file_name as snapshot_name
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import FileSlice
from kafkaraw.records import TIMESTAMP_LOG_APPEND_TIME, Batch, BatchHeader, modern, parse_header

OFFSET_SPAN_MAX = (1 << 31) - 1  # Kafka's index files hold offsets relative to the segment's base as int32

OFFSET_MAX = (1 << 63) - 1

_logger = logging.getLogger("kafkaraw.broker")


@dataclass(frozen=True, slots=True)
class TimestampAndOffset:
    """The offset of a record that was looked up by timestamp."""

    timestamp_ms: int
    offset: int


def content_size(content: Content | None) -> int:
    """Return the number of bytes of the content that a read returned."""
    if content is None:
        return 0
    return content.size if isinstance(content, FileSlice) else len(content)


class PartitionLog:
    """The batches of one partition.

    Args:
        storage: where the files are.
        folder: the partition's folder, `<topic>-<partition>`; created when absent.
        segment_bytes: a batch that would make a segment larger than this starts a new one.
    """

    def __init__(self, storage: LogStorage, folder: str, *, segment_bytes: int) -> None:
        self.folder = folder
        self._storage = storage
        self.segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []
        self._unsynced_records = 0
        self._log_start_offset = 0
        self.epochs = LeaderEpochs()
        self._epochs_file_is_stale = False

    def open(self, on_batch: Callable[[BatchHeader], None] | None = None, *, log_start_offset: int = 0) -> None:
        """Open the log; the last segment is verified with checksums and truncated at the first incomplete batch.

        Args:
            on_batch: called with the header of every batch, oldest first.
            log_start_offset: the log start offset of the checkpoint; segments that end before it are removed.
        """
        self._storage.make_folder(self.folder)
        self._load_epochs()
        files = ((name, offset_of(name, FileKind.LOG)) for name in self._storage.files(self.folder))
        logs = [(name, base) for name, base in files if base is not None]
        for at, (_, base) in enumerate(logs):
            segment = Segment(self._storage, self.folder, base)
            self._add(segment)
            file_size = segment.file_size_bytes
            for header in segment.recover(check_crcs=at == len(logs) - 1):
                if header.partition_leader_epoch >= 0:  # old messages know no epochs
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
                if on_batch is not None:
                    on_batch(header)
            if segment.size_bytes < file_size and at < len(logs) - 1:
                self._drop_after_gap([name for name, _ in logs[at + 1 :]])
                break
        if not self._segments:
            self._add(Segment(self._storage, self.folder, 0))
        self._log_start_offset = self._base_offsets[0]
        if log_start_offset > self.log_end_offset:
            self.restart_at(log_start_offset)
        else:
            self.move_start(log_start_offset)
        self.epochs.cut_end(self.log_end_offset)

    def _load_epochs(self) -> None:
        """Read the leader epoch checkpoint; the batches, which are read next, add their epochs."""
        text = self._storage.read_text(self.folder, EPOCHS_FILE)
        try:
            self.epochs.load(text or self.epochs.text())
        except ValueError as error:
            _logger.warning("%s/%s is damaged, the batches' epochs are used: %s", self.folder, EPOCHS_FILE, error)
            self.epochs.clear()

    def _drop_after_gap(self, names: list[str]) -> None:
        """Remove segments after a gap in the offsets, as Kafka does: readers would not notice the gap."""
        for name in names:
            _logger.error("%s/%s: removed, because the segment before it is damaged", self.folder, name)
            self._storage.remove_file(self.folder, name)

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._log_start_offset

    @property
    def starts_within_a_segment(self) -> bool:
        """Whether the log start offset differs from the name of the first file, so that it needs a checkpoint."""
        return self._log_start_offset > self._base_offsets[0]

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._segments[-1].next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segments_count(self) -> int:
        """Number of segments, the one that is written to included."""
        return len(self._segments)

    def append(self, batch: memoryview, header: BatchHeader) -> None:
        """Write one whole batch whose base offset is `log_end_offset`.

        The batch is the last thing that is written: a failure before leaves at most an epoch without batches in the
        epoch file, which `open` removes.

        Args:
            batch: its bytes.
            header: what they begin with.

        Raises:
            OSError: the storage is full or broken; the log is as it was.
        """
        active = self._segments[-1]
        full = active.size_bytes + header.size > self.segment_bytes
        if active.size_bytes and (full or header.last_offset - active.base_offset > OFFSET_SPAN_MAX):
            active = self._roll()
        if header.partition_leader_epoch > self.epochs.latest or self._epochs_file_is_stale:
            self.begin_epoch(header.partition_leader_epoch, header.base_offset)
        active.append(batch, header)
        self._unsynced_records += header.records_count

    def begin_epoch(self, epoch: int, start_offset: int) -> None:
        """Add the start offset of a leader epoch; no effect if it is known.

        Raises:
            OSError: the storage is full or broken; the epochs are unchanged, and the next call writes them.
        """
        if epoch > self.epochs.latest:
            epochs = self.epochs.copy()
            epochs.assign(epoch, start_offset)
            self._write_epochs(epochs)
            self.epochs = epochs
        elif self._epochs_file_is_stale:
            self._write_epochs(self.epochs)

    def _write_epochs(self, epochs: LeaderEpochs) -> None:
        """Write the epochs to their file; with one epoch only, the batches have the same information.

        Raises:
            OSError: the storage is full or broken.
        """
        if epochs.rows != [(0, 0)] or self._epochs_file_is_stale:
            self._epochs_file_is_stale = True
            self._storage.write_text(self.folder, EPOCHS_FILE, epochs.text(), durable=False)
        self._epochs_file_is_stale = False

    def _rewrite_epochs(self) -> None:
        """Write epochs after rows were removed; should that fail, the next `append` tries again before its batch."""
        self._epochs_file_is_stale = True
        try:
            self._write_epochs(self.epochs)
        except OSError as error:
            _logger.warning("%s: the leader epochs cannot be written, trying again later: %s", self.folder, error)

    def move_start(self, offset: int) -> bool:
        """Increase the log start offset, and remove the segments that end before it.

        Args:
            offset: at most `log_end_offset`; no effect if the log already starts there or later.

        Returns:
            whether the log start offset has changed.

        Raises:
            OSError: the storage is broken.
        """
        if offset <= self._log_start_offset:
            return False
        self._log_start_offset = offset
        while len(self._segments) > 1 and self._base_offsets[1] <= offset:
            self._base_offsets.pop(0)
            segment = self._segments.pop(0)
            segment.close()
            self._storage.remove_file(self.folder, segment.name)
        if self.epochs.cut_start(offset):
            self._rewrite_epochs()
        return True

    def loses_segments(self, start_offset: int) -> bool:
        """Return whether segments would be removed if the log started at an offset."""
        return len(self._segments) > 1 and self._base_offsets[1] <= start_offset

    def write_snapshot(self, producers: Iterable[ProducerSnapshot]) -> None:
        """Write a producer snapshot, which replaces the previous one.

        Raises:
            OSError: the storage is full or broken.
        """
        older = self._snapshots()
        name = snapshot_name(self.log_end_offset)
        if name in older.values():
            return
        file = self._storage.open_file(self.folder, name)
        try:
            file.append(encode_snapshot(producers))
            file.sync()
        finally:
            file.close()
        self._remove_files(older.values())

    def read_snapshot(self) -> list[ProducerSnapshot]:
        """Return the last producer snapshot; a snapshot beyond the end of the log is removed."""
        for end_offset, name in sorted(self._snapshots().items(), reverse=True):
            file = self._storage.open_file(self.folder, name)
            try:
                if end_offset <= self.log_end_offset:
                    return decode_snapshot(bytes(file.read(0, file.size_bytes)))
            except ValueError as error:
                _logger.warning("%s/%s is damaged and ignored: %s", self.folder, name, error)
            finally:
                file.close()
            self._storage.remove_file(self.folder, name)
        return []

    def _snapshots(self) -> dict[int, str]:
        """Return the files of producer snapshots, by the offset in their names."""
        found = ((end_offset_of(name), name) for name in self._storage.files(self.folder))
        return {end_offset: name for end_offset, name in found if end_offset is not None}

    def _remove_files(self, names: Iterable[str]) -> None:
        for name in names:
            self._storage.remove_file(self.folder, name)

    def truncate_to(self, offset: int) -> None:
        """Truncate the log at the batch that contains `offset`, and remove epochs that then have no batches.

        Raises:
            OSError: the storage is broken.
        """
        if offset > self.log_end_offset:
            return
        try:
            while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
                self._drop_last_segment()
            self._segments[-1].cut(offset)
        finally:  # a failure may come after some segments are gone
            self._log_start_offset = min(self._log_start_offset, self.log_end_offset)
            if self.epochs.cut_end(self.log_end_offset):
                self._rewrite_epochs()

    def restart_at(self, offset: int) -> None:
        """Remove all batches, and restart the log at `offset`.

        Raises:
            OSError: the storage is full or broken.
        """
        fresh = self._new_segment(offset)
        old, self._segments, self._base_offsets = self._segments, [], []
        self._add(fresh)
        self._log_start_offset = offset
        self.epochs.clear()
        self._rewrite_epochs()
        for segment in old:
            segment.close()
        self._remove_files(segment.name for segment in old if segment.name != fresh.name)
        self._remove_files(self._snapshots().values())

    def _drop_last_segment(self) -> None:
        segment = self._segments.pop()
        self._base_offsets.pop()
        segment.close()
        self._storage.remove_file(self.folder, segment.name)

    def headers(self) -> Iterator[BatchHeader]:
        """The header of every batch, oldest first."""
        for segment in self._segments:
            yield from segment.headers()

    def _roll(self) -> Segment:
        """Start a new segment. The old one is synced, so that only the last one can be torn after a crash.

        That also removes what a failed write has left at its end.
        """
        self._segments[-1].sync()
        self._unsynced_records = 0
        segment = self._new_segment(self.log_end_offset)
        self._add(segment)
        return segment

    def _new_segment(self, base_offset: int) -> Segment:
        """An empty segment; a file of that name is left where a removal failed, and nothing in it counts."""
        segment = Segment(self._storage, self.folder, base_offset)
        segment.empty_file()
        return segment

    @property
    def unsynced_records(self) -> int:
        """Records appended since the last sync."""
        return self._unsynced_records

    def read(self, offset: int, size_max: int, *, at_least_one: bool, end_offset: int = OFFSET_MAX) -> Content | None:
        """Whole batches from the one that holds `offset` on, out of one segment; None when there is nothing to give.

        Args:
            offset: between `log_start_offset` and `log_end_offset`.
            size_max: limit in bytes.
            at_least_one: give the first batch even when it alone is above the limit.
            end_offset: give no batch that reaches this offset.
        """
        at = self._segment_of(offset)
        for segment in self._segments[at:]:
            if offset < segment.next_offset:
                return segment.content(offset, size_max, at_least_one=at_least_one, end_offset=end_offset)
        return None

    def copy(self, offset: int, size_max: int) -> bytes:
        """Whole batches from the one that holds `offset` on, out of one segment, at least one; empty at the end."""
        for segment in self._segments[self._segment_of(offset) :]:
            if offset < segment.next_offset:
                return segment.copy(offset, size_max)
        return b""

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """How many bytes there are from the batch that holds `offset` to the one that holds `end_offset`."""
        first, last = self._segment_of(offset), self._segment_of(end_offset)
        between = sum(segment.size_bytes for segment in self._segments[first:last])
        found = between + self._segments[last].bytes_before(end_offset) - self._segments[first].bytes_before(offset)
        return max(0, found)

    def _segment_of(self, offset: int) -> int:
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def first_at_or_after(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record whose timestamp is `timestamp_ms` or later; None when there is none.

        Raises:
            CorruptBatchError: the batch that should hold it cannot be decoded.
        """
        start = self._log_start_offset
        for segment in self._segments:
            index = segment.index
            # Rows know the highest timestamp up to them: those behind a removed one may be older than it says.
            for row in range(max(index.row_of_timestamp(timestamp_ms), index.row_of_offset(start)), len(index)):
                found = _first_in_batch(segment.batch(row), timestamp_ms, start)
                if found is not None:
                    return found
        return None

    def latest_timestamp(self) -> TimestampAndOffset | None:
        """The first record that carries the highest timestamp; None when the log is empty.

        Raises:
            CorruptBatchError: the batch that should hold it cannot be decoded.
        """
        highest = [segment.index.max_timestamp for segment in self._segments]
        if self.starts_within_a_segment:
            highest[0] = max(self._timestamps_in_first_segment(), default=-1)
        return None if max(highest) < 0 else self.first_at_or_after(max(highest))

    def _timestamps_in_first_segment(self) -> Iterator[int]:
        """The highest timestamp of each of its batches, as far as the log reaches."""
        start = self._log_start_offset
        segment = self._segments[0]
        for row in range(segment.index.row_of_offset(start), len(segment.index)):
            data = modern(segment.batch(row))
            header = parse_header(data)
            if header.base_offset >= start:
                yield header.max_timestamp
            else:
                yield from (record.timestamp_ms for record in Batch("", 0, data, start_offset=start, check_crcs=False))

    def sync(self) -> None:
        """Flush all writes to disk, so that they survive a crash of the machine."""
        if self._unsynced_records:
            self._segments[-1].sync()
            self._unsynced_records = 0

    def close(self) -> None:
        """Close the files."""
        for segment in self._segments:
            segment.close()


def is_segment(name: str) -> bool:
    """Whether a file is a segment, by its name."""
    return offset_of(name, FileKind.LOG) is not None


def _first_in_batch(data: memoryview, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
    """The first record of a batch, from an offset on, with that timestamp or a later one."""
    data = modern(data)
    header = parse_header(data)
    if header.max_timestamp < timestamp_ms:
        return None
    if header.timestamp_type == TIMESTAMP_LOG_APPEND_TIME or header.is_control:
        return TimestampAndOffset(header.max_timestamp, max(header.base_offset, start_offset))
    for record in Batch("", 0, data, start_offset=max(header.base_offset, start_offset), check_crcs=False):
        if record.timestamp_ms >= timestamp_ms:
            return TimestampAndOffset(record.timestamp_ms, record.offset)
    if header.base_offset < start_offset:
        return None
    # The producer overstated the batch's highest timestamp: start at the batch, so that nothing is skipped.
    return TimestampAndOffset(header.max_timestamp, header.base_offset)
