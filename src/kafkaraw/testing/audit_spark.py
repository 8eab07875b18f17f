"""The auditors of the Spark connector: the exactly-once sink, and the tasks of the source.

`audit_exactly_once` is for use after a kill plan or an interleaving of the sink's steps:

    logs = read_logs(servers, [target, decisions_topic])          # kafkaraw.testing.partition_logs
    history = SinkHistory.from_logs(logs, decisions_topic)        # kafkaraw.testing.sink_history
    history.skipped = ...                                         # what tasks reported as written before
    history.open_transactions = open_transactions(servers, prefix)
    history.wanted = {query_id: values}
    assert audit_exactly_once(history) == []

It reads the logs as any consumer does, so it works for the embedded broker and for Apache Kafka. It must not ask the
sink for its state.

`audit_tasks` checks that a task of the source ends if its position advances, and only then waits. A task waits for its
leader, but fails if its position does not change for `patience_s`. Ranges without records, of aborted transactions or
emptied by compaction, are progress. Fill in a `ReadTask` from the calls of a consumer, on any clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafkaraw.testing.history import Outcome
from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.sink_history import ProducerIdentity, SinkHistory, SinkSlot


def audit_exactly_once(history: SinkHistory) -> list[Violation]:
    """Return all violations; an empty list if there are none.

    Args:
        history: what the sink did.
    """
    checks = (_rows, _skipped_rows, _several_decisions, _left_open, _torn)
    return [violation for check in checks for violation in check(history)]


def _rows(history: SinkHistory) -> Iterator[Violation]:
    """Rows of a query that are committed more than once, or not at all."""
    committed: dict[str, Counter[bytes]] = defaultdict(Counter)
    for slot, transactions in history.committed().items():
        for transaction in transactions:
            committed[slot.query_id].update(transaction.values)
    for query_id, values in history.wanted.items():
        wanted, found = Counter(values), committed[query_id]
        for value in sorted(wanted.keys() | found.keys()):
            if found[value] != wanted[value]:
                invariant = Invariant.DUPLICATE if found[value] > wanted[value] else Invariant.UNSEEN
                what = f"{value!r} of query {query_id} is committed {found[value]} times, and not {wanted[value]}"
                yield Violation(invariant, what)


def _skipped_rows(history: SinkHistory) -> Iterator[Violation]:
    """Tasks that wrote nothing, although other rows than theirs, or none, are committed in their slot."""
    committed = history.committed()
    for skipped in history.skipped:
        found = [value for transaction in committed.get(skipped.slot, ()) for value in transaction.values]
        if Counter(found) != Counter(skipped.values):
            what = f"{_name(skipped.slot)} skipped {len(skipped.values)} rows, and {len(found)} are committed"
            missing, other = Counter(skipped.values) - Counter(found), Counter(found) - Counter(skipped.values)
            yield Violation(
                Invariant.SKIPPED_OTHER_ROWS, f"{what}: missing {sorted(missing)[:5]}, others {sorted(other)[:5]}"
            )


def _several_decisions(history: SinkHistory) -> Iterator[Violation]:
    """Batches whose committed transactions are not all in one decision, or are in none.

    A later decision may name transactions that an earlier one named, too: a repetition continues in this way.
    """
    committed: dict[tuple[str, int], set[ProducerIdentity]] = defaultdict(set)
    for slot, transactions in history.committed().items():
        committed[slot.query_id, slot.batch_id].update(each.producer for each in transactions)
    for (query_id, batch_id), producers in sorted(committed.items()):
        if batch_id <= history.undecided_until.get(query_id, -1):
            continue
        decisions = [each for each in history.decisions if (each.query_id, each.batch_id) == (query_id, batch_id)]
        if not any(producers <= set(each.producers) for each in decisions):
            named = [(each.offset, sorted(producers & set(each.producers))) for each in decisions]
            what = f"batch {batch_id} of query {query_id}: {sorted(producers)} are committed, by decisions {named}"
            yield Violation(Invariant.SEVERAL_DECISIONS, what)


def _left_open(history: SinkHistory) -> Iterator[Violation]:
    for transactional_id in history.open_transactions:
        yield Violation(Invariant.LEFT_OPEN, f"the transaction of {transactional_id} is open")


def _torn(history: SinkHistory) -> Iterator[Violation]:
    """Transactions that are committed in one partition, but not in another."""
    for transaction in history.transactions.values():
        if transaction.is_committed and set(transaction.outcomes.values()) != {Outcome.COMMITTED}:
            what = f"{transaction.producer} of {transaction.slot} ended as {transaction.outcomes}"
            yield Violation(Invariant.TORN_TRANSACTION, what)


def _name(slot: SinkSlot) -> str:
    return f"task {slot.number} of batch {slot.batch_id} of query {slot.query_id}"


# -- tasks of the source


@dataclass
class ReadTask:
    """One task, in seconds on one clock.

    Attributes:
        name: name of the task.
        patience_s: the longest time without a change of its position.
        began_s: when it began.
        advanced_s: when its position advanced, in order.
        gave_up_s: when it ended with a timeout; None if it did not.
        ended_s: when it ended otherwise; None if it did not.
        deadline_s: by when it must have ended, in either way.
    """

    name: str
    patience_s: float
    began_s: float = 0.0
    advanced_s: list[float] = field(default_factory=list)
    gave_up_s: float | None = None
    ended_s: float | None = None
    deadline_s: float = float("inf")


def audit_tasks(tasks: Iterable[ReadTask]) -> list[Violation]:
    """Return all violations; an empty list if there are none.

    Args:
        tasks: the tasks of one run.
    """
    return [violation for task in tasks for violation in _task_violations(task)]


def _task_violations(task: ReadTask) -> list[Violation]:
    last_s = max([task.began_s, *task.advanced_s])
    if task.gave_up_s is not None and task.gave_up_s - last_s < task.patience_s:
        what = f"{task.name} gave up at {task.gave_up_s:.3f} s, its position had advanced at {last_s:.3f} s"
        return [Violation(Invariant.GAVE_UP_WHILE_ADVANCING, f"{what}, its patience is {task.patience_s:g} s")]
    end_s = task.ended_s if task.gave_up_s is None else task.gave_up_s
    if end_s is None or end_s > task.deadline_s:
        return [Violation(Invariant.OVERDUE, f"{task.name} had not ended at {task.deadline_s:.3f} s")]
    return []
