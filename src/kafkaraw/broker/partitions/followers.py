"""What a leader knows of its followers: how far each has got, and since when it lags. Pure; times are passed in.

From it follow the high watermark, and who leaves or joins the replicas in sync.
Source: kafka.cluster.{Replica, ReplicaState, Partition.maybeIncrementLeaderHW, Partition.getOutOfSyncReplicas}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from kafkaraw.light_classes import dataclass

UNKNOWN_OFFSET: Final = -1
NEVER: Final = float("-inf")


@dataclass(slots=True)
class Progress:
    """One follower.

    Attributes:
        log_end_offset: what it has asked for last, and so where its log ends; -1 when it has not asked yet.
        caught_up_s: when it last had all that there was.
        asked_s: when it last asked.
        leader_end_offset: where the leader's log ended then.
        log_start_offset: where its log starts, as it has said; -1 when it has not asked yet.
    """

    caught_up_s: float
    log_end_offset: int = UNKNOWN_OFFSET
    asked_s: float = NEVER
    leader_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET


class Followers:
    """The followers of one partition, as its leader sees them.

    Args:
        nodes: who follows.
        isr: who is in sync now: they count as caught up until they have had time to show it.
        now_s: the present time, in seconds.
        lag_max_s: how long a follower may lag (replica.lag.time.max.ms).
    """

    def __init__(self, nodes: Iterable[int], isr: Collection[int], now_s: float, lag_max_s: float) -> None:
        self._lag_max_s = lag_max_s
        self._progress = {node: Progress(now_s if node in isr else NEVER) for node in nodes}

    def starts_at(self, node: int, log_start_offset: int) -> None:
        """A follower has said where its log starts."""
        self._progress[node].log_start_offset = log_start_offset

    def low_watermark(self, log_start_offset: int, is_live: Callable[[int], bool]) -> int:
        """The first offset that any replica has which runs; the leader's own start is given."""
        starts = [progress.log_start_offset for node, progress in self._progress.items() if is_live(node)]
        return min([log_start_offset, *starts])

    def asked(self, node: int, offset: int, leader_end_offset: int, now_s: float) -> None:
        """A follower asks for what comes from `offset` on."""
        progress = self._progress[node]
        if offset >= leader_end_offset:
            progress.caught_up_s = max(progress.caught_up_s, now_s)
        elif offset >= progress.leader_end_offset:
            # It has all that there was when it asked before: under steady load it is never nearer than that.
            progress.caught_up_s = max(progress.caught_up_s, progress.asked_s)
        progress.log_end_offset = offset
        progress.asked_s = now_s
        progress.leader_end_offset = leader_end_offset

    def knows(self, node: int) -> bool:
        """Whether a node follows."""
        return node in self._progress

    def high_watermark(
        self, isr: Collection[int], log_end_offset: int, now_s: float, is_live: Callable[[int], bool]
    ) -> int:
        """The offset up to which all have everything: those in sync, and those that run and are about to be."""
        found = log_end_offset
        for node, progress in self._progress.items():
            counts = node in isr or (is_live(node) and self._is_caught_up(progress, log_end_offset, now_s))
            if counts and progress.log_end_offset < found:
                found = progress.log_end_offset
        return found

    def having(self, isr: Collection[int], offset: int) -> list[tuple[int, float, int]]:
        """Those in sync that have an offset: where the log ends, when it last had everything, and the node."""
        return [
            (progress.log_end_offset, progress.caught_up_s, node)
            for node, progress in self._progress.items()
            if node in isr and 0 <= progress.log_start_offset <= offset <= progress.log_end_offset
        ]

    def lagging(self, isr: Collection[int], log_end_offset: int, now_s: float) -> list[int]:
        """Those in sync that have lagged for too long."""
        return [
            node
            for node, progress in self._progress.items()
            if node in isr and not self._is_caught_up(progress, log_end_offset, now_s)
        ]

    def any_behind(self, isr: Collection[int], log_end_offset: int) -> bool:
        """Whether one of those in sync does not have everything."""
        return any(progress.log_end_offset < log_end_offset for node, progress in self._progress.items() if node in isr)

    def _is_caught_up(self, progress: Progress, log_end_offset: int, now_s: float) -> bool:
        return progress.log_end_offset == log_end_offset or now_s - progress.caught_up_s <= self._lag_max_s
