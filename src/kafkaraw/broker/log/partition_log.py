"""The log of one partition: segments in offset order, appended to at the end, read from anywhere.

It does not validate batches or assign offsets: batches arrive checked, with their base offset patched (see
`broker.partitions.partition`). It does not decide what to delete or to clean: `core.log.retention` and the cleaner do.
Start at `PartitionLog.open`, `append` and `read`.
Source: org.apache.kafka.storage.internals.log.{UnifiedLog, LocalLog}.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from kafkaraw.broker.log.log_loader import LogLoader, StoppedAs
from kafkaraw.broker.log.producer_snapshots import ProducerSnapshots
from kafkaraw.broker.log.segment import Segment, SegmentInfo
from kafkaraw.broker.log.storage import Content, LogStorage
from kafkaraw.broker.turns import Steps, run_to_end
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.log.leader_epochs import EPOCHS_FILE, LeaderEpochs
from kafkaraw.core.log.names import FileKind, OffsetFile, Stage, offset_of
from kafkaraw.core.log.producer_snapshot import ProducerSnapshot
from kafkaraw.core.log.rolling import SegmentSettings, jitter_ms
from kafkaraw.core.log.segment_indexes import aborted_between
from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import dataclass
from kafkaraw.net import Clock
from kafkaraw.protocol import FileSlice
from kafkaraw.records import TIMESTAMP_LOG_APPEND_TIME, Batch, BatchHeader, Columns, modern, parse_header

OFFSET_MAX: Final = (1 << 63) - 1
RECALLED_ENTRIES: Final = 8
"""Entries of the offset index before a snapshot whose batches are read again, see `recent_headers`."""

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
        clock: wall clock.
        settings: those that shape segments.
        producers: returns the state of all producers, for the snapshot at the end of a segment.

    Attributes:
        settings: as given; a changed setting counts from the next append on.
        epochs: the leader epochs.
        is_closed: whether its files are closed: the folder may be another log's by now, and nothing may be done in it.
    """

    def __init__(
        self,
        storage: LogStorage,
        folder: str,
        clock: Clock,
        settings: SegmentSettings | None = None,
        *,
        producers: Callable[[], Iterable[ProducerSnapshot]] = tuple,
    ) -> None:
        self.folder = folder
        self.settings: SegmentSettings = settings or SegmentSettings()
        self.epochs: LeaderEpochs = LeaderEpochs()
        self.is_closed: bool = False
        self._storage = storage
        self._clock = clock
        self._producers = producers
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []
        self._snapshots = ProducerSnapshots(storage, folder)
        self._recovery_point = 0
        self._log_start_offset = 0
        self._synced_names = 0  # segments whose names are durable in the folder
        self._epochs_file_is_stale = False
        self._epochs_file_is_durable = True
        self._epochs_file_exists = False
        self._deleted: list[str] = []
        self._truncated_to: int | None = None
        self._is_changed = False

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self, stopped: StoppedAs | None = None) -> None:
        """Run `opening` to its end immediately."""
        run_to_end(self.opening(stopped))

    def opening(self, stopped: StoppedAs | None = None) -> Steps[None]:
        """Open the log: read its end, or recover it after an unclean stop; see `LogLoader`.

        Args:
            stopped: how the broker stopped that wrote it; None: unclean, and nothing is known.

        Raises:
            OSError: the storage is full or broken.
        """
        stopped = stopped or StoppedAs()
        self._storage.make_folder(self.folder)
        has_epochs = self._load_epochs()
        epochs_are_damaged = not has_epochs and self._storage.file_size(self.folder, EPOCHS_FILE) is not None
        if epochs_are_damaged:  # those of all batches are needed, not only of those behind the recovery point
            stopped = StoppedAs(log_start_offset=stopped.log_start_offset)
        loader = LogLoader(self._storage, self.folder, self.settings, stopped, self._clock.time_ms())
        loaded = yield from loader.loading(self.epochs)
        self.epochs = loaded.epochs
        self._segments = loaded.segments
        self._base_offsets = [segment.base_offset for segment in loaded.segments]
        self._snapshots = loaded.snapshots
        self._log_start_offset = loaded.log_start_offset
        self._recovery_point = loaded.recovery_point
        self._synced_names = len(self._segments) if stopped.was_clean else 0
        self._epochs_file_is_durable = has_epochs
        self._is_changed = bool(loaded.report) or not stopped.was_clean
        self._prepare(self._segments[-1])
        if loaded.epochs_changed or epochs_are_damaged:
            self._rewrite_epochs()
        if loaded.report:
            level = logging.WARNING if loaded.has_lost else logging.INFO
            _logger.log(
                level, "%s: recovered to offset %d (recovery point %d): %s",
                self.folder, self.log_end_offset, stopped.recovery_point, "; ".join(loaded.report),
            )  # fmt: skip

    def _load_epochs(self) -> bool:
        """Read the leader epoch checkpoint; return whether there is a valid one."""
        text = self._storage.read_text(self.folder, EPOCHS_FILE)
        self._epochs_file_exists = text is not None
        self.epochs = LeaderEpochs()
        try:
            self.epochs.load(self.epochs.text() if text is None else text)
        except ValueError as error:
            _logger.warning("%s/%s is damaged, the batches' epochs are used: %s", self.folder, EPOCHS_FILE, error)
            self.epochs.clear()
            return False
        return text is not None

    def close(self) -> None:
        """Close the files as they are: the next broker opens the log as after a kill."""
        self.is_closed = True
        for segment in self._segments:
            segment.close()

    def close_cleanly(self) -> None:
        """Write and sync all that the next broker needs to open the log without reading it, and close the files.

        Raises:
            OSError: the storage is full or broken; the files are closed, and the next broker must recover the log.
        """
        try:
            active = self._segments[-1]
            if self.log_end_offset == 0:  # nothing has to survive: no sync, which takes long for thousands of them
                active.trim()
                active.write_indexes(durable=False)
            elif self._is_changed or self.log_end_offset > self._recovery_point:
                active.end_index()
                active.trim()
                for segment in self._segments:
                    segment.write_indexes(durable=True)
                if self.log_end_offset > max(self._snapshots.offsets, default=0):
                    self._snapshots.write(self.log_end_offset, self._producers())
                self.flush()
        finally:
            self.close()

    # -- what it has -------------------------------------------------------------------------------------------------

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
    def recovery_point(self) -> int:
        """The offset before which everything is synced; a recovery starts at the segment that holds it."""
        return self._recovery_point

    @property
    def size_bytes(self) -> int:
        """Bytes in the log files of all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segments_count(self) -> int:
        """Number of segments, the active one included."""
        return len(self._segments)

    @property
    def segments(self) -> Sequence[SegmentInfo]:
        """The segments, the oldest first, the active one last."""
        last = len(self._segments) - 1
        ends = [*self._base_offsets[1:], self.log_end_offset]
        return [segment.info(ends[at], is_active=at == last) for at, segment in enumerate(self._segments)]

    def reading_timestamps(self) -> Steps[None]:
        """Read the timestamps in `segments` that are not known yet, a segment in each step: each reads two files.

        Raises:
            OSError: the storage is broken.
        """
        for segment in list(self._segments):
            _ = segment.largest_timestamp_ms, segment.first_timestamp_ms
            yield None

    def forget_indexes(self) -> None:
        """Drop the indexes of inactive segments from memory; the next read of a segment loads them from their files."""
        for segment in self._segments[:-1]:
            segment.forget_indexes()

    @property
    def producer_snapshots(self) -> list[int]:
        """The offsets of the producer snapshots."""
        return self._snapshots.offsets

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(self, batch: memoryview, header: BatchHeader) -> None:
        """Write one whole batch whose base offset is `log_end_offset`, or above it: compacted logs have gaps.

        The batch is the last thing that is written: a failure before leaves at most an epoch without batches in the
        epoch file, which `open` removes.

        Args:
            batch: its bytes.
            header: what they begin with.

        Raises:
            OSError: the storage is full or broken; the log is as it was, or ends with a new segment that is empty.
        """
        active, settings = self._segments[-1], self.settings
        if active.size_bytes and active.should_roll(header, settings, self._clock):
            active = self._roll(max(header.base_offset, self.log_end_offset))
        if header.partition_leader_epoch > self.epochs.latest or self._epochs_file_is_stale:
            self.begin_epoch(header.partition_leader_epoch, header.base_offset)
        active.append(batch, header, settings.index_interval_bytes)
        self._is_changed = True  # also if the batch is flushed: its indexes are not written yet

    def roll(self) -> bool:
        """Start a new segment, unless the active one is empty. Return whether it did.

        Raises:
            OSError: the storage is full or broken; the log is as it was.
        """
        if not self._segments[-1].size_bytes:
            return False
        self._roll(self.log_end_offset)
        return True

    def _roll(self, offset: int) -> Segment:
        """Start a new segment, after index files and producer snapshot are written and the old one is synced.

        Args:
            offset: its base offset: that of the first batch, because the offsets in a segment are relative to it.
        """
        active = self._segments[-1]
        active.end_index()
        active.trim()
        active.write_indexes(durable=True)
        self._snapshots.write(offset, self._producers())
        self.flush()
        segment = self._new_segment(offset)
        active.next_offset = offset
        active.forget_indexes()
        self._segments.append(segment)
        self._base_offsets.append(offset)
        _logger.debug("%s: rolled new log segment at offset %d", self.folder, offset)
        return segment

    def _new_segment(self, base_offset: int) -> Segment:
        """An empty segment; files of that name are left where a removal failed, and nothing in them counts."""
        for kind in FileKind:
            if kind is not FileKind.PRODUCER_SNAPSHOT:
                self._storage.remove_file(self.folder, OffsetFile(base_offset, kind).name)
        segment = Segment(self._storage, self.folder, base_offset, created_ms=self._clock.time_ms())
        self._prepare(segment)
        return segment

    def _prepare(self, segment: Segment) -> None:
        """Reserve the space of a new active segment, and draw its jitter."""
        segment.jitter_ms = jitter_ms(self.settings, self.folder, segment.base_offset)
        if self.settings.preallocate and not segment.size_bytes:
            segment.allocate(self.settings.segment_bytes)

    @property
    def unflushed_messages(self) -> int:
        """Number of offsets that were appended since the last sync."""
        return self.log_end_offset - self._recovery_point

    def flush(self, offset: int | None = None) -> None:
        """Make the batches before an offset survive a crash of the machine, and move the recovery point there.

        Args:
            offset: None for the log end offset.

        Raises:
            OSError: the storage is full or broken; the recovery point is as it was.
        """
        offset = self.log_end_offset if offset is None else offset
        if offset <= self._recovery_point and self._synced_names >= len(self._segments):
            return
        for segment in self._segments[self._segment_of(self._recovery_point) : self._segment_of(offset) + 1]:
            segment.sync()
        if not self._epochs_file_is_durable:
            self._write_epochs(self.epochs, durable=True)
        if self._synced_names < len(self._segments):
            self._storage.sync_folder(self.folder)
            self._synced_names = len(self._segments)
        self._recovery_point = max(self._recovery_point, offset)

    def add_aborted_transaction(self, aborted: AbortedTransaction) -> None:
        """Add an entry to the transaction index, after the marker was appended that has aborted the transaction."""
        self._segments[self._segment_of(aborted.last_offset)].add_aborted_transaction(aborted)

    # -- leader epochs -----------------------------------------------------------------------------------------------

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

    def _write_epochs(self, epochs: LeaderEpochs, *, durable: bool = False) -> None:
        """Write the epochs to their file. Without a file, a first epoch waits for the first sync: the batches have it.

        Raises:
            OSError: the storage is full or broken.
        """
        if durable or self._epochs_file_exists or epochs.rows != [(0, 0)] or self._epochs_file_is_stale:
            self._epochs_file_is_stale = self._epochs_file_exists = True
            self._storage.write_text(self.folder, EPOCHS_FILE, epochs.text(), durable=durable)
        self._epochs_file_is_stale = False
        self._epochs_file_is_durable = durable

    def _rewrite_epochs(self) -> None:
        """Write epochs after rows were removed; should that fail, the next `append` tries again before its batch."""
        self._epochs_file_is_stale = True
        try:
            self._write_epochs(self.epochs)
        except OSError as error:
            _logger.warning("%s: the leader epochs cannot be written, trying again later: %s", self.folder, error)

    # -- deleting and replacing --------------------------------------------------------------------------------------

    def move_start(self, offset: int) -> bool:
        """Increase the log start offset. Segments before it are left to retention.

        Args:
            offset: at most `log_end_offset`; no effect if the log already starts there or later.

        Returns:
            whether the log start offset has changed.
        """
        if offset <= self._log_start_offset:
            return False
        self._log_start_offset = offset
        if self.epochs.cut_start(offset):
            self._rewrite_epochs()
        return True

    def delete_oldest_segments(self, count: int) -> list[str]:
        """Remove segments from the head of the log; its start moves behind them. Never the active one: `roll` before.

        Args:
            count: how many.

        Returns:
            the names of their files, renamed to `.deleted`: see `take_deleted_files`.

        Raises:
            ValueError: the log has fewer segments before the active one.
            OSError: the storage is broken; the segments renamed before are removed from the log.
        """
        if not 0 <= count < len(self._segments):
            raise ValueError(f"{self.folder}: {count} of {len(self._segments)} segments cannot be deleted")
        before = len(self._deleted)
        for _ in range(count):
            self.move_start(self._base_offsets[1])
            self._delete(0)
        return self._deleted[before:]

    def _delete(self, at: int) -> None:
        """Rename the files of a segment and its producer snapshot, and forget it."""
        segment = self._segments[at]
        names = segment.change_stage(Stage.DELETED)
        self._deleted += names
        segment.close()
        del self._segments[at], self._base_offsets[at]
        if at < self._synced_names:
            self._synced_names -= 1
        self._deleted += self._snapshots.mark_deleted(segment.base_offset)

    def take_deleted_files(self) -> list[str]:
        """Return the `.deleted` files since the last call; the caller removes them after `file.delete.delay.ms`."""
        taken, self._deleted = self._deleted, []
        return taken

    def remove_files(self, names: Iterable[str]) -> None:
        """Remove files that were deleted; one that is gone is no error.

        Raises:
            OSError: the storage is broken; the next start removes the rest.
        """
        for name in names:
            self._storage.remove_file(self.folder, name)

    def take_truncation(self) -> int | None:
        """Return the lowest offset to which the log was truncated since the last call, for the cleaner's checkpoint."""
        taken, self._truncated_to = self._truncated_to, None
        return taken

    def segment_at(self, base_offset: int) -> Segment | None:
        """Return the segment with a base offset, for the cleaner, which reads it whole; None if there is none."""
        at = self._segment_of(base_offset)
        return self._segments[at] if self._base_offsets[at] == base_offset else None

    def create_cleaned_segment(self, base_offset: int) -> Segment:
        """Return an empty segment whose files end in `.cleaned`, to be filled and given to `replace_segments`.

        Raises:
            OSError: the storage is full or broken.
        """
        for kind in FileKind:
            self._storage.remove_file(self.folder, OffsetFile(base_offset, kind, Stage.CLEANED).name)
        return Segment(self._storage, self.folder, base_offset, stage=Stage.CLEANED, created_ms=self._clock.time_ms())

    def replace_segments(self, new: Sequence[Segment], old: Collection[int]) -> None:
        """Put cleaned segments in the place of others, in one step even if the broker is killed meanwhile.

        The new segments are synced and renamed from `.cleaned` to `.swap`, the last one first: a start after a kill
        removes them unless all of them are `.swap`. From then on it completes what this method does: the old segments
        become `.deleted`, the new ones lose their suffix.

        Args:
            new: those of `create_cleaned_segment`, in the order of their offsets.
            old: base offsets of the segments that they replace, the active one not among them; those that were deleted
                meanwhile are left out.

        Raises:
            OSError: the storage is full or broken. If no old segment was renamed yet, the log is as it was.
        """
        for segment in new:
            segment.end_index()
            segment.write_indexes(durable=True)
            segment.sync()
        for segment in reversed(new):
            segment.change_stage(Stage.SWAP)
        self._storage.sync_folder(self.folder)
        in_place = {segment.base_offset for segment in new}
        replaced = [segment for segment in self._segments[:-1] if segment.base_offset in old]
        for segment in replaced:
            self._deleted += segment.change_stage(Stage.DELETED)
        for segment in new:
            segment.change_stage(Stage.LIVE)
        kept = [segment for segment in self._segments if segment not in replaced]
        self._segments = sorted([*kept, *new], key=lambda segment: segment.base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        for segment, end in zip(self._segments, self._base_offsets[1:], strict=False):
            segment.next_offset = end
        for segment in replaced:
            segment.close()
            if segment.base_offset not in in_place:
                self._deleted += self._snapshots.mark_deleted(segment.base_offset)
        self._storage.sync_folder(self.folder)
        self._synced_names = len(self._segments)

    def truncate_to(self, offset: int) -> None:
        """Truncate the log at the batch that contains `offset`, and remove epochs that then have no batches.

        A log that starts behind `offset` restarts there, as in Kafka: it must not end behind the log of its leader.

        Raises:
            OSError: the storage is broken.
        """
        if offset > self.log_end_offset:
            return
        if offset < self._base_offsets[0]:
            self.restart_at(offset)
            return
        count = len(self._segments)
        try:
            while len(self._segments) > 1 and self._base_offsets[-1] > offset:
                self._delete(len(self._segments) - 1)
            self._segments[-1].truncate_to(offset)
            self._snapshots.remove(lambda snapshot: snapshot > self.log_end_offset)
            # A crash must not bring back batches or segments in front of what is appended from now on.
            self._segments[-1].sync()
            if len(self._segments) < count:
                self._storage.sync_folder(self.folder)
        finally:  # a failure may come after some segments are gone
            self._segments[-1].find_end()
            self._is_changed = True
            self._note_truncation(offset)
            self._recovery_point = min(self._recovery_point, self.log_end_offset)
            self._log_start_offset = min(self._log_start_offset, self.log_end_offset)
            if self.epochs.cut_end(self.log_end_offset):
                self._rewrite_epochs()

    def _note_truncation(self, offset: int) -> None:
        self._truncated_to = offset if self._truncated_to is None else min(offset, self._truncated_to)

    def restart_at(self, offset: int) -> None:
        """Remove all batches, and restart the log at `offset`.

        Raises:
            OSError: the storage is full or broken.
        """
        self._is_changed = True
        self._note_truncation(offset)
        for segment in reversed(self._segments):
            if segment.base_offset == offset:
                self._deleted += segment.change_stage(Stage.DELETED)
        fresh = self._new_segment(offset)
        old, self._segments, self._base_offsets = self._segments, [fresh], [offset]
        self._log_start_offset = self._recovery_point = offset
        self._synced_names = 0
        self.epochs.clear()
        self._rewrite_epochs()
        for segment in old:
            if segment.stage is not Stage.DELETED:
                self._deleted += segment.change_stage(Stage.DELETED)
            segment.close()
        self._snapshots.remove(lambda snapshot: True)
        self._storage.sync_folder(self.folder)
        self._synced_names = 1

    # -- producer state ----------------------------------------------------------------------------------------------

    def newest_snapshot(self) -> tuple[int, list[ProducerSnapshot]]:
        """Return the last producer snapshot and its offset; without one, no producers and the first offset.

        Raises:
            OSError: the storage is broken.
        """
        return self._snapshots.newest(self.log_end_offset) or (self._base_offsets[0], [])

    def headers(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview | None]]:
        """Yield the header of every batch from the one that holds `offset` on; of control batches, also their bytes."""
        for segment in self._segments[self._segment_of(offset) :]:
            for position, header in segment.headers(offset):
                yield header, segment.read(position, header.size) if header.is_control else None

    def recent_headers(self, offset: int) -> Iterator[BatchHeader]:
        """Yield the headers of the last batches before an offset: as many as the last entries of the offset index tell.

        A snapshot has the last batch of each producer only. A producer may have five in flight, and send them
        all again after a restart.
        """
        at = self._segment_of(offset - 1)
        first, entries = at, len(self._segments[at].offset_index)
        while first > 0 and entries < RECALLED_ENTRIES:
            first -= 1
            entries += len(self._segments[first].offset_index) + 1  # the first batch of a segment has no entry
        for segment in self._segments[first : at + 1]:
            start = segment.offset_index.offset_of_row(len(segment.offset_index) - RECALLED_ENTRIES)
            for _, header in segment.headers(start):
                if header.base_offset >= offset:
                    return
                yield header

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, size_max: int, *, at_least_one: bool, end_offset: int = OFFSET_MAX) -> Content | None:
        """Whole batches from the one that holds `offset` on, out of one segment; None when there is nothing to give.

        Args:
            offset: between `log_start_offset` and `log_end_offset`.
            size_max: limit in bytes.
            at_least_one: give the first batch even when it alone is above the limit.
            end_offset: give no batch that reaches this offset.
        """
        segment = self._segment_with(offset)
        if segment is None:
            return None
        return segment.content(offset, size_max, at_least_one=at_least_one, end_offset=end_offset)

    def copy(self, offset: int, size_max: int) -> bytes:
        """Whole batches from the one that holds `offset` on, out of one segment, at least one; empty at the end."""
        segment = self._segment_with(offset)
        return b"" if segment is None else segment.copy(offset, size_max)

    def _segment_with(self, offset: int) -> Segment | None:
        """Return the segment with the first batch that ends at an offset or behind it; None at the end of the log."""
        segments = self._segments
        if offset >= segments[-1].base_offset:
            return segments[-1] if offset < segments[-1].next_offset else None
        for at in range(self._segment_of(offset), len(segments)):
            segment = segments[at]
            if segment.position_of(offset) < segment.size_bytes:
                return segment
        return None

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """How many bytes there are from the batch that holds `offset` to the one that holds `end_offset`.

        If the log cannot be read there, the result is 0: a read tells the error.
        """
        first, last = self._segment_of(offset), self._segment_of(end_offset)
        try:
            start, end = self._segments[first].position_of(offset), self._segments[last].position_of(end_offset)
        except (OSError, CorruptBatchError) as error:
            _logger.warning("%s cannot be read between %d and %d: %s", self.folder, offset, end_offset, error)
            return 0
        between = sum(segment.size_bytes for segment in self._segments[first:last])
        return max(0, between + end - start)

    def _segment_of(self, offset: int) -> int:
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def aborted_transactions(self, offset: int, size_bytes: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in what `read` has returned; a few more may be among them.

        Args:
            offset: the offset that was read.
            size_bytes: the size of the content.
        """
        at = self._segment_of(offset)
        if not any(segment.has_aborted_transactions for segment in self._segments[at:]):
            return []
        served = self._segment_with(offset)
        if served is None:
            return []
        end_offset = served.upper_bound_offset(served.position_of(offset), size_bytes) or served.next_offset
        found: list[AbortedTransaction] = []
        for segment in self._segments[at:]:
            part = aborted_between(segment.aborted_transactions, offset, end_offset)
            found += part.transactions
            if part.is_complete:
                break
        return found

    def first_at_or_after(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record whose timestamp is `timestamp_ms` or later; None when there is none.

        Raises:
            CorruptBatchError: the batch that should hold it cannot be decoded.
        """
        start = self._log_start_offset
        for segment in self._segments[self._segment_of(start) :]:
            if segment.largest_timestamp_ms < timestamp_ms:
                continue
            for place in segment.places_from_timestamp(timestamp_ms, start):
                found = _first_in_batch(segment.batch(place), timestamp_ms, start)
                if found is not None:
                    segment.remember(found.offset, place.start)
                    return found
        return None

    def latest_timestamp(self) -> TimestampAndOffset | None:
        """The first record that carries the highest timestamp; None when the log is empty.

        Raises:
            CorruptBatchError: the batch that should hold it cannot be decoded.
        """
        at = self._segment_of(self._log_start_offset)
        highest = [segment.largest_timestamp_ms for segment in self._segments[at:]]
        if self._log_start_offset > self._base_offsets[at]:
            highest[0] = max(self._timestamps_behind_start(self._segments[at]), default=-1)
        return None if max(highest) < 0 else self.first_at_or_after(max(highest))

    def _timestamps_behind_start(self, segment: Segment) -> Iterator[int]:
        """The highest timestamp of each batch of the segment in which the log starts, as far as the log reaches."""
        start = self._log_start_offset
        for place in segment.places(segment.position_of(start)):
            data = modern(segment.batch(place))
            header = parse_header(data)
            if header.base_offset >= start:
                yield header.max_timestamp
            else:
                yield from (record.timestamp_ms for record in Batch("", 0, data, start_offset=start, check_crcs=False))


def is_segment(name: str) -> bool:
    """Whether a file is a segment, by its name."""
    return offset_of(name, FileKind.LOG) is not None


def _first_in_batch(data: memoryview, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
    """The first record of a batch, from an offset on, with that timestamp or a later one."""
    data = modern(data)
    header = parse_header(data)
    if header.max_timestamp < timestamp_ms or not header.records_count:  # compaction leaves empty batches
        return None
    if header.timestamp_type == TIMESTAMP_LOG_APPEND_TIME or header.is_control:
        return TimestampAndOffset(header.max_timestamp, max(header.base_offset, start_offset))
    columns = Columns(frozenset({"offset", "timestamp"}), header.records_count)
    Batch("", 0, data, start_offset=max(header.base_offset, start_offset), check_crcs=False).fill(columns)
    assert columns.offset is not None
    assert columns.timestamp is not None
    for offset, timestamp in zip(columns.offset, columns.timestamp, strict=True):
        if timestamp >= timestamp_ms:
            return TimestampAndOffset(timestamp, offset)
    if header.base_offset < start_offset:
        return None
    # The producer overstated the batch's highest timestamp: start at the batch, so that nothing is skipped.
    return TimestampAndOffset(header.max_timestamp, header.base_offset)
