"""Where to go on without a position: `auto_offset_reset` as a value. Pure; the time is passed in.

Source: KIP-1106 (by_duration); Java's AutoOffsetResetStrategy and Duration.parse.
"""

from __future__ import annotations

import re
from typing import Final

from kafkaraw.core.fetch.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from kafkaraw.light_classes import dataclass

_BY_DURATION: Final = "by_duration:"
_MARKS: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "none": None}
_DURATION: Final = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:[.,]\d{1,9})?)S)?)?",
    re.ASCII | re.IGNORECASE,
)
_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """Where to go on without a position.

    Attributes:
        timestamp: one of ListOffsets' marks; None is nowhere, or depends on the time.
        duration_ms: so long before now, when not None.
    """

    timestamp: int | None
    duration_ms: int | None = None

    def timestamp_at(self, now_ms: int) -> int | None:
        """The timestamp to look up; None when there is no policy.

        Args:
            now_ms: milliseconds since 1970 UTC.
        """
        return self.timestamp if self.duration_ms is None else max(0, now_ms - self.duration_ms)


def parse_reset_policy(text: str) -> ResetPolicy:
    """Read "earliest", "latest", "none" or "by_duration:" with an ISO 8601 duration of days at most, as in PT1H.

    Raises:
        ValueError: it is none of these.
    """
    name = text.lower()
    if name in _MARKS:
        return ResetPolicy(_MARKS[name])
    duration_ms = parse_duration_ms(text[len(_BY_DURATION) :]) if name.startswith(_BY_DURATION) else None
    if duration_ms is None:
        raise ValueError('must be "earliest", "latest", "none", or "by_duration:" and an ISO 8601 duration, as in PT1H')
    return ResetPolicy(None, duration_ms)


def parse_duration_ms(text: str) -> int | None:
    """How long an ISO 8601 duration of days at most is, as in PT1H30M or P7D; None when it is none."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    parts = {unit: float((value or "0").replace(",", ".")) for unit, value in found.groupdict().items()}
    return round(sum(_UNITS_MS[unit] * value for unit, value in parts.items()))
