"""Count and checksum of the rows of a task, so that a repetition can be compared with the rows written before.

The checksum of a row covers what becomes its record: topic, key, value, headers, timestamp if it is written, and the
partition if the row names one. Sums of checksums do not depend on the order of rows, nor on how they are cut into
Arrow batches: a shuffle may change both. Start at `sum_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkaraw.client.sending.arrow_rows import rows_of
from kafkaraw.records import Rows
from kafkaraw.spark.writing.decision import NO_ROWS, RowSum
from kafkaraw.spark.writing.task import WriteSettings, columns_to_send

if TYPE_CHECKING:
    import pyarrow as pa


class Summed:
    """Sums up batches while the caller iterates over them.

    Args:
        batches: rows in the columns that `write_settings` checked.
        settings: how they are written, which defines what becomes a record.

    Attributes:
        total: count and checksum of the batches so far.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], settings: WriteSettings) -> None:
        self.total = NO_ROWS
        self._batches = batches
        self._settings = settings

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.total = self.total.plus(_sum_of(batch, self._settings))
            yield batch


def sum_rows(batches: Iterable[pa.RecordBatch], settings: WriteSettings) -> RowSum:
    """Iterate over all batches, and sum them up."""
    summed = Summed(batches, settings)
    for _ in summed:
        pass
    return summed.total


def _sum_of(batch: pa.RecordBatch, settings: WriteSettings) -> RowSum:
    columns = rows_of(columns_to_send(batch, settings), settings.topic)
    return RowSum(batch.num_rows, sum(Rows(each).checksum() for each in columns) % (1 << 64))
