"""JSON documents as an Arrow array, column by column.

`documents_of` reads and checks them, `build` makes the array.

A list of documents becomes lists of their values, one per column, which pyarrow converts at once. Values that do not
fit are found one by one then: their documents become null and get a reason, and the others are not touched. Start at
`decode_documents`.
"""

from __future__ import annotations

import base64
import binascii
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import BatchTooLargeError
from kafkaraw.schemas.arrow.columns import Column, arrow_type
from kafkaraw.schemas.arrow.json_types import JsonKind, JsonType, columns_of
from kafkaraw.schemas.arrow.program import COLUMN_FULL
from kafkaraw.schemas.json_codec import Json, dump, load
from kafkaraw.schemas.serializers.json_validator import InvalidObjectError

if TYPE_CHECKING:
    import pyarrow as pa

    Values = Sequence[Any]

_NONE: Final = type(None)
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_MILLISECONDS_MAX: Final = 9223372036854775
# Kind -> classes that pyarrow converts as they are; other values are looked at one by one.
_DIRECT: Final = {
    JsonKind.STRING: frozenset((str, _NONE)),
    JsonKind.INTEGER: frozenset((int, _NONE)),
    JsonKind.INT32: frozenset((int, _NONE)),
    JsonKind.DATE: frozenset((int, _NONE)),
    JsonKind.TIMESTAMP: frozenset((int, _NONE)),
    JsonKind.NUMBER: frozenset((float, _NONE)),
    JsonKind.BOOLEAN: frozenset((bool, _NONE)),
    JsonKind.OBJECT: frozenset((dict, _NONE)),
    JsonKind.MAP: frozenset((dict, _NONE)),
    JsonKind.ARRAY: frozenset((list, _NONE)),
}
_WHOLE_MAX: Final = {
    JsonKind.INTEGER: _INT64_MAX,
    JsonKind.INT32: _INT32_MAX,
    JsonKind.DATE: _INT32_MAX,
    JsonKind.TIMESTAMP: _MILLISECONDS_MAX,
}
_EXPECTED: Final = {
    JsonKind.STRING: "a string",
    JsonKind.INTEGER: "an integer of 64 bits",
    JsonKind.INT32: "an integer of 32 bits",
    JsonKind.DATE: "days since 1970, an integer of 32 bits",
    JsonKind.TIMESTAMP: "milliseconds since 1970, an integer that fits in microseconds",
    JsonKind.NUMBER: "a number",
    JsonKind.BOOLEAN: "a boolean",
    JsonKind.BYTES: "a string in base64",
    JsonKind.OBJECT: "an object",
    JsonKind.MAP: "an object",
    JsonKind.ARRAY: "an array",
    JsonKind.TEXT: "JSON as text, in UTF-8 and nested at most 254 deep",
}
_SHOWN_MAX: Final = 60
_ROWS_AT_ONCE: Final = 1024
"""Documents that are objects of Python at the same time: these fit into the processor's cache."""


Check = Callable[[Json], None]
"""Raises `InvalidObjectError` if a document does not fit the schema that it was written with."""


def accept(document: Json) -> None:
    """Check nothing."""


def decode_documents(
    kind: JsonType, column: pa.Array, slots: Sequence[int], sizes: Sequence[int], checks: Sequence[Check | None]
) -> tuple[pa.Array, dict[int, str]]:
    """Return the column of framed documents, and the reasons for bad ones, which are null.

    Args:
        kind: the type of the documents.
        column: the records, binary.
        slots: see `documents_of`, as for the other arguments.
        sizes: see there.
        checks: see there.

    Raises:
        BatchTooLargeError: a column would have more than 2 GiB.
    """
    import pyarrow as pa

    arrays: list[pa.Array] = []
    reasons: dict[int, str] = {}
    for begin in range(0, max(len(column), 1), _ROWS_AT_ONCE):
        framed = column.slice(begin, _ROWS_AT_ONCE).to_pylist()
        documents, bad = documents_of(framed, slots[begin : begin + _ROWS_AT_ONCE], sizes, checks)
        made, misfits = build(kind, documents)
        arrays.append(made)
        reasons.update((begin + row, reason) for row, reason in (*bad.items(), *misfits.items()))
    if len(arrays) == 1:
        return arrays[0], reasons
    try:
        return pa.concat_arrays(arrays), reasons
    except pa.ArrowInvalid:  # offsets of 32 bits do not suffice
        raise BatchTooLargeError(COLUMN_FULL) from None


