"""The transactions that the cleaner passes on its way through a log: what is aborted, and which markers are needed.

A marker is needed as long as the log has a batch of its transaction, and then for `delete.retention.ms`. Start at
`CleanedTransactions.on_batch` and `on_marker`.

Source: org.apache.kafka.storage.internals.log.CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.records import BatchHeader, ControlType, control_type_of


class CleanedTransactions:
    """The state between two batches; both passes of a round begin with a new one."""

    def __init__(self) -> None:
        self._aborted: list[tuple[int, AbortedTransaction]] = []  # a heap by first offset: not reached yet
        self._ongoing_aborted: dict[int, AbortedTransaction] = {}
        self._with_batches: set[int] = set()  # producers whose aborted transaction has a batch in the log
        self._ongoing_committed: set[int] = set()

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions of the next segment; those of more than one segment are added repeatedly."""
        for transaction in transactions:
            heappush(self._aborted, (transaction.first_offset, transaction))

    def _advance(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            transaction = heappop(self._aborted)[1]
            self._ongoing_aborted.setdefault(transaction.producer_id, transaction)

    def on_batch(self, header: BatchHeader) -> bool:
        """Follow a batch of records; return whether its transaction is aborted, so that no record is needed."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing_aborted:
            self._with_batches.add(header.producer_id)
            return True
        self._ongoing_committed.add(header.producer_id)
        return False

    def on_marker(self, header: BatchHeader, wire: memoryview) -> tuple[bool, AbortedTransaction | None]:
        """Follow a control batch.

        Args:
            header: its header.
            wire: the whole batch.

        Returns:
            Whether the log has no batch of its transaction any more; and the transaction, if it is aborted and the
            cleaned transaction index needs it.

        Raises:
            CorruptBatchError: the batch cannot be decoded.
        """
        self._advance(header.last_offset)
        if not header.records_count:  # cleaned before
            return True, None
        kind = control_type_of(wire)
        producer_id = header.producer_id
        if kind is ControlType.ABORT:
            transaction = self._ongoing_aborted.pop(producer_id, None)
            has_batches = producer_id in self._with_batches
            self._with_batches.discard(producer_id)
            return not has_batches, transaction if has_batches else None
        if kind is ControlType.COMMIT:
            has_batches = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not has_batches, None
        return False, None
