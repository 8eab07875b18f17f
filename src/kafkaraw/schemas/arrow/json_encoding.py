"""Arrow columns as JSON documents: the inverse of `json_decoding`.

Each column becomes a list of Python values, the lists become objects, orjson writes them. Every document is validated:
its bytes must be what a reader accepts. Start at `encode_documents`.
"""

from __future__ import annotations

import base64
import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import SerializationError, UsageError
from kafkaraw.schemas.arrow.json_types import CONNECT_TITLES, JsonKind, JsonType
from kafkaraw.schemas.json_codec import ORJSON_IS_USED, Json, dump, load
from kafkaraw.schemas.serializers.json_validator import InvalidObjectError, Validator, dump_valid

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE: Final = 1024


class _Misfit(Exception):
    """A value cannot be written; `at` is its place in its column."""

    def __init__(self, at: int, path: str, reason: str) -> None:
        self.at, self.path, self.reason = at, path, reason


def encode_documents(
    kind: JsonType, column: pa.Array, prefix: bytes, validator: Validator, name: str
) -> list[bytes | None]:
    """Return rows as JSON; null rows stay null.

    Args:
        kind: the type of the documents.
        column: the rows, of the type of `columns_of(kind)`.
        prefix: bytes before each document.
        validator: checks the documents.
        name: of the column, for messages.

    Raises:
        SerializationError: a value does not fit the schema.
    """
    encoded: list[bytes | None] = []
    for begin in range(0, len(column), _ROWS_AT_ONCE):
        try:
            documents = _values(kind, column.slice(begin, _ROWS_AT_ONCE), "")
        except _Misfit as bad:
            where = f"field {bad.path}: " if bad.path else ""
            raise SerializationError(f"{name} of row {begin + bad.at}: {where}{bad.reason}") from None
        for at, document in enumerate(documents, begin):
            try:
                if document is None:
                    encoded.append(None)
                else:
                    encoded.append(prefix + dump_valid(validator, document, dump, bounds_depth=ORJSON_IS_USED))
            except (InvalidObjectError, TypeError, ValueError, RecursionError) as error:
                raise SerializationError(f"{name} of row {at}: {error}") from None
    return encoded


