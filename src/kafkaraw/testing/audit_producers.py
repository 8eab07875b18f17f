"""The auditor of producers, and of the failures that their calls report. See `audit`.

Producers write no duplicates, keep the order of records, and report no record as failed that is in the log. If `flush`,
`commit_transaction` or `close` returns without an error, the records before it are in the log; every record that is not
in the log is reported by one of these calls, or by its ticket.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kafkaraw.records import TopicPartition
from kafkaraw.testing.history import History, Step
from kafkaraw.testing.invariants import Invariant, Violation


def duplicates(history: History) -> Iterator[Violation]:
    """Values at two offsets, of producers that must not write duplicates."""
    places: dict[bytes, list[tuple[TopicPartition, int]]] = defaultdict(list)
    for tp, records in history.final.items():
        for offset, value in records:
            places[value].append((tp, offset))
    allowed = {value for producer in history.repeating for value in history.sent[producer]}
    for value, offsets in places.items():
        if len(offsets) > 1 and value not in allowed:
            yield Violation(Invariant.DUPLICATE, f"{value!r} is at {offsets}")


def send_skips(history: History) -> Iterator[Violation]:
    """Producers whose records have another order in a partition than that of sending."""
    for producer, values in history.sent.items():
        if producer in history.unordered:
            continue
        order = {value: position for position, value in enumerate(values)}
        for tp, records in history.final.items():
            mine = [value for _, value in records if value in order]
            if producer in history.in_turn:
                mine = [value for value in dict.fromkeys(mine) if value in history.acknowledged]
            positions = [order[value] for value in mine]
            if positions != sorted(positions):
                yield Violation(Invariant.SEND_SKIP, f"{producer} in {tp}")


def denied_writes(history: History) -> Iterator[Violation]:
    """Values that are, or were, in the log, although their producer reported that they were not written."""
    seen = {value: f"{tp} {offset}" for tp, records in history.final.items() for offset, value in records}
    for reads in history.reads.values():
        seen.update((value, f"{tp} {offset}") for tp, offset, value in reads)
    for value in history.denied:
        if value in seen:
            yield Violation(Invariant.DENIED_WRITE, f"{value!r} is at {seen[value]}")


def overtakings(history: History) -> Iterator[Violation]:
    """Batches that were sent again after a newer one of the same partition had been sent for the first time.

    Batches that were in flight together are no violation: whether the first of them succeeds is not known when the
    others are sent. But once a batch has failed, nothing new may be sent before its retry.
    """
    for producer, events in history.shipments.items():
        left: set[int] = set()
        returned: dict[TopicPartition, dict[int, float]] = defaultdict(dict)
        overtaken_by: dict[int, int] = {}
        for at_s, tp, number, step in events:
            if step is Step.RETURNED:
                returned[tp][number] = at_s
                continue
            returned[tp].pop(number, None)
            if number not in left:
                left.add(number)
                overtaken_by |= {other: number for other, since_s in returned[tp].items() if since_s < at_s}
            elif number in overtaken_by:
                what = f"batch {number} of {producer} to {tp}, sent again after batch {overtaken_by.pop(number)}"
                yield Violation(Invariant.OVERTAKEN, what)


def unreported(history: History) -> Iterator[Violation]:
    """Records that are lost although a call returned without an error, or although no error was reported."""
    reports = history.reports
    there = _values(history.final)
    for value, call in reports.confirmed.items():
        if value not in there:
            yield Violation(Invariant.UNREPORTED, f"{call} returned without an error, and {value!r} is not in the log")
    for value in reports.accepted - reports.reported - there:
        yield Violation(Invariant.UNREPORTED, f"{value!r} is not in the log, and no call reported it")
    committed = _values(history.final_committed or {})
    for value, call in reports.committed.items():
        if value not in committed:
            yield Violation(Invariant.UNREPORTED, f"{call} returned without an error, and {value!r} is not committed")


def _values(log: dict[TopicPartition, list[tuple[int, bytes]]]) -> set[bytes]:
    return {value for records in log.values() for _, value in records}
