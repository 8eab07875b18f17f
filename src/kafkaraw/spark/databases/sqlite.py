"""SQLite through Python's own module: tasks write Arrow files, the driver loads them in one transaction.

Dates, timestamps, decimals and arrays are text, since SQLite has no types for them. Start at `Sqlite`.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.types as kinds

from kafkaraw.errors import KafkaError
from kafkaraw.spark.databases.columns import Column
from kafkaraw.spark.databases.files import FileDatabase, FileSession
from kafkaraw.spark.databases.statements import quoted
from kafkaraw.spark.errors import TableConflictError, TableError, TableSchemaError

if TYPE_CHECKING:
    from kafkaraw.spark.databases.columns import Target
    from kafkaraw.spark.databases.session import Row
    from kafkaraw.spark.databases.staging import Staged
    from kafkaraw.spark.options.databases import DatabaseOptions

_BUSY_S: Final = 60.0
_STAGED: Final = "kafkaraw_staged"
_PARAMETER: Final = re.compile(r"\$\d+")


class SqliteDialect:
    """The types of SQLite, which are affinities of columns."""

    name = "SQLite"

    def type_of(self, kind: pa.DataType) -> str | None:
        """Return the type of a new column."""
        if kinds.is_integer(kind):
            return "INTEGER"
        if kinds.is_boolean(kind):
            return "BOOLEAN"
        if kinds.is_floating(kind):
            return "REAL"
        if kinds.is_binary(kind) or kinds.is_large_binary(kind):
            return "BLOB"
        if kinds.is_list(kind) or kinds.is_large_list(kind):
            return None if kinds.is_nested(kind.value_type) else "TEXT"
        as_text = (kinds.is_string, kinds.is_large_string, kinds.is_date, kinds.is_timestamp, kinds.is_decimal)
        return "TEXT" if any(fits(kind) for fits in as_text) else None

    def accepts(self, kind: pa.DataType, declared: str) -> bool:
        """Return whether a column of this affinity keeps the values as they are."""
        given, affinity = self.type_of(kind), _affinity(declared)
        if given == "TEXT" and (kinds.is_date(kind) or kinds.is_timestamp(kind)):
            return affinity in ("TEXT", "NUMERIC") and "DECIMAL" not in declared.upper()
        allowed = {
            "INTEGER": ("INTEGER", "NUMERIC"),
            "BOOLEAN": ("INTEGER", "NUMERIC"),
            "REAL": ("REAL",),
            "BLOB": ("BLOB",),
            "TEXT": ("TEXT",),
        }
        return given is not None and affinity in allowed[given]

    def value(self, column: str, declared: str) -> str:
        """Return the column: SQLite converts by affinity."""
        return column


def _affinity(declared: str) -> str:
    """Return the affinity by the rules of sqlite.org/datatype3.html, section 3.1."""
    upper = declared.upper()
    for affinity, words in (("INTEGER", ("INT",)), ("TEXT", ("CHAR", "CLOB", "TEXT")), ("BLOB", ("BLOB",))):
        if any(word in upper for word in words):
            return affinity
    if not upper:
        return "BLOB"
    return "REAL" if any(word in upper for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def _converter(field: pa.Field, table: str) -> Callable[[pa.Array], list[object]]:
    """Return how a column becomes Python's values that SQLite stores."""
    kind = field.type
    if kinds.is_timestamp(kind):
        return lambda column: [None if each is None else each.isoformat(" ") for each in column.to_pylist()]
    if kinds.is_date(kind):
        return lambda column: [None if each is None else each.isoformat() for each in column.to_pylist()]
    if kinds.is_decimal(kind):
        return lambda column: [None if each is None else f"{each:f}" for each in column.to_pylist()]
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return lambda column: [
            None if each is None else json.dumps(each, default=_as_json, ensure_ascii=False)
            for each in column.to_pylist()
        ]
    if kinds.is_floating(kind):
        return lambda column: _without_nan(column.to_pylist(), field.name, table)
    return lambda column: list(column.to_pylist())


