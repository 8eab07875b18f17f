"""The orders in which Java goes through texts and partitions.

Which member of a group gets the odd partition depends, in Java's sticky assignors, on the order of a `HashMap`. A group
may be led by either client and should not be shuffled when the leader changes; so that order is computed here. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from kafkaraw.records import TopicPartition

T = TypeVar("T")

_CAPACITY_MIN = 16
_MASK = 0xFFFFFFFF


def text_order(text: str) -> bytes:
    """Sort key of a text as `String.compareTo` has it: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_order(items: Collection[str]) -> list[str]:
    """Texts in the order of a `HashMap` that they were put into in the order given."""
    return _by_bucket(items, text_hash)


def partition_hash_order(partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    """Partitions in the order of a `HashSet`."""
    return _by_bucket(partitions, partition_hash)


def text_hash(text: str) -> int:
    """`String.hashCode`, unsigned."""
    units = text_order(text)
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & _MASK
    return value


def partition_hash(partition: TopicPartition) -> int:
    """`TopicPartition.hashCode`, unsigned."""
    return (31 * (31 + partition.partition) + text_hash(partition.topic)) & _MASK


def _by_bucket(items: Collection[T], hash_of: Callable[[T], int]) -> list[T]:
    capacity = _CAPACITY_MIN
    while len(items) > capacity * 3 // 4:
        capacity *= 2

    def bucket(item: T) -> int:
        value = hash_of(item)
        return (value ^ value >> 16) & (capacity - 1)

    return sorted(items, key=bucket)


def partitions_in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """By topic, then by number."""
    return sorted(partitions, key=lambda each: (text_order(each.topic), each.partition))
