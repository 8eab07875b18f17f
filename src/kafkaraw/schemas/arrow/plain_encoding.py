"""Encoding of columns as Avro or Protobuf records in plain Python: the twin of `_encoding`, with its documentation.

Used where the compiled module is not there, and in tests as a second implementation. Start at `encode`.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkaraw.errors import BatchTooLargeError
from kafkaraw.schemas.arrow.encode_program import (
    OUTPUT_FULL,
    EncodeFault,
    EncodeNode,
    EncodeOp,
    EncodeProgram,
    Presence,
)

if TYPE_CHECKING:
    from kafkaraw.schemas.arrow.assembling import Buffer

Source = tuple["Buffer | None", "Buffer | None", "Buffer | None", int, int]
_SIZE_MAX = 2**31 - 1
_UNKNOWN_NUMBER = re.compile(rb"-?[0-9]{1,10}", re.ASCII)


class _BadValue(Exception):
    def __init__(self, fault: EncodeFault, node: int, detail: int = 0) -> None:
        self.fault, self.node, self.detail = fault, node, detail


def encode(
    program: EncodeProgram, sources: Sequence[Source], rows: int, prefix: bytes
) -> tuple[Buffer, Buffer] | tuple[int, int, int, int]:
    """Encode rows as records.

    Args:
        program: what to write.
        sources: for each column, in the order of `columns.flattened`: validity, offsets, data, the first row in these
            buffers, the index of the first child.
        rows: number of rows.
        prefix: bytes before each record.

    Returns:
        offsets (int32) and bytes of the records; nothing for rows of which the root is null. Or, for the first row that
        cannot be encoded: row, `EncodeFault`, node, detail; see `encode_program.explain`.

    Raises:
        BatchTooLargeError: the records have more than 2 GiB.
    """
    run = _Run(program, sources)
    write = run.field if program.nodes[program.root].op >= EncodeOp.PROTOBUF_MESSAGE else run.write
    ends = array("i", (0,))
    for row in range(rows):
        if not run.is_null(0, row):
            run.out += prefix
            try:
                write(program.root, row)
            except _BadValue as bad:
                return row, bad.fault, bad.node, bad.detail
        if len(run.out) > _SIZE_MAX:
            raise BatchTooLargeError(OUTPUT_FULL)
        ends.append(len(run.out))
    return ends, run.out


class _Run:
    def __init__(self, program: EncodeProgram, sources: Sequence[Source]) -> None:
        self._nodes = program.nodes
        self._sources = [
            (
                None if validity is None else memoryview(validity).cast("B"),
                None if ends is None else memoryview(ends).cast("B").cast("i"),
                b"" if data is None else memoryview(data).cast("B"),
                start,
                first,
            )
            for validity, ends, data, start, first in sources
        ]
        self.out = bytearray()

    def is_null(self, source: int, row: int) -> bool:
        validity, _, _, start, _ = self._sources[source]
        return validity is not None and not validity[start + row >> 3] >> (start + row & 7) & 1

    def write(self, index: int, row: int) -> None:
        """Write the value of a row."""
        node = self._nodes[index]
        match node.op:
            case EncodeOp.NULL:
                return
            case EncodeOp.NULLABLE:
                return self._nullable(index, node, row)
            case EncodeOp.MEMBERS:
                return self._members(index, node, row)
        if self.is_null(node.source, row):
            raise _BadValue(EncodeFault.NULL, index)
        match node.op:
            case EncodeOp.RECORD:
                for child in node.children:
                    self.write(child, row)
            case EncodeOp.ARRAY | EncodeOp.MAP:
                self._nested(node, row)
            case EncodeOp.BYTES | EncodeOp.FIXED | EncodeOp.ENUM:
                self._text(index, node, row)
            case EncodeOp.DECIMAL_BYTES | EncodeOp.DECIMAL_FIXED:
                self._decimal(index, node, row)
            case _:
                self._number(node, row)

    def _varint(self, value: int) -> None:
        self._unsigned((value << 1) ^ (value >> 63))

    def _unsigned(self, left: int) -> None:
        while left > 0x7F:
            self.out.append(left & 0x7F | 0x80)
            left >>= 7
        self.out.append(left)

    def _number(self, node: EncodeNode, row: int) -> None:
        _, _, data, start, _ = self._sources[node.source]
        at = start + row
        match node.op:
            case EncodeOp.BOOLEAN:
                self.out.append(data[at >> 3] >> (at & 7) & 1)
            case EncodeOp.INT:
                self._varint(struct.unpack_from("<i", data, 4 * at)[0])
            case EncodeOp.LONG:
                self._varint(struct.unpack_from("<q", data, 8 * at)[0])
            case EncodeOp.MILLISECONDS:
                self._varint(struct.unpack_from("<q", data, 8 * at)[0] // 1000)
            case EncodeOp.FLOAT:
                self.out += data[4 * at : 4 * at + 4]
            case _:
                self.out += data[8 * at : 8 * at + 8]

    def _bytes_of(self, source: int, row: int) -> bytes:
        _, ends, data, start, _ = self._sources[source]
        assert ends is not None
        return bytes(data[ends[start + row] : ends[start + row + 1]])

    def _text(self, index: int, node: EncodeNode, row: int) -> None:
        raw = self._bytes_of(node.source, row)
        match node.op:
            case EncodeOp.BYTES:
                self._varint(len(raw))
                self.out += raw
            case EncodeOp.FIXED:
                if len(raw) != node.argument:
                    raise _BadValue(EncodeFault.FIXED_SIZE, index, len(raw))
                self.out += raw
            case _:
                if raw.decode() not in node.texts:
                    raise _BadValue(EncodeFault.SYMBOL, index)
                self._varint(node.texts.index(raw.decode()))

    def _decimal(self, index: int, node: EncodeNode, row: int) -> None:
        _, _, data, start, _ = self._sources[node.source]
        at = 16 * (start + row)
        value = int.from_bytes(data[at : at + 16], "little", signed=True)
        size = (value if value >= 0 else ~value).bit_length() // 8 + 1
        if node.op is EncodeOp.DECIMAL_BYTES:
            self._varint(size)
        elif size > node.argument:
            raise _BadValue(EncodeFault.DECIMAL_SIZE, index, size)
        else:
            size = node.argument
        self.out += value.to_bytes(size, "big", signed=True)

    def _nullable(self, index: int, node: EncodeNode, row: int) -> None:
        if node.children[0] < 0 or self.is_null(node.source, row):
            if node.argument < 0:
                raise _BadValue(EncodeFault.NULL, index)
            return self._varint(node.argument)
        self._varint(node.value_branch)
        return self.write(node.children[0], row)

    def _members(self, index: int, node: EncodeNode, row: int) -> None:
        first = self._sources[node.source][4]
        present = [] if self.is_null(node.source, row) else range(len(node.children))
        found = [member for member in present if not self.is_null(first + member, row)]
        if len(found) > 1 or (not found and node.argument < 0):
            raise _BadValue(EncodeFault.MEMBERS, index, len(found))
        if not found:
            return self._varint(node.argument)
        self._varint(node.branches[found[0]])
        return self.write(node.children[found[0]], row)

    def _nested(self, node: EncodeNode, row: int) -> None:
        _, ends, _, start, first = self._sources[node.source]
        assert ends is not None
        begin, end = ends[start + row], ends[start + row + 1]
        if end > begin:
            self._varint(end - begin)
        for item in range(begin, end):
            if node.op is EncodeOp.MAP:
                key = self._bytes_of(self._sources[first][4], item)
                self._varint(len(key))
                self.out += key
            self.write(node.children[0], item)
        self._varint(0)

    # -- Protobuf

    def field(self, index: int, row: int) -> None:
        """Write a field of a row."""
        node = self._nodes[index]
        if node.op is EncodeOp.PROTOBUF_ONEOF:
            count = sum(not self.is_null(member, row) for member in node.branches)
            if count > 1:
                raise _BadValue(EncodeFault.ONEOF, index, count)
            return
        if self.is_null(node.source, row):
            if node.presence is Presence.REQUIRED:
                raise _BadValue(EncodeFault.NULL, index)
            return
        match node.op:
            case EncodeOp.PROTOBUF_BYTES:
                raw = self._bytes_of(node.source, row)
                if raw or node.presence is not Presence.IMPLICIT:
                    self._sized(node.argument, raw)
            case EncodeOp.PROTOBUF_MESSAGE if node.argument == 0:
                for child in node.children:
                    self.field(child, row)
            case EncodeOp.PROTOBUF_MESSAGE:
                self._message(node.argument, node.children, row)
            case EncodeOp.PROTOBUF_TIMESTAMP | EncodeOp.PROTOBUF_DURATION:
                self._time(node, row)
            case EncodeOp.PROTOBUF_REPEATED | EncodeOp.PROTOBUF_PACKED | EncodeOp.PROTOBUF_MAP:
                self._items(node, row)
            case _:
                self._protobuf_number(index, node, row)

    def _sized(self, tag: int, raw: bytes | bytearray) -> None:
        self._unsigned(tag)
        self._unsigned(len(raw))
        self.out += raw

    def _message(self, tag: int, children: Sequence[int], row: int) -> None:
        before, self.out = self.out, bytearray()
        try:
            for child in children:
                self.field(child, row)
        finally:
            before, self.out = self.out, before
        self._sized(tag, before)

    def _time(self, node: EncodeNode, row: int) -> None:
        _, _, data, start, _ = self._sources[node.source]
        value = struct.unpack_from("<q", data, 8 * (start + row))[0]
        seconds, microseconds = divmod(value, 1_000_000)
        if node.op is EncodeOp.PROTOBUF_DURATION and value < 0:
            seconds, microseconds = (-each for each in divmod(-value, 1_000_000))
        before, self.out = self.out, bytearray()
        for tag, number in ((8, seconds), (16, microseconds * 1000)):
            if number:
                self._unsigned(tag)
                self._unsigned(number % 2**64)
        before, self.out = self.out, before
        self._sized(node.argument, before)

    def _items(self, node: EncodeNode, row: int) -> None:
        _, ends, _, start, _ = self._sources[node.source]
        assert ends is not None
        items = range(ends[start + row], ends[start + row + 1])
        if not items:
            return
        if node.op is EncodeOp.PROTOBUF_MAP:
            for item in items:
                self._message(node.argument, node.children, item)
            return
        before, self.out = self.out, self.out if node.op is EncodeOp.PROTOBUF_REPEATED else bytearray()
        for item in items:
            self.field(node.children[0], item)
        if node.op is EncodeOp.PROTOBUF_PACKED:
            before, self.out = self.out, before
            self._sized(node.argument, before)

    def _protobuf_number(self, index: int, node: EncodeNode, row: int) -> None:
        value, size = self._number_of(index, node, row)
        if value == 0 and node.presence is Presence.IMPLICIT:
            return
        if node.argument:
            self._unsigned(node.argument)
        if size:
            self.out += (value % 2 ** (8 * size)).to_bytes(size, "little")
        elif node.op in (EncodeOp.PROTOBUF_SINT32, EncodeOp.PROTOBUF_SINT64):
            self._varint(value)
        else:
            self._unsigned(value % 2**64)

    def _number_of(self, index: int, node: EncodeNode, row: int) -> tuple[int, int]:
        """Return a number, and its bytes if it is no varint."""
        _, _, data, start, _ = self._sources[node.source]
        at = start + row
        match node.op:
            case EncodeOp.PROTOBUF_RAW32 | EncodeOp.PROTOBUF_INT32 | EncodeOp.PROTOBUF_SINT32:
                size = 4 if node.op is EncodeOp.PROTOBUF_RAW32 else 0
                return struct.unpack_from("<i", data, 4 * at)[0], size
            case EncodeOp.PROTOBUF_RAW64 | EncodeOp.PROTOBUF_INT64 | EncodeOp.PROTOBUF_SINT64:
                size = 8 if node.op is EncodeOp.PROTOBUF_RAW64 else 0
                return struct.unpack_from("<q", data, 8 * at)[0], size
            case EncodeOp.PROTOBUF_BOOL:
                return data[at >> 3] >> (at & 7) & 1, 0
            case EncodeOp.PROTOBUF_ENUM:
                return self._enum_number(index, node, row), 0
            case EncodeOp.PROTOBUF_UINT32 | EncodeOp.PROTOBUF_UFIXED32:
                value = struct.unpack_from("<q", data, 8 * at)[0]
                if not 0 <= value < 2**32:
                    raise _BadValue(EncodeFault.UINT32, index, value)
                return value, 4 if node.op is EncodeOp.PROTOBUF_UFIXED32 else 0
        value, high = struct.unpack_from("<Qq", data, 16 * at)
        if high:
            raise _BadValue(EncodeFault.UINT64, index)
        return value, 8 if node.op is EncodeOp.PROTOBUF_UFIXED64 else 0

    def _enum_number(self, index: int, node: EncodeNode, row: int) -> int:
        raw = self._bytes_of(node.source, row)
        *known, unknown = (each.encode() for each in node.texts)
        if raw in known:
            return node.branches[known.index(raw)]
        number = raw[len(unknown) :]
        if not raw.startswith(unknown) or not _UNKNOWN_NUMBER.fullmatch(number):
            raise _BadValue(EncodeFault.SYMBOL, index)
        if not -(2**31) <= int(number) < 2**31:
            raise _BadValue(EncodeFault.SYMBOL, index)
        return int(number)