def documents_of(
    framed: Sequence[bytes | None], slots: Sequence[int], sizes: Sequence[int], checks: Sequence[Check | None]
) -> tuple[list[Any], dict[int, str]]:
    """Return the documents, None for null and for bad ones, and the reasons for bad ones.

    Args:
        framed: the records.
        slots: for each record the index of its writer; negative ones are left out.
        sizes: for each writer the bytes in front of the JSON.
        checks: for each writer what checks its documents; None leaves them out.
    """
    documents: list[Any] = []
    reasons: dict[int, str] = {}
    for row, (raw, slot) in enumerate(zip(framed, slots, strict=True)):
        check = checks[slot] if slot >= 0 and raw is not None else None
        document = None
        if check is not None and raw is not None:
            try:
                document = load(raw[sizes[slot] :])
                check(document)
            except InvalidObjectError as error:
                document = None
                reasons[row] = f"the schema that it was written with refuses it: {error}"
            except (ValueError, RecursionError) as error:
                document = None
                reasons[row] = f"it is no JSON: {error}"
        documents.append(document)
    return documents, reasons


def build(kind: JsonType, documents: list[Any]) -> tuple[pa.Array, dict[int, str]]:
    """Return the column of documents, and the reason for each that does not fit and is null.

    Args:
        kind: their type; nullable.
        documents: what JSON has become; None is null. Bad ones are set to None.

    Raises:
        BatchTooLargeError: a column would have more than 2 GiB.
    """
    column, reasons = columns_of(kind), dict[int, str]()
    while True:
        builder = _Builder()
        made = builder.array(kind, column, documents, None, lambda row: row, "")
        if not builder.reasons:
            return made, reasons
        for row, reason in builder.reasons.items():
            documents[row] = None
            reasons[row] = reason


