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
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafkaraw.spark.arrow_schemas import arrow_schema
from kafkaraw.spark.data_source_api import DataSourceStreamArrowWriter
from kafkaraw.spark.errors import without_traceback
from kafkaraw.spark.lake.writes import TableDataSource, batch_of_stream, batch_of_write, skips
from kafkaraw.spark.micro_batches import task_context
from kafkaraw.spark.options.databases import DatabaseOptions, parse_duckdb, parse_postgresql, parse_sqlite
from kafkaraw.spark.options.tables import given

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkaraw.spark.databases.columns import Target
    from kafkaraw.spark.databases.session import Database, Session
    from kafkaraw.spark.databases.staging import Staged
    from kafkaraw.spark.lake.batches import BatchId

_log = logging.getLogger(__name__)

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
        from kafkaraw.spark.databases.commits import has_rows

        session = self._connect()
        try:
            self._skips = skips(options.save_mode, lambda: options.table if has_rows(session, options.table) else None)
            self._target = self._prepared(session)
        finally:
            session.rollback()
            session.close()

    def _connect(self) -> Session:
        return self._database().connect(self._options)

    def _prepared(self, session: Session) -> Target:
        from kafkaraw.spark.databases.commits import prepare

        return prepare(session, self._options, self._rows)

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        from kafkaraw.spark.databases.staging import Staged, staging_name
        from kafkaraw.spark.worker import freeze_modules_once

        freeze_modules_once()
        batch = self._batch()
        name = staging_name(
            batch, self._options.table, task_context().partitionId(), attempt=uuid.uuid4().hex, now_s=time.time()
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
        return batch_of_write(self._write_id, self._options.batch)

    def commit(self, messages: _Messages) -> None:
        """Move the rows of all tasks into the table, in one transaction."""
        self._commit(messages)

    def abort(self, messages: _Messages) -> None:
        """Drop what the tasks have staged."""
        self._abort(messages)


class DatabaseStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes the rows of each micro-batch, exactly once."""

    def _batch(self) -> BatchId:
        return batch_of_stream("database")

    def commit(self, messages: _Messages, batchId: int) -> None:  # Spark's name
        """Move the rows of all tasks into the table, in one transaction, unless the batch is there."""
        self._commit(messages)

    def abort(self, messages: _Messages, batchId: int) -> None:  # Spark's name
        """Drop what the tasks have staged."""
        self._abort(messages)


def _reports(messages: _Messages) -> list[DatabaseCommitMessage]:
    return [each for each in messages if isinstance(each, DatabaseCommitMessage)]


class _DatabaseDataSource(TableDataSource):
    """What the three formats share.

    Args:
        options: options of the write; names in any case.

    Raises:
        ConfigError: an option is unknown or wrong.
    """

    _parse: Callable[[Mapping[str, str]], DatabaseOptions]  # of the class, static
    _database: Callable[[], Database]
    _checked: DatabaseOptions

    @without_traceback()
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._checked = self._parse(given(options))

    def _batch_writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return DatabaseBatchWriter(self._database, self._checked, schema, overwrite)

    def _stream_writer(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
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
