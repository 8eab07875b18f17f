"""Reading, compiled: `read_records`, `read_values`, `fill`. Start at `_next`, which reads one record for all of them.

The interface and its documentation are in `records/interface.py`; the twin in plain Python is `_fallback/reader.py`,
which shows the layout of a record. This is Cython in its pure-Python mode: C types are annotations, and `setup.py`
compiles it. Never import it uncompiled.

Every length is compared with what is left before it is used, on each pass: bytes that change between two passes may
give other records, never an access outside. A batch is read to its end before anything of it is handed out.

Source: KIP-98; Kafka's DefaultRecord.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython import array
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.cpython.object import PyObject, PyTypeObject
from cython.cimports.libc.string import memcpy, memset

from kafkaraw.errors import BatchTooLarge, CorruptBatch
from kafkaraw.records import columns as _columns
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES, codec_by_id, too_large
from kafkaraw.records.header import parse_header
from kafkaraw.records.record import Record

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_RECORD_SIZE_MIN = cython.declare(cython.Py_ssize_t, 7)
_VARINT_SHIFT_MAX = cython.declare(cython.int, 63)
_INT64_MAX = cython.declare(cython.longlong, 2**63 - 1)
_INT32_MAX = cython.declare(cython.longlong, 2**31 - 1)
_MICROSECONDS = cython.declare(cython.longlong, 1000)
_LOG_APPEND_TIME = cython.declare(cython.int, 1)
_PRESENT = cython.declare(cython.uchar, 0x31)
_NULL = cython.declare(cython.uchar, 0x30)
_RECORD = cython.declare(type, Record)

_Fields = cython.struct(
    offset=cython.longlong,
    timestamp=cython.longlong,
    key=cython.p_uchar,
    key_size=cython.Py_ssize_t,  # -1 is null, here and below
    value=cython.p_uchar,
    value_size=cython.Py_ssize_t,
    headers=cython.p_uchar,  # behind their count
    headers_count=cython.Py_ssize_t,
)

_Blob = cython.struct(data=cython.p_uchar, size=cython.Py_ssize_t)

_Sizes = cython.struct(
    rows=cython.Py_ssize_t,
    keys=cython.longlong,
    values=cython.longlong,
    headers=cython.longlong,
    header_names=cython.longlong,
    header_values=cython.longlong,
)


# -- bytes of a record; NULL instead of a position means that they make no sense


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _varint(at: cython.p_uchar, end: cython.p_uchar, raw: cython.pointer(cython.ulonglong)) -> cython.p_uchar:
    """Read a varint without undoing the zigzag; NULL when it is cut short or has more than 64 bits."""
    byte: cython.ulonglong
    if at >= end:
        return cython.NULL
    byte = at[0]
    raw[0] = byte & 0x7F
    at += 1
    shift: cython.int = 7
    while byte > 0x7F:
        if at >= end:
            return cython.NULL
        byte = at[0]
        if shift > _VARINT_SHIFT_MAX or (shift == _VARINT_SHIFT_MAX and byte > 1):
            return cython.NULL
        raw[0] |= (byte & 0x7F) << shift
        at += 1
        shift += 7
    return at


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _signed(raw: cython.ulonglong) -> cython.longlong:
    return cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _blob(at: cython.p_uchar, end: cython.p_uchar, blob: cython.pointer(_Blob)) -> cython.p_uchar:
    """Read a length and as many bytes; any negative length is null."""
    raw: cython.ulonglong
    at = _varint(at, end, cython.address(raw))
    if at is cython.NULL:
        return cython.NULL
    blob.data = at
    if raw & 1:
        blob.size = -1
        return at
    if raw >> 1 > cython.cast(cython.ulonglong, end - at):
        return cython.NULL
    blob.size = cython.cast(cython.Py_ssize_t, raw >> 1)
    return at + blob.size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _header(
    at: cython.p_uchar, end: cython.p_uchar, name: cython.pointer(_Blob), value: cython.pointer(_Blob)
) -> cython.p_uchar:
    at = _blob(at, end, name)
    if at is cython.NULL or name.size < 0:
        return cython.NULL
    return _blob(at, end, value)


@cython.cfunc
def _bytes(data: cython.p_uchar, size: cython.Py_ssize_t) -> bytes | None:
    if size < 0:
        return None
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, data), size)


@cython.cfunc
def _name(data: cython.p_uchar, size: cython.Py_ssize_t) -> str:
    """The name of a header. Java replaces what is not UTF-8 as well: one name must not stop a reader."""
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, data), size).decode("utf-8", "replace")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_ascii(data: cython.p_uchar, size: cython.Py_ssize_t) -> cython.bint:
    index: cython.Py_ssize_t
    for index in range(size):
        if data[index] > 0x7F:
            return False
    return True


# -- one batch


@cython.final
@cython.cclass
class _Reader:
    """A position in the records of one batch."""

    view: Py_buffer
    held: cython.bint
    header: object
    at: cython.p_uchar
    end: cython.p_uchar
    count: cython.Py_ssize_t
    index: cython.Py_ssize_t
    previous: cython.longlong
    base_offset: cython.longlong
    last_delta: cython.longlong
    base_timestamp: cython.longlong
    append_time: cython.longlong
    appended: cython.bint
    start_offset: cython.longlong
    end_offset: cython.longlong

    def __cinit__(self):
        self.held = False

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(cython.address(self.view))

    @cython.cfunc
    @cython.exceptval(-1)
    def begin(
        self, batch: object, header: object, start_offset: object, end_offset: object, size_max_bytes: object
    ) -> cython.int:
        """Decompress, and read all records once to see that they are in order."""
        body: object = batch[_HEADER_SIZE:]
        codec_id: cython.int = header.codec_id
        if codec_id:
            body = codec_by_id(codec_id).decompress(body, size_max_bytes)
        elif len(body) > size_max_bytes:
            raise too_large(size_max_bytes)
        PyObject_GetBuffer(body, cython.address(self.view), PyBUF_SIMPLE)
        self.held = True
        self.header = header
        self.count = header.records_count
        self.base_offset = header.base_offset
        self.last_delta = header.last_offset_delta
        self.base_timestamp = header.base_timestamp
        self.append_time = header.max_timestamp
        self.appended = header.timestamp_type == _LOG_APPEND_TIME
        self.start_offset = max(min(start_offset, _INT64_MAX), 0)
        self.end_offset = _INT64_MAX if end_offset is None else max(min(end_offset, _INT64_MAX), 0)
        if self.count * _RECORD_SIZE_MIN > self.view.len:
            raise _corrupt(header, f"{self.view.len} bytes cannot hold {self.count} records")
        self.rewind()
        fields: _Fields
        while self.index < self.count:
            _next(self, cython.address(fields))
        if self.at != self.end:
            raise _corrupt(header, f"{self.end - self.at} bytes are left behind its {self.count} records")
        self.rewind()
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def rewind(self) -> cython.void:
        self.at = cython.cast(cython.p_uchar, self.view.buf)
        self.end = self.at + self.view.len
        self.index = 0
        self.previous = -1


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _next(reader: _Reader, fields: cython.pointer(_Fields)) -> cython.int:
    """Read the next record, whatever its offset; raises CorruptBatch when it makes no sense."""
    if not _read(reader, fields):
        raise _corrupt(
            reader.header,
            f"record {reader.index} of {reader.count} has lengths or offsets that do not fit",
        )
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _read(reader: _Reader, fields: cython.pointer(_Fields)) -> cython.bint:
    raw: cython.ulonglong
    blob: _Blob
    name: _Blob
    at: cython.p_uchar = _varint(reader.at, reader.end, cython.address(raw))
    if at is cython.NULL or raw & 1 or raw >> 1 > cython.cast(cython.ulonglong, reader.end - at) or raw < 2:
        return False
    end: cython.p_uchar = at + cython.cast(cython.Py_ssize_t, raw >> 1)
    at = _varint(at + 1, end, cython.address(raw))  # behind the attributes, which mean nothing yet
    if at is cython.NULL:
        return False
    if reader.appended:
        fields.timestamp = reader.append_time
    else:
        # Wraps around as Java's arithmetic does: the difference of two timestamps may pass 64 bits, and comes back.
        fields.timestamp = cython.cast(
            cython.longlong,
            cython.cast(cython.ulonglong, reader.base_timestamp) + cython.cast(cython.ulonglong, _signed(raw)),
        )
    at = _varint(at, end, cython.address(raw))
    if at is cython.NULL or raw & 1 or raw >> 1 > cython.cast(cython.ulonglong, reader.last_delta):
        return False
    step: cython.longlong = cython.cast(cython.longlong, raw >> 1)
    if step <= reader.previous:
        return False
    fields.offset = reader.base_offset + step
    at = _blob(at, end, cython.address(blob))
    if at is cython.NULL:
        return False
    fields.key = blob.data
    fields.key_size = blob.size
    at = _blob(at, end, cython.address(blob))
    if at is cython.NULL:
        return False
    fields.value = blob.data
    fields.value_size = blob.size
    at = _varint(at, end, cython.address(raw))
    if at is cython.NULL or raw & 1 or raw >> 1 > cython.cast(cython.ulonglong, end - at):
        return False
    fields.headers = at
    fields.headers_count = cython.cast(cython.Py_ssize_t, raw >> 1)
    for _ in range(fields.headers_count):
        at = _header(at, end, cython.address(name), cython.address(blob))
        if at is cython.NULL:
            return False
    if at != end:
        return False
    reader.at = end
    reader.previous = step
    reader.index += 1
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _next_wanted(reader: _Reader, fields: cython.pointer(_Fields)) -> cython.int:
    """Read on to the next record in the range of offsets; 0 when there is none."""
    while reader.index < reader.count:
        _next(reader, fields)
        if fields.offset >= reader.end_offset:
            return 0
        if fields.offset >= reader.start_offset:
            return 1
    return 0


def _corrupt(header: object, reason: str) -> CorruptBatch:
    return CorruptBatch(f"batch at offset {header.base_offset}: {reason}")


# -- as objects


@cython.final
@cython.cclass
class _Records:
    """The records of one batch, made one by one."""

    reader: _Reader
    topic: object
    partition: object
    timestamp_type: object
    timestamp: object
    last_timestamp: cython.longlong

    def __iter__(self) -> _Records:
        return self

    def __next__(self) -> Record:
        fields: _Fields
        if not _next_wanted(self.reader, cython.address(fields)):
            raise StopIteration
        if self.timestamp is None or fields.timestamp != self.last_timestamp:  # many records share their time
            self.timestamp = fields.timestamp
            self.last_timestamp = fields.timestamp
        fields_of_record: tuple = (
            self.topic,
            self.partition,
            fields.offset,
            self.timestamp,
            self.timestamp_type,
            _bytes(fields.key, fields.key_size),
            _bytes(fields.value, fields.value_size),
            _headers(cython.address(fields), self.reader.end) if fields.headers_count else [],
        )
        arguments: tuple = (fields_of_record,)
        # tuple.__new__ itself: going through the named tuple's own constructor costs more than all of the above.
        return cython.cast(cython.pointer(PyTypeObject), tuple).tp_new(
            _RECORD, cython.cast(cython.pointer(PyObject), arguments), cython.NULL
        )


@cython.cfunc
def _headers(fields: cython.pointer(_Fields), end: cython.p_uchar) -> list:
    headers: list = []
    name: _Blob
    value: _Blob
    at: cython.p_uchar = fields.headers
    for _ in range(fields.headers_count):
        at = _header(at, end, cython.address(name), cython.address(value))
        if at is cython.NULL:  # the bytes have changed since they were checked
            break
        headers.append((_name(name.data, name.size), _bytes(value.data, value.size)))
    return headers


def read_records(
    batch: memoryview,
    header: object,
    topic: str,
    partition: int,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> _Records:
    """Give the records of one wire batch in a range of offsets. See `interface.ReadRecords`."""
    records: _Records = _Records()
    records.reader = _Reader()
    records.reader.begin(batch, header, start_offset, end_offset, size_max_bytes)
    records.topic = topic
    records.partition = partition
    records.timestamp_type = header.timestamp_type
    return records


def read_values(
    batch: memoryview,
    header: object,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> list:
    """Give the values of one wire batch in a range of offsets. See `interface.ReadValues`."""
    reader: _Reader = _Reader()
    reader.begin(batch, header, start_offset, end_offset, size_max_bytes)
    values: list = []
    fields: _Fields
    while _next_wanted(reader, cython.address(fields)):
        values.append(_bytes(fields.value, fields.value_size))
    return values


# -- as columns


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

    Sizes are added up first, so that every buffer grows once.

    Raises:
        CorruptBatch: the columns keep their first `at` rows.
        BatchTooLarge: as above.
    """
    header: object = parse_header(batch)
    columns.start_at(at, unit)
    if header.is_control or not header.records_count:
        return at
    reader: _Reader = _Reader()
    reader.begin(batch, header, start_offset, end_offset, size_max_bytes)
    factor: cython.longlong = _MICROSECONDS if unit == "us" else 1
    sizes: _Sizes
    _measure(reader, cython.address(sizes), columns, factor)
    _check_room(columns, cython.address(sizes))
    reader.rewind()
    writer: _Writer = _Writer(columns, at)
    writer.reserve(cython.address(sizes))
    if not writer.write(reader, sizes.rows, factor):
        columns.truncate(at)
        raise _corrupt(header, "its bytes changed while they were read")
    columns.rows = at + sizes.rows
    return at + sizes.rows


