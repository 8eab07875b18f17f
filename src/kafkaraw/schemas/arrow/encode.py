"""Typed columns of an Arrow table as framed records: `encode_arrow`, and `ColumnEncoder`, which Spark uses.

The inverse of `decode`. A column is cast to the type of its schema, and each row becomes the prefix with the schema's
id and a record. A value that does not fit raises, with its row and field; no row is encoded then. Start at
`encode_arrow`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, Protocol

from kafkaraw.errors import BatchTooLargeError, SerializationError, UsageError
from kafkaraw.schemas.arrow import avro_encode_plan, protobuf_encode_plan
from kafkaraw.schemas.arrow._implementation import encoding
from kafkaraw.schemas.arrow.avro_schemas import avro_schema_of
from kafkaraw.schemas.arrow.columns import Column, Type, arrow_type, flattened
from kafkaraw.schemas.arrow.decode import FORMATS, index_of
from kafkaraw.schemas.arrow.encode_program import OUTPUT_FULL, EncodeProgram, explain
from kafkaraw.schemas.arrow.json_encoding import encode_documents, json_schema_of
from kafkaraw.schemas.arrow.plans import (
    Texts,
    as_schema,
    avro_type,
    columns_for,
    json_type,
    message_type,
    validator_for,
)
from kafkaraw.schemas.arrow.protobuf_schemas import protobuf_schema_of
from kafkaraw.schemas.arrow.sources import SchemaSource, check_rules
from kafkaraw.schemas.errors import SubjectNotFoundError
from kafkaraw.schemas.framing import write_prefix
from kafkaraw.schemas.languages.protobuf.descriptors import indexes_of
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaType

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.schemas.arrow.plain_encoding import Source

EncodeFormat = Literal["avro", "protobuf", "json"]
ROOT_RECORD: Final = "Record"
"""Name of derived records."""


_DERIVED: Final = {
    SchemaType.AVRO: avro_schema_of,
    SchemaType.PROTOBUF: protobuf_schema_of,
    SchemaType.JSON: json_schema_of,
}
"""What makes a schema from the type of a column."""


class SchemaTarget(SchemaSource, Protocol):
    """The methods of a `Registry` that encoding calls."""

    def register(self, subject: str, schema: Schema, /, *, normalize: bool = False) -> RegisteredSchema:
        """Register a schema."""
        ...

    def lookup(self, subject: str, schema: Schema, /, *, normalize: bool = False) -> RegisteredSchema:
        """Return a registered schema."""
        ...

    def version(self, subject: str, version: int | str, /) -> RegisteredSchema:
        """Return a version of a subject."""
        ...


def encode_arrow(  # noqa: PLR0913 - two columns, and their schemas
    batch: pa.RecordBatch | pa.Table,
    registry: SchemaTarget,
    *,
    topic: str,
    value: EncodeFormat | None = "avro",
    key: EncodeFormat | None = None,
    value_schema: Schema | RegisteredSchema | str | None = None,
    key_schema: Schema | RegisteredSchema | str | None = None,
    value_message: str = "",
    key_message: str = "",
    auto_register: bool = True,
    recursive_field_max_depth: int = 0,
    ignore_rules: bool = False,
) -> pa.RecordBatch | pa.Table:
    """Encode the columns `value` and `key` as framed records, for `send_arrow()`.

    Args:
        batch: a batch or a table with columns `value` and `key` of any type that the schemas take.
        registry: registers the schemas.
        topic: the subjects are `TOPIC-value` and `TOPIC-key`.
        value: the format of the values, "avro", "protobuf" or "json" (with a JSON schema); None leaves the column as
            it is.
        key: the format of the keys; None leaves the column as it is.
        value_schema: schema of the values. A `RegisteredSchema` is used as it is; others are registered. None is the
            latest version of the subject, or, if there is none, a schema that is derived from the type of the column.
        key_schema: likewise for the keys.
        value_message: of Protobuf: full name of the message; "" is the first one of the schema.
        key_message: likewise for the keys.
        auto_register: register schemas; False only looks them up.
        recursive_field_max_depth: of Protobuf: how often a message may contain itself; deeper fields are not written.
        ignore_rules: write with schemas that have rules, such as encryption, without running them.

    Returns:
        the batch with binary columns in place of the typed ones.

    Raises:
        SerializationError: a value does not fit its schema; the message names row and field.
        UsageError: the type of the column cannot be cast to the type of the schema, or the schema has rules.
        RegistryError: the registry refuses the schema, or cannot be asked.
        BatchTooLargeError: a column would have more than 2 GiB.
    """
    chosen_columns = (("value", value, value_schema, value_message), ("key", key, key_schema, key_message))
    for name, chosen, schema, message in chosen_columns:
        if chosen is not None:
            at = index_of(batch.schema, name)
            kind = batch.schema.field(at).type
            subject = f"{topic}-{name}"
            found = registered(registry, chosen, subject, schema, kind, auto_register=auto_register)
            check_rules(found, ignore_rules=ignore_rules)
            texts = Texts.of(registry.bundle(found.schema), message)
            encoder = ColumnEncoder(chosen, found.id, texts, name, recursive_field_max_depth)
            batch = batch.set_column(at, name, encoder.encode(batch.column(at)))
    return batch


class ColumnEncoder:
    """Encodes one column.

    Args:
        format: one of `FORMATS`.
        schema_id: the id in front of each record.
        texts: the schema.
        name: "value" or "key", for messages.
        recursion_max: see `encode_arrow`.
    """

    def __init__(self, format: str, schema_id: int, texts: Texts, name: str = "value", recursion_max: int = 0) -> None:
        if format not in FORMATS:
            raise UsageError(f"columns are encoded as {', '.join(sorted(FORMATS))}, not as {format}")
        if texts.schema_type is not FORMATS[format]:
            raise UsageError(f"the schema is {texts.schema_type.value}, and the column is encoded as {format}")
        is_protobuf = texts.schema_type is SchemaType.PROTOBUF
        self.columns: Column = _message_columns(texts, recursion_max) if is_protobuf else columns_for(texts)
        indexes = indexes_of(message_type(texts)) if is_protobuf else None
        self._texts = texts
        self._recursion_max = recursion_max
        self._prefix = write_prefix(schema_id, indexes)
        self._name = name

    @property
    def arrow_type(self) -> pa.DataType:
        """The type to which columns are cast."""
        return arrow_type(self.columns)

    def check(self, kind: pa.DataType) -> None:
        """Check that a column of a type can become the type of the schema, before there are values.

        Raises:
            UsageError: it cannot.
        """
        import pyarrow as pa

        self._cast(pa.array([], kind))

    def encode(self, column: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return the column as framed records; null rows stay null.

        Raises:
            SerializationError: a value does not fit the schema.
            UsageError: the column cannot be cast to the type of the schema.
        """
        import pyarrow as pa

        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        column = self._cast(column)
        if self._texts.schema_type is SchemaType.JSON:
            return self._documents(column)
        program = _program(self._texts, self._recursion_max)
        encoded = encoding.encode(program, _sources(self.columns, column), len(column), self._prefix)
        if len(encoded) != 2:
            row, fault, node, detail = encoded
            raise SerializationError(f"{self._name} of row {row}: {explain(program, fault, node, detail)}")
        buffers = [_validity(column), pa.py_buffer(encoded[0]), pa.py_buffer(encoded[1])]
        return pa.Array.from_buffers(pa.binary(), len(column), buffers, null_count=column.null_count)

    def _documents(self, column: pa.Array) -> pa.Array:
        import pyarrow as pa

        documents = encode_documents(
            json_type(self._texts), column, self._prefix, validator_for(self._texts), self._name
        )
        made = pa.array(documents, pa.binary())
        if isinstance(made, pa.ChunkedArray):
            raise BatchTooLargeError(OUTPUT_FULL)
        return made

    def _cast(self, column: pa.Array) -> pa.Array:
        import pyarrow as pa

        kind = arrow_type(self.columns)
        try:
            _check_fields(column.type, self.columns, "")
            return _fitted(column, self.columns, "")
        except _UnfitError as error:
            raise SerializationError(f"{self._name} of row {error.row}: {error}") from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError, ValueError) as error:
            raise UsageError(
                f"the column {self._name} is {column.type} and cannot become {kind}, the type of its schema: {error}"
            ) from None


