"""Programs that encode columns as Avro or Protobuf: what to write for each part of a schema, and from which column.

Both encoders run them: `_encoding` (compiled) and `plain_encoding`. Must not know schemas; `avro_encode_plan` and
`protobuf_encode_plan` make programs of them. Start at `EncodeOp`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kafkaraw.light_classes import dataclass, field
from kafkaraw.schemas.arrow.columns import Column, flattened


class EncodeOp(IntEnum):
    """What a node writes; `_encoding.pxd` has the same numbers. `argument` is that of the node."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    """Write int32 as a varint."""
    LONG = 3
    """Write int64 as a varint."""
    MILLISECONDS = 4
    """Write int64 divided by 1000, rounded down: microseconds as milliseconds."""
    FLOAT = 5
    DOUBLE = 6
    BYTES = 7
    """Write the length and the bytes."""
    FIXED = 8
    """Write the bytes, which are `argument` bytes."""
    DECIMAL_BYTES = 9
    """Write decimal128 in the fewest bytes, highest first, with their number before them."""
    DECIMAL_FIXED = 10
    """Write decimal128 in `argument` bytes."""
    ENUM = 11
    """Write the index of the string in `texts`."""
    RECORD = 12
    ARRAY = 13
    MAP = 14
    NULLABLE = 15
    """Write the branch: `argument` of null, or `value_branch`, and run the child."""
    MEMBERS = 16
    """Write the branch of the one member that is not null; children are the members, `branches` their branches."""
    PROTOBUF_MESSAGE = 17
    """Write the fields with the children; `argument` 0 is the record itself, without tag and size.

    `argument` of this and of all operations below is the tag of the field, 0 for none; `presence` says what is written
    for null and for zero.
    """
    PROTOBUF_REPEATED = 18
    """Write each item of a list with the child, which has the tag."""
    PROTOBUF_PACKED = 19
    """Write tag, size, and each item of a list with the child."""
    PROTOBUF_MAP = 20
    """Write each entry as a message; children write key and value."""
    PROTOBUF_ONEOF = 21
    """Write nothing; at most one of the columns `branches` may not be null."""
    PROTOBUF_BYTES = 22
    PROTOBUF_TIMESTAMP = 23
    """Write microseconds as google.protobuf.Timestamp."""
    PROTOBUF_DURATION = 24
    """Write microseconds as google.protobuf.Duration, both of its numbers with the same sign."""
    PROTOBUF_RAW32 = 25
    """Write four bytes as they are: sfixed32 and float."""
    PROTOBUF_RAW64 = 26
    """Write eight bytes as they are: sfixed64 and double."""
    PROTOBUF_UFIXED32 = 27
    """Write int64 as four bytes."""
    PROTOBUF_UFIXED64 = 28
    """Write decimal128 as eight bytes."""
    PROTOBUF_INT32 = 29
    PROTOBUF_INT64 = 30
    PROTOBUF_UINT32 = 31
    """Write int64 as a varint."""
    PROTOBUF_UINT64 = 32
    """Write decimal128 as a varint."""
    PROTOBUF_SINT32 = 33
    PROTOBUF_SINT64 = 34
    PROTOBUF_BOOL = 35
    PROTOBUF_ENUM = 36
    """Write the number in `branches` of the string in `texts`; the last text, without a number, begins unknown ones."""


class Presence(IntEnum):
    """What a Protobuf field writes for null and for zero; `_encoding.pxd` has the same numbers."""

    IMPLICIT = 0
    """Nothing for both: proto3 without `optional`."""
    EXPLICIT = 1
    """Nothing for null."""
    REQUIRED = 2
    """Null cannot be written: required fields of proto2, items of lists, values of maps."""


class EncodeFault(IntEnum):
    """Why a value cannot be encoded; `_encoding.pxd` has the same numbers."""

    NONE = 0
    NULL = 1
    FIXED_SIZE = 2
    SYMBOL = 3
    MEMBERS = 4
    DECIMAL_SIZE = 5
    MEMORY = 6
    TOO_LARGE = 7
    UINT32 = 8
    UINT64 = 9
    ONEOF = 10


@dataclass(slots=True)
class EncodeNode:
    """One step of a program.

    Attributes:
        op: what to write.
        source: index of the column it reads.
        path: the field, for messages.
        children: indexes of nodes.
        argument: see `EncodeOp`; branch of null in a union, -1 if it has none.
        value_branch: see `EncodeOp.NULLABLE`.
        branches: see `EncodeOp.MEMBERS`, `PROTOBUF_ONEOF` and `PROTOBUF_ENUM`.
        texts: symbols of an enum.
        presence: of a Protobuf field.
    """

    op: EncodeOp
    source: int
    path: str
    children: tuple[int, ...] = ()
    argument: int = 0
    value_branch: int = 0
    branches: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    presence: Presence = Presence.EXPLICIT


@dataclass(slots=True)
class EncodeProgram:
    """Encodes rows of columns as records of a schema.

    Attributes:
        columns: the columns; see `columns.flattened`.
        nodes: the steps.
        root: index of the node with which a record starts.
    """

    columns: Column
    nodes: list[EncodeNode] = field(default_factory=list)
    root: int = 0


class EncodePlan:
    """A program that is being made; the plans of the languages add its nodes.

    Args:
        columns: what it reads.

    Attributes:
        program: the program.
        flat: the columns by their indexes, each with the index of its first child.
    """

    def __init__(self, columns: Column) -> None:
        self.program: EncodeProgram = EncodeProgram(columns)
        self.flat: list[tuple[Column, int]] = flattened(columns)

    def add(self, op: EncodeOp, source: int, path: str, **values: object) -> int:
        """Add a node, and return its index; `values` are the other attributes of `EncodeNode`."""
        self.program.nodes.append(EncodeNode(op, source, path, **values))  # type: ignore[arg-type]  # by name
        return len(self.program.nodes) - 1


_REASONS: Final = {
    EncodeFault.NULL: "it is null, and the schema has no null there",
    EncodeFault.FIXED_SIZE: "it has {detail} bytes, and the schema's fixed has {argument}",
    EncodeFault.SYMBOL: "it is none of the enum's symbols {texts}",
    EncodeFault.MEMBERS: "{detail} members of a union are not null; one must be, or none if the union has null",
    EncodeFault.UINT32: "{detail} is not a number from 0 to 4294967295",
    EncodeFault.UINT64: "it is not a number from 0 to 18446744073709551615",
    EncodeFault.ONEOF: "{detail} members of the oneof are not null; at most one may be",
    EncodeFault.DECIMAL_SIZE: "the decimal does not fit the {argument} bytes of the schema's fixed",
}

OUTPUT_FULL: Final = "the encoded column would have more than the 2 GiB that Arrow's binary type can address"


def explain(program: EncodeProgram, fault: int, node: int, detail: int) -> str:
    """Return why a value cannot be encoded."""
    step = program.nodes[node]
    reason = _REASONS[EncodeFault(fault)]
    symbols = step.texts[:-1] if step.op is EncodeOp.PROTOBUF_ENUM else step.texts
    text = reason.format(detail=detail, argument=step.argument, texts=", ".join(symbols[:10]))
    return f"field {step.path}: {text}" if step.path else text
