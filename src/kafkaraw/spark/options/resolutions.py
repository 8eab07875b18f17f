"""The option `resolveBatches`: what to do with micro-batches that the exactly-once sink refuses. Pure.

Its text is `BATCHES@DECISION=write` or `BATCHES@DECISION=skip`, several with commas in between: `57@1234=write`,
`6-9@1234=skip`, `57@none=write`. DECISION is the offset of the newest decision about the query, as the refusal names
it. Once there is a newer decision the text has no effect, so it may stay set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kafkaraw.errors import ConfigError

_RESOLUTION: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?@(none|\d{1,18})=(write|skip)")


@dataclass(frozen=True)
class Resolution:
    """What to do with some micro-batches, as long as one decision is the newest.

    Attributes:
        first: the first batch.
        last: the last batch.
        decision_offset: offset of the newest decision about the query; None when there is none.
        write: write the batch as it is planned now; else take it as written.
    """

    first: int
    last: int
    decision_offset: int | None
    write: bool

    def __str__(self) -> str:
        batches = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        decision = "none" if self.decision_offset is None else str(self.decision_offset)
        return f"{batches}@{decision}={'write' if self.write else 'skip'}"


def parse_resolutions(name: str, text: str) -> tuple[Resolution, ...]:
    """Read the option.

    Raises:
        ConfigError: it is not of that form.
    """
    return tuple(_parsed(name, each.strip()) for each in text.split(","))


def _parsed(name: str, text: str) -> Resolution:
    found = _RESOLUTION.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"{name}={text!r}: must be batches, the offset of the newest decision, and write or skip, such as "
            f"57@1234=write or 6-9@none=skip; the error that refuses a batch says what to set"
        )
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise ConfigError(f"{name}={text!r}: the first batch is later than the last one")
    return Resolution(first, last, None if found[3] == "none" else int(found[3]), write=found[4] == "write")
