"""Whom a partition tells what happens to it: those who wait for records, and who decides which replicas are in sync.

Only what they must be able to hear; `broker.partition` says it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kafkaraw.records import TopicPartition


class Watcher(Protocol):
    """Whoever waits for something to happen in a partition."""

    def readable(self, size_bytes: int) -> None:
        """So many bytes more can be read: the high watermark has moved."""
        ...

    def ended(self) -> None:
        """This node leads the partition no more, or the partition is gone."""
        ...


class IsrKeeper(Protocol):
    """Who is told which followers are in sync; answers by a new state."""

    def is_live(self, node_id: int) -> bool:
        """Whether a node runs, so that it could be in sync."""
        ...

    def shrink_isr(self, topic_partition: TopicPartition, lagging: Iterable[int]) -> None:
        """Followers lag too far behind."""
        ...

    def expand_isr(self, topic_partition: TopicPartition, node_id: int) -> None:
        """A follower has caught up."""
        ...
