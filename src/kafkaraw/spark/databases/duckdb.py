"""DuckDB: tasks write Arrow files, the driver loads them in one transaction.

One process at a time has the file open for writing: the driver opens it for each commit only, and waits for others.
Start at `Duckdb`.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.types as kinds

from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.spark.databases.columns import Column, array_type, decimals_fit
from kafkaraw.spark.databases.files import FileDatabase, FileSession
from kafkaraw.spark.errors import TableConflictError, TableError, TableSchemaError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from kafkaraw.spark.databases.columns import Target
    from kafkaraw.spark.databases.session import Row
    from kafkaraw.spark.databases.staging import Staged
    from kafkaraw.spark.options.databases import DatabaseOptions

_BUSY_S: Final = 60.0
_PAUSE_S: Final = 0.1
_STAGED: Final = "kafkaraw_staged"
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_NAMES: Final = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
    pa.timestamp("us"): "TIMESTAMP",
    pa.duration("us"): "INTERVAL",
}
_PARSED: Final = frozenset({"JSON", "UUID"})
_WIDER: Final = {
    "TINYINT": {"SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"},
    "SMALLINT": {"INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"},
    "INTEGER": {"BIGINT", "HUGEINT", "DOUBLE"},
    "BIGINT": {"HUGEINT"},
    "FLOAT": {"DOUBLE"},
    "VARCHAR": _PARSED,
}


class DuckdbDialect:
    """The types of DuckDB."""

    name = "DuckDB"

    def type_of(self, kind: pa.DataType) -> str | None:
        """Return the type of a new column."""
        if kinds.is_decimal(kind):
            return f"DECIMAL({kind.precision},{kind.scale})"
        if kinds.is_list(kind) or kinds.is_large_list(kind):
            return array_type(kind, self.type_of)
        return _NAMES.get(kind)

    def accepts(self, kind: pa.DataType, declared: str) -> bool:
        """Return whether a column of this type stores each value."""
        given = self.type_of(kind)
        if given is None or given == declared:
            return given is not None
        found = _DECIMAL.fullmatch(declared)
        if kinds.is_decimal(kind) and found is not None:
            return decimals_fit(kind, int(found[1]), int(found[2]))
        return declared in _WIDER.get(given, ())

    def value(self, column: str, declared: str) -> str:
        """Return the column, with a cast if its text is parsed."""
        return f"CAST({column} AS {declared})" if declared in _PARSED else column


class DuckdbSession(FileSession):
    """A connection; see `Session`.

    Args:
        options: of the write.
        busy_s: how long to wait for other processes.
        clock: seconds that only increase.
        sleep: waits for a number of seconds.
    """

    dialect: DuckdbDialect = DuckdbDialect()
    lock_clause = ""  # the transaction locks the whole file

    def __init__(
        self,
        options: DatabaseOptions,
        busy_s: float = _BUSY_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(options)
        self._is_open = False
        with self.told("opening the database"):
            self._connection = _opened(options.database, clock() + busy_s, clock, sleep)

    def begin(self) -> None:
        """Begin a transaction."""
        self._connection.execute("BEGIN TRANSACTION")
        self._is_open = True

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Execute a statement."""
        self._connection.execute(sql, list(parameters))

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Execute a query."""
        return [tuple(row) for row in self._connection.execute(sql, list(parameters)).fetchall()]

    def commit(self) -> None:
        """Commit the transaction, then delete the files that it has moved."""
        self._connection.execute("COMMIT")
        self._is_open = False
        self._delete_dropped()

    def rollback(self) -> None:
        """Roll the transaction back."""
        self._dropped = []
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(_library().Error):  # an error may have ended it
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file, so that other processes may open it."""
        self._connection.close()

    def _table(self) -> tuple[str, str]:
        schema, _, table = self._options.table.rpartition(".")
        return schema or "main", table

    def columns(self) -> list[Column] | None:
        """Return the columns of the table."""
        found = self.rows(
            "SELECT column_name, data_type, NOT is_nullable AND column_default IS NULL FROM duckdb_columns() "
            "WHERE schema_name = $1 AND table_name = $2 AND NOT internal ORDER BY column_index",
            self._table(),
        )
        return [Column(str(name), str(kind), bool(required)) for name, kind, required in found] or None

    def unique_keys(self) -> list[frozenset[str]]:
        """Return the columns of the primary key, of unique constraints and of unique indexes."""
        constraints = self.rows(
            "SELECT constraint_column_names FROM duckdb_constraints() WHERE schema_name = $1 AND table_name = $2 "
            "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')",
            self._table(),
        )
        indexes = self.rows(
            "SELECT expressions FROM duckdb_indexes() WHERE schema_name = $1 AND table_name = $2 AND is_unique",
            self._table(),
        )
        found = [frozenset(str(name) for name in names) for (names,) in constraints if isinstance(names, list)]
        for (listed,) in indexes:
            names = [part.strip().strip("'\"") for part in str(listed).strip("[]").split(",")]
            found.append(frozenset(names))
        return found

    def load(self, staged: Sequence[Staged], target: Target) -> str:
        """Make the files readable as a view."""
        batches = list(self._folder.read(staged))
        self._connection.register(_STAGED, pa.Table.from_batches(batches))
        return _STAGED

    @contextlib.contextmanager
    def told(self, stage: str) -> Iterator[None]:
        """Explain errors of DuckDB."""
        library = _library()
        table, path = self._options.table, self._options.database
        try:
            yield
        except KafkaError:
            raise
        except library.TransactionException as error:
            raise TableConflictError(f"{table}: {stage} failed: {error}. Write less often") from None
        except library.Error as error:
            refused = (library.ConstraintException, library.ConversionException, library.OutOfRangeException)
            kind = TableSchemaError if isinstance(error, refused) else TableError
            text = " ".join(str(error).split())
            raise kind(
                f"{table}: {stage} failed: {text}. Nothing of this batch is in the table; check space and permissions "
                f"of {path} (option path), and start the query again"
            ) from None


def _opened(
    path: str, deadline: float, clock: Callable[[], float], sleep: Callable[[float], None]
) -> DuckDBPyConnection:
    """Open the file; wait for processes that have it open."""
    library = _library()
    while True:
        try:
            connection: DuckDBPyConnection = library.connect(path)
        except library.IOException as error:
            if "lock" not in str(error):
                raise
            if clock() >= deadline:
                raise TableConflictError(
                    f"opening the database {path} (option path) failed: another process has it open for writing: "
                    f"{' '.join(str(error).split())}. End it, or let it open the file only as long as it needs it"
                ) from None
            sleep(_PAUSE_S)
            continue
        connection.execute("SET TimeZone = 'UTC'")
        return connection


def _library() -> ModuleType:
    try:
        import duckdb
    except ImportError:
        raise UsageError('format kafkaraw.duckdb needs DuckDB: pip install "kafkaraw[duckdb]"') from None
    return duckdb


@dataclass(frozen=True)
class Duckdb(FileDatabase):
    """The file; see `Database`."""

    def connect(self, options: DatabaseOptions) -> DuckdbSession:
        """Open the file."""
        return DuckdbSession(options)
