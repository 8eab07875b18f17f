"""The open transactions of one partition, and the last stable offset.

It processes every batch that is appended or found in the log. Aborted transactions are kept in the transaction indexes
of the log's segments.
Source: KIP-98; org.apache.kafka.storage.internals.log.ProducerStateManager.
"""

from __future__ import annotations

from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.light_classes import dataclass
from kafkaraw.records import BatchHeader, ControlType


@dataclass(slots=True)
class _Ended:
    """A transaction whose marker is in the log, but may not be replicated yet."""

    first_offset: int
    marker_offset: int


class OpenTransactions:
    """The transactions of one partition."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._ended: list[_Ended] = []

    def clear(self) -> None:
        """Forget all transactions."""
        self._open.clear()
        self._ended.clear()

    def note(self, header: BatchHeader, control: ControlType | None = None) -> AbortedTransaction | None:
        """Process a batch that is in the log now.

        Args:
            header: header of the batch.
            control: type of its marker; None for a batch with data.

        Returns:
            the transaction that it aborts, for the transaction index; None if it aborts none.
        """
        if not header.is_transactional or header.producer_id < 0:
            return None
        if control is None:
            self._open.setdefault(header.producer_id, header.base_offset)
            return None
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is None:
            return None
        self._ended.append(_Ended(first_offset, header.base_offset))
        if control is not ControlType.ABORT:
            return None
        after = min(self._open.values(), default=header.last_offset + 1)
        return AbortedTransaction(header.producer_id, first_offset, header.last_offset, after)

    def restore(self, producer_id: int, first_offset: int) -> None:
        """Restore an open transaction from a snapshot, if its first records are no longer in the log."""
        self._open.setdefault(producer_id, first_offset)

    def first_offset_of(self, producer_id: int) -> int | None:
        """Return the first offset of a producer's open transaction; None if it has none."""
        return self._open.get(producer_id)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset below which all transactions are committed or aborted, and replicated."""
        self._ended = [ended for ended in self._ended if ended.marker_offset >= high_watermark]
        undecided = min(self._open.values(), default=high_watermark)
        unreplicated = min((ended.first_offset for ended in self._ended), default=high_watermark)
        return min(undecided, unreplicated, high_watermark)
