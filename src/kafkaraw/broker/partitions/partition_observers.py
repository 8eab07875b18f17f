"""The observers that a partition notifies: watchers that wait for records, and the keeper of the ISR.

These are protocols only; `broker.partitions.partition` calls them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kafkaraw.records import TopicPartition


class Watcher(Protocol):
    """Waits for changes of a partition."""

    def readable(self, size_bytes: int) -> None:
        """Called when the high watermark has advanced by this number of bytes."""
        ...

    def ended(self) -> None:
        """Called when this node is no longer the leader, or leads in a new epoch, or the partition is deleted."""
        ...


class IsrKeeper(Protocol):
    """Notified of changes of the ISR; replies with a new partition state."""

    def is_live(self, node_id: int) -> bool:
        """Return whether a node is running, so that it could be in sync."""
        ...

    def shrink_isr(self, topic_partition: TopicPartition, lagging: Iterable[int]) -> None:
        """Called with in-sync followers that lag too far behind."""
        ...

    def expand_isr(self, topic_partition: TopicPartition, node_id: int) -> None:
        """Called with a follower that has caught up."""
        ...
