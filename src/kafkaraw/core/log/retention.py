"""Retention: which of a log's oldest segments are to be deleted, and why.

`expired_segments` decides; the broker executes it, on each replica by itself. Only whole segments from the head of the
log are deleted, none with records at or above the high watermark. If the active segment is among them, it is
rolled first, so that a log always has a segment to append to.

Source: org.apache.kafka.storage.internals.log.UnifiedLog.{deleteOldSegments, deletableSegments, deleteSegments}.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from kafkaraw.light_classes import NamedTuple


class RetainedSegment(Protocol):
    """What retention has to know of a segment."""

    @property
    def base_offset(self) -> int:
        """The first offset that it may hold."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of its log file."""
        ...

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest timestamp of its records; when it was written last, if they have none."""
        ...


class Retention(NamedTuple):
    """The settings of a topic that limit what is kept.

    Attributes:
        deletes: whether cleanup.policy has `delete`; without it, only what DeleteRecords has removed goes.
        time_ms: retention.ms; negative: for ever.
        size_bytes: retention.bytes; negative: everything.
    """

    deletes: bool
    time_ms: int
    size_bytes: int


class Reason(StrEnum):
    """Why a segment is deleted, in the words of Kafka's log line."""

    LOG_START_OFFSET = "log start offset {log_start_offset} breach"
    SIZE = "log retention size {size_bytes} breach"
    TIME = "log retention time {time_ms}ms breach based on the largest record timestamp in the segment"


class Expired(NamedTuple):
    """What to delete.

    Attributes:
        reasons: the reason of each segment to delete, the oldest first.
        rolls: whether the active segment is among them: it has to be rolled before.
        future: base offsets of segments that are kept although they would be the next ones, because they have
            timestamps in the future.
    """

    reasons: tuple[Reason, ...] = ()
    rolls: bool = False
    future: tuple[int, ...] = ()


def expired_segments(
    segments: Sequence[RetainedSegment],
    retention: Retention,
    *,
    now_ms: int,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
) -> Expired:
    """Return which of the oldest segments are to be deleted.

    Kafka checks the log start offset, then the size, then the time; each check goes on where the one before it ended.

    Args:
        segments: all segments of the log in order, the active one last.
        retention: the topic's settings.
        now_ms: the time, in milliseconds since 1970.
        log_start_offset: the first offset that consumers can read.
        log_end_offset: the offset that the next record gets.
        high_watermark: the offset up to which consumers can read.
    """
    reasons: list[Reason] = []
    future: list[int] = []
    bounds = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    deletable = _deletable_count(segments, bounds, high_watermark)

    while len(reasons) < min(deletable, len(segments) - 1) and bounds[len(reasons)] <= log_start_offset:
        reasons.append(Reason.LOG_START_OFFSET)
    if retention.deletes and retention.size_bytes >= 0:
        excess = sum(segment.size_bytes for segment in segments[len(reasons) :]) - retention.size_bytes
        while len(reasons) < deletable and excess >= segments[len(reasons)].size_bytes:
            excess -= segments[len(reasons)].size_bytes
            reasons.append(Reason.SIZE)
    if retention.deletes and retention.time_ms >= 0:
        while len(reasons) < deletable:
            age_ms = now_ms - segments[len(reasons)].largest_timestamp_ms
            if age_ms <= retention.time_ms:
                if age_ms < 0:
                    future.append(segments[len(reasons)].base_offset)
                break
            reasons.append(Reason.TIME)
    return Expired(tuple(reasons), len(reasons) == len(segments) and bool(reasons), tuple(future))


def _deletable_count(segments: Sequence[RetainedSegment], bounds: Sequence[int], high_watermark: int) -> int:
    """Return how many segments retention may delete: those below the high watermark, not an empty active one."""
    count = 0
    for segment, bound in zip(segments, bounds, strict=True):
        is_empty_and_active = count == len(segments) - 1 and not segment.size_bytes
        if bound > high_watermark or is_empty_and_active:
            break
        count += 1
    return count
