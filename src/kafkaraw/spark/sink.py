"""The sink as Spark calls it, for batches and streams. At least once: a failed task or micro-batch is written again.

Records become visible as they are written; nothing is left to do when Spark commits, and nothing can be taken back when
it aborts. Must not hold clients: writers are pickled to the workers. The work is in `writing.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from kafkaraw.spark.options import SparkOptions
from kafkaraw.spark.writing import WriteSettings, write_rows, write_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)


@dataclass
class KafkaCommitMessage(WriterCommitMessage):
    """What a task reports.

    Attributes:
        records_count: records it wrote.
    """

    records_count: int


def _log_abort(messages: list[WriterCommitMessage | None]) -> None:
    written = sum(message.records_count for message in messages if isinstance(message, KafkaCommitMessage))
    _log.warning(
        "the write failed; %d records of finished tasks, and some of the failed ones, are in Kafka already and will "
        "be there again after a retry (at least once)",
        written,
    )


class KafkaBatchWriter(DataSourceArrowWriter):
    """Appends the rows of a DataFrame."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        self._settings: WriteSettings = write_settings(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return KafkaCommitMessage(write_rows(iterator, self._settings))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say what stays written."""
        _log_abort(messages)


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Appends the rows of each micro-batch."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        self._settings: WriteSettings = write_settings(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return KafkaCommitMessage(write_rows(iterator, self._settings))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        """Nothing to do: the records are there."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        """Say what stays written."""
        _log_abort(messages)
