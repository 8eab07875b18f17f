"""Reads some records of a topic for a page: the newest ones, those from an offset or a time on, or one record.

Every read is bounded in records, bytes and seconds, and says when a bound has ended it. Must not decode values. Start
at `read_newest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafkaraw.client.consumer import AsyncConsumer
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.errors import UsageError
from kafkaraw.records import Batch, Record, TopicPartition

COUNT_MAX: Final = 500
WINDOW_PARTITIONS_MAX: Final = 200
"""More partitions are not read for one page; the reader chooses some."""
_BYTES_MAX: Final = 64 << 20
_SECONDS_MAX: Final = 10.0
_POLL_S: Final = 0.5
_FETCHING: Final = {"max_partition_fetch_bytes": 1 << 20, "fetch_max_bytes": 8 << 20}


@dataclass(frozen=True)
class Place:
    """Where a record is in its partition.

    Attributes:
        start: the first offset that is read.
        end: the offset behind the last one.
    """

    start: int
    end: int


@dataclass
class Found:
    """Records of a page.

    Attributes:
        records: copies, in the order of the page.
        notes: bounds that have ended the reading.
        ranges: the offsets that there are, by partition.
    """

    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ranges: dict[TopicPartition, Place] = field(default_factory=dict)


async def offsets_of(
    consumer: AsyncConsumer, topic: str, partitions: Sequence[int] | None
) -> dict[TopicPartition, Place]:
    """Return the offsets that partitions have.

    Raises:
        UnknownTopicError: there is no such topic.
        UsageError: there is no such partition.
    """
    known = await consumer.partitions_for(topic)
    chosen = known if partitions is None else [each for each in known if each.partition in partitions]
    if not chosen:
        raise UsageError(f"topic {topic!r} has no partition {partitions}; it has 0 to {len(known) - 1}")
    starts, ends = await asyncio.gather(consumer.beginning_offsets(chosen), consumer.end_offsets(chosen))
    return {each: Place(starts[each], ends[each]) for each in chosen}


async def read_newest(
    cluster: ClusterConnection, topic: str, count: int, partitions: Sequence[int] | None = None
) -> Found:
    """Return the newest records, the newest one first."""
    async with cluster.consumer(**_FETCHING) as consumer:
        ranges = await offsets_of(consumer, topic, partitions)
        found = Found(ranges=ranges)
        windows = {each: Place(max(place.start, place.end - count), place.end) for each, place in ranges.items()}
        await _read(consumer, windows, found, count * len(windows))
    found.records.sort(key=lambda record: (record.timestamp_ms, record.offset, record.partition), reverse=True)
    del found.records[count:]
    return found


async def read_from(
    cluster: ClusterConnection,
    topic: str,
    count: int,
    partitions: Sequence[int] | None = None,
    *,
    offset: int | None = None,
    time_ms: int | None = None,
) -> Found:
    """Return records from an offset, a time, or else the beginning on, the oldest one first."""
    async with cluster.consumer(**_FETCHING) as consumer:
        ranges = await offsets_of(consumer, topic, partitions)
        found = Found(ranges=ranges)
        starts = {each: place.start for each, place in ranges.items()}
        if time_ms is not None:
            places = await consumer.offsets_for_times(dict.fromkeys(ranges, time_ms))
            starts = {each: ranges[each].end if at is None else at.offset for each, at in places.items()}
        elif offset is not None:
            starts = {each: min(max(place.start, offset), place.end) for each, place in ranges.items()}
        windows = {each: Place(starts[each], place.end) for each, place in ranges.items()}
        await _read(consumer, windows, found, count, each_max=count)
    found.records.sort(key=lambda record: (record.timestamp_ms, record.partition, record.offset))
    del found.records[count:]
    return found


async def read_one(cluster: ClusterConnection, partition: TopicPartition, offset: int) -> tuple[Record, Batch] | None:
    """Return a record and the batches it came in; None if the partition has no such offset (any more)."""
    async with cluster.consumer(**_FETCHING) as consumer:
        place = (await offsets_of(consumer, partition.topic, [partition.partition]))[partition]
        if not place.start <= offset < place.end:
            return None
        consumer.assign([partition])
        consumer.seek(partition, offset)
        deadline = asyncio.get_running_loop().time() + _SECONDS_MAX
        while asyncio.get_running_loop().time() < deadline:
            for batch in (await consumer.poll(_POLL_S, 1)).values():
                for record in batch:
                    return (_copied(record), batch) if record.offset == offset else None
            if await consumer.position(partition) > offset:
                return None
    return None


async def read_heads(cluster: ClusterConnection, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the timestamp of the first record at or behind an offset, by partition, as far as it can be read soon."""
    found: dict[TopicPartition, int] = {}
    if not offsets:
        return found
    async with cluster.consumer(max_partition_fetch_bytes=64 << 10, fetch_max_bytes=4 << 20) as consumer:
        consumer.assign(offsets)
        for each, offset in offsets.items():
            consumer.seek(each, offset)
        deadline = asyncio.get_running_loop().time() + 2.0
        while len(found) < len(offsets) and asyncio.get_running_loop().time() < deadline:
            for partition, batch in (await consumer.poll(_POLL_S)).items():
                for record in batch:
                    if record.offset >= offsets[partition]:
                        found.setdefault(partition, record.timestamp_ms)
                        break
                consumer.pause([partition])
    return found


async def _read(
    consumer: AsyncConsumer,
    windows: Mapping[TopicPartition, Place],
    found: Found,
    count: int,
    *,
    each_max: int | None = None,
) -> None:
    """Read windows until their ends, or a bound."""
    left = {each: place for each, place in windows.items() if place.start < place.end}
    if len(left) > WINDOW_PARTITIONS_MAX:
        left = dict(sorted(left.items())[:WINDOW_PARTITIONS_MAX])
        found.notes.append(f"only the first {WINDOW_PARTITIONS_MAX} partitions with records were read")
    consumer.assign(left)
    for each, place in left.items():
        consumer.seek(each, place.start)
    loop = asyncio.get_running_loop()
    deadline, read_bytes = loop.time() + _SECONDS_MAX, 0
    read: dict[TopicPartition, int] = {}
    while left:
        if loop.time() > deadline:
            found.notes.append(f"reading ended after {_SECONDS_MAX:.0f} s, before the end")
            return
        for partition, batch in (await consumer.poll(_POLL_S)).items():
            if partition not in left:
                continue
            place = left[partition]
            read_bytes += batch.size_bytes
            for record in batch:
                if record.offset >= place.end or (each_max is not None and read.get(partition, 0) >= each_max):
                    left.pop(partition, None)
                    break
                found.records.append(_copied(record))
                read[partition] = read.get(partition, 0) + 1
            if partition not in left:
                consumer.pause([partition])
        for each in [each for each, place in left.items() if await consumer.position(each) >= place.end]:
            del left[each]
        if read_bytes > _BYTES_MAX and left:
            found.notes.append(f"reading ended after {_BYTES_MAX >> 20} MiB, before the end: ask for fewer records")
            return


def _copied(record: Record) -> Record:
    """Return a record that keeps no response of a broker in memory."""
    headers = [(name, value) for name, value in record.headers]
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.timestamp_type,
        record.key,
        record.value,
        headers,
    )
