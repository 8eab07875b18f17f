"""The auditor of mirrors: each committed record is copied, in order; no offset is translated ahead. See `audit`.

The input is what both clusters contain in the end, with `read_committed`, and the offsets that the mirror has
translated (`mirror_history`). Start at `audit_mirror`.

With at-least-once delivery, a process that begins again copies records again, from a position that is behind
acknowledged records; a process that another one has replaced may write records, too, until it notices that. So the
first copies of records have the order of the source, whatever is repeated. Offsets are translated by the copies that
processes have reported, and each record is reported once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from kafkaraw.mirror.interfaces import Delivery
from kafkaraw.records import TopicPartition
from kafkaraw.testing.history import Outcome
from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.mirror_history import MirrorHistory, Translated


def audit_mirror(mirror: MirrorHistory) -> list[Violation]:
    """Return all violations; an empty list if there are none."""
    found: list[Violation] = []
    for partition in sorted(mirror.source.keys() | mirror.copy.keys()):
        found += _contents(mirror, partition)
    found += _transactions(mirror)
    found += _reported(mirror)
    if not found:  # else the positions of both sides cannot be compared
        found += _translations(mirror)
    return found


def _contents(mirror: MirrorHistory, partition: TopicPartition) -> Iterator[Violation]:
    """Records that are missing, surplus, twice or in another order in the copy."""
    source = [value for _, value in mirror.source.get(partition, ())]
    copy = [value for _, value in mirror.copy.get(partition, ())]
    if source == copy:
        return
    missing, surplus = set(source) - set(copy), set(copy) - set(source)
    repeated = [value for value, count in Counter(copy).items() if count > 1]
    if missing:
        first = next(value for value in source if value in missing)
        yield Violation(Invariant.NOT_COPIED, f"{len(missing)} records of {partition}, the first is {first!r}")
    if surplus:
        first = next(value for value in copy if value in surplus)
        yield Violation(Invariant.ABORTED_COPIED, f"{len(surplus)} records of {partition}, the first is {first!r}")
    if repeated and mirror.delivery is Delivery.EXACTLY_ONCE:
        yield Violation(Invariant.COPIED_TWICE, f"{len(repeated)} records of {partition}, such as {repeated[0]!r}")
    common = set(copy) & set(source)
    if [value for value in source if value in common] != list(
        dict.fromkeys(value for value in copy if value in common)
    ):
        yield Violation(Invariant.COPY_ORDER, f"the records of {partition} have another order in the copy")


def _transactions(mirror: MirrorHistory) -> Iterator[Violation]:
    """Transactions of the source of which the copy has a part, or too much."""
    copied = {value for records in mirror.copy.values() for _, value in records}
    for name, transaction in mirror.transactions.items():
        here = [value for value in transaction.values if value in copied]
        if here and transaction.outcome is Outcome.ABORTED:
            yield Violation(Invariant.ABORTED_COPIED, f"transaction {name} was aborted, and the copy has {here[0]!r}")
        elif len(here) < len(transaction.values) and (here or transaction.outcome is Outcome.COMMITTED):
            yield Violation(
                Invariant.TORN_TRANSACTION, f"the copy has {len(here)} of {len(transaction.values)} records of {name}"
            )


def _reported(mirror: MirrorHistory) -> Iterator[Violation]:
    """Records that processes have reported as copied twice: offsets are translated with all that is reported."""
    ends: dict[TopicPartition, int] = {}
    for batch in sorted(mirror.copied, key=lambda each: (each.source, each.source_offsets.start)):
        start, end = batch.source_offsets.start, batch.source_offsets.stop
        if batch.source_offsets and start < ends.get(batch.source, 0):
            yield Violation(
                Invariant.REPORTED_TWICE, f"offsets {start} to {min(end, ends[batch.source]) - 1} of {batch.source}"
            )
            return
        ends[batch.source] = max(end, ends.get(batch.source, 0))


def _translations(mirror: MirrorHistory) -> Iterator[Violation]:
    """Translated offsets that skip records, or that are said to be exact and are not."""
    sides = {
        of: _Sides(records, mirror.copy.get(of, ()), delivery=mirror.delivery) for of, records in mirror.source.items()
    }
    for each in dict.fromkeys(mirror.translated):
        here = sides.get(each.partition)
        if here is None:
            continue
        if skipped := here.skipped(each):
            yield Violation(Invariant.TRANSLATED_AHEAD, f"{_text(each)}, which skips {skipped!r}")
            return
        if each.is_exact and not here.is_exact(each):
            yield Violation(Invariant.TRANSLATED_AHEAD, f"{_text(each)} as exact, and it is not the same position")
            return


class _Sides:
    """The records of a partition on both sides, as numbers in the order of the source.

    Args:
        source: its committed records.
        copy: those of its copy: the same values, some of them repeatedly.
        delivery: how often each record may be in the copy.
    """

    def __init__(
        self, source: Sequence[tuple[int, bytes | None]], copy: Sequence[tuple[int, bytes | None]], delivery: Delivery
    ) -> None:
        self._source, self._copy, self._delivery = source, copy, delivery
        number_of = {value: number for number, (_, value) in enumerate(source)}
        self._numbers = [number_of[value] for _, value in copy]
        self._first_gone = [-1]  # by position of the copy: the greatest number that is only before it
        last = {number: place for place, number in enumerate(self._numbers)}
        for place, number in enumerate(self._numbers):
            before = self._first_gone[-1]
            self._first_gone.append(max(before, number) if last[number] == place else before)
        self._seen = [0]  # by position of the copy: how many of the source's records are before it
        for number in self._numbers:
            self._seen.append(max(self._seen[-1], number + 1))

    def skipped(self, each: Translated) -> bytes | None:
        """Return a record that a group would miss at the translated position; None if there is none."""
        here, there = self._places(each)
        if each.is_back:
            number, is_missed = here - 1, here > self._seen[there]
        else:
            number, is_missed = self._first_gone[there], self._first_gone[there] >= here
        return self._source[number][1] if is_missed else None

    def is_exact(self, each: Translated) -> bool:
        """Return whether the positions are between the same records, on one side of them if records are repeated."""
        here, there = self._places(each)
        if self._delivery is Delivery.EXACTLY_ONCE:
            return here == there
        after = self._numbers[there] if there < len(self._numbers) else len(self._source)
        before = self._numbers[there - 1] if there else -1
        return after == here or before == here - 1

    def _places(self, each: Translated) -> tuple[int, int]:
        """Return how many records are before the offset of the source, and before the one of the copy."""

        def offset_of(record: tuple[int, bytes | None]) -> int:
            return record[0]

        return (
            bisect_left(self._source, each.source, key=offset_of),
            bisect_left(self._copy, each.target, key=offset_of),
        )


def _text(each: Translated) -> str:
    here, there = (each.target, each.source) if each.is_back else (each.source, each.target)
    where = f"of the copy of {each.partition} back" if each.is_back else f"of {each.partition}"
    return f"{each.by} translated offset {here} {where} to {there}"