def registered(
    registry: SchemaTarget,
    format: str,
    subject: str,
    schema: Schema | RegisteredSchema | str | None,
    kind: pa.DataType,
    *,
    auto_register: bool,
) -> RegisteredSchema:
    """Return the registered schema with which a column is written.

    Args:
        registry: registers the schema.
        format: of the column.
        subject: the subject of the schema.
        schema: as for `encode_arrow`.
        kind: type of the column, from which a schema is derived if the subject has none.
        auto_register: as for `encode_arrow`.
    """
    if isinstance(schema, RegisteredSchema):
        return schema
    if schema is None:
        try:
            return registry.version(subject, "latest")
        except SubjectNotFoundError:
            if not auto_register:
                raise
            schema = _DERIVED[FORMATS[format]](kind, ROOT_RECORD)
    given = as_schema(schema, FORMATS[format])
    return registry.register(subject, given) if auto_register else registry.lookup(subject, given)


@lru_cache(256)
def _message_columns(texts: Texts, recursion_max: int) -> Column:
    return protobuf_encode_plan.writable(columns_for(texts, recursion_max))


@lru_cache(256)
def _program(texts: Texts, recursion_max: int) -> EncodeProgram:
    if texts.schema_type is SchemaType.PROTOBUF:
        return protobuf_encode_plan.encode_program_for(message_type(texts), _message_columns(texts, recursion_max))
    return avro_encode_plan.encode_program_for(avro_type(texts), columns_for(texts))


