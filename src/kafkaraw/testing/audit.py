"""The auditor: checks a history of sends and reads for the invariants of Jepsen's Kafka checker, by their names.

Fill a `History` with the results that clients returned, with a unique value for each record, and pass it to `audit`.
The auditor must not look inside the broker. `audit_transactions` checks transactions, `audit_producers` the producers'
batches, `audit_wire` the responses on the wire.
Source: jepsen.tests.kafka.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from kafkaraw.records import RecordMetadata, TopicPartition
from kafkaraw.testing.audit_producers import denied_writes, duplicates, overtakings, send_skips, unreported
from kafkaraw.testing.audit_transactions import aborted_reads, torn_positions, torn_transactions, zombies
from kafkaraw.testing.history import Call as Call
from kafkaraw.testing.history import History as History
from kafkaraw.testing.history import Outcome as Outcome
from kafkaraw.testing.history import Position as Position
from kafkaraw.testing.history import Step as Step
from kafkaraw.testing.history import Transaction as Transaction
from kafkaraw.testing.invariants import Invariant as Invariant
from kafkaraw.testing.invariants import Violation as Violation

GRACE_S: Final = 0.1
"""How far a call may exceed its deadline: one step of the network."""

CLOSE_BOUND_S: Final = 0.1
"""How far `close(timeout)` may exceed its timeout and `GRACE_S`: it covers all steps, the last bytes included."""

Check = Callable[[History], Iterator[Violation]]


def audit(history: History, *, idempotent: bool = True, unclean: bool = False) -> list[Violation]:
    """Return all violations; an empty list if there are none.

    Args:
        history: what the clients observed.
        idempotent: the producers were idempotent, apart from those that the history names, so that duplicates and
            disorder are violations too.
        unclean: unclean leader elections were possible: acknowledged and read records may be lost, but not duplicated,
            and no call may wait without end.
    """
    checks = [
        _unsettled,
        _overdue,
        _stuck,
        _left_over,
        _epochs_went_back,
        aborted_reads,
        denied_writes,
        overtakings,
        zombies,
        unreported,
        _commits_too_far,
    ]
    if idempotent:
        checks += [duplicates, send_skips]
    if not unclean:
        checks += [
            _inconsistent_offsets,
            _lost_writes,
            _poll_skips,
            _skips_on_resuming,
            torn_transactions,
            torn_positions,
        ]
    return [violation for check in checks for violation in check(history)]


# -- calls


def _unsettled(history: History) -> Iterator[Violation]:
    for values in history.sent.values():
        for value in values:
            if value not in history.acknowledged and value not in history.failed:
                yield Violation(Invariant.UNSETTLED, f"the ticket of {value!r} was never completed")


def _overdue(history: History) -> Iterator[Violation]:
    for call in history.calls:
        allowed_s = call.timeout_s + GRACE_S + (CLOSE_BOUND_S if call.is_close else 0.0)
        if call.ended_s is None or call.ended_s - call.began_s > allowed_s:
            took = "never ended" if call.ended_s is None else f"took {call.ended_s - call.began_s:.3f} s"
            what = f"{call.name} at {call.began_s:.3f} s, given {call.timeout_s:g} s, {took}"
            yield Violation(Invariant.CLOSE_OVERDUE if call.is_close else Invariant.OVERDUE, what)


def _stuck(history: History) -> Iterator[Violation]:
    for what in history.stuck:
        yield Violation(Invariant.STUCK, what)


def _left_over(history: History) -> Iterator[Violation]:
    for what in history.left_over:
        yield Violation(Invariant.LEFT_OVER, what)


def _epochs_went_back(history: History) -> Iterator[Violation]:
    for client, seen in history.leader_epochs.items():
        newest: dict[tuple[TopicPartition, bytes], int] = {}
        for tp, topic_id, epoch in seen:
            before = newest.setdefault((tp, topic_id), epoch)
            if epoch < before:
                yield Violation(Invariant.EPOCH_WENT_BACK, f"{client} went from epoch {before} of {tp} to {epoch}")
            newest[tp, topic_id] = epoch


# -- writes


def _promised(history: History) -> Iterator[tuple[bytes, RecordMetadata]]:
    """Return acknowledged records and their offsets, without weak acknowledgements and deleted records."""
    weak = {value for producer in history.weak for value in history.sent[producer]}
    for value, metadata in history.acknowledged.items():
        tp = TopicPartition(metadata.topic, metadata.partition)
        if value not in weak and metadata.offset >= history.deleted_before.get(tp, metadata.offset):
            yield value, metadata


def _inconsistent_offsets(history: History) -> Iterator[Violation]:
    seen = {(tp, offset): value for tp, records in history.final.items() for offset, value in records}
    claims = [(TopicPartition(m.topic, m.partition), m.offset, value) for value, m in _promised(history)]
    for tp, offset, value in [*claims, *(read for reads in history.reads.values() for read in reads)]:
        other = seen.setdefault((tp, offset), value)
        if other != value:
            yield Violation(Invariant.INCONSISTENT_OFFSETS, f"{tp} {offset} shows {value!r} and {other!r}")


def _lost_writes(history: History) -> Iterator[Violation]:
    """Acknowledged records that are missing: lost if a consumer has read past them, else unseen."""
    yield from _missing(history, "in the end", history.final, list(history.final))
    for stretch, partitions in history.read_to_end.items():
        if stretch in history.committed_only:
            continue  # a missing record may belong to an aborted transaction
        read: dict[TopicPartition, list[tuple[int, bytes]]] = defaultdict(list)
        for each in history.chain(stretch):
            for tp, offset, value in history.reads[each]:
                read[tp].append((offset, value))
        yield from _missing(history, f"by {stretch}", read, partitions)


def _missing(
    history: History,
    reader: str,
    read: dict[TopicPartition, list[tuple[int, bytes]]],
    partitions: list[TopicPartition],
) -> Iterator[Violation]:
    values = {tp: {value for _, value in read.get(tp, ())} for tp in partitions}
    furthest = {tp: max((offset for offset, _ in read.get(tp, ())), default=-1) for tp in partitions}
    for value, metadata in _promised(history):
        tp = TopicPartition(metadata.topic, metadata.partition)
        if tp in values and value not in values[tp]:
            invariant = Invariant.LOST_WRITE if furthest[tp] >= metadata.offset else Invariant.UNSEEN
            yield Violation(invariant, f"{value!r}, acknowledged at {metadata}, was not read {reader}")


# -- reads


def _poll_skips(history: History) -> Iterator[Violation]:
    for stretch, reads in history.reads.items():
        view = history.view(stretch)
        by_partition: dict[TopicPartition, list[int]] = defaultdict(list)
        for tp, offset, _ in reads:
            by_partition[tp].append(offset)
        for tp, offsets in by_partition.items():
            if offsets != sorted(set(offsets)):
                yield Violation(Invariant.NONMONOTONIC_POLL, f"{stretch} in {tp}")
                continue
            start = history.deleted_before.get(tp, 0)
            kept = [offset for offset in offsets if offset >= start]
            there = [offset for offset, _ in view.get(tp, []) if offset >= start and kept]
            if kept != [offset for offset in there if kept[0] <= offset <= kept[-1]]:
                yield Violation(Invariant.POLL_SKIP, f"{stretch} in {tp}")


def _skips_on_resuming(history: History) -> Iterator[Violation]:
    """A consumer that resumes at its position must not have missed a record."""
    for stretch in history.resumed:
        view = history.view(stretch)
        reached: dict[TopicPartition, int] = {}
        for each in history.chain(stretch)[:-1]:
            for tp, offset, _ in history.reads[each]:
                reached[tp] = max(offset, reached.get(tp, -1))
        began: dict[TopicPartition, int] = {}
        for tp, offset, _ in history.reads[stretch]:
            began.setdefault(tp, offset)
        for tp, offset in began.items():
            low = max(reached.get(tp, -1) + 1, history.deleted_before.get(tp, 0))
            missed = [at for at, _ in view.get(tp, []) if low <= at < offset]
            if missed:
                what = f"{stretch} in {tp} began at {offset}, though {missed[0]} had not been read"
                yield Violation(Invariant.POLL_SKIP, what)


def _commits_too_far(history: History) -> Iterator[Violation]:
    """Committed offsets above the last record that was delivered."""
    reports = history.reports
    for (group, partition), offset in reports.committed_offsets.items():
        delivered = reports.delivered.get((group, partition), 0)
        if offset > delivered:
            what = f"{group} in {partition} committed {offset}, though only records before {delivered} were delivered"
            yield Violation(Invariant.POSITION_TOO_FAR, what)
