"""Programs that decode Avro: what to read for each part of a writer's schema, and into which column.

A program is a list of nodes with operation, target column, children and an argument. Both decoders run it:
`_decoding` (compiled) and `plain_decoding`. Must not know schemas; `avro_plan` makes programs of them. Start at `Op`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kafkaraw.light_classes import dataclass, field
from kafkaraw.schemas.arrow.columns import Column


class Op(IntEnum):
    """What a node reads; `_decoding.pxd` has the same numbers. `argument` is that of the node."""

    NULL = 0
    """Read nothing, append null."""
    BOOLEAN = 1
    INT_INT32 = 2
    """Read a varint of 32 bits, append it as int32."""
    LONG_INT64 = 3
    """Read a varint of `argument` bits (32 or 64), append it as int64."""
    LONG_TIMES_1000 = 4
    """Read a varint of 64 bits, append it a thousand times as large: milliseconds as microseconds."""
    LONG_FLOAT32 = 5
    """Read a varint of `argument` bits, append it as a float."""
    LONG_FLOAT64 = 6
    FLOAT_FLOAT32 = 7
    FLOAT_FLOAT64 = 8
    DOUBLE_FLOAT64 = 9
    BYTES = 10
    """Read a length and bytes, append them."""
    STRING = 11
    """As BYTES, and the bytes must be UTF-8."""
    FIXED = 12
    """Read `argument` bytes, append them as bytes."""
    DECIMAL_BYTES = 13
    """Read a length and a number in two's complement, highest byte first; it has at most `argument` digits."""
    DECIMAL_FIXED = 14
    """As DECIMAL_BYTES, of `size` bytes."""
    ENUM = 15
    """Read an index into `texts`, append the text; None raises: the reader does not have the symbol."""
    RECORD = 16
    """Run the children in order, append a row to the struct."""
    ARRAY = 17
    """Read blocks of items with the child."""
    MAP = 18
    """Read blocks of keys, and of values with the child."""
    UNION = 19
    """Read the index of a child, run it."""
    FAIL = 20
    """The record cannot be resolved; the first of `texts` says why."""
    MEMBER = 21
    """Run the child, whose target is member `argument` of the struct; the other members are null."""
    DEFAULT = 22
    """Run the child on the bytes `data` instead of the record."""
    SKIP_VARINT = 23
    SKIP_BYTES = 24
    SKIP_FIXED = 25
    """Skip `argument` bytes."""
    SKIP_RECORD = 26
    SKIP_ARRAY = 27
    SKIP_MAP = 28
    SKIP_UNION = 29
    PROTOBUF_MESSAGE = 30
    """Read fields until the end of the message; children are the columns' fields, see `Node.fields`."""
    PROTOBUF_INT32 = 31
    PROTOBUF_INT64 = 32
    PROTOBUF_UINT32 = 33
    PROTOBUF_UINT64 = 34
    """Append as decimal128."""
    PROTOBUF_SINT32 = 35
    PROTOBUF_SINT64 = 36
    PROTOBUF_BOOL = 37
    PROTOBUF_ENUM = 38
    """Append the text of the number; an unknown one is `UNKNOWN_ENUM_VALUE_NAME_n`, as in Java."""
    PROTOBUF_RAW32 = 39
    """Append four bytes as they are: sfixed32 and float."""
    PROTOBUF_RAW64 = 40
    """Append eight bytes as they are: sfixed64 and double."""
    PROTOBUF_UFIXED32 = 41
    PROTOBUF_UFIXED64 = 42
    PROTOBUF_BYTES = 43
    PROTOBUF_STRING = 44
    PROTOBUF_TIMESTAMP = 45
    """Read google.protobuf.Timestamp as microseconds."""
    PROTOBUF_DURATION = 46
    """Read google.protobuf.Duration as microseconds."""


class Fault(IntEnum):
    """Why a record is bad; `_decoding.pxd` has the same numbers."""

    NONE = 0
    TRUNCATED = 1
    VARINT = 2
    INT_RANGE = 3
    NEGATIVE_SIZE = 4
    UTF8 = 5
    BOOLEAN = 6
    BRANCH = 7
    SYMBOL = 8
    UNKNOWN_SYMBOL = 9
    UNRESOLVED = 10
    DIGITS = 11
    OVERFLOW = 12
    ITEMS = 13
    DEPTH = 14
    TRAILING = 15
    COLUMN_FULL = 16
    """Not the record's fault: a column has 2 GiB; raised as an error of the call."""
    MEMORY = 17
    """As COLUMN_FULL: no memory."""
    TWICE = 18
    TAG = 19
    REQUIRED = 20


