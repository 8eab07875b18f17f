"""Decoding of records into columns in plain Python: the twin of `_decoding`, and the documentation of its interface.

Used where the compiled module is not there, and in tests as a second implementation. Start at `Decoder`.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from kafkaraw.errors import BatchTooLargeError
from kafkaraw.schemas.arrow.columns import Column, Kind, flattened
from kafkaraw.schemas.arrow.program import (
    COLUMN_FULL,
    DEPTH_MAX,
    ITEMS_SPARE,
    REPEATED,
    REQUIRED,
    Fault,
    Node,
    Op,
    Program,
)
from kafkaraw.schemas.serializers._avro_codec import to_single

if TYPE_CHECKING:
    from kafkaraw.schemas.arrow.assembling import Buffer

_DATA_SIZE_MAX: Final = 2**31 - 1
_INT32_MAX: Final = 2**31 - 1
_MICROSECONDS_MAX: Final = 9223372036854775
_SECONDS_MAX: Final = 9223372036853
# Operation -> wire type of its values, if it is not 2.
_WIRES: Final = {
    **dict.fromkeys(range(Op.PROTOBUF_INT32, Op.PROTOBUF_ENUM + 1), 0),
    Op.PROTOBUF_RAW64: 1,
    Op.PROTOBUF_UFIXED64: 1,
    Op.PROTOBUF_RAW32: 5,
    Op.PROTOBUF_UFIXED32: 5,
}


def _signed(raw: int, bits: int) -> int:
    raw &= (1 << bits) - 1
    return raw - (1 << bits) if raw >> (bits - 1) else raw


class _BadRecord(Exception):
    """A record cannot be decoded; as the compiled module notes it in its state."""

    def __init__(self, fault: Fault, node: int, position: int, detail: int = 0) -> None:
        self.fault, self.node, self.position, self.detail = fault, node, position, detail


class _Target:
    """A column while it is filled."""

    def __init__(self, column: Column, first: int) -> None:
        self.kind = column.kind
        self.nullable = column.nullable
        self.width = 1 if column.kind is Kind.BOOLEAN else column.width
        self.children = range(first, first + len(column.children))
        self.reset()

    def reset(self) -> None:
        self.rows = 0
        self.valid = bytearray()
        self.data = bytearray()
        self.ends = array("i", (0,))


class Prepared:
    """A program, ready to be run; here as it is."""

    def __init__(self, program: Program) -> None:
        self.nodes: list[Node] = program.nodes
        self.root: int = program.root


prepare = Prepared


def scan(
    validity: Buffer | None, offsets: Buffer, data: Buffer, start: int, rows: int, indexes: bool
) -> tuple[Buffer, list[bytes]]:
    """Find the prefixes of rows that begin with Confluent's framing: 00 and the id of the schema, or 01 and its GUID.

    Args:
        validity: bits of the array's rows; None if no row is null.
        offsets: int32, of the array.
        data: its bytes.
        start: first row in these buffers.
        rows: number of rows.
        indexes: the indexes of a message follow the id, as varints with zigzag, their number first; as in Protobuf.

    Returns:
        for each row (int32) the index of its prefix, -1 for null, -2 for a row without one; and the prefixes.
    """
    bounds, bytes_ = memoryview(offsets).cast("B").cast("i"), memoryview(data).cast("B")
    slots = array("i", bytes(4 * rows))
    known: dict[bytes, int] = {}
    for row in range(rows):
        record = bytes_[bounds[start + row] : bounds[start + row + 1]]
        size = 0 if _is_null(validity, start + row) else _prefix_size(record, indexes)
        if _is_null(validity, start + row):
            slots[row] = -1
        elif not size:
            slots[row] = -2
        else:
            slots[row] = known.setdefault(bytes(record[:size]), len(known))
    return slots, list(known)


def _prefix_size(record: memoryview, indexes: bool) -> int:
    if len(record) < 5 or record[0] > 1:
        return 0
    at, left = 17 if record[0] else 5, 0
    if len(record) < at:
        return 0
    if not indexes:
        return at
    for counted in range(1 << 21):
        raw = shift = 0
        while True:
            if at >= len(record) or shift > 21:
                return 0
            byte = record[at]
            raw |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if byte < 0x80:
                break
        left = left - 1 if counted else raw >> 1
        if left <= 0:
            break
    return at


def _is_null(validity: Buffer | None, row: int) -> bool:
    return validity is not None and not memoryview(validity)[row >> 3] >> (row & 7) & 1


class Decoder:
    """Decodes rows of binary arrays into columns.

    Args:
        root: the columns; the root is nullable.
    """

    def __init__(self, root: Column) -> None:
        self._columns = [_Target(column, first) for column, first in flattened(root)]

    def decode(
        self,
        validity: Buffer | None,
        offsets: Buffer,
        data: Buffer,
        start: int,
        rows: int,
        slots: Buffer,
        programs: Sequence[Prepared | None],
        prefixes: Sequence[int],
    ) -> list[tuple[int, int, int, int, int, int]]:
        """Append a row for each row of the array; null for those that are null or bad.

        Args:
            validity: as for `scan`.
            offsets: as for `scan`.
            data: as for `scan`.
            start: as for `scan`.
            rows: as for `scan`.
            slots: for each row (int32) the index of its program; negative for null.
            programs: None makes the rows null.
            prefixes: for each program the bytes in front of the payload.

        Returns:
            the bad rows: row, slot, `Fault`, node, position in the payload, detail; see `program.explain`.

        Raises:
            BatchTooLargeError: a column would have more than 2 GiB.
        """
        bounds, bytes_ = memoryview(offsets).cast("B").cast("i"), memoryview(data).cast("B")
        chosen = memoryview(slots).cast("B").cast("i") if rows else slots
        faults: list[tuple[int, int, int, int, int, int]] = []
        root = self._columns[0]
        for row in range(rows):
            slot = chosen[row]
            program = None if slot < 0 else programs[slot]
            if program is None or _is_null(validity, start + row):
                _append_empty(self._columns, 0)
                continue
            before = root.rows
            begin, end = bounds[start + row], bounds[start + row + 1]
            try:
                _Run(self._columns, program.nodes, bytes(bytes_[begin + prefixes[slot] : end]), end - begin).all(
                    program.root
                )
            except _BadRecord as bad:
                _truncate(self._columns, 0, before)
                if bad.fault is Fault.COLUMN_FULL:
                    raise BatchTooLargeError(COLUMN_FULL) from None
                _append_empty(self._columns, 0)
                faults.append((row, slot, bad.fault, bad.node, bad.position, bad.detail))
        return faults

    def take(self) -> list[tuple[int, int, list[Buffer | None]]]:
        """Return rows, nulls and Arrow's buffers of each column in the order of `flattened`; become empty."""
        taken: list[tuple[int, int, list[Buffer | None]]] = []
        for column in self._columns:
            nulls = column.valid.count(0)
            buffers: list[Buffer | None] = [_bits(column.valid) if nulls else None]
            if column.kind is Kind.BOOLEAN:
                buffers.append(_bits(column.data))
            elif column.kind is Kind.FIXED_WIDTH:
                buffers.append(column.data)
            elif column.kind in (Kind.VARIABLE, Kind.LIST):
                buffers.append(column.ends)
                if column.kind is Kind.VARIABLE:
                    buffers.append(column.data)
            taken.append((column.rows, nulls, buffers))
            column.reset()
        return taken


