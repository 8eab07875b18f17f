"""What a broker sent for one partition, ready to be handed over from an offset on; nothing is decoded."""

from __future__ import annotations

from collections.abc import Sequence

from kafkaraw.light_classes import dataclass
from kafkaraw.records import TopicPartition, Wire


@dataclass(frozen=True, slots=True)
class Cut:
    """Records of one partition, ready to be handed over.

    Attributes:
        topic_partition: where they come from.
        wires: whole wire batches with their headers.
        start_offset: records before it are not meant.
        next_offset: where to go on.
        records_count: how many records there are, at most; 0 when there is nothing for a user.
    """

    topic_partition: TopicPartition
    wires: Sequence[Wire]
    start_offset: int
    next_offset: int
    records_count: int


def cut(topic_partition: TopicPartition, wires: Sequence[Wire], start_offset: int) -> Cut:
    """Cut out what comes at `start_offset`.

    Args:
        topic_partition: where the data come from.
        wires: wire batches with their headers.
        start_offset: the first offset wanted; batches that end before it are left out.
    """
    begin = count = 0
    next_offset = start_offset
    for index, (header, _) in enumerate(wires):
        behind = header.next_offset
        if behind <= start_offset:
            begin = index + 1
            continue
        next_offset = behind
        if not header.is_control:
            count += min(header.records_count, behind - max(header.base_offset, start_offset))
    return Cut(topic_partition, wires[begin:] if begin else wires, start_offset, next_offset, count)