@cython.cfunc
@cython.exceptval(-1)
def _measure(reader: _Reader, sizes: cython.pointer(_Sizes), columns: object, factor: cython.longlong) -> cython.int:
    """Add up what the records in the range of offsets need."""
    fields: _Fields
    name: _Blob
    value: _Blob
    at: cython.p_uchar
    with_times: cython.bint = columns.timestamp is not None and factor > 1
    with_headers: cython.bint = columns.headers is not None
    memset(sizes, 0, cython.sizeof(_Sizes))
    while _next_wanted(reader, cython.address(fields)):
        sizes.rows += 1
        if fields.key_size > 0:
            sizes.keys += fields.key_size
        if fields.value_size > 0:
            sizes.values += fields.value_size
        if with_times and not -_INT64_MAX // factor <= fields.timestamp <= _INT64_MAX // factor:
            raise _corrupt(reader.header, "a timestamp does not fit 64 bits in us")
        if with_headers and fields.headers_count:
            sizes.headers += fields.headers_count
            at = fields.headers
            for _ in range(fields.headers_count):
                at = _header(at, reader.end, cython.address(name), cython.address(value))
                if at is cython.NULL:
                    raise _corrupt(reader.header, "its bytes changed while they were read")
                if _is_ascii(name.data, name.size):
                    sizes.header_names += name.size
                else:
                    sizes.header_names += len(_name(name.data, name.size).encode())
                if value.size > 0:
                    sizes.header_values += value.size
    return 0


