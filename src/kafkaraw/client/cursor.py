"""Record by record through batches, such that nothing is lost when the reader stops in the middle.

`for record in consumer` may be left at any record, and gone on with later, or with `poll()`. The rest of the batch is
kept here. Used by both faces of the consumer; knows nothing of fetching.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkaraw.records import Batch, Record, TopicPartition


class RecordCursor:
    """The batch that is being read record by record, and how far it has been read."""

    def __init__(self) -> None:
        self._batch: Batch | None = None
        self._records: Iterator[Record] = iter(())
        self._position = 0

    def start(self, batch: Batch) -> None:
        """Read this batch from now on."""
        self._batch = batch
        self._records = iter(batch)
        self._position = batch.start_offset

    def next_record(self) -> Record | None:
        """The next record; None when the batch is read to its end, or there is none.

        Raises:
            CorruptBatch: the batch is damaged; it is given up.
        """
        try:
            record = next(self._records, None)
        except BaseException:
            self.drop()
            raise
        if record is None:
            self.drop()
        else:
            self._position = record.offset + 1
        return record

    def position_in(self, topic_partition: TopicPartition) -> int | None:
        """The offset of the next record to give, when this partition is the one being read."""
        if self._batch is None or self._batch.topic_partition != topic_partition:
            return None
        return self._position

    def rest(self) -> Batch | None:
        """What has not been given yet, as a batch; None when that is nothing. The cursor is empty afterwards."""
        batch, position = self._batch, self._position
        self.drop()
        return None if batch is None or position >= batch.next_offset else batch.starting_at(position)

    def drop(self, topic_partition: TopicPartition | None = None) -> None:
        """Forget the batch, if it belongs to this partition."""
        if topic_partition is None or (self._batch is not None and self._batch.topic_partition == topic_partition):
            self._batch = None
            self._records = iter(())
