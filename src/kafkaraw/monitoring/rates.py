"""Rates between two snapshots of a cluster: records and bytes written, offsets committed, per second. Pure.

A partition has a rate if both snapshots have it, and the topic was not deleted and created again in between. Start at
`record_rates`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kafkaraw.monitoring.snapshot import Part, Snapshot
from kafkaraw.records import TopicPartition

_MS: Final = 1000


def record_rates(before: Snapshot, after: Snapshot) -> dict[TopicPartition, float]:
    """Return the records per second that were written to each partition, from the ends of logs.

    Offsets count as records: markers of transactions are in it. A partition whose end went back, because a leader was
    elected that is not in sync, has the rate 0.
    """
    seconds = (after.at_ms - before.at_ms) / _MS
    return dict(_growth(before, after, before.ends, after.ends, seconds))


def byte_rates(
    before: Snapshot, after: Snapshot, records: Mapping[TopicPartition, float] | None = None
) -> dict[TopicPartition, float]:
    """Return the bytes per second that were written to each partition, from the sizes of the leaders' logs.

    A log shrinks when old segments are deleted or compacted. Then the rate is an estimate: `records` per second, each
    of the mean size of the records in the log. Both snapshots need `Part.SIZES`.

    Args:
        before: the earlier snapshot.
        after: the later one.
        records: the result of `record_rates`; without it, logs that have shrunk have no rate.
    """
    return byte_rates_of_sizes(before, before.leader_sizes(), after, after.leader_sizes(), records or {})


def byte_rates_of_sizes(
    before: Snapshot,
    sizes_before: Mapping[TopicPartition, int],
    after: Snapshot,
    sizes_after: Mapping[TopicPartition, int],
    records: Mapping[TopicPartition, float],
) -> dict[TopicPartition, float]:
    """`byte_rates`, for a caller that has the sizes of the leaders' logs already."""
    if Part.SIZES not in before.part_times_ms or Part.SIZES not in after.part_times_ms:
        return {}
    seconds = (after.part_times_ms[Part.SIZES] - before.part_times_ms[Part.SIZES]) / _MS
    found = dict(_growth(before, after, sizes_before, sizes_after, seconds))
    for key in found:
        if sizes_after[key] < sizes_before[key]:
            offsets = after.ends.get(key, 0) - after.starts.get(key, 0)
            if key in records and offsets > 0:
                found[key] = records[key] * sizes_after[key] / offsets
    return found


def commit_rates(before: Snapshot, after: Snapshot) -> dict[str, dict[TopicPartition, float]]:
    """Return the offsets per second by which groups have advanced, by group and partition.

    A rate is negative after offsets were reset to earlier ones. Both snapshots need `Part.GROUPS`.
    """
    if Part.GROUPS not in before.part_times_ms or Part.GROUPS not in after.part_times_ms:
        return {}
    seconds = (after.part_times_ms[Part.GROUPS] - before.part_times_ms[Part.GROUPS]) / _MS
    if seconds <= 0:
        return {}
    found: dict[str, dict[TopicPartition, float]] = {}
    for name, group in after.groups.items():
        earlier = before.groups.get(name)
        if earlier is not None and earlier.offsets:
            offsets = earlier.offsets
            found[name] = {
                key: (offset - offsets[key]) / seconds for key, offset in group.offsets.items() if key in offsets
            }
    return found


def _growth(
    before: Snapshot,
    after: Snapshot,
    numbers_before: Mapping[TopicPartition, int],
    numbers_after: Mapping[TopicPartition, int],
    seconds: float,
) -> Iterator[tuple[TopicPartition, float]]:
    if seconds <= 0:
        return
    same = {
        name
        for name, topic in after.topics.items()
        if name in before.topics and before.topics[name].topic_id == topic.topic_id
    }
    for key, number in numbers_after.items():
        earlier = numbers_before.get(key)
        if earlier is not None and key.topic in same:
            yield key, max(0, number - earlier) / seconds
