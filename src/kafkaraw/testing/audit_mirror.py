"""The auditor of mirrors: each committed record is copied once, in order; no offset is translated ahead. See `audit`.

The input is what both clusters contain in the end, with `read_committed`, and the offsets that the mirror has
translated (`mirror_history`). Start at `audit_mirror`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

from kafkaraw.records import TopicPartition
from kafkaraw.testing.invariants import Invariant, Violation
from kafkaraw.testing.mirror_history import MirrorHistory, Translated


def audit_mirror(mirror: MirrorHistory) -> list[Violation]:
    """Return all violations; an empty list if there are none."""
    found: list[Violation] = []
    for partition in sorted(mirror.source.keys() | mirror.copy.keys()):
        found += _contents(mirror, partition)
    if not found:  # else the counts of both sides cannot be compared
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
    if repeated:
        yield Violation(Invariant.COPIED_TWICE, f"{len(repeated)} records of {partition}, such as {repeated[0]!r}")
    common = set(copy) & set(source)
    if [value for value in source if value in common] != list(
        dict.fromkeys(value for value in copy if value in common)
    ):
        yield Violation(Invariant.COPY_ORDER, f"the records of {partition} have another order in the copy")


def _translations(mirror: MirrorHistory) -> Iterator[Violation]:
    """Translated offsets that skip records, or that are said to be exact and repeat some."""
    source = {of: [offset for offset, _ in records] for of, records in mirror.source.items()}
    copy = {of: [offset for offset, _ in records] for of, records in mirror.copy.items()}
    for each in dict.fromkeys(mirror.translated):
        before = bisect_left(source.get(each.partition, []), each.source)
        copied = bisect_left(copy.get(each.partition, []), each.target)
        if copied > before:
            yield Violation(Invariant.TRANSLATED_AHEAD, f"{_text(each)}, which skips {copied - before} records")
            return
        if each.is_exact and copied < before:
            yield Violation(
                Invariant.TRANSLATED_AHEAD, f"{_text(each)} as exact, but it repeats {before - copied} records"
            )
            return


def _text(each: Translated) -> str:
    return f"{each.process} translated offset {each.source} of {each.partition} to {each.target}"
