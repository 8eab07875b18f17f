"""One round of the cleaner in the log of a partition: reads its segments, and replaces them with cleaned ones.

The decisions are those of `core.log.cleaner`; this module moves bytes. It runs in steps, between which the partition
is read and appended to, and may be truncated or deleted: then the round ends with `LogCleaningAbortedError`, and the
log is as it was, but for the groups that are complete. Start at `cleaning`.

Source: org.apache.kafka.storage.internals.log.Cleaner.{doClean, cleanSegments, buildOffsetMap}.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from kafkaraw.broker.log.partition_log import PartitionLog
from kafkaraw.broker.log.segment import Segment
from kafkaraw.broker.turns import Steps
from kafkaraw.core.log.batches import iter_batches
from kafkaraw.core.log.cleaned_transactions import CleanedTransactions
from kafkaraw.core.log.cleaner import BatchCleaner, CleanerStats, CleaningRound, KeyIndexer
from kafkaraw.core.log.compaction import LogToClean, SegmentToClean, groups_to_clean, segments_between
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.log.segment_indexes import aborted_between
from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import dataclass
from kafkaraw.records import BatchHeader, parse_header
from kafkaraw.records.compaction import OffsetMap
from kafkaraw.records.header import LENGTH_PREFIX_SIZE

SYNC_BYTES: Final = 8 << 20
"""Bytes of a cleaned segment between two syncs, so that no sync waits long for the disk."""
_LENGTH: Final = struct.Struct(">8xi")


class LogCleaningAbortedError(Exception):
    """The log was truncated or deleted while it was cleaned; the cleaner tries again later."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a round.

    Attributes:
        segment_bytes: `segment.bytes`.
        index_bytes: `segment.index.bytes`.
        index_interval_bytes: `index.interval.bytes`.
        io_buffer_bytes: bytes that are read at once.
    """

    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int
    io_buffer_bytes: int


def segments_to_clean(log: PartitionLog) -> list[SegmentToClean]:
    """Return what the cleaner has to know of the segments of a log, without the sizes of their indexes."""
    return [
        SegmentToClean(one.base_offset, one.size_bytes, one.largest_timestamp_ms, one.first_timestamp_ms)
        for one in log.segments
    ]


def cleaning(
    log: PartitionLog,
    plan: LogToClean,
    offsets: OffsetMap,
    cleaning_round: CleaningRound,
    limits: Limits,
    check: Callable[[], None],
    stats: CleanerStats,
) -> Steps[int]:
    """Run a round.

    Args:
        log: the log; its cleanable section is not empty.
        plan: what is dirty.
        offsets: the map to fill.
        cleaning_round: what holds for all of its batches.
        limits: what bounds it.
        check: called before each read; raises `LogCleaningAbortedError` if the log is not to be cleaned any more.
        stats: counts; updated.

    Returns:
        the first offset that is dirty now.

    Raises:
        LogCleaningAbortedError: the log was truncated or deleted.
        CorruptBatchError: a batch is damaged.
        BatchTooLargeError: a batch is too large when decompressed.
        DamagedFileError: a length in a log file is impossible.
        OSError: the storage is full or broken.
    """
    run = _Run(log, offsets, cleaning_round, limits, check, stats)
    yield from run.reading_aborted_transactions()
    yield from run.building_offset_map(plan)
    next_dirty_offset = offsets.latest_offset + 1
    yield from run.cleaning_segments(plan, next_dirty_offset)
    return next_dirty_offset


class _Run:
    """One round. The segments are those of its start: each is compared with the log's before it is read."""

    def __init__(
        self,
        log: PartitionLog,
        offsets: OffsetMap,
        cleaning_round: CleaningRound,
        limits: Limits,
        check: Callable[[], None],
        stats: CleanerStats,
    ) -> None:
        self._log = log
        self._offsets = offsets
        self._limits = limits
        self._may_go_on = check
        self._stats = stats
        self._cleaner = BatchCleaner(offsets, cleaning_round, CleanedTransactions(), stats)
        self._infos = segments_to_clean(log)
        self._segments = {one.base_offset: log.segment_at(one.base_offset) for one in self._infos}
        self._following = {one.base_offset: later.base_offset for one, later in pairwise(self._infos)}
        self._aborted: list[AbortedTransaction] = []

    def _check(self, infos: Iterable[SegmentToClean]) -> None:
        """Check that nothing has changed.

        Raises:
            LogCleaningAbortedError: a segment was cut, deleted or replaced.
        """
        self._may_go_on()
        for info in infos:
            segment = self._log.segment_at(info.base_offset)
            if segment is None or segment is not self._segments[info.base_offset]:
                raise LogCleaningAbortedError(f"the segment at {info.base_offset} was deleted or replaced")
            if segment.size_bytes != info.size_bytes:
                raise LogCleaningAbortedError(f"the segment at {info.base_offset} was truncated")

    def _segment(self, info: SegmentToClean) -> Segment:
        segment = self._segments[info.base_offset]
        assert segment is not None
        return segment

    def reading_aborted_transactions(self) -> Steps[None]:
        """Read the transaction indexes. Transactions that end later have no records in the section to clean."""
        for info in self._infos:
            self._check((info,))
            self._aborted += self._segment(info).aborted_transactions
            yield None

    def _aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with offsets in a range; their markers may be behind it."""
        return aborted_between(self._aborted, start, end).transactions

    def building_offset_map(self, plan: LogToClean) -> Steps[None]:
        """Read the keys of the dirty section into the map, until it is full."""
        start, end = plan.first_dirty_offset, plan.end_offset
        indexer = KeyIndexer(self._offsets, start, self._aborted_between(start, end))
        dirty = segments_between(self._infos, start, end)
        for at, info in enumerate(dirty):
            following = dirty[at + 1].base_offset if at + 1 < len(dirty) else end
            for header, wire in self._batches(info, self._segment(info).position_of(start), (info, dirty[-1])):
                indexer.add(header, wire)
                self._stats.indexed_bytes += len(wire)
                if indexer.is_full:
                    return
                yield None
            indexer.end_segment(following)

    def _batches(
        self, info: SegmentToClean, position: int, watched: Sequence[SegmentToClean]
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches of a segment, from a position on, read piece by piece."""
        size = self._limits.io_buffer_bytes
        while position < info.size_bytes:
            self._check(watched)
            left = info.size_bytes - position
            piece = self._segment(info).read(position, min(size, left))
            used = 0
            for at, header in iter_batches(piece, f"{self._log.folder}/{self._segment(info).name}"):
                used = at + header.size
                yield header, piece[at:used]
            if not used:
                size = self._size_of_first(info, position, piece, left)
            position += used

    def _size_of_first(self, info: SegmentToClean, position: int, piece: memoryview, left: int) -> int:
        """Return the size of a batch that is larger than what was read."""
        size = _LENGTH.unpack_from(piece)[0] + LENGTH_PREFIX_SIZE if len(piece) >= LENGTH_PREFIX_SIZE else 0
        if not len(piece) < size <= left:
            name = self._segment(info).name
            raise CorruptBatchError(
                f"{self._log.folder}/{name}: byte {position}: a batch of {size} bytes, {left} are left; stop "
                "the broker, then run `kafkaraw log repair DIR --yes`, which truncates the log here"
            )
        return size

    def cleaning_segments(self, plan: LogToClean, end_offset: int) -> Steps[None]:
        """Clean all segments that begin before an offset, group by group."""
        sources = [
            SegmentToClean(
                info.base_offset,
                info.size_bytes,
                offset_index_bytes=self._segment(info).offset_index.size_bytes,
                time_index_bytes=self._segment(info).time_index.size_bytes,
            )
            for info in segments_between(self._infos, 0, end_offset)
        ]
        limits = self._limits
        last = sources[-1]
        for group in groups_to_clean(sources, limits.segment_bytes, limits.index_bytes, plan.end_offset):
            # The map has offsets of all sources: if the last one is truncated, none may be cleaned by it.
            # Checking all of the group at each read would be quadratic: retention deletes the first one,
            # and a truncation changes the last one, and may remove others.
            watched = (group[0], group[-1], last)
            self._check(watched)  # the step before ended a turn, and the folder may be gone
            cleaned = self._log.create_cleaned_segment(group[0].base_offset)
            try:
                yield from self._filling(cleaned, group, watched)
                self._check(watched)
            except BaseException:
                cleaned.close()
                self._log.remove_files(cleaned.file_names())
                raise
            self._log.replace_segments([cleaned], [one.base_offset for one in group])
            yield True

    def _filling(
        self, cleaned: Segment, group: Sequence[SegmentToClean], watched: Sequence[SegmentToClean]
    ) -> Steps[None]:
        synced = 0
        for info in group:
            segment = self._segment(info)
            aborted = self._aborted_between(info.base_offset, self._following[info.base_offset])
            self._cleaner.begin_segment(aborted, segment.created_ms)
            for header, wire in self._batches(info, 0, (info, *watched)):
                kept = self._cleaner.clean(header, wire)
                if kept is not None:
                    batch = memoryview(kept)
                    cleaned.append(
                        batch, header if kept is wire else parse_header(batch), self._limits.index_interval_bytes
                    )
                yield None
                if cleaned.size_bytes - synced >= SYNC_BYTES:
                    cleaned.sync()
                    synced = cleaned.size_bytes
                    yield True
        for entry in self._cleaner.take_aborted():
            cleaned.add_aborted_transaction(entry)
