"""The auditor of the exactly-once sink, for use after a kill plan or an interleaving of its steps.

    logs = read_logs(servers, [target, decisions_topic])          # kafkaraw.testing.partition_logs
    history = SinkHistory.from_logs(logs, decisions_topic)        # kafkaraw.testing.sink_history
    history.skipped = ...                                         # what tasks reported as written before
    history.open_transactions = open_transactions(servers, prefix)
    history.wanted = {query_id: values}
    assert audit_exactly_once(history) == []

It reads the logs as any consumer does, so it works for the embedded broker and for Apache Kafka. It must not ask the
sink for its state. Start at `audit_exactly_once`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

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
