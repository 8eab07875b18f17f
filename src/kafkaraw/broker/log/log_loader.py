"""Opening the log of a partition: what an unclean stop has left is completed, cut off and rebuilt.

After a clean shutdown, index files are trusted and only the end of the active segment is read. After an unclean stop,
the segments from the recovery point on are read from end to end: batches are verified, indexes rebuilt, the log is
truncated at the first byte that is no valid batch. Start at `LogLoader.loading`; `core.log.loading` and
`core.log.recovery` decide, this module executes.
Source: org.apache.kafka.storage.internals.log.LogLoader.
"""

from __future__ import annotations

import logging
from typing import Final

from kafkaraw.broker.log.producer_snapshots import ProducerSnapshots
from kafkaraw.broker.log.segment import WINDOW_BYTES, Segment
from kafkaraw.broker.log.storage import LogStorage
from kafkaraw.broker.turns import Steps
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.leader_epochs import LeaderEpochs
from kafkaraw.core.log.loading import finish_renames, stray_snapshots
from kafkaraw.core.log.names import FileKind, OffsetFile, Stage, parse_file
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.core.log.recovery import SegmentRecovery
from kafkaraw.core.log.rolling import SegmentSettings
from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import dataclass, field

_INDEXES: Final = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
_logger = logging.getLogger("kafkaraw.broker")


@dataclass(frozen=True, slots=True)
class StoppedAs:
    """How the broker stopped that wrote the log.

    Attributes:
        was_clean: it left the marker of a clean shutdown.
        recovery_point: the recovery point of the checkpoint: everything before it was synced.
        log_start_offset: the log start offset of the checkpoint.
    """

    was_clean: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0


@dataclass(slots=True)
class LoadedLog:
    """An open log.

    Attributes:
        segments: in the order of their offsets, at least one.
        snapshots: the producer snapshots.
        epochs: the leader epochs.
        epochs_changed: whether the leader epochs differ from their file.
        recovery_point: where the next recovery would start.
        log_start_offset: the first offset that can be read.
        report: what was recovered, for the log line; empty if nothing was.
        has_lost: whether bytes were cut off.
    """

    segments: list[Segment]
    snapshots: ProducerSnapshots
    epochs: LeaderEpochs
    epochs_changed: bool = False
    recovery_point: int = 0
    log_start_offset: int = 0
    report: list[str] = field(default_factory=list)
    has_lost: bool = False


