"""What keys and values become: bytes, text, or columns of their fields.

A format is fixed when a data set is made: its columns never change while it is scanned. A record that does not decode
has null in the columns of its value, and the reason in `value_error`; so has a key in `key_error`. Must not read
records. Start at `Format` and `Decoding`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.datasets.json_fields import JsonFields, inferred_fields, parsed_object
from kafkaraw.errors import DeserializationError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.ranges.rows import Counts
    from kafkaraw.schemas.arrow.plans import Texts
    from kafkaraw.schemas.blocking import Registry

BYTES: Final = "bytes"
STRING: Final = "string"
JSON: Final = "json"
AUTO: Final = "auto"
WITH_SCHEMA: Final = ("avro", "protobuf", "json-schema")
FORMATS: Final = (AUTO, BYTES, STRING, JSON, *WITH_SCHEMA)
KEY_FORMATS: Final = (AUTO, BYTES, STRING)

RECORD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""Names that a field of a value cannot have: its column is `value_` and its name then."""
VALUE_ERROR: Final = "value_error"
KEY_ERROR: Final = "key_error"
_FRAME_MAGIC: Final = 0
_FRAME_BYTES: Final = 5


@dataclass(frozen=True)
class Format:
    """How keys or values are decoded.

    Attributes:
        name: one of `FORMATS`, without "auto".
        fields: of values: the column of each field, as (column, field, type), in order.
        reader: the schema that values are resolved to, of formats with schemas.
    """

    name: str
    fields: tuple[tuple[str, str, pa.DataType], ...] = ()
    reader: Texts | None = None

    @property
    def is_text(self) -> bool:
        """Whether the column of the bytes is text."""
        return self.name in (STRING, JSON)


def detected(sample: Sequence[bytes | None], *, has_registry: bool, formats: Sequence[str]) -> str:
    """Return the format of sampled keys or values: the first one that fits all of them."""
    values = [value for value in sample if value is not None]
    fits: dict[str, Callable[[bytes], bool]] = {
        JSON: lambda value: parsed_object(value) is not None,
        STRING: _is_text,
    }
    if has_registry and AUTO in formats and WITH_SCHEMA[0] in formats and values and all(map(_is_framed, values)):
        return AUTO  # the registry knows the language
    for name, test in fits.items():
        if name in formats and values and all(map(test, values)):
            return name
    return STRING if not values and STRING in formats else BYTES


def _is_framed(value: bytes) -> bool:
    return len(value) >= _FRAME_BYTES and value[0] == _FRAME_MAGIC


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\t\r\n" for char in text)


def json_format(sample: Sequence[bytes | None], schema: pa.Schema | None) -> Format:
    """Return the format of JSON values: of the fields of a schema, or of those of a sample."""
    fields = inferred_fields(sample) if schema is None else {field.name: field.type for field in schema}
    return Format(JSON, named_columns(fields))


def schema_format(name: str, kind: pa.DataType, reader: Texts) -> Format:
    """Return the format of values with a schema, whose records are of this Arrow type."""
    import pyarrow as pa

    fields = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {"": kind}
    return Format(name, named_columns(fields), reader)


def named_columns(fields: Mapping[str, pa.DataType]) -> tuple[tuple[str, str, pa.DataType], ...]:
    """Return the column of each field. If its name is taken, in upper or lower case, `value_` is put before it."""
    taken = {*RECORD_COLUMNS, VALUE_ERROR, KEY_ERROR}
    named = []
    for field, kind in fields.items():
        column = field or "decoded"
        while column.lower() in taken:
            column = f"value_{column}"
        taken.add(column.lower())
        named.append((column, field, kind))
    return tuple(named)


