"""The auditor of transactions: aborted records are not read, and committed ones all or not at all. See `audit`.

Kafka's normal behaviour is no violation: writes of different transactions interleave (G0).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkaraw.records import TopicPartition
from kafkaraw.testing.history import History, Outcome
from kafkaraw.testing.invariants import Invariant, Violation

_Read = tuple[TopicPartition, int, bytes]


def aborted_reads(history: History) -> Iterator[Violation]:
    """Records of aborted transactions that a `read_committed` consumer has read."""
    aborted = {
        value: name
        for name, transaction in history.transactions.items()
        if transaction.outcome is Outcome.ABORTED
        for value in transaction.values
    }
    for reader, reads in _committed_readers(history):
        for tp, offset, value in reads:
            if value in aborted:
                what = f"{reader} read {value!r} at {tp} {offset}, of {aborted[value]}"
                yield Violation(Invariant.ABORTED_READ, what)


def torn_transactions(history: History) -> Iterator[Violation]:
    """Transactions that were read in part to the end of all partitions, and committed ones that were not read."""
    for reader, reads in _committed_readers(history, complete=True):
        seen = {value for _, _, value in reads}
        for name, transaction in history.transactions.items():
            expected = [value for value in transaction.values if not _is_deleted(history, value)]
            count = sum(value in seen for value in expected)
            whole = count == len(expected)
            if not whole and (count or transaction.outcome is Outcome.COMMITTED):
                what = f"{reader} read {count} of the {len(expected)} records of {name}, which is {transaction.outcome}"
                yield Violation(Invariant.TORN_TRANSACTION, what)


def torn_positions(history: History) -> Iterator[Violation]:
    """Groups whose committed offsets differ from those of the transactions that are visible in the end."""
    if history.final_positions is None or history.final_committed is None:
        return
    seen = {value for records in history.final_committed.values() for _, value in records}
    expected: dict[tuple[str, TopicPartition], tuple[int, str]] = {}
    for name, transaction in history.transactions.items():
        if transaction.outcome is Outcome.COMMITTED or not seen.isdisjoint(transaction.values):
            expected |= {(at.group, at.topic_partition): (at.offset, name) for at in transaction.positions}
    for which, offset in history.final_positions.items():
        should_be, name = expected.get(which, (-1, "no transaction at all"))
        if offset != should_be:
            what = f"group {which[0]} has committed {offset} in {which[1]}, instead of {should_be} as after {name}"
            yield Violation(Invariant.TORN_POSITION, what)


def zombies(history: History) -> Iterator[Violation]:
    """Producers that could commit after they had been fenced."""
    for what in history.zombies:
        yield Violation(Invariant.ZOMBIE, what)


def _is_deleted(history: History, value: bytes) -> bool:
    metadata = history.acknowledged.get(value)
    if metadata is None:
        return False
    return metadata.offset < history.deleted_before.get(TopicPartition(metadata.topic, metadata.partition), 0)


def _committed_readers(history: History, *, complete: bool = False) -> Iterator[tuple[str, list[_Read]]]:
    """Return what each `read_committed` consumer has read; if `complete`, of those only that read everything."""
    if history.final_committed is not None:
        everything = history.final_committed.items()
        yield "the end", [(tp, offset, value) for tp, records in everything for offset, value in records]
    if not complete:
        yield from ((stretch, history.reads[stretch]) for stretch in sorted(history.committed_only))
        return
    for stretch, partitions in history.read_to_end.items():
        if stretch in history.committed_only and set(partitions) >= set(history.final):
            yield stretch, [read for each in history.chain(stretch) for read in history.reads[each]]
