"""The orders in which Java's assignors iterate over members, texts and partitions.

In Java's sticky assignors, the order of a `HashMap` decides which member gets the odd partition. The leader of a group
may be of either client, and a change of the leader should not move partitions; so that order is computed here. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from kafkaraw.core.group.assignors.interface import Members
from kafkaraw.core.group.consumer_protocol import text_order
from kafkaraw.records import TopicPartition

T = TypeVar("T")

_CAPACITY_MIN = 16
_MASK = 0xFFFFFFFF


def member_order(members: Members, chosen: Iterable[str] | None = None) -> list[str]:
    """Return member ids in order: static members by instance id, then the others by member id.

    Args:
        members: the group's members.
        chosen: member ids; None for all.
    """

    def key(member_id: str) -> tuple[bool, bytes]:
        name = members[member_id].group_instance_id
        return (True, text_order(member_id)) if name is None else (False, text_order(name))

    return sorted(members if chosen is None else chosen, key=key)


def hash_order(items: Collection[str]) -> list[str]:
    """Return texts in the order of a `HashMap` into which they were put in the given order."""
    return _by_bucket(items, text_hash)


def partition_hash_order(partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    """Return partitions in the order of a `HashSet`."""
    return _by_bucket(partitions, partition_hash)


def text_hash(text: str) -> int:
    """Return `String.hashCode`, unsigned."""
    units = text_order(text)
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & _MASK
    return value


def partition_hash(partition: TopicPartition) -> int:
    """Return `TopicPartition.hashCode`, unsigned."""
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
    """Return partitions sorted by topic, then by number."""
    return sorted(partitions, key=lambda each: (text_order(each.topic), each.partition))
