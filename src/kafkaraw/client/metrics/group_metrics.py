"""What a consumer counts about its group: rebalances, heartbeats, commits.

Names are those of Java's consumer-coordinator-metrics, with `_` for `-` and a unit where there is one.
`client.metrics()["group"]` gives them, of a consumer that has a group. Start at `GroupMetrics.as_dict`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kafkaraw.client.metrics.consumer_metrics import UNKNOWN, ratio
from kafkaraw.core.group.member import GroupMember
from kafkaraw.light_classes import dataclass

GROUP: Final = "group"
"""Where they stand in `client.metrics()`, beside the nodes."""

MEANINGS: Final = {
    "assigned_partitions": "Partitions that are assigned to the member.",
    "rebalance_total": "Rebalances that ended with an assignment.",
    "rebalance_latency_total_s": "Seconds from the start of a rebalance to its assignment, of all rebalances.",
    "rebalance_latency_avg_s": "Seconds of a rebalance.",
    "rebalance_latency_max_s": "Seconds of the longest rebalance.",
    "last_rebalance_seconds_ago": "Seconds since the last one ended; -1 before the first.",
    "membership_lost_total": "Times that the member lost its membership without leaving (not in Java).",
    "heartbeat_total": "Heartbeats that the coordinator accepted.",
    "heartbeat_response_time_max_s": "Seconds of the slowest response to a heartbeat.",
    "last_heartbeat_seconds_ago": "Seconds since the last one was accepted; -1 before the first.",
    "last_poll_seconds_ago": "Seconds since the last call of poll(); 0 during a call, or before the first.",
    "commit_total": "Commits that the coordinator accepted.",
    "commit_failed_total": "Commits that failed (not in Java).",
    "commit_latency_total_s": "Seconds from a commit to its end, retries included, of all accepted ones (not in Java).",
    "commit_latency_avg_s": "Seconds of a commit.",
    "commit_latency_max_s": "Seconds of the slowest commit.",
}
"""The meaning of each metric, by name. Metrics with `_total` are counters."""


@dataclass(slots=True)
class GroupMetrics:
    """The counters of one consumer's side of its group. Written on its loop; may be read on any thread."""

    _heartbeat_max_s: float = 0.0
    _commits: int = 0
    _commits_failed: int = 0
    _commit_sum_s: float = 0.0
    _commit_max_s: float = 0.0
    _loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> float:
        """Something begins; gives the time for what ends it."""
        self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def heartbeat_answered(self, began_s: float) -> None:
        """A heartbeat was answered."""
        self._heartbeat_max_s = max(self._heartbeat_max_s, self.begin() - began_s)

    def committed(self, began_s: float) -> None:
        """A commit has succeeded."""
        seconds = self.begin() - began_s
        self._commits += 1
        self._commit_sum_s += seconds
        self._commit_max_s = max(self._commit_max_s, seconds)

    def commit_failed(self) -> None:
        """A commit has failed."""
        self._commits_failed += 1

    def as_dict(self, member: GroupMember) -> dict[str, float | dict[str, int]]:
        """All of it, by name; see `MEANINGS`.

        Args:
            member: knows about rebalances and heartbeats.
        """
        counts, now_ms = member.metrics, 0 if self._loop is None else int(self._loop.time() * 1000)
        values: dict[str, float | dict[str, int]] = {
            "assigned_partitions": len(member.reconciler.owned),
            "rebalance_total": counts.rebalances,
            "rebalance_latency_total_s": counts.rebalance_ms / 1000,
            "rebalance_latency_avg_s": ratio(counts.rebalance_ms / 1000, counts.rebalances),
            "rebalance_latency_max_s": counts.rebalance_ms_max / 1000,
            "last_rebalance_seconds_ago": _since(counts.rebalanced_at_ms, now_ms),
            "membership_lost_total": counts.losses,
            "heartbeat_total": counts.heartbeats,
            "heartbeat_response_time_max_s": self._heartbeat_max_s,
            "last_heartbeat_seconds_ago": _since(counts.heartbeat_at_ms, now_ms),
            "last_poll_seconds_ago": member.poll_timer.elapsed_ms(now_ms) / 1000,
            "commit_total": self._commits,
            "commit_failed_total": self._commits_failed,
            "commit_latency_total_s": self._commit_sum_s,
            "commit_latency_avg_s": ratio(self._commit_sum_s, self._commits),
            "commit_latency_max_s": self._commit_max_s,
        }
        assert values.keys() == MEANINGS.keys()
        return values


def _since(at_ms: int | None, now_ms: int) -> float:
    return UNKNOWN if at_ms is None else max(0, now_ms - at_ms) / 1000
