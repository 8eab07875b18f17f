"""A connection to a database as the driver uses it: the interface of the three databases. Start at `Session`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.spark.databases.columns import Column, Dialect, Target
    from kafkaraw.spark.databases.staging import Staged
    from kafkaraw.spark.options.databases import DatabaseOptions

Row = tuple[object, ...]


class Session(Protocol):
    """A connection with at most one transaction. Every wait has a deadline."""

    @property
    def dialect(self) -> Dialect:
        """The types of the database."""

    def begin(self) -> None:
        """Begin a transaction; in SQLite and DuckDB, wait for other writers."""

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Execute a statement; its parameters are $1, $2 and so on, each used once and in this order."""

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Execute a query and return its rows."""

    def commit(self) -> None:
        """Commit the transaction."""

    def rollback(self) -> None:
        """Roll the transaction back, if there is one."""

    def close(self) -> None:
        """Close the connection."""

    def columns(self) -> list[Column] | None:
        """Return the columns of the table; None if there is no such table."""

    def unique_keys(self) -> list[frozenset[str]]:
        """Return the sets of columns that a primary key or a unique index of the table has."""

    @property
    def lock_clause(self) -> str:
        """What a query ends with so that no other transaction can lock its rows; empty if `begin` has locked all."""

    def load(self, staged: Sequence[Staged], target: Target) -> str:
        """Make staged rows readable in this transaction; return what stands after FROM in order to read them."""

    def staged_names(self) -> list[str]:
        """Return the names of everything that is staged for tables beside this one."""

    def drop_staged(self, names: Sequence[str]) -> None:
        """Drop staged rows that no task is writing at the moment; called in the transaction."""

    def told(self, stage: str) -> AbstractContextManager[None]:
        """Explain errors of the database: name the stage, the table and the setting."""


class Database(Protocol):
    """What each of the three modules provides."""

    def connect(self, options: DatabaseOptions) -> Session:
        """Connect, with a deadline."""

    def stage(self, options: DatabaseOptions, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
        """Stage the rows of a task under a name; return their number. Without rows, nothing is staged."""
