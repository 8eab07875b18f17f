"""Positions that the target has deleted, found again: a mirror was stopped for longer than `offsets.retention.minutes`.

The offset mapping says which offset of the source the end of a copy was, up to about the last second before the mirror
stopped. What is behind is found by reading: the copy has the records of the source in their order. So the last records
of the mapping and all records behind them must be the same on both sides, one after the other; then the position is
behind the last one that the copy has. If they are not, as when a topic was created again or retention has deleted them,
nothing is restored. Start at `restored_positions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from kafkaraw.light_classes import NamedTuple
from kafkaraw.mirror.clients import FlowClients
from kafkaraw.mirror.mapping import Mark, OffsetMapping, of_present_copies
from kafkaraw.mirror.offset_service import topic_ids
from kafkaraw.mirror.settings import MirrorFlow
from kafkaraw.records import TopicPartition

COMPARED_OFFSETS: Final = 100
"""Offsets of the mapping that are compared on both sides."""
UNKNOWN_OFFSETS_MAX: Final = 2_000_000
"""Offsets of a copy behind its mapping that are read at most."""


class RestoredPosition(NamedTuple):
    """A position that was deleted.

    Attributes:
        source: the partition.
        target: its copy, under which the position is committed.
        offset: the offset of the source behind the last record of the copy.
    """

    source: TopicPartition
    target: TopicPartition
    offset: int


async def restored_positions(
    flow: MirrorFlow, clients: FlowClients, mappings: Mapping[TopicPartition, OffsetMapping]
) -> list[RestoredPosition]:
    """Return the positions of partitions that have a mapping and no position.

    Args:
        flow: the flow.
        clients: of its clusters.
        mappings: of the flow, by partition of the source.

    Raises:
        KafkaError: a cluster does not answer.
    """
    async with (
        clients.admin(of_source=False) as admin,
        clients.consumer(of_source=True) as source,
        clients.consumer(of_source=False) as target,
    ):
        committed = (await admin.list_group_offsets([flow.copy.group_id]))[flow.copy.group_id]
        topics, copies, ids = await asyncio.gather(source.list_topics(), target.list_topics(), topic_ids(admin))
        missing: dict[TopicPartition, TopicPartition] = {}
        for of, mapping in of_present_copies(mappings, flow.route.remote_topic, ids).items():
            copy = TopicPartition(flow.route.remote_topic(of.topic), of.partition)
            is_there = mapping is not None and of in topics.get(of.topic, ()) and copy in copies.get(copy.topic, ())
            if is_there and flow.route.selects(of.topic) and copy not in committed:
                missing[of] = copy
        if not missing:
            return []
        starts, ends, copy_starts, copy_ends = await asyncio.gather(
            source.beginning_offsets(missing),
            source.end_offsets(missing),
            target.beginning_offsets(missing.values()),
            target.end_offsets(missing.values()),
        )
    found: list[RestoredPosition] = []
    for of, copy in missing.items():
        ranges = _compared(mappings[of], range(starts[of], ends[of]), range(copy_starts[copy], copy_ends[copy]))
        if ranges is not None:
            ours, theirs = await asyncio.gather(
                clients.marks(of, ranges[0], of_source=True), clients.marks(copy, ranges[1], of_source=False)
            )
            offset = end_of_copy(ours, theirs)
            found += [] if offset is None else [RestoredPosition(of, copy, offset)]
    return found


def _compared(mapping: OffsetMapping, source: range, target: range) -> tuple[range, range] | None:
    """Return what is read on both sides, from the same record on; None if a side does not have it any more."""
    runs = mapping.runs()
    if not runs:
        return None
    last = runs[-1]
    back = min(last.length, COMPARED_OFFSETS)
    first, copy_first = (begin + last.length - back for begin in (last.source, last.target))
    unknown = target.stop - copy_first
    if first < source.start or copy_first < target.start or not back <= unknown <= UNKNOWN_OFFSETS_MAX:
        return None
    return range(first, source.stop), range(copy_first, target.stop)


def end_of_copy(source: list[Mark], target: list[Mark]) -> int | None:
    """Return the offset of the source behind the last record of a copy.

    Args:
        source: all records of the source from one on.
        target: all records of the copy from the same one on.

    Returns:
        None if the copy has other records, or none.
    """
    contents = [mark.contents for mark in target]
    if not contents or [mark.contents for mark in source[: len(target)]] != contents:
        return None
    return source[len(target) - 1].offset + 1
