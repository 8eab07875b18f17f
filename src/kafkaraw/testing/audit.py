"""What must hold of a history of sends and reads: the invariants of Jepsen's Kafka checker, by their names.

Fill a `History` with what clients saw, with a value of its own for each record, and give it to `audit`. The auditor
knows only what clients saw: it must not look inside the broker.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafkaraw.records import RecordMetadata, TopicPartition


class Invariant(StrEnum):
    """What must hold; the value is the name that Jepsen gives to its violation."""

    UNSETTLED = "unsettled"
    """Whoever sent a record is told what became of it."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """One offset of a partition never shows two values, to whoever reads it, whenever."""
    LOST_WRITE = "lost write"
    """An acknowledged record is read in the end, in its partition."""
    DUPLICATE = "duplicate"
    """No value is at two offsets (with idempotence)."""
    SEND_SKIP = "send skip"
    """One producer's values stand in each partition in the order of sending (with idempotence)."""
    POLL_SKIP = "poll skip"
    """A consumer's offsets do not jump over records."""
    NONMONOTONIC_POLL = "nonmonotonic poll"
    """A consumer's offsets do not go back."""


class Violation(NamedTuple):
    """An invariant that did not hold, and where."""

    invariant: Invariant
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


@dataclass
class History:
    """What the clients of one run saw.

    Attributes:
        sent: values by producer, in the order of sending.
        acknowledged: where each acknowledged value is.
        failed: values whose tickets raised an error.
        reads: for each consumer, (partition, offset, value) in the order of reading; one list for each stretch without
            a seek.
        final: everything that is in the topic in the end, by partition, as (offset, value).
    """

    sent: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: dict[bytes, RecordMetadata] = field(default_factory=dict)
    failed: dict[bytes, BaseException] = field(default_factory=dict)
    reads: dict[str, list[tuple[TopicPartition, int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    final: dict[TopicPartition, list[tuple[int, bytes]]] = field(default_factory=dict)


def audit(history: History, *, idempotent: bool = True) -> list[Violation]:
    """All violations; empty when all is well.

    Args:
        history: what the clients saw.
        idempotent: the producers were, so that duplicates and disorder are violations too.
    """
    found = [
        *_settled(history),
        *_inconsistent_offsets(history),
        *_lost_writes(history),
        *_poll_skips(history),
    ]
    if idempotent:
        found += [*_duplicates(history), *_send_skips(history)]
    return found


def _settled(history: History) -> list[Violation]:
    told = history.acknowledged.keys() | history.failed.keys()
    sent = [value for values in history.sent.values() for value in values]
    return [Violation(Invariant.UNSETTLED, f"nobody was told about {value!r}") for value in sent if value not in told]


def _inconsistent_offsets(history: History) -> list[Violation]:
    seen = {(tp, offset): value for tp, records in history.final.items() for offset, value in records}
    found: list[Violation] = []
    claims = [(TopicPartition(*m[:2]), m.offset, value) for value, m in history.acknowledged.items() if m.offset >= 0]
    for tp, offset, value in [*claims, *(read for reads in history.reads.values() for read in reads)]:
        other = seen.setdefault((tp, offset), value)
        if other != value:
            what = f"{tp} {offset} shows {value!r} and {other!r}"
            found.append(Violation(Invariant.INCONSISTENT_OFFSETS, what))
    return found


def _lost_writes(history: History) -> list[Violation]:
    where = {value: tp for tp, records in history.final.items() for _, value in records}
    return [
        Violation(Invariant.LOST_WRITE, f"{value!r} was acknowledged at {metadata}")
        for value, metadata in history.acknowledged.items()
        if where.get(value) != TopicPartition(metadata.topic, metadata.partition)
    ]


def _duplicates(history: History) -> list[Violation]:
    places: dict[bytes, list[tuple[TopicPartition, int]]] = defaultdict(list)
    for tp, records in history.final.items():
        for offset, value in records:
            places[value].append((tp, offset))
    return [
        Violation(Invariant.DUPLICATE, f"{value!r} is at {offsets}")
        for value, offsets in places.items()
        if len(offsets) > 1
    ]


def _send_skips(history: History) -> list[Violation]:
    found = []
    for producer, values in history.sent.items():
        order = {value: position for position, value in enumerate(values)}
        for tp, records in history.final.items():
            mine = [order[value] for _, value in records if value in order]
            if mine != sorted(mine):
                found.append(Violation(Invariant.SEND_SKIP, f"{producer} in {tp}"))
    return found


def _poll_skips(history: History) -> list[Violation]:
    found = []
    for consumer, reads in history.reads.items():
        by_partition: dict[TopicPartition, list[int]] = defaultdict(list)
        for tp, offset, _ in reads:
            by_partition[tp].append(offset)
        for tp, offsets in by_partition.items():
            there = [offset for offset, _ in history.final.get(tp, [])]
            expected = [offset for offset in there if offsets[0] <= offset <= offsets[-1]]
            if offsets != expected:
                goes_back = offsets != sorted(set(offsets))
                invariant = Invariant.NONMONOTONIC_POLL if goes_back else Invariant.POLL_SKIP
                found.append(Violation(invariant, f"{consumer} in {tp}"))
    return found
