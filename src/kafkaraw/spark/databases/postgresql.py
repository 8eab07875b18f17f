"""PostgreSQL through ADBC: tasks COPY into unlogged tables, the driver moves their rows in one transaction.

libpq reads PGPASSWORD, PGPASSFILE and the service file itself. Start at `Postgresql`.
"""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.types as kinds

from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.spark.databases.columns import Column, array_type, decimals_fit, new_columns
from kafkaraw.spark.databases.staging import PREFIX
from kafkaraw.spark.databases.statements import beside, qualified, quoted
from kafkaraw.spark.errors import TableConflictError, TableError, TableSchemaError

if TYPE_CHECKING:
    from adbc_driver_manager import Error
    from adbc_driver_manager.dbapi import Connection

    from kafkaraw.spark.databases.columns import Target
    from kafkaraw.spark.databases.session import Row
    from kafkaraw.spark.databases.staging import Staged
    from kafkaraw.spark.options.databases import DatabaseOptions

_LOCK_TIMEOUT_MS: Final = 60_000
# Unless the URL, the role or the database says otherwise. A COPY lasts as long as Spark computes the rows of its task.
_STATEMENT_TIMEOUT: Final = "1h"
# Unless the URL says otherwise. An unreachable host, or one that disappears, is noticed within a minute; on systems
# without tcp_user_timeout by three lost keepalives.
_CONNECTION: Final = {
    "connect_timeout": "15",
    "tcp_user_timeout": "60000",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "application_name": "kafkaraw",
}
_NAMES: Final = {
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.string(): "text",
    pa.large_string(): "text",
    pa.binary(): "bytea",
    pa.large_binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp with time zone",
    pa.timestamp("us"): "timestamp without time zone",
    pa.duration("us"): "interval",
}
_PARSED: Final = frozenset({"json", "jsonb", "uuid", "xml", "inet"})  # from text, by an explicit cast
_WIDER: Final = {
    "smallint": {"integer", "bigint", "numeric", "real", "double precision"},
    "integer": {"bigint", "numeric", "double precision"},
    "bigint": {"numeric"},
    "real": {"double precision"},
    "text": {"character varying", "citext", *_PARSED},
}
_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_CONFLICTS: Final = frozenset({"40001", "40P01", "55P03"})
# IF NOT EXISTS does not prevent them if two transactions create the same relation at once.
_CREATED_TWICE: Final = frozenset({"42P07", "42701", "42710"})
_UNIQUE_VIOLATION: Final = "23505"
_CATALOG_INDEX: Final = re.compile(r"\bpg_\w+_index\b")
_HINTS: Final = {
    "53100": "the server's disk is full: free space, and start the query again",
    "42501": "grant the role what it needs: SELECT, INSERT, UPDATE and DELETE on the table and on kafkaraw_batches, "
    "CREATE and USAGE on their schema; a column is added by the owner of the table",
    "42P01": "a table was dropped while the batch was written: start the query again",
    "42P10": "the unique index on the columns of the option key was dropped: create it, and start the query again",
    "28P01": "set the option password, or PGPASSWORD or PGPASSFILE in the environment of driver and executors",
    "28000": "check the user in the option url, and pg_hba.conf on the server",
    "3D000": "check the database in the option url",
    "3F000": "check the schema in the option table; it is not created",
    "57014": "raise the server's statement_timeout, in the option url as options=-c%20statement_timeout%3D2h, if the "
    "statement needs that long",
    "53300": "raise max_connections on the server, or run fewer tasks at once",
    "22021": "text in PostgreSQL has no character NUL: remove it, as in translate(column, '\\0', ''), or write binary",
}
_LOST: Final = "check the server, the network and the option url, and start the query again"


class PostgresqlDialect:
    """The types of PostgreSQL."""

    name = "PostgreSQL"

    def type_of(self, kind: pa.DataType) -> str | None:
        """Return the type of a new column."""
        if kinds.is_decimal(kind):
            return f"numeric({kind.precision},{kind.scale})"
        if kinds.is_list(kind) or kinds.is_large_list(kind):
            return array_type(kind, self.type_of)
        return _NAMES.get(kind)

    def accepts(self, kind: pa.DataType, declared: str) -> bool:
        """Return whether a column of this type stores each value."""
        given = self.type_of(kind)
        if given is None or given == declared:
            return given is not None
        if kinds.is_decimal(kind):
            found = _NUMERIC.fullmatch(declared)
            if found is None:
                return declared == "numeric"
            return decimals_fit(kind, int(found[1]), int(found[2]))
        return re.sub(r"\(\d+\)", "", declared) in _WIDER.get(given, ())

    def value(self, column: str, declared: str) -> str:
        """Return the column, with a cast if PostgreSQL makes none when it assigns."""
        return f"CAST({column} AS {declared})" if declared in _PARSED else column


