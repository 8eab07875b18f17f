"""What a broker sent for one partition, ready to be handed over from an offset on; nothing is decoded."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaraw.records import TopicPartition, iter_headers


@dataclass(frozen=True, slots=True)
class Cut:
    """Records of one partition, ready to be handed over.

    Attributes:
        topic_partition: where they come from.
        data: whole wire batches.
        start_offset: records before it are not meant.
        next_offset: where to go on.
        records_count: how many records there are, at most; 0 when there is nothing for a user.
    """

    topic_partition: TopicPartition
    data: memoryview
    start_offset: int
    next_offset: int
    records_count: int


def cut(topic_partition: TopicPartition, data: memoryview, start_offset: int) -> Cut:
    """Cut out what comes at `start_offset`.

    Args:
        topic_partition: where the data come from.
        data: wire batches.
        start_offset: the first offset wanted; batches that end before it are left out.

    Raises:
        CorruptBatch: the data are not batches.
    """
    begin = at = count = 0
    next_offset = start_offset
    for header, _ in iter_headers(data):
        at += header.size
        if header.next_offset <= start_offset:
            begin = at
            continue
        first = max(header.base_offset, start_offset)
        count += 0 if header.is_control else min(header.records_count, header.next_offset - first)
        next_offset = header.next_offset
    return Cut(topic_partition, data[begin:at], start_offset, next_offset, count)
