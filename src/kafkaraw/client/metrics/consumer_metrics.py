"""What a consumer counts about fetching: how much, how fast, and how far behind. Counted once per answer.

Names are those of Java's consumer-fetch-manager-metrics, with `_` for `-` and a unit where there is one.
`client.metrics()["consumer"]` gives them. Start at `FetchCounters.as_dict`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.messages.fetch import FetchResponse
from kafkaraw.records import TopicPartition

GROUP: Final = "consumer"
"""Where they stand in `client.metrics()`, beside the nodes."""

UNKNOWN: Final = -1
"""The values before the first measurement."""

MEANINGS: Final = {
    "fetch_total": "Responses to Fetch requests.",
    "fetch_failed_total": "Fetch requests without a response (not in Java).",
    "bytes_consumed_total": "Bytes of record batches in these responses.",
    "records_consumed_total": "Records that were handed over, before any are passed over.",
    "records_per_request_avg": "Records of a response.",
    "fetch_size_avg": "Bytes of record batches of a response.",
    "fetch_size_max": "Bytes of record batches of the largest response.",
    "fetch_latency_total_s": "Seconds from a Fetch to its response, long polls included, of all of them (not in Java).",
    "fetch_latency_avg_s": "Seconds from a Fetch to its response; up to fetch_max_wait_ms if there are no records.",
    "fetch_latency_max_s": "Seconds of the slowest Fetch.",
    "fetch_throttle_time_total_s": "Seconds that brokers report to have throttled responses (not in Java).",
    "fetch_throttle_time_max_s": "Seconds of the longest such time.",
    "poll_wait_time_total_s": "Seconds that calls waited for records (not in Java).",
    "records_lag_max": "The largest of records_lag; -1 when none is known.",
    "records_lead_min": "Offsets between the start of a log and the position, the least of all; -1 when none is known.",
    "records_lag": "Offsets between position and end, by partition, where both are known.",
}
"""The meaning of each metric, by name. Metrics with `_total` are counters."""


@dataclass(slots=True)
class FetchCounters:
    """The counters of one consumer. Written on its loop; may be read on any thread."""

    records: int = 0
    _fetches: int = 0
    _fetches_failed: int = 0
    _bytes: int = 0
    _bytes_max: int = 0
    _latency_sum_s: float = 0.0
    _latency_max_s: float = 0.0
    _throttle_sum_s: float = 0.0
    _throttle_max_s: float = 0.0
    _waited_s: float = 0.0
    _waits_since: tuple[asyncio.AbstractEventLoop, float] | None = None

    def wait_began(self) -> None:
        """A call begins to wait for records."""
        loop = asyncio.get_running_loop()
        self._waits_since = (loop, loop.time())

    def wait_ended(self) -> None:
        """It waits no more."""
        self._waited_s, self._waits_since = self._wait_time_s, None

    @property
    def _wait_time_s(self) -> float:
        """Seconds of all waits, up to now of the one that has not ended."""
        waits = self._waits_since
        return self._waited_s + (0.0 if waits is None else waits[0].time() - waits[1])

    def answered(self, response: FetchResponse, seconds: float) -> None:
        """An answer came after so many seconds."""
        size = 0
        for topic in response.responses:
            for data in topic.partitions:
                records = data.records
                size += len(records) if isinstance(records, memoryview) else 0
        self._fetches += 1
        self._bytes += size
        self._bytes_max = max(self._bytes_max, size)
        self._latency_sum_s += seconds
        self._latency_max_s = max(self._latency_max_s, seconds)
        if response.throttle_time_ms > 0:
            self._throttle_sum_s += response.throttle_time_ms / 1000
            self._throttle_max_s = max(self._throttle_max_s, response.throttle_time_ms / 1000)

    def failed(self) -> None:
        """A Fetch got no answer."""
        self._fetches_failed += 1

    def as_dict(
        self, lags: Mapping[TopicPartition, int], leads: Mapping[TopicPartition, int]
    ) -> dict[str, float | dict[str, int]]:
        """All of it, by name; see `MEANINGS`.

        Args:
            lags: how far the end is, by partition.
            leads: how far the beginning is.
        """
        values: dict[str, float | dict[str, int]] = {
            "fetch_total": self._fetches,
            "fetch_failed_total": self._fetches_failed,
            "bytes_consumed_total": self._bytes,
            "records_consumed_total": self.records,
            "records_per_request_avg": ratio(self.records, self._fetches),
            "fetch_size_avg": ratio(self._bytes, self._fetches),
            "fetch_size_max": self._bytes_max,
            "fetch_latency_total_s": self._latency_sum_s,
            "fetch_latency_avg_s": ratio(self._latency_sum_s, self._fetches),
            "fetch_latency_max_s": self._latency_max_s,
            "fetch_throttle_time_total_s": self._throttle_sum_s,
            "fetch_throttle_time_max_s": self._throttle_max_s,
            "poll_wait_time_total_s": self._wait_time_s,
            "records_lag_max": max(lags.values(), default=UNKNOWN),
            "records_lead_min": min(leads.values(), default=UNKNOWN),
            "records_lag": {f"{topic}-{partition}": lag for (topic, partition), lag in lags.items()},
        }
        assert values.keys() == MEANINGS.keys()
        return values


def ratio(sum_of_all: float, count: float) -> float:
    """The mean; 0 of none."""
    return sum_of_all / count if count else 0.0
