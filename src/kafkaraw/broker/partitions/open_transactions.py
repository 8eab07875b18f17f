"""The transactions of one partition: open and aborted ones, and the last stable offset.

It processes every batch that is appended or found in the log. The last stable offset and the list of aborted
transactions in the response to a read_committed fetch follow from it.
Source: KIP-98; org.apache.kafka.storage.internals.log.{ProducerStateManager, TransactionIndex}.
"""

from __future__ import annotations

from bisect import bisect_left

from kafkaraw.light_classes import dataclass
from kafkaraw.records import BatchHeader, ControlType


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """One producer's aborted records in this partition.

    Attributes:
        first_offset: offset of its first record.
        last_offset: offset of the marker.
        last_stable_offset: the last stable offset when the transaction ended; a fetch below it needs no later entries.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


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
        self._aborted: list[AbortedTransaction] = []

    def clear(self) -> None:
        """Forget all transactions."""
        self._open.clear()
        self._ended.clear()
        self._aborted.clear()

    def note(self, header: BatchHeader, control: ControlType | None = None) -> None:
        """Process a batch that is in the log now.

        Args:
            header: header of the batch.
            control: type of its marker; None for a batch with data.
        """
        if not header.is_transactional or header.producer_id < 0:
            return
        if control is None:
            self._open.setdefault(header.producer_id, header.base_offset)
            return
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is None:
            return
        self._ended.append(_Ended(first_offset, header.base_offset))
        if control is ControlType.ABORT:
            after = min(self._open.values(), default=header.last_offset + 1)
            self._aborted.append(AbortedTransaction(header.producer_id, first_offset, header.last_offset, after))

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

    def aborted_between(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records at `offset` or later, and before `end_offset`."""
        at = bisect_left(self._aborted, offset, key=lambda aborted: aborted.last_offset)
        found = []
        for aborted in self._aborted[at:]:
            if aborted.first_offset < end_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                break
        return found

    def forget_before(self, log_start_offset: int) -> None:
        """Remove the entries of deleted records."""
        self._aborted = [aborted for aborted in self._aborted if aborted.last_offset >= log_start_offset]
