"""Offsets as values: an offset to go on from, the marks of ListOffsets, and `auto_offset_reset`. Pure.

Source: Kafka's OffsetAndMetadata and ListOffsetsRequest; KIP-1106 (by_duration); Java's AutoOffsetResetStrategy and
Duration.parse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.light_classes import NamedTuple, dataclass

if TYPE_CHECKING:
    from kafkaraw.records import BatchHeader

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1


class OffsetAndMetadata(NamedTuple):
    """An offset to go on from, as a group commits it.

    Attributes:
        offset: of the next record to read.
        metadata: a text of your own, kept with it.
        leader_epoch: of the record before it; -1 when unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


def epoch_starts_of(headers: Iterable[BatchHeader]) -> list[tuple[int, int]]:
    """Return the leader epochs in which batches were written, each with its first offset."""
    starts: list[tuple[int, int]] = []
    epoch = None
    for header in headers:
        if header.partition_leader_epoch != epoch:
            epoch = header.partition_leader_epoch
            starts.append((header.base_offset, epoch))
    return starts


def epoch_before(epoch_starts: Sequence[tuple[int, int]], offset: int) -> int:
    """Return the leader epoch of the record before an offset; -1 when unknown.

    Args:
        epoch_starts: first offsets and leader epochs, in order.
        offset: the offset behind the record.
    """
    return next((epoch for first, epoch in reversed(epoch_starts) if first < offset), NO_EPOCH)


_BY_DURATION: Final = "by_duration:"
_MARKS: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "none": None}
_DURATION: Final = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:[.,]\d{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """Where a partition without a position begins.

    Attributes:
        timestamp: one of ListOffsets' marks; None if there is no policy, or it depends on the time.
        duration_ms: this many milliseconds before now, when not None.
    """

    timestamp: int | None
    duration_ms: int | None = None

    def timestamp_at(self, now_ms: int) -> int | None:
        """Return the timestamp to look up; None when there is no policy.

        Args:
            now_ms: milliseconds since 1970 UTC.
        """
        return self.timestamp if self.duration_ms is None else max(0, now_ms - self.duration_ms)


def parse_reset_policy(text: str) -> ResetPolicy:
    """Parse "earliest", "latest", "none" or "by_duration:" with an ISO 8601 duration of days at most, as in PT1H.

    Raises:
        ValueError: the text is none of these.
    """
    name = text.lower()
    if name in _MARKS:
        return ResetPolicy(_MARKS[name])
    duration_ms = parse_duration_ms(text[len(_BY_DURATION) :]) if name.startswith(_BY_DURATION) else None
    if duration_ms is None:
        raise ValueError('must be "earliest", "latest", "none", or "by_duration:" and an ISO 8601 duration, as in PT1H')
    return ResetPolicy(None, duration_ms)


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of an ISO 8601 duration of days at most, as PT1H30M or P7D; None when it is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    values = {unit: float((value or "0").replace(",", ".")) for unit, value in found.groupdict().items()}
    return round(sum(_UNITS_MS[unit] * value for unit, value in values.items()))
