"""Saying which records are not acknowledged: per partition, how many, and from which to which.

Records have no offset before they are written, so they are named by the order in which this producer sent them to
the partition: record 0 is the first one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkaraw.light_classes import NamedTuple

PARTITIONS_LISTED_MAX = 5


class Unacknowledged(NamedTuple):
    """Records of one partition that no broker has acknowledged.

    `first_index` and `last_index` count, from 0, the records that this producer sent to the partition;
    `maybe_written` says that a broker may have got some of them all the same.
    """

    topic: str
    partition: int
    records_count: int
    first_index: int
    last_index: int
    maybe_written: bool

    def __str__(self) -> str:
        """As in `12 records for flights-0 (numbers 40 to 51 sent there, possibly written)`."""
        what, which = f"{self.records_count} records", f"numbers {self.first_index} to {self.last_index}"
        if self.records_count == 1:
            what, which = "1 record", f"number {self.first_index}"
        perhaps = "possibly written" if self.maybe_written else "not written"
        return f"{what} for {self.topic}-{self.partition} ({which} sent there, {perhaps})"


def describe(entries: Sequence[Unacknowledged]) -> str:
    """One sentence part for a message; a long list is cut with a count of the rest."""
    listed = "; ".join(str(entry) for entry in entries[:PARTITIONS_LISTED_MAX])
    left_out = entries[PARTITIONS_LISTED_MAX:]
    if not left_out:
        return listed
    return f"{listed}; and {sum(e.records_count for e in left_out)} records for {len(left_out)} more partitions"


def summarise(entries: Sequence[Unacknowledged]) -> list[Unacknowledged]:
    """Join the entries of each partition into one, in order of first appearance."""
    joined: dict[tuple[str, int], Unacknowledged] = {}
    for entry in entries:
        key = (entry.topic, entry.partition)
        before = joined.get(key)
        if before is None:
            joined[key] = entry
            continue
        joined[key] = Unacknowledged(
            entry.topic,
            entry.partition,
            before.records_count + entry.records_count,
            min(before.first_index, entry.first_index),
            max(before.last_index, entry.last_index),
            before.maybe_written or entry.maybe_written,
        )
    return list(joined.values())
