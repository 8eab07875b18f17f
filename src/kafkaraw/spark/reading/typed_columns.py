"""Columns of records decoded with schemas of a registry: what the driver fixes, and what tasks do.

The driver asks the registry once, when the DataFrame is made, and keeps the reader's schema in the metadata of the
column: the reader gets it with its schema, also after a restart, and the columns of a query never change. Tasks ask
the registry only for the ids that they meet. Must not read records. Start at `typed_schema` and `TypedColumns`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.client.blocking.producer import Producer
from kafkaraw.client.config import ProducerConfig
from kafkaraw.errors import ConfigError, DeserializationError, UsageError
from kafkaraw.schemas.arrow.columns import Column, Type
from kafkaraw.schemas.arrow.decode import FORMATS, ColumnDecoder, Decoded
from kafkaraw.schemas.arrow.plans import Texts, columns_for
from kafkaraw.schemas.blocking import Registry
from kafkaraw.schemas.model import Schema
from kafkaraw.spark.options.client import Settings, settings_for, typed_settings
from kafkaraw.spark.options.parsing import SparkOptions
from kafkaraw.spark.options.schemas import (
    ERROR_SUFFIX,
    LATEST,
    RAW_SUFFIX,
    ColumnSchema,
    DecodeErrors,
    RegistrySettings,
    SchemaOptions,
)
from kafkaraw.spark.worker import ClientPool

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

    from kafkaraw.ranges.rows import Counts

METADATA: Final = "kafkaraw.reader.schema"
_PREFIX: Final = "kafkaraw.error."


@dataclass(frozen=True)
class TypedColumn:
    """A column with the schema that its values are resolved to.

    Attributes:
        name: "key" or "value".
        format: its format.
        reader: the texts of the schema.
    """

    name: str
    format: str
    reader: Texts

    def to_metadata(self) -> dict[str, Any]:
        """Return what the column carries in Spark's schema."""
        return {METADATA: json.dumps(self.reader.to_json())}


@dataclass(frozen=True)
class Decoding:
    """What tasks need to decode; pickled to the workers.

    Attributes:
        columns: the columns to decode.
        registry: settings of the registry's client, as text.
        errors: what happens to records that cannot be decoded.
        recursion_max: how often a record may contain itself.
        dead_letter_topic: topic for records that cannot be decoded, if `errors` says so.
        producer: settings of the producer for it, as text.
        ignore_rules: decode records whose schemas have rules without running these.
        include_raw: keep the bytes of the columns beside what they are decoded into.
    """

    columns: tuple[TypedColumn, ...]
    registry: RegistrySettings
    errors: DecodeErrors
    recursion_max: int
    dead_letter_topic: str | None
    producer: Settings
    ignore_rules: bool = False
    include_raw: bool = False


# -- the driver


def resolved_columns(schemas: SchemaOptions, topics: Sequence[str]) -> tuple[TypedColumn, ...]:
    """Return the columns with the schemas that the registry has now.

    Args:
        schemas: the options.
        topics: the topics that are read by name.

    Raises:
        ConfigError: no subject is given, and there is not exactly one topic.
        RegistryError: the registry has no such schema, or cannot be asked.
    """
    with Registry.from_config(schemas.registry) as registry:
        return tuple(TypedColumn(each.name, each.format, _reader(registry, each, topics)) for each in schemas.columns)


def _reader(registry: Registry, column: ColumnSchema, topics: Sequence[str]) -> Texts:
    if column.text is not None:
        return Texts.of(registry.bundle(Schema(column.text, FORMATS[column.format])), column.message)
    subject = column.subject
    if subject is None:
        if len(topics) != 1:
            raise ConfigError(
                f"{column.name}.format: several topics are read, so give {column.name}.schema.subject (the subject of "
                f"the schema of the rows), or {column.name}.schema (the schema itself)"
            )
        subject = f"{topics[0]}-{column.name}"
    found = registry.version(subject, column.version or LATEST)
    if found.schema.schema_type is not FORMATS[column.format]:
        raise ConfigError(
            f"{column.name}.format={column.format}: subject {subject!r} has a schema of the language "
            f"{found.schema.schema_type.value}"
        )
    return Texts.of(registry.bundle(found.schema, subject=subject), column.message)


