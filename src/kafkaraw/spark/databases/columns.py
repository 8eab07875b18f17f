"""Which rows fit into a table of a database: its columns compared with those of a DataFrame. Pure.

Each database says which of its types hold the values of an Arrow type without loss (`Dialect`). Start at `compare`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.types as kinds

from kafkaraw.spark.errors import TableSchemaError
from kafkaraw.spark.lake.schemas import described

if TYPE_CHECKING:
    from kafkaraw.spark.options.databases import DatabaseOptions


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: as the database has it.
        type: as the database writes it.
        required: whether it takes no null and has no default.
    """

    name: str
    type: str
    required: bool = False


class Dialect(Protocol):
    """What distinguishes the types of a database."""

    @property
    def name(self) -> str:
        """The database as messages name it."""

    def type_of(self, kind: pa.DataType) -> str | None:
        """Return the type of a new column for these values; None if the database has none."""

    def accepts(self, kind: pa.DataType, declared: str) -> bool:
        """Return whether a column of this type stores each value without loss."""

    def value(self, column: str, declared: str) -> str:
        """Return the expression that converts a quoted, staged column to the type of the table's column."""


def array_type(kind: pa.DataType, type_of: Callable[[pa.DataType], str | None]) -> str | None:
    """Return the type of a column of arrays, as PostgreSQL and DuckDB write it; None if its elements have none."""
    element = None if kinds.is_nested(kind.value_type) else type_of(kind.value_type)
    return element and f"{element}[]"


def decimals_fit(kind: pa.Decimal128Type, precision: int, scale: int) -> bool:
    """Return whether a column of this precision and scale stores each decimal of a type."""
    return bool(kind.scale <= scale and kind.precision - kind.scale <= precision - scale)


@dataclass(frozen=True)
class Target:
    """How rows go into a table.

    Attributes:
        table: as the option names it.
        stored: the columns of the table that get values, in the order of the rows.
        key: see `DatabaseOptions`.
        order_column: the same.
        delete_column: the same.
        stores_order: whether the table has the column, too.
    """

    table: str
    stored: tuple[Column, ...]
    key: tuple[str, ...] = ()
    order_column: str | None = None
    delete_column: str | None = None
    stores_order: bool = False


def check_options(options: DatabaseOptions, rows: pa.Schema) -> None:
    """Check that the rows have the columns that the options name.

    Raises:
        TableSchemaError: a column is missing, comes twice, or is not boolean.
    """
    names = [("key", name) for name in options.key]
    names += [("orderColumn", options.order_column)] if options.order_column else []
    names += [("deleteColumn", options.delete_column)] if options.delete_column else []
    for option, name in names:
        if name not in rows.names:
            raise TableSchemaError(f"{option}={name!r}: the rows do not have it; they have {', '.join(rows.names)}")
    if options.delete_column and not kinds.is_boolean(rows.field(options.delete_column).type):
        kind = described(rows.field(options.delete_column).type)
        raise TableSchemaError(f"deleteColumn={options.delete_column!r} has type {kind}: it must be boolean")
    lower = [name.lower() for name in rows.names]
    for name in rows.names:
        if lower.count(name.lower()) > 1:
            raise TableSchemaError(f"column {name!r} comes twice in the rows, or in upper and lower case: rename one")


def new_columns(table: str, rows: Sequence[pa.Field], dialect: Dialect) -> list[Column]:
    """Return columns for a new table.

    Raises:
        TableSchemaError: the database has no type for a column.
    """
    found = []
    for field in rows:
        declared = dialect.type_of(field.type)
        if declared is None:
            raise TableSchemaError(
                f"{table}: {dialect.name} has no type for column {field.name!r} ({described(field.type)}): "
                f"select its fields, or write to_json({field.name})"
            )
        found.append(Column(field.name, declared))
    return found


def compare(
    options: DatabaseOptions, known: Sequence[Column], rows: pa.Schema, dialect: Dialect
) -> tuple[Target, list[Column]]:
    """Compare a table with rows that are to be written.

    Returns:
        How the rows go into the table, and the columns that it lacks, which have to be added first.

    Raises:
        TableSchemaError: the rows do not fit.
    """
    by_lower = {column.name.lower(): column for column in known}
    stored: list[Column] = []
    missing: list[Column] = []
    for field in rows:
        if field.name == options.delete_column:
            continue
        column = by_lower.get(field.name.lower())
        if column is not None:
            _check(options.table, column, field, dialect)
        elif field.name == options.order_column and not options.merge_schema:
            continue
        else:
            column = new_columns(options.table, [field], dialect)[0]
            missing.append(column)
        stored.append(column)
    if missing and not options.merge_schema:
        named = ", ".join(f"{column.name!r} ({column.type})" for column in missing)
        raise TableSchemaError(
            f"{options.table}: the table does not have all columns of the rows: {named}. Set the option mergeSchema to "
            f"true to add them, or select the columns of the table: {', '.join(column.name for column in known)}"
        )
    given = {column.name for column in stored}
    for column in known:
        if column.required and column.name not in given:
            raise TableSchemaError(
                f"{options.table}: column {column.name!r} ({column.type}) takes no null and has no default, and the "
                f"rows have no such column: add it to the rows"
            )
    stores_order = options.order_column in given
    target = Target(
        options.table, tuple(stored), options.key, options.order_column, options.delete_column, stores_order
    )
    return target, missing


def _check(table: str, column: Column, field: pa.Field, dialect: Dialect) -> None:
    if column.name != field.name:
        raise TableSchemaError(
            f"{table}: the rows have a column {field.name!r}, the table has {column.name!r}; names that differ in case "
            f"only are refused, since engines disagree about them: rename the column of the rows"
        )
    if not dialect.accepts(field.type, column.type):
        raise TableSchemaError(
            f"{table}: column {column.name!r} has type {column.type} in the table and {described(field.type)} in the "
            f"rows, whose values do not all fit: cast the column of the rows, or write it under another name"
        )
