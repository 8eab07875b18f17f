"""JSON values as a column `json`, decoded while records are read: for pipelines.

The column is a struct of the fields that the option `jsonColumns` names. It is null for values that are not plain (see
`kafkaraw.schemas.arrow.json_objects`), and for those that are no such objects: who reads it decodes the bytes of these
in another way. Must not know why a value is not plain. Start at `JsonValues`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import ConfigError
from kafkaraw.schemas.arrow.json_objects import JsonObjects, nullable
from kafkaraw.spark.arrow_schemas import arrow_schema
from kafkaraw.spark.options.schemas import JSON_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

_FIELDS: Final = "fields"
_UTC: Final = "utc"


@dataclass(frozen=True)
class JsonValues:
    """What tasks need to decode JSON values; pickled to the workers.

    Attributes:
        fields: the fields, as JSON of Spark's struct; those that are not nullable must be present.
        utc: whether a timestamp without a time zone is UTC.
    """

    fields: str
    utc: bool

    @classmethod
    def of(cls, fields: StructType, *, utc: bool) -> JsonValues | None:
        """Return how values with these fields are decoded; None if they cannot be, in this process."""
        from pyspark.errors import PySparkException

        made = cls(fields.json(), utc)
        try:
            return made if _objects(made) is not None else None
        except PySparkException:  # a type that Arrow does not have
            return None

    @classmethod
    def from_text(cls, text: str) -> JsonValues:
        """Return what the option says.

        Raises:
            ConfigError: it was not made by `to_text`.
        """
        try:
            found = json.loads(text)
            return cls(json.dumps(found[_FIELDS]), bool(found[_UTC]))
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f"jsonColumns={text!r}: it is set by pipelines; leave it out") from None

    def to_text(self) -> str:
        """Return the value of the option."""
        return json.dumps({_FIELDS: json.loads(self.fields), _UTC: self.utc})

    def struct(self) -> StructType:
        """Return the fields."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.fields))

    def added_to(self, schema: StructType) -> StructType:
        """Return the schema with the column."""
        from pyspark.sql import types

        return types.StructType([*schema.fields, types.StructField(JSON_COLUMN, _nullable(self.struct()))])

    def decoder(self) -> JsonColumn:
        """Return what decodes batches."""
        return JsonColumn(self)


def _nullable(kind: DataType) -> DataType:
    """Return the type with nullable fields: a value that is not plain has none."""
    from pyspark.sql import types

    if not isinstance(kind, types.StructType):
        return kind
    return types.StructType([types.StructField(each.name, _nullable(each.dataType)) for each in kind.fields])


@lru_cache(8)
def _kind(values: JsonValues) -> pa.StructType:
    from pyspark.sql import types

    return arrow_schema(types.StructType([types.StructField(JSON_COLUMN, values.struct())])).field(0).type


def _objects(values: JsonValues) -> JsonObjects | None:
    return JsonObjects.of(_kind(values), utc=values.utc)


class JsonColumn:
    """Decodes the values of batches: a `Typing` of `arrow.RowCollector`.

    Args:
        values: the fields.
    """

    def __init__(self, values: JsonValues) -> None:
        self._values = values
        self._objects = _objects(values)
        self.wanted: Final = frozenset({"value"})

    def decode(self, raw: Mapping[str, Any], counts: object) -> tuple[dict[str, Any], list[int]]:
        """Return the columns, that of the decoded values among them, and no row to leave out."""
        import pyarrow as pa

        value = raw["value"]
        if self._objects is None:  # without the compiled module in this worker, no value is plain
            return {**raw, JSON_COLUMN: pa.nulls(len(value), nullable(_kind(self._values)))}, []
        return {**raw, JSON_COLUMN: self._objects.decode(value)}, []