def _as_json(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _without_nan(values: list[object], column: str, table: str) -> list[object]:
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        raise TableSchemaError(
            f"{table}: column {column!r} has a NaN, which SQLite would store as NULL: replace it, as in "
            f"nullif({column}, double('NaN'))"
        )
    return values


class SqliteSession(FileSession):
    """A connection; see `Session`.

    Args:
        options: of the write.
        busy_s: how long to wait for other writers.
    """

    dialect: SqliteDialect = SqliteDialect()
    lock_clause = ""  # the transaction locks the whole file

    def __init__(self, options: DatabaseOptions, busy_s: float = _BUSY_S) -> None:
        super().__init__(options)
        with self.told("opening the database"):
            self._connection = sqlite3.connect(options.database, timeout=busy_s, isolation_level=None)

    def begin(self) -> None:
        """Begin a transaction that writes."""
        self._connection.execute("BEGIN IMMEDIATE")

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Execute a statement."""
        self._connection.execute(_PARAMETER.sub("?", sql), tuple(parameters))

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Execute a query."""
        return list(self._connection.execute(_PARAMETER.sub("?", sql), tuple(parameters)))

    def commit(self) -> None:
        """Commit the transaction, then delete the files that it has moved."""
        self._connection.execute("COMMIT")
        self._delete_dropped()

    def rollback(self) -> None:
        """Roll the transaction back."""
        self._dropped = []
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def columns(self) -> list[Column] | None:
        """Return the columns of the table."""
        found = self.rows(f"PRAGMA table_info({quoted(self._options.table)})")
        integer_key = sum(1 for row in found if row[5]) == 1  # INTEGER PRIMARY KEY numbers new rows itself
        return [
            Column(str(name), str(kind), bool(required) and default is None and not (key and integer_key))
            for _, name, kind, required, default, key in found
        ] or None

    def unique_keys(self) -> list[frozenset[str]]:
        """Return the columns of the primary key and of unique indexes."""
        table = quoted(self._options.table)
        primary = frozenset(str(row[1]) for row in self.rows(f"PRAGMA table_info({table})") if row[5])
        indexes = [row for row in self.rows(f"PRAGMA index_list({table})") if row[2] and not row[4]]
        return [
            primary,
            *(
                frozenset(str(each[2]) for each in self.rows(f"PRAGMA index_info({quoted(str(row[1]))})"))
                for row in indexes
            ),
        ]

    def load(self, staged: Sequence[Staged], target: Target) -> str:
        """Load the files into a temporary table."""
        convert: list[Callable[[pa.Array], list[object]]] = []
        for batch in self._folder.read(staged):
            if not convert:
                convert = [_converter(field, target.table) for field in batch.schema]
                listed = ", ".join(f"{quoted(field.name)} {self.dialect.type_of(field.type)}" for field in batch.schema)
                self.execute(f"CREATE TEMPORARY TABLE {_STAGED} ({listed})")
            values = [into(column) for into, column in zip(convert, batch.columns, strict=True)]
            places = ", ".join("?" * len(values))
            self._connection.executemany(f"INSERT INTO {_STAGED} VALUES ({places})", zip(*values, strict=True))
        return _STAGED

    @contextlib.contextmanager
    def told(self, stage: str) -> Iterator[None]:
        """Explain errors of SQLite."""
        table, path = self._options.table, self._options.database
        try:
            yield
        except KafkaError:
            raise
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorname", "")
            if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise TableConflictError(
                    f"{table}: {stage} failed: another process writes to {path}: {error}. End it, or write less often"
                ) from None
            kind = TableSchemaError if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError) else TableError
            raise kind(
                f"{table}: {stage} failed: {error} ({code}). Nothing of this batch is in the table; check space and "
                f"permissions of {path} (option path), and start the query again"
            ) from None


@dataclass(frozen=True)
class Sqlite(FileDatabase):
    """The file; see `Database`."""

    def connect(self, options: DatabaseOptions) -> SqliteSession:
        """Open the file."""
        return SqliteSession(options)