def typed_schema(schema: StructType, schemas: SchemaOptions, topics: Sequence[str]) -> StructType:
    """Return the source's schema with typed columns, and columns for reasons if the options ask for them."""
    from pyspark.sql import types

    typed = {each.name: each for each in resolved_columns(schemas, topics)}
    fields = []
    for field in schema.fields:
        column = typed.get(field.name)
        if column is None:
            fields.append(field)
        else:
            kind = spark_type(columns_for(column.reader, schemas.recursion_max))
            fields.append(types.StructField(field.name, kind, nullable=True, metadata=column.to_metadata()))
    if schemas.errors is DecodeErrors.COLUMN:
        fields += [types.StructField(f"{name}{ERROR_SUFFIX}", types.StringType()) for name in typed]
    if schemas.include_raw:
        fields += [types.StructField(f"{name}{RAW_SUFFIX}", types.BinaryType()) for name in typed]
    return types.StructType(fields)


def decoding_for(options: SparkOptions, schema: StructType) -> Decoding | None:
    """Return what tasks need to decode the columns of a reader's schema; None if no column is typed.

    The reader's schema is in the metadata of its columns. If it is not, because the user wrote the schema, the registry
    is asked.

    Raises:
        ConfigError: the user's schema has another type than the registry's.
        RegistryError: as for `resolved_columns`.
    """
    schemas = options.schemas
    if schemas is None:
        return None
    names = {field.name: field for field in schema.fields}
    chosen = [each for each in schemas.columns if not names.keys().isdisjoint(_derived(each.name))]
    kept = {each.name: _kept(names[each.name].metadata) if each.name in names else None for each in chosen}
    missing = tuple(each for each in chosen if kept[each.name] is None)
    asked: dict[str, TypedColumn] = {}
    if missing:
        asked = {each.name: each for each in resolved_columns(replace(schemas, columns=missing), options.topics)}
    columns = tuple(TypedColumn(each.name, each.format, kept[each.name] or asked[each.name].reader) for each in chosen)
    for column in columns:
        if column.name in names:
            _check_type(column, names[column.name].dataType, schemas.recursion_max)
    producer = {"client_id": "kafkaraw-spark"} | settings_for(ProducerConfig, options.client)
    topic = options.dead_letter_topic if schemas.errors is DecodeErrors.DEAD_LETTER else None
    return Decoding(
        columns,
        schemas.registry,
        schemas.errors,
        schemas.recursion_max,
        topic,
        producer,
        schemas.ignore_rules,
        schemas.include_raw,
    )


def _derived(name: str) -> tuple[str, ...]:
    """Return the columns that come from decoding a column."""
    return name, f"{name}{ERROR_SUFFIX}", f"{name}{RAW_SUFFIX}"


def _kept(metadata: Mapping[str, Any] | None) -> Texts | None:
    text = (metadata or {}).get(METADATA)
    if text is None:
        return None
    return Texts.from_json(json.loads(text))


def _check_type(column: TypedColumn, given: DataType, recursion_max: int) -> None:
    expected = spark_type(columns_for(column.reader, recursion_max)).simpleString()
    if given.simpleString() != expected:
        raise ConfigError(
            f"schema(): the column {column.name} is {expected} in its schema, not {given.simpleString()}; leave "
            f"schema() out, or give {column.name}.schema, the schema that you want to read"
        )


def spark_type(column: Column) -> DataType:
    """Return Spark's type of a column, as from_avro returns it."""
    from pyspark.sql import types

    match column.type:
        case Type.STRUCT:
            return types.StructType(
                [types.StructField(each.name, spark_type(each), each.nullable) for each in column.children]
            )
        case Type.LIST:
            element = column.children[0]
            return types.ArrayType(spark_type(element), element.nullable)
        case Type.MAP:
            key, value = column.children[0].children
            return types.MapType(spark_type(key), spark_type(value), value.nullable)
        case Type.DECIMAL:
            return types.DecimalType(column.precision, column.scale)
    plain: dict[Type, DataType] = {
        Type.NULL: types.NullType(),
        Type.BOOLEAN: types.BooleanType(),
        Type.INT32: types.IntegerType(),
        Type.INT64: types.LongType(),
        Type.FLOAT32: types.FloatType(),
        Type.FLOAT64: types.DoubleType(),
        Type.STRING: types.StringType(),
        Type.BINARY: types.BinaryType(),
        Type.DATE: types.DateType(),
        Type.TIMESTAMP_UTC: types.TimestampType(),
        Type.TIMESTAMP_LOCAL: types.TimestampNTZType(),
        Type.DURATION: types.DayTimeIntervalType(),
    }
    return plain[column.type]


# -- tasks


