"""Compare a topic with its copy, partition by partition: `verify_topic` reads both, several partitions at once.

Each comparison reads both partitions up to the end offsets that they have at its start. The consumers' isolation level
decides whether records of aborted transactions are compared. A `Checkpoint` holds the offsets at which the next
comparison begins. `comparison.py` decides which records are equal. Start at `verify_topic`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.mirror.comparison import COLUMNS, Difference, DifferenceKind, PartitionComparison, Side
from kafkaraw.mirror.stalls import Stalls
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.client.consumer import AsyncConsumer

_POLL_S: Final = 1.0
_OFFSET: Final = "offset"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a comparison of a partition continues: the next offsets, after records that were equal.

    Attributes:
        source_offset, target_offset: the next ones to compare.
    """

    source_offset: int
    target_offset: int


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What the comparison of one partition has found.

    Attributes:
        partition: its number, the same in both topics.
        source_count, target_count: records that were compared.
        equal_count: those that are at the same place in both.
        counts: number of records of each kind of difference.
        differences: consecutive ones together, in their order; at most 100,000 records.
        older_count: offsets that the target has from before the log start offset of the source; they are not compared.
        first_offsets, last_offsets: offsets in source and target of the first and the last compared record; None
            without one.
        checkpoint: where the next comparison continues.
    """

    partition: int
    source_count: int
    target_count: int
    equal_count: int
    counts: Mapping[DifferenceKind, int]
    differences: Sequence[Difference]
    older_count: int
    first_offsets: tuple[int | None, int | None]
    last_offsets: tuple[int | None, int | None]
    checkpoint: Checkpoint

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference, apart from records that the copy has not reached."""
        return not any(count for kind, count in self.counts.items() if kind is not DifferenceKind.BEHIND)


@dataclass(slots=True)
class _Reader:
    """Reads one partition of one side from an offset to an end offset."""

    consumer: AsyncConsumer
    of: TopicPartition
    end: int
    columns: Sequence[str]
    count: int = 0
    first: int | None = None
    last: int | None = None
    next_offset: int = 0
    stalls: Stalls = field(default_factory=Stalls)

    def begin(self, offset: int) -> None:
        """Start reading at an offset."""
        self.next_offset = offset
        self.consumer.assign([self.of])
        self.consumer.seek(self.of, offset)

    async def read(self) -> pa.RecordBatch | None:
        """Return the next records, none if there were none for a second, or None at the end.

        Raises:
            KafkaTimeoutError: no record came for `stalls.STALLED_S`.
        """
        if await self._is_at_end():
            return None
        batch = await self.consumer.poll_arrow(timeout=_POLL_S, columns=(_OFFSET, *self.columns))
        rows = batch.num_rows
        if not rows:
            self.stalls.check(self.of, self.next_offset, self.end, waited_s=_POLL_S)
            return batch
        self.stalls.clear()
        found = batch.column(_OFFSET)
        batch = batch.slice(0, bisect_left(range(rows), self.end, key=lambda place: found[place].as_py()))
        if batch.num_rows:
            offsets = batch.column(_OFFSET)
            self.count += batch.num_rows
            self.first = offsets[0].as_py() if self.first is None else self.first
            self.last = offsets[-1].as_py()
            self.next_offset = self.last + 1
        if batch.num_rows < rows:
            self.next_offset = self.end
        return batch

    async def _is_at_end(self) -> bool:
        return max(self.next_offset, await self.consumer.position(self.of)) >= self.end


