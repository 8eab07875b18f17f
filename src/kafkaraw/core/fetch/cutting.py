"""Take records out of what a broker sent, without decoding them: at most so many, from an offset on.

Headers of batches tell how many records there are, so whole batches are counted, not decoded. Only when a limit falls
inside a batch that compaction has thinned out are its offsets looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkaraw.records import BatchHeader, Columns, TopicPartition, fill, iter_headers


@dataclass(frozen=True, slots=True)
class Cut:
    """Records of one partition, ready to be handed over.

    Attributes:
        topic_partition: where they come from.
        data: whole wire batches.
        start_offset: records before it are not meant.
        end_offset: records from it on are not meant; None when there is no such limit.
        next_offset: where to go on.
        records_count: how many records there are, at most; 0 when there is nothing for a user.
    """

    topic_partition: TopicPartition
    data: memoryview
    start_offset: int
    end_offset: int | None
    next_offset: int
    records_count: int


def cut(topic_partition: TopicPartition, data: memoryview, start_offset: int, limit: int | None) -> Cut:
    """Cut out what comes at `start_offset`.

    Args:
        topic_partition: where the data come from.
        data: wire batches.
        start_offset: the first offset wanted; batches that end before it are left out.
        limit: most records; None is all.

    Raises:
        CorruptBatch: the data are not batches.
    """
    begin = at = count = 0
    next_offset = start_offset
    for header, batch in iter_headers(data):
        if header.next_offset <= start_offset:
            begin = at = at + header.size
            continue
        first = max(header.base_offset, start_offset)
        given = 0 if header.is_control else min(header.records_count, header.next_offset - first)
        if limit is not None and count + given > limit:
            room = limit - count
            if not room:
                break
            end_offset = _end_offset(header, batch, first, room)
            return Cut(topic_partition, data[begin : at + header.size], start_offset, end_offset, end_offset, limit)
        at += header.size
        count += given
        next_offset = header.next_offset
    return Cut(topic_partition, data[begin:at], start_offset, None, next_offset, count)


def _end_offset(header: BatchHeader, batch: memoryview, first: int, room: int) -> int:
    """The offset after the `room`-th record at or behind `first`."""
    if header.records_count == header.last_offset_delta + 1:
        return first + room
    columns = Columns(frozenset({"offset"}), header.records_count)
    rows = fill(batch, columns, 0, "ms", start_offset=first)
    assert columns.offset is not None
    return columns.offset[room - 1] + 1 if rows >= room else header.next_offset
