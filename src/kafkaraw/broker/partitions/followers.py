"""A leader and its followers: the fetch of a follower, its answer, and the progress of each. Pure; times are passed in.

The high watermark and the changes of the ISR follow from the log end offset of each follower and since when it lags.
The rules are those of a Fetch request between brokers since KIP-595: a follower sends the leader epoch of its last
batch, and the leader reports log divergence if its own log differs before the fetch offset.
Source: kafka.cluster.{Replica, ReplicaState, Partition.maybeIncrementLeaderHW, Partition.getOutOfSyncReplicas}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from kafkaraw.core.log.leader_epochs import EpochEnd
from kafkaraw.light_classes import dataclass
from kafkaraw.records import TopicPartition

UNKNOWN_OFFSET: Final = -1
NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class ReplicaFetch:
    """The fetch of a follower, from its log end offset.

    Attributes:
        node: id of the follower.
        leader_epoch: the leader epoch in which it follows.
        offset: its log end offset.
        last_epoch: the leader epoch of its last batch; -1 if its log is empty.
        high_watermark: the high watermark that it knows.
        log_start_offset: its log start offset.
    """

    node: int
    leader_epoch: int
    offset: int
    last_epoch: int
    high_watermark: int
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches to append to the follower's log; empty if only the high watermark or log start offset is new."""

    data: bytes
    high_watermark: int
    log_start_offset: int = 0


@dataclass(frozen=True, slots=True)
class DivergingEpoch:
    """Log divergence: the end of the follower's last epoch in the leader's log."""

    end: EpochEnd


@dataclass(frozen=True, slots=True)
class OffsetOutOfRange:
    """The leader's log starts after the fetch offset, or ends before it; the follower restarts its log at its start."""

    log_start_offset: int


ReplicaFetchResult = Batches | DivergingEpoch | OffsetOutOfRange


class IsrKeeper(Protocol):
    """Notified of changes of the ISR; replies with a new partition state."""

    def is_live(self, topic_partition: TopicPartition, node_id: int) -> bool:
        """Return whether a replica could be in sync: its node is running, and its log directory has not failed."""
        ...

    def shrink_isr(self, topic_partition: TopicPartition, lagging: Iterable[int]) -> None:
        """Called with in-sync followers that lag too far behind."""
        ...

    def expand_isr(self, topic_partition: TopicPartition, node_id: int) -> None:
        """Called with a follower that has caught up."""
        ...


@dataclass(slots=True)
class Progress:
    """One follower.

    Attributes:
        log_end_offset: offset of its last fetch, which is its log end offset; -1 before the first fetch.
        caught_up_s: when it last had all records of the leader.
        asked_s: when it last fetched.
        leader_end_offset: the leader's log end offset at that time.
        log_start_offset: its log start offset, as in its last fetch; -1 before the first fetch.
    """

    caught_up_s: float
    log_end_offset: int = UNKNOWN_OFFSET
    asked_s: float = NEVER
    leader_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET


class Followers:
    """The followers of one partition, as its leader sees them.

    Args:
        nodes: ids of the followers.
        isr: ids of the in-sync replicas; they count as caught up for the first `lag_max_s` seconds.
        now_s: the current time, in seconds.
        lag_max_s: how long an in-sync follower may lag, in seconds (replica.lag.time.max.ms).
    """

    def __init__(self, nodes: Iterable[int], isr: Collection[int], now_s: float, lag_max_s: float) -> None:
        self._lag_max_s = lag_max_s
        self._progress = {node: Progress(now_s if node in isr else NEVER) for node in nodes}

    def starts_at(self, node: int, log_start_offset: int) -> None:
        """Set the log start offset of a follower, which its fetch contains."""
        self._progress[node].log_start_offset = log_start_offset

    def low_watermark(self, log_start_offset: int, is_live: Callable[[int], bool]) -> int:
        """Return the lowest log start offset of the leader (`log_start_offset`) and all running followers."""
        starts = [progress.log_start_offset for node, progress in self._progress.items() if is_live(node)]
        return min([log_start_offset, *starts])

    def asked(self, node: int, offset: int, leader_end_offset: int, now_s: float) -> None:
        """Note that a follower fetches from `offset`."""
        progress = self._progress[node]
        if offset >= leader_end_offset:
            progress.caught_up_s = max(progress.caught_up_s, now_s)
        elif offset >= progress.leader_end_offset:
            # It has all that the leader had at its last fetch: under steady load, a follower never gets closer.
            progress.caught_up_s = max(progress.caught_up_s, progress.asked_s)
        progress.log_end_offset = offset
        progress.asked_s = now_s
        progress.leader_end_offset = leader_end_offset

    def knows(self, node: int) -> bool:
        """Return whether a node is a follower of this partition."""
        return node in self._progress

    def high_watermark(
        self, isr: Collection[int], log_end_offset: int, now_s: float, is_live: Callable[[int], bool]
    ) -> int:
        """Return the offset that the whole ISR, and running replicas that are about to join the ISR, have reached."""
        found = log_end_offset
        for node, progress in self._progress.items():
            counts = node in isr or (is_live(node) and self._is_caught_up(progress, log_end_offset, now_s))
            if counts and progress.log_end_offset < found:
                found = progress.log_end_offset
        return found

    def having(self, isr: Collection[int], offset: int) -> list[tuple[int, float, int]]:
        """Return the in-sync followers that have an offset: (log end offset, time of the last catch-up, node)."""
        return [
            (progress.log_end_offset, progress.caught_up_s, node)
            for node, progress in self._progress.items()
            if node in isr and 0 <= progress.log_start_offset <= offset <= progress.log_end_offset
        ]

    def lagging(self, isr: Collection[int], log_end_offset: int, now_s: float) -> list[int]:
        """Return the in-sync followers that have lagged for more than `lag_max_s`."""
        return [
            node
            for node, progress in self._progress.items()
            if node in isr and not self._is_caught_up(progress, log_end_offset, now_s)
        ]

    def any_behind(self, isr: Collection[int], log_end_offset: int) -> bool:
        """Return whether an in-sync follower lacks records of the leader."""
        return any(progress.log_end_offset < log_end_offset for node, progress in self._progress.items() if node in isr)

    def _is_caught_up(self, progress: Progress, log_end_offset: int, now_s: float) -> bool:
        return progress.log_end_offset == log_end_offset or now_s - progress.caught_up_s <= self._lag_max_s
