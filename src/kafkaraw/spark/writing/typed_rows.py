"""Columns of rows encoded with schemas of a registry: what the driver registers, and what tasks do.

The driver registers the schemas once, when the writer is made; tasks need no registry. Must not send anything. Start at
`encoding_for` and `encoded`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import ConfigError, SerializationError
from kafkaraw.schemas.arrow.avro_schemas import avro_schema_of
from kafkaraw.schemas.arrow.decode import FORMATS
from kafkaraw.schemas.arrow.encode import ROOT_RECORD, ColumnEncoder, registered
from kafkaraw.schemas.arrow.plans import Texts
from kafkaraw.schemas.arrow.sources import check_rules
from kafkaraw.schemas.blocking import Registry
from kafkaraw.schemas.model import RegisteredSchema
from kafkaraw.spark.options.parsing import SparkOptions
from kafkaraw.spark.options.schemas import ColumnSchema, SchemaOptions

if TYPE_CHECKING:
    import pyarrow as pa

_NO_ID: Final = 0


@dataclass(frozen=True)
class EncodedColumn:
    """A column that is written with a schema.

    Attributes:
        name: "key" or "value".
        format: its format.
        schema_id: the id in front of each record.
        writer: the texts of the schema.
        recursion_max: of Protobuf: how often a message may contain itself.
    """

    name: str
    format: str
    schema_id: int
    writer: Texts
    recursion_max: int = 0

    def encoder(self) -> ColumnEncoder:
        """Return what encodes the column."""
        return ColumnEncoder(self.format, self.schema_id, self.writer, self.name, self.recursion_max)


def encoding_for(options: SparkOptions, types: pa.Schema) -> tuple[EncodedColumn, ...]:
    """Register the schemas of the columns, and return what tasks need to encode them.

    Args:
        options: the options of the write.
        types: the columns of the rows, as Arrow types.

    Raises:
        ConfigError: a column with a format is missing, or its subject is not known.
        UsageError: a column cannot become the type of its schema, or, with exactlyOnce, Avro has no type for it.
        RegistryError: the registry refuses a schema, or cannot be asked.
    """
    schemas = options.schemas
    if schemas is None:
        return ()
    missing = [each.name for each in schemas.columns if each.name not in types.names]
    if missing:
        raise ConfigError(f"{missing[0]}.format: there is no column {missing[0]!r}, only {', '.join(types.names)}")
    if options.exactly_once is not None:
        for each in schemas.columns:  # types that `comparable` cannot encode
            avro_schema_of(_with_lists(types.field(each.name).type), ROOT_RECORD)
    with Registry.from_config(schemas.registry) as registry:
        return tuple(
            _column(registry, each, schemas, options.topic, types.field(each.name).type) for each in schemas.columns
        )


def _column(
    registry: Registry, column: ColumnSchema, schemas: SchemaOptions, topic: str | None, kind: pa.DataType
) -> EncodedColumn:
    subject = column.subject
    if subject is None:
        if topic is None:
            raise ConfigError(
                f"{column.name}.format: the column topic names the topics, so give {column.name}.schema.subject, the "
                "subject of the schema, or the option topic"
            )
        subject = f"{topic}-{column.name}"
    chosen: RegisteredSchema | str | None = column.text
    if column.version is not None:
        chosen = registry.version(subject, column.version)
    register = schemas.auto_register
    found = registered(registry, column.format, subject, chosen, kind, auto_register=register)
    check_rules(found, ignore_rules=schemas.ignore_rules)
    if found.schema.schema_type is not FORMATS[column.format]:
        raise ConfigError(
            f"{column.name}.format={column.format}: subject {subject!r} has a schema of the language "
            f"{found.schema.schema_type.value}"
        )
    texts = Texts.of(registry.bundle(found.schema, subject=subject), column.message)
    encoding = EncodedColumn(column.name, column.format, found.id, texts, schemas.recursion_max)
    encoding.encoder().check(kind)
    return encoding


def encoded(batch: pa.RecordBatch, columns: tuple[EncodedColumn, ...]) -> pa.RecordBatch:
    """Return the rows with framed records in place of the columns with a schema.

    Raises:
        SerializationError: a value does not fit its schema.
    """
    for each in columns:
        batch = _replaced(batch, each.name, each.encoder())
    return batch


@dataclass(frozen=True)
class Unfit:
    """A row that does not fit the schemas of its columns.

    Attributes:
        row: its number in the batch.
        columns: the columns with schemas.
        why: the first error.
    """

    row: int
    columns: tuple[str, ...]
    why: str


def encodable(batch: pa.RecordBatch, columns: tuple[EncodedColumn, ...]) -> tuple[pa.RecordBatch, list[Unfit]]:
    """Return the rows with framed records, without those that do not fit a schema, and these rows.

    They are found by halves: a part that can be encoded as a whole has no such row.
    """
    import pyarrow as pa

    parts, unfit = list[Any](), list[Unfit]()
    waiting = [(0, batch)]
    while waiting:
        first, part = waiting.pop()
        try:
            parts.append(encoded(part, columns))
        except SerializationError as error:
            half = part.num_rows // 2
            if half:  # `take`, since a slice of lists has all their items
                ends = pa.array(range(half)), pa.array(range(half, part.num_rows))
                waiting += [(first + half, part.take(ends[1])), (first, part.take(ends[0]))]
            else:
                why = str(error).replace(" of row 0: ", ": ", 1)
                unfit.append(Unfit(first, tuple(each.name for each in columns), why))
    if not parts:
        parts = [encoded(batch.slice(0, 0), columns)]
    [rows] = pa.Table.from_batches(parts).combine_chunks().to_batches() or [parts[0]]
    return rows, unfit


def comparable(batch: pa.RecordBatch, columns: tuple[EncodedColumn, ...]) -> pa.RecordBatch:
    """Return the rows with bytes that depend only on the values and their types, not on a version of a schema.

    A micro-batch that is repeated after a restart may be written with a newer schema, and still has the same rows.
    """
    for each in columns:
        kind = batch.schema.field(each.name).type
        derived = Texts(FORMATS["avro"], avro_schema_of(_with_lists(kind), ROOT_RECORD))
        batch = _replaced(batch, each.name, ColumnEncoder("avro", _NO_ID, derived, each.name))
    return batch


def _with_lists(kind: pa.DataType) -> pa.DataType:
    """Return the type with lists of entries for the maps that Avro lacks: those whose keys are no strings."""
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_struct(kind):
        return pa.struct([each.with_type(_with_lists(each.type)) for each in kind])
    if t.is_map(kind):
        item = kind.item_field.with_type(_with_lists(kind.item_type))
        if t.is_string(kind.key_type):
            return pa.map_(kind.key_type, item)
        return pa.list_(pa.field("element", pa.struct([kind.key_field, item]), nullable=False))
    if t.is_list(kind):
        return pa.list_(kind.value_field.with_type(_with_lists(kind.value_type)))
    return kind


def _replaced(batch: pa.RecordBatch, name: str, encoder: ColumnEncoder) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, name, encoder.encode(batch.column(at)))
