"""Times as people write them on a command line, in milliseconds since 1970 UTC. Start at `timestamp_ms`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from kafkaraw.core.fetch.offsets import parse_duration_ms
from kafkaraw.errors import UsageError

FORMS: Final = (
    "milliseconds since 1970 UTC, a date and time as in 2026-11-21T10:00:00Z (UTC when it names no zone), or how long "
    "ago as in -PT1H"
)


def timestamp_ms(text: str, now_ms: int, where: str) -> int:
    """Return the time that a text means.

    Args:
        text: one of `FORMS`.
        now_ms: milliseconds since 1970 UTC.
        where: the option, for the message.

    Raises:
        UsageError: it has none of the forms.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    ago_ms = parse_duration_ms(text[1:]) if text[:1] == "-" else None
    if ago_ms is not None:
        return max(0, now_ms - ago_ms)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{where}: a time must be {FORMS}") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
