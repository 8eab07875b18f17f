"""Which partitions have moved during a general sticky assignment, so that no topic's partitions are swapped in pairs.

When a partition of a topic has moved from A to B and another one of it should go from B to A, it is better to send the
first one back. Pure. Source: Kafka's AbstractStickyAssignor.
"""

from __future__ import annotations

from kafkaraw.core.group.java_order import partition_hash_order
from kafkaraw.records import TopicPartition

_Way = tuple[str, str]


class Movements:
    """Moves of partitions, from first owner to present one."""

    def __init__(self) -> None:
        self._way_of: dict[TopicPartition, _Way] = {}
        self._on_way: dict[tuple[str, _Way], dict[TopicPartition, None]] = {}

    def better_to_move(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to move from `source` to `target` instead of this one; this one when none is better."""
        if partition in self._way_of:
            source = self._way_of[partition][0]
        reverse = self._on_way.get((partition.topic, (target, source)))
        return partition_hash_order(reverse.keys())[0] if reverse else partition

    def move(self, partition: TopicPartition, source: str, target: str) -> None:
        """Note a move; one that leads back to the first owner is forgotten."""
        way = self._way_of.pop(partition, None)
        if way is not None:
            on_way = self._on_way[partition.topic, way]
            del on_way[partition]
            if not on_way:
                del self._on_way[partition.topic, way]
            source = way[0]
        if source != target:
            self._way_of[partition] = source, target
            self._on_way.setdefault((partition.topic, (source, target)), {})[partition] = None