class Decoding:
    """Decodes the columns of batches, of one thread; see `kafkaraw.ranges.rows.Typing`.

    Args:
        key: how keys are decoded.
        value: how values are decoded.
        columns: those that are wanted.
        registry: returns the schemas of the ids, for formats with schemas.
        fails: a record that does not decode is an error.
    """

    def __init__(
        self, key: Format, value: Format, columns: Sequence[str], registry: Registry | None, *, fails: bool
    ) -> None:
        self._key, self._value, self._columns = key, value, set(columns)
        self._fails = fails
        chosen = [each for each in value.fields if each[0] in self._columns or VALUE_ERROR in self._columns]
        self._fields = chosen
        self._json = JsonFields({field: kind for _, field, kind in chosen}) if value.name == JSON and chosen else None
        self._decoder: Any = None
        if value.name in WITH_SCHEMA and chosen:
            from kafkaraw.schemas.arrow.decode import ColumnDecoder

            if registry is None:
                raise UsageError(f'value="{value.name}": give registry=, the URL of the registry of its schemas')
            self._decoder = ColumnDecoder(registry, value.name, value.reader, "value")

    @property
    def wanted(self) -> frozenset[str]:
        """Columns of `kafkaraw.records.Columns` that it needs."""
        needed: set[str] = {name for name in ("key", "value") if name in self._columns}
        if self._fields or VALUE_ERROR in self._columns:
            needed.add("value")
        if KEY_ERROR in self._columns:
            needed.add("key")
        if self._decoder is not None:
            needed.add("headers")  # which may have the ids of schemas
        if self._fails:
            needed.add("offset")
        return frozenset(needed)

    def decode(self, raw: Mapping[str, pa.Array], counts: Counts) -> tuple[dict[str, pa.Array], list[int]]:
        """Return the columns with those that are decoded; no row is left out.

        Raises:
            DeserializationError: a record does not decode, and `fails` is set.
        """
        arrays = dict(raw)
        for name, of, error in (("key", self._key, KEY_ERROR), ("value", self._value, VALUE_ERROR)):
            reasons: dict[int, str] = {}
            if name == "value" and self._fields:
                reasons |= self._decode_fields(raw, arrays)
            if of.is_text and name in raw:
                arrays[name], bad = as_text(raw[name])
                reasons = bad | reasons
            if reasons and self._fails:
                raise _error(name, reasons, raw["offset"], counts)
            if error in self._columns:
                arrays[error] = _reasons_array(reasons, len(raw[name]))
        return arrays, []

    def _decode_fields(self, raw: Mapping[str, pa.Array], arrays: dict[str, pa.Array]) -> dict[int, str]:
        import pyarrow as pa

        if self._json is not None:
            whole, reasons = self._json.decode(raw["value"])
        else:
            decoded = self._decoder.decode(raw["value"], raw["headers"])
            whole, reasons = decoded.array, decoded.reasons
            reasons = {row: why for row, why in reasons.items() if raw["value"][row].is_valid}
        if not pa.types.is_struct(whole.type):
            arrays[self._fields[0][0]] = whole
            return reasons
        parts = dict(zip((field.name for field in whole.type), whole.flatten(), strict=True))
        for column, field, _ in self._fields:
            arrays[column] = parts[field]
        return reasons


def as_text(values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Return bytes as text; what is not UTF-8 gets replacement characters, and a reason."""
    import pyarrow as pa

    try:
        return values.cast(pa.string()), {}
    except pa.ArrowInvalid:
        given = values.to_pylist()
        made = [None if value is None else value.decode(errors="replace") for value in given]
        pairs = enumerate(zip(given, made, strict=True))
        reasons = {row: "not UTF-8" for row, (was, now) in pairs if now is not None and now.encode() != was}
        return pa.array(made, pa.string()), reasons


def _reasons_array(reasons: Mapping[int, str], rows: int) -> pa.Array:
    import pyarrow as pa

    return pa.array([reasons.get(row) for row in range(rows)], pa.string()) if reasons else pa.nulls(rows, pa.string())


def _error(name: str, reasons: Mapping[int, str], offsets: pa.Array, counts: Counts) -> DeserializationError:
    row = min(reasons)
    ends = accumulate(rows for _, _, rows in counts)
    topic, partition, _ = next(place for place, end in zip(counts, ends, strict=True) if row < end)
    offset = offsets[row].as_py()
    return DeserializationError(
        f'{name} of {topic}-{partition} at offset {offset}: {reasons[row]}. With on_error="null" such records have '
        f"null in these columns, and the reason in {name}_error",
        topic=topic,
        partition=partition,
        offset=offset,
    )
