"""The meaning of a value in words: error names, API names, dates, and the meaning of null or -1.

The texts are in the declarations: the `Attributes` section of a message's docstring. Rules for recurring names are in a
table here. Start at `meaning_of`. This module must not read bytes.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Final

from kafkaraw.protocol.annotate import Node
from kafkaraw.protocol.apis import API_BY_KEY
from kafkaraw.protocol.describe import field_docs
from kafkaraw.protocol.describe import summary_of as summary_of
from kafkaraw.protocol.error_codes import ERROR_TABLE, error_name

# Numbers outside these years are probably not times.
TIME_MIN_MS: Final = 0
TIME_MAX_MS: Final = 32_503_680_000_000


def meaning_of(node: Node) -> str:
    """Return the meaning of a node's value; empty if there is nothing to add."""
    words = [rule(node.value) for pattern, rule in RULES if pattern.search(node.name)]
    found = next((word for word in words if word), "")
    doc = field_docs(node.owner).get(node.name, "") if node.owner and node.spec else ""
    return "; ".join(part for part in (found, doc) if part)


def timestamp_words(value: object) -> str:
    """Return a time in milliseconds since 1970 as a date."""
    if not isinstance(value, int) or not TIME_MIN_MS < value < TIME_MAX_MS:
        return ""
    moment = datetime.datetime.fromtimestamp(value / 1000, tz=datetime.UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")


def error_words(value: object) -> str:
    """Return the name of an error code."""
    if not isinstance(value, int):
        return ""
    row = ERROR_TABLE.get(value)
    return f"{error_name(value)}: {row.meaning}" if row else "a code that this version does not know"


def api_words(value: object) -> str:
    """Return the name of an API key."""
    api = API_BY_KEY.get(value) if isinstance(value, int) else None
    return api.name if api else ""


RULES: Final[tuple[tuple[re.Pattern[str], Callable[[object], str]], ...]] = (
    (re.compile(r"error_code$"), error_words),
    (re.compile(r"^api_key$"), api_words),
    (re.compile(r"timestamp(_ms)?$|^log_append_time_ms$|_start_time_ms$"), timestamp_words),
)
