"""How much of a backlog a batch takes, and how it is cut into tasks. Pure arithmetic.

Must not ask a broker or know Spark. Start at `prorate` (streaming) and `split` (tasks).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkaraw.records import TopicPartition
from kafkaraw.spark.offsets import PartitionOffsets


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets `start` up to but not including `end` of one partition: the work of one task."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets; the number of records may be smaller."""
        return max(self.end - self.start, 0)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that is read."""
        return TopicPartition(self.topic, self.partition)


def prorate(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], rows_max: int) -> PartitionOffsets:
    """Cut `end` back so that about `rows_max` offsets lie between, each partition in proportion to its backlog.

    A partition with a backlog always moves on by at least one offset, so that small ones do not starve beside large
    ones; the sum may therefore exceed `rows_max` by the number of such partitions.

    Source: KafkaMicroBatchStream.rateLimit.
    """
    backlog = {tp: max(end[tp] - start.get(tp, end[tp]), 0) for tp in end}
    total = sum(backlog.values())
    if total <= rows_max:
        return dict(end)
    return {tp: start[tp] + max(rows_max * size // total, 1) if size else end[tp] for tp, size in backlog.items()}


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """What lies between two offsets, without empty ranges: an end at or before its start is no work, not an error.

    That happens when Spark repeats a first batch that was logged but not committed: it asks for the start anew.
    """
    return [
        OffsetRange(tp.topic, tp.partition, start[tp], end[tp])
        for tp in sorted(end)
        if tp in start and start[tp] < end[tp]
    ]


def split(ranges: Iterable[OffsetRange], partitions_min: int | None) -> list[OffsetRange]:
    """Cut large ranges so that there are about `partitions_min` tasks; without it, one task per range.

    Source: KafkaOffsetRangeCalculator.getRanges.
    """
    whole = list(ranges)
    if partitions_min is None or len(whole) >= partitions_min:
        return whole
    total = sum(each.size for each in whole)
    small = [each for each in whole if _parts(each.size, total, partitions_min) == 1]
    # The small ones get one task each; the rest is shared among the large ones.
    total_large = total - sum(each.size for each in small)
    tasks_large = max(partitions_min - len(small), 1)
    result: list[OffsetRange] = []
    for each in whole:
        result.extend([each] if each in small else _cut(each, _parts(each.size, total_large, tasks_large)))
    return result


def _parts(size: int, total: int, tasks: int) -> int:
    return max((2 * size * tasks + total) // (2 * total), 1) if total else 1


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = min(parts, whole.size)
    bounds = [whole.start + whole.size * i // parts for i in range(parts + 1)]
    return [OffsetRange(whole.topic, whole.partition, low, high) for low, high in itertools.pairwise(bounds)]