class PostgresqlSession:
    """A connection; see `Session`.

    Args:
        options: of the write.
    """

    dialect: PostgresqlDialect = PostgresqlDialect()
    lock_clause = " FOR UPDATE"

    def __init__(self, options: DatabaseOptions) -> None:
        self._options = options
        with self.told("connecting"):
            self._connection: Connection = _driver().connect(_connection_string(options))
            self.execute(f"SET lock_timeout = {_LOCK_TIMEOUT_MS}")
            self.rows(
                f"SELECT set_config('statement_timeout', '{_STATEMENT_TIMEOUT}', false) "
                "WHERE current_setting('statement_timeout') = '0'"
            )
            self.execute("SET client_min_messages = warning")
            self._connection.commit()

    def begin(self) -> None:
        """Begin nothing: ADBC begins a transaction with the next statement."""

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Execute a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, list(parameters) or None)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Execute a query."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, list(parameters) or None)
            return [tuple(row) for row in cursor.fetchall()]

    def commit(self) -> None:
        """Commit the transaction."""
        self._connection.commit()

    def rollback(self) -> None:
        """Roll the transaction back; without a connection the server does."""
        with contextlib.suppress(Exception):
            self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self._connection.close()

    def columns(self) -> list[Column] | None:
        """Return the columns of the table."""
        table = qualified(self._options.table)
        if self.rows("SELECT to_regclass($1) IS NOT NULL", (table,)) == [(False,)]:
            return None
        found = self.rows(
            "SELECT attname::text, format_type(atttypid, atttypmod), attnotnull AND NOT atthasdef "
            "AND attidentity = '' FROM pg_attribute WHERE attrelid = to_regclass($1) "
            "AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (table,),
        )
        return [Column(str(name), str(kind), bool(required)) for name, kind, required in found]

    def unique_keys(self) -> list[frozenset[str]]:
        """Return the columns of unique indexes without conditions or expressions."""
        found = self.rows(
            "SELECT i.indexrelid::bigint, a.attname::text FROM pg_index i JOIN pg_attribute a "
            "ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = to_regclass($1) "
            "AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL",
            (qualified(self._options.table),),
        )
        keys: dict[object, set[str]] = {}
        for index, name in found:
            keys.setdefault(index, set()).add(str(name))
        return [frozenset(names) for names in keys.values()]

    def load(self, staged: Sequence[Staged], target: Target) -> str:
        """Return a union of the tables that the tasks have filled."""
        parts = [f"SELECT * FROM {beside(target.table, each.name)}" for each in staged]
        return f"({' UNION ALL '.join(parts)}) AS staged"

    def staged_names(self) -> list[str]:
        """Return the staging tables where those of this table are: without a schema, not always beside it."""
        schema = self._options.table.rpartition(".")[0]
        found = self.rows(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
            f"c.relkind = 'r' AND starts_with(c.relname::text, '{PREFIX}') "
            f"AND n.nspname = {'$1' if schema else 'current_schema()'}",
            (schema,) if schema else (),
        )
        return [str(name) for (name,) in found]

    def drop_staged(self, names: Sequence[str]) -> None:
        """Drop staging tables, except those that a task is filling."""
        for name in names:
            table = beside(self._options.table, name)
            self.execute("SAVEPOINT dropping")
            try:
                self.execute("SET LOCAL lock_timeout = 50")
                self.execute(f"DROP TABLE IF EXISTS {table}")
            except _driver().Error as error:
                if error.sqlstate not in ("55P03", "42501"):
                    raise
                self.execute("ROLLBACK TO SAVEPOINT dropping")
            self.execute("RELEASE SAVEPOINT dropping")

    @contextlib.contextmanager
    def told(self, stage: str) -> Iterator[None]:
        """Explain errors of the server."""
        with _told(self._options, stage):
            yield


