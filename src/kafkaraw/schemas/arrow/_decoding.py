"""Decoding of records into columns, compiled: `scan`, `Decoder`. Start at `_run`, which reads one value.

The twin in plain Python, which documents the interface, is `plain_decoding`. This is Cython in its pure-Python mode:
C types are annotations, and `setup.py` compiles it. Never import it uncompiled.

A program (see `program.py`) is run for each record, and appends to the columns that all programs share; so records of
several writers become one batch in the order of rows. If a record turns out to be bad, the columns are cut back to the
rows before it: how long each one was follows from the number of rows of its parent.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.kafkaraw.schemas.arrow._memory import Block
from cython.cimports.libc.stdio import snprintf
from cython.cimports.libc.stdlib import calloc, free, malloc, realloc
from cython.cimports.libc.string import memcmp, memcpy, memset

from kafkaraw.errors import BatchTooLargeError
from kafkaraw.schemas.arrow import columns as _columns
from kafkaraw.schemas.arrow import program as _program

_INT32_MAX = cython.declare(cython.longlong, 2**31 - 1)
_ITEMS_SPARE = cython.declare(cython.longlong, 65_536)
_MILLISECONDS_MAX = cython.declare(cython.longlong, 9223372036854775)
_SECONDS_MAX = cython.declare(cython.longlong, 9223372036853)
_DEPTH_MAX = cython.declare(cython.int, 256)
assert (_program.ITEMS_SPARE, _program.DEPTH_MAX) == (65_536, 256)

NUMBERS = {
    "Kind": {
        "NULL": KIND_NULL,
        "BOOLEAN": KIND_BOOLEAN,
        "FIXED_WIDTH": KIND_FIXED_WIDTH,
        "VARIABLE": KIND_VARIABLE,
        "LIST": KIND_LIST,
        "STRUCT": KIND_STRUCT,
    },
    "first and last": (OP_NULL, OP_PROTOBUF_DURATION, FAULT_NONE, FAULT_REQUIRED),
}
"""Some of the constants of C, for the test that compares them."""


# -- memory that Arrow takes over


@cython.cfunc
def _block(data: cython.p_void, size: cython.Py_ssize_t) -> Block:
    block: Block = Block()
    block.data = cython.cast(cython.p_uchar, data)
    block.size = size
    if data == cython.NULL:
        block.data = cython.cast(cython.p_uchar, malloc(8))
        block.size = 0
    return block


# -- appending


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _grow(column: cython.pointer(Column), rows: cython.Py_ssize_t) -> cython.bint:
    """Make room for `rows` rows in all; False if there is no memory."""
    capacity: cython.Py_ssize_t = column.capacity
    if rows <= capacity:
        return True
    capacity = max(rows, 2 * capacity, 64)
    moved: cython.p_void
    if column.nullable:
        moved = realloc(column.valid, capacity)
        if moved == cython.NULL:
            return False
        column.valid = cython.cast(cython.p_uchar, moved)
    if column.kind == KIND_FIXED_WIDTH or column.kind == KIND_BOOLEAN:
        moved = realloc(column.data, capacity * column.width)
        if moved == cython.NULL:
            return False
        column.data = cython.cast(cython.p_uchar, moved)
    elif column.kind == KIND_VARIABLE or column.kind == KIND_LIST:
        moved = realloc(column.ends, (capacity + 1) * 4)
        if moved == cython.NULL:
            return False
        column.ends = cython.cast(cython.p_int, moved)
        if column.capacity == 0:
            column.ends[0] = 0
    column.capacity = capacity
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _fault(
    state: cython.pointer(State), fault: cython.int, step: cython.pointer(Step), detail: cython.longlong
) -> cython.bint:
    """Note why the record is bad; always False."""
    state.fault = fault
    state.fault_node = step.index
    state.fault_at = state.at
    state.detail = detail
    return False


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _present(state: cython.pointer(State), column: cython.pointer(Column), step: cython.pointer(Step)) -> cython.bint:
    """Begin a row with a value. The caller writes the value, then adds one to `rows`."""
    if column.rows >= column.capacity and not _grow(column, column.rows + 1):
        return _fault(state, FAULT_MEMORY, step, 0)
    if column.nullable:
        column.valid[column.rows] = 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _append_empty(columns: cython.pointer(Column), index: cython.int) -> cython.bint:
    """Append null; to a column that is not nullable, which is then inside a null struct, the value 0 or empty."""
    column: cython.pointer(Column) = cython.address(columns[index])
    child: cython.int
    if column.rows >= column.capacity and not _grow(column, column.rows + 1):
        return False
    if column.nullable:
        column.valid[column.rows] = 0
        column.nulls += 1
    if column.kind == KIND_FIXED_WIDTH or column.kind == KIND_BOOLEAN:
        memset(column.data + column.rows * column.width, 0, column.width)
    elif column.kind == KIND_VARIABLE or column.kind == KIND_LIST:
        column.ends[column.rows + 1] = column.ends[column.rows]
    elif column.kind == KIND_STRUCT:
        for child in range(column.count):
            if not _append_empty(columns, column.first + child):
                return False
    column.rows += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _truncate(columns: cython.pointer(Column), index: cython.int, rows: cython.Py_ssize_t) -> cython.void:
    """Drop all rows from `rows` on, here and in the children."""
    column: cython.pointer(Column) = cython.address(columns[index])
    child: cython.int
    row: cython.Py_ssize_t
    if column.nullable:
        for row in range(rows, column.rows):
            column.nulls -= not column.valid[row]
    column.rows = rows
    if column.kind == KIND_STRUCT:
        for child in range(column.count):
            _truncate(columns, column.first + child, rows)
    elif column.kind == KIND_LIST:
        _truncate(columns, column.first, column.ends[rows] if column.capacity else 0)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _append_bytes(
    state: cython.pointer(State), step: cython.pointer(Step), data: cython.p_uchar, size: cython.Py_ssize_t
) -> cython.bint:
    column: cython.pointer(Column) = cython.address(state.columns[step.target])
    if not _present(state, column, step):
        return False
    start: cython.longlong = column.ends[column.rows]
    if start + size > column.bytes_capacity and not _grow_bytes(state, column, step, start + size):
        return False
    memcpy(column.bytes + start, data, size)
    column.rows += 1
    column.ends[column.rows] = cython.cast(cython.int, start + size)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _grow_bytes(
    state: cython.pointer(State), column: cython.pointer(Column), step: cython.pointer(Step), size: cython.longlong
) -> cython.bint:
    if size > _INT32_MAX:
        return _fault(state, FAULT_COLUMN_FULL, step, size)
    capacity: cython.longlong = max(size, 2 * column.bytes_capacity, 1024)
    moved: cython.p_void = realloc(column.bytes, capacity)
    if moved == cython.NULL:
        return _fault(state, FAULT_MEMORY, step, size)
    column.bytes = cython.cast(cython.p_uchar, moved)
    column.bytes_capacity = capacity
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _append_int64(state: cython.pointer(State), step: cython.pointer(Step), value: cython.longlong) -> cython.bint:
    column: cython.pointer(Column) = cython.address(state.columns[step.target])
    if not _present(state, column, step):
        return False
    cython.cast(cython.p_longlong, column.data)[column.rows] = value
    column.rows += 1
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _append_float64(state: cython.pointer(State), step: cython.pointer(Step), value: cython.double) -> cython.bint:
    column: cython.pointer(Column) = cython.address(state.columns[step.target])
    if not _present(state, column, step):
        return False
    cython.cast(cython.p_double, column.data)[column.rows] = value
    column.rows += 1
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _append_width4(state: cython.pointer(State), step: cython.pointer(Step), value: cython.p_void) -> cython.bint:
    column: cython.pointer(Column) = cython.address(state.columns[step.target])
    if not _present(state, column, step):
        return False
    memcpy(column.data + 4 * column.rows, value, 4)
    column.rows += 1
    return True


# -- reading


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _varint(state: cython.pointer(State), step: cython.pointer(Step), value: cython.p_longlong) -> cython.bint:
    at: cython.p_uchar = state.at
    end: cython.p_uchar = state.end
    raw: cython.ulonglong
    byte: cython.ulonglong
    shift: cython.int = 7
    if at < end and at[0] < 0x80:
        raw = at[0]
        value[0] = cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
        state.at = at + 1
        return True
    if at >= end:
        return _fault(state, FAULT_TRUNCATED, step, 1)
    raw = at[0] & 0x7F
    at += 1
    while True:
        if at >= end:
            return _fault(state, FAULT_TRUNCATED, step, end - state.at + 1)
        byte = at[0]
        if shift == 63 and byte >= 0x80:  # bits beyond 64 are dropped, as by Java's BinaryDecoder
            return _fault(state, FAULT_VARINT, step, 0)
        raw |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            break
        shift += 7
    value[0] = cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
    state.at = at
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _size(state: cython.pointer(State), step: cython.pointer(Step), size: cython.p_longlong) -> cython.bint:
    """Read the size of bytes that follow, and check that they are there."""
    begin: cython.p_uchar = state.at
    if not _varint(state, step, size):
        return False
    if size[0] < 0:
        state.at = begin
        return _fault(state, FAULT_NEGATIVE_SIZE, step, size[0])
    if size[0] > state.end - state.at:
        return _fault(state, FAULT_TRUNCATED, step, size[0])
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _has(state: cython.pointer(State), step: cython.pointer(Step), size: cython.longlong) -> cython.bint:
    if size > state.end - state.at:
        return _fault(state, FAULT_TRUNCATED, step, size)
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _number(
    state: cython.pointer(State), step: cython.pointer(Step), value: cython.p_longlong, bits: cython.longlong
) -> cython.bint:
    """Read an int or a long."""
    begin: cython.p_uchar = state.at
    if not _varint(state, step, value):
        return False
    if bits == 32 and (value[0] > _INT32_MAX or value[0] < -_INT32_MAX - 1):
        state.at = begin
        return _fault(state, FAULT_INT_RANGE, step, value[0])
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_utf8(data: cython.p_uchar, size: cython.Py_ssize_t) -> cython.bint:
    at: cython.Py_ssize_t = 0
    follow: cython.int
    first: cython.uchar
    second: cython.uchar
    low: cython.uchar
    high: cython.uchar
    word: cython.ulonglong
    while at < size:
        if at + 8 <= size:
            memcpy(cython.address(word), data + at, 8)
            if not has_high_bit(word):
                at += 8
                continue
        first = data[at]
        at += 1
        if first < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= first <= 0xDF:
            follow = 1
        elif 0xE0 <= first <= 0xEF:
            follow = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F  # surrogates
        elif 0xF0 <= first <= 0xF4:
            follow = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return False
        if at + follow > size:
            return False
        second = data[at]
        if second < low or second > high:
            return False
        at += 1
        while follow > 1:
            if data[at] & 0xC0 != 0x80:
                return False
            at += 1
            follow -= 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _decimal(state: cython.pointer(State), step: cython.pointer(Step), size: cython.longlong) -> cython.bint:
    """Append `size` bytes at the position as decimal128; an empty number is 0."""
    data: cython.p_uchar = state.at
    sign: cython.uchar = 0xFF if size and data[0] & 0x80 else 0
    high: cython.ulonglong = ones() if sign else 0
    low: cython.ulonglong = high
    absolute_high: cython.ulonglong
    absolute_low: cython.ulonglong
    begin: cython.longlong = 0
    at: cython.longlong
    while size - begin > 16 and data[begin] == sign:
        begin += 1
    if size - begin > 16 or (size - begin == 16 and begin and (data[begin] ^ sign) & 0x80):
        return _fault(state, FAULT_DIGITS, step, 0)
    for at in range(begin, size):
        high = high << 8 | low >> 56
        low = low << 8 | data[at]
    absolute_high, absolute_low = high, low
    if sign:
        absolute_low = ~low + 1
        absolute_high = ~high + (1 if absolute_low == 0 else 0)
    if absolute_high > step.limit_high or (absolute_high == step.limit_high and absolute_low >= step.limit_low):
        return _fault(state, FAULT_DIGITS, step, 0)
    column: cython.pointer(Column) = cython.address(state.columns[step.target])
    if not _present(state, column, step):
        return False
    memcpy(column.data + 16 * column.rows, cython.address(low), 8)
    memcpy(column.data + 16 * column.rows + 8, cython.address(high), 8)
    column.rows += 1
    state.at += size
    return True


# -- running


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _run(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    """Read the value of a step; False if it is bad, with the reason in the state."""
    value: cython.longlong
    number: cython.int
    real: cython.double
    single: cython.float
    text: cython.pointer(Text)
    column: cython.pointer(Column)
    if step.op == OP_LONG_INT64:
        return _number(state, step, cython.address(value), step.argument) and _append_int64(state, step, value)
    elif step.op == OP_STRING:
        if not _size(state, step, cython.address(value)):
            return False
        if not _is_utf8(state.at, value):
            return _fault(state, FAULT_UTF8, step, 0)
        state.at += value
        return _append_bytes(state, step, state.at - value, value)
    elif step.op == OP_UNION or step.op == OP_SKIP_UNION:
        return _union(state, step)
    elif step.op == OP_NULL:
        if not _append_empty(state.columns, step.target):
            return _fault(state, FAULT_MEMORY, step, 0)
        return True
    elif step.op == OP_INT_INT32:
        if not _number(state, step, cython.address(value), 32):
            return False
        number = cython.cast(cython.int, value)
        return _append_width4(state, step, cython.address(number))
    elif step.op == OP_DOUBLE_FLOAT64:
        if not _has(state, step, 8):
            return False
        memcpy(cython.address(real), state.at, 8)
        state.at += 8
        return _append_float64(state, step, real)
    elif step.op == OP_RECORD or step.op == OP_SKIP_RECORD:
        return _record(state, step)
    elif step.op == OP_ARRAY or step.op == OP_MAP:
        return _nested(state, step)
    elif step.op == OP_BOOLEAN:
        if not _has(state, step, 1):
            return False
        if state.at[0] > 1:
            return _fault(state, FAULT_BOOLEAN, step, state.at[0])
        column = cython.address(state.columns[step.target])
        if not _present(state, column, step):
            return False
        column.data[column.rows] = state.at[0]
        column.rows += 1
        state.at += 1
        return True
    elif step.op == OP_LONG_TIMES_1000:
        if not _number(state, step, cython.address(value), step.argument):
            return False
        if value > _MILLISECONDS_MAX or value < -_MILLISECONDS_MAX:
            return _fault(state, FAULT_OVERFLOW, step, value)
        return _append_int64(state, step, value * 1000)
    elif step.op == OP_LONG_FLOAT64:
        return _number(state, step, cython.address(value), step.argument) and _append_float64(
            state, step, cython.cast(cython.double, value)
        )
    elif step.op == OP_LONG_FLOAT32:
        if not _number(state, step, cython.address(value), step.argument):
            return False
        single = cython.cast(cython.float, value)
        return _append_width4(state, step, cython.address(single))
    elif step.op == OP_FLOAT_FLOAT32 or step.op == OP_FLOAT_FLOAT64:
        if not _has(state, step, 4):
            return False
        memcpy(cython.address(single), state.at, 4)
        state.at += 4
        if step.op == OP_FLOAT_FLOAT64:
            return _append_float64(state, step, single)
        return _append_width4(state, step, cython.address(single))
    elif step.op == OP_BYTES:
        if not _size(state, step, cython.address(value)):
            return False
        state.at += value
        return _append_bytes(state, step, state.at - value, value)
    elif step.op == OP_FIXED:
        if not _has(state, step, step.argument):
            return False
        state.at += step.argument
        return _append_bytes(state, step, state.at - step.argument, step.argument)
    elif step.op == OP_DECIMAL_BYTES:
        return _size(state, step, cython.address(value)) and _decimal(state, step, value)
    elif step.op == OP_DECIMAL_FIXED:
        return _has(state, step, step.size) and _decimal(state, step, step.size)
    elif step.op == OP_ENUM:
        if not _varint(state, step, cython.address(value)):
            return False
        if value < 0 or value >= step.count:
            return _fault(state, FAULT_SYMBOL, step, value)
        text = cython.address(step.texts[value])
        if text.size < 0:
            return _fault(state, FAULT_UNKNOWN_SYMBOL, step, value)
        return _append_bytes(state, step, text.data, text.size)
    elif step.op == OP_MEMBER:
        return _member(state, step)
    elif step.op == OP_DEFAULT:
        return _default(state, step)
    elif step.op == OP_FAIL:
        return _fault(state, FAULT_UNRESOLVED, step, 0)
    elif step.op >= OP_PROTOBUF_MESSAGE:
        return _protobuf(state, step)
    return _skip(state, step)


# -- Protobuf


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _raw_varint(
    state: cython.pointer(State), step: cython.pointer(Step), value: cython.pointer(cython.ulonglong)
) -> cython.bint:
    """Read a varint without zigzag; bits beyond 64 are dropped, as by protobuf."""
    at: cython.p_uchar = state.at
    shift: cython.int = 0
    raw: cython.ulonglong = 0
    while True:
        if at >= state.end:
            return _fault(state, FAULT_TRUNCATED, step, at - state.at + 1)
        if shift > 63:
            return _fault(state, FAULT_VARINT, step, 0)
        raw |= (cython.cast(cython.ulonglong, at[0]) & 0x7F) << shift
        at += 1
        if at[-1] < 0x80:
            break
        shift += 7
    value[0] = raw
    state.at = at
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _raw_size(state: cython.pointer(State), step: cython.pointer(Step), size: cython.p_longlong) -> cython.bint:
    raw: cython.ulonglong
    if not _raw_varint(state, step, cython.address(raw)):
        return False
    size[0] = cython.cast(cython.longlong, raw)
    if size[0] < 0 or size[0] > state.end - state.at:
        return _fault(state, FAULT_TRUNCATED, step, size[0])
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _wire(op: cython.int) -> cython.int:
    """The wire type of a value."""
    if op == OP_PROTOBUF_RAW32 or op == OP_PROTOBUF_UFIXED32:
        return 5
    if op == OP_PROTOBUF_RAW64 or op == OP_PROTOBUF_UFIXED64:
        return 1
    if op >= OP_PROTOBUF_INT32 and op <= OP_PROTOBUF_ENUM:
        return 0
    return 2


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip_wire(state: cython.pointer(State), step: cython.pointer(Step), tag: cython.ulonglong) -> cython.bint:
    """Skip the value of an unknown field."""
    raw: cython.ulonglong
    size: cython.longlong
    wire: cython.int = cython.cast(cython.int, tag & 7)
    if wire == 0:
        return _raw_varint(state, step, cython.address(raw))
    if wire == 1 or wire == 5:
        size = 8 if wire == 1 else 4
        if not _has(state, step, size):
            return False
        state.at += size
        return True
    if wire == 2:
        if not _raw_size(state, step, cython.address(size)):
            return False
        state.at += size
        return True
    if wire != 3:
        return _fault(state, FAULT_TAG, step, cython.cast(cython.longlong, tag))
    if not _enter(state, step):
        return False
    while True:  # a group ends with the tag of its end
        if not _raw_varint(state, step, cython.address(raw)):
            return False
        if raw == (tag | 7) - 3:
            break
        if raw >> 3 == 0:
            return _fault(state, FAULT_TAG, step, cython.cast(cython.longlong, raw))
        if not _skip_wire(state, step, raw):
            return False
    state.depth -= 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _message(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    """Read fields up to the end of the bytes, then fill up those that are missing."""
    column: cython.pointer(Column) = cython.address(state.columns[step.target])
    rows: cython.Py_ssize_t = column.rows
    tag: cython.ulonglong
    child: cython.int = -1
    tried: cython.int
    number: cython.longlong
    if not _enter(state, step):
        return False
    while state.at < state.end:
        if not _raw_varint(state, step, cython.address(tag)):
            return False
        number = cython.cast(cython.longlong, tag >> 3)
        if number == 0 or tag >> 3 > 536870911:
            return _fault(state, FAULT_TAG, step, cython.cast(cython.longlong, tag))
        for tried in range(step.count):  # fields mostly come in order
            child = child + 1 if child + 1 < step.count else 0
            if step.rules[child].number == number:
                break
        else:
            if not _skip_wire(state, step, tag):
                return False
            continue
        if not _field(state, step, child, tag, rows):
            return False
    for child in range(step.count):
        if not _complete(state, step, child, rows):
            return False
    state.depth -= 1
    if not _present(state, column, step):
        return False
    column.rows += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _field(
    state: cython.pointer(State),
    step: cython.pointer(Step),
    child: cython.int,
    tag: cython.ulonglong,
    rows: cython.Py_ssize_t,
) -> cython.bint:
    """Read one field of a message that has `rows` rows before."""
    index: cython.int = state.columns[step.target].first + child
    column: cython.pointer(Column) = cython.address(state.columns[index])
    value: cython.pointer(Step) = cython.address(state.steps[step.children[child]])
    rule: cython.pointer(Rule) = cython.address(step.rules[child])
    wire: cython.int = cython.cast(cython.int, tag & 7)
    size: cython.longlong
    other: cython.int
    end: cython.p_uchar = state.end
    if rule.flags & FIELD_REPEATED:
        if wire == 2 and _wire(value.op) != 2:  # packed
            if not _raw_size(state, value, cython.address(size)):
                return False
            state.end = state.at + size
            while state.at < state.end:
                if not _item(state, step, value):
                    return False
            state.end = end
            return True
        if wire != _wire(value.op):
            return _skip_wire(state, step, tag)
        return _item(state, step, value)
    if wire != _wire(value.op):
        return _skip_wire(state, step, tag)
    if column.rows > rows:
        if value.op == OP_PROTOBUF_MESSAGE or value.op == OP_PROTOBUF_TIMESTAMP or value.op == OP_PROTOBUF_DURATION:
            return _fault(state, FAULT_TWICE, step, rule.number)
        _truncate(state.columns, index, rows)
    if rule.oneof:
        for other in range(step.count):
            if other != child and step.rules[other].oneof == rule.oneof:
                _truncate(state.columns, state.columns[step.target].first + other, rows)
    return _run(state, value)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _item(state: cython.pointer(State), step: cython.pointer(Step), value: cython.pointer(Step)) -> cython.bint:
    if state.items_left <= 0:
        return _fault(state, FAULT_ITEMS, step, 0)
    state.items_left -= 1
    return _run(state, value)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _complete(
    state: cython.pointer(State), step: cython.pointer(Step), child: cython.int, rows: cython.Py_ssize_t
) -> cython.bint:
    """End a list; append null, or the default, to a field that the message does not have."""
    index: cython.int = state.columns[step.target].first + child
    column: cython.pointer(Column) = cython.address(state.columns[index])
    value: cython.pointer(Step) = cython.address(state.steps[step.children[child]])
    if step.rules[child].flags & FIELD_REPEATED:
        if state.columns[column.first].rows > _INT32_MAX:
            return _fault(state, FAULT_COLUMN_FULL, step, 0)
        if not _present(state, column, step):
            return False
        column.rows += 1
        column.ends[column.rows] = cython.cast(cython.int, state.columns[column.first].rows)
        return True
    if column.rows > rows:
        return True
    if step.rules[child].flags & FIELD_REQUIRED:
        return _fault(state, FAULT_REQUIRED, step, step.rules[child].number)
    if value.op == OP_PROTOBUF_ENUM and not column.nullable:  # the value of a map's entry
        return _append_bytes(state, value, value.texts[0].data, value.texts[0].size)
    if not _append_empty(state.columns, index):
        return _fault(state, FAULT_MEMORY, step, 0)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _protobuf(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    raw: cython.ulonglong
    size: cython.longlong
    number: cython.int
    end: cython.p_uchar
    ok: cython.bint
    if step.op == OP_PROTOBUF_MESSAGE:
        if step.argument:  # the record itself: no size in front
            return _message(state, step)
        if not _raw_size(state, step, cython.address(size)):
            return False
        end = state.end
        state.end = state.at + size
        ok = _message(state, step)
        state.end = end
        return ok
    elif step.op == OP_PROTOBUF_STRING or step.op == OP_PROTOBUF_BYTES:
        if not _raw_size(state, step, cython.address(size)):
            return False
        if step.op == OP_PROTOBUF_STRING and not _is_utf8(state.at, size):
            return _fault(state, FAULT_UTF8, step, 0)
        state.at += size
        return _append_bytes(state, step, state.at - size, size)
    elif step.op == OP_PROTOBUF_RAW32:
        if not _has(state, step, 4):
            return False
        state.at += 4
        return _append_width4(state, step, state.at - 4)
    elif step.op == OP_PROTOBUF_RAW64:
        if not _has(state, step, 8):
            return False
        memcpy(cython.address(size), state.at, 8)
        state.at += 8
        return _append_int64(state, step, size)
    elif step.op == OP_PROTOBUF_UFIXED32:
        if not _has(state, step, 4):
            return False
        size = cython.cast(cython.longlong, state.at[0]) | state.at[1] << 8 | state.at[2] << 16
        size |= cython.cast(cython.longlong, state.at[3]) << 24
        state.at += 4
        return _append_int64(state, step, size)
    elif step.op == OP_PROTOBUF_UFIXED64:
        if not _has(state, step, 8):
            return False
        memcpy(cython.address(raw), state.at, 8)
        state.at += 8
        return _append_unsigned(state, step, raw)
    elif step.op == OP_PROTOBUF_TIMESTAMP or step.op == OP_PROTOBUF_DURATION:
        return _seconds(state, step)
    if not _raw_varint(state, step, cython.address(raw)):
        return False
    if step.op == OP_PROTOBUF_INT64:
        return _append_int64(state, step, cython.cast(cython.longlong, raw))
    elif step.op == OP_PROTOBUF_INT32:
        number = cython.cast(cython.int, raw)
        return _append_width4(state, step, cython.address(number))
    elif step.op == OP_PROTOBUF_UINT32:
        return _append_int64(state, step, cython.cast(cython.longlong, raw & cython.cast(cython.uint, -1)))
    elif step.op == OP_PROTOBUF_UINT64:
        return _append_unsigned(state, step, raw)
    elif step.op == OP_PROTOBUF_SINT64:
        size = cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
        return _append_int64(state, step, size)
    elif step.op == OP_PROTOBUF_SINT32:
        raw &= cython.cast(cython.uint, -1)
        number = cython.cast(
            cython.int, cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
        )
        return _append_width4(state, step, cython.address(number))
    elif step.op == OP_PROTOBUF_BOOL:
        if not _present(state, cython.address(state.columns[step.target]), step):
            return False
        state.columns[step.target].data[state.columns[step.target].rows] = raw != 0
        state.columns[step.target].rows += 1
        return True
    return _enum_of(state, step, cython.cast(cython.int, raw))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _append_unsigned(state: cython.pointer(State), step: cython.pointer(Step), value: cython.ulonglong) -> cython.bint:
    column: cython.pointer(Column) = cython.address(state.columns[step.target])
    if not _present(state, column, step):
        return False
    memcpy(column.data + 16 * column.rows, cython.address(value), 8)
    memset(column.data + 16 * column.rows + 8, 0, 8)
    column.rows += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _enum_of(state: cython.pointer(State), step: cython.pointer(Step), number: cython.int) -> cython.bint:
    at: cython.int
    text: cython.char[320]
    last: cython.pointer(Text) = cython.address(step.texts[step.count - 1])
    for at in range(step.count - 1):
        if step.numbers[at] == number:
            return _append_bytes(state, step, step.texts[at].data, step.texts[at].size)
    if last.size > 280:
        return _fault(state, FAULT_SYMBOL, step, number)
    memcpy(text, last.data, last.size)
    at = snprintf(cython.address(text[last.size]), 30, "%d", number)
    return _append_bytes(state, step, cython.cast(cython.p_uchar, text), last.size + at)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _seconds(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    """Read a message of seconds (1) and nanoseconds (2) as microseconds, rounded down."""
    size: cython.longlong
    tag: cython.ulonglong
    raw: cython.ulonglong
    seconds: cython.longlong = 0
    nanoseconds: cython.longlong = 0
    end: cython.p_uchar = state.end
    if not _raw_size(state, step, cython.address(size)):
        return False
    state.end = state.at + size
    while state.at < state.end:
        if not _raw_varint(state, step, cython.address(tag)):
            return False
        if tag == 8 or tag == 16:
            if not _raw_varint(state, step, cython.address(raw)):
                return False
            if tag == 8:
                seconds = cython.cast(cython.longlong, raw)
            else:
                nanoseconds = cython.cast(cython.int, raw)
        elif tag >> 3 == 0 or not _skip_wire(state, step, tag):
            return _fault(state, FAULT_TAG, step, cython.cast(cython.longlong, tag))
    state.end = end
    if seconds > _SECONDS_MAX or seconds < -_SECONDS_MAX:
        return _fault(state, FAULT_OVERFLOW, step, seconds)
    size = nanoseconds % 1000
    if size < 0:
        size += 1000
    return _append_int64(state, step, seconds * 1000000 + (nanoseconds - size) // 1000)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    value: cython.longlong
    if step.op == OP_SKIP_VARINT:
        return _varint(state, step, cython.address(value))
    elif step.op == OP_SKIP_BYTES:
        if not _size(state, step, cython.address(value)):
            return False
        state.at += value
        return True
    elif step.op == OP_SKIP_FIXED:
        if not _has(state, step, step.argument):
            return False
        state.at += step.argument
        return True
    return _nested(state, step)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _enter(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    if state.depth >= _DEPTH_MAX:
        return _fault(state, FAULT_DEPTH, step, 0)
    state.depth += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _union(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    value: cython.longlong
    begin: cython.p_uchar = state.at
    ok: cython.bint
    if not _varint(state, step, cython.address(value)):
        return False
    if value < 0 or value >= step.count:
        state.at = begin
        return _fault(state, FAULT_BRANCH, step, value)
    if not _enter(state, step):
        return False
    ok = _run(state, cython.address(state.steps[step.children[value]]))
    state.depth -= 1
    return ok


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _record(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    column: cython.pointer(Column)
    at: cython.int
    if not _enter(state, step):
        return False
    for at in range(step.count):
        if not _run(state, cython.address(state.steps[step.children[at]])):
            return False
    state.depth -= 1
    if step.target >= 0:
        column = cython.address(state.columns[step.target])
        if not _present(state, column, step):
            return False
        column.rows += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _nested(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    """Read or skip an array or a map: blocks of items, a negative count with the size of the block behind it."""
    count: cython.longlong
    size: cython.longlong
    begin: cython.p_uchar
    columns: cython.pointer(Column) = state.columns
    column: cython.pointer(Column) = cython.NULL
    item: cython.pointer(Step) = cython.address(state.steps[step.children[0]])
    is_map: cython.bint = step.op == OP_MAP or step.op == OP_SKIP_MAP
    if step.target >= 0:
        column = cython.address(columns[step.target])
    if not _enter(state, step):
        return False
    while True:
        begin = state.at
        if not _varint(state, step, cython.address(count)):
            return False
        if count == 0:
            break
        if count < 0:
            if count < -_INT32_MAX:
                state.at = begin
                return _fault(state, FAULT_ITEMS, step, count)
            count = -count
            if not _size(state, step, cython.address(size)):
                return False
            if column == cython.NULL:
                state.at += size
                continue
        if count > state.items_left:
            state.at = begin
            return _fault(state, FAULT_ITEMS, step, count)
        state.items_left -= count
        while count > 0:
            if is_map and not _key(state, step):
                return False
            if not _run(state, item):
                return False
            if is_map and column != cython.NULL:
                if not _grow(cython.address(columns[column.first]), columns[column.first].rows + 1):
                    return _fault(state, FAULT_MEMORY, step, 0)
                columns[column.first].rows += 1
            count -= 1
    state.depth -= 1
    if column != cython.NULL:
        if columns[column.first].rows > _INT32_MAX:
            return _fault(state, FAULT_COLUMN_FULL, step, columns[column.first].rows)
        if not _present(state, column, step):
            return False
        column.rows += 1
        column.ends[column.rows] = cython.cast(cython.int, columns[column.first].rows)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _key(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    """Read the key of a map; append it to the first child of the entries, unless the map is skipped."""
    size: cython.longlong
    key: Step
    if not _size(state, step, cython.address(size)):
        return False
    if step.target >= 0:
        if not _is_utf8(state.at, size):
            return _fault(state, FAULT_UTF8, step, 0)
        key.index = step.index
        key.target = state.columns[state.columns[step.target].first].first
        if not _append_bytes(state, cython.address(key), state.at, size):
            return False
    state.at += size
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _member(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    column: cython.pointer(Column) = cython.address(state.columns[step.target])
    at: cython.int
    if not _run(state, cython.address(state.steps[step.children[0]])):
        return False
    for at in range(column.count):
        if at != step.argument and not _append_empty(state.columns, column.first + at):
            return _fault(state, FAULT_MEMORY, step, 0)
    if not _present(state, column, step):
        return False
    column.rows += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _default(state: cython.pointer(State), step: cython.pointer(Step)) -> cython.bint:
    at: cython.p_uchar = state.at
    end: cython.p_uchar = state.end
    items_left: cython.Py_ssize_t = state.items_left
    state.at = step.data
    state.end = step.data + step.data_size
    state.items_left = _INT32_MAX
    if not _run(state, cython.address(state.steps[step.children[0]])):
        state.fault_at = at
        return False
    state.at = at
    state.end = end
    state.items_left = items_left
    return True


# -- programs in C


@cython.cclass
class Prepared:
    """A program in C. Keeps the Python program, whose bytes it points to."""

    steps: cython.pointer(Step)
    children: cython.p_int
    texts: cython.pointer(Text)
    rules: cython.pointer(Rule)
    numbers: cython.p_longlong
    root: cython.int
    _kept: list

    def __cinit__(self, program: object) -> None:
        nodes = program.nodes
        self._kept = []
        self.root = program.root
        self.steps = cython.cast(cython.pointer(Step), calloc(len(nodes) + 1, cython.sizeof(Step)))
        children_count = sum(len(node.children) for node in nodes)
        texts_count = sum(len(node.texts) for node in nodes)
        self.children = cython.cast(cython.p_int, calloc(children_count + 1, cython.sizeof(cython.int)))
        self.texts = cython.cast(cython.pointer(Text), calloc(texts_count + 1, cython.sizeof(Text)))
        self.rules = cython.cast(cython.pointer(Rule), calloc(children_count + 1, cython.sizeof(Rule)))
        self.numbers = cython.cast(cython.p_longlong, calloc(texts_count + 1, cython.sizeof(cython.longlong)))
        if not (self.steps and self.children and self.texts and self.rules and self.numbers):
            raise MemoryError
        step: cython.pointer(Step)
        child_at: cython.int = 0
        text_at: cython.int = 0
        index: cython.int
        for index, node in enumerate(nodes):
            step = cython.address(self.steps[index])
            step.op, step.target, step.index = node.op, node.target, index
            step.argument, step.size = node.argument, node.size
            step.children = self.children + child_at
            step.texts = self.texts + text_at
            step.rules = self.rules + child_at
            step.numbers = self.numbers + text_at
            for at, rule in enumerate(node.fields):
                self.rules[child_at + cython.cast(cython.int, at)].number = rule.number
                self.rules[child_at + cython.cast(cython.int, at)].flags = rule.flags
                self.rules[child_at + cython.cast(cython.int, at)].oneof = rule.oneof
            for at, number in enumerate(node.numbers):
                self.numbers[text_at + cython.cast(cython.int, at)] = number
            step.count = len(node.texts) if node.texts else len(node.children)
            for child in node.children:
                self.children[child_at] = child
                child_at += 1
            for text in node.texts:
                self.texts[text_at].size = -1
                if text is not None:
                    encoded: bytes = text.encode()
                    self._kept.append(encoded)
                    self.texts[text_at].data = encoded
                    self.texts[text_at].size = len(encoded)
                text_at += 1
            data: bytes = node.data
            self._kept.append(data)
            step.data, step.data_size = data, len(data)
            if node.op in (OP_DECIMAL_BYTES, OP_DECIMAL_FIXED):
                limit = 10**node.argument
                step.limit_high, step.limit_low = limit >> 64, limit & 0xFFFFFFFFFFFFFFFF

    def __dealloc__(self) -> None:
        free(self.steps)
        free(self.children)
        free(self.texts)
        free(self.rules)
        free(self.numbers)


prepare = Prepared


# -- the interface


@cython.cclass
class _View:
    """A buffer of Arrow, or nothing."""

    view: Py_buffer
    held: cython.bint
    data: cython.p_uchar

    def __cinit__(self, buffer: object) -> None:
        self.held = buffer is not None
        self.data = cython.NULL
        if self.held:
            PyObject_GetBuffer(buffer, cython.address(self.view), PyBUF_SIMPLE)
            self.data = cython.cast(cython.p_uchar, self.view.buf)

    def __dealloc__(self) -> None:
        if self.held:
            PyBuffer_Release(cython.address(self.view))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_null(validity: cython.p_uchar, row: cython.Py_ssize_t) -> cython.bint:
    return validity != cython.NULL and not validity[row >> 3] >> (row & 7) & 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _prefix_size(data: cython.p_uchar, size: cython.Py_ssize_t, indexes: cython.bint) -> cython.Py_ssize_t:
    """The size of a prefix with id or GUID, and with indexes of a message if they follow; 0 if it is none."""
    at: cython.Py_ssize_t = 5
    left: cython.longlong = 0
    shift: cython.int = 0
    counted: cython.bint = False
    if size < 5 or data[0] > 1:
        return 0
    if data[0] == 1:
        at = 17
        if size < at:
            return 0
    if not indexes:
        return at
    while True:
        if at >= size or shift > 21:
            return 0
        if not counted:
            left |= cython.cast(cython.longlong, data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] >= 0x80:
            continue
        shift = 0
        if not counted:
            counted = True
            left = left >> 1
        else:
            left -= 1
        if left <= 0:
            return at


def scan(
    validity: object,
    offsets: object,
    data: object,
    start: cython.Py_ssize_t,
    rows: cython.Py_ssize_t,
    indexes: cython.bint,
):
    """Find the prefixes of framed rows. See `plain_decoding.scan`."""
    valid: _View = _View(validity)
    ends: _View = _View(offsets)
    bytes_: _View = _View(data)
    bounds: cython.p_int = cython.cast(cython.p_int, ends.data) + start
    block: Block = _block(malloc(max(rows, 1) * 4), rows * 4)
    slots: cython.p_int = cython.cast(cython.p_int, block.data)
    if slots == cython.NULL:
        raise MemoryError
    known: dict = {}
    last: cython.p_uchar = cython.NULL
    last_size: cython.Py_ssize_t = 0
    last_slot: cython.int = 0
    row: cython.Py_ssize_t
    size: cython.Py_ssize_t
    at: cython.p_uchar
    for row in range(rows):
        if _is_null(valid.data, start + row):
            slots[row] = -1
            continue
        at = bytes_.data + bounds[row]
        size = _prefix_size(at, bounds[row + 1] - bounds[row], indexes)
        if size == 0:
            slots[row] = -2
            continue
        if size != last_size or memcmp(at, last, size) != 0:
            last_slot = known.setdefault(at[:size], len(known))
            last, last_size = at, size
        slots[row] = last_slot
    return block, list(known)


@cython.cclass
class Decoder:
    """Decodes rows into columns. See `plain_decoding.Decoder`."""

    columns: cython.pointer(Column)
    count: cython.int

    def __cinit__(self, root: object) -> None:
        flat = _columns.flattened(root)
        self.count = len(flat)
        self.columns = cython.cast(cython.pointer(Column), calloc(self.count, cython.sizeof(Column)))
        if self.columns == cython.NULL:
            raise MemoryError
        index: cython.int
        for index, (column, first) in enumerate(flat):
            self.columns[index].kind = column.kind
            self.columns[index].nullable = column.nullable
            self.columns[index].width = 1 if column.kind == KIND_BOOLEAN else column.width
            self.columns[index].first = first
            self.columns[index].count = len(column.children)

    def __dealloc__(self) -> None:
        index: cython.int
        if self.columns != cython.NULL:
            for index in range(self.count):
                free(self.columns[index].valid)
                free(self.columns[index].data)
                free(self.columns[index].ends)
                free(self.columns[index].bytes)
            free(self.columns)

    def decode(
        self,
        validity: object,
        offsets: object,
        data: object,
        start: cython.Py_ssize_t,
        rows: cython.Py_ssize_t,
        slots: object,
        programs: list,
        prefixes: list,
    ) -> list:
        """Append a row for each row of a binary array. See `plain_decoding.Decoder.decode`."""
        valid: _View = _View(validity)
        ends: _View = _View(offsets)
        bytes_: _View = _View(data)
        chosen: _View = _View(slots)
        bounds: cython.p_int = cython.cast(cython.p_int, ends.data) + start
        slot_of: cython.p_int = cython.cast(cython.p_int, chosen.data)
        faults: list = []
        state: State
        prepared: Prepared
        row: cython.Py_ssize_t
        before: cython.Py_ssize_t
        slot: cython.int
        last: cython.int = -1
        prefix: cython.Py_ssize_t = 0
        root: cython.int = 0
        missing: cython.bint = True
        ok: cython.bint
        self._reserve(rows)
        memset(cython.address(state), 0, cython.sizeof(State))
        state.columns = self.columns
        for row in range(rows):
            slot = slot_of[row]
            if slot >= 0 and slot != last:
                missing = programs[slot] is None
                if not missing:
                    prepared = programs[slot]
                    state.steps = prepared.steps
                    root = prepared.root
                    prefix = prefixes[slot]
                last = slot
            if slot < 0 or missing or _is_null(valid.data, start + row):
                if not _append_empty(self.columns, 0):
                    raise MemoryError
                continue
            before = self.columns[0].rows
            state.begin = bytes_.data + bounds[row] + prefix
            state.at = state.begin
            state.end = bytes_.data + bounds[row + 1]
            state.items_left = bounds[row + 1] - bounds[row] + _ITEMS_SPARE
            state.depth = 0
            ok = _run(cython.address(state), cython.address(state.steps[root]))
            if ok and state.at != state.end:
                ok = _fault(
                    cython.address(state), FAULT_TRAILING, cython.address(state.steps[root]), state.end - state.at
                )
            if not ok:
                _truncate(self.columns, 0, before)
                if state.fault == FAULT_COLUMN_FULL:
                    raise BatchTooLargeError(_program.COLUMN_FULL)
                if state.fault == FAULT_MEMORY or not _append_empty(self.columns, 0):
                    raise MemoryError
                faults.append((row, slot, state.fault, state.fault_node, state.fault_at - state.begin, state.detail))
        return faults

    @cython.cfunc
    def _reserve(self, rows: cython.Py_ssize_t):
        """Make room for the rows in each column that has one value per record at most."""
        index: cython.int
        child: cython.int
        outside: bytearray = bytearray(self.count)
        outside[0] = 1
        for index in range(self.count):
            if outside[index]:
                if not _grow(cython.address(self.columns[index]), self.columns[index].rows + rows):
                    raise MemoryError
                if self.columns[index].kind == KIND_STRUCT:
                    for child in range(self.columns[index].count):
                        outside[self.columns[index].first + child] = 1

    def take(self) -> list:
        """Return rows, nulls and buffers of each column. See `plain_decoding.Decoder.take`."""
        taken: list = []
        index: cython.int
        column: cython.pointer(Column)
        size: cython.Py_ssize_t
        for index in range(self.count):
            column = cython.address(self.columns[index])
            if not _grow(column, 1):  # so that there are offsets
                raise MemoryError
            validity = _bits(column.valid, column.rows) if column.nulls else None
            buffers = [validity]
            if column.kind == KIND_BOOLEAN:
                buffers.append(_bits(column.data, column.rows))
            elif column.kind == KIND_FIXED_WIDTH:
                buffers.append(_block(column.data, column.rows * column.width))
                column.data = cython.NULL
            elif column.kind == KIND_VARIABLE or column.kind == KIND_LIST:
                size = column.ends[column.rows]
                buffers.append(_block(column.ends, (column.rows + 1) * 4))
                column.ends = cython.NULL
                if column.kind == KIND_VARIABLE:
                    buffers.append(_block(column.bytes, size))
                    column.bytes = cython.NULL
            taken.append((column.rows, column.nulls, buffers))
            free(column.valid)
            free(column.data)
            column.valid = cython.NULL
            column.data = cython.NULL
            column.rows = column.nulls = column.capacity = column.bytes_capacity = 0
        return taken


@cython.cfunc
def _bits(marks: cython.p_uchar, rows: cython.Py_ssize_t) -> Block:
    """Pack bytes that are 0 or 1 into bits, lowest first."""
    size: cython.Py_ssize_t = (rows + 7) // 8
    data: cython.p_uchar = cython.cast(cython.p_uchar, calloc(size + 8, 1))
    word: cython.ulonglong
    row: cython.Py_ssize_t = 0
    if data == cython.NULL:
        raise MemoryError
    while row + 8 <= rows:
        memcpy(cython.address(word), marks + row, 8)
        data[row >> 3] = gathered(word)
        row += 8
    while row < rows:
        data[row >> 3] |= marks[row] << (row & 7)
        row += 1
    return _block(data, size)
