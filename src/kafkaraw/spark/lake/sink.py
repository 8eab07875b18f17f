"""Formats "kafkaraw.delta" and "kafkaraw.iceberg" as Spark calls them, for batch and streaming writes.

Tasks write data files, which no reader sees; the driver commits them. Spark makes a writer for each micro-batch on the
driver, which opens the table, creates it or adds columns, and passes what tasks must know to them.

Must not hold tables or clients: writers are pickled to the workers.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafkaraw.spark.arrow_schemas import arrow_schema
from kafkaraw.spark.data_source_api import DataSourceStreamArrowWriter
from kafkaraw.spark.errors import TableError, without_traceback
from kafkaraw.spark.lake.writes import TableDataSource, batch_of_stream, batch_of_write, skips
from kafkaraw.spark.micro_batches import task_context
from kafkaraw.spark.options.lake import LakeOptions, parse_delta, parse_iceberg
from kafkaraw.spark.options.tables import given

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkaraw.spark.lake.batches import BatchId
    from kafkaraw.spark.lake.layout import DataFile, LakeTable, Layout

_log = logging.getLogger(__name__)

_Messages = list[WriterCommitMessage | None]


@dataclass
class TableCommitMessage(WriterCommitMessage):
    """What a task reports.

    Attributes:
        batch: what it has written.
        files: its data files.
        retried: whether an attempt of the task failed before.
    """

    batch: BatchId
    files: list[DataFile]
    retried: bool = False


@dataclass(frozen=True)
class _Format:
    """What distinguishes the formats, as functions that import their library when they are called."""

    parse: Callable[[Mapping[str, str]], LakeOptions]
    prepare: Callable[[LakeOptions, pa.Schema], tuple[LakeTable, Layout]]
    open: Callable[[LakeOptions], LakeTable | None]


class _Writer:
    """The part that both writers share.

    Args:
        lake_format: of the table.
        options: of the write.
        schema: of the rows.
        overwrite: whether rows replace all others.
    """

    def __init__(self, lake_format: _Format, options: LakeOptions, schema: StructType, overwrite: bool) -> None:
        self._format = lake_format
        self._options = options
        self._overwrite = overwrite
        self._write_id = uuid.uuid4().hex
        self._skips = skips(options.save_mode, self._table_with_rows)
        self._layout: Layout = lake_format.prepare(options, arrow_schema(schema))[1]

    def _table_with_rows(self) -> str | None:
        table = self._format.open(self._options)
        return table.name if table is not None and table.has_rows else None

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task into data files."""
        from kafkaraw.spark.lake.data_files import write_files
        from kafkaraw.spark.worker import freeze_modules_once

        freeze_modules_once()
        context, batch = task_context(), self._batch()
        if self._skips:
            return TableCommitMessage(batch, [])
        files = write_files(iterator, self._layout, self._options, batch, context.partitionId())
        return TableCommitMessage(batch, files, context.attemptNumber() > 0)

    def _batch(self) -> BatchId:
        """Return what this task writes."""
        raise NotImplementedError

    @without_traceback()
    def _commit(self, messages: _Messages) -> None:
        from kafkaraw.spark.lake.batches import BatchId
        from kafkaraw.spark.lake.commits import commit_batch
        from kafkaraw.spark.lake.layout import Commit

        reports = _reports(messages)
        if self._skips or (not reports and not self._overwrite):
            return
        table = self._format.open(self._options)
        if table is None:
            raise TableError(f"{self._layout.table}: the table was deleted while the batch was written")
        batch = reports[0].batch if reports else BatchId(self._write_id, 0)
        commit = Commit(batch, [file for each in reports for file in each.files], self._overwrite)
        retried = any(each.retried for each in reports)
        commit_batch(table, commit, self._layout, self._options.on_changed_batch, retried=retried)

    @without_traceback()
    def _abort(self, messages: _Messages) -> None:
        """Delete the files of finished tasks, because another task has failed.

        If all tasks have finished, the commit has failed, and it may be unknown whether its files are in the table:
        they stay, and the next attempt of the batch finds out.
        """
        if None in messages:
            paths = [file.path for each in _reports(messages) for file in each.files]
            _log.warning("%s: the write failed; its %d data files are deleted", self._layout.table, len(paths))
            self._layout.delete(paths)


class TableBatchWriter(_Writer, DataSourceArrowWriter):
    """Writes the rows of a DataFrame."""

    def _batch(self) -> BatchId:
        return batch_of_write(self._write_id, self._options.batch)

    def commit(self, messages: _Messages) -> None:
        """Put the files of all tasks into the table, in one step."""
        self._commit(messages)

    def abort(self, messages: _Messages) -> None:
        """Delete the files of the tasks."""
        self._abort(messages)


class TableStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch, exactly once."""

    def _batch(self) -> BatchId:
        return batch_of_stream("table's log")

    def commit(self, messages: _Messages, batchId: int) -> None:  # Spark's name
        """Put the files of all tasks into the table, in one step, unless the batch is there."""
        self._commit(messages)

    def abort(self, messages: _Messages, batchId: int) -> None:  # Spark's name
        """Delete the files of the tasks."""
        self._abort(messages)


def _reports(messages: _Messages) -> list[TableCommitMessage]:
    return [each for each in messages if isinstance(each, TableCommitMessage)]


class _LakeDataSource(TableDataSource):
    """What both formats share.

    Args:
        options: options of the write; names in any case.

    Raises:
        ConfigError: an option is unknown or wrong.
    """

    _format: ClassVar[_Format]
    _checked: LakeOptions

    @without_traceback()
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._checked = self._format.parse(given(options))

    def _batch_writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return TableBatchWriter(self._format, self._checked, schema, overwrite)

    def _stream_writer(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return TableStreamWriter(self._format, self._checked, schema, overwrite)


def _prepare_delta(options: LakeOptions, rows: pa.Schema) -> tuple[LakeTable, Layout]:
    from kafkaraw.spark.lake.delta import prepare_delta

    return prepare_delta(options, rows)


def _open_delta(options: LakeOptions) -> LakeTable | None:
    from kafkaraw.spark.lake.delta import open_delta

    return open_delta(options)


def _prepare_iceberg(options: LakeOptions, rows: pa.Schema) -> tuple[LakeTable, Layout]:
    from kafkaraw.spark.lake.iceberg import prepare_iceberg

    return prepare_iceberg(options, rows)


def _open_iceberg(options: LakeOptions) -> LakeTable | None:
    from kafkaraw.spark.lake.iceberg import open_iceberg

    return open_iceberg(options)


class DeltaDataSource(_LakeDataSource):
    """Delta tables."""

    _format = _Format(parse_delta, _prepare_delta, _open_delta)
    _reader = "deltalake, DuckDB, Polars, or Spark with Delta's JAR"

    @classmethod
    def name(cls) -> str:
        """Return the name to pass to `format()`."""
        return "kafkaraw.delta"


class IcebergDataSource(_LakeDataSource):
    """Iceberg tables."""

    _format = _Format(parse_iceberg, _prepare_iceberg, _open_iceberg)
    _reader = "pyiceberg, DuckDB, Polars, or Spark with Iceberg's JAR"

    @classmethod
    def name(cls) -> str:
        """Return the name to pass to `format()`."""
        return "kafkaraw.iceberg"
