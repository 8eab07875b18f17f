"""Options of a table in Spark's catalog: `CREATE TABLE flights USING kafkaraw OPTIONS (...)`.

Spark passes these options to the source once, when it creates the table and asks for its columns. At least up to Spark
4.3 it passes them to no query of the table (`PythonDataSourceV2.getTable` drops them). Spark keeps only the schema that
the source returns, and passes it to every reader with the metadata of its columns. So the schema of a table carries
the options, in the metadata of `COLUMN`. Pure.

Metadata follows a column into every DataFrame and Parquet file made of it. Therefore

- a table must not keep secrets: they are refused, and each query must set them;
- a query that names brokers or log directories itself uses no option of the table (the schema may be that of another
  table);
- a writer uses none: the metadata of its rows is that of the table they were read from.

Start at `given` and `completed`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError
from kafkaraw.spark.options.client import BOOTSTRAP
from kafkaraw.spark.options.unsupported import LOG_DIRS, OF_TABLES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMN: Final = "timestampType"
"""The column that carries the options of a table: the one that queries select most rarely."""

_METADATA: Final = "kafkaraw.table.options"
_PREFIX: Final = "option."
_PROVIDER: Final = "provider"
# Names of options that are secrets, and parts of the text of options that contain one, such as kafka.sasl.jaas.config.
_SECRET: Final = re.compile(r"password|secret|keystore\.key$|private key|user\.info|://[^/\s]*@", re.IGNORECASE)


def given(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that a user has written, without those that Spark adds.

    For `CREATE TABLE`, Spark passes the table's properties, and each option twice: bare, and with a prefix that
    distinguishes it from the properties.
    """
    prefixed = {name[len(_PREFIX) :]: text for name, text in options.items() if name.lower().startswith(_PREFIX)}
    if prefixed:
        return prefixed
    return {name: text for name, text in options.items() if name.lower() not in OF_TABLES}


def is_definition(options: Mapping[str, str]) -> bool:
    """Return whether these are the options of `CREATE TABLE`, as opposed to those of a query."""
    return _PROVIDER in {name.lower() for name in options}


def names_source(options: Mapping[str, str]) -> bool:
    """Return whether `kafka.bootstrap.servers` or `logDirs` is among the options."""
    return not {BOOTSTRAP, LOG_DIRS.lower()}.isdisjoint(name.lower() for name in options)


def check_writer(options: Mapping[str, str]) -> None:
    """Check that a writer has options of its own.

    Raises:
        ConfigError: an option names log directories, or none names a broker, as with a bare `INSERT INTO` a table.
    """
    names = {name.lower() for name in options}
    if LOG_DIRS.lower() in names:
        raise ConfigError(f"{LOG_DIRS} is for reading: files of a log are never written; name brokers with {BOOTSTRAP}")
    if BOOTSTRAP not in names:
        raise ConfigError(
            f"the option {BOOTSTRAP} is missing: a write does not use the options of a table; write INSERT INTO "
            f"flights WITH (`{BOOTSTRAP}` = 'host:port', topic = 'flights') ..., or option({BOOTSTRAP!r}, ...)"
        )


def check_kept(options: Mapping[str, str]) -> None:
    """Check that the options of a table have no secret, as Spark stores them in the catalog and shows them.

    Raises:
        ConfigError: an option contains a secret.
    """
    secrets = sorted(name for name, text in options.items() if _SECRET.search(name) or _SECRET.search(text))
    if secrets:
        raise ConfigError(
            f"a table keeps no secrets: leave {', '.join(secrets)} out of OPTIONS, and give them with each query, "
            f"as in SELECT * FROM flights WITH (`{secrets[0]}` = '...')"
        )


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema of a table that has these options."""
    schema[COLUMN].metadata = {_METADATA: dict(options)}
    return schema


def completed(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a query, with those of the table that it reads, if it reads one.

    Args:
        options: the options of the query; each overrides the table's option of the same name.
        schema: the schema that Spark requests from the reader.
    """
    if names_source(options):
        return dict(options)
    kept = {name: text for column in schema.fields for name, text in (column.metadata or {}).get(_METADATA, {}).items()}
    of_query = {name.lower() for name in options}
    return {name: text for name, text in kept.items() if name.lower() not in of_query} | dict(options)
