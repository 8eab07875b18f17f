"""The sink as Spark calls it, for batches and streams.

By default the sink delivers at least once: records become visible as they are written, Spark's commit has nothing left
to do, and its abort can undo nothing; Spark writes a failed task or micro-batch again. With `exactlyOnce`, tasks
prepare transactions, and the driver commits or aborts them.

Must not hold clients: writers are pickled to the workers. The work is in `writing/`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafkaraw.errors import UsageError
from kafkaraw.spark.data_source_api import DataSourceStreamArrowWriter
from kafkaraw.spark.errors import without_traceback
from kafkaraw.spark.micro_batches import micro_batch, task_context
from kafkaraw.spark.options.parsing import SparkOptions, patient
from kafkaraw.spark.shipping import Shipped
from kafkaraw.spark.writing.task import WriteSettings, write_rows, write_settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkaraw.spark.writing.exactly_once import Written

_log = logging.getLogger(__name__)

_EXACTLY_ONCE = "exactlyOnce: "

_Messages = list[WriterCommitMessage | None]


@dataclass
class KafkaCommitMessage(WriterCommitMessage):
    """What a task reports.

    Attributes:
        records_count: number of records that it wrote.
        written: its transaction; None if it wrote at least once.
    """

    records_count: int
    written: Written | None = None


class _Writer(Shipped):
    """The part that both writers share."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        self._settings: WriteSettings = write_settings(options, schema)

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        if self._settings.exactly_once is None:
            return KafkaCommitMessage(write_rows(iterator, self._settings))
        from kafkaraw.spark.writing.exactly_once import Slot, write_slot

        written = write_slot(iterator, self._settings, Slot(*self._batch(), task_context(_EXACTLY_ONCE).partitionId()))
        return KafkaCommitMessage(written.records_count, written)

    def _batch(self) -> tuple[str, int | None]:
        """Return what is written: the id of the query, and the micro-batch if there is one."""
        raise NotImplementedError

    @without_traceback()
    def _commit(self, messages: _Messages) -> None:
        if self._settings.exactly_once is not None:
            from kafkaraw.spark.writing.exactly_once import commit_batch

            commit_batch(_written(messages), self._settings)

    @without_traceback()
    def _abort(self, messages: _Messages) -> None:
        if self._settings.exactly_once is None:
            _log_abort(messages)
        elif None in messages:  # a task has failed: nothing was committed yet
            from kafkaraw.spark.writing.exactly_once import abort_batch

            abort_batch(_written(messages), self._settings)


class KafkaBatchWriter(_Writer, DataSourceArrowWriter):
    """Appends the rows of a DataFrame."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._write_id = uuid.uuid4().hex

    def _batch(self) -> tuple[str, int | None]:
        once = self._settings.exactly_once
        return (self._write_id, None) if once is None or once.batch is None else once.batch

    def commit(self, messages: _Messages) -> None:
        """Commit the transactions that the tasks have prepared, if any."""
        self._commit(messages)

    def abort(self, messages: _Messages) -> None:
        """Abort the transactions, or log which records stay written."""
        self._abort(messages)


class KafkaStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Appends the rows of each micro-batch."""

    def __init__(self, options: SparkOptions, schema: StructType) -> None:
        super().__init__(patient(options), schema)

    def _batch(self) -> tuple[str, int | None]:
        found = micro_batch(task_context(_EXACTLY_ONCE))
        if found is None:
            raise UsageError(f"{_EXACTLY_ONCE}Spark does not pass the query and micro-batch to this task")
        return found

    def commit(self, messages: _Messages, batchId: int) -> None:  # Spark's name
        """Commit the transactions that the tasks have prepared, if any."""
        self._commit(messages)

    def abort(self, messages: _Messages, batchId: int) -> None:  # Spark's name
        """Abort the transactions, or log which records stay written."""
        self._abort(messages)


def _written(messages: _Messages) -> list[Written]:
    return [each.written for each in messages if isinstance(each, KafkaCommitMessage) and each.written is not None]


def _log_abort(messages: _Messages) -> None:
    written = sum(message.records_count for message in messages if isinstance(message, KafkaCommitMessage))
    _log.warning(
        "the write failed; %d records of finished tasks, and some of the failed ones, are in Kafka already and will "
        "be there again after a retry (at least once)",
        written,
    )