# -- Arrow


def _check_fields(kind: pa.DataType, column: Column, path: str) -> None:
    """Check what Arrow's casts would do silently: leave out fields of structs in lists, and make booleans of numbers.

    Raises:
        ValueError: the column would lose data.
    """
    import pyarrow.types as t

    where = path or "the column"
    match column.type:
        case Type.STRUCT if t.is_struct(kind):
            children = {each.name: each for each in column.children}
            names = [each.name for each in kind]
            twice = [each for each in dict.fromkeys(names) if names.count(each) > 1]
            if twice:
                raise ValueError(
                    f"the column has more than one field {', '.join(_joined(path, each) for each in twice)}"
                )
            unknown = [each.name for each in kind if each.name not in children]
            if unknown:
                raise ValueError(f"the schema has no field {', '.join(_joined(path, name) for name in unknown)}")
            for each in kind:
                _check_fields(each.type, children[each.name], _joined(path, each.name))
        case Type.LIST if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
            _check_fields(kind.value_type, column.children[0], f"{path}[]")
        case Type.MAP if t.is_map(kind):
            _check_fields(kind.item_type, column.children[0].children[1], f"{path}{{}}")
        case Type.BOOLEAN if not (t.is_boolean(kind) or t.is_null(kind)):
            raise ValueError(f"{where} is {kind}, and the schema's is a boolean")


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class _UnfitError(Exception):
    """A value cannot be cast, others of its type can be; `row` is the first such row."""

    def __init__(self, text: str, row: int) -> None:
        super().__init__(text)
        self.row = row


def _fitted(array: pa.Array, column: Column, path: str) -> pa.Array:
    """Return an array of the column's type: fields by name, missing nullable fields as null, others cast.

    Raises:
        ValueError: the column does not have a field, and the schema has no null there.
        _UnfitError: a value does not fit the type.
    """
    import pyarrow as pa

    kind = arrow_type(column)
    if array.type == kind:
        return array
    if column.type is not Type.STRUCT or not pa.types.is_struct(array.type):
        try:
            return array.cast(kind)
        except pa.ArrowInvalid as error:
            row = _first_unfit(array, kind)
            if row is None:
                raise
            raise _UnfitError(f"field {path}: {error}" if path else str(error), row) from None
    names = [each.name for each in array.type]
    fields = []
    for child in column.children:
        if child.name in names:
            fields.append(_fitted(array.field(names.index(child.name)), child, _joined(path, child.name)))
        elif child.nullable:
            fields.append(pa.nulls(len(array), arrow_type(child)))
        else:
            raise ValueError(f"the field {child.name} is missing, and the schema has no null there")
    return pa.Array.from_buffers(kind, len(array), [_validity(array)], null_count=array.null_count, children=fields)


def _first_unfit(array: pa.Array, kind: pa.DataType) -> int | None:
    """Return the first row that cannot be cast to a type; None if no row can be."""
    import pyarrow as pa

    def fits(first: int, count: int) -> bool:
        rows = array.take(pa.array(range(first, first + count), pa.int64()))  # a slice of lists has all their items
        try:
            rows.cast(kind)
        except pa.ArrowInvalid:
            return False
        return True

    if not fits(0, 0):
        return None
    first, count = 0, len(array)
    while count > 1:  # the first row that does not fit is one of `count` rows from `first` on
        half = count // 2
        if fits(first, half):
            first, count = first + half, count - half
        else:
            count = half
    return first


def _validity(array: pa.Array) -> pa.Buffer | None:
    """Return the bits of an array's rows from the first one on; None if no row is null."""
    import pyarrow.compute as pc

    # `is_valid` of a slice may share the bits of the whole, with an offset
    return pc.if_else(array.is_valid(), True, False).buffers()[1] if array.null_count else None


def _sources(root: Column, array: pa.Array) -> list[Source]:
    """Return the buffers of each column in the order of `flattened`."""
    flat = flattened(root)
    arrays: list[pa.Array] = [array]
    sources: list[Source] = []
    for at, (column, first) in enumerate(flat):
        current = arrays[at]
        match column.type:
            case Type.STRUCT:
                # `field` of a slice begins at the slice, so that all columns of a record have the same rows
                arrays += [current.field(each) for each in range(len(column.children))]
            case Type.LIST | Type.MAP:
                arrays.append(current.values)  # of a map its entries: `keys` and `items` ignore where these begin
        buffers = current.buffers()
        validity = buffers[0] if current.null_count else None
        has_ends = column.type in (Type.STRING, Type.BINARY, Type.LIST, Type.MAP)
        ends = buffers[1] if has_ends else None
        data = None if column.type in (Type.STRUCT, Type.LIST, Type.MAP, Type.NULL) else buffers[2 if has_ends else 1]
        sources.append((validity, ends, data, current.offset, first))
    return sources
