"""Committed offsets of consumer groups, in memory.

For consumers that assign partitions themselves and only keep their positions here. There is no membership yet, so the
only generation is -1. Offsets go with their topic, and with the broker when it stops.
Source: org.apache.kafka.coordinator.group.OffsetMetadataManager.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkaraw.records import TopicPartition


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The position that a group has reached in a partition."""

    offset: int
    leader_epoch: int
    metadata: str


class OffsetStore:
    """Committed offsets, by group and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._undecided: dict[tuple[int, str], dict[TopicPartition, CommittedOffset]] = {}

    def commit(self, group_id: str, topic_partition: TopicPartition, committed: CommittedOffset) -> None:
        """Remember a position."""
        self._groups.setdefault(group_id, {})[topic_partition] = committed

    def commit_in_transaction(
        self, producer_id: int, group_id: str, topic_partition: TopicPartition, committed: CommittedOffset
    ) -> None:
        """Remember a position that counts once the producer's transaction commits."""
        self._undecided.setdefault((producer_id, group_id), {})[topic_partition] = committed

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The producer's transaction is decided."""
        for key in [key for key in self._undecided if key[0] == producer_id]:
            positions = self._undecided.pop(key)
            if commit:
                self._groups.setdefault(key[1], {}).update(positions)

    def is_undecided(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether an open transaction has a position of the group in a partition."""
        return any(group_id == key[1] and topic_partition in found for key, found in self._undecided.items())

    def committed(self, group_id: str, topic_partition: TopicPartition) -> CommittedOffset | None:
        """The position of a group in a partition, when it has one."""
        return self._groups.get(group_id, {}).get(topic_partition)

    def partitions(self, group_id: str) -> list[TopicPartition]:
        """The partitions in which a group has a position, sorted."""
        return sorted(self._groups.get(group_id, {}))

    def forget_topic(self, name: str) -> None:
        """Drop the positions in a topic that was deleted."""
        for group_id in list(self._groups):
            kept = {key: value for key, value in self._groups[group_id].items() if key.topic != name}
            if kept:
                self._groups[group_id] = kept
            else:
                del self._groups[group_id]
