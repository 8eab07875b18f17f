"""The columns that records of a schema are decoded into, and their Arrow types.

A schema of any language becomes a tree of `Column`. Its kinds are those that the decoders know; `arrow_type` converts
a column into an Arrow type. Imports pyarrow only when a type is requested. Start at `Column`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from kafkaraw.light_classes import dataclass, field

if TYPE_CHECKING:
    import pyarrow as pa


class Kind(IntEnum):
    """How the values of a column are stored; `_decoding.pxd` has the same numbers."""

    NULL = 0
    BOOLEAN = 1
    """One bit per row in Arrow, one byte per row while it is filled."""
    FIXED_WIDTH = 2
    """Numbers, dates, timestamps, decimals, fixed-size binary: `Column.width` bytes per row."""
    VARIABLE = 3
    """Strings and bytes with offsets."""
    LIST = 4
    """Lists, and maps as lists of (key, value)."""
    STRUCT = 5


class Type(IntEnum):
    """Type of a column; each has one Arrow type."""

    NULL = 0
    BOOLEAN = 1
    INT32 = 2
    INT64 = 3
    FLOAT32 = 4
    FLOAT64 = 5
    STRING = 6
    BINARY = 7
    DATE = 8
    TIMESTAMP_UTC = 9
    TIMESTAMP_LOCAL = 10
    DECIMAL = 11
    LIST = 12
    MAP = 13
    STRUCT = 14
    DURATION = 15


_WIDTHS: Final = {
    Type.INT32: 4,
    Type.INT64: 8,
    Type.FLOAT32: 4,
    Type.FLOAT64: 8,
    Type.DATE: 4,
    Type.TIMESTAMP_UTC: 8,
    Type.TIMESTAMP_LOCAL: 8,
    Type.DECIMAL: 16,
    Type.DURATION: 8,
}
_KINDS: Final = {
    Type.NULL: Kind.NULL,
    Type.BOOLEAN: Kind.BOOLEAN,
    Type.STRING: Kind.VARIABLE,
    Type.BINARY: Kind.VARIABLE,
    Type.LIST: Kind.LIST,
    Type.MAP: Kind.LIST,
    Type.STRUCT: Kind.STRUCT,
}

DECIMAL_PRECISION_MAX: Final = 38
"""Of Arrow's decimal128 and of Spark's DecimalType."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the result, with its children.

    Attributes:
        name: name of the field; "" for the root.
        type: type of the values.
        nullable: whether a record may have no value here.
        children: fields of a struct; the element of a list; key and value of a map.
        precision: of a decimal: its digits.
        scale: of a decimal: its digits behind the point.
    """

    name: str
    type: Type
    nullable: bool = False
    children: tuple[Column, ...] = field(default=())
    precision: int = 0
    scale: int = 0

    @property
    def kind(self) -> Kind:
        """How the values are stored."""
        return _KINDS.get(self.type, Kind.FIXED_WIDTH)

    @property
    def width(self) -> int:
        """Bytes per row of a column of fixed width, else 0."""
        return _WIDTHS.get(self.type, 0)

    def named(self, name: str, *, nullable: bool | None = None) -> Column:
        """Return the same column under another name."""
        keeps = self.nullable if nullable is None else nullable
        return Column(name, self.type, keeps, self.children, self.precision, self.scale)


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column, with the names that Spark gives to the children of lists and maps."""
    import pyarrow as pa

    match column.type:
        case Type.STRUCT:
            return pa.struct([arrow_field(each) for each in column.children])
        case Type.LIST:
            return pa.list_(arrow_field(column.children[0].named("element")))
        case Type.MAP:
            key, value = column.children[0].children
            return pa.map_(arrow_type(key), arrow_field(value.named("value")))
        case Type.DECIMAL:
            return pa.decimal128(column.precision, column.scale)
    plain = {
        Type.NULL: pa.null(),
        Type.BOOLEAN: pa.bool_(),
        Type.INT32: pa.int32(),
        Type.INT64: pa.int64(),
        Type.FLOAT32: pa.float32(),
        Type.FLOAT64: pa.float64(),
        Type.STRING: pa.string(),
        Type.BINARY: pa.binary(),
        Type.DATE: pa.date32(),
        Type.TIMESTAMP_UTC: pa.timestamp("us", "UTC"),
        Type.TIMESTAMP_LOCAL: pa.timestamp("us"),
        Type.DURATION: pa.duration("us"),
    }
    return plain[column.type]


def arrow_field(column: Column) -> pa.Field:
    """Return the Arrow field of a column."""
    import pyarrow as pa

    return pa.field(column.name, arrow_type(column), nullable=column.nullable)


def flattened(root: Column) -> list[tuple[Column, int]]:
    """Return all columns, a parent before its children, children side by side, each with the index of its first child.

    The root has index 0; a column without children has the index 0 as its first child.
    """
    found: list[tuple[Column, int]] = [(root, 0)]
    at = 0
    while at < len(found):
        column = found[at][0]
        if column.children:
            found[at] = column, len(found)
            found += [(child, 0) for child in column.children]
        at += 1
    return found
