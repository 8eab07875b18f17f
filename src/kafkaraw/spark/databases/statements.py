"""The SQL that all three databases understand. Pure.

Start at `insert` and `upsert`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkaraw.spark.databases.columns import Column, Dialect, Target

BATCHES: Final = "kafkaraw_batches"
LATEST: Final = "kafkaraw_latest"
"""A temporary table: the newest row of each key within a batch."""

_PLACE: Final = "kafkaraw_place"
_SAME: Final = "kafkaraw_same"


def quoted(name: str) -> str:
    """Return an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def qualified(table: str) -> str:
    """Return a table, with its schema if it has one, in quotes."""
    return ".".join(quoted(part) for part in table.split("."))


def beside(table: str, name: str) -> str:
    """Return another table of the same schema, in quotes."""
    schema, dot, _ = table.rpartition(".")
    return qualified(schema + dot + name) if dot else quoted(name)


def create_table(table: str, columns: Sequence[Column], key: Sequence[str]) -> str:
    """Create a table; the key is its primary key."""
    parts = [f"{quoted(column.name)} {column.type}" for column in columns]
    parts += [f"PRIMARY KEY ({_names(key)})"] if key else []
    return f"CREATE TABLE IF NOT EXISTS {qualified(table)} ({', '.join(parts)})"


def add_column(table: str, column: Column) -> str:
    """Add a column that takes nulls."""
    return f"ALTER TABLE {qualified(table)} ADD COLUMN {quoted(column.name)} {column.type}"


def create_batches(table: str) -> str:
    """Create the table with the last batch of each query."""
    return (
        f"CREATE TABLE IF NOT EXISTS {beside(table, BATCHES)} (query_id VARCHAR(200) NOT NULL, "
        f"table_name VARCHAR(200) NOT NULL, number BIGINT NOT NULL, rows_count BIGINT, run_number BIGINT, "
        f"PRIMARY KEY (query_id, table_name))"
    )


def insert(target: Target, staged: str, dialect: Dialect) -> str:
    """Insert all staged rows."""
    values = ", ".join(dialect.value(quoted(column.name), column.type) for column in target.stored)
    return f"INSERT INTO {qualified(target.table)} ({_stored(target)}) SELECT {values} FROM {staged}"


def latest(target: Target, staged: str) -> str:
    """Find the newest row of each key, and how many rows of the key are as new."""
    key = _names(target.key)
    order = f" ORDER BY {quoted(target.order_column)} DESC NULLS LAST" if target.order_column else f" ORDER BY {key}"
    return (
        f"CREATE TEMPORARY TABLE {LATEST} AS SELECT * FROM (SELECT *, "
        f"row_number() OVER (PARTITION BY {key}{order}) AS {_PLACE}, "
        f"rank() OVER (PARTITION BY {key}{order}) AS {_SAME} FROM {staged}) AS ranked WHERE {_SAME} = 1"
    )


def ambiguous_key(target: Target) -> str:
    """Return a key of which two rows are equally new."""
    return f"SELECT {_names(target.key)} FROM {LATEST} WHERE {_PLACE} = 2 LIMIT 1"


def null_key(target: Target) -> str:
    """Return a key with a null."""
    some = " OR ".join(f"{quoted(name)} IS NULL" for name in target.key)
    return f"SELECT {_names(target.key)} FROM {LATEST} WHERE {some} LIMIT 1"


def delete(target: Target) -> str:
    """Delete the rows whose newest row says so."""
    assert target.delete_column is not None
    table = qualified(target.table)
    same = " AND ".join(f"{LATEST}.{quoted(name)} = {table}.{quoted(name)}" for name in target.key)
    newer = ""
    if target.stores_order and target.order_column is not None:
        order = quoted(target.order_column)
        newer = f" AND ({table}.{order} IS NULL OR {table}.{order} <= {LATEST}.{order})"
    return (
        f"DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM {LATEST} WHERE {same} AND "
        f"{LATEST}.{quoted(target.delete_column)}{newer})"
    )


def upsert(target: Target, dialect: Dialect) -> str:
    """Insert the newest row of each key, or update the table's row if that is not newer."""
    deleted = quoted(target.delete_column or "")
    kept = f"({deleted} IS NULL OR NOT {deleted})"
    source = f"{LATEST} WHERE {kept if target.delete_column else 'true'}"
    changed = [column.name for column in target.stored if column.name not in target.key]
    conflict = f" ON CONFLICT ({_names(target.key)}) DO "
    if not changed:
        return insert(target, source, dialect) + conflict + "NOTHING"
    sets = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in changed)
    newer = ""
    if target.stores_order and target.order_column is not None:
        old = f"{quoted(target.table.rpartition('.')[2])}.{quoted(target.order_column)}"
        newer = f" WHERE {old} IS NULL OR {old} <= excluded.{quoted(target.order_column)}"
    return insert(target, source, dialect) + conflict + f"UPDATE SET {sets}{newer}"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in columns)


def _stored(target: Target) -> str:
    return _names([column.name for column in target.stored])
