"""JSON objects as an Arrow array, as far as they are plain: fast, and never wrong.

`JsonObjects` decodes an object whose every field is written in a form that needs no rule: an integer without a fraction
for an integer, a timestamp with all its parts. Any other record becomes null, and another decoder decides
about it: that includes records that another decoder would accept, and all that are bad. Null fields and fields that the
schema does not have are plain, repeated fields are not.

Only the compiled module does it; without it, `JsonObjects.of` returns None. Must not know why a record is not plain.
Start at `JsonObjects.of`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kafkaraw.records import IMPLEMENTATION

if TYPE_CHECKING:
    import pyarrow as pa

    Description: TypeAlias = tuple[int, int, int, int, int, int, bool, str]
    Buffers: TypeAlias = tuple[int, list[memoryview | None]]


class Reader(Protocol):
    """`Reader` of the compiled module."""

    def read(
        self, validity: pa.Buffer | None, offsets: pa.Buffer, data: pa.Buffer | None, start: int, rows: int
    ) -> list[Buffers]:
        """Return nulls and buffers of each field for rows of a binary array."""
        ...


_MODULE: Final = "_json_objects"
_DEPTH_MAX: Final = 50
_FIELDS_MAX: Final = 2_000


class Form(IntEnum):
    """How the value of a field is written; `_json_objects.pxd` has the same numbers."""

    BOOLEAN = 0
    INTEGER = 1
    FLOAT = 2
    DOUBLE = 3
    DECIMAL = 4
    STRING = 5
    DATE = 6
    TIMESTAMP = 7
    """With a time zone."""
    LOCAL = 8
    """Without a time zone."""
    ANY_TIMESTAMP = 9
    """Without a time zone, it is UTC."""
    STRUCT = 10


class JsonObjects:
    """Decodes plain JSON objects of one type.

    Args:
        kind: the struct, whose fields that are not nullable must be present.
        reader: of the compiled module, for it.
    """

    def __init__(self, kind: pa.StructType, reader: Reader) -> None:
        self.type: pa.StructType = nullable(kind)
        """The struct with nullable fields: of the result."""
        self._reader = reader

    @classmethod
    def of(cls, kind: pa.StructType, *, utc: bool) -> JsonObjects | None:
        """Return a decoder; None if there is none for the type, or no compiled module.

        Args:
            kind: the struct. Fields that are not nullable must be present.
            utc: whether timestamps without a time zone are UTC; if not, they are not plain.
        """
        described = _described(kind, utc=utc)
        if described is None or not is_compiled():
            return None
        return cls(kind, import_module(f"{__name__.rpartition('.')[0]}.{_MODULE}").Reader(described))

    def decode(self, values: pa.Array) -> pa.StructArray:
        """Return a row for each value of a binary array; null for null, and for what is not plain.

        Raises:
            BatchTooLargeError: a column would have more than 2 GiB.
        """
        validity, offsets, data = values.buffers()
        taken = self._reader.read(validity, offsets, data, values.offset, len(values))
        columns = iter(taken)
        return _struct(self.type, len(values), columns, next(columns))


def is_compiled() -> bool:
    """Return whether the compiled module is there, and in use."""
    if IMPLEMENTATION != "native":
        return False
    finder = FileFinder(os.path.dirname(__file__), (ExtensionFileLoader, EXTENSION_SUFFIXES))
    return finder.find_spec(_MODULE) is not None


def nullable(kind: pa.DataType) -> pa.DataType:
    """Return the type with nullable fields, also in structs within structs."""
    import pyarrow as pa

    if not pa.types.is_struct(kind):
        return kind
    return pa.struct([pa.field(each.name, nullable(each.type), metadata=each.metadata) for each in kind])


def _described(kind: pa.StructType, *, utc: bool) -> list[Description] | None:
    """Return what `Reader` takes: fields of a struct side by side, and behind it; None if a type has no form."""
    found: list[Description] = []
    pending: list[tuple[pa.DataType, bool, str, int]] = [(kind, False, "", 0)]
    at = 0
    while at < len(pending):
        each, required, name, depth = pending[at]
        form = _form(each, utc=utc)
        if form is None or depth > _DEPTH_MAX or at >= _FIELDS_MAX:
            return None
        first = count = digits = scale = 0
        if form is Form.STRUCT:
            fields = list(each)
            if not fields or len({field.name for field in fields}) != len(fields):
                return None
            first, count = len(pending), len(fields)
            pending += [(field.type, not field.nullable, field.name, depth + 1) for field in fields]
        elif form is Form.DECIMAL:
            digits, scale = each.precision - each.scale, each.scale
        found.append((form, _width(each, form), first, count, digits, scale, required, name))
        at += 1
    return found


def _form(kind: pa.DataType, *, utc: bool) -> Form | None:
    import pyarrow as pa

    types = pa.types
    if types.is_timestamp(kind):
        if kind.unit != "us":
            return None
        if kind.tz is None:
            return Form.LOCAL
        return Form.ANY_TIMESTAMP if utc else Form.TIMESTAMP
    forms = {
        types.is_struct: Form.STRUCT,
        types.is_boolean: Form.BOOLEAN,
        types.is_signed_integer: Form.INTEGER,
        types.is_float32: Form.FLOAT,
        types.is_float64: Form.DOUBLE,
        types.is_decimal128: Form.DECIMAL,
        types.is_string: Form.STRING,
        types.is_date32: Form.DATE,
    }
    return next((form for fits, form in forms.items() if fits(kind)), None)


def _width(kind: pa.DataType, form: Form) -> int:
    if form in (Form.STRUCT, Form.STRING):
        return 0
    return 1 if form is Form.BOOLEAN else int(kind.bit_width) // 8


def _struct(kind: pa.StructType, rows: int, columns: Iterator[Buffers], own: Buffers) -> pa.StructArray:
    """Return an array of what `Reader.read` returned; its order is that of `_described`."""
    import pyarrow as pa

    order: list[tuple[pa.DataType, Buffers, list[int]]] = [(kind, own, [])]
    at = 0
    while at < len(order):
        each, _, children = order[at]
        if pa.types.is_struct(each):
            for field in each:
                children.append(len(order))
                order.append((field.type, next(columns), []))
        at += 1
    arrays: dict[int, pa.Array] = {}
    for index in reversed(range(len(order))):
        each, (nulls, raw), children = order[index]
        buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in raw]
        inner = [arrays.pop(child) for child in children]
        arrays[index] = pa.Array.from_buffers(each, rows, buffers, null_count=nulls, children=inner)
    return arrays[0]
