"""Which log the cleaner cleans next, up to where, and which of its segments become one.

Start at `plan_cleaning`, which says how dirty one log is, and `dirtiest`. `groups_to_clean` groups the segments of the
log that is cleaned. Values in, values out: the caller has the logs, the checkpoint and the clock.

Source: org.apache.kafka.storage.internals.log.{LogCleanerManager, LogToClean, Cleaner.groupSegmentsBySize}.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from kafkaraw.core.log.indexes import RELATIVE_OFFSET_MAX
from kafkaraw.light_classes import dataclass

_NEVER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SegmentToClean:
    """A segment, as far as the cleaner has to know it.

    Attributes:
        base_offset: the first offset that it may hold.
        size_bytes: of its log file.
        largest_timestamp_ms: of its records; -1 without records.
        first_timestamp_ms: of its first batch; -1 without one.
        offset_index_bytes: of its offset index.
        time_index_bytes: of its time index.
    """

    base_offset: int
    size_bytes: int
    largest_timestamp_ms: int = -1
    first_timestamp_ms: int = -1
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The settings of a topic that decide when it is cleaned; their names in Kafka are in parentheses.

    Attributes:
        dirty_ratio_min: share of dirty bytes above which a log is cleaned (`min.cleanable.dirty.ratio`).
        lag_min_ms: a segment with a younger record stays as it is (`min.compaction.lag.ms`).
        lag_max_ms: an older dirty segment is cleaned regardless of the ratio (`max.compaction.lag.ms`).
    """

    dirty_ratio_min: float = 0.5
    lag_min_ms: int = 0
    lag_max_ms: int = _NEVER


@dataclass(frozen=True, slots=True)
class LogToClean:
    """How dirty a log is.

    Attributes:
        first_dirty_offset: where the dirty section begins.
        end_offset: where it ends: the base offset of the first segment that cannot be cleaned.
        clean_bytes: in the segments before the first dirty offset.
        cleanable_bytes: in the segments of the dirty section.
        is_overdue: whether it has a dirty segment older than `max.compaction.lag.ms`.
        checkpoint_problem: why the checkpointed offset was not used, so that it has to be replaced; "" if it was.
    """

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool
    checkpoint_problem: str = ""

    @property
    def total_bytes(self) -> int:
        """Bytes that a round would read."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        """Share of the dirty bytes; 0 if there is nothing at all."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    def is_due(self, settings: CompactionSettings) -> bool:
        """Return whether the log has to be cleaned now."""
        if self.is_overdue and self.cleanable_bytes > 0:
            return True
        return self.dirty_ratio > settings.dirty_ratio_min


def plan_cleaning(
    segments: Sequence[SegmentToClean],
    settings: CompactionSettings,
    *,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    checkpoint: int | None,
    now_ms: int,
) -> LogToClean:
    """Return how dirty a log is.

    Args:
        segments: all of it, the last one active; at least one.
        settings: of its topic.
        log_start_offset: the first offset that can be read.
        log_end_offset: the offset that the next record gets.
        last_stable_offset: nothing from there on is cleaned.
        checkpoint: the first dirty offset that the last round has left; None if it was never cleaned.
        now_ms: the time.
    """
    problem = ""
    first_dirty = log_start_offset if checkpoint is None else checkpoint
    if first_dirty < log_start_offset:
        problem = f"the log starts at {log_start_offset}"
    elif first_dirty > log_end_offset:
        problem = f"the log ends at {log_end_offset}"
    if problem:
        problem = f"the checkpointed offset {first_dirty} is not in the log: {problem}"
        first_dirty = log_start_offset
    dirty = segments_between(segments[:-1], first_dirty, _NEVER) if first_dirty < segments[-1].base_offset else []
    end = min(last_stable_offset, segments[-1].base_offset)
    if settings.lag_min_ms > 0:
        youngest_ms = now_ms - settings.lag_min_ms
        end = min([end, *(one.base_offset for one in dirty if one.largest_timestamp_ms > youngest_ms)])
    end = max(first_dirty, end)
    # Whole segments only: the one that holds `end` is not cleaned.
    uncleanable = segments_between(segments[:-1], end, _NEVER) if end < segments[-1].base_offset else []
    end = (uncleanable or segments[-1:])[0].base_offset
    return LogToClean(
        first_dirty,
        end,
        sum(one.size_bytes for one in segments_between(segments, -1, first_dirty)),
        sum(one.size_bytes for one in segments_between(segments, min(first_dirty, end), end)),
        _is_overdue(dirty, settings.lag_max_ms, now_ms),
        problem,
    )


def _is_overdue(dirty: Iterable[SegmentToClean], lag_max_ms: int, now_ms: int) -> bool:
    oldest_ms = min((one.first_timestamp_ms for one in dirty if one.first_timestamp_ms > 0), default=_NEVER)
    return oldest_ms < now_ms - max(lag_max_ms, 0)


def dirtiest(logs: Sequence[tuple[LogToClean, CompactionSettings]]) -> int | None:
    """Return the index of the log to clean next: of those that are due, the one with the highest dirty ratio."""
    due = [at for at, (log, settings) in enumerate(logs) if log.total_bytes > 0 and log.is_due(settings)]
    return max(due, key=lambda at: logs[at][0].dirty_ratio, default=None)


def segments_between(segments: Sequence[SegmentToClean], start: int, end: int) -> Sequence[SegmentToClean]:
    """Return the segments that may hold offsets from `start` up to, but not including, `end`."""
    if start >= end:
        return []
    bases = [segment.base_offset for segment in segments]
    first = max(0, bisect_right(bases, start) - 1)
    return segments[first : bisect_left(bases, end)]


def groups_to_clean(
    segments: Sequence[SegmentToClean], segment_bytes: int, index_bytes: int, end_offset: int
) -> list[list[SegmentToClean]]:
    """Group segments, so that each group fits into one segment.

    Args:
        segments: those before the end of the offset map.
        segment_bytes: `segment.bytes`.
        index_bytes: `segment.index.bytes`.
        end_offset: the first offset that cannot be cleaned.
    """
    groups: list[list[SegmentToClean]] = []
    log_bytes = offset_index_bytes = time_index_bytes = 0
    for at, segment in enumerate(segments):
        log_bytes += segment.size_bytes
        offset_index_bytes += segment.offset_index_bytes
        time_index_bytes += segment.time_index_bytes
        following = segments[at + 1].base_offset if at + 1 < len(segments) else end_offset
        if (
            groups
            and log_bytes <= segment_bytes
            and max(offset_index_bytes, time_index_bytes) <= index_bytes
            and (not segment.size_bytes or following - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(segment)
            continue
        groups.append([segment])
        log_bytes, offset_index_bytes = segment.size_bytes, segment.offset_index_bytes
        time_index_bytes = segment.time_index_bytes
    return groups
