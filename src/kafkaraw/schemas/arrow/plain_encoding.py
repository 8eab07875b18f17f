"""Encoding of columns as Avro records in plain Python: the twin of `_encoding`, and the documentation of its interface.

Used where the compiled module is not there, and in tests as a second implementation. Start at `encode`.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkaraw.errors import BatchTooLargeError
from kafkaraw.schemas.arrow.encode_program import OUTPUT_FULL, EncodeFault, EncodeNode, EncodeOp, EncodeProgram

if TYPE_CHECKING:
    from kafkaraw.schemas.arrow.assembling import Buffer

Source = tuple["Buffer | None", "Buffer | None", "Buffer | None", int, int]
_SIZE_MAX = 2**31 - 1


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
    ends = array("i", (0,))
    for row in range(rows):
        if not run.is_null(0, row):
            run.out += prefix
            try:
                run.write(program.root, row)
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
        left = (value << 1) ^ (value >> 63)
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
