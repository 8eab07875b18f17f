"""Which node coordinates a group: spread over all nodes by the group's name, and moving when a node stops. Pure.

In Kafka a group belongs to a partition of `__consumer_offsets`, and its coordinator leads that. Here a group has a
number, one of as many, and every number has the nodes in an order of its own: the first one that runs coordinates.
Source: org.apache.kafka.coordinator.group.GroupCoordinatorService.partitionFor.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

PARTITIONS: Final = 50  # offsets.topic.num.partitions, transaction.state.log.num.partitions
_INT32: Final = 1 << 32
_SIGN: Final = 1 << 31


def coordinator_of(key: str, nodes: Collection[int], live: Collection[int]) -> int | None:
    """The node that coordinates a group (or transactional id); None when no node runs.

    Args:
        key: the group's id.
        nodes: ids of all nodes of the cluster.
        live: ids of those that run.
    """
    order = sorted(nodes)
    first = partition_of(key) % len(order) if order else 0
    return next((node for node in order[first:] + order[:first] if node in live), None)


def partition_of(key: str, partitions: int = PARTITIONS) -> int:
    """The number of a group or transactional id: Java's String.hashCode, made positive, modulo the partitions."""
    number = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (31 * number + (units[at] << 8 | units[at + 1])) % _INT32
    signed = number - _INT32 if number >= _SIGN else number
    return (0 if signed == -_SIGN else abs(signed)) % partitions
