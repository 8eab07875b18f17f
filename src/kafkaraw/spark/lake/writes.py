"""What the formats that write tables have in common, those of lake tables and those of databases.

`batch_of_write` and `batch_of_stream` say what a task writes, `skips` applies the option `saveMode`, and
`TableDataSource` checks what Spark asks for. Start at `TableDataSource`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.spark.data_source_api import DataSourceStreamArrowWriter
from kafkaraw.spark.errors import TableError, without_traceback
from kafkaraw.spark.lake.batches import BatchId
from kafkaraw.spark.micro_batches import RUN_ID, micro_batch, task_context
from kafkaraw.spark.options.lake import SaveMode

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def batch_of_write(write_id: str, named: tuple[str, int] | None) -> BatchId:
    """Return what a task of a batch write writes.

    Args:
        write_id: of the write.
        named: the writer's query and the micro-batch, from `foreachBatch`; None for any other batch write.
    """
    if named is None:
        return BatchId(write_id, 0)
    return BatchId(*named, run_id=task_context().getLocalProperty(RUN_ID) or named[0])


def batch_of_stream(needed_by: str) -> BatchId:
    """Return what a task of a streaming query writes.

    Args:
        needed_by: who needs the micro-batch, for the message of the error.

    Raises:
        UsageError: Spark does not pass it.
    """
    context = task_context()
    found = micro_batch(context)
    if found is None:
        raise UsageError(f"Spark does not pass the query and the micro-batch to this task, which the {needed_by} needs")
    return BatchId(*found, context.getLocalProperty(RUN_ID) or found[0])


def skips(save_mode: SaveMode | None, table_with_rows: Callable[[], str | None]) -> bool:
    """Return whether a batch write writes nothing, because the table has rows.

    Args:
        save_mode: of the write.
        table_with_rows: returns the table as messages name it, None if it has no rows; called if the mode depends on
            that.

    Raises:
        TableError: the table has rows, and the mode is errorifexists.
    """
    if save_mode not in (SaveMode.ERROR_IF_EXISTS, SaveMode.IGNORE):
        return False
    table = table_with_rows()
    if table is None or save_mode is SaveMode.IGNORE:
        return table is not None
    raise TableError(
        f"{table}: it has rows, and the option saveMode is errorifexists. Write to another table, or set saveMode to "
        f"append, overwrite or ignore"
    )


class _WriteOptions(Protocol):
    @property
    def save_mode(self) -> SaveMode | None:
        """Of a batch write; None if not given."""


class TableDataSource(DataSource):
    """A format that writes tables, and reads none."""

    _checked: _WriteOptions
    _reader: ClassVar[str]

    def schema(self) -> StructType:
        """Refuse to read."""
        raise ConfigError(f"format {self.name()} writes tables; to read one, use {self._reader}")

    @without_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a batch writer of these columns."""
        mode = self._checked.save_mode
        if overwrite and mode not in (None, SaveMode.OVERWRITE):
            raise ConfigError(f'saveMode={mode} contradicts mode("overwrite"): leave one of them out')
        return self._batch_writer(schema, overwrite or mode is SaveMode.OVERWRITE)

    @without_traceback()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return a streaming writer of these columns. In complete mode each micro-batch replaces all rows."""
        if self._checked.save_mode is not None:
            raise ConfigError("saveMode is for batch writes; the output mode says what a stream writes")
        return self._stream_writer(schema, overwrite)

    def _batch_writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        raise NotImplementedError

    def _stream_writer(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        raise NotImplementedError
