"""The positions that the groups of one coordinator have committed, and those that open transactions want to commit.

Only what is known; who may commit is decided in `coordinator`. Source: OffsetMetadataManager.Offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.records import TopicPartition


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The position that a group has reached in a partition.

    Attributes:
        committed_ms: when it was committed, in milliseconds since 1970.
        expires_ms: when to forget it, in milliseconds since 1970; -1 leaves that to the broker.
        topic_id: of the topic when it was committed; zero for none.
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
        """Remember a position."""
        self._groups.setdefault(group_id, {})[topic_partition] = committed

    def commit_in_transaction(
        self, producer_id: int, group_id: str, topic_partition: TopicPartition, committed: CommittedOffset
    ) -> None:
        """Remember a position that counts once the producer's transaction commits."""
        self._undecided.setdefault(producer_id, {}).setdefault(group_id, {})[topic_partition] = committed

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The producer's transaction is decided."""
        for group_id, positions in self._undecided.pop(producer_id, {}).items():
            if commit:
                self._groups.setdefault(group_id, {}).update(positions)

    def forget(self, group_id: str, topic_partition: TopicPartition) -> None:
        """Drop a position, also what open transactions want it to be."""
        positions = self._groups.get(group_id, {})
        positions.pop(topic_partition, None)
        if not positions:
            self._groups.pop(group_id, None)
        for producer_id, groups in list(self._undecided.items()):
            undecided = groups.get(group_id, {})
            undecided.pop(topic_partition, None)
            if not undecided:
                groups.pop(group_id, None)
            if not groups:
                del self._undecided[producer_id]

    def is_undecided(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether an open transaction has a position of the group in a partition."""
        return any(topic_partition in groups.get(group_id, ()) for groups in self._undecided.values())

    def in_open_transaction(self, group_id: str) -> bool:
        """Whether an open transaction has any position of the group."""
        return any(group_id in groups for groups in self._undecided.values())

    def committed(self, group_id: str, topic_partition: TopicPartition) -> CommittedOffset | None:
        """The position of a group in a partition, when it has one."""
        return self._groups.get(group_id, {}).get(topic_partition)

    def of(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """All positions of a group, by partition in order."""
        return dict(sorted(self._groups.get(group_id, {}).items()))

    def known(self, group_id: str) -> list[TopicPartition]:
        """The partitions in which a group has a position, or an open transaction wants one."""
        undecided = {key for groups in self._undecided.values() for key in groups.get(group_id, ())}
        return sorted(undecided | self._groups.get(group_id, {}).keys())

    def in_topic(self, name: str) -> Iterator[tuple[str, TopicPartition]]:
        """(group, partition) of every position in a topic, wanted ones included."""
        groups = dict.fromkeys([*self._groups, *(group for found in self._undecided.values() for group in found)])
        for group_id in groups:
            for key in self.known(group_id):
                if key.topic == name:
                    yield group_id, key

    def groups(self) -> list[str]:
        """The groups that have positions."""
        return list(self._groups)
