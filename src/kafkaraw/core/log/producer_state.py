"""The producer state that a log implies: its idempotent producers, their open transactions, and the aborted ones.

The state is what Kafka rebuilds when it loads a log without a producer snapshot: batches are not checked, only
followed. The broker's own table, which decides whether a batch is a duplicate, is `broker.partitions.producers`. Start
at `ProducerState.add`.

Source: org.apache.kafka.storage.internals.log.{ProducerStateManager, ProducerAppendInfo}.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.log.producer_snapshot import NONE, ProducerSnapshot
from kafkaraw.records import BatchHeader, ControlType, marker_of

_SEQUENCES = 1 << 31


class ProducerState:
    """The producers of one log, up to the batch that was added last."""

    def __init__(self, snapshots: Iterable[ProducerSnapshot] = ()) -> None:
        self._producers = {snapshot.producer_id: snapshot for snapshot in snapshots}
        self._ongoing = {  # first offset -> producer id, in the order of the offsets
            snapshot.transaction_first_offset: snapshot.producer_id
            for snapshot in sorted(self._producers.values(), key=lambda one: one.transaction_first_offset)
            if snapshot.transaction_first_offset >= 0
        }

    def snapshots(self) -> list[ProducerSnapshot]:
        """Return the state, a snapshot of each producer."""
        return list(self._producers.values())

    @property
    def first_ongoing_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None if there is none."""
        return next(iter(self._ongoing), None)

    def add(self, header: BatchHeader, wire: memoryview) -> AbortedTransaction | None:
        """Follow one batch; return the transaction that it aborts.

        Args:
            header: header of the batch.
            wire: the whole batch, its checksum verified.

        Raises:
            CorruptBatchError: it is a marker that cannot be decoded.
        """
        if header.producer_id < 0:
            return None
        if header.is_control:
            return self._end_transaction(header, wire) if header.records_count else None
        known = self._producers.get(header.producer_id)
        first_offset = NONE if known is None else known.transaction_first_offset
        if header.is_transactional and first_offset < 0:
            first_offset = header.base_offset
            self._ongoing[first_offset] = header.producer_id
        self._producers[header.producer_id] = ProducerSnapshot(
            header.producer_id,
            header.producer_epoch,
            (header.base_sequence + header.last_offset_delta) % _SEQUENCES,
            header.last_offset,
            header.last_offset_delta,
            header.max_timestamp,
            NONE if known is None else known.coordinator_epoch,
            first_offset,
        )
        return None

    def _end_transaction(self, header: BatchHeader, wire: memoryview) -> AbortedTransaction | None:
        marker = marker_of(wire)
        if marker.kind is ControlType.UNKNOWN:
            return None
        producer_id = header.producer_id
        known = self._producers.get(producer_id)
        if known is None or known.epoch != header.producer_epoch:
            first_offset = NONE if known is None else known.transaction_first_offset
            known = ProducerSnapshot(producer_id, header.producer_epoch, NONE, NONE, 0, 0, NONE, first_offset)
        first_offset = known.transaction_first_offset
        self._producers[producer_id] = known._replace(
            timestamp_ms=header.max_timestamp,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_first_offset=NONE,
        )
        if first_offset < 0:
            return None
        others = (offset for offset, owner in self._ongoing.items() if owner != producer_id)
        last_stable_offset = next(others, header.last_offset + 1)
        self._ongoing.pop(first_offset, None)
        if marker.kind is ControlType.COMMIT:
            return None
        return AbortedTransaction(producer_id, first_offset, header.last_offset, last_stable_offset)