def _make_registry(settings: Settings) -> Registry:
    return Registry.from_config(settings)


def _make_producer(settings: Settings) -> Producer:
    return Producer(runtime=None, **typed_settings(ProducerConfig, settings))


registries: Final[ClientPool[Registry]] = ClientPool(_make_registry)
"""Kept in this process between tasks, with the schemas that they have fetched."""
_producers: Final[ClientPool[Producer]] = ClientPool(_make_producer, settle=Producer.flush)


class TypedColumns:
    """Decodes the columns of batches.

    Args:
        decoding: what the driver has fixed.
        registry: the registry.
    """

    def __init__(self, decoding: Decoding, registry: Registry) -> None:
        self._decoding = decoding
        self._decoders = {
            each.name: ColumnDecoder(
                registry,
                each.format,
                each.reader,
                each.name,
                decoding.recursion_max,
                ignore_rules=decoding.ignore_rules,
            )
            for each in decoding.columns
        }

    @property
    def wanted(self) -> frozenset[str]:
        """Columns of `kafkaraw.records.Columns` that decoding needs: headers may have the ids of schemas."""
        needed = {*self._decoders, "offset", "headers"}
        return frozenset(needed | {"key", "value", "timestamp"} if self._decoding.dead_letter_topic else needed)

    def decode(self, raw: Mapping[str, pa.Array], counts: Counts) -> tuple[dict[str, pa.Array], list[int]]:
        """Return the columns with those that are typed, and the rows that are left out.

        Args:
            raw: the columns as bytes.
            counts: where the rows come from.

        Raises:
            DeserializationError: a record cannot be decoded, and the options want an error.
        """
        arrays, bad = dict(raw), dict[int, str]()
        for name, decoder in self._decoders.items():
            decoded = decoder.decode(raw[name], raw["headers"])
            arrays[name] = decoded.array
            if self._decoding.include_raw:
                arrays[f"{name}{RAW_SUFFIX}"] = raw[name]
            match self._decoding.errors:
                case DecodeErrors.COLUMN:
                    arrays[f"{name}{ERROR_SUFFIX}"] = decoded.reasons_array()
                case DecodeErrors.FAIL if decoded.reasons:
                    raise _error(name, decoded, raw["offset"], counts)
                case DecodeErrors.DEAD_LETTER:
                    bad |= {row: f"{name}: {reason}" for row, reason in decoded.reasons.items() if row not in bad}
        if bad:
            self._send(raw, bad, counts)
        return arrays, sorted(bad)

    def _send(self, raw: Mapping[str, pa.Array], bad: Mapping[int, str], counts: Counts) -> None:
        """Send records to the dead-letter topic, and wait for the acknowledgements: their rows are left out then."""
        to = self._decoding.dead_letter_topic
        if to is None:
            raise UsageError("decodeErrors=deadLetter without deadLetterTopic")
        places = [(topic, partition) for topic, partition, rows in counts for _ in range(rows)]
        with _producers.borrow(self._decoding.producer) as producer:
            for row, reason in bad.items():
                headers = [(each["key"], each["value"]) for each in raw["headers"][row].as_py() or ()]
                timestamp = raw["timestamp"][row]
                milliseconds = timestamp.value // 1000 if timestamp.is_valid else -1
                producer.send(
                    to,
                    raw["value"][row].as_py(),
                    raw["key"][row].as_py(),
                    headers=[*_described(reason, places[row], raw["offset"][row].as_py()), *headers],
                    timestamp_ms=milliseconds if milliseconds >= 0 else None,  # -1: the record has none
                )
            producer.flush()


def _error(name: str, decoded: Decoded, offsets: pa.Array, counts: Counts) -> DeserializationError:
    row = min(decoded.reasons)
    ends = accumulate(rows for _, _, rows in counts)
    topic, partition, _ = next(place for place, end in zip(counts, ends, strict=True) if row < end)
    offset = offsets[row].as_py()
    return DeserializationError(
        f"{name} of {topic}-{partition} at offset {offset}: {decoded.reasons[row]}. To go on without such records, "
        "set the option decodeErrors to column or deadLetter",
        topic=topic,
        partition=partition,
        offset=offset,
    )


def _described(reason: str, place: tuple[str, int], offset: int) -> list[tuple[str, bytes]]:
    topic, partition = place
    said = {"topic": topic, "partition": partition, "offset": offset, "message": reason}
    return [(f"{_PREFIX}{name}", str(value).encode()) for name, value in said.items()]
