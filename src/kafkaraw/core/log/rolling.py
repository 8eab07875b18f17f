"""When a log starts a new segment. Pure: the sizes, times and settings are given.

Start at `should_roll`. The settings are those of the topic; a changed setting counts from the next append on.
Source: org.apache.kafka.storage.internals.log.{LogSegment.shouldRoll, LogConfig}.
"""

from __future__ import annotations

import zlib
from typing import Final

from kafkaraw.core.log.indexes import OFFSET_ENTRY_SIZE, RELATIVE_OFFSET_MAX, TIME_ENTRY_SIZE
from kafkaraw.light_classes import dataclass

_NEVER_MS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SegmentSettings:
    """The settings of a topic that shape its segments.

    Attributes:
        segment_bytes: largest size of a segment, in bytes.
        segment_ms: greatest difference of the timestamps of a segment, in milliseconds.
        segment_jitter_ms: upper bound of what is taken off `segment_ms`, so that segments are not all rolled at once.
        segment_index_bytes: largest size of an index file, in bytes.
        index_interval_bytes: bytes of batches between two entries of an index.
        preallocate: reserve the space of a segment when it is created.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = _NEVER_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    preallocate: bool = False


def should_roll(
    settings: SegmentSettings,
    *,
    size_bytes: int,
    batch_bytes: int,
    waited_ms: int,
    jitter_ms: int,
    relative_offset: int,
    offset_entries: int,
    time_entries: int,
) -> bool:
    """Return whether a batch goes into a new segment rather than into the active one, which is not empty.

    Args:
        settings: of the topic.
        size_bytes: of the active segment.
        batch_bytes: size of the batch.
        waited_ms: age of the active segment: the highest timestamp of the batch minus that of the segment's first
            batch, or the time since its creation if its first batch has no timestamp.
        jitter_ms: of the active segment; see `jitter_ms`.
        relative_offset: last offset of the batch minus the base offset of the segment.
        offset_entries: number of entries in its offset index.
        time_entries: number of entries in its time index.
    """
    return (
        size_bytes + batch_bytes > settings.segment_bytes
        or waited_ms > settings.segment_ms - jitter_ms
        or relative_offset > RELATIVE_OFFSET_MAX
        or offset_entries >= settings.segment_index_bytes // OFFSET_ENTRY_SIZE
        or time_entries >= settings.segment_index_bytes // TIME_ENTRY_SIZE - 1  # one is left for the end of the segment
    )


def jitter_ms(settings: SegmentSettings, folder: str, base_offset: int) -> int:
    """Return what is taken off the `segment.ms` of one segment.

    Kafka draws a random number. This one is derived from the name of the segment: it differs between the segments
    that are created at the same time, and a restart does not change it.
    """
    bound = min(settings.segment_jitter_ms, settings.segment_ms)
    return zlib.crc32(f"{folder}/{base_offset}".encode()) % bound if bound > 0 else 0