@cython.cfunc
@cython.exceptval(-1)
def _check_room(columns: object, sizes: cython.pointer(_Sizes)) -> cython.int:
    """Refuse what 32-bit Arrow offsets cannot address, before anything is written."""
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
    if full:
        raise BatchTooLarge(_columns.TOO_LARGE)
    return 0


@cython.final
@cython.cclass
class _BinaryWriter:
    """Writes rows into a `BinaryColumn`; None writes nothing.

    Attributes:
        room: bytes of data that still fit into what was reserved.
    """

    column: object
    ends: array.array
    at: cython.Py_ssize_t
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
    @cython.inline
    @cython.exceptval(check=False)
    def put(self, data: cython.p_uchar, size: cython.Py_ssize_t) -> cython.bint:
        """Append one row, null for a negative size; False when there is no room for it."""
        if self.column is None:
            return True
        if self.rows_left <= 0 or size > self.room:
            return False
        self.mark[0] = _NULL if size < 0 else _PRESENT
        if size > 0:
            memcpy(self.data, data, size)
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
    at: cython.Py_ssize_t

    def __cinit__(self, columns: object, at: cython.Py_ssize_t):
        self.at = at
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
        rows: cython.Py_ssize_t = self.at + sizes.rows
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
            self.headers_count = self.headers_ends.data.as_ints[self.at]
            array.resize_smart(self.headers_ends, rows + 1)
            PyByteArray_Resize(self.headers.marks, rows)
            self.header_key.reserve(cython.cast(cython.Py_ssize_t, sizes.headers), sizes.header_names)
            self.header_value.reserve(cython.cast(cython.Py_ssize_t, sizes.headers), sizes.header_values)
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def write(self, reader: _Reader, rows: cython.Py_ssize_t, factor: cython.longlong) -> cython.int:
        """Write the records that `_measure` saw; 0 when they are no longer the same."""
        fields: _Fields
        row: cython.Py_ssize_t = self.at
        end: cython.Py_ssize_t = self.at + rows
        offsets: cython.p_longlong = cython.NULL
        timestamps: cython.p_longlong = cython.NULL
        if self.offsets is not None:
            offsets = self.offsets.data.as_longlongs
        if self.timestamps is not None:
            timestamps = self.timestamps.data.as_longlongs
        if self.timestamp_types is not None:
            memset(self.timestamp_types.data.as_schars + self.at, 1 if reader.appended else 0, rows)
        while row < end:
            if not _next_wanted(reader, cython.address(fields)):
                return 0
            if offsets is not cython.NULL:
                offsets[row] = fields.offset
            if timestamps is not cython.NULL:
                timestamps[row] = cython.cast(
                    cython.longlong,
                    cython.cast(cython.ulonglong, fields.timestamp) * cython.cast(cython.ulonglong, factor),
                )
            if not self.key.put(fields.key, fields.key_size) or not self.value.put(fields.value, fields.value_size):
                return 0
            if self.headers is not None and not self.put_headers(row, cython.address(fields), reader.end):
                return 0
            row += 1
        return 1

    @cython.cfunc
    @cython.exceptval(-1)
    def put_headers(self, row: cython.Py_ssize_t, fields: cython.pointer(_Fields), end: cython.p_uchar) -> cython.int:
        name: _Blob
        value: _Blob
        replaced: bytes
        at: cython.p_uchar = fields.headers
        for _ in range(fields.headers_count):
            at = _header(at, end, cython.address(name), cython.address(value))
            if at is cython.NULL:
                return 0
            if not _is_ascii(name.data, name.size):
                replaced = _name(name.data, name.size).encode()
                name.data = cython.cast(cython.p_uchar, PyBytes_AS_STRING(replaced))
                name.size = PyBytes_GET_SIZE(replaced)
            if not self.header_key.put(name.data, name.size) or not self.header_value.put(value.data, value.size):
                return 0
        self.headers_count += cython.cast(cython.int, fields.headers_count)
        self.headers_ends.data.as_ints[row + 1] = self.headers_count
        marks: bytearray = self.headers.marks
        cython.cast(cython.p_uchar, PyByteArray_AS_STRING(marks))[row] = _PRESENT if fields.headers_count else _NULL
        return 1
