"""Encoding records, compiled: `BatchBuilder`, and the memory it writes into. Start at `BatchBuilder.put`.

The interface and its documentation are in `records/interface.py`; the twin in plain Python is `_fallback/builder.py`.
This is Cython in its pure-Python mode: C types are annotations, and `setup.py` compiles it. Never import it uncompiled.
What other compiled modules use of it is declared in `_builder.pxd`, with the attributes of its classes.

Records are encoded into blocks of memory from a pool. A block returns to the pool when its last reference is gone: that
of the batch, which a retry sends again, or of a view, which a socket may still be sending. No code returns blocks
explicitly, so none can return one too early. The GIL is the lock: see `_batch_table.py`.

Source: KIP-98; Kafka's DefaultRecord (layout).
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBuffer_FillInfo
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.mem import PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cython.cimports.kafkaraw.records._encoding import murmur2_of, put_varint, varint_size, zigzag
from cython.cimports.libc.string import memcpy

from kafkaraw.errors import UsageError
from kafkaraw.records.header import fill_header

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_BATCH_SIZE_MAX = cython.declare(cython.Py_ssize_t, 2**31 - 1)
_POOL_BLOCKS_MAX = cython.declare(cython.Py_ssize_t, 65_536)


# -- fields of a record


@cython.cfunc
@cython.inline
def _put_field(at: cython.p_uchar, field: bytes | None) -> cython.p_uchar:
    """Length and content of a key or value; -1, which is 1 on the wire, is null."""
    if field is None:
        at[0] = 1
        return at + 1
    size: cython.Py_ssize_t = PyBytes_GET_SIZE(field)
    at = put_varint(at, cython.cast(cython.ulonglong, size) << 1)
    memcpy(at, PyBytes_AS_STRING(field), size)
    return at + size


@cython.cfunc
@cython.inline
def _field_size(field: bytes | None) -> cython.Py_ssize_t:
    if field is None:
        return 1
    size: cython.Py_ssize_t = PyBytes_GET_SIZE(field)
    return size + varint_size(cython.cast(cython.ulonglong, size) << 1)


# -- what users pass in


@cython.ccall
def as_bytes(value: object, what: str) -> bytes:
    """Return a key, a value or a header's value as bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)):  # a tuple: C checks it fast
        return bytes(value)
    raise UsageError(f"a record's {what} is bytes or None, not {type(value).__name__}; serialize it first")


@cython.cfunc
def as_timestamp(value: object) -> cython.longlong:
    overflow: cython.int = 0
    number: cython.longlong
    if type(value) is int:
        number = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
        if not overflow and number >= -1:
            return number
    raise UsageError(f"timestamp {value!r} is not a number of milliseconds since 1970")


