"""Kafka's columns as Spark's types.

`FIELDS` is the schema, the same as that of Spark's own connector. A reader's schema may be a selection of it: only
those columns are decoded. Must not decode anything: `kafkaraw.ranges.rows` does. Start at `check_selection`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_HEADERS = "headers"

# Column -> Spark type, in Spark's own spelling.
FIELDS: dict[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    _HEADERS: "array<struct<key:string,value:binary>>",
}

# Spark type that a schema may choose for a column instead.
_OTHER_FORMS = {_HEADERS: "map<string,binary>"}

# Columns that are absent or null in some of Kafka's records.
_NULLABLE = frozenset({"key", "value", _HEADERS})


def schema_text(*, include_headers: bool) -> str:
    """Return the source's full schema with Spark's types."""
    return ", ".join(f"{name} {kind}" for name, kind in FIELDS.items() if name != _HEADERS or include_headers)


def spark_schema(*, include_headers: bool) -> StructType:
    """Return the schema in Spark's own form, made without a session: processes that plan a query have none."""
    from pyspark.sql import types

    header = types.StructType(
        [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
    )
    kinds = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
        FIELDS[_HEADERS]: types.ArrayType(header),
    }
    names = [name for name in FIELDS if name != _HEADERS or include_headers]
    return types.StructType([types.StructField(name, kinds[FIELDS[name]]) for name in names])


def check_selection(schema: StructType, typed: frozenset[str] = frozenset()) -> None:
    """Check a schema with which the user chooses columns.

    Args:
        schema: the columns.
        typed: names of columns whose types depend on schemas of a registry; they are checked elsewhere.

    Raises:
        ConfigError: it has no column, one that Kafka does not have, or one of another type.
    """
    if not schema.fields:
        # Arrow batches without columns have no rows, and Spark would count none.
        raise ConfigError("schema() chooses no column; to count records, choose `partition int`, which costs least")
    for column in schema.fields:
        if column.name in typed:
            continue
        _check_column(column.name, column.dataType.simpleString(), column.nullable)


def _check_column(name: str, given: str, nullable: bool) -> None:
    expected = FIELDS.get(name)
    if expected is None:
        raise ConfigError(
            f"schema(): there is no column {name!r}; choose from {', '.join(FIELDS)} "
            "(values are bytes: parse them after load(), for example with from_json)"
        )
    if given not in (expected, _OTHER_FORMS.get(name)):
        other = f" or {_OTHER_FORMS[name]}" if name in _OTHER_FORMS else ""
        raise ConfigError(f"schema(): the column {name} is {expected}{other}, not {given}; convert it after load()")
    if name in _NULLABLE and not nullable:
        # Spark would rely on the schema and fail at the first null, with a NullPointerException.
        raise ConfigError(f"schema(): the column {name} is null in some records: leave out NOT NULL")
