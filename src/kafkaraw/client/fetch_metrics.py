"""What a consumer counts about fetching: how much, how fast, and how far behind. Counted once per answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkaraw.protocol.messages.fetch import FetchResponse
from kafkaraw.records import TopicPartition


class FetchMetrics(NamedTuple):
    """How a consumer fetches; everything but the lag only grows.

    Attributes:
        fetches: answers to Fetch requests.
        fetches_failed: Fetch requests without an answer.
        bytes: record batches in these answers, in bytes.
        records: records in them, before any are passed over.
        latency_sum_s: time from request to answer, of all answers, in seconds; brokers hold answers back on purpose, up
            to `fetch_max_wait_ms`, while there is nothing to give.
        latency_max_s: the longest of them.
        lag: offsets between position and end, of the partitions of which both are known; see `AsyncConsumer.lag`.
    """

    fetches: int
    fetches_failed: int
    bytes: int
    records: int
    latency_sum_s: float
    latency_max_s: float
    lag: Mapping[TopicPartition, int]

    @property
    def bytes_per_fetch(self) -> float:
        """The mean size of what an answer brings."""
        return self.bytes / self.fetches if self.fetches else 0.0

    @property
    def records_per_fetch(self) -> float:
        """The mean number of records that an answer brings."""
        return self.records / self.fetches if self.fetches else 0.0

    @property
    def lag_max(self) -> int | None:
        """The largest lag; None when none is known."""
        return max(self.lag.values(), default=None)


@dataclass(slots=True)
class FetchCounters:
    """The counting itself."""

    fetches: int = 0
    fetches_failed: int = 0
    bytes: int = 0
    records: int = 0
    latency_sum_s: float = 0.0
    latency_max_s: float = 0.0

    def answered(self, response: FetchResponse, seconds: float) -> None:
        """An answer came after so many seconds."""
        self.fetches += 1
        self.latency_sum_s += seconds
        self.latency_max_s = max(self.latency_max_s, seconds)
        for topic in response.responses:
            for data in topic.partitions:
                records = data.records
                self.bytes += len(records) if isinstance(records, memoryview) else 0

    def shown(self, lag: Mapping[TopicPartition, int]) -> FetchMetrics:
        """Everything so far."""
        return FetchMetrics(
            self.fetches,
            self.fetches_failed,
            self.bytes,
            self.records,
            self.latency_sum_s,
            self.latency_max_s,
            lag,
        )
