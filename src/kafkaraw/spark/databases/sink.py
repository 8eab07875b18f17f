"""Formats "kafkaraw.postgresql", "kafkaraw.sqlite" and "kafkaraw.duckdb" as Spark calls them, for all writes.

Tasks stage rows, which no reader sees; the driver commits them. Spark makes a writer for each micro-batch on the
driver, which prepares the table.

Must not hold connections: writers are pickled to the workers.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.spark.arrow_schemas import arrow_schema
from kafkaraw.spark.data_source_api import DataSourceStreamArrowWriter
from kafkaraw.spark.errors import TableError, without_traceback
from kafkaraw.spark.options.databases import DatabaseOptions, parse_duckdb, parse_postgresql, parse_sqlite
from kafkaraw.spark.options.lake import SaveMode
from kafkaraw.spark.options.tables import given

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkaraw.spark.databases.columns import Target
    from kafkaraw.spark.databases.session import Database, Session
    from kafkaraw.spark.databases.staging import Staged
    from kafkaraw.spark.lake.batches import BatchId

_log = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"  # the job group that StreamExecution sets for its jobs

_Messages = list[WriterCommitMessage | None]


@dataclass
class DatabaseCommitMessage(WriterCommitMessage):
    """What a task reports.

    Attributes:
        batch: what it has written.
        staged: where its rows are.
    """

    batch: BatchId
    staged: Staged


class _Writer:
    """The part that both writers share.

    Args:
        database: returns the database; a function, so that its library is imported where it is used.
        options: of the write.
        schema: of the rows.
        overwrite: whether rows replace all others.
    """

    def __init__(
        self, database: Callable[[], Database], options: DatabaseOptions, schema: StructType, overwrite: bool
    ) -> None:
        self._database = database
        self._options = options
        self._overwrite = overwrite
        self._write_id = uuid.uuid4().hex
        self._rows = arrow_schema(schema)
        session = self._connect()
        try:
            self._skips = self._is_skipped(session)
            self._target = self._prepared(session)
        finally:
            session.rollback()
            session.close()

    def _connect(self) -> Session:
        return self._database().connect(self._options)

    def _prepared(self, session: Session) -> Target:
        from kafkaraw.spark.databases.commits import prepare

        return prepare(session, self._options, self._rows)

    def _is_skipped(self, session: Session) -> bool:
        """Return whether nothing is written, because the table has rows."""
        from kafkaraw.spark.databases.commits import has_rows

        mode = self._options.save_mode
        if mode not in (SaveMode.ERROR_IF_EXISTS, SaveMode.IGNORE) or not has_rows(session, self._options.table):
            return False
        if mode is SaveMode.IGNORE:
            return True
        raise TableError(
            f"{self._options.table}: it has rows, and the option saveMode is errorifexists. Write to another table, or "
            f"set saveMode to append, overwrite or ignore"
        )

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        from kafkaraw.spark.databases.staging import Staged, staging_name
        from kafkaraw.spark.worker import freeze_modules_once

        freeze_modules_once()
        batch = self._batch()
        name = staging_name(
            batch, self._options.table, _task().partitionId(), attempt=uuid.uuid4().hex, now_s=time.time()
        )
        if self._skips:
            return DatabaseCommitMessage(batch, Staged(name, 0))
        rows_count = self._database().stage(self._options, name, self._rows, iterator)
        return DatabaseCommitMessage(batch, Staged(name, rows_count))

    def _batch(self) -> BatchId:
        """Return what this task writes."""
        raise NotImplementedError

    @without_traceback()
    def _commit(self, messages: _Messages) -> None:
        from kafkaraw.spark.databases.commits import commit_batch
        from kafkaraw.spark.lake.batches import BatchId

        reports = _reports(messages)
        if self._skips or (not reports and not self._overwrite):
            return
        batch = reports[0].batch if reports else BatchId(self._write_id, 0)
        staged = [each.staged for each in reports if each.staged.rows_count]
        commit_batch(self._connect, self._options, self._target, batch, staged, overwrite=self._overwrite)

    @without_traceback()
    def _abort(self, messages: _Messages) -> None:
        """Drop what the tasks have staged, because one of them has failed.

        If all tasks have finished, the commit has failed, and its result may be unknown: a later commit drops the rest.
        """
        if None in messages and not self._skips:
            from kafkaraw.spark.databases.commits import discard_batch
            from kafkaraw.spark.lake.batches import BatchId

            reports = _reports(messages)
            batch = reports[0].batch if reports else BatchId(self._write_id, 0)
            _log.warning("%s: the write failed; what its tasks have staged is dropped", self._options.table)
            discard_batch(self._connect, self._options.table, batch)


class DatabaseBatchWriter(_Writer, DataSourceArrowWriter):
    """Writes the rows of a DataFrame."""

    def _batch(self) -> BatchId:
        from kafkaraw.spark.lake.batches import BatchId

        named = self._options.batch
        return BatchId(self._write_id, 0) if named is None else BatchId(*named, run_id=_property(_RUN_ID) or named[0])

    def commit(self, messages: _Messages) -> None:
        """Move the rows of all tasks into the table, in one transaction."""
        self._commit(messages)

    def abort(self, messages: _Messages) -> None:
        """Drop what the tasks have staged."""
        self._abort(messages)


class DatabaseStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch, exactly once."""

    def _batch(self) -> BatchId:
        from kafkaraw.spark.lake.batches import BatchId

        query_id, batch_id = _property(_QUERY_ID), _property(_BATCH_ID)
        if query_id is None or batch_id is None:
            raise UsageError("Spark does not pass the query and the micro-batch to this task, which the database needs")
        return BatchId(query_id, int(batch_id), _property(_RUN_ID) or query_id)

    def commit(self, messages: _Messages, batchId: int) -> None:  # Spark's name
        """Move the rows of all tasks into the table, in one transaction, unless the batch is there."""
        self._commit(messages)

    def abort(self, messages: _Messages, batchId: int) -> None:  # Spark's name
        """Drop what the tasks have staged."""
        self._abort(messages)


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise UsageError("this is not a task of Spark")
    return context


