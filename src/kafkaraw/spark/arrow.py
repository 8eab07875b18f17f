"""Kafka's columns as Spark and Arrow types, and batches of them.

`FIELDS` is the schema, the same as that of Spark's own connector. A reader's schema may be a selection of it: only
those columns are decoded. Must not fetch anything. Start at `select` and `BatchAssembler`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkaraw.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa
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

# Column -> its name in kafkaraw.records.Columns, for those that differ from record to record.
_DECODED = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    _HEADERS: "headers",
}

_CONSTANT_ROWS_MIN = 16_384


def schema_text(*, include_headers: bool) -> str:
    """The source's full schema as Spark reads it."""
    return ", ".join(f"{name} {kind}" for name, kind in FIELDS.items() if name != _HEADERS or include_headers)


def check_selection(schema: StructType) -> None:
    """Check a schema that the user gave to choose columns.

    Raises:
        ConfigError: a column that Kafka does not have, or one of another type.
    """
    for column in schema.fields:
        expected = FIELDS.get(column.name)
        if expected is None:
            raise ConfigError(
                f"schema(): there is no column {column.name!r}; choose from {', '.join(FIELDS)} "
                "(values are bytes: parse them after load(), for example with from_json)"
            )
        if column.dataType.simpleString() != expected:
            raise ConfigError(
                f"schema(): the column {column.name} is {expected}, not {column.dataType.simpleString()}; "
                "convert it after load()"
            )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches for this schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def decoded_columns(schema: pa.Schema) -> frozenset[str]:
    """Which columns must be decoded for the schema, by the names of `kafkaraw.records.Columns`."""
    return frozenset(_DECODED[name] for name in schema.names if name in _DECODED)


class BatchAssembler:
    """Makes Arrow batches of one partition's decoded columns; topic and partition are built once and shared.

    Args:
        schema: what Spark expects.
        topic: the topic that is read.
        partition: the partition that is read.
    """

    def __init__(self, schema: pa.Schema, topic: str, partition: int) -> None:
        self._schema = schema
        self._values: dict[str, str | int] = {"topic": topic, "partition": partition}
        self._constants: dict[str, pa.Array] = {}

    def assemble(self, decoded: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        """A batch of `rows` rows; `decoded` as `Columns.to_arrow_arrays` gives it."""
        import pyarrow as pa

        arrays = [
            self._constant(column, rows)
            if column.name in self._values
            else _typed(decoded[_DECODED[column.name]], column)
            for column in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _constant(self, column: pa.Field, rows: int) -> pa.Array:
        import pyarrow as pa

        built = self._constants.get(column.name)
        if built is None or len(built) < rows:
            built = pa.repeat(pa.scalar(self._values[column.name], column.type), max(rows, _CONSTANT_ROWS_MIN))
            self._constants[column.name] = built
        return built.slice(0, rows)


def _typed(array: pa.Array, column: pa.Field) -> pa.Array:
    return array if array.type == column.type else array.cast(column.type)
