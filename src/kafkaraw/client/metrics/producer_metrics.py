"""What a producer counts about its records, batches and requests: once per batch or request, never per record.

Names are those of Java's producer-metrics, with `_` for `-` and a unit where there is one; those that Java has not are
marked in `MEANINGS`. `client.metrics()["producer"]` gives them. Start at `ProducerMetrics.as_dict`.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.core.producer.events import SendProduce
from kafkaraw.light_classes import dataclass, field
from kafkaraw.records import SealedBatch

GROUP: Final = "producer"
"""Where they stand in `client.metrics()`, beside the nodes."""

MEANINGS: Final = {
    "record_send_total": "Records sent to a broker for the first time.",
    "record_retry_total": "Records sent again, batch splits included.",
    "record_error_total": "Records that failed.",
    "request_total": "Produce requests.",
    "batch_total": "Batches sent for the first time (not in Java).",
    "batch_split_total": "Batches that a broker found too large, and that were split.",
    "byte_total": "Bytes of acknowledged batches, compressed.",
    "batch_size_avg": "Bytes of a batch, before compression.",
    "batch_size_max": "Bytes of the largest batch, before compression.",
    "batch_fill_avg": "How full batches are when they leave, as a share of batch_size (not in Java).",
    "records_per_batch_avg": "Records of a batch (not in Java).",
    "records_per_request_avg": "Records of a produce request.",
    "record_size_avg": "Bytes of a record, before compression.",
    "compression_rate_avg": "Bytes of acknowledged batches, compressed, by their bytes before compression.",
    "record_queue_time_total_s": "Seconds that batches waited, from their first record until they left (not in Java).",
    "record_queue_time_avg_s": "Seconds that a batch waited, from its first record until it left.",
    "record_queue_time_max_s": "The longest such time of a batch, in seconds.",
    "request_latency_total_s": "Seconds from sending a Produce request to its response, of all requests (not in Java).",
    "request_latency_avg_s": "Seconds from sending a Produce request to its response.",
    "request_latency_max_s": "Seconds of the slowest Produce request.",
    "produce_throttle_time_total_s": "Seconds that brokers report to have throttled requests (not in Java).",
    "produce_throttle_time_max_s": "Seconds of the longest such time.",
    "requests_in_flight": "Produce requests that wait for their responses.",
    "buffer_total_bytes": "Limit of the bytes of unacknowledged records: buffer_memory.",
    "buffer_available_bytes": "Bytes of the buffer memory that are free.",
    "buffer_exhausted_total": "Records refused because the buffer memory was full, at once or for max_block_ms.",
    "bufferpool_wait_time_total_s": "Seconds that senders waited for buffer memory.",
    "waiting_threads": "Senders that wait for buffer memory.",
}
"""The meaning of each metric, by name. Metrics with `_total` are counters."""


@dataclass(slots=True)
class ProducerMetrics:
    """The counters of one producer. Written on its loop; may be read on any thread.

    Attributes:
        batch_size: the setting, which batches are compared with.
        buffer_memory: the setting.
        senders_waiting: those that wait for buffer memory.
    """

    batch_size: int
    buffer_memory: int
    senders_waiting: int = 0
    _batches: int = 0
    _records: int = 0
    _size_bytes: int = 0
    _batch_size_max: int = 0
    _queue_time_sum_s: float = 0.0
    _queue_time_max_s: float = 0.0
    _records_again: int = 0
    _records_failed: int = 0
    _splits: int = 0
    _requests: int = 0
    _latencies: int = 0
    _latency_sum_s: float = 0.0
    _latency_max_s: float = 0.0
    _throttle_sum_s: float = 0.0
    _throttle_max_s: float = 0.0
    _wire_bytes: int = 0
    _plain_bytes: int = 0
    _exhausted: int = 0
    _waited_s: float = 0.0
    _sent_at_s: dict[int, float] = field(default_factory=dict)

    # ---- what happens

    def sent(self, action: SendProduce, wall_ms: int, now_s: float) -> None:
        """A request leaves.

        Args:
            action: the request.
            wall_ms: by the clock that batches are dated with.
            now_s: by the loop's.
        """
        self._requests += 1
        self._sent_at_s[action.request_id] = now_s
        for numbered in action.batches:
            batch = numbered.batch
            if numbered.attempt > 1:
                self._records_again += batch.records_count
                continue
            size_bytes = batch.size_bytes
            self._batches += 1
            self._records += batch.records_count
            self._size_bytes += size_bytes
            if size_bytes > self._batch_size_max:
                self._batch_size_max = size_bytes
            waited_ms = wall_ms - batch.created_ms
            if waited_ms > 0:
                self._queue_time_sum_s += waited_ms / 1000
                if waited_ms > 1000 * self._queue_time_max_s:
                    self._queue_time_max_s = waited_ms / 1000

    def request_ended(self, request_id: int, now_s: float, *, answered: bool) -> None:
        """A request was answered, or never will be."""
        latency_s = now_s - self._sent_at_s.pop(request_id, now_s)
        if answered:
            self._latencies += 1
            self._latency_sum_s += latency_s
            if latency_s > self._latency_max_s:
                self._latency_max_s = latency_s

    def throttled(self, throttle_time_ms: int) -> None:
        """A response says for how long the broker throttles this producer."""
        self._throttle_sum_s += throttle_time_ms / 1000
        self._throttle_max_s = max(self._throttle_max_s, throttle_time_ms / 1000)

    def acknowledged(self, batch: SealedBatch) -> None:
        """A batch is written."""
        self._wire_bytes += len(batch.encoded)
        self._plain_bytes += batch.size_bytes

    def failed(self, records_count: int) -> None:
        """Count records that failed."""
        self._records_failed += records_count

    def split(self) -> None:
        """A batch goes again in parts."""
        self._splits += 1

    def waited_for_memory(self, seconds: float, *, in_vain: bool) -> None:
        """A sender waited for memory."""
        self._waited_s += seconds
        self._exhausted += in_vain

    # ---- reporting

    def as_dict(self, used_bytes: int) -> dict[str, float | dict[str, int]]:
        """All of it, by name; see `MEANINGS`.

        Args:
            used_bytes: of `buffer_memory`.
        """
        batches, records, size_bytes = self._batches, self._records, self._size_bytes
        values: dict[str, float | dict[str, int]] = {
            "record_send_total": records,
            "record_retry_total": self._records_again,
            "record_error_total": self._records_failed,
            "request_total": self._requests,
            "batch_total": batches,
            "batch_split_total": self._splits,
            "byte_total": self._wire_bytes,
            "batch_size_avg": _ratio(size_bytes, batches),
            "batch_size_max": self._batch_size_max,
            "batch_fill_avg": _ratio(size_bytes, batches * self.batch_size),
            "records_per_batch_avg": _ratio(records, batches),
            "records_per_request_avg": _ratio(records + self._records_again, self._requests),
            "record_size_avg": _ratio(size_bytes, records),
            "compression_rate_avg": _ratio(self._wire_bytes, self._plain_bytes),
            "record_queue_time_total_s": self._queue_time_sum_s,
            "record_queue_time_avg_s": _ratio(self._queue_time_sum_s, batches),
            "record_queue_time_max_s": self._queue_time_max_s,
            "request_latency_total_s": self._latency_sum_s,
            "request_latency_avg_s": _ratio(self._latency_sum_s, self._latencies),
            "request_latency_max_s": self._latency_max_s,
            "produce_throttle_time_total_s": self._throttle_sum_s,
            "produce_throttle_time_max_s": self._throttle_max_s,
            "requests_in_flight": len(self._sent_at_s),
            "buffer_total_bytes": self.buffer_memory,
            "buffer_available_bytes": max(0, self.buffer_memory - used_bytes),
            "buffer_exhausted_total": self._exhausted,
            "bufferpool_wait_time_total_s": self._waited_s,
            "waiting_threads": self.senders_waiting,
        }
        assert values.keys() == MEANINGS.keys()
        return values


def _ratio(sum_of_all: float, count: float) -> float:
    return sum_of_all / count if count else 0.0
