"""Encoding of columns as Avro or Protobuf records, compiled: `encode`.

Start at `_run`, which writes one value of Avro, and at `_protobuf`, which writes one field.

The twin in plain Python, which documents the interface, is `plain_encoding`. This is Cython in its pure-Python mode:
C types are annotations, and `setup.py` compiles it. Never import it uncompiled.
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
from cython.cimports.libc.stdlib import calloc, free, malloc, realloc
from cython.cimports.libc.string import memcmp, memcpy, memmove

from kafkaraw.errors import BatchTooLargeError, InternalError
from kafkaraw.schemas.arrow import encode_program as _program

_INT32_MAX = cython.declare(cython.longlong, 2**31 - 1)
_VARINT_MAX = cython.declare(cython.longlong, 10)
_UINT32_MAX = cython.declare(cython.longlong, 2**32 - 1)
_FIELD_MAX = cython.declare(cython.longlong, 48)  # bytes of a tag, a size and a time, and more

LAST = (ENCODE_PROTOBUF_ENUM, FAULT_ONEOF, PRESENCE_REQUIRED)
"""Some of the constants of C: `_implementation` compares them with those of Python."""


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fault(
    state: cython.pointer(State), fault: cython.int, step: cython.pointer(Step), detail: cython.longlong
) -> cython.bint:
    state.fault = fault
    state.fault_node = step.index
    state.detail = detail
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _grow(state: cython.pointer(State), step: cython.pointer(Step), more: cython.longlong) -> cython.bint:
    needed: cython.longlong = state.size + more
    if needed > _INT32_MAX:
        return _fault(state, FAULT_TOO_LARGE, step, needed)
    capacity: cython.longlong = max(needed, 2 * state.capacity, 1024)
    moved: cython.p_void = realloc(state.out, capacity)
    if moved == cython.NULL:
        return _fault(state, FAULT_MEMORY, step, needed)
    state.out = cython.cast(cython.p_uchar, moved)
    state.capacity = capacity
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _room(state: cython.pointer(State), step: cython.pointer(Step), more: cython.longlong) -> cython.bint:
    return state.size + more <= state.capacity or _grow(state, step, more)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _varint(state: cython.pointer(State), step: cython.pointer(Step), value: cython.longlong) -> cython.bint:
    raw: cython.ulonglong = (cython.cast(cython.ulonglong, value) << 1) ^ cython.cast(cython.ulonglong, value >> 63)
    if not _room(state, step, _VARINT_MAX):
        return False
    while raw > 0x7F:
        state.out[state.size] = cython.cast(cython.uchar, raw & 0x7F | 0x80)
        state.size += 1
        raw >>= 7
    state.out[state.size] = cython.cast(cython.uchar, raw)
    state.size += 1
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _raw(
    state: cython.pointer(State), step: cython.pointer(Step), data: cython.p_uchar, size: cython.longlong
) -> cython.bint:
    if not _room(state, step, size):
        return False
    memcpy(state.out + state.size, data, size)
    state.size += size
    return True


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_null(source: cython.pointer(Source), row: cython.Py_ssize_t) -> cython.bint:
    at: cython.Py_ssize_t = source.start + row
    return source.validity != cython.NULL and not source.validity[at >> 3] >> (at & 7) & 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _run(state: cython.pointer(State), step: cython.pointer(Step), row: cython.Py_ssize_t) -> cython.bint:
    """Write the value of a row; False if it cannot be written, with the reason in the state."""
    source: cython.pointer(Source) = cython.address(state.sources[step.source])
    at: cython.Py_ssize_t = source.start + row
    value: cython.longlong
    begin: cython.int
    if step.op == ENCODE_NULLABLE:
        return _nullable(state, step, source, row)
    if step.op == ENCODE_MEMBERS:
        return _members(state, step, source, row)
    if step.op == ENCODE_NULL:
        return True
    if _is_null(source, row):
        return _fault(state, FAULT_NULL, step, 0)
    if step.op == ENCODE_LONG:
        return _varint(state, step, cython.cast(cython.p_longlong, source.data)[at])
    elif step.op == ENCODE_BYTES:
        begin = source.ends[at]
        value = source.ends[at + 1] - begin
        return _varint(state, step, value) and _raw(state, step, source.data + begin, value)
    elif step.op == ENCODE_INT:
        return _varint(state, step, cython.cast(cython.p_int, source.data)[at])
    elif step.op == ENCODE_DOUBLE:
        return _raw(state, step, source.data + 8 * at, 8)
    elif step.op == ENCODE_RECORD:
        return _record(state, step, row)
    elif step.op == ENCODE_ARRAY or step.op == ENCODE_MAP:
        return _nested(state, step, source, at)
    elif step.op == ENCODE_MILLISECONDS:
        value = cython.cast(cython.p_longlong, source.data)[at]
        # rounded down, and without negative operands: what `//` does with them depends on a directive
        return _varint(state, step, value // 1000 if value >= 0 else ~(~value // 1000))
    elif step.op == ENCODE_BOOLEAN:
        if not _room(state, step, 1):
            return False
        state.out[state.size] = source.data[at >> 3] >> (at & 7) & 1
        state.size += 1
        return True
    elif step.op == ENCODE_FLOAT:
        return _raw(state, step, source.data + 4 * at, 4)
    elif step.op == ENCODE_FIXED:
        begin = source.ends[at]
        value = source.ends[at + 1] - begin
        if value != step.argument:
            return _fault(state, FAULT_FIXED_SIZE, step, value)
        return _raw(state, step, source.data + begin, value)
    elif step.op == ENCODE_ENUM:
        return _enum(state, step, source, at)
    return _decimal(state, step, source.data + 16 * at)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _nullable(
    state: cython.pointer(State), step: cython.pointer(Step), source: cython.pointer(Source), row: cython.Py_ssize_t
) -> cython.bint:
    if step.children[0] < 0 or _is_null(source, row):
        if step.argument < 0:
            return _fault(state, FAULT_NULL, step, 0)
        return _varint(state, step, step.argument)
    return _varint(state, step, step.value_branch) and _run(state, cython.address(state.steps[step.children[0]]), row)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _members(
    state: cython.pointer(State), step: cython.pointer(Step), source: cython.pointer(Source), row: cython.Py_ssize_t
) -> cython.bint:
    found: cython.int = -1
    count: cython.int = 0
    member: cython.int
    if not _is_null(source, row):
        for member in range(step.count):
            if not _is_null(cython.address(state.sources[source.first + member]), row):
                found = member
                count += 1
    if count > 1 or (count == 0 and step.argument < 0):
        return _fault(state, FAULT_MEMBERS, step, count)
    if count == 0:
        return _varint(state, step, step.argument)
    return _varint(state, step, step.branches[found]) and _run(
        state, cython.address(state.steps[step.children[found]]), row
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _record(state: cython.pointer(State), step: cython.pointer(Step), row: cython.Py_ssize_t) -> cython.bint:
    child: cython.int
    for child in range(step.count):
        if not _run(state, cython.address(state.steps[step.children[child]]), row):
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _nested(
    state: cython.pointer(State), step: cython.pointer(Step), source: cython.pointer(Source), at: cython.Py_ssize_t
) -> cython.bint:
    """Write an array or a map as one block."""
    begin: cython.int = source.ends[at]
    end: cython.int = source.ends[at + 1]
    item: cython.int
    keys: cython.pointer(Source) = cython.NULL
    key: cython.Py_ssize_t
    if step.op == ENCODE_MAP:
        keys = cython.address(state.sources[state.sources[source.first].first])
    if end > begin and not _varint(state, step, end - begin):
        return False
    for item in range(begin, end):
        if keys != cython.NULL:
            key = keys.start + item
            if not _varint(state, step, keys.ends[key + 1] - keys.ends[key]):
                return False
            if not _raw(state, step, keys.data + keys.ends[key], keys.ends[key + 1] - keys.ends[key]):
                return False
        if not _run(state, cython.address(state.steps[step.children[0]]), item):
            return False
    return _varint(state, step, 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _enum(
    state: cython.pointer(State), step: cython.pointer(Step), source: cython.pointer(Source), at: cython.Py_ssize_t
) -> cython.bint:
    symbol: cython.int
    begin: cython.int = source.ends[at]
    size: cython.Py_ssize_t = source.ends[at + 1] - begin
    for symbol in range(step.count):
        if step.symbols[symbol].size == size and memcmp(step.symbols[symbol].data, source.data + begin, size) == 0:
            return _varint(state, step, symbol)
    return _fault(state, FAULT_SYMBOL, step, 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _decimal(state: cython.pointer(State), step: cython.pointer(Step), value: cython.p_uchar) -> cython.bint:
    """Write decimal128, which is little endian in memory, highest byte first."""
    size: cython.longlong = 16
    sign: cython.uchar = 0xFF if value[15] & 0x80 else 0
    at: cython.longlong
    while size > 1 and value[size - 1] == sign and not (value[size - 2] ^ sign) & 0x80:
        size -= 1
    if step.op == ENCODE_DECIMAL_BYTES:
        if not _varint(state, step, size):
            return False
    else:
        if size > step.argument:
            return _fault(state, FAULT_DECIMAL_SIZE, step, size)
        if not _room(state, step, step.argument):
            return False
        for at in range(step.argument - size):
            state.out[state.size] = sign
            state.size += 1
    if not _room(state, step, size):
        return False
    for at in range(size):
        state.out[state.size] = value[size - 1 - at]
        state.size += 1
    return True


# -- Protobuf


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(state: cython.pointer(State), number: cython.ulonglong) -> cython.void:
    """Write a varint, for which there is room."""
    while number > 0x7F:
        state.out[state.size] = cython.cast(cython.uchar, number & 0x7F | 0x80)
        state.size += 1
        number >>= 7
    state.out[state.size] = cython.cast(cython.uchar, number)
    state.size += 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _begin(state: cython.pointer(State), tag: cython.longlong) -> cython.Py_ssize_t:
    """Write a tag, and leave a byte for the size; there is room for both."""
    _put(state, tag)
    state.size += 1
    return state.size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _end(state: cython.pointer(State), step: cython.pointer(Step), begin: cython.Py_ssize_t) -> cython.bint:
    """Write the size of what was written since `_begin`; one of more than a byte moves it."""
    size: cython.Py_ssize_t = state.size - begin
    more: cython.Py_ssize_t = 0
    rest: cython.Py_ssize_t = size >> 7
    if rest == 0:
        state.out[begin - 1] = cython.cast(cython.uchar, size)
        return True
    while rest:
        more += 1
        rest >>= 7
    if not _room(state, step, more):
        return False
    memmove(state.out + begin + more, state.out + begin, size)
    state.size = begin - 1
    _put(state, size)
    state.size += size
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _protobuf(state: cython.pointer(State), step: cython.pointer(Step), row: cython.Py_ssize_t) -> cython.bint:
    """Write a field of a row; False if it cannot be written, with the reason in the state."""
    source: cython.pointer(Source) = cython.address(state.sources[step.source])
    at: cython.Py_ssize_t = source.start + row
    if step.op == ENCODE_PROTOBUF_ONEOF:
        return _oneof(state, step, row)
    if _is_null(source, row):
        return _fault(state, FAULT_NULL, step, 0) if step.presence == PRESENCE_REQUIRED else True
    if step.op == ENCODE_PROTOBUF_BYTES:
        return _protobuf_bytes(state, step, source, at)
    if step.op >= ENCODE_PROTOBUF_RAW32:
        return _protobuf_number(state, step, source, at)
    if step.op == ENCODE_PROTOBUF_MESSAGE:
        return _message(state, step, row)
    if step.op == ENCODE_PROTOBUF_TIMESTAMP or step.op == ENCODE_PROTOBUF_DURATION:
        return _protobuf_time(state, step, cython.cast(cython.p_longlong, source.data)[at])
    return _items(state, step, source, at)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _oneof(state: cython.pointer(State), step: cython.pointer(Step), row: cython.Py_ssize_t) -> cython.bint:
    count: cython.int = 0
    member: cython.int
    for member in range(step.count):
        if not _is_null(cython.address(state.sources[step.branches[member]]), row):
            count += 1
    return True if count <= 1 else _fault(state, FAULT_ONEOF, step, count)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _message(state: cython.pointer(State), step: cython.pointer(Step), row: cython.Py_ssize_t) -> cython.bint:
    begin: cython.Py_ssize_t = 0
    child: cython.int
    if step.argument:
        if not _room(state, step, _FIELD_MAX):
            return False
        begin = _begin(state, step.argument)
    for child in range(step.count):
        if not _protobuf(state, cython.address(state.steps[step.children[child]]), row):
            return False
    return _end(state, step, begin) if step.argument else True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _protobuf_bytes(
    state: cython.pointer(State), step: cython.pointer(Step), source: cython.pointer(Source), at: cython.Py_ssize_t
) -> cython.bint:
    begin: cython.int = source.ends[at]
    size: cython.Py_ssize_t = source.ends[at + 1] - begin
    if size == 0 and step.presence == PRESENCE_IMPLICIT:
        return True
    if not _room(state, step, _FIELD_MAX + size):
        return False
    _put(state, step.argument)
    _put(state, size)
    memcpy(state.out + state.size, source.data + begin, size)
    state.size += size
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _protobuf_number(
    state: cython.pointer(State), step: cython.pointer(Step), source: cython.pointer(Source), at: cython.Py_ssize_t
) -> cython.bint:
    value: cython.longlong = 0
    raw: cython.ulonglong
    size: cython.int = 0  # bytes, 0 for a varint
    if step.op == ENCODE_PROTOBUF_INT64 or step.op == ENCODE_PROTOBUF_SINT64:
        value = cython.cast(cython.p_longlong, source.data)[at]
    elif step.op == ENCODE_PROTOBUF_INT32 or step.op == ENCODE_PROTOBUF_SINT32:
        value = cython.cast(cython.p_int, source.data)[at]
    elif step.op == ENCODE_PROTOBUF_RAW64:
        size = 8
        value = cython.cast(cython.p_longlong, source.data)[at]
    elif step.op == ENCODE_PROTOBUF_RAW32:
        size = 4
        value = cython.cast(cython.p_int, source.data)[at]
    elif step.op == ENCODE_PROTOBUF_BOOL:
        value = source.data[at >> 3] >> (at & 7) & 1
    elif step.op == ENCODE_PROTOBUF_ENUM:
        if not _enum_number(state, step, source, at, cython.address(value)):
            return False
    elif step.op == ENCODE_PROTOBUF_UINT32 or step.op == ENCODE_PROTOBUF_UFIXED32:
        size = 4 if step.op == ENCODE_PROTOBUF_UFIXED32 else 0
        value = cython.cast(cython.p_longlong, source.data)[at]
        if value < 0 or value > _UINT32_MAX:
            return _fault(state, FAULT_UINT32, step, value)
    else:
        size = 8 if step.op == ENCODE_PROTOBUF_UFIXED64 else 0
        value = cython.cast(cython.p_longlong, source.data)[2 * at]
        if cython.cast(cython.p_longlong, source.data)[2 * at + 1]:
            return _fault(state, FAULT_UINT64, step, 0)
    if value == 0 and step.presence == PRESENCE_IMPLICIT:
        return True
    if not _room(state, step, _FIELD_MAX):
        return False
    if step.argument:
        _put(state, step.argument)
    raw = cython.cast(cython.ulonglong, value)
    if size:
        memcpy(state.out + state.size, cython.address(raw), size)  # little endian
        state.size += size
        return True
    if step.op == ENCODE_PROTOBUF_SINT64 or step.op == ENCODE_PROTOBUF_SINT32:
        raw = (raw << 1) ^ cython.cast(cython.ulonglong, value >> 63)
    _put(state, raw)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _enum_number(
    state: cython.pointer(State),
    step: cython.pointer(Step),
    source: cython.pointer(Source),
    at: cython.Py_ssize_t,
    value: cython.p_longlong,
) -> cython.bint:
    """Find the number of a name; that of an unknown one is behind the last text."""
    symbol: cython.int
    begin: cython.int = source.ends[at]
    data: cython.p_uchar = source.data + begin
    size: cython.Py_ssize_t = source.ends[at + 1] - begin
    known: cython.int = step.count - 1
    for symbol in range(known):
        if step.symbols[symbol].size == size and memcmp(step.symbols[symbol].data, data, size) == 0:
            value[0] = step.branches[symbol]
            return True
    place: cython.Py_ssize_t = step.symbols[known].size
    if size <= place or memcmp(step.symbols[known].data, data, place) != 0:
        return _fault(state, FAULT_SYMBOL, step, 0)
    negative: cython.bint = data[place] == 45
    number: cython.longlong = 0
    place += negative
    if size == place or size - place > 10:
        return _fault(state, FAULT_SYMBOL, step, 0)
    while place < size:
        if not 48 <= data[place] <= 57:
            return _fault(state, FAULT_SYMBOL, step, 0)
        number = 10 * number + data[place] - 48
        place += 1
    if number > _INT32_MAX + negative:
        return _fault(state, FAULT_SYMBOL, step, 0)
    value[0] = -number if negative else number
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _protobuf_time(state: cython.pointer(State), step: cython.pointer(Step), value: cython.longlong) -> cython.bint:
    """Write a Timestamp, whose nanoseconds are never negative, or a Duration, both of whose numbers have one sign."""
    seconds: cython.longlong
    nanoseconds: cython.longlong
    begin: cython.Py_ssize_t
    # without negative operands: what `//` does with them depends on a directive
    if value >= 0:
        seconds = value // 1_000_000
    elif step.op == ENCODE_PROTOBUF_TIMESTAMP:
        seconds = ~(~value // 1_000_000)
    else:
        seconds = -cython.cast(cython.longlong, (0 - cython.cast(cython.ulonglong, value)) // 1_000_000)
    raw: cython.ulonglong = cython.cast(cython.ulonglong, value) - cython.cast(cython.ulonglong, seconds) * 1_000_000
    nanoseconds = cython.cast(cython.longlong, raw) * 1000
    if not _room(state, step, _FIELD_MAX):
        return False
    begin = _begin(state, step.argument)
    if seconds:
        _put(state, 8)
        _put(state, cython.cast(cython.ulonglong, seconds))
    if nanoseconds:
        _put(state, 16)
        _put(state, cython.cast(cython.ulonglong, nanoseconds))
    return _end(state, step, begin)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _items(
    state: cython.pointer(State), step: cython.pointer(Step), source: cython.pointer(Source), at: cython.Py_ssize_t
) -> cython.bint:
    """Write the items of a list, or the entries of a map."""
    item: cython.int
    begin: cython.Py_ssize_t
    first: cython.pointer(Step) = cython.address(state.steps[step.children[0]])
    last: cython.int = source.ends[at + 1]
    if source.ends[at] == last:
        return True
    if step.op == ENCODE_PROTOBUF_REPEATED:
        for item in range(source.ends[at], last):
            if not _protobuf(state, first, item):
                return False
        return True
    if step.op == ENCODE_PROTOBUF_PACKED:
        if not _room(state, step, _FIELD_MAX):
            return False
        begin = _begin(state, step.argument)
        for item in range(source.ends[at], last):
            if not _protobuf(state, first, item):
                return False
        return _end(state, step, begin)
    for item in range(source.ends[at], last):
        if not _room(state, step, _FIELD_MAX):
            return False
        begin = _begin(state, step.argument)
        if not _protobuf(state, first, item):
            return False
        if not _protobuf(state, cython.address(state.steps[step.children[1]]), item):
            return False
        if not _end(state, step, begin):
            return False
    return True


@cython.cclass
class _Held:
    """Buffers that the sources point into."""

    views: cython.pointer(Py_buffer)
    count: cython.int
    sources: cython.pointer(Source)
    steps: cython.pointer(Step)
    numbers: cython.p_int
    symbols: cython.pointer(Symbol)

    def __cinit__(
        self,
        buffers: cython.Py_ssize_t,
        sources: cython.Py_ssize_t,
        steps: cython.Py_ssize_t,
        numbers: cython.Py_ssize_t,
        symbols: cython.Py_ssize_t,
    ) -> None:
        self.views = cython.cast(cython.pointer(Py_buffer), calloc(buffers + 1, cython.sizeof(Py_buffer)))
        self.sources = cython.cast(cython.pointer(Source), calloc(sources + 1, cython.sizeof(Source)))
        self.steps = cython.cast(cython.pointer(Step), calloc(steps + 1, cython.sizeof(Step)))
        self.numbers = cython.cast(cython.p_int, calloc(numbers + 1, cython.sizeof(cython.int)))
        self.symbols = cython.cast(cython.pointer(Symbol), calloc(symbols + 1, cython.sizeof(Symbol)))
        if not (self.views and self.sources and self.steps and self.numbers and self.symbols):
            raise MemoryError

    def __dealloc__(self) -> None:
        view: cython.int
        if self.views != cython.NULL:
            for view in range(self.count):
                PyBuffer_Release(cython.address(self.views[view]))
        free(self.views)
        free(self.sources)
        free(self.steps)
        free(self.numbers)
        free(self.symbols)

    @cython.cfunc
    def pointer(self, buffer: object) -> cython.p_uchar:
        if buffer is None:
            return cython.NULL
        PyObject_GetBuffer(buffer, cython.address(self.views[self.count]), PyBUF_SIMPLE)
        self.count += 1
        return cython.cast(cython.p_uchar, self.views[self.count - 1].buf)


def encode(program: object, sources: list, rows: cython.Py_ssize_t, prefix: bytes):
    """Encode rows. See `plain_encoding.encode`."""
    nodes: list = program.nodes
    held: _Held = _Held(
        3 * len(sources),
        len(sources),
        len(nodes),
        sum([len(node.children) + len(node.branches) for node in nodes]),
        sum([len(node.texts) for node in nodes]),
    )
    index: cython.int
    for index, (validity, ends, data, start, first) in enumerate(sources):
        held.sources[index].validity = held.pointer(validity)
        held.sources[index].ends = cython.cast(cython.p_int, held.pointer(ends))
        held.sources[index].data = held.pointer(data)
        held.sources[index].start = start
        held.sources[index].first = first
    kept: list = _fill_steps(held, nodes)
    _check(held, nodes, program.root, len(sources))
    state: State
    root: cython.pointer(Step) = cython.address(held.steps[program.root])
    top: cython.pointer(Source) = cython.address(held.sources[0])
    block: Block = Block()
    ends_block: Block = Block()
    ends_block.size = 4 * (rows + 1)
    ends_block.data = cython.cast(cython.p_uchar, malloc(ends_block.size))
    if ends_block.data == cython.NULL:
        raise MemoryError
    bounds: cython.p_int = cython.cast(cython.p_int, ends_block.data)
    prefix_data: cython.p_uchar = prefix
    prefix_size: cython.Py_ssize_t = len(prefix)
    row: cython.Py_ssize_t
    is_protobuf: cython.bint = root.op >= ENCODE_PROTOBUF_MESSAGE
    state.sources = held.sources
    state.steps = held.steps
    state.out = cython.NULL
    state.size = state.capacity = 0
    state.fault = FAULT_NONE
    bounds[0] = 0
    for row in range(rows):
        if not _is_null(top, row) and not (
            _raw(cython.address(state), root, prefix_data, prefix_size)
            and (_protobuf(cython.address(state), root, row) if is_protobuf else _run(cython.address(state), root, row))
        ):
            free(state.out)
            if state.fault == FAULT_MEMORY:
                raise MemoryError
            if state.fault == FAULT_TOO_LARGE:
                raise BatchTooLargeError(_program.OUTPUT_FULL)
            return (row, state.fault, state.fault_node, state.detail)
        bounds[row + 1] = cython.cast(cython.int, state.size)
    block.data = state.out if state.out != cython.NULL else cython.cast(cython.p_uchar, malloc(8))
    block.size = state.size
    del kept
    return ends_block, block


@cython.cfunc
def _fill_steps(held: _Held, nodes: list) -> list:
    kept: list = []
    index: cython.int
    number: cython.int = 0
    symbol: cython.int = 0
    step: cython.pointer(Step)
    for index, node in enumerate(nodes):
        step = cython.address(held.steps[index])
        step.op, step.source, step.index = node.op, node.source, index
        step.argument, step.value_branch = node.argument, node.value_branch
        step.presence = node.presence
        step.count = len(node.texts) or len(node.children) or len(node.branches)
        step.children = held.numbers + number
        for child in node.children:
            held.numbers[number] = child
            number += 1
        step.branches = held.numbers + number
        for branch in node.branches:
            held.numbers[number] = branch
            number += 1
        step.symbols = held.symbols + symbol
        for text in node.texts:
            encoded: bytes = text.encode()
            kept.append(encoded)
            held.symbols[symbol].data = encoded
            held.symbols[symbol].size = len(encoded)
            symbol += 1
    return kept


@cython.cfunc
def _check(held: _Held, nodes: list, root: cython.Py_ssize_t, sources: cython.Py_ssize_t) -> object:
    """Refuse a program that would read outside of its arrays, or has an operation that this module does not know."""
    index: cython.int
    child: cython.int
    operation: cython.longlong  # C's enumerations may have no sign
    last: cython.longlong = ENCODE_PROTOBUF_ENUM
    step: cython.pointer(Step)
    if not 0 <= root < len(nodes):
        raise InternalError(f"a program of {len(nodes)} nodes begins with node {root}")
    for index in range(sources):
        if not 0 <= held.sources[index].first < sources or held.sources[index].start < 0:
            raise InternalError(f"column {index} of {sources} has its first child at {held.sources[index].first}")
    for index, node in enumerate(nodes):
        step = cython.address(held.steps[index])
        operation = step.op
        if not (0 <= operation <= last and 0 <= step.source < sources):
            raise InternalError(f"node {index} has the operation {operation}, and column {step.source} of {sources}")
        for each in node.children:
            child = each
            # -1: a union that has null alone
            if not (child == -1 and step.op == ENCODE_NULLABLE) and not 0 <= child < len(nodes):
                raise InternalError(f"node {index} has the child {child}, and there are {len(nodes)} nodes")
        if step.op == ENCODE_PROTOBUF_ONEOF:
            for each in node.branches:
                if not 0 <= each < sources:
                    raise InternalError(f"node {index} reads column {each} of {sources}")
        elif step.op == ENCODE_MEMBERS and not (
            step.source + 1 <= held.sources[step.source].first <= sources - step.count
        ):
            raise InternalError(f"node {index} has {step.count} members, and there are {sources} columns")
    return None
