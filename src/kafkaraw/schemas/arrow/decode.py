"""Framed records of an Arrow batch as typed columns: `decode_arrow`, and `ColumnDecoder`, which Spark uses.

Records of several writers may be in one batch: each row is decoded with the program of its schema id, into the columns
of one reader's schema. A row that cannot be decoded becomes null, and its reason goes into a column of its own, or it
raises. Must not ask the registry more than once per schema. Start at `decode_arrow`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from uuid import UUID

from kafkaraw.errors import BatchTooLargeError, DeserializationError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.schemas.arrow._implementation import decoding
from kafkaraw.schemas.arrow.assembling import assemble
from kafkaraw.schemas.arrow.columns import arrow_type
from kafkaraw.schemas.arrow.json_decoding import Check, accept, decode_documents
from kafkaraw.schemas.arrow.plans import (
    Plan,
    Texts,
    as_schema,
    columns_for,
    json_schema,
    json_type,
    plan_for,
    validator_for,
)
from kafkaraw.schemas.arrow.program import COLUMN_FULL, explain
from kafkaraw.schemas.arrow.sources import SchemaSource, check_rules
from kafkaraw.schemas.errors import (
    SchemaNotFoundError,
    SchemaParseError,
    SchemaReferenceError,
    SubjectNotFoundError,
    VersionNotFoundError,
)
from kafkaraw.schemas.json_codec import ORJSON_IS_USED
from kafkaraw.schemas.model import RegisteredSchema, Schema, SchemaType

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["avro", "protobuf", "json"]
OnError = Literal["null", "raise"]
Made = TypeVar("Made")

FORMATS: Final = {
    "avro": SchemaType.AVRO,
    "protobuf": SchemaType.PROTOBUF,
    "json": SchemaType.JSON,
    "json-schema": SchemaType.JSON,  # its name in Spark's options
}
"""What `value` and `key` can be."""
PREFIX_BYTES: Final = 5
_NULL_SLOT: Final = -1
_UNFRAMED_SLOT: Final = -2
_ID_MAX: Final = 2**31 - 1
_COLUMN_BYTES_MAX: Final = 2**31 - 1
_UNUSABLE: Final = (
    UsageError,
    SchemaParseError,
    SchemaReferenceError,
    SchemaNotFoundError,
    SubjectNotFoundError,
    VersionNotFoundError,
)
"""Of a writer's schema: it, or one that it refers to, is wrong or does not exist."""


def decode_arrow(  # noqa: PLR0913 - two columns, and how
    batch: pa.RecordBatch | pa.Table,
    registry: SchemaSource,
    *,
    value: Format | None = "avro",
    key: Format | None = None,
    reader_schema: Schema | RegisteredSchema | str | None = None,
    key_reader_schema: Schema | RegisteredSchema | str | None = None,
    on_error: OnError = "null",
    recursive_field_max_depth: int = 0,
    ignore_rules: bool = False,
    validate: bool = True,
) -> pa.RecordBatch | pa.Table:
    """Decode the columns `value` and `key` of a batch from `poll_arrow()` into typed columns.

    The type of a decoded column is that of Spark's from_avro: a record becomes a struct, a union with null a nullable
    value, other unions a struct with one member per branch, timestamps microseconds.

    Args:
        batch: a batch, or a table, with binary columns `value` and `key`, and `headers` for schema ids in headers.
        registry: returns the schemas of the ids.
        value: the format of the values: "avro", "protobuf" or "json" (with a JSON schema); None leaves them as bytes.
        key: the format of the keys; None leaves them as bytes.
        reader_schema: the schema of the column; records of other schemas are resolved to it. None is the one with
            the highest id in the batch: then batches may have different columns.
        key_reader_schema: likewise for the keys.
        on_error: what happens to a record that cannot be decoded: "null", with the reason in a column `value_error`
            or `key_error` (null for good records), or "raise".
        recursive_field_max_depth: how often a record may contain itself; see `columns_of`.
        ignore_rules: decode records whose schemas have rules, such as encryption, without running them; otherwise such
            records are bad.
        validate: of JSON: check each document against the schema that it was written with. Without it, only what the
            columns need is checked.

    Returns:
        the batch with the decoded columns in place of the bytes, and the columns with the reasons at the end.

    Raises:
        DeserializationError: a record cannot be decoded, and `on_error` is "raise".
        UsageError: the reader's schema has no columns.
        RegistryError: the registry cannot be asked, or answers something else than a schema or that it has none.
        BatchTooLargeError: a column would have more than 2 GiB.
    """
    if on_error not in ("null", "raise"):
        raise UsageError(f'on_error={on_error!r} must be "null" or "raise"')
    for name, chosen, reader in (("value", value, reader_schema), ("key", key, key_reader_schema)):
        if chosen is not None:
            decoder = ColumnDecoder(
                registry,
                chosen,
                reader,
                name,
                recursive_field_max_depth,
                ignore_rules=ignore_rules,
                validate=validate,
            )
            batch = decoder.replace(batch, on_error)
    return batch


