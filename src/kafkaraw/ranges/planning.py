"""Choose how many offsets of a backlog a batch reads, and cut them into tasks. Pure arithmetic.

Must not ask a broker or know Spark. Start at `prorate` (streaming), `split`, `bundle` and `share` (tasks).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Offsets `start` up to but not including `end` of one partition: the work of one task, or part of it.

    Attributes:
        topic_id: id of the topic that the offsets belong to; zero if it is not known.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: Uuid = ZERO_UUID

    @property
    def size(self) -> int:
        """The number of offsets; the number of records may be smaller."""
        return max(self.end - self.start, 0)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that is read."""
        return TopicPartition(self.topic, self.partition)


def prorate(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], rows_max: int
) -> dict[TopicPartition, int]:
    """Cut `end` back so that about `rows_max` offsets lie between, each partition in proportion to its backlog.

    A partition with a backlog always advances by at least one offset, so that small ones do not starve beside large
    ones. The sum may therefore exceed `rows_max` by the number of such partitions.

    Source: KafkaMicroBatchStream.rateLimit.
    """
    backlog = {tp: max(end[tp] - start.get(tp, end[tp]), 0) for tp in end}
    total = sum(backlog.values())
    if total <= rows_max:
        return dict(end)
    return {tp: start[tp] + max(rows_max * size // total, 1) if size else end[tp] for tp, size in backlog.items()}


def ranges_between(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, Uuid] = MappingProxyType({}),
) -> list[OffsetRange]:
    """Return the ranges between two offsets, without empty ones. An end at or before its start is no error.

    That happens when Spark repeats a first batch that was logged but not committed: it asks for the start again.
    """
    return [
        OffsetRange(tp.topic, tp.partition, start[tp], end[tp], topic_ids.get(tp.topic, ZERO_UUID))
        for tp in sorted(tp for tp, offset in end.items() if tp in start and start[tp] < offset)
    ]


def split(
    ranges: Iterable[OffsetRange], partitions_min: int | None, rows_per_partition_max: int | None = None
) -> list[OffsetRange]:
    """Cut large ranges so that none is longer than the limit, and then until there are about `partitions_min`.

    Source: KafkaOffsetRangeCalculator.getRanges.
    """
    whole = list(ranges)
    if rows_per_partition_max is not None:
        whole = [part for each in whole for part in _cut(each, -(-each.size // rows_per_partition_max))]
    if partitions_min is None or len(whole) >= partitions_min:
        return whole
    total = sum(each.size for each in whole)
    is_small = [_parts(each.size, total, partitions_min) == 1 for each in whole]
    # The small ranges get one task each; the large ones share the rest.
    total_large = sum(each.size for each, small in zip(whole, is_small, strict=True) if not small)
    tasks_large = max(partitions_min - sum(is_small), 1)
    result: list[OffsetRange] = []
    for each, small in zip(whole, is_small, strict=True):
        result.extend([each] if small else _cut(each, _parts(each.size, total_large, tasks_large)))
    return result


def bundle(ranges: Iterable[OffsetRange], tasks_max: int | None) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges of each task: one range, or several in at most `tasks_max` tasks of about equal size."""
    whole = list(ranges)
    if tasks_max is None or len(whole) <= tasks_max:
        return [(each,) for each in whole]
    tasks: list[list[OffsetRange]] = [[] for _ in range(tasks_max)]
    # The largest range first, each to the task with the least work; equal ones in turn.
    loads = [(0, index) for index in range(tasks_max)]
    for each in sorted(whole, key=lambda one: (-one.size, *_place_of(one))):
        load, index = heapq.heappop(loads)
        tasks[index].append(each)
        heapq.heappush(loads, (load + each.size, index))
    return [tuple(sorted(task, key=_place_of)) for task in tasks]


def _place_of(each: OffsetRange) -> tuple[str, int, int]:
    return each.topic, each.partition, each.start


def share(parts: Iterable[tuple[OffsetRange, int]], tasks: int) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges of each task: consecutive parts of about equal bytes, those of one partition joined.

    Args:
        parts: ranges in order, each with its bytes.
        tasks: maximum number of tasks.
    """
    given = list(parts)
    total = sum(size for _, size in given)
    found: list[list[OffsetRange]] = [[] for _ in range(tasks)]
    before = 0
    for part, size in given:
        task = found[min((2 * before + size) * tasks // (2 * total), tasks - 1) if total else 0]
        before += size
        if task and task[-1].topic_partition == part.topic_partition and task[-1].end == part.start:
            task[-1] = replace(task[-1], end=part.end)
        else:
            task.append(part)
    return [tuple(task) for task in found if task]


def _parts(size: int, total: int, tasks: int) -> int:
    return max((2 * size * tasks + total) // (2 * total), 1) if total else 1


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    parts = min(parts, whole.size)
    bounds = [whole.start + whole.size * i // parts for i in range(parts + 1)]
    return [replace(whole, start=low, end=high) for low, high in itertools.pairwise(bounds)]