def _bits(marks: bytearray) -> bytes:
    number = int(bytes(each + 0x30 for each in marks[::-1]) or b"0", 2)
    return number.to_bytes((len(marks) + 7) // 8, "little")


def _append_empty(columns: list[_Target], index: int) -> None:
    """Append null; to a column that is not nullable, which is then inside a null struct, the value 0 or empty."""
    column = columns[index]
    if column.nullable:
        column.valid.append(0)
    column.data += bytes(column.width)
    if column.kind in (Kind.VARIABLE, Kind.LIST):
        column.ends.append(column.ends[-1])
    elif column.kind is Kind.STRUCT:
        for child in column.children:
            _append_empty(columns, child)
    column.rows += 1


def _truncate(columns: list[_Target], index: int, rows: int) -> None:
    column = columns[index]
    del column.valid[rows:]
    column.rows = rows
    if column.kind is Kind.STRUCT:
        for child in column.children:
            _truncate(columns, child, rows)
    elif column.kind in (Kind.VARIABLE, Kind.LIST):
        del column.ends[rows + 1 :]
        if column.kind is Kind.LIST:
            _truncate(columns, column.children[0], column.ends[-1])
        else:
            del column.data[column.ends[-1] :]
    else:
        del column.data[rows * column.width :]


class _Run:
    """One record: its bytes, and the position in them."""

    def __init__(self, columns: list[_Target], nodes: list[Node], data: bytes, size: int) -> None:
        self._columns, self._nodes = columns, nodes
        self._data, self._at, self._end = data, 0, len(data)
        self._items_left = size + ITEMS_SPARE
        self._depth = 0

    def all(self, root: int) -> None:
        """Read the record, which must end with the bytes."""
        self._read(root)
        if self._at != self._end:
            raise _BadRecord(Fault.TRAILING, root, self._at, self._end - self._at)

    def _bad(self, fault: Fault, node: int, detail: int = 0) -> _BadRecord:
        return _BadRecord(fault, node, self._at, detail)

    def _read(self, index: int) -> None:
        node = self._nodes[index]
        self._METHODS[node.op](self, index, node)

    # -- bytes

    def _varint(self, index: int, bits: int = 64) -> int:
        raw = shift = 0
        at = self._at
        while True:
            if at >= self._end:
                raise self._bad(Fault.TRUNCATED, index, at - self._at + 1)
            byte = self._data[at]
            if shift == 63 and byte >= 0x80:  # bits beyond 64 are dropped, as by Java's BinaryDecoder
                raise self._bad(Fault.VARINT, index)
            raw |= (byte & 0x7F) << shift & 0xFFFF_FFFF_FFFF_FFFF
            at += 1
            if byte < 0x80:
                break
            shift += 7
        value = (raw >> 1) ^ -(raw & 1)
        if bits == 32 and not -_INT32_MAX - 1 <= value <= _INT32_MAX:
            raise self._bad(Fault.INT_RANGE, index, value)
        self._at = at
        return value

    def _size(self, index: int) -> int:
        begin = self._at
        size = self._varint(index)
        if size < 0:
            self._at = begin
            raise self._bad(Fault.NEGATIVE_SIZE, index, size)
        if size > self._end - self._at:
            raise self._bad(Fault.TRUNCATED, index, size)
        return size

    def _take(self, index: int, size: int) -> bytes:
        if size > self._end - self._at:
            raise self._bad(Fault.TRUNCATED, index, size)
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    # -- appending

    def _present(self, index: int, node: Node) -> _Target:
        column = self._columns[node.target]
        if column.nullable:
            column.valid.append(1)
        column.rows += 1
        return column

    def _append(self, index: int, node: Node, data: bytes) -> None:
        """Append a value of fixed width."""
        self._present(index, node).data += data

    def _append_bytes(self, index: int, node: Node, data: bytes) -> None:
        column = self._columns[node.target]
        if column.ends[-1] + len(data) > _DATA_SIZE_MAX:
            raise self._bad(Fault.COLUMN_FULL, index)
        self._present(index, node)
        column.data += data
        column.ends.append(len(column.data))

    # -- one method for each operation

    def _null(self, index: int, node: Node) -> None:
        _append_empty(self._columns, node.target)

    def _boolean(self, index: int, node: Node) -> None:
        if self._end > self._at and self._data[self._at] > 1:
            raise self._bad(Fault.BOOLEAN, index, self._data[self._at])
        self._append(index, node, self._take(index, 1))

    def _int32(self, index: int, node: Node) -> None:
        self._append(index, node, struct.pack("<i", self._varint(index, 32)))

    def _int64(self, index: int, node: Node) -> None:
        self._append(index, node, struct.pack("<q", self._varint(index, node.argument)))

    def _times_1000(self, index: int, node: Node) -> None:
        value = self._varint(index, node.argument)
        if not -_MICROSECONDS_MAX <= value <= _MICROSECONDS_MAX:
            raise self._bad(Fault.OVERFLOW, index, value)
        self._append(index, node, struct.pack("<q", value * 1000))

    def _long_float32(self, index: int, node: Node) -> None:
        self._append(index, node, struct.pack("<f", to_single(self._varint(index, node.argument))))

    def _long_float64(self, index: int, node: Node) -> None:
        self._append(index, node, struct.pack("<d", self._varint(index, node.argument)))

    def _float32(self, index: int, node: Node) -> None:
        self._append(index, node, self._take(index, 4))

    def _float64(self, index: int, node: Node) -> None:
        self._append(index, node, struct.pack("<d", *struct.unpack("<f", self._take(index, 4))))

    def _double(self, index: int, node: Node) -> None:
        self._append(index, node, self._take(index, 8))

    def _bytes(self, index: int, node: Node) -> None:
        self._append_bytes(index, node, self._take(index, self._size(index)))

    def _string(self, index: int, node: Node) -> None:
        size = self._size(index)
        self._check_utf8(index, self._data[self._at : self._at + size])
        self._append_bytes(index, node, self._take(index, size))

    def _fixed(self, index: int, node: Node) -> None:
        self._append_bytes(index, node, self._take(index, node.argument))

    def _decimal_bytes(self, index: int, node: Node) -> None:
        self._decimal(index, node, self._size(index))

    def _decimal_fixed(self, index: int, node: Node) -> None:
        self._decimal(index, node, node.size)

    def _decimal(self, index: int, node: Node, size: int) -> None:
        begin = self._at
        value = int.from_bytes(self._take(index, size), "big", signed=True)
        if abs(value) >= 10**node.argument:
            self._at = begin
            raise self._bad(Fault.DIGITS, index)
        self._append(index, node, value.to_bytes(16, "little", signed=True))

    def _enum(self, index: int, node: Node) -> None:
        symbol = self._varint(index)
        if not 0 <= symbol < len(node.texts):
            raise self._bad(Fault.SYMBOL, index, symbol)
        text = node.texts[symbol]
        if text is None:
            raise self._bad(Fault.UNKNOWN_SYMBOL, index, symbol)
        self._append_bytes(index, node, text.encode())

    def _enter(self, index: int) -> None:
        if self._depth >= DEPTH_MAX:
            raise self._bad(Fault.DEPTH, index)
        self._depth += 1

    def _record(self, index: int, node: Node) -> None:
        self._enter(index)
        for child in node.children:
            self._read(child)
        self._depth -= 1
        if node.target >= 0:
            self._present(index, node)

    def _union(self, index: int, node: Node) -> None:
        begin = self._at
        branch = self._varint(index)
        if not 0 <= branch < len(node.children):
            self._at = begin
            raise self._bad(Fault.BRANCH, index, branch)
        self._enter(index)
        self._read(node.children[branch])
        self._depth -= 1

    def _nested(self, index: int, node: Node) -> None:
        item = node.children[0]
        is_map = node.op in (Op.MAP, Op.SKIP_MAP)
        items = self._columns[self._columns[node.target].children[0]] if node.target >= 0 else None
        self._enter(index)
        while True:
            begin = self._at
            count = self._varint(index)
            if not count:
                break
            if count < 0:
                if count < -_INT32_MAX:
                    self._at = begin
                    raise self._bad(Fault.ITEMS, index, count)
                count = -count
                size = self._size(index)
                if items is None:
                    self._at += size
                    continue
            if count > self._items_left:
                self._at = begin
                raise self._bad(Fault.ITEMS, index, count)
            self._items_left -= count
            for _ in range(count):
                if is_map:
                    self._key(index, node)
                self._read(item)
                if is_map and items is not None:
                    items.rows += 1
        self._depth -= 1
        if items is not None:
            self._present(index, node).ends.append(items.rows)

    def _key(self, index: int, node: Node) -> None:
        size = self._size(index)
        key = self._data[self._at : self._at + size]
        if node.target >= 0:
            self._check_utf8(index, key)
            entries = self._columns[self._columns[node.target].children[0]]
            self._append_bytes(index, Node(Op.STRING, entries.children[0], ""), key)
        self._at += size

    def _fail(self, index: int, node: Node) -> None:
        raise self._bad(Fault.UNRESOLVED, index)

    def _member(self, index: int, node: Node) -> None:
        self._read(node.children[0])
        for at, child in enumerate(self._columns[node.target].children):
            if at != node.argument:
                _append_empty(self._columns, child)
        self._present(index, node)

    def _default(self, index: int, node: Node) -> None:
        kept = self._data, self._at, self._end, self._items_left
        self._data, self._at, self._end, self._items_left = node.data, 0, len(node.data), _INT32_MAX
        try:
            self._read(node.children[0])
        except _BadRecord as bad:
            bad.position = kept[1]
            raise
        self._data, self._at, self._end, self._items_left = kept

    def _skip_varint(self, index: int, node: Node) -> None:
        self._varint(index)

    def _skip_bytes(self, index: int, node: Node) -> None:
        size = self._size(index)  # which moves the position
        self._at += size

    def _skip_fixed(self, index: int, node: Node) -> None:
        self._take(index, node.argument)

    # -- Protobuf

    def _raw_varint(self, index: int) -> int:
        raw = shift = 0
        at = self._at
        while True:
            if at >= self._end:
                raise self._bad(Fault.TRUNCATED, index, at - self._at + 1)
            if shift > 63:
                raise self._bad(Fault.VARINT, index)
            byte = self._data[at]
            raw |= (byte & 0x7F) << shift
            at += 1
            if byte < 0x80:
                break
            shift += 7
        self._at = at
        return raw & (1 << 64) - 1

    def _raw_size(self, index: int) -> int:
        size = _signed(self._raw_varint(index), 64)
        if not 0 <= size <= self._end - self._at:
            raise self._bad(Fault.TRUNCATED, index, size)
        return size

    def _skip_wire(self, index: int, tag: int) -> None:
        match tag & 7:
            case 0:
                self._raw_varint(index)
            case 1 | 5:
                self._take(index, 8 if tag & 7 == 1 else 4)
            case 2:
                size = self._raw_size(index)
                self._at += size
            case 3:
                self._enter(index)
                while (inner := self._raw_varint(index)) != tag + 1:
                    if not inner >> 3:
                        raise self._bad(Fault.TAG, index, inner)
                    self._skip_wire(index, inner)
                self._depth -= 1
            case _:
                raise self._bad(Fault.TAG, index, _signed(tag, 64))

    def _inside(self, index: int) -> int:
        """Limit reading to the sized value that follows; return the end to restore."""
        size, end = self._raw_size(index), self._end
        self._end = self._at + size
        return end

    def _message(self, index: int, node: Node) -> None:
        end = self._end if node.argument else self._inside(index)
        column = self._columns[node.target]
        before = column.rows
        self._enter(index)
        while self._at < self._end:
            tag = self._raw_varint(index)
            if not 0 < tag >> 3 <= 536_870_911:
                raise self._bad(Fault.TAG, index, _signed(tag, 64))
            child = next((at for at, rule in enumerate(node.fields) if rule.number == tag >> 3), None)
            if child is None:
                self._skip_wire(index, tag)
            else:
                self._field(index, node, child, tag, before)
        for child in range(len(node.fields)):
            self._complete(index, node, child, before)
        self._depth -= 1
        self._end = end
        self._present(index, node)

    def _field(self, index: int, node: Node, child: int, tag: int, before: int) -> None:
        target, rule = self._columns[node.target].children[child], node.fields[child]
        value, column = self._nodes[node.children[child]], self._columns[target]
        expected = _WIRES.get(value.op, 2)
        if rule.flags & REPEATED and tag & 7 == 2 != expected:
            end = self._inside(node.children[child])
            while self._at < self._end:
                self._item(index, node.children[child])
            self._end = end
        elif tag & 7 != expected:
            self._skip_wire(index, tag)
        elif rule.flags & REPEATED:
            self._item(index, node.children[child])
        else:
            if column.rows > before:
                if value.op in (Op.PROTOBUF_MESSAGE, Op.PROTOBUF_TIMESTAMP, Op.PROTOBUF_DURATION):
                    raise self._bad(Fault.TWICE, index, rule.number)
                _truncate(self._columns, target, before)
            for other, each in enumerate(node.fields):
                if rule.oneof and each.oneof == rule.oneof and other != child:
                    _truncate(self._columns, self._columns[node.target].children[other], before)
            self._read(node.children[child])

    def _item(self, index: int, child: int) -> None:
        if self._items_left <= 0:
            raise self._bad(Fault.ITEMS, index, 0)
        self._items_left -= 1
        self._read(child)

    def _complete(self, index: int, node: Node, child: int, before: int) -> None:
        target, rule = self._columns[node.target].children[child], node.fields[child]
        value, column = self._nodes[node.children[child]], self._columns[target]
        if rule.flags & REPEATED:
            self._present(index, Node(Op.ARRAY, target, "")).ends.append(self._columns[column.children[0]].rows)
        elif column.rows == before:
            if rule.flags & REQUIRED:
                raise self._bad(Fault.REQUIRED, index, rule.number)
            if value.op is Op.PROTOBUF_ENUM and not column.nullable:
                self._append_bytes(node.children[child], value, (value.texts[0] or "").encode())
            else:
                _append_empty(self._columns, target)

    def _number(self, index: int, node: Node) -> None:
        raw = self._raw_varint(index)
        match node.op:
            case Op.PROTOBUF_INT64:
                data = struct.pack("<q", _signed(raw, 64))
            case Op.PROTOBUF_INT32:
                data = struct.pack("<i", _signed(raw, 32))
            case Op.PROTOBUF_UINT32:
                data = struct.pack("<q", raw & 0xFFFFFFFF)
            case Op.PROTOBUF_UINT64:
                data = raw.to_bytes(16, "little")
            case Op.PROTOBUF_SINT64:
                data = struct.pack("<q", (raw >> 1) ^ -(raw & 1))
            case Op.PROTOBUF_SINT32:
                raw &= 0xFFFFFFFF
                data = struct.pack("<i", (raw >> 1) ^ -(raw & 1))
            case _:
                data = bytes((raw != 0,))
        self._append(index, node, data)

    def _enum_of(self, index: int, node: Node) -> None:
        number = _signed(self._raw_varint(index), 32)
        text = f"{node.texts[-1]}{number}"
        if number in node.numbers:
            text = node.texts[node.numbers.index(number)] or ""
        elif len((node.texts[-1] or "").encode()) > 280:
            raise self._bad(Fault.SYMBOL, index, number)
        self._append_bytes(index, node, text.encode())

    def _raw(self, index: int, node: Node) -> None:
        size = 8 if node.op in (Op.PROTOBUF_RAW64, Op.PROTOBUF_UFIXED64) else 4
        data = self._take(index, size)
        wider = {Op.PROTOBUF_UFIXED32: bytes(4), Op.PROTOBUF_UFIXED64: bytes(8)}.get(node.op, b"")
        self._append(index, node, data + wider)

    def _sized(self, index: int, node: Node) -> None:
        size = self._raw_size(index)
        if node.op is Op.PROTOBUF_STRING:
            self._check_utf8(index, self._data[self._at : self._at + size])
        self._append_bytes(index, node, self._take(index, size))

    def _seconds(self, index: int, node: Node) -> None:
        end = self._inside(index)
        found = {8: 0, 16: 0}
        while self._at < self._end:
            tag = self._raw_varint(index)
            if tag in found:
                found[tag] = self._raw_varint(index)
            elif not tag >> 3:
                raise self._bad(Fault.TAG, index, tag)
            else:
                try:
                    self._skip_wire(index, tag)
                except _BadRecord:
                    raise self._bad(Fault.TAG, index, _signed(tag, 64)) from None
        self._end = end
        seconds, nanoseconds = _signed(found[8], 64), _signed(found[16], 32)
        if abs(seconds) > _SECONDS_MAX:
            raise self._bad(Fault.OVERFLOW, index, seconds)
        self._append(index, node, struct.pack("<q", seconds * 1_000_000 + nanoseconds // 1000))

    def _check_utf8(self, index: int, text: bytes) -> None:
        try:
            text.decode()
        except UnicodeDecodeError:
            raise self._bad(Fault.UTF8, index) from None

    _METHODS: ClassVar = {
        Op.NULL: _null,
        Op.BOOLEAN: _boolean,
        Op.INT_INT32: _int32,
        Op.LONG_INT64: _int64,
        Op.LONG_TIMES_1000: _times_1000,
        Op.LONG_FLOAT32: _long_float32,
        Op.LONG_FLOAT64: _long_float64,
        Op.FLOAT_FLOAT32: _float32,
        Op.FLOAT_FLOAT64: _float64,
        Op.DOUBLE_FLOAT64: _double,
        Op.BYTES: _bytes,
        Op.STRING: _string,
        Op.FIXED: _fixed,
        Op.DECIMAL_BYTES: _decimal_bytes,
        Op.DECIMAL_FIXED: _decimal_fixed,
        Op.ENUM: _enum,
        Op.RECORD: _record,
        Op.ARRAY: _nested,
        Op.MAP: _nested,
        Op.UNION: _union,
        Op.FAIL: _fail,
        Op.MEMBER: _member,
        Op.DEFAULT: _default,
        Op.SKIP_VARINT: _skip_varint,
        Op.SKIP_BYTES: _skip_bytes,
        Op.SKIP_FIXED: _skip_fixed,
        Op.SKIP_RECORD: _record,
        Op.SKIP_ARRAY: _nested,
        Op.SKIP_MAP: _nested,
        Op.SKIP_UNION: _union,
        Op.PROTOBUF_MESSAGE: _message,
        Op.PROTOBUF_INT32: _number,
        Op.PROTOBUF_INT64: _number,
        Op.PROTOBUF_UINT32: _number,
        Op.PROTOBUF_UINT64: _number,
        Op.PROTOBUF_SINT32: _number,
        Op.PROTOBUF_SINT64: _number,
        Op.PROTOBUF_BOOL: _number,
        Op.PROTOBUF_ENUM: _enum_of,
        Op.PROTOBUF_RAW32: _raw,
        Op.PROTOBUF_RAW64: _raw,
        Op.PROTOBUF_UFIXED32: _raw,
        Op.PROTOBUF_UFIXED64: _raw,
        Op.PROTOBUF_BYTES: _sized,
        Op.PROTOBUF_STRING: _sized,
        Op.PROTOBUF_TIMESTAMP: _seconds,
        Op.PROTOBUF_DURATION: _seconds,
    }