@dataclass(slots=True)
class Decoded:
    """A decoded column.

    Attributes:
        array: the values.
        reasons: row to the reason why it is null.
    """

    array: pa.Array
    reasons: dict[int, str]

    def reasons_array(self) -> pa.Array:
        """Return the reasons as a column of strings; null for good records."""
        import pyarrow as pa

        if not self.reasons:
            return pa.nulls(len(self.array), pa.string())
        return pa.array([self.reasons.get(row) for row in range(len(self.array))], pa.string())


class ColumnDecoder:
    """Decodes one column of batches.

    Args:
        registry: returns the schemas of the ids.
        format: one of `FORMATS`.
        reader: the schema of the result; None for the newest one in each batch.
        name: "value" or "key".
        recursion_max: how often a record may contain itself.
        ignore_rules: see `decode_arrow`.
        validate: see `decode_arrow`.
    """

    def __init__(
        self,
        registry: SchemaSource,
        format: str,
        reader: Schema | RegisteredSchema | Texts | str | None = None,
        name: str = "value",
        recursion_max: int = 0,
        *,
        ignore_rules: bool = False,
        validate: bool = True,
    ) -> None:
        if format not in FORMATS:
            raise UsageError(f"the format {format!r} is unknown; it can be {', '.join(FORMATS)}")
        self._registry = registry
        self._type = FORMATS[format]
        self._name = name
        self._recursion_max = recursion_max
        self._ignore_rules = ignore_rules
        self._validate = validate
        self._reader = None if reader is None else self._texts(reader)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the result.

        Raises:
            UsageError: no reader's schema was given.
        """
        if self._reader is None:
            raise UsageError("the type of the column depends on the records: give a reader schema")
        return arrow_type(columns_for(self._reader, self._recursion_max))

    def _texts(self, given: Schema | RegisteredSchema | Texts | str) -> Texts:
        if isinstance(given, Texts):
            return given
        schema = given.schema if isinstance(given, RegisteredSchema) else as_schema(given, self._type)
        return Texts.of(self._registry.bundle(schema))

    def replace(self, batch: pa.RecordBatch | pa.Table, on_error: str) -> pa.RecordBatch | pa.Table:
        """Return the batch with the decoded column; arguments as for `decode_arrow`."""
        import pyarrow as pa

        if isinstance(batch, pa.Table):
            if batch.num_rows and any(column.num_chunks > 1 for column in batch.itercolumns()):
                if any(map(_has_more_than_one_array, batch.itercolumns())):  # before pyarrow copies gigabytes
                    raise BatchTooLargeError(COLUMN_FULL)
                batch = batch.combine_chunks()
            whole = batch.to_batches()
            if len(whole) > 1:  # pyarrow keeps chunks of nested columns that would have more than 2 GiB together
                raise BatchTooLargeError(COLUMN_FULL)
            single = whole[0] if whole else pa.RecordBatch.from_pylist([], schema=batch.schema)
            return pa.Table.from_batches([self.replace(single, on_error)])
        at = index_of(batch.schema, self._name)
        reason_name = f"{self._name}_error"
        if on_error == "null" and reason_name in batch.schema.names:
            raise UsageError(
                f"the batch has a column {reason_name!r}, the name of the reasons: rename it or leave it out"
            )
        headers = _header_lists(batch.column("headers")) if "headers" in batch.schema.names else None
        decoded = self.decode(batch.column(at), headers)
        if on_error == "raise" and decoded.reasons:
            raise self._error(batch, decoded.reasons)
        arrays, names = batch.columns, list(batch.schema.names)
        arrays[at] = decoded.array
        if on_error == "null":
            arrays.append(decoded.reasons_array())
            names.append(reason_name)
        return pa.RecordBatch.from_arrays(arrays, names)

    def _error(self, batch: pa.RecordBatch, reasons: dict[int, str]) -> DeserializationError:
        row = min(reasons)
        place: dict[str, Any] = {
            name: batch.column(name)[row].as_py() if name in batch.schema.names else default
            for name, default in (("topic", ""), ("partition", -1), ("offset", -1))
        }
        where = f"{place['topic']}-{place['partition']} at offset {place['offset']}" if place["topic"] else f"row {row}"
        more = f" ({len(reasons) - 1} more records of the batch are bad, too)" if len(reasons) > 1 else ""
        return DeserializationError(f"{self._name} of {where}: {reasons[row]}{more}", **place)

    def decode(self, column: pa.Array, headers: pa.Array | None = None) -> Decoded:
        """Decode a binary array.

        Args:
            column: framed records.
            headers: the headers of the same rows, in which the schema id may be instead.
        """
        column = _binary(column)
        rows = len(column)
        validity, offsets, data = _buffers(column)
        has_indexes = self._type is SchemaType.PROTOBUF
        slots, prefixes = decoding.scan(validity, offsets, data, column.offset, rows, has_indexes)
        writers = [_of_prefix(each) for each in prefixes]
        if headers is not None and headers.null_count < rows:
            slots = _with_headers(slots, writers, headers, f"__{self._name}_schema_id", column)
        found = [self._looked_up(each) for each in writers]
        reader = self._reader or self._newest(found)
        if reader is None:
            return self._undecodable(column, slots, found)
        sizes = [each.prefix_size for each in writers]
        if self._type is SchemaType.JSON:
            return self._decode_documents(column, slots, sizes, found, reader)
        depth = self._recursion_max
        plans, failures = self._plans(
            found, lambda slot, writer: plan_for(writer, reader, depth, writers[slot].indexes)
        )
        root = columns_for(reader, self._recursion_max)
        decoder = decoding.Decoder(root)
        prepared = [None if plan is None else plan.prepared for plan in plans]
        faults = decoder.decode(validity, offsets, data, column.offset, rows, slots, prepared, sizes)
        reasons = self._reasons(column, plans, sizes, faults)
        self._add_failures(reasons, slots, failures)
        self._add_unframed(reasons, slots, column)
        return Decoded(assemble(root, decoder.take()), reasons)

    def _decode_documents(
        self,
        column: pa.Array,
        slots: Sequence[int],
        sizes: Sequence[int],
        found: Sequence[RegisteredSchema | str],
        reader: Texts,
    ) -> Decoded:
        """Decode JSON."""
        checks, failures = self._plans(found, self._check_for)
        rows = memoryview(slots).cast("B").cast("i").tolist() if len(column) else []  # type: ignore[arg-type]
        made, reasons = decode_documents(json_type(reader, self._recursion_max), column, rows, sizes, checks)
        self._add_failures(reasons, slots, failures)
        self._add_unframed(reasons, slots, column)
        return Decoded(made, reasons)

    def _check_for(self, slot: int, writer: Texts) -> Check:
        """Return what checks the documents of a writer."""
        if self._validate:
            validator = validator_for(writer)
            return validator.check_shallow if ORJSON_IS_USED else validator.check
        json_schema(writer)
        return accept

    # -- schemas

    def _looked_up(self, writer: _Writer) -> RegisteredSchema | str:
        """Return the schema of an id or a GUID, or why there is none.

        Only the registry's answer that it has no such schema is a reason. Every other error is raised: a proxy that
        answers while the registry is down must not make good records null.
        """
        if writer.unreadable:
            return writer.unreadable
        try:
            if isinstance(writer.schema, int):
                return self._registry.schema_by_id(writer.schema)
            return self._registry.schema_by_guid(writer.schema)
        except SchemaNotFoundError as error:
            return str(error)

    def _plans(
        self, found: Sequence[RegisteredSchema | str], make: Callable[[int, Texts], Made]
    ) -> tuple[list[Made | None], dict[int, str]]:
        """Return what decodes the records of each slot, or why they cannot be decoded."""
        plans: list[Made | None] = []
        failures: dict[int, str] = {}
        for slot, writer in enumerate(found):
            plan = None
            if isinstance(writer, str):
                failures[slot] = writer
            else:
                try:
                    check_rules(writer, ignore_rules=self._ignore_rules)
                    plan = make(slot, self._texts(writer))
                except _UNUSABLE as error:
                    failures[slot] = f"schema {writer.id}: {error}"
            plans.append(plan)
        return plans, failures

    def _newest(self, found: Sequence[RegisteredSchema | str]) -> Texts | None:
        known = [each for each in found if isinstance(each, RegisteredSchema) and each.schema.schema_type is self._type]
        return self._texts(max(known, key=lambda each: each.id)) if known else None

    # -- reasons

    def _undecodable(self, column: pa.Array, slots: Sequence[int], found: Sequence[RegisteredSchema | str]) -> Decoded:
        """Return nulls: no row has a schema."""
        import pyarrow as pa

        reasons: dict[int, str] = {}
        self._add_failures(reasons, slots, {at: each for at, each in enumerate(found) if isinstance(each, str)})
        self._add_unframed(reasons, slots, column)
        return Decoded(pa.nulls(len(column)), reasons)

    def _reasons(
        self,
        column: pa.Array,
        plans: Sequence[Plan | None],
        prefixes: Sequence[int],
        faults: Sequence[tuple[int, int, int, int, int, int]],
    ) -> dict[int, str]:
        reasons = {}
        for row, slot, fault, node, position, detail in faults:
            plan = plans[slot]
            size = len(column[row].as_buffer()) - prefixes[slot]
            reasons[row] = explain(None if plan is None else plan.program, fault, node, position, detail, size)
        return reasons

    def _add_failures(self, reasons: dict[int, str], slots: Sequence[int], failures: dict[int, str]) -> None:
        if failures:
            view = memoryview(slots).cast("B").cast("i")  # type: ignore[arg-type]  # a buffer of int32
            reasons.update((row, failures[slot]) for row, slot in enumerate(view) if slot in failures)

    def _add_unframed(self, reasons: dict[int, str], slots: Sequence[int], column: pa.Array) -> None:
        view = memoryview(slots).cast("B")  # type: ignore[arg-type]  # a buffer of int32
        if len(view) and min(view.cast("i")) == _UNFRAMED_SLOT:
            for row, slot in enumerate(view.cast("i")):
                if slot == _UNFRAMED_SLOT:
                    reasons[row] = _unframed(bytes(column[row].as_py()[:PREFIX_BYTES]), len(column[row].as_buffer()))


def _unframed(first: bytes, size: int) -> str:
    return (
        f"it is not framed: {size} bytes that begin with {first.hex(' ') or 'nothing'}; framed ones begin with 00 and "
        "the four bytes of a schema id, or with 01 and the sixteen of a GUID, or have either in a header"
    )


_HEADER_ID: Final = 0
_HEADER_GUID: Final = 1
_GUID_BYTES: Final = 16
_PREFIX_GUID: Final = 1 + _GUID_BYTES


def _with_headers(
    slots: Sequence[int], writers: list[_Writer], headers: pa.Array, name: str, column: pa.Array
) -> array[int]:
    """Return the slots, with those of rows that have their schema's GUID or id in a header; adds these to `writers`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = array("i", bytes(memoryview(slots)))  # type: ignore[arg-type]  # a buffer of int32
    if headers.null_count:  # a null list may have items behind it, which `flatten` leaves out; `take` drops them
        headers = headers.take(pa.array(range(len(headers))))
    rows, flat = pc.list_parent_indices(headers), headers.flatten()
    chosen = pc.equal(flat.field(0), name)
    known: dict[bytes | None, int] = {}
    for row, content in zip(rows.filter(chosen).to_pylist(), flat.field(1).filter(chosen).to_pylist(), strict=True):
        if found[row] == _NULL_SLOT or not column[row].is_valid:
            continue
        if content not in known:
            known[content] = len(writers)
            writers.append(_of_header(content))
        found[row] = known[content]
    return found


