"""The metrics of a flow, by the names of MirrorMaker 2, for each partition of the source.

A batch is not decoded, so the times are those of its records with the highest timestamp: the age is taken when the
batch was read, the latency when the target has acknowledged it. Both are in milliseconds. Start at `FlowMetrics`.

Source: Kafka's MirrorSourceMetrics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkaraw.records import TopicPartition

GROUP: Final = "MirrorSourceConnector"
"""MirrorMaker's name of the group."""
MEANINGS: Final = {
    "record-count": "Records that the target has acknowledged.",
    "record-rate": "Records a second, over the last 30 to 60 seconds.",
    "byte-count": "Bytes of acknowledged batches, as they were sent.",
    "byte-rate": "Bytes a second, over the last 30 to 60 seconds.",
    "record-age-ms": "Age of the last batch when it was read.",
    "record-age-ms-min": "The least age so far.",
    "record-age-ms-max": "The greatest age so far.",
    "record-age-ms-avg": "The mean age so far.",
    "replication-latency-ms": "Time from the timestamp of the last batch to its acknowledgement.",
    "replication-latency-ms-min": "The least latency so far.",
    "replication-latency-ms-max": "The greatest latency so far.",
    "replication-latency-ms-avg": "The mean latency so far.",
    "records-lag": "Offsets of the source that were not read.",
    "refusals-count": "How many attempts to copy the partition a cluster has refused.",
    "is-stopped": "1 while the partition is not copied because of that, else 0.",
}
_WINDOW_S: Final = 30.0


class _Times:
    """Last, least, greatest and mean of a time."""

    __slots__ = ("count", "greatest", "last", "least", "total")

    def __init__(self) -> None:
        self.count = self.total = 0
        self.last = self.least = self.greatest = 0

    def add(self, ms: int) -> None:
        self.last = ms  # without min() and max(): for each batch
        if ms < self.least or not self.count:
            self.least = ms
        if ms > self.greatest:
            self.greatest = ms
        self.count += 1
        self.total += ms

    def items(self, name: str) -> Iterator[tuple[str, float]]:
        if self.count:
            yield name, self.last
            yield f"{name}-min", self.least
            yield f"{name}-max", self.greatest
            yield f"{name}-avg", self.total / self.count


class _Rate:
    """A count, and its rate over the current and the last window."""

    __slots__ = ("_before", "_began_s", "_in_window", "count")

    def __init__(self, now_s: float) -> None:
        self.count = 0
        self._in_window = 0
        self._before: tuple[int, float] = (0, 0.0)  # count and seconds of the last window
        self._began_s = now_s

    def add(self, count: int, now_s: float) -> None:
        if now_s - self._began_s >= _WINDOW_S:
            self._before = (self._in_window, now_s - self._began_s)
            self._in_window, self._began_s = 0, now_s
        self._in_window += count
        self.count += count

    def per_second(self, now_s: float) -> float:
        count, seconds = self._before
        if now_s - self._began_s >= 2 * _WINDOW_S:
            count, seconds = 0, 0.0
        seconds += now_s - self._began_s
        return (count + self._in_window) / seconds if seconds > 0 else 0.0


class PartitionMetrics:
    """What is counted about one partition of the source.

    Args:
        now_s: the loop's time.
    """

    __slots__ = ("_ages", "_bytes", "_latencies", "_records", "is_stopped", "lag", "refusals_count")

    def __init__(self, now_s: float) -> None:
        self._records = _Rate(now_s)
        self._bytes = _Rate(now_s)
        self._ages = _Times()
        self._latencies = _Times()
        self.lag: int | None = None
        self.refusals_count: int = 0
        self.is_stopped: bool = False

    def read(self, age_ms: int) -> None:
        """Note that a batch was read."""
        self._ages.add(age_ms)

    def acknowledged(self, records_count: int, size_bytes: int, latency_ms: int, now_s: float) -> None:
        """Note that the target has acknowledged a batch."""
        self._records.add(records_count, now_s)
        self._bytes.add(size_bytes, now_s)
        self._latencies.add(latency_ms)

    def as_dict(self, now_s: float) -> dict[str, float]:
        """Return the metrics by name."""
        found: dict[str, float] = {
            "record-count": self._records.count,
            "record-rate": self._records.per_second(now_s),
            "byte-count": self._bytes.count,
            "byte-rate": self._bytes.per_second(now_s),
            **dict(self._ages.items("record-age-ms")),
            **dict(self._latencies.items("replication-latency-ms")),
            "refusals-count": self.refusals_count,
            "is-stopped": int(self.is_stopped),
        }
        if self.lag is not None:
            found["records-lag"] = self.lag
        return found


class FlowMetrics:
    """The metrics of one flow."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionMetrics] = {}

    def of(self, partition: TopicPartition, now_s: float) -> PartitionMetrics:
        """Return what is counted about a partition of the source; made at its first use."""
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = PartitionMetrics(now_s)
        return found

    def as_dict(self, now_s: float) -> dict[TopicPartition, dict[str, float]]:
        """Return the metrics of each partition of the source."""
        return {of: metrics.as_dict(now_s) for of, metrics in self._partitions.items()}
