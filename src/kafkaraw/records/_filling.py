"""Reading into columns, compiled: `fill`. Start there.

The interface and its documentation are in `records/interface.py`; the twin in plain Python is in `_fallback/reader.py`.
This is Cython in its pure-Python mode: C types are annotations, and `setup.py` compiles it. Never import it uncompiled.

Room is made once for all batches of a call, as much as they could need at most, and given back behind them; so a batch
is read once, and what was written of a damaged one is dropped. Only headers, and what may pass 2 GiB, are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import cython
from cython.cimports.cpython import array
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython.cimports.kafkaraw.records._reader import Body, header_name
from cython.cimports.kafkaraw.records._wire import Blob, Fields, Walk, header, next_record, rewind
from cython.cimports.libc.string import memcpy, memset

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.records import columns as _columns
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES
from kafkaraw.records.header import parse_header

_INT64_MAX = cython.declare(cython.longlong, 2**63 - 1)
_INT32_MAX = cython.declare(cython.longlong, 2**31 - 1)
_MICROSECONDS = cython.declare(cython.longlong, 1000)
_CODEC_MASK = cython.declare(cython.int, 7)
_PRESENT = cython.declare(cython.uchar, 0x31)
_NULL = cython.declare(cython.uchar, 0x30)

_Sizes = cython.struct(
    rows=cython.Py_ssize_t,
    keys=cython.longlong,
    values=cython.longlong,
    headers=cython.longlong,
    header_names=cython.longlong,
    header_values=cython.longlong,
)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_ascii(data: cython.p_uchar, size: cython.Py_ssize_t) -> cython.bint:
    index: cython.Py_ssize_t
    for index in range(size):
        if data[index] > 0x7F:
            return False
    return True


def _corrupt(header: object, reason: str) -> CorruptBatchError:
    return CorruptBatchError(f"batch at offset {header.base_offset}: {reason}")


def fill(
    batch: memoryview,
    columns: object,
    at: cython.Py_ssize_t,
    unit: str,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> int:
    """Append the records of one wire batch to columns; control batches add nothing. See `interface.Fill`.

    Raises:
        CorruptBatchError: the columns keep their first `at` rows.
        BatchTooLargeError: as above.
    """
    wires: list = [(parse_header(batch), batch)]
    return _fill(wires, columns, at, unit, None, start_offset, end_offset, size_max_bytes, None)


def fill_batches(  # noqa: PLR0913 - what, where to, and the limits
    wires: Iterable[tuple[object, memoryview]],
    columns: object,
    at: cython.Py_ssize_t,
    unit: str,
    *,
    check: Callable[[object, memoryview], None] | None = None,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
    data_max_bytes: int | None = None,
) -> int:
    """Append the records of many wire batches to columns. See `interface.FillBatches`.

    Raises:
        CorruptBatchError: the columns keep their first `at` rows.
        BatchTooLargeError: as above.
    """
    return _fill(wires, columns, at, unit, check, start_offset, end_offset, size_max_bytes, data_max_bytes)


@cython.cfunc
def _fill(  # noqa: PLR0913 - what, where to, and the limits
    wires: object,
    columns: object,
    at: cython.Py_ssize_t,
    unit: str,
    check: object,
    start_offset: object,
    end_offset: object,
    size_max_bytes: object,
    data_max_bytes: object,
) -> object:
    columns.start_at(at, unit)
    data_max: cython.longlong = _INT64_MAX if data_max_bytes is None else data_max_bytes
    factor: cython.longlong = _MICROSECONDS if unit == "us" else 1
    bodies: list = []
    unchecked: list = []  # for each body its batch, if that is to be checked when it is written, else None
    body: Body
    sizes: _Sizes
    late: cython.bint = check is not None and columns.headers is None  # nothing has to be measured, most likely
    memset(cython.address(sizes), 0, cython.sizeof(_Sizes))
    for parsed, batch in wires:
        if not parsed.is_control and parsed.records_count:
            plain: cython.bint = late and not parsed.attributes & _CODEC_MASK
            if check is not None and not plain:
                check(parsed, batch)
            body = Body()
            body.begin(batch, parsed, start_offset, end_offset, size_max_bytes)
            sizes.rows += body.walk.count
            sizes.keys += body.view.len
            sizes.values += body.view.len
            bodies.append(body)
            unchecked.append((parsed, batch) if plain else None)
            if sizes.values >= data_max:
                break
    if columns.headers is not None or not _has_room(columns, cython.address(sizes)):
        for index, wire in enumerate(unchecked):
            if wire is not None:
                check(wire[0], wire[1])
                unchecked[index] = None
        _measure(bodies, cython.address(sizes), columns.headers is not None)
        if not _has_room(columns, cython.address(sizes)):
            raise BatchTooLargeError(_columns.TOO_LARGE)
    writer: _Writer = _Writer(columns, at)
    try:
        writer.reserve(cython.address(sizes))
        for body, wire in zip(bodies, unchecked):  # noqa: B905 - grown together
            if wire is not None:
                check(wire[0], wire[1])
            writer.write(body, factor)
        writer.finish()
    except BaseException:
        writer.finish()
        columns.truncate(at)
        raise
    columns.rows = writer.row
    return writer.row


@cython.cfunc
@cython.exceptval(-1)
def _measure(bodies: list, sizes: cython.pointer(_Sizes), with_headers: cython.bint) -> cython.int:
    """Add up exactly what the records in the range of offsets need."""
    fields: Fields
    body: Body
    memset(sizes, 0, cython.sizeof(_Sizes))
    for body in bodies:
        while body.walk.index < body.walk.count:
            if not next_record(cython.address(body.walk), cython.address(fields)):
                raise body.bad_record()
            if fields.offset < body.walk.start_offset or fields.offset >= body.walk.end_offset:
                continue
            sizes.rows += 1
            sizes.keys += max(fields.key.size, 0)
            sizes.values += max(fields.value.size, 0)
            if with_headers and fields.headers_count:
                _measure_headers(cython.address(body.walk), cython.address(fields), sizes)
        rewind(cython.address(body.walk))
    return 0


@cython.cfunc
@cython.exceptval(-1)
def _measure_headers(
    walk: cython.pointer(Walk), fields: cython.pointer(Fields), sizes: cython.pointer(_Sizes)
) -> cython.int:
    name: Blob
    value: Blob
    at: cython.p_uchar = fields.headers
    sizes.headers += fields.headers_count
    for _ in range(fields.headers_count):
        at = header(at, walk.end, cython.address(name), cython.address(value))
        if at is cython.NULL:  # the bytes have changed: writing finds out
            break
        if _is_ascii(name.data, name.size):
            sizes.header_names += name.size
        else:
            sizes.header_names += len(header_name(name.data, name.size).encode())
        sizes.header_values += max(value.size, 0)
    return 0


@cython.cfunc
@cython.exceptval(-1)
def _has_room(columns: object, sizes: cython.pointer(_Sizes)) -> cython.int:
    """Whether 32-bit Arrow offsets can address so much."""
    limit: cython.longlong = _columns.DATA_SIZE_MAX
    full: cython.bint = False
    if columns.key is not None:
        full |= len(columns.key.data) + sizes.keys > limit
    if columns.value is not None:
        full |= len(columns.value.data) + sizes.values > limit
    if columns.headers is not None:
        full |= columns.headers.ends[-1] + sizes.headers > _INT32_MAX
        full |= len(columns.headers.keys.data) + sizes.header_names > limit
        full |= len(columns.headers.values.data) + sizes.header_values > limit
    return not full


@cython.final
@cython.cclass
class _BinaryWriter:
    """Writes rows into a `BinaryColumn`; None writes nothing.

    Attributes:
        room: bytes of data that still fit into what was reserved.
    """

    column: object
    ends: array.array  # None before there is a reservation
    rows_left: cython.Py_ssize_t
    room: cython.longlong
    data: cython.p_uchar
    position: cython.int
    end: cython.p_int
    mark: cython.p_uchar

    def __cinit__(self, column: object):
        self.column = column
        self.rows_left = 0

    @cython.cfunc
    @cython.exceptval(-1)
    def reserve(self, rows: cython.Py_ssize_t, size: cython.longlong) -> cython.int:
        if self.column is None:
            return 0
        data: bytearray = self.column.data
        marks: bytearray = self.column.marks
        self.ends = self.column.ends
        data_before: cython.Py_ssize_t = PyByteArray_GET_SIZE(data)
        rows_before: cython.Py_ssize_t = PyByteArray_GET_SIZE(marks)
        PyByteArray_Resize(data, data_before + size)
        PyByteArray_Resize(marks, rows_before + rows)
        array.resize_smart(self.ends, rows_before + rows + 1)
        self.data = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(data)) + data_before
        self.mark = cython.cast(cython.p_uchar, PyByteArray_AS_STRING(marks)) + rows_before
        self.end = self.ends.data.as_ints + rows_before + 1
        self.position = cython.cast(cython.int, data_before)
        self.room = size
        self.rows_left = rows
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def finish(self) -> cython.int:
        """Give back what was reserved and not needed."""
        if self.column is None or self.ends is None:
            return 0
        PyByteArray_Resize(self.column.data, self.position)
        rows: cython.Py_ssize_t = PyByteArray_GET_SIZE(self.column.marks) - self.rows_left
        PyByteArray_Resize(self.column.marks, rows)
        array.resize_smart(self.ends, rows + 1)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def put(self, row: cython.pointer(Blob)) -> cython.bint:
        """Append one row, null for a negative size; False when there is no room for it."""
        size: cython.Py_ssize_t = row.size
        if self.column is None:
            return True
        if self.rows_left <= 0 or size > self.room:
            return False
        self.mark[0] = _NULL if size < 0 else _PRESENT
        if size > 0:
            memcpy(self.data, row.data, size)
            self.data += size
            self.room -= size
            self.position += cython.cast(cython.int, size)
        self.end[0] = self.position
        self.mark += 1
        self.end += 1
        self.rows_left -= 1
        return True


@cython.final
@cython.cclass
class _Writer:
    """Writes records behind the rows that the columns have."""

    offsets: array.array
    timestamps: array.array
    timestamp_types: array.array
    key: _BinaryWriter
    value: _BinaryWriter
    header_key: _BinaryWriter
    header_value: _BinaryWriter
    headers: object
    headers_count: cython.int
    headers_ends: array.array
    row: cython.Py_ssize_t

    def __cinit__(self, columns: object, at: cython.Py_ssize_t):
        self.row = at
        self.offsets = columns.offset
        self.timestamps = columns.timestamp
        self.timestamp_types = columns.timestamp_type
        self.key = _BinaryWriter(columns.key)
        self.value = _BinaryWriter(columns.value)
        self.headers = columns.headers
        self.header_key = _BinaryWriter(None if self.headers is None else self.headers.keys)
        self.header_value = _BinaryWriter(None if self.headers is None else self.headers.values)

    @cython.cfunc
    @cython.exceptval(-1)
    def reserve(self, sizes: cython.pointer(_Sizes)) -> cython.int:
        rows: cython.Py_ssize_t = self.row + sizes.rows
        if self.offsets is not None:
            array.resize_smart(self.offsets, rows)
        if self.timestamps is not None:
            array.resize_smart(self.timestamps, rows)
        if self.timestamp_types is not None:
            array.resize_smart(self.timestamp_types, rows)
        self.key.reserve(sizes.rows, sizes.keys)
        self.value.reserve(sizes.rows, sizes.values)
        if self.headers is not None:
            self.headers_ends = self.headers.ends
            self.headers_count = self.headers_ends.data.as_ints[self.row]
            array.resize_smart(self.headers_ends, rows + 1)
            PyByteArray_Resize(self.headers.marks, rows)
            self.header_key.reserve(cython.cast(cython.Py_ssize_t, sizes.headers), sizes.header_names)
            self.header_value.reserve(cython.cast(cython.Py_ssize_t, sizes.headers), sizes.header_values)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def finish(self) -> cython.int:
        """Give back what was reserved and not needed."""
        for numbers in (self.offsets, self.timestamps, self.timestamp_types):
            if numbers is not None:
                array.resize_smart(numbers, min(self.row, len(numbers)))
        self.key.finish()
        self.value.finish()
        if self.headers_ends is not None:
            array.resize_smart(self.headers_ends, self.row + 1)
            PyByteArray_Resize(self.headers.marks, self.row)
            self.header_key.finish()
            self.header_value.finish()
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def write(self, body: Body, factor: cython.longlong) -> cython.int:
        """Write the records in the range of offsets, and see that all of them are in order."""
        walk: cython.pointer(Walk) = cython.address(body.walk)
        fields: Fields
        row: cython.Py_ssize_t = self.row
        offsets: cython.p_longlong = cython.NULL
        timestamps: cython.p_longlong = cython.NULL
        if self.offsets is not None:
            offsets = self.offsets.data.as_longlongs
        if self.timestamps is not None:
            timestamps = self.timestamps.data.as_longlongs
        while walk.index < walk.count:
            if not next_record(walk, cython.address(fields)):
                raise body.bad_record()
            if fields.offset < walk.start_offset or fields.offset >= walk.end_offset:
                continue
            if offsets is not cython.NULL:
                offsets[row] = fields.offset
            if timestamps is not cython.NULL:
                if factor > 1 and not -_INT64_MAX // factor <= fields.timestamp <= _INT64_MAX // factor:
                    raise _corrupt(body.header, "a timestamp does not fit 64 bits in us")
                timestamps[row] = fields.timestamp * factor
            if (
                not self.key.put(cython.address(fields.key))
                or not self.value.put(cython.address(fields.value))
                or (self.headers is not None and not self.put_headers(row, cython.address(fields), walk.end))
            ):
                raise _corrupt(body.header, "its bytes changed while they were read")
            row += 1
        if walk.at != walk.end:
            raise body.left_over()
        if self.timestamp_types is not None:
            memset(self.timestamp_types.data.as_schars + self.row, body.header.timestamp_type, row - self.row)
        self.row = row
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_headers(self, row: cython.Py_ssize_t, fields: cython.pointer(Fields), end: cython.p_uchar) -> cython.int:
        name: Blob
        value: Blob
        replaced: bytes
        at: cython.p_uchar = fields.headers
        for _ in range(fields.headers_count):
            at = header(at, end, cython.address(name), cython.address(value))
            if at is cython.NULL:
                return 0
            if not _is_ascii(name.data, name.size):
                replaced = header_name(name.data, name.size).encode()
                name.data = cython.cast(cython.p_uchar, PyBytes_AS_STRING(replaced))
                name.size = PyBytes_GET_SIZE(replaced)
            if not self.header_key.put(cython.address(name)) or not self.header_value.put(cython.address(value)):
                return 0
        self.headers_count += cython.cast(cython.int, fields.headers_count)
        self.headers_ends.data.as_ints[row + 1] = self.headers_count
        marks: bytearray = self.headers.marks
        cython.cast(cython.p_uchar, PyByteArray_AS_STRING(marks))[row] = _PRESENT if fields.headers_count else _NULL
        return 1