def _header_lists(headers: pa.Array) -> pa.Array:
    """Return headers as lists of key and value; they may be maps, as Spark has them.

    Raises:
        UsageError: they are neither.
    """
    import pyarrow as pa

    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    try:
        return headers if headers.type == kind else headers.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UsageError(
            f"the column headers is {headers.type}, and ids of schemas are looked for in {kind}: rename it, or leave "
            f"it out ({error})"
        ) from None


@dataclass(frozen=True, slots=True)
class _Writer:
    """What a record says of its schema.

    Attributes:
        schema: id or GUID.
        indexes: of Protobuf: which message.
        prefix_size: bytes of it in front of the record.
        unreadable: why it names no schema; the registry is not asked then.
    """

    schema: int | str
    indexes: tuple[int, ...] = ()
    prefix_size: int = 0
    unreadable: str = ""


def _of_prefix(prefix: bytes) -> _Writer:
    if prefix[0] == _HEADER_GUID:
        return _Writer(str(UUID(bytes=prefix[1:_PREFIX_GUID])), _indexes(prefix[_PREFIX_GUID:]), len(prefix))
    return _of_id(prefix[1:PREFIX_BYTES], prefix[PREFIX_BYTES:], len(prefix))


def _of_id(number: bytes, indexes: bytes, prefix_size: int) -> _Writer:
    schema_id = int.from_bytes(number, "big")
    why = f"{schema_id} is no schema id, these are less than 2^31: it is not framed" if schema_id > _ID_MAX else ""
    return _Writer(schema_id, _indexes(indexes), prefix_size, why)


