"""The committed offsets of the groups of one coordinator, and the pending ones of open transactions.

This module only stores them; `coordinator` decides which commits are valid. Source: OffsetMetadataManager.Offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The committed offset of a group in a partition.

    Attributes:
        committed_ms: when it was committed, in milliseconds since 1970.
        expires_ms: when it expires, in milliseconds since 1970; -1 applies the broker's retention time.
        topic_id: id of the topic when it was committed; zero for none.
    """

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int = -1
    expires_ms: int = -1
    topic_id: Uuid = ZERO_UUID


class GroupOffsets:
    """Committed offsets, by group and partition."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._undecided: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = {}

    def commit(self, group_id: str, topic_partition: TopicPartition, committed: CommittedOffset) -> None:
        """Store a committed offset."""
        self._groups.setdefault(group_id, {})[topic_partition] = committed

    def commit_in_transaction(
        self, producer_id: int, group_id: str, topic_partition: TopicPartition, committed: CommittedOffset
    ) -> None:
        """Store a pending offset, which is committed with the producer's transaction."""
        self._undecided.setdefault(producer_id, {}).setdefault(group_id, {})[topic_partition] = committed

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Commit or drop the pending offsets of a producer's transaction."""
        for group_id, offsets in self._undecided.pop(producer_id, {}).items():
            if commit:
                self._groups.setdefault(group_id, {}).update(offsets)

    def forget(self, group_id: str, topic_partition: TopicPartition) -> None:
        """Delete the offset of a partition, also pending ones."""
        offsets = self._groups.get(group_id, {})
        offsets.pop(topic_partition, None)
        if not offsets:
            self._groups.pop(group_id, None)
        for producer_id, groups in list(self._undecided.items()):
            undecided = groups.get(group_id, {})
            undecided.pop(topic_partition, None)
            if not undecided:
                groups.pop(group_id, None)
            if not groups:
                del self._undecided[producer_id]

    def is_undecided(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Return whether an open transaction has a pending offset of the group in a partition."""
        return any(topic_partition in groups.get(group_id, ()) for groups in self._undecided.values())

    def in_open_transaction(self, group_id: str) -> bool:
        """Return whether an open transaction has a pending offset of the group."""
        return any(group_id in groups for groups in self._undecided.values())

    def committed(self, group_id: str, topic_partition: TopicPartition) -> CommittedOffset | None:
        """Return the committed offset of a group in a partition, if there is one."""
        return self._groups.get(group_id, {}).get(topic_partition)

    def of(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return all committed offsets of a group, by partition in order."""
        return dict(sorted(self._groups.get(group_id, {}).items()))

    def known(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions in which a group has a committed or pending offset."""
        undecided = {key for groups in self._undecided.values() for key in groups.get(group_id, ())}
        return sorted(undecided | self._groups.get(group_id, {}).keys())

    def in_topic(self, name: str) -> Iterator[tuple[str, TopicPartition]]:
        """Return (group, partition) of all committed and pending offsets in a topic."""
        groups = dict.fromkeys([*self._groups, *(group for found in self._undecided.values() for group in found)])
        for group_id in groups:
            for key in self.known(group_id):
                if key.topic == name:
                    yield group_id, key

    def groups(self) -> list[str]:
        """Return the groups with committed offsets."""
        return list(self._groups)