ITEMS_SPARE: Final = 65_536
"""A record of n bytes may have at most n + this many items in arrays and maps; items may take no bytes."""
DEPTH_MAX: Final = 256
"""Nested values in one record."""


REPEATED: Final = 1
MAP: Final = 2
REQUIRED: Final = 4


@dataclass(slots=True)
class FieldRule:
    """How a Protobuf message has a field.

    Attributes:
        number: the field's number.
        flags: `REPEATED`, `MAP` (with REPEATED), `REQUIRED`, or none.
        oneof: number of its oneof in the message, from 1; 0 without. A later member replaces an earlier one.
    """

    number: int
    flags: int = 0
    oneof: int = 0


@dataclass(slots=True)
class Node:
    """One step of a program.

    Attributes:
        op: what to read.
        target: index of the column it appends to; -1 if it only skips.
        path: where it is in the writer's schema, as in `address.lines[]`, for messages.
        children: indexes of nodes.
        argument: see `Op`.
        size: bytes of a fixed decimal.
        data: see `Op.DEFAULT`.
        texts: see `Op.ENUM` and `Op.FAIL`.
        fields: for each child, how a Protobuf message has it; see `Op.PROTOBUF_MESSAGE`.
        numbers: for each text, the number of a Protobuf enum; the last text, without a number, begins unknown ones.
    """

    op: Op
    target: int
    path: str
    children: tuple[int, ...] = ()
    argument: int = 0
    size: int = 0
    data: bytes = b""
    texts: tuple[str | None, ...] = ()
    fields: tuple[FieldRule, ...] = ()
    numbers: tuple[int, ...] = ()


@dataclass(slots=True)
class Program:
    """Decodes records of one writer's schema into the columns of a reader's.

    Attributes:
        columns: the reader's columns; see `columns.flattened`.
        nodes: the steps.
        root: index of the node with which a record starts.
    """

    columns: Column
    nodes: list[Node] = field(default_factory=list)
    root: int = 0


def explain(program: Program | None, fault: int, node: int, position: int, detail: int, size: int) -> str:
    """Return the reason for a bad record.

    Args:
        program: that decoded the record.
        fault: a `Fault`.
        node: index of the node that failed.
        position: byte in the payload, from 0.
        detail: the value that was refused.
        size: bytes of the payload.
    """
    step = None if program is None else program.nodes[node]
    where = f"byte {position} of {size}" + (f", field {step.path}" if step is not None and step.path else "")
    if step is not None and fault == Fault.UNRESOLVED:
        return f"{where}: {step.texts[0]}"
    return f"{where}: {_REASONS[Fault(fault)].format(detail=detail, left=max(size - position, 0))}"


_REASONS: Final = {
    Fault.TRUNCATED: "{detail} bytes are needed, {left} are left: the record is truncated or damaged",
    Fault.VARINT: "a number does not end within ten bytes",
    Fault.INT_RANGE: "the int {detail} does not fit 32 bits",
    Fault.NEGATIVE_SIZE: "a size of {detail} is negative",
    Fault.UTF8: "the string is not UTF-8",
    Fault.BOOLEAN: "a boolean is {detail}, it can be 0 or 1",
    Fault.BRANCH: "the union has no branch {detail}",
    Fault.SYMBOL: "the enum has no symbol {detail}",
    Fault.UNKNOWN_SYMBOL: "the reader's enum has neither the symbol number {detail} of the writer nor a default",
    Fault.UNRESOLVED: "it cannot be resolved",
    Fault.DIGITS: "the decimal has more digits than its precision",
    Fault.OVERFLOW: "{detail} milliseconds do not fit in microseconds",
    Fault.ITEMS: "an array or map of {detail} items is more than the record can hold",
    Fault.DEPTH: f"values are nested more than {DEPTH_MAX} deep",
    Fault.TWICE: "field number {detail} has two messages, which would have to be merged",
    Fault.TAG: "{detail} is no tag of a field: the record is damaged",
    Fault.REQUIRED: "the required field number {detail} is missing",
    Fault.TRAILING: "{detail} bytes follow the record: it was written with another schema",
}


COLUMN_FULL: Final = "a column would have more than the 2 GiB that Arrow's binary type can address; decode fewer rows"