def _of_header(content: bytes | None) -> _Writer:
    """Return what a header says; Confluent's `SchemaId`."""
    if content is not None and len(content) >= 1 + _GUID_BYTES and content[0] == _HEADER_GUID:
        return _Writer(str(UUID(bytes=content[1 : 1 + _GUID_BYTES])), _indexes(content[1 + _GUID_BYTES :]))
    if content is not None and len(content) >= PREFIX_BYTES and content[0] == _HEADER_ID:
        return _of_id(content[1:PREFIX_BYTES], content[PREFIX_BYTES:], 0)
    begin = "null" if content is None else content[: 1 + _GUID_BYTES].hex(" ") or "nothing"
    return _Writer("", unreadable=f"its header for the schema has neither id nor GUID, it begins with {begin}")


def _indexes(data: bytes) -> tuple[int, ...]:
    """Return the indexes of a message: varints with zigzag, their number first; only 0 is the first message."""
    numbers, raw, shift = [], 0, 0
    for byte in data:
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append((raw >> 1) ^ -(raw & 1))
            raw = shift = 0
    return tuple(numbers[1:]) if numbers and numbers[0] else (0,) if numbers else ()


def index_of(schema: pa.Schema, name: str) -> int:
    """Return the index of a column.

    Raises:
        UsageError: there is none of that name, or more than one.
    """
    indexes = schema.get_all_field_indices(name)
    if len(indexes) != 1:
        has = "more than one" if indexes else "no"
        raise UsageError(f"the batch has {has} column {name!r}, its columns are {', '.join(schema.names)}")
    return int(indexes[0])