@cython.ccall
def encode_headers(headers: object) -> bytes:
    """Encode headers as they follow the value: their number, then the name and the value of each."""
    len(headers)  # refuses an iterator, as the twin does: what has read it before has left nothing
    fields: list = []
    size: cython.Py_ssize_t = 0
    for name, value in headers:
        if not isinstance(name, str):
            raise UsageError(f"a header's name is a string, not {type(name).__name__}")
        encoded: bytes = name.encode()
        content: object = value
        if content is not None and type(content) is not bytes:
            content = as_bytes(content, "header value")
        fields.append(encoded)
        fields.append(content)
        size += _field_size(encoded) + _field_size(content)
    count: cython.ulonglong = cython.cast(cython.ulonglong, len(fields) // 2) << 1
    made: bytes = PyBytes_FromStringAndSize(cython.NULL, size + varint_size(count))
    at: cython.p_uchar = put_varint(cython.cast(cython.p_uchar, PyBytes_AS_STRING(made)), count)
    for field in fields:
        at = _put_field(at, field)
    return made


@cython.cfunc
def murmur2(key: bytes) -> cython.uint:
    """MurmurHash2 with Kafka's seed, as Java computes it. See `partitioning.murmur2`."""
    return murmur2_of(cython.cast(cython.p_uchar, PyBytes_AS_STRING(key)), PyBytes_GET_SIZE(key))


# -- memory


@cython.final
@cython.cclass
class Pool:
    """Blocks of one size that wait for the next batch: fresh memory costs more than filling it.

    The one that came back last goes out first: it is most likely to be in a cache.
    """

    def __cinit__(self, block_size: cython.Py_ssize_t, size_max: cython.Py_ssize_t):
        self.block_size = block_size
        self.count = 0
        self.count_max = min(size_max // block_size, _POOL_BLOCKS_MAX)
        room: cython.size_t = max(1, self.count_max) * cython.sizeof(cython.p_uchar)
        self.blocks = cython.cast(cython.pointer(cython.p_uchar), PyMem_Malloc(room))
        if self.blocks is cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        while self.count:
            self.count -= 1
            PyMem_Free(self.blocks[self.count])
        PyMem_Free(self.blocks)


@cython.final
@cython.cclass
class Block:
    """Memory that a batch is written into; goes back to the pool when the last reference or view is gone."""

    def __cinit__(self, pool: Pool | None, capacity: cython.Py_ssize_t):
        self.pool = pool
        self.size = 0
        if pool is not None and pool.count:
            pool.count -= 1
            self.data = pool.blocks[pool.count]
            self.capacity = pool.block_size
            return
        self.data = cython.cast(cython.p_uchar, PyMem_Malloc(capacity))
        if self.data is cython.NULL:
            raise MemoryError
        self.capacity = capacity

    def __dealloc__(self):
        pool: Pool = self.pool
        if pool is not None and self.capacity == pool.block_size and pool.count < pool.count_max:
            pool.blocks[pool.count] = self.data
            pool.count += 1
        else:
            PyMem_Free(self.data)

    def reserve(self, capacity: cython.Py_ssize_t, usual: cython.Py_ssize_t) -> cython.int:
        """Make room for `capacity` bytes; more at once, up to the usual size. Only while there are no views."""
        if capacity <= usual:
            capacity = min(max(capacity, 4 * self.capacity), usual)
        else:
            capacity = max(capacity, min(2 * self.capacity, _BATCH_SIZE_MAX))
        grown: cython.p_uchar = cython.cast(cython.p_uchar, PyMem_Realloc(self.data, capacity))
        if grown is cython.NULL:
            raise MemoryError
        self.data = grown
        self.capacity = capacity
        return 0

    def __getbuffer__(self, buffer: cython.pointer(Py_buffer), flags: cython.int):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 0, flags)


# -- one batch


@cython.cclass
class BatchBuilder:
    """Records of one batch, encoded as they come. See `interface.BatchBuilder`."""

    def __cinit__(self, size_max_bytes: cython.Py_ssize_t, *_more: object):
        self._limit = size_max_bytes
        self.records_count = 0
        self.size_bytes = _HEADER_SIZE
        self._base_timestamp = -1
        self._max_timestamp = -1
        self.busy = False

    def __init__(self, size_max_bytes: cython.Py_ssize_t) -> None:
        self._usual_size = 0
        self._block = Block(None, 4096)

    def append(self, timestamp_ms: object, key: object, value: object, headers: object) -> int:
        """Add one record; gives its index in the batch, or -1 when it does not fit (the first always does)."""
        if type(value) is not bytes and value is not None:
            value = as_bytes(value, "value")
        if type(key) is not bytes and key is not None:
            key = as_bytes(key, "key")
        return self.put(as_timestamp(timestamp_ms), key, value, encode_headers(headers) if headers else None)

    @cython.final
    def put(
        self, timestamp: cython.longlong, key: bytes | None, value: bytes | None, headers: bytes | None
    ) -> cython.Py_ssize_t:
        """Encode one record; index, or -1 when it does not fit. Runs no Python code."""
        if self.busy:
            return -1
        index: cython.Py_ssize_t = self.records_count
        if not index:
            self._base_timestamp = timestamp
        delta: cython.ulonglong = zigzag(
            cython.cast(
                cython.longlong,
                cython.cast(cython.ulonglong, timestamp) - cython.cast(cython.ulonglong, self._base_timestamp),
            )
        )
        number: cython.ulonglong = cython.cast(cython.ulonglong, index) << 1
        headers_size: cython.Py_ssize_t = 1 if headers is None else PyBytes_GET_SIZE(headers)
        body: cython.Py_ssize_t = (
            1 + varint_size(delta) + varint_size(number) + _field_size(key) + _field_size(value) + headers_size
        )
        length: cython.ulonglong = cython.cast(cython.ulonglong, body) << 1
        size: cython.Py_ssize_t = self.size_bytes + body + varint_size(length)
        if size > self._limit and index:
            return -1
        if size > _BATCH_SIZE_MAX:
            raise UsageError("a record cannot have 2 GiB or more")
        block: Block = self._block
        if size > block.capacity:
            block.reserve(size, self._usual_size)
        at: cython.p_uchar = put_varint(block.data + self.size_bytes, length)
        at[0] = 0
        at = put_varint(put_varint(at + 1, delta), number)
        at = _put_field(_put_field(at, key), value)
        if headers is None:
            at[0] = 0
        else:
            memcpy(at, PyBytes_AS_STRING(headers), headers_size)
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self.size_bytes = size
        self.records_count += 1
        return index

    def finish(self, codec: object, level: object) -> memoryview:
        """Close the batch; gives it whole, header filled but for the producer's fields and the checksum. Once only."""
        block: Block = self._block
        self._block = None
        block.size = self.size_bytes
        batch: object = memoryview(block)
        if codec.id:
            compressed: bytes = codec.compress(batch[_HEADER_SIZE:], level)
            whole = bytearray(_HEADER_SIZE)
            whole += compressed
            batch = memoryview(whole)
        fill_header(batch, codec.id, self.records_count, self._base_timestamp, self._max_timestamp)
        return batch