def _property(name: str) -> str | None:
    return _task().getLocalProperty(name)


def _reports(messages: _Messages) -> list[DatabaseCommitMessage]:
    return [each for each in messages if isinstance(each, DatabaseCommitMessage)]


class _DatabaseDataSource(DataSource):
    """What the three formats share.

    Args:
        options: options of the write; names in any case.

    Raises:
        ConfigError: an option is unknown or wrong.
    """

    _parse: Callable[[Mapping[str, str]], DatabaseOptions]  # of the class, static
    _database: Callable[[], Database]
    _reader: ClassVar[str]

    @without_traceback()
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._checked = self._parse(given(options))

    def schema(self) -> StructType:
        """Refuse to read."""
        raise ConfigError(f"format {self.name()} writes tables; to read one, use {self._reader}")

    @without_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a batch writer of these columns."""
        options = self._checked
        if overwrite and options.save_mode not in (None, SaveMode.OVERWRITE):
            raise ConfigError(f'saveMode={options.save_mode} contradicts mode("overwrite"): leave one of them out')
        replaces = overwrite or options.save_mode is SaveMode.OVERWRITE
        return DatabaseBatchWriter(self._database, options, schema, replaces)

    @without_traceback()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return a streaming writer of these columns. In complete mode each micro-batch replaces all rows."""
        if self._checked.save_mode is not None:
            raise ConfigError("saveMode is for batch writes; the output mode says what a stream writes")
        return DatabaseStreamWriter(self._database, self._checked, schema, overwrite)


def _postgresql() -> Database:
    from kafkaraw.spark.databases.postgresql import Postgresql

    return Postgresql()


def _sqlite() -> Database:
    from kafkaraw.spark.databases.sqlite import Sqlite

    return Sqlite()


def _duckdb() -> Database:
    from kafkaraw.spark.databases.duckdb import Duckdb

    return Duckdb()


class PostgresqlDataSource(_DatabaseDataSource):
    """Tables of PostgreSQL."""

    _parse = staticmethod(parse_postgresql)
    _database = staticmethod(_postgresql)
    _reader = "ADBC, psycopg, DuckDB or Spark's JDBC source"

    @classmethod
    def name(cls) -> str:
        """Return the name to pass to `format()`."""
        return "kafkaraw.postgresql"


class SqliteDataSource(_DatabaseDataSource):
    """Tables of SQLite."""

    _parse = staticmethod(parse_sqlite)
    _database = staticmethod(_sqlite)
    _reader = "sqlite3, ADBC or DuckDB"

    @classmethod
    def name(cls) -> str:
        """Return the name to pass to `format()`."""
        return "kafkaraw.sqlite"


class DuckdbDataSource(_DatabaseDataSource):
    """Tables of DuckDB."""

    _parse = staticmethod(parse_duckdb)
    _database = staticmethod(_duckdb)
    _reader = "duckdb"

    @classmethod
    def name(cls) -> str:
        """Return the name to pass to `format()`."""
        return "kafkaraw.duckdb"
