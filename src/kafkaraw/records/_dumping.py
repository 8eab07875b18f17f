"""The lines of a dump, compiled: `render_records`. Start there.

The interface and its documentation are in `records/interface.py`; the twin in plain Python is `_fallback/dumping.py`.
This is Cython in its pure-Python mode: C types are annotations, and `setup.py` compiles it. Never import it uncompiled.
The bytes of records are read by `_wire.pxd`.
"""

from __future__ import annotations

from collections.abc import Callable

import cython
from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
from cython.cimports.kafkaraw.records._reader import Body, header_name
from cython.cimports.kafkaraw.records._wire import Blob, Fields, Walk, header, next_record
from cython.cimports.libc.string import memcpy

from kafkaraw.records.compression import DECOMPRESSED_SIZE_MAX_BYTES

_LINE_SIZE_MAX = cython.declare(cython.Py_ssize_t, 512)
"""Of a line without keys, values, header keys and the name of the timestamp."""
_ROOM_MIN = cython.declare(cython.Py_ssize_t, 65536)
_SEQUENCE_MASK = cython.declare(cython.longlong, 2**31 - 1)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_ascii(data: cython.p_uchar, size: cython.Py_ssize_t) -> cython.bint:
    index: cython.Py_ssize_t
    seen: cython.uchar = 0
    for index in range(size):  # without a way out, so that the compiler makes vectors of it
        seen |= data[index]
    return seen < 0x80


@cython.final
@cython.cclass
class _Text:
    """UTF-8 that grows."""

    room: bytearray
    at: cython.Py_ssize_t

    def __cinit__(self):
        self.room = bytearray(_ROOM_MIN)
        self.at = 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1)
    def reserve(self, size: cython.Py_ssize_t) -> cython.int:
        """Have room for `size` more bytes."""
        needed: cython.Py_ssize_t = self.at + size
        if needed > PyByteArray_GET_SIZE(self.room):
            PyByteArray_Resize(self.room, max(needed, 2 * PyByteArray_GET_SIZE(self.room)))
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def put(self, data: cython.p_char, size: cython.Py_ssize_t) -> cython.void:
        """Add bytes for which there is room."""
        memcpy(PyByteArray_AS_STRING(self.room) + self.at, data, size)
        self.at += size

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def put_number(self, number: cython.longlong) -> cython.void:
        """Add the digits of a number, 20 characters at most, for which there is room."""
        digits: cython.char[24]
        start: cython.int = 24
        rest: cython.ulonglong = cython.cast(cython.ulonglong, number)
        if number < 0:
            rest = 0 - rest
        while True:
            start -= 1
            digits[start] = 48 + rest % 10
            rest //= 10
            if not rest:
                break
        if number < 0:
            start -= 1
            digits[start] = 45
        self.put(cython.address(digits[start]), 24 - start)

    @cython.cfunc
    @cython.exceptval(-1)
    def put_blob(self, found: cython.pointer(Blob), text: object) -> cython.int:
        """Add bytes as text; `text` decodes those that are not ASCII."""
        if _is_ascii(found.data, found.size):
            self.reserve(found.size + _LINE_SIZE_MAX)
            self.put(cython.cast(cython.p_char, found.data), found.size)
            return 0
        shown: bytes = text(PyBytes_FromStringAndSize(cython.cast(cython.p_char, found.data), found.size)).encode()
        self.reserve(PyBytes_GET_SIZE(shown) + _LINE_SIZE_MAX)
        self.put(PyBytes_AS_STRING(shown), PyBytes_GET_SIZE(shown))
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def put_header_names(self, fields: cython.pointer(Fields), end: cython.p_uchar) -> cython.int:
        """Add the keys of a record's headers, with commas."""
        name: Blob
        value: Blob
        at: cython.p_uchar = fields.headers
        index: cython.Py_ssize_t
        for index in range(fields.headers_count):
            at = header(at, end, cython.address(name), cython.address(value))
            if at == cython.NULL:
                break  # `next_record` has read the headers, so this cannot be
            if index:
                self.put(b",", 1)
            if _is_ascii(name.data, name.size):
                self.reserve(name.size + _LINE_SIZE_MAX)
                self.put(cython.cast(cython.p_char, name.data), name.size)
            else:
                shown: bytes = header_name(name.data, name.size).encode()
                self.reserve(PyBytes_GET_SIZE(shown) + _LINE_SIZE_MAX)
                self.put(PyBytes_AS_STRING(shown), PyBytes_GET_SIZE(shown))
        return 0


def render_records(
    batch: memoryview,
    batch_header: object,
    time_type: str,
    text: Callable[[bytes], str] | None,
    *,
    skip_metadata: bool = False,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> str:
    """Return the lines of the records of a wire batch. See `interface.RenderRecords`.

    Raises:
        CorruptBatchError: the batch is damaged.
        BatchTooLargeError: its records exceed the limit.
    """
    body: Body = Body()
    body.begin(batch, batch_header, 0, None, size_max_bytes)
    body.check()
    walk: cython.pointer(Walk) = cython.address(body.walk)
    fields: Fields
    out: _Text = _Text()
    middle: bytes = f" {time_type}: ".encode()
    middle_size: cython.Py_ssize_t = PyBytes_GET_SIZE(middle)
    skips: cython.bint = skip_metadata
    shows: cython.bint = text is not None
    base_offset: cython.longlong = walk.base_offset
    base_sequence: cython.longlong = batch_header.base_sequence
    while walk.index < walk.count:
        if not next_record(walk, cython.address(fields)):
            raise body.bad_record()
        out.reserve(2 * _LINE_SIZE_MAX + middle_size)
        if walk.index > 1:
            out.put(b"\n", 1)
        if not skips:
            out.put(b"| offset: ", 10)
            out.put_number(fields.offset)
            out.put(PyBytes_AS_STRING(middle), middle_size)
            out.put_number(fields.timestamp)
            out.put(b" keySize: ", 10)
            out.put_number(fields.key.size)
            out.put(b" valueSize: ", 12)
            out.put_number(fields.value.size)
            out.put(b" sequence: ", 11)
            if base_sequence >= 0:
                out.put_number((base_sequence + fields.offset - base_offset) & _SEQUENCE_MASK)
            else:
                out.put_number(-1)
            out.put(b" headerKeys: [", 14)
            if fields.headers_count:
                out.put_header_names(cython.address(fields), walk.at)
            out.put(b"]", 1)
        if not shows:
            continue
        if skips and (fields.key.size >= 0 or fields.value.size >= 0):
            out.put(b"|", 1)
        if fields.key.size >= 0:
            out.put(b" key: ", 6)
            out.put_blob(cython.address(fields.key), text)
        if fields.value.size >= 0:
            out.put(b" payload: ", 10)
            out.put_blob(cython.address(fields.value), text)
    return PyUnicode_DecodeUTF8(PyByteArray_AS_STRING(out.room), out.at, cython.NULL)
