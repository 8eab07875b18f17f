"""What must hold of a history of sends and reads: the invariants of Jepsen's Kafka checker, by their names.

Values are unique. The auditor knows only what clients saw: it must not look inside the broker.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from kafkaraw.records import RecordMetadata, TopicPartition


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


def audit(history: History, *, idempotent: bool = True) -> list[str]:
    """All violations, each beginning with the name of the invariant; empty when all is well."""
    found = [
        *_settled(history),
        *_inconsistent_offsets(history),
        *_lost_writes(history),
        *_poll_skips(history),
    ]
    if idempotent:
        found += [*_duplicates(history), *_send_skips(history)]
    return found


def _settled(history: History) -> list[str]:
    told = history.acknowledged.keys() | history.failed.keys()
    sent = [value for values in history.sent.values() for value in values]
    return [f"unsettled: nobody was told about {value!r}" for value in sent if value not in told]


def _inconsistent_offsets(history: History) -> list[str]:
    """One offset of a partition never shows two values, to whoever reads it, whenever."""
    seen = {(tp, offset): value for tp, records in history.final.items() for offset, value in records}
    found = []
    claims = [(TopicPartition(*m[:2]), m.offset, value) for value, m in history.acknowledged.items() if m.offset >= 0]
    for tp, offset, value in [*claims, *(read for reads in history.reads.values() for read in reads)]:
        other = seen.setdefault((tp, offset), value)
        if other != value:
            found.append(f"inconsistent offsets: {tp} {offset} shows {value!r} and {other!r}")
    return found


def _lost_writes(history: History) -> list[str]:
    """An acknowledged record is read in the end, in its partition."""
    where = {value: tp for tp, records in history.final.items() for _, value in records}
    return [
        f"lost write: {value!r} was acknowledged at {metadata}"
        for value, metadata in history.acknowledged.items()
        if where.get(value) != TopicPartition(metadata.topic, metadata.partition)
    ]


def _duplicates(history: History) -> list[str]:
    """No value is at two offsets."""
    places: dict[bytes, list[tuple[TopicPartition, int]]] = defaultdict(list)
    for tp, records in history.final.items():
        for offset, value in records:
            places[value].append((tp, offset))
    return [f"duplicate: {value!r} is at {offsets}" for value, offsets in places.items() if len(offsets) > 1]


def _send_skips(history: History) -> list[str]:
    """One producer's values stand in each partition in the order of sending."""
    found = []
    for producer, values in history.sent.items():
        order = {value: position for position, value in enumerate(values)}
        for tp, records in history.final.items():
            mine = [order[value] for _, value in records if value in order]
            if mine != sorted(mine):
                found.append(f"send skip: {producer} in {tp}")
    return found


def _poll_skips(history: History) -> list[str]:
    """A consumer's offsets neither jump over records nor go back."""
    found = []
    for consumer, reads in history.reads.items():
        by_partition: dict[TopicPartition, list[int]] = defaultdict(list)
        for tp, offset, _ in reads:
            by_partition[tp].append(offset)
        for tp, offsets in by_partition.items():
            there = [offset for offset, _ in history.final.get(tp, [])]
            expected = [offset for offset in there if offsets[0] <= offset <= offsets[-1]]
            if offsets != expected:
                kind = "nonmonotonic poll" if offsets != sorted(set(offsets)) else "poll skip"
                found.append(f"{kind}: {consumer} in {tp}")
    return found
