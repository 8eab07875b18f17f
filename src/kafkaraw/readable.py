"""Sizes, times, durations and bytes as text for readers: of the command line, notebooks and the console.

Columns of a terminal (`cli/top_tables.py`) and documents for programs (`cli/rendering.py`) have forms of their own.
Must import nothing of the package. Start at `size_text`.
"""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_DURATIONS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def size_text(size_bytes: float) -> str:
    """Return a size with a unit, as "1.2 kB" or "202 kB"."""
    size, unit = float(size_bytes), 0
    while abs(size) >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:,.0f} {_UNITS[unit]}" if unit == 0 or abs(size) >= 99.5 else f"{size:.1f} {_UNITS[unit]}"


def duration_text(seconds: float) -> str:
    """Return a duration in its largest unit, as "0.4 s", "45 s", "3.5 h" or "12 d"."""
    size, unit = next((each for each in _DURATIONS if seconds >= each[0]), _DURATIONS[-1])
    number = seconds / size
    is_whole = number >= 10 or (size == 1 and number == int(number))
    return f"{number:,.0f} {unit}" if is_whole else f"{number:.1f} {unit}"


def latency_text(seconds: float) -> str:
    """Return how long an answer took, as "3.20 ms" or "1.25 s"."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.2f} ms"


def time_text(timestamp_ms: int) -> str:
    """Return a timestamp of a record in UTC; one that no calendar has as its number; nothing if it is negative."""
    if timestamp_ms < 0:
        return ""
    from datetime import UTC, datetime

    seconds, milliseconds = divmod(timestamp_ms, 1_000)
    try:
        shown = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return f"{shown:%Y-%m-%d %H:%M:%S}.{milliseconds:03}"


def text_or_base64(data: bytes | None) -> object:
    """Return bytes for JSON: text if they are UTF-8, otherwise an object with their Base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        from base64 import b64encode

        return {"base64": b64encode(data).decode()}
