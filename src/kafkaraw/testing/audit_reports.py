"""The auditor of `flush`, `commit_transaction` and `close`: if they return without an error, records are in the log.

One of these calls, or the record's own ticket, reports every record that is not in the log. See `audit`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkaraw.records import TopicPartition
from kafkaraw.testing.history import History
from kafkaraw.testing.invariants import Invariant, Violation


def unreported(history: History) -> Iterator[Violation]:
    """Records that are lost although a call returned without an error, or although no error was reported."""
    reports = history.reports
    there = _values(history.final)
    for value, call in reports.vouched.items():
        if value not in there:
            yield Violation(Invariant.UNREPORTED, f"{call} returned without an error, and {value!r} is not in the log")
    for value in reports.taken - reports.told - there:
        yield Violation(Invariant.UNREPORTED, f"{value!r} is not in the log, and nobody was told")
    committed = _values(history.final_committed or {})
    for value, call in reports.committed.items():
        if value not in committed:
            yield Violation(Invariant.UNREPORTED, f"{call} returned without an error, and {value!r} is not committed")


def stored_too_far(history: History) -> Iterator[Violation]:
    """Committed offsets above the last record that was delivered."""
    reports = history.reports
    for (group, partition), offset in reports.stored.items():
        given = reports.given.get((group, partition), 0)
        if offset > given:
            what = f"{group} in {partition} committed {offset}, and was given what is before {given}"
            yield Violation(Invariant.POSITION_TOO_FAR, what)


def _values(log: dict[TopicPartition, list[tuple[int, bytes]]]) -> set[bytes]:
    return {value for records in log.values() for _, value in records}