class LogLoader:
    """Opens one log.

    Args:
        storage: where the files are.
        folder: the partition's folder; it exists.
        settings: those that shape segments.
        stopped: how the broker stopped that wrote the log.
        now_ms: wall clock.
    """

    def __init__(
        self, storage: LogStorage, folder: str, settings: SegmentSettings, stopped: StoppedAs, now_ms: int
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._settings = settings
        self._stopped = stopped
        self._now_ms = now_ms
        self._files: dict[str, OffsetFile] = {}
        self._loaded = LoadedLog([], ProducerSnapshots(storage, folder), LeaderEpochs())

    def loading(self, epochs: LeaderEpochs) -> Steps[LoadedLog]:
        """Open the log.

        Args:
            epochs: those of the checkpoint; the epochs of recovered batches are added.

        Raises:
            OSError: the storage is full or broken.
        """
        loaded, stopped = self._loaded, self._stopped
        loaded.epochs = epochs
        before = epochs.rows
        self._finish_renames()
        self._remove_orphans()
        loaded.snapshots = ProducerSnapshots(self._storage, self._folder, self._offsets(FileKind.PRODUCER_SNAPSHOT))
        damaged = yield from self._opening_segments()
        yield from self._recover(damaged)
        self._check_start()
        end = loaded.segments[-1].next_offset
        loaded.log_start_offset = max(stopped.log_start_offset, loaded.segments[0].base_offset)
        loaded.recovery_point = end if stopped.was_clean and not damaged else min(stopped.recovery_point, end)
        epochs.cut_end(end)
        epochs.cut_start(loaded.log_start_offset)
        loaded.epochs_changed = epochs.rows != before
        bases = [segment.base_offset for segment in loaded.segments]
        strays = frozenset(stray_snapshots(loaded.snapshots.offsets, bases, end))
        loaded.snapshots.remove(strays.__contains__)
        return loaded

    def _offsets(self, kind: FileKind) -> list[int]:
        return sorted(file.offset for file in self._files.values() if (file.kind, file.stage) == (kind, Stage.LIVE))

    def _finish_renames(self) -> None:
        """Complete the replacement and the deletion of segments."""
        found = ((name, parse_file(name)) for name in self._storage.files(self._folder))
        self._files = {name: file for name, file in found if file is not None}
        if all(file.stage is Stage.LIVE for file in self._files.values()):
            return
        renames = finish_renames(self._files.values(), self._next_offset)
        for name in renames.removed:
            self._storage.remove_file(self._folder, name)
        for name, source in renames.names.items():
            if name != source:
                _logger.info("%s: recovering file %s by renaming it to %s", self._folder, source, name)
                self._storage.rename_file(self._folder, source, name)
        if renames.removed or any(name != source for name, source in renames.names.items()):
            self._storage.sync_folder(self._folder)
        self._files = {name: file for name in renames.names if (file := parse_file(name)) is not None}

    def _next_offset(self, file: OffsetFile) -> int:
        segment = Segment(self._storage, self._folder, file.offset, stage=file.stage)
        try:
            segment.find_end()
            return segment.next_offset
        finally:
            segment.close()

    def _remove_orphans(self) -> None:
        """Remove index files without a log file."""
        bases = frozenset(self._offsets(FileKind.LOG))
        for kind in _INDEXES:
            for offset in self._offsets(kind):
                if offset not in bases:
                    name = OffsetFile(offset, kind).name
                    _logger.warning("%s: found an orphaned index file %s, with no log file", self._folder, name)
                    self._storage.remove_file(self._folder, name)
                    self._files.pop(name, None)

    def _opening_segments(self) -> Steps[set[int]]:
        """Open the segments; return the base offsets of those whose indexes have to be rebuilt."""
        segments = self._loaded.segments
        damaged = set()
        for base in self._offsets(FileKind.LOG):
            segment = Segment(self._storage, self._folder, base, created_ms=self._now_ms)
            if segments:
                segments[-1].next_offset = base
            segments.append(segment)
            yield None
            missing = [kind for kind in _INDEXES[:2] if OffsetFile(base, kind).name not in self._files]
            if missing and segment.size_bytes:
                damaged.add(base)
                continue
            try:
                _ = segment.aborted_transactions
            except DamagedFileError as error:
                _logger.warning("Found a corrupted index file, rebuilding index files: %s", error)
                damaged.add(base)
        for segment in segments:
            # Those of a segment that was not complete at the recovery point were in memory when the broker stopped.
            is_complete = segment is not segments[-1] and segment.next_offset <= self._stopped.recovery_point
            if segment.base_offset in damaged and (self._stopped.was_clean or is_complete):
                _logger.error(
                    "%s: the index files of log file %s are missing or damaged, rebuilding them",
                    self._folder, segment.name,
                )  # fmt: skip
        return damaged

    def _recover(self, damaged: set[int]) -> Steps[None]:
        """Recover the segments that need it, until one is truncated; the segments behind that one are removed."""
        segments, stopped = self._loaded.segments, self._stopped
        first = len(segments)
        if not stopped.was_clean:
            behind = [at for at, segment in enumerate(segments) if segment.base_offset > stopped.recovery_point]
            first = max(0, (behind[0] if behind else len(segments)) - 1)
        for at, segment in enumerate(list(segments)):
            is_last = at == len(segments) - 1
            needs = at >= first or segment.base_offset in damaged
            if not needs and is_last:
                needs = not segment.find_end()
                damaged |= {segment.base_offset} if needs else set()
            if not needs:
                continue
            is_truncated = yield from self._recover_segment(segment, is_last=is_last)
            if is_truncated and not is_last:
                self._remove_behind(at)
                return
            if not is_last:
                segment.next_offset = segments[at + 1].base_offset

    def _recover_segment(self, segment: Segment, *, is_last: bool) -> Steps[bool]:
        """Verify the batches of a segment and rebuild its indexes; return whether it had to be truncated."""
        if not segment.size_bytes:
            self._remove_indexes(segment.base_offset)
            segment.find_end()
            return False
        base, size = segment.base_offset, segment.size_bytes
        producers = yield from self._producers_at(segment)
        recovery = SegmentRecovery(
            f"{self._folder}/{segment.name}",
            base,
            size,
            producers,
            self._loaded.epochs,
            index_interval_bytes=self._settings.index_interval_bytes,
            keeps_batches=False,
        )
        window = WINDOW_BYTES
        while recovery.segment.damage is None and recovery.segment.valid_bytes < size:
            position = recovery.segment.valid_bytes
            read = recovery.add(segment.read(position, min(window, size - position)))
            yield None
            if not read and position + window >= size:
                break
            window = WINDOW_BYTES if read else window * 2  # a batch may be larger than a window
        found = recovery.finish()
        segment.take_recovered(found)
        if is_last:
            self._remove_indexes(base)
        else:
            segment.write_indexes(durable=True)
        if found.next_offset > max(self._loaded.snapshots.offsets, default=0):
            self._loaded.snapshots.write(found.next_offset, producers.snapshots())
        if found.damage is None:
            self._loaded.report.append(f"segment {base}: {found.batches} batches")
            return False
        self._loaded.has_lost = True
        self._loaded.report.append(
            f"segment {base}: truncated to offset {found.next_offset}, {size - found.valid_bytes} bytes lost at "
            f"position {found.valid_bytes}: {found.damage.problem}"
        )
        return True

    def _remove_indexes(self, base: int) -> None:
        """Remove the index files of the active segment: they are older than its batches, and written when it rolls."""
        for kind in _INDEXES:
            name = OffsetFile(base, kind).name
            if name in self._files:
                self._storage.remove_file(self._folder, name)
                self._files.pop(name, None)

    def _producers_at(self, segment: Segment) -> Steps[ProducerState]:
        """Return the producer state at the start of a segment: of the snapshot before it, and the batches between."""
        snapshot = self._loaded.snapshots.newest(segment.base_offset)
        offset, producers = (0, ProducerState()) if snapshot is None else (snapshot[0], ProducerState(snapshot[1]))
        for earlier in self._loaded.segments:
            if earlier is segment:
                break
            if earlier.next_offset > offset:
                _follow(earlier, offset, producers)
                yield None
        return producers

    def _remove_behind(self, at: int) -> None:
        """Remove the segments behind a truncated one: readers would not notice the gap."""
        segments = self._loaded.segments
        for segment in reversed(segments[at + 1 :]):
            _logger.error("%s/%s: removed, because the segment before it is damaged", self._folder, segment.name)
            self._loaded.report.append(f"segment {segment.base_offset}: removed, {segment.size_bytes} bytes lost")
            self._remove(segment)
            segments.pop()

    def _remove(self, segment: Segment) -> None:
        segment.close()
        for name in segment.change_stage(Stage.DELETED):
            self._storage.remove_file(self._folder, name)

    def _check_start(self) -> None:
        """Start an empty log where the log start offset is, if the log ends before it, or there is no segment."""
        loaded, start = self._loaded, self._stopped.log_start_offset
        if loaded.segments and loaded.segments[-1].next_offset < start:
            end = loaded.segments[-1].next_offset
            _logger.warning(
                "%s: deleting all segments because the log end offset (%d) is smaller than the log start offset (%d)",
                self._folder, end, start,
            )  # fmt: skip
            for segment in reversed(loaded.segments):
                self._remove(segment)
            loaded.segments.clear()
            loaded.epochs.clear()
            loaded.snapshots.remove(lambda offset: True)
        if not loaded.segments:
            loaded.segments.append(Segment(self._storage, self._folder, start, created_ms=self._now_ms))


def _follow(segment: Segment, offset: int, producers: ProducerState) -> None:
    """Follow the batches of a segment from an offset on; where it is damaged, no later segment is recovered."""
    try:
        for position, header in segment.headers(offset):
            if header.producer_id >= 0:
                producers.add(header, segment.read(position, header.size) if header.is_control else memoryview(b""))
    except CorruptBatchError as error:
        _logger.warning("%s/%s: the producer state cannot be read: %s", segment.folder, segment.name, error)
