"""What a partition remembers of its idempotent producers: epoch and the last five batches of each.

From it follows whether a batch is new, a repetition (answered with its old offset, not appended again) or out of order.
Rebuilt from the log's batch headers when the broker starts.
Source: KIP-98; org.apache.kafka.storage.internals.log.{ProducerAppendInfo, ProducerStateEntry, ProducerStateManager}.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from kafkaraw.broker.refusal import Refusal
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import BatchHeader

BATCHES_REMEMBERED: Final = 5  # as many as a producer may have in flight
SEQUENCE_MAX: Final = (1 << 31) - 1
NO_PRODUCER_ID: Final = -1
EXPIRY_SWEEP_MS: Final = 600_000  # producer.id.expiration.check.interval.ms


def add_sequence(sequence: int, count: int) -> int:
    """The sequence `count` records later; 2147483647 is followed by 0."""
    return (sequence + count) % (SEQUENCE_MAX + 1)


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """One batch that a producer has appended."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp_ms: int
    next_offset: int


@dataclass(slots=True)
class ProducerEntry:
    """One producer, as this partition knows it."""

    epoch: int
    last_used_ms: int
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))


class ProducerTable:
    """The producers of one partition.

    Args:
        expiration_ms: a producer that has not appended for so long is forgotten.
    """

    def __init__(self, expiration_ms: int) -> None:
        self.expiration_ms = expiration_ms
        self._entries: dict[int, ProducerEntry] = {}
        self._swept_ms = 0

    def __len__(self) -> int:
        return len(self._entries)

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Judge a batch that has a producer id.

        Returns:
            None when the batch is new and may be appended; the old batch when this one repeats it.

        Raises:
            Refusal: INVALID_PRODUCER_EPOCH, or OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None  # first batch seen: any sequence will do, older ones may have been deleted (KIP-360)
        if header.producer_epoch < entry.epoch:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {entry.epoch}, the batch says {header.producer_epoch}",
            )
        if header.producer_epoch > entry.epoch:
            if header.base_sequence != 0:
                raise self._out_of_order(header, "a new epoch starts at sequence 0")
            return None
        last_sequence = add_sequence(header.base_sequence, header.last_offset_delta)
        for batch in entry.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == last_sequence:
                return batch
        if entry.batches:
            expected = add_sequence(entry.batches[-1].last_sequence, 1)
            if header.base_sequence != expected:
                raise self._out_of_order(header, f"expected {expected}")
        return None

    def epoch_of(self, producer_id: int) -> int | None:
        """The newest epoch of a producer; None when it is not known."""
        entry = self._entries.get(producer_id)
        return None if entry is None else entry.epoch

    def check_marker(self, producer_id: int, epoch: int) -> None:
        """Judge the marker that ends a transaction.

        Raises:
            Refusal: INVALID_PRODUCER_EPOCH, because the producer has a later epoch by now.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {entry.epoch}, the marker says {epoch}",
            )

    def describe(self) -> list[tuple[int, ProducerEntry]]:
        """All producers, by id."""
        return sorted(self._entries.items())

    def _out_of_order(self, header: BatchHeader, why: str) -> Refusal:
        return Refusal(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id}, epoch {header.producer_epoch}: sequence {header.base_sequence}; {why}",
        )

    def note(self, header: BatchHeader, now_ms: int) -> None:
        """Remember a batch that was appended, or that was found in the log."""
        if header.producer_id == NO_PRODUCER_ID:
            return
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_epoch, now_ms)
        entry.last_used_ms = now_ms
        if header.is_control:
            return
        last_sequence = add_sequence(header.base_sequence, header.last_offset_delta)
        entry.batches.append(
            AppendedBatch(
                header.base_sequence, last_sequence, header.base_offset, header.max_timestamp, header.next_offset
            )
        )
        self._sweep(now_ms)

    def clear(self) -> None:
        """Forget everybody, to be told anew what is in the log."""
        self._entries.clear()

    def _sweep(self, now_ms: int) -> None:
        """Forget expired producers now and then, so that the table has a bound in time."""
        if now_ms - self._swept_ms < EXPIRY_SWEEP_MS:
            return
        self._swept_ms = now_ms
        oldest = now_ms - self.expiration_ms
        for producer_id in [key for key, entry in self._entries.items() if entry.last_used_ms < oldest]:
            del self._entries[producer_id]
