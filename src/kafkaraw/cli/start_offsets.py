"""The start and end of reading: the value of `-o`, and the offsets that it means; and times on a command line.

The forms are those of kcat and of Kafka's tools. Start at `parse_range` and `Start.offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkaraw.core.fetch.offsets import parse_duration_ms
from kafkaraw.errors import UsageError
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.client.blocking.consumer import Consumer

FORMS: Final = "beginning, end, stored, OFFSET, -COUNT (before the end), s@TIME, e@TIME"
TIME_FORMS: Final = (
    "milliseconds since 1970 UTC, a date and time such as 2026-11-21T10:00:00Z (UTC if it has no zone), or a "
    "duration ago such as -PT1H"
)
_WORDS: Final = {
    "beginning": "beginning",
    "earliest": "beginning",
    "start": "beginning",
    "end": "end",
    "latest": "end",
    "stored": "stored",
}


class Kind(Enum):
    """The reference point of a start."""

    BEGINNING = "beginning"
    END = "end"
    STORED = "stored"
    OFFSET = "offset"
    TAIL = "tail"
    TIME = "time"


@dataclass(frozen=True)
class Start:
    """Where reading begins, in every partition.

    Attributes:
        kind: the reference point.
        number: the offset, the count before the end, or the timestamp in milliseconds.
    """

    kind: Kind
    number: int = 0

    def offsets(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets to begin with, without partitions that begin where the group or a setting says.

        Raises:
            UsageError: an offset after the end of a partition.
            KafkaError: the brokers cannot answer.
        """
        chosen = list(partitions)
        if not chosen or self.kind is Kind.STORED:
            return {}
        if self.kind is Kind.BEGINNING:
            return consumer.beginning_offsets(chosen)
        ends = consumer.end_offsets(chosen)
        if self.kind is Kind.END:
            return ends
        if self.kind is Kind.TIME:
            found = consumer.offsets_for_times(dict.fromkeys(chosen, self.number))
            return {each: ends[each] if at is None else at.offset for each, at in found.items()}
        begins = consumer.beginning_offsets(chosen)
        if self.kind is Kind.TAIL:
            return {each: max(begins[each], ends[each] - self.number) for each in chosen}
        return {each: self._inside(each, begins, ends) for each in chosen}

    def _inside(
        self, partition: TopicPartition, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> int:
        if self.number > ends[partition]:
            raise UsageError(
                f"-o {self.number}: {partition.topic} [{partition.partition}] has offsets {begins[partition]} to "
                f"{ends[partition] - 1}; the next record gets {ends[partition]}"
            )
        return max(self.number, begins[partition])


def parse_range(texts: Iterable[str], now_ms: int) -> tuple[Start | None, int | None]:
    """Read the value of `-o`.

    Args:
        texts: as given, at most one start and one `e@`.
        now_ms: milliseconds since 1970 UTC.

    Returns:
        the start, and the timestamp to stop at; None if not given.

    Raises:
        UsageError: the text has none of the forms, or two starts.
    """
    start: Start | None = None
    stop_ms: int | None = None
    for text in texts:
        if text.startswith("e@"):
            stop_ms = timestamp_ms(text[2:], now_ms, f"-o {text}")
        elif start is not None:
            raise UsageError(f"-o {text}: a start is given already; give another -o only as e@TIME, where to stop")
        else:
            start = _start(text, now_ms)
    return start, stop_ms


def _start(text: str, now_ms: int) -> Start:
    if text in _WORDS:
        return Start(Kind(_WORDS[text]))
    if text.startswith("s@"):
        return Start(Kind.TIME, timestamp_ms(text[2:], now_ms, f"-o {text}"))
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit():
        raise UsageError(f"-o {text}: must be one of {FORMS}")
    return Start(Kind.TAIL if text.startswith("-") else Kind.OFFSET, int(digits))


def timestamp_ms(text: str, now_ms: int, where: str) -> int:
    """Return the time that a text means.

    Args:
        text: one of `TIME_FORMS`.
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
        raise UsageError(f"{where}: a time must be {TIME_FORMS}") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