@dataclass(frozen=True)
class Postgresql:
    """The server; see `Database`."""

    def connect(self, options: DatabaseOptions) -> PostgresqlSession:
        """Connect."""
        return PostgresqlSession(options)

    def stage(self, options: DatabaseOptions, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
        """Create an unlogged table and COPY the rows into it, in one transaction."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return 0
        columns = new_columns(options.table, list(schema), PostgresqlDialect())
        listed = ", ".join(f"{quoted(column.name)} {column.type}" for column in columns)
        counted = _Counted(chain([first], batches), schema)
        session = self.connect(options)
        try:
            with session.told(f"COPY into the staging table {name}"):
                session.execute(f"CREATE UNLOGGED TABLE {beside(options.table, name)} ({listed})")
                counted.copy(session._connection, options.table, name)  # noqa: SLF001 - of this module
                session.commit()
        finally:
            session.rollback()
            session.close()
        return counted.rows_count


class _Counted:
    """Rows on their way to the server. An error of Spark's, which ADBC would turn into text, is kept."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._batches = batches
        self._schema = schema
        self._error: BaseException | None = None
        self.rows_count = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._batches:
                self.rows_count += batch.num_rows
                yield batch if batch.schema == self._schema else batch.cast(self._schema)
        except BaseException as error:
            self._error = error
            raise

    def copy(self, connection: Connection, table: str, name: str) -> None:
        """COPY all rows into a table."""
        schema = table.rpartition(".")[0] or None
        try:
            with connection.cursor() as cursor:
                reader = pa.RecordBatchReader.from_batches(self._schema, iter(self))
                cursor.adbc_ingest(name, reader, mode="append", db_schema_name=schema)
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise


def _driver() -> ModuleType:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise UsageError(
            'format kafkaraw.postgresql needs ADBC, on executors too: pip install "kafkaraw[postgresql]"'
        ) from None
    return cast("ModuleType", dbapi)


def _connection_string(options: DatabaseOptions) -> str:
    """Return what libpq connects to, the password included: never shown."""
    url = options.database
    added = {name: value for name, value in _CONNECTION.items() if name not in url}
    if options.password:
        added["password"] = options.password
    if "://" in url:
        return url + ("&" if "?" in url else "?") + urllib.parse.urlencode(added, quote_via=urllib.parse.quote)
    escaped = {name: value.replace("\\", "\\\\").replace("'", "\\'") for name, value in added.items()}
    return " ".join([url, *(f"{name}='{value}'" for name, value in escaped.items())])


@contextlib.contextmanager
def _told(options: DatabaseOptions, stage: str) -> Iterator[None]:
    try:
        yield
    except KafkaError:
        raise
    except _driver().Error as error:
        raise _explained(error, options, stage) from None


def _explained(error: Error, options: DatabaseOptions, stage: str) -> TableError:
    state = error.sqlstate
    text = re.sub(r"\s*Query was:.*?(?=SQLSTATE|$)", " ", str(error), flags=re.DOTALL)
    text = " ".join(re.sub(r"^\w+: (\[libpq\] )?", "", text).split())
    for secret in {options.password, urllib.parse.quote(options.password)} - {""}:
        text = text.replace(secret, "[hidden]")
    if state in _CONFLICTS:
        return TableConflictError(
            f"{options.table}: {stage} failed: {text}. Other transactions lock the table; end them, or write less often"
        )
    if state in _CREATED_TWICE or (state == _UNIQUE_VIOLATION and _CATALOG_INDEX.search(text)):
        return TableConflictError(
            f"{options.table}: {stage} failed: {text}. Another process creates or alters the table at the same time, "
            f"or a name is one of PostgreSQL's own: then rename the column"
        )
    is_lost = state is None or state[:2] in ("08", "57")
    unknown = is_lost and stage.startswith("committing")
    hint = _HINTS.get(state or "") or (_LOST if is_lost else "")
    known = (
        "It is unknown whether the batch is in the table; a stream finds out when it starts again"
        if unknown
        else "Nothing of this batch is in the table"
    )
    kind = TableSchemaError if state is not None and state[:2] in ("22", "23") else TableError
    return kind(f"{options.table}: {stage} failed: {text}. {known}" + (f"; {hint}" if hint else ""))