class _Builder:
    """Converts the values of columns, and notes those that do not fit."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}

    def array(
        self,
        kind: JsonType,
        column: Column,
        values: Values,
        parents: Values | None,
        row_of: Callable[[int], int],
        path: str,
    ) -> pa.Array:
        """Return the array of a column.

        Args:
            kind: the type of the values.
            column: its column.
            values: one per row of the column.
            parents: the objects that the values are from; None where there is none, so that a value may be missing.
            row_of: place of a value to the row of its document.
            path: the field.
        """
        classes = set(map(type, values))
        if not _DIRECT.get(kind.kind, frozenset()).issuperset(classes):
            values = self._converted(kind.kind, values, row_of, path)
            classes = set(map(type, values))
        if not kind.nullable and _NONE in classes:
            self._check_required(values, parents, row_of, path)
        match kind.kind:
            case JsonKind.OBJECT:
                return self._struct(kind, column, values, row_of, path, has_nulls=_NONE in classes)
            case JsonKind.ARRAY | JsonKind.MAP:
                return self._list(kind, column, values, row_of, path, has_nulls=_NONE in classes)
        return self._leaf(kind, column, values, row_of, path)

    def _bad(self, row: int, path: str, reason: str) -> None:
        self.reasons.setdefault(row, f"field {path}: {reason}" if path else reason)

    def _converted(self, kind: JsonKind, values: Values, row_of: Callable[[int], int], path: str) -> list[Any]:
        found: list[Any] = []
        for at, value in enumerate(values):
            try:
                found.append(None if value is None else _value(kind, value))
            except (ValueError, OverflowError, TypeError, RecursionError):
                found.append(None)
                self._bad(row_of(at), path, f"it is {_shown(value)}, the column has {_EXPECTED[kind]}")
        return found

    def _check_required(self, values: Values, parents: Values | None, row_of: Callable[[int], int], path: str) -> None:
        for at, value in enumerate(values):
            if value is None and (parents is None or parents[at] is not None):
                self._bad(row_of(at), path, "it is missing or null, and the schema of the columns requires it")

    def _leaf(
        self, kind: JsonType, column: Column, values: Values, row_of: Callable[[int], int], path: str
    ) -> pa.Array:
        import pyarrow as pa

        type_ = arrow_type(column)
        make = _from_milliseconds if kind.kind is JsonKind.TIMESTAMP else pa.array
        try:
            made = make(values, type_)
        except (pa.ArrowException, OverflowError, UnicodeError, ValueError):
            # a number is too large, or a string has half a surrogate pair
            made = make(self._converted(kind.kind, values, row_of, path), type_)
        if isinstance(made, pa.ChunkedArray):
            raise BatchTooLargeError(COLUMN_FULL)
        return made if kind.nullable else _without_nulls(made)

    def _struct(
        self,
        kind: JsonType,
        column: Column,
        values: Values,
        row_of: Callable[[int], int],
        path: str,
        *,
        has_nulls: bool,
    ) -> pa.Array:
        import pyarrow as pa

        fields = []
        for name, inner, child in zip(kind.names, kind.children, column.children, strict=True):
            if has_nulls:
                found = [None if each is None else each.get(name) for each in values]
            else:
                found = [each.get(name) for each in values]
            fields.append(self.array(inner, child, found, values, row_of, f"{path}.{name}" if path else name))
        bits = _valid_bits(values) if kind.nullable and has_nulls else None
        return pa.Array.from_buffers(arrow_type(column), len(values), [bits], children=fields)

    def _list(
        self,
        kind: JsonType,
        column: Column,
        values: Values,
        row_of: Callable[[int], int],
        path: str,
        *,
        has_nulls: bool,
    ) -> pa.Array:
        import pyarrow as pa

        ends, end = array("i", (0,)), 0
        for each in values:
            end += 0 if each is None else len(each)
            if end > _INT32_MAX:
                raise BatchTooLargeError(COLUMN_FULL)
            ends.append(end)
        present = [each for each in values if each]

        def owner(at: int) -> int:
            return row_of(bisect_right(ends, at) - 1)

        bits = _valid_bits(values) if kind.nullable and has_nulls else None
        type_, inner = arrow_type(column), kind.children[0]
        if kind.kind is JsonKind.ARRAY:
            items = list(chain.from_iterable(present))
            children = [self.array(inner, column.children[0], items, None, owner, f"{path}[]")]
        else:
            entries = column.children[0]
            key_type = JsonType(JsonKind.STRING)
            keys = self.array(key_type, entries.children[0], list(chain.from_iterable(present)), None, owner, path)
            held = list(chain.from_iterable(each.values() for each in present))
            made = self.array(inner, entries.children[1], held, None, owner, f"{path}{{}}")
            children = [pa.Array.from_buffers(_entries_type(type_), len(held), [None], children=[keys, made])]
        return pa.Array.from_buffers(type_, len(values), [bits, pa.py_buffer(ends)], children=children)


def _entries_type(map_type: pa.MapType) -> pa.DataType:
    import pyarrow as pa

    return pa.struct([map_type.key_field, map_type.item_field])


def _valid_bits(values: Values) -> pa.Buffer:
    import pyarrow as pa

    return pa.array([each is not None for each in values], pa.bool_()).buffers()[1]


def _from_milliseconds(values: Values, type_: pa.DataType) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, pa.timestamp("ms", "UTC")).cast(type_)


def _without_nulls(made: pa.Array) -> pa.Array:
    """Return the array without its nulls, which are inside null structs: values 0 or empty are in their places."""
    import pyarrow as pa

    if not made.null_count:
        return made
    return pa.Array.from_buffers(made.type, len(made), [None, *made.buffers()[1:]], null_count=0)


def _value(kind: JsonKind, value: Json) -> Json:
    """Return a value as pyarrow takes it.

    Raises:
        ValueError: it is no value of the column.
        OverflowError: likewise; it is too large.
        TypeError: likewise, for JSON text.
        RecursionError: likewise; it is nested too deep.
    """
    match kind:
        case JsonKind.TEXT:
            return dump(value).decode()
        case JsonKind.BYTES if type(value) is str:
            return _from_base64(value)
        case JsonKind.STRING if type(value) is str:
            value.encode()
            return value
        case JsonKind.NUMBER if type(value) in (int, float):
            return float(value)
        case JsonKind.INTEGER | JsonKind.INT32 | JsonKind.DATE | JsonKind.TIMESTAMP if type(value) in (int, float):
            return _whole(kind, value)
    if type(value) not in _DIRECT.get(kind, ()):
        raise ValueError
    return value


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError from None


def _whole(kind: JsonKind, value: float) -> int:
    """Return a number that is an integer, as 1.0 is in JSON Schema."""
    whole = int(value)
    if whole != value or not -_WHOLE_MAX[kind] - 1 <= whole <= _WHOLE_MAX[kind]:
        raise ValueError
    return whole


def _shown(value: Json) -> str:
    try:
        text = dump(value).decode()
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."