def _values(kind: JsonType, array: pa.Array, path: str) -> list[Any]:
    """Return the values of a column as JSON has them.

    Raises:
        _Misfit: one cannot be written.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    match kind.kind:
        case JsonKind.OBJECT:
            return _objects(kind, array, path)
        case JsonKind.ARRAY | JsonKind.MAP:
            return _lists(kind, array, path)
        case JsonKind.DATE:
            return list(array.cast(pa.int32()).to_pylist())
        case JsonKind.TIMESTAMP:
            micros: list[int | None] = array.cast(pa.int64()).to_pylist()
            return [None if each is None else each // 1000 for each in micros]
        case JsonKind.BYTES:
            return [None if each is None else base64.b64encode(each).decode() for each in array.to_pylist()]
        case JsonKind.NUMBER:
            values: list[float | None] = array.to_pylist()
            if pc.all(pc.is_finite(array)).as_py() is False:
                at = next(at for at, each in enumerate(values) if not math.isfinite(each or 0))
                raise _Misfit(at, path, f"JSON has no number {values[at]}")
            return values
        case JsonKind.TEXT:
            return [_parsed(text, at, path) for at, text in enumerate(array.to_pylist())]
    return list(array.to_pylist())


def _parsed(text: str | None, at: int, path: str) -> Json:
    try:
        return None if text is None else load(text.encode())
    except (ValueError, RecursionError) as error:
        raise _Misfit(
            at, path, f"the schema has no single type there, so its value must be JSON text: {error}"
        ) from None


def _objects(kind: JsonType, array: pa.StructArray, path: str) -> list[Any]:
    columns = [
        _values(inner, child, f"{path}.{name}" if path else name)  # flatten: null where the object is null
        for name, inner, child in zip(kind.names, kind.children, array.flatten(), strict=True)
    ]
    optional = [name for name in kind.names if name not in kind.required]
    made: list[Any] = [dict(zip(kind.names, each, strict=True)) for each in zip(*columns, strict=True)]
    for name, column in zip(kind.names, columns, strict=True):
        if name in optional and None in column:  # null is not missing, and the schema may refuse it
            for one, value in zip(made, column, strict=True):
                if value is None:
                    del one[name]
    return _with_nulls(made, array)


def _lists(kind: JsonType, array: pa.ListArray | pa.MapArray, path: str) -> list[Any]:
    if array.null_count:  # items of null lists are no values: leave them out
        array = array.take(list(range(len(array))))
    ends = array.offsets.to_pylist()
    first, last = ends[0], ends[-1]
    is_map = kind.kind is JsonKind.MAP
    held = (array.items if is_map else array.values).slice(first, last - first)
    try:
        items = _values(kind.children[0], held, f"{path}{{}}" if is_map else f"{path}[]")
    except _Misfit as bad:
        row = next(at for at, end in enumerate(ends[1:]) if bad.at < end - first)
        raise _Misfit(row, bad.path, bad.reason) from None
    bounds = [(begin - first, end - first) for begin, end in pairwise(ends)]
    if not is_map:
        return _with_nulls([items[begin:end] for begin, end in bounds], array)
    keys = array.keys.slice(first, last - first).to_pylist()
    made = [dict(zip(keys[begin:end], items[begin:end], strict=True)) for begin, end in bounds]
    for at, ((begin, end), one) in enumerate(zip(bounds, made, strict=True)):
        if len(one) != end - begin:
            raise _Misfit(at, path, "a key of the map occurs twice")
    return _with_nulls(made, array)


def _with_nulls(values: list[Any], array: pa.Array) -> list[Any]:
    if not array.null_count:
        return values
    return [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)]


# -- schemas


def json_schema_of(kind: pa.DataType, name: str) -> str:
    """Return a JSON schema for an Arrow type, as text: what `decode_arrow` reads as the same type.

    Raises:
        UsageError: JSON Schema has no such type.
    """
    return json.dumps({"title": name, **_schema(kind, "")})


def _schema(kind: pa.DataType, path: str) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_struct(kind) and kind.num_fields:
        fields = {each.name: _schema(each.type, f"{path}.{each.name}" if path else each.name) for each in kind}
        required = [each.name for each in kind if not each.nullable]
        return {"type": "object", "properties": fields} | ({"required": required} if required else {})
    if t.is_map(kind) and t.is_string(kind.key_type):
        return {"type": "object", "additionalProperties": _optional(kind.item_field, f"{path}{{}}")}
    if t.is_list(kind) or t.is_large_list(kind):
        return {"type": "array", "items": _optional(kind.value_field, f"{path}[]")}
    if t.is_date32(kind):
        return {"type": "integer", "title": CONNECT_TITLES[JsonKind.DATE], "connect.type": "int32"}
    if t.is_binary(kind) or t.is_large_binary(kind):
        return {"type": "string", "connect.type": "bytes"}
    if kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()):
        return {"type": "integer", "connect.type": "int32"}
    plain = {
        pa.bool_(): "boolean",
        pa.int64(): "integer",
        pa.uint32(): "integer",
        pa.float32(): "number",
        pa.float64(): "number",
        pa.string(): "string",
        pa.large_string(): "string",
    }
    if kind not in plain:
        raise UsageError(
            f"field {path or 'of the root'}: no JSON schema is derived for {kind}; give a schema, or cast the column"
        )
    return {"type": plain[kind]}


def _optional(field: pa.Field, path: str) -> dict[str, Any]:
    schema = _schema(field.type, path)
    return {"oneOf": [{"type": "null"}, schema]} if field.nullable else schema
