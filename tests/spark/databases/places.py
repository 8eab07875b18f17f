"""A place for tables in each database, and writes into them without Spark: the tasks and the driver of a batch."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from adbc_driver_postgresql import dbapi

from examples.postgres import PrivatePostgres, private_postgres
from kafkaraw.spark.databases.commits import commit_batch, prepare
from kafkaraw.spark.databases.duckdb import Duckdb
from kafkaraw.spark.databases.postgresql import Postgresql
from kafkaraw.spark.databases.session import Database, Session
from kafkaraw.spark.databases.sqlite import Sqlite
from kafkaraw.spark.databases.staging import Staged, staging_name
from kafkaraw.spark.lake.batches import BatchId
from kafkaraw.spark.lake.commits import Verdict
from kafkaraw.spark.options.databases import DatabaseOptions

KINDS = ("postgresql", "sqlite", "duckdb")


@dataclass
class Place:
    """A database for tests, and how to look into it."""

    kind: str
    database: Database
    options: DatabaseOptions

    def named(self, table: str, **options: Any) -> Place:
        """The same database with another table."""
        return replace(self, options=replace(self.options, table=table, **options))

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Run statements as a program of the user's would."""
        where = self.options.database
        connection: Any
        if self.kind == "postgresql":
            connection = dbapi.connect(where)
        elif self.kind == "sqlite":
            connection = sqlite3.connect(where)
        else:
            connection = duckdb.connect(where)
            connection.execute("SET TimeZone = 'UTC'")
        try:
            cursor = connection.cursor()
            cursor.execute(sql)
            found = cursor.fetchall() if cursor.description else []
            if self.kind != "duckdb":
                connection.commit()
            cursor.close()
            return [tuple(row) for row in found]
        finally:
            connection.close()

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        """The rows of the table, sorted."""
        return sorted(self.query(f"SELECT {columns} FROM {self.options.table}"), key=repr)

    def staged(self) -> list[str]:
        """What is staged."""
        session = self.database.connect(self.options)
        try:
            return session.staged_names()
        finally:
            session.rollback()
            session.close()

    def prepare(self, schema: pa.Schema) -> Any:
        """The driver before a batch."""
        session = self.database.connect(self.options)
        try:
            return prepare(session, self.options, schema)
        finally:
            session.rollback()
            session.close()

    def stage(self, batch: BatchId, tables: Sequence[pa.Table], now_s: float | None = None) -> list[Staged]:
        """The tasks of a batch."""
        found = []
        for task, table in enumerate(tables):
            name = staging_name(
                batch, self.options.table, task, attempt=uuid.uuid4().hex, now_s=time.time() if now_s is None else now_s
            )
            count = self.database.stage(self.options, name, table.schema, iter(table.to_batches()))
            found.append(Staged(name, count))
        return [each for each in found if each.rows_count]

    def write(
        self,
        number: int,
        *tables: pa.Table,
        query: str = "q",
        overwrite: bool = False,
        wrapped: Callable[[Session], Session] = lambda session: session,
    ) -> Verdict:
        """A whole micro-batch."""
        batch = BatchId(query, number, "run")
        target = self.prepare(tables[0].schema)
        staged = self.stage(batch, tables)

        def connect() -> Session:
            return wrapped(self.database.connect(self.options))

        return commit_batch(
            connect, self.options, target, batch, staged, overwrite=overwrite, sleep=lambda seconds: None
        )


@contextmanager
def postgres_place() -> Iterator[tuple[Place, PrivatePostgres]]:
    """A server of its own."""
    with private_postgres() as server:
        yield Place("postgresql", Postgresql(), DatabaseOptions(server.connection_string, "t")), server


def file_place(kind: str, folder: Path) -> Place:
    """A file."""
    database: Database = Sqlite() if kind == "sqlite" else Duckdb()
    return Place(kind, database, DatabaseOptions(str(folder / f"shop.{kind}"), "t"))