def _has_more_than_one_array(column: pa.ChunkedArray) -> bool:
    """Whether a column of bytes or strings has more of them than offsets of 32 bits can address."""
    import pyarrow as pa

    if column.nbytes <= _COLUMN_BYTES_MAX or not (pa.types.is_binary(column.type) or pa.types.is_string(column.type)):
        return False
    import pyarrow.compute as pc

    return bool((pc.sum(pc.binary_length(column)).as_py() or 0) > _COLUMN_BYTES_MAX)


def _binary(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the column as one array of binary.

    Raises:
        BatchTooLargeError: it has more than 2 GiB.
    """
    import pyarrow as pa

    sizes = [each.nbytes for each in column.chunks] if isinstance(column, pa.ChunkedArray) else [column.nbytes]
    try:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        return column if column.type == pa.binary() else column.cast(pa.binary())
    except pa.ArrowInvalid:
        if sum(sizes) > _COLUMN_BYTES_MAX:
            raise BatchTooLargeError(COLUMN_FULL) from None
        raise
    except pa.ArrowNotImplementedError:
        raise UsageError(f"the column is {column.type}; framed records are binary") from None


def _buffers(column: pa.Array) -> tuple[pa.Buffer | None, pa.Buffer, pa.Buffer]:
    import pyarrow as pa

    validity, offsets, data = column.buffers()
    empty = pa.py_buffer(bytes(4))
    return validity if column.null_count else None, offsets or empty, data or empty
