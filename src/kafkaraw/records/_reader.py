"""Reading as objects, compiled: `Record`, `read_batches`, `read_acquired` and others. Start at `_Records.__next__`.

The interface and its documentation are in `records/interface.py`; the twin in plain Python is `_fallback/reader.py`.
This is Cython in its pure-Python mode: C types are annotations, and `setup.py` compiles it. Never import it uncompiled.
The bytes themselves are read by `_wire.pxd`; columns are made by `_filling.py`.

The whole batch is walked before the first record is returned. If its bytes change afterwards, iteration may return
other records, but never reads outside of the batch.

A record of an iteration refers to the batch, and creates its key, value and headers when they are accessed. The
iteration checks the record before the last: if the application has dropped it, the object is reused; if the
application keeps it, it is detached from the batch. So access is cheap, a kept record costs its own size, and no
record keeps a whole response in memory. The `bytes` object of a large value that was dropped is overwritten, too, if
the next value fits and needs most of it. This depends on how CPython counts references and lays out `bytes`: see
`_implementation.reuses_values`.

Source: KIP-98; Kafka's DefaultRecord.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.object import PyObject
from cython.cimports.cpython.ref import _Py_REFCNT
from cython.cimports.kafkaraw.records._reader import leave_uncollected, new_tuple, set_bytes_size, set_field
from cython.cimports.kafkaraw.records._wire import Blob, Fields, Walk, header, next_record, next_wanted, rewind
from cython.cimports.libc.string import memcpy

from kafkaraw.errors import BatchTooLargeError, CorruptBatchError
from kafkaraw.records._implementation import REUSES_VALUES
from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES, batch_too_large, codec_by_id, of_partition

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_RECORD_SIZE_MIN = cython.declare(cython.Py_ssize_t, 7)
_INT64_MAX = cython.declare(cython.longlong, 2**63 - 1)
_CODEC_MASK = cython.declare(cython.int, 0x07)
_TIMESTAMP_TYPE_BIT = cython.declare(cython.int, 0x08)
_TIMELESS_BIT = cython.declare(cython.int, 0x4000)
# Python has smaller ones at hand; the C library looks for larger ones, which takes as long as the rest of a record.
_REUSED_SIZE_MIN = cython.declare(cython.Py_ssize_t, 480)
_LARGE_BODY = cython.declare(cython.Py_ssize_t, 1 << 20)
_WASTE_SHARE = cython.declare(cython.Py_ssize_t, 4)  # a value that is kept wastes no more than a third of its size
_reuses_values = cython.declare(cython.bint, REUSES_VALUES)
_FIELDS = cython.declare(
    tuple, ("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")
)


@cython.cfunc
def bytes_or_none(data: cython.p_uchar, size: cython.Py_ssize_t) -> object:
    """Bytes; None for a negative size."""
    if size < 0:
        return None
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, data), size)


@cython.cfunc
def header_name(data: cython.p_uchar, size: cython.Py_ssize_t) -> str:
    """The name of a header. Java replaces what is not UTF-8 as well: one name must not stop a reader."""
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, data), size).decode("utf-8", "replace")


@cython.cfunc
def headers_of(fields: cython.pointer(Fields), end: cython.p_uchar) -> list:
    """The headers of a record, in a new list."""
    made: list = []
    name: Blob
    value: Blob
    at: cython.p_uchar = fields.headers
    for _ in range(fields.headers_count):
        at = header(at, end, cython.address(name), cython.address(value))
        if at is cython.NULL:  # the bytes have changed since they were checked
            break
        made.append((header_name(name.data, name.size), bytes_or_none(value.data, value.size)))
    return made


@cython.final
@cython.cclass
class Body:
    """The records of one batch, decompressed, and a position among them."""

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
        """Decompress, and stand before the first record."""
        content: object = batch[_HEADER_SIZE:]
        attributes: cython.int = header.attributes  # looked into here: the header's properties cost a call each
        if attributes & _CODEC_MASK:
            try:
                content = codec_by_id(attributes & _CODEC_MASK).decompress(content, size_max_bytes)
            except BatchTooLargeError:
                raise batch_too_large(header, size_max_bytes) from None
        elif len(content) > size_max_bytes:
            raise batch_too_large(header, size_max_bytes)
        PyObject_GetBuffer(content, cython.address(self.view), PyBUF_SIMPLE)
        self.held = True
        self.header = header
        walk: cython.pointer(Walk) = cython.address(self.walk)
        walk.count = header.records_count
        walk.base_offset = header.base_offset
        walk.last_delta = header.last_offset_delta
        walk.base_timestamp = header.base_timestamp
        walk.append_time = header.max_timestamp
        walk.appended = attributes & (_TIMESTAMP_TYPE_BIT | _TIMELESS_BIT) == _TIMESTAMP_TYPE_BIT
        walk.start_offset = max(min(start_offset, _INT64_MAX), 0)
        walk.end_offset = _INT64_MAX if end_offset is None else max(min(end_offset, _INT64_MAX), 0)
        walk.begin = cython.cast(cython.p_uchar, self.view.buf)
        walk.end = walk.begin + self.view.len
        rewind(walk)
        if walk.count * _RECORD_SIZE_MIN > self.view.len:
            raise _corrupt(header, f"{self.view.len} bytes cannot hold {walk.count} records")
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def check(self) -> cython.int:
        """Read all records once to see that they are in order."""
        fields: Fields
        while self.walk.index < self.walk.count:
            if not next_record(cython.address(self.walk), cython.address(fields)):
                raise self.bad_record()
        if self.walk.at != self.walk.end:
            raise self.left_over()
        rewind(cython.address(self.walk))
        return 0

    @cython.cfunc
    def bad_record(self) -> object:
        """The error for the record at which the walk has stopped."""
        where: str = f"record {self.walk.index} of {self.walk.count}"
        return _corrupt(self.header, f"{where} has lengths or offsets that do not fit")

    @cython.cfunc
    def left_over(self) -> object:
        """The error for bytes behind the last record."""
        left: cython.Py_ssize_t = self.walk.end - self.walk.at
        return _corrupt(self.header, f"{left} bytes are left behind its {self.walk.count} records")


def _corrupt(header: object, reason: str) -> CorruptBatchError:
    return CorruptBatchError(f"batch at offset {header.base_offset}: {reason}")


# -- one record


@cython.no_gc
@cython.freelist(64)
@cython.final
@cython.cclass
class Record:
    """One record as a consumer sees it. Documented at `record.Record`, whose place it takes; it behaves the same."""

    topic = cython.declare(object, visibility="readonly")
    partition = cython.declare(object, visibility="readonly")
    offset = cython.declare(cython.longlong, visibility="readonly")
    timestamp_ms = cython.declare(cython.longlong, visibility="readonly")
    timestamp_type = cython.declare(object, visibility="readonly")
    body: Body  # None when the record does not refer to a batch (any longer)
    fields: Fields
    key_made: object  # None when it is null, or not made yet
    value_made: object
    headers_made: object  # None when not made yet
    spare: object  # bytes without another reference, for the next value; or None
    room: cython.Py_ssize_t  # how many bytes the value, or the spare one, can hold

    def __init__(
        self,
        topic: object,
        partition: object,
        offset: cython.longlong,
        timestamp_ms: cython.longlong,
        timestamp_type: object,
        key: object,
        value: object,
        headers: object,
    ):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.timestamp_type = timestamp_type
        self.body = None
        self.key_made = key
        self.value_made = value
        self.headers_made = headers

    @property
    def key(self):
        if self.key_made is None and self.body is not None:
            self.key_made = bytes_or_none(self.fields.key.data, self.fields.key.size)
        return self.key_made

    @property
    def value(self):
        if self.value_made is None and self.body is not None:
            self.value_made = self.made_value()
        return self.value_made

    @property
    def headers(self):
        if self.headers_made is None:
            self.headers_made = self.made_headers()
        return self.headers_made

    @cython.cfunc
    def made_value(self) -> object:
        value: object = self.spare
        size: cython.Py_ssize_t = self.fields.value.size
        if value is None or size > self.room or size < self.room - self.room // _WASTE_SHARE:
            self.spare = None
            self.room = size
            return bytes_or_none(self.fields.value.data, size)
        self.spare = None
        memcpy(PyBytes_AS_STRING(value), self.fields.value.data, size)
        set_bytes_size(value, size)
        return value

    @cython.cfunc
    @cython.inline
    def forget(self) -> cython.void:
        """Prepare for the next record: no field of it is created, and the application has no reference to this one."""
        value: object = self.value_made
        if value is not None and self.room >= _REUSED_SIZE_MIN and _reuses_values:
            # Refers to it: this record, and the name here.
            self.spare = value if _Py_REFCNT(cython.cast(cython.pointer(PyObject), value)) == 2 else None
        self.key_made = None
        self.value_made = None
        self.headers_made = None

    @cython.cfunc
    def made_headers(self) -> list:
        if self.body is None:
            return []
        return headers_of(cython.address(self.fields), self.body.walk.end)

    @cython.cfunc
    @cython.exceptval(-1)
    def detach(self) -> cython.int:
        """Make everything, and let go of the batch."""
        if self.body is not None:
            self.key_made = self.key
            self.value_made = self.value
            self.headers_made = self.headers
            self.body = None
            self.spare = None
        return 0

    def _replace(self, **changes):
        return _replaced(self, changes)

    def _asdict(self):
        return dict(zip(_FIELDS, self, strict=True))

    def __iter__(self):
        return iter(_tuple_of(self))

    def __len__(self):
        return len(_FIELDS)

    def __getitem__(self, index: object):
        return _tuple_of(self)[index]

    def __eq__(self, other: object):
        if isinstance(other, Record):
            return _tuple_of(self) == _tuple_of(other)
        if isinstance(other, tuple):
            return _tuple_of(self) == other
        return NotImplemented

    def __hash__(self):
        return hash(_tuple_of(self))

    def __repr__(self):
        return f"Record({', '.join(f'{name}={value!r}' for name, value in zip(_FIELDS, self, strict=True))})"

    def __reduce__(self):
        from kafkaraw.records._implementation import make_record

        return (make_record, _tuple_of(self))


@cython.cfunc
def _tuple_of(record: Record) -> tuple:
    return (
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.timestamp_type,
        record.key,
        record.value,
        record.headers,
    )


def _replaced(record: Record, changes: dict) -> Record:
    fields: dict = dict(zip(_FIELDS, _tuple_of(record), strict=True))
    unknown: list = [name for name in changes if name not in fields]
    if unknown:
        raise ValueError(f"Got unexpected field names: {unknown!r}")
    return Record(**(fields | changes))


# -- many


@cython.final
@cython.cclass
class _Records:
    """Gives the records of batches, one by one; see the module for what becomes of those that it gave."""

    wires: object
    body: Body
    topic: object
    partition: object
    timestamp_type: object
    start_offset: object
    end_offset: object
    size_max_bytes: object
    last: Record
    before_last: Record

    def __iter__(self) -> _Records:
        return self

    @cython.cfunc
    @cython.exceptval(-1)
    def begin(self, batch: object, header: object) -> cython.int:
        body: Body = Body()
        try:
            body.begin(batch, header, self.start_offset, self.end_offset, self.size_max_bytes)
        except BatchTooLargeError as error:
            raise of_partition(error, self.topic, self.partition) from None
        body.check()
        self.timestamp_type = header.timestamp_type
        self.body = body
        return 0

    def __next__(self) -> Record:
        fields: Fields
        found: cython.int = 0
        while True:
            if self.body is not None:
                found = next_wanted(cython.address(self.body.walk), cython.address(fields))
                if found > 0:
                    return self.record(cython.address(fields))
                if found < 0:
                    raise self.body.bad_record()
                if self.body.view.len > _LARGE_BODY:
                    self.let_go()  # else the batches of the last two records stay in memory beside the next one
                self.body = None
            try:
                header, batch = next(self.wires)
            except BaseException:  # the end, too
                self.let_go()
                raise
            self.begin(batch, header)

    @cython.cfunc
    @cython.inline
    def record(self, fields: cython.pointer(Fields)) -> Record:
        record: Record = self.before_last
        if record is None or _Py_REFCNT(cython.cast(cython.pointer(PyObject), record)) != 2:  # ours, and this name
            if record is not None:
                record.detach()
            record = Record.__new__(Record)
        else:
            record.forget()
        record.fields = fields[0]
        record.offset = fields.offset
        record.timestamp_ms = fields.timestamp
        if record.body is not self.body:
            record.body = self.body
            record.topic = self.topic
            record.partition = self.partition
            record.timestamp_type = self.timestamp_type
        self.before_last = self.last
        self.last = record
        return record

    @cython.cfunc
    @cython.exceptval(-1)
    def let_go(self) -> cython.int:
        """Make what was given, and is still referred to, independent of the batches; to do when no more is given."""
        last: Record = self.last
        before_last: Record = self.before_last
        self.last = self.before_last = None
        if last is not None and _Py_REFCNT(cython.cast(cython.pointer(PyObject), last)) > 1:
            last.detach()
        if before_last is not None and _Py_REFCNT(cython.cast(cython.pointer(PyObject), before_last)) > 1:
            before_last.detach()
        return 0

    def __dealloc__(self):
        self.let_go()


@cython.cfunc
def _records(
    topic: object, partition: object, start_offset: object, end_offset: object, size_max_bytes: object
) -> _Records:
    records: _Records = _Records()
    records.topic = topic
    records.partition = partition
    records.start_offset = start_offset
    records.end_offset = end_offset
    records.size_max_bytes = size_max_bytes
    return records


def read_batches(
    wires: object,
    topic: str,
    partition: int,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> _Records:
    """Give the records of many wire batches in a range of offsets. See `interface.ReadBatches`."""
    records: _Records = _records(topic, partition, start_offset, end_offset, size_max_bytes)
    records.wires = iter(wires)
    return records


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
    records: _Records = _records(topic, partition, start_offset, end_offset, size_max_bytes)
    records.wires = iter(())
    records.begin(batch, header)
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
    body: Body = Body()
    body.begin(batch, header, start_offset, end_offset, size_max_bytes)
    body.check()
    values: list = []
    fields: Fields
    found: cython.int = next_wanted(cython.address(body.walk), cython.address(fields))
    while found > 0:
        values.append(bytes_or_none(fields.value.data, fields.value.size))
        found = next_wanted(cython.address(body.walk), cython.address(fields))
    if found < 0:
        raise body.bad_record()
    return values


@cython.cfunc
@cython.inline
def _acquired(
    kind: object,
    topic: object,
    partition: object,
    timestamp_type: object,
    delivery_count: object,
    fields: cython.pointer(Fields),
    end: cython.p_uchar,
) -> object:
    """One record as a named tuple. While its fields are set, nothing runs that could see it."""
    offset: object = fields.offset
    timestamp_ms: object = fields.timestamp
    key: object = bytes_or_none(fields.key.data, fields.key.size)
    value: object = bytes_or_none(fields.value.data, fields.value.size)
    headers: list = headers_of(fields, end)
    made: object = new_tuple(kind, 9)
    set_field(made, 0, topic)
    set_field(made, 1, partition)
    set_field(made, 2, offset)
    set_field(made, 3, timestamp_ms)
    set_field(made, 4, timestamp_type)
    set_field(made, 5, key)
    set_field(made, 6, value)
    set_field(made, 7, headers)
    set_field(made, 8, delivery_count)
    leave_uncollected(headers)
    leave_uncollected(made)
    return made


def read_acquired(
    wires: object,
    topic: str,
    partition: int,
    acquired: list,
    records: list,
    kind: type,
    *,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> None:
    """Append the records in ranges of offsets, with their delivery counts. See `interface.ReadAcquired`."""
    fields: Fields
    found: cython.int
    index: cython.Py_ssize_t = 0
    first: cython.longlong
    last: cython.longlong
    if not issubclass(kind, tuple):  # else fields would be written into something else
        raise TypeError(f"read_acquired: {kind!r} is no named tuple")
    if not acquired:
        return
    start_offset: object = acquired[0][0]
    end_offset: object = acquired[len(acquired) - 1][1] + 1
    first, last, count = acquired[0]
    for batch_header, batch in wires:
        body: Body = Body()
        try:
            body.begin(batch, batch_header, start_offset, end_offset, size_max_bytes)
        except BatchTooLargeError as error:
            raise of_partition(error, topic, partition) from None
        body.check()
        timestamp_type: object = batch_header.timestamp_type
        found = next_wanted(cython.address(body.walk), cython.address(fields))
        while found > 0:
            while fields.offset > last:  # the last range ends where the walk does
                index += 1
                first, last, count = acquired[index]
            if fields.offset >= first:
                records.append(
                    _acquired(kind, topic, partition, timestamp_type, count, cython.address(fields), body.walk.end)
                )
            found = next_wanted(cython.address(body.walk), cython.address(fields))
        if found < 0:
            raise body.bad_record()
