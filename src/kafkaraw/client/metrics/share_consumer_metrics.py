"""What a share consumer counts: fetches, acknowledgements, polls, and about its membership. Once per response or call.

Names are those of Java's consumer-share-fetch-manager-metrics, consumer-share-metrics and
consumer-share-coordinator-metrics, with `_` for `-` and a unit where there is one. `client.metrics()["share_consumer"]`
and `["share_group"]` give them. Start at `ShareCounters.as_dict`.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kafkaraw.client.metrics.consumer_metrics import UNKNOWN, ratio
from kafkaraw.core.group.member import MemberMetrics
from kafkaraw.light_classes import dataclass

GROUP: Final = "share_consumer"
"""Where those of reading stand in `client.metrics()`, beside the nodes."""
MEMBER_GROUP: Final = "share_group"
"""Where those of the membership stand."""

MEANINGS: Final = {
    "fetch_total": "Responses to ShareFetch requests.",
    "fetch_failed_total": "Requests of a share session that failed: the session begins again (not in Java).",
    "bytes_consumed_total": "Bytes of record batches in these responses.",
    "records_consumed_total": "Records that were acquired and handed over.",
    "records_per_request_avg": "Records of a response.",
    "records_per_request_max": "Records of the largest response.",
    "fetch_size_avg": "Bytes of record batches of a response.",
    "fetch_size_max": "Bytes of record batches of the largest response.",
    "fetch_latency_total_s": "Seconds from a ShareFetch to its response, of all of them (not in Java).",
    "fetch_latency_avg_s": "Seconds from a ShareFetch to its response; up to fetch_max_wait_ms without records.",
    "fetch_latency_max_s": "Seconds of the slowest ShareFetch.",
    "fetch_throttle_time_total_s": "Seconds that brokers report to have throttled responses (not in Java).",
    "fetch_throttle_time_max_s": "Seconds of the longest such time.",
    "acknowledgements_send_total": "Records whose acknowledgements were sent, renewals included.",
    "acknowledgements_error_total": "Records whose acknowledgements failed.",
    "poll_wait_time_total_s": "Seconds that calls waited for records (not in Java).",
    "time_between_poll_total_s": "Seconds from one call of poll() to the next, of all of them (not in Java).",
    "time_between_poll_avg_s": "Seconds from one call of poll() to the next.",
    "time_between_poll_max_s": "The longest such time, in seconds.",
    "polls_total": "Calls of poll(), and others that read (not in Java).",
    "last_poll_seconds_ago": "Seconds since the last call of poll() ended; 0 during a call; -1 before the first.",
}
"""The meaning of each metric of reading, by name. Metrics with `_total` are counters."""

MEMBER_MEANINGS: Final = {
    "assigned_partitions": "Partitions that are assigned to the member.",
    "rebalance_total": "Joins that ended with an assignment.",
    "membership_lost_total": "Times that the member lost its membership without leaving (not in Java).",
    "heartbeat_total": "Heartbeats that the coordinator accepted.",
    "heartbeat_response_time_max_s": "Seconds of the slowest response to a heartbeat.",
    "last_heartbeat_seconds_ago": "Seconds since the last one was accepted; -1 before the first.",
}
"""The meaning of each metric of the membership, by name."""


@dataclass(slots=True)
class ShareCounters:
    """The counters of one share consumer. Written on its loop; may be read on any thread.

    Attributes:
        records: acquired and handed over.
        sent: records whose acknowledgements were sent.
        failed: records whose acknowledgements failed.
        heartbeat_max_s: the slowest response to a heartbeat.
    """

    records: int = 0
    sent: int = 0
    failed: int = 0
    heartbeat_max_s: float = 0.0
    _fetches: int = 0
    _fetches_failed: int = 0
    _records_max: int = 0
    _bytes: int = 0
    _bytes_max: int = 0
    _latency_sum_s: float = 0.0
    _latency_max_s: float = 0.0
    _throttle_sum_s: float = 0.0
    _throttle_max_s: float = 0.0
    _polls: int = 0
    _waited_s: float = 0.0
    _between_sum_s: float = 0.0
    _between_max_s: float = 0.0
    _began_s: float | None = None
    _ended_s: float | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def poll_began(self) -> None:
        """The application reads."""
        self._loop = asyncio.get_running_loop()
        now_s = self._loop.time()
        if self._began_s is not None:
            self._between_sum_s += now_s - self._began_s
            self._between_max_s = max(self._between_max_s, now_s - self._began_s)
        self._polls += 1
        self._began_s, self._ended_s = now_s, None

    def poll_ended(self) -> None:
        """The call of the application ends."""
        self._ended_s = asyncio.get_running_loop().time()
        self._waited_s += self._ended_s - (self._began_s or self._ended_s)

    def fetched(self, records: int, size_bytes: int, seconds: float, throttle_time_ms: int) -> None:
        """A broker has answered to a ShareFetch."""
        self._fetches += 1
        self._records_max = max(self._records_max, records)
        self._bytes += size_bytes
        self._bytes_max = max(self._bytes_max, size_bytes)
        self._latency_sum_s += seconds
        self._latency_max_s = max(self._latency_max_s, seconds)
        if throttle_time_ms > 0:
            self._throttle_sum_s += throttle_time_ms / 1000
            self._throttle_max_s = max(self._throttle_max_s, throttle_time_ms / 1000)

    def fetch_failed(self) -> None:
        """A request of a share session has failed."""
        self._fetches_failed += 1

    def as_dict(self) -> dict[str, float | dict[str, int]]:
        """Return those of reading by name; see `MEANINGS`."""
        values: dict[str, float | dict[str, int]] = {
            "fetch_total": self._fetches,
            "fetch_failed_total": self._fetches_failed,
            "bytes_consumed_total": self._bytes,
            "records_consumed_total": self.records,
            "records_per_request_avg": ratio(self.records, self._fetches),
            "records_per_request_max": self._records_max,
            "fetch_size_avg": ratio(self._bytes, self._fetches),
            "fetch_size_max": self._bytes_max,
            "fetch_latency_total_s": self._latency_sum_s,
            "fetch_latency_avg_s": ratio(self._latency_sum_s, self._fetches),
            "fetch_latency_max_s": self._latency_max_s,
            "fetch_throttle_time_total_s": self._throttle_sum_s,
            "fetch_throttle_time_max_s": self._throttle_max_s,
            "acknowledgements_send_total": self.sent,
            "acknowledgements_error_total": self.failed,
            "poll_wait_time_total_s": self._waited_s,
            "time_between_poll_total_s": self._between_sum_s,
            "time_between_poll_avg_s": ratio(self._between_sum_s, max(self._polls - 1, 0)),
            "time_between_poll_max_s": self._between_max_s,
            "polls_total": self._polls,
            "last_poll_seconds_ago": self._last_poll_s,
        }
        assert values.keys() == MEANINGS.keys()
        return values

    @property
    def _last_poll_s(self) -> float:
        if self._loop is None:
            return UNKNOWN
        return 0.0 if self._ended_s is None else max(0.0, self._loop.time() - self._ended_s)

    def of_member(self, counts: MemberMetrics, partitions: int) -> dict[str, float | dict[str, int]]:
        """Return those of the membership by name; see `MEMBER_MEANINGS`.

        Args:
            counts: of the member.
            partitions: number of partitions that are assigned to it.
        """
        now_s = 0.0 if self._loop is None else self._loop.time()
        at_ms = counts.heartbeat_at_ms
        values: dict[str, float | dict[str, int]] = {
            "assigned_partitions": partitions,
            "rebalance_total": counts.rebalances,
            "membership_lost_total": counts.losses,
            "heartbeat_total": counts.heartbeats,
            "heartbeat_response_time_max_s": self.heartbeat_max_s,
            "last_heartbeat_seconds_ago": UNKNOWN if at_ms is None else max(0.0, now_s - at_ms / 1000),
        }
        assert values.keys() == MEMBER_MEANINGS.keys()
        return values
