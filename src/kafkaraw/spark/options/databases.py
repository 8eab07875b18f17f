"""The options of formats "kafkaraw.postgresql", "kafkaraw.sqlite" and "kafkaraw.duckdb", checked when rows are written.

Every option is declared once, in `_COMMON`, `_POSTGRESQL` or `_FILE`. Start at `parse_postgresql`.
Must not import pyspark, and must not open a database. No message and no `repr` shows a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kafkaraw.errors import ConfigError
from kafkaraw.spark.options import texts
from kafkaraw.spark.options.lake import BATCH_OPTION, KnownOptions, OnChangedBatch, SaveMode, read_options

# A password may contain a slash that should be percent-encoded. Other secrets are sslpassword and oauth_client_secret.
_PASSWORD_IN_URL: Final = re.compile(r"://[^/@?]*:[^@?]*@|(?:^|[?&\s])\w*(?:password|secret)\s*=", re.IGNORECASE)
_URL: Final = re.compile(r"postgres(ql)?://|\w+\s*=", re.IGNORECASE)


@dataclass(frozen=True)
class DatabaseOptions:
    """Checked options of one write.

    Attributes:
        database: the URL or connection string of a PostgreSQL server, or the path of a file; without a password.
        table: the table; with its schema in front, or without.
        password: of the user; empty if libpq finds it elsewhere.
        key: columns that identify a row; empty if rows are only inserted.
        order_column: the row of a key with the highest value is the newest; None if no key comes twice.
        delete_column: true in rows that delete the row of their key.
        merge_schema: whether columns that the table lacks are added.
        save_mode: of a batch write; None if not given.
        on_changed_batch: what happens to a micro-batch whose number is in the database, with other rows.
        batch: for `foreachBatch`: the writer's query and the micro-batch.
    """

    database: str = ""
    table: str = ""
    password: str = field(default="", repr=False)
    key: tuple[str, ...] = ()
    order_column: str | None = None
    delete_column: str | None = None
    merge_schema: bool = False
    save_mode: SaveMode | None = None
    on_changed_batch: OnChangedBatch = OnChangedBatch.FAIL
    batch: tuple[str, int] | None = None


def _url(name: str, text: str) -> str:
    """A URL or connection string of libpq, without a password; messages do not repeat it, since it may have one."""
    if _PASSWORD_IN_URL.search(text):
        raise ConfigError(
            f"{name} contains a password, which programs would show: leave it out of {name}, and set the option "
            f"password, or PGPASSWORD or PGPASSFILE in the environment of driver and executors"
        )
    if not _URL.match(text.strip()):
        raise ConfigError(f'{name} is no URL of PostgreSQL: give one such as "postgresql://localhost/shop"')
    return text.strip()


def _path(name: str, text: str) -> str:
    path = texts.name_of(name, text).removeprefix("file://")
    if path == ":memory:" or "://" in path:
        raise ConfigError(f"{name}={text!r}: must be a file in a folder that driver and executors share")
    return path


_COMMON: Final[KnownOptions] = {
    "table": ("table", texts.name_of),
    "key": ("key", texts.columns),
    "orderColumn": ("order_column", texts.name_of),
    "deleteColumn": ("delete_column", texts.name_of),
    "mergeSchema": ("merge_schema", texts.boolean),
    "saveMode": ("save_mode", texts.one_of(SaveMode)),
    "onChangedBatch": ("on_changed_batch", texts.one_of(OnChangedBatch)),
    BATCH_OPTION: ("batch", texts.named_batch),
}
_POSTGRESQL: Final[KnownOptions] = {
    "url": ("database", _url),
    "password": ("password", lambda _, text: text),
    **_COMMON,
}
_FILE: Final[KnownOptions] = {"path": ("database", _path), **_COMMON}

DESCRIPTIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    "url": ("postgresql", "", "The server and the database, `postgresql://user@host/database`, without a password."),
    "password": ("postgresql", "", "The user's password, if neither `PGPASSWORD` nor `PGPASSFILE` has it."),
    "path": ("sqlite, duckdb", "", "The database's file, in a folder that driver and executors share."),
    "table": ("all", "", "The table, `table` or `schema.table`. It is created if it does not exist."),
    "key": ("all", "", "Columns that identify a row, `a,b`: rows are upserted. Without it they are inserted."),
    "orderColumn": ("all", "", "The row of a key with the highest value in this column is the newest, and wins."),
    "deleteColumn": ("all", "", "A boolean column: true deletes the row of the key. It is not stored."),
    "mergeSchema": ("all", "false", "Add columns that the table lacks."),
    "saveMode": (
        "all",
        "append",
        "Batch writes to a table that has rows: `append`, `overwrite`, `errorifexists` or `ignore`.",
    ),
    "onChangedBatch": (
        "all",
        "fail",
        "A micro-batch whose number is in the database already, with another number of rows: `fail` or `skip` it.",
    ),
}
"""For the reference: for which formats, the default, and the meaning."""


def parse_postgresql(options: Mapping[str, str]) -> DatabaseOptions:
    """Check the options of a write to PostgreSQL; names in upper or lower case.

    Raises:
        ConfigError: an option is unknown, missing or has an invalid value.
    """
    return _parsed("kafkaraw.postgresql", options, _POSTGRESQL, "url", parts_max=2)


def parse_sqlite(options: Mapping[str, str]) -> DatabaseOptions:
    """Check the options of a write to SQLite; as `parse_postgresql`."""
    return _parsed("kafkaraw.sqlite", options, _FILE, "path", parts_max=1)


def parse_duckdb(options: Mapping[str, str]) -> DatabaseOptions:
    """Check the options of a write to DuckDB; as `parse_postgresql`."""
    return _parsed("kafkaraw.duckdb", options, _FILE, "path", parts_max=2)


def _parsed(
    kind: str, options: Mapping[str, str], known: KnownOptions, database: str, *, parts_max: int
) -> DatabaseOptions:
    values, _ = read_options(kind, options, known)
    for name, attribute in ((database, "database"), ("table", "table")):
        if attribute not in values:
            raise ConfigError(f"format {kind}: the option {name} is missing")
    parsed = replace(DatabaseOptions(), **values)  # type: ignore[arg-type]  # the table pairs field and type
    parts = parsed.table.split(".")
    if not all(parts) or len(parts) > parts_max:
        form = "TABLE or SCHEMA.TABLE" if parts_max > 1 else "TABLE"
        raise ConfigError(f"table={parsed.table!r}: must be {form}")
    for name, column in (("orderColumn", parsed.order_column), ("deleteColumn", parsed.delete_column)):
        if column is not None and not parsed.key:
            raise ConfigError(f"{name}={column!r} needs the option key, which names the columns that identify a row")
        if column in parsed.key:
            raise ConfigError(f"{name}={column!r} is a column of key={','.join(parsed.key)!r}: name another column")
    return parsed