async def verify_partition(
    source: AsyncConsumer,
    target: AsyncConsumer,
    partition: int,
    topics: tuple[str, str],
    *,
    columns: Sequence[str] = COLUMNS,
    checkpoint: Checkpoint | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> PartitionReport:
    """Compare one partition of a topic with that of its copy.

    Args:
        source: a consumer of the source's cluster without a group, which has nothing else assigned.
        target: the same for the copy.
        partition: its number.
        topics: names of the topic and its copy.
        columns: what records are compared by, of `COLUMNS`.
        checkpoint: where to continue; None compares from the beginning.
        advance: called with the number of offsets of the source that were read.

    Raises:
        KafkaTimeoutError: a side brings no more records.
        KafkaError: a topic cannot be read.
    """
    ours, theirs = (TopicPartition(topic, partition) for topic in topics)
    first = await source.beginning_offsets([ours]), await target.beginning_offsets([theirs])
    ends = await source.end_offsets([ours]), await target.end_offsets([theirs])
    readers = {
        Side.SOURCE: _Reader(source, ours, ends[0][ours], columns),
        Side.TARGET: _Reader(target, theirs, ends[1][theirs], columns),
    }
    starts = _starts(checkpoint, first[0][ours], first[1][theirs])
    readers[Side.SOURCE].begin(starts.source_offset)
    advanced = starts.source_offset
    comparison = PartitionComparison(columns)
    older_count = 0
    if checkpoint is None and first[0][ours] > 0:
        begin = await _begin_of_copy(readers[Side.SOURCE], target, theirs, comparison)
        if begin is not None:
            older_count = max(0, begin - starts.target_offset)
            starts = Checkpoint(starts.source_offset, max(begin, starts.target_offset))
    readers[Side.TARGET].begin(starts.target_offset)
    while not comparison.is_over:
        for side in comparison.wants():
            batch = await readers[side].read()
            if batch is None:
                comparison.end(side)
                continue
            comparison.add(side, batch)
        comparison.compare()
        advance(readers[Side.SOURCE].next_offset - advanced)
        advanced = readers[Side.SOURCE].next_offset
    advance(max(0, ends[0][ours] - advanced))  # no record is at the last offsets
    return _report(partition, comparison, readers, starts, older_count)


def _starts(checkpoint: Checkpoint | None, source_first: int, target_first: int) -> Checkpoint:
    if checkpoint is None:
        return Checkpoint(source_first, target_first)
    return Checkpoint(max(checkpoint.source_offset, source_first), max(checkpoint.target_offset, target_first))


async def _begin_of_copy(
    reader: _Reader,
    target: AsyncConsumer,
    of: TopicPartition,
    comparison: PartitionComparison,
) -> int | None:
    """Return the offset in the copy of the source's first record, by its timestamp; None if it is not known.

    The source has lost older records to retention, and the copy may still have them.
    """
    while True:
        batch = await reader.read()
        if batch is None:
            comparison.end(Side.SOURCE)
            return None
        if batch.num_rows:
            break
    comparison.add(Side.SOURCE, batch)
    if "timestamp" not in reader.columns:
        return None
    timestamp = batch.column("timestamp").cast("int64")[0].as_py()
    found = (await target.offsets_for_times({of: timestamp}))[of]
    return None if found is None else found.offset


def _report(
    partition: int,
    comparison: PartitionComparison,
    readers: Mapping[Side, _Reader],
    starts: Checkpoint,
    older_count: int,
) -> PartitionReport:
    ours, theirs = readers[Side.SOURCE], readers[Side.TARGET]
    equal = comparison.last_equal
    return PartitionReport(
        partition,
        ours.count,
        theirs.count,
        comparison.equal_count,
        comparison.counts(),
        comparison.differences(),
        older_count,
        (ours.first, theirs.first),
        (ours.last, theirs.last),
        starts if equal is None else Checkpoint(equal[0] + 1, equal[1] + 1),
    )


async def offsets_to_compare(
    source: AsyncConsumer,
    topics: Mapping[str, Mapping[int, Checkpoint]],
    partitions: Collection[int] | None = None,
) -> int:
    """Return how many offsets of the source `verify_topic` will read now, for all topics together.

    Args:
        source: a consumer of the source's cluster.
        topics: names of topics, each with where its partitions continue.
        partitions: numbers of those to compare; None is all.

    Raises:
        KafkaError: a topic cannot be read.
    """
    listed = await source.list_topics()
    wanted = [
        of for topic in topics for of in listed.get(topic, ()) if partitions is None or of.partition in partitions
    ]
    first, ends = await source.beginning_offsets(wanted), await source.end_offsets(wanted)
    starts = {of: _starts(topics[of.topic].get(of.partition), first[of], 0).source_offset for of in wanted}
    return sum(max(0, ends[of] - starts[of]) for of in wanted)


async def verify_topic(  # noqa: PLR0913
    make_source: Callable[[], AsyncConsumer],
    make_target: Callable[[], AsyncConsumer],
    topics: tuple[str, str],
    *,
    partitions: Collection[int] | None = None,
    columns: Sequence[str] = COLUMNS,
    checkpoints: Mapping[int, Checkpoint] | None = None,
    parallel: int = 4,
    advance: Callable[[int], None] = lambda _: None,
    finished: Callable[[PartitionReport], None] = lambda _: None,
) -> list[PartitionReport]:
    """Compare a topic with its copy.

    Args:
        make_source: makes a consumer of the source's cluster, without a group.
        make_target: makes a consumer of the copy's cluster.
        topics: names of the topic and its copy.
        partitions: numbers of those to compare; None is all.
        columns: what records are compared by, of `COLUMNS`.
        checkpoints: where to continue, by partition.
        parallel: number of partitions that are compared at once.
        advance: called with the number of offsets of the source that were read.
        finished: called with each report.

    Returns:
        One report for each partition of the source.

    Raises:
        UsageError: the copy has fewer partitions, or a partition does not exist.
        KafkaError: a topic cannot be read.
    """
    async with make_source() as source, make_target() as target:
        ours = {each.partition for each in await source.partitions_for(topics[0])}
        theirs = {each.partition for each in await target.partitions_for(topics[1])}
    wanted = ours if partitions is None else set(partitions)
    if not wanted <= ours:
        raise UsageError(f"topic {topics[0]!r} has no partition {min(wanted - ours)}: it has {len(ours)}")
    if not wanted <= theirs:
        raise UsageError(
            f"topic {topics[1]!r} has no partition {min(wanted - theirs)}: it has {len(theirs)}, and a copy has the "
            f"partitions of its source, {len(ours)}"
        )
    slots = asyncio.Semaphore(parallel)

    async def verify(partition: int) -> PartitionReport:
        async with slots, make_source() as source, make_target() as target:
            checkpoint = (checkpoints or {}).get(partition)
            report = await verify_partition(
                source, target, partition, topics, columns=columns, checkpoint=checkpoint, advance=advance
            )
        finished(report)
        return report

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(verify(partition)) for partition in sorted(wanted)]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
