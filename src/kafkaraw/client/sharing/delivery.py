"""`Delivery`: what the application has got of the acquired records, and what it gets next.

Runs on the thread of the application, which decodes; `receive` alone runs on the loop. It must not wait. Start at
`Delivery.decode`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkaraw.client.sharing.batch import AcquiredBatch, Refused, ShareBatch, ShareRecord, empty_table
from kafkaraw.core.share.acknowledgements import RecordsInHand
from kafkaraw.errors import UsageError, copy_to_raise
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    import pyarrow


class Delivery:
    """The records of one consumer on their way to the application.

    Args:
        is_explicit: whether the application acknowledges each record.
    """

    def __init__(self, *, is_explicit: bool) -> None:
        self._is_explicit = is_explicit
        self._undecoded: deque[AcquiredBatch] = deque()
        self._waiting: deque[ShareBatch | Refused] = deque()
        self._current: ShareBatch | None = None  # of an iteration
        self._at = 0  # records of it that were returned
        self._returned: list[ShareBatch] = []  # with records that may be renewed

    @property
    def has_waiting(self) -> bool:
        """Whether records or an error can be returned now."""
        is_iterating = self._current is not None and self._at < len(self._current.records)
        return is_iterating or bool(self._waiting) or bool(self._undecoded)

    @property
    def has_renewed(self) -> bool:
        """Whether records with a renewed lock are to be returned again."""
        return any(batch.in_hand.renewed for batch in self._returned)

    def receive(self, acquired: Sequence[AcquiredBatch]) -> None:
        """Take over new records, in the step that acquires them: a call that is interrupted leaves them to the next."""
        self._undecoded += acquired

    def decode(self) -> None:
        """Decode new records. If a deserializer raises a `RetriableError`, the next call begins with them again.

        Raises:
            KafkaError: a deserializer could not ask its server.
        """
        while self._undecoded:
            self._waiting += self._undecoded[0].decoded(notes_gaps=self._is_explicit)
            self._undecoded.popleft()

    async def decode_awaiting(self) -> None:
        """Decode new records, as `decode` does, with deserializers that may return awaitables.

        Raises:
            KafkaError: a deserializer could not ask its server.
        """
        while self._undecoded:
            self._waiting += await self._undecoded[0].decoded_awaiting(notes_gaps=self._is_explicit)
            self._undecoded.popleft()

    def arrow(self, columns: Sequence[str]) -> pyarrow.Table:
        """Return new records as Arrow columns.

        Raises:
            KafkaError: as `batches`; a `UsageError` if records wait that were decoded.
        """
        import pyarrow as pa

        self._end_iteration()
        if self._waiting:
            first = self._waiting[0]
            if isinstance(first, Refused):
                self._waiting.popleft()
                raise copy_to_raise(first.error)
            raise UsageError("poll_arrow: an iteration or a poll has left records; read them first")
        parts: list[pa.Table] = []
        found: list[Refused] = []
        for each in self._undecoded:
            part, problems = each.to_arrow(columns, notes_gaps=self._is_explicit)
            parts.append(part)
            found += problems
        self._undecoded.clear()
        self._waiting += found
        return pa.concat_tables(parts or [empty_table().select(columns)]).unify_dictionaries()

    def batches(self) -> dict[TopicPartition, ShareBatch]:
        """Return the waiting batches, at most one of each partition.

        Raises:
            KafkaError: the next record cannot be returned; the next call continues behind it.
        """
        self._end_iteration()
        found: dict[TopicPartition, ShareBatch] = {}
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, Refused):
                if not found:
                    self._waiting.popleft()
                    raise copy_to_raise(first.error)
                break
            if first.topic_partition in found:
                break
            found[first.topic_partition] = first
            self._waiting.popleft()
        if self._is_explicit:
            self._returned += found.values()
        return found

    def next_batch(self) -> ShareBatch | None:
        """Return one batch; None when none is left. Records whose locks were renewed come first, once.

        Raises:
            KafkaError: as `batches`.
        """
        self._end_iteration()
        for partition, renewed in self.renewed().items():
            self._return_once(partition, renewed)
            return renewed
        if not self._waiting:
            return None
        first = self._waiting.popleft()
        if isinstance(first, Refused):
            raise copy_to_raise(first.error)
        if self._is_explicit:
            self._returned.append(first)
        return first

    def _return_once(self, partition: TopicPartition, renewed: ShareBatch) -> None:
        offsets = [record.offset for record in renewed]
        for batch in self._returned:
            if batch.topic_partition == partition:
                batch.in_hand.renewed.difference_update(offsets)

    def next_record(self) -> ShareRecord | None:
        """Return the next record of an iteration; None when none is left.

        Raises:
            KafkaError: as `batches`.
        """
        while True:
            current = self._current
            if current is not None and self._at < len(current.records):
                self._at += 1
                return current.records[self._at - 1]
            self._current = None
            current = self.next_batch()
            if current is None:
                return None
            self._current, self._at = current, 0

    def _end_iteration(self) -> None:
        """Put what is left of the batch of an iteration in front of those that wait."""
        current, self._current = self._current, None
        if current is not None and self._at < len(current.records):
            self._waiting.appendleft(ShareBatch(current.in_hand, current.records[self._at :]))

    def returned_below(self, *, in_doubt: bool = False) -> dict[RecordsInHand, int]:
        """Return how far the application has got each batch of which it has not got everything.

        Args:
            in_doubt: the last records may be unprocessed: of an iteration, the last one; else the last batches.
        """
        below: dict[RecordsInHand, int] = {}
        for each in self._waiting:
            below.setdefault(each.in_hand, each.offset if isinstance(each, Refused) else each.records[0].offset)
        for acquired in self._undecoded:
            below[acquired.in_hand] = acquired.in_hand.acquired[0].first_offset
        current = self._current
        if current is not None and (in_doubt or self._at < len(current.records)):
            below[current.in_hand] = current.records[max(0, self._at - in_doubt)].offset
        return below

    def renewed(self) -> dict[TopicPartition, ShareBatch]:
        """Return the records whose locks were renewed and that were not acknowledged since."""
        found: dict[TopicPartition, ShareBatch] = {}
        for batch in self._returned:
            records = [record for record in batch.records if record.offset in batch.in_hand.renewed]
            if records and batch.topic_partition in found:
                records = [*found[batch.topic_partition].records, *records]
            if records:
                found[batch.topic_partition] = ShareBatch(batch.in_hand, records)
        return found

    def forget_settled(self) -> None:
        """Forget the batches whose records are all acknowledged."""
        self._returned = [batch for batch in self._returned if not batch.in_hand.is_settled]

    def clear(self) -> None:
        """Forget everything: the brokers have released it."""
        self._undecoded.clear()
        self._waiting.clear()
        self._returned.clear()
        self._current = None
