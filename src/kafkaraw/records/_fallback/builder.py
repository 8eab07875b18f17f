"""Encoding records in plain Python: `BatchBuilder`. Start at `BatchBuilder.append`.

The interface and its documentation are in `records/interface.py`; this is its twin for machines without a C compiler.
A record is one join of bytes with varints from a table, a batch another: no loop runs over bytes. (`%` takes twice as
long as a join.)

Source: KIP-98; Kafka's DefaultRecord (layout).
"""

from __future__ import annotations

from typing import Final

from kafkaraw.errors import UsageError
from kafkaraw.records._fallback.varint_table import VARINTS, encode_varint
from kafkaraw.records.compression import Codec
from kafkaraw.records.header import HEADER_SIZE, NO_TIMESTAMP, fill_header
from kafkaraw.records.record import Headers
from kafkaraw.records.varint import as_int64

_INT64_MAX: Final = 2**63 - 1


class BatchBuilder:
    """Records of one batch, encoded as they are added. See `interface.BatchBuilder`.

    Attributes:
        limit: maximum size of the batch in bytes.
        parts: the encoded records, each as its length and itself.
        last_timestamp: timestamp of the previous record, or of one that did not fit.
        front: the first bytes of a record with that timestamp: its attributes, which are none, and the timestamp.
        max_timestamp: the greatest of all records.
    """

    __slots__ = (
        "_base_timestamp",
        "front",
        "last_timestamp",
        "limit",
        "max_timestamp",
        "parts",
        "records_count",
        "size_bytes",
    )

    def __init__(self, size_max_bytes: int) -> None:
        self.limit: int = size_max_bytes
        self.parts: list[bytes] = [bytes(HEADER_SIZE)]
        self._base_timestamp = NO_TIMESTAMP
        self.max_timestamp: int = NO_TIMESTAMP
        self.last_timestamp: int | None = None
        self.front: bytes = b"\x00\x00"
        self.records_count: int = 0
        self.size_bytes: int = HEADER_SIZE

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
        """Add one record; return its index in the batch, or -1 if it does not fit (the first always does)."""
        if type(value) is not bytes and value is not None:
            value = as_bytes(value, "value")
        if type(key) is not bytes and key is not None:
            key = as_bytes(key, "key")
        return self.put(timestamp_ms, key, value, encode_headers(headers) if headers else None)

    def put(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: bytes | None) -> int:
        """Add one record with encoded headers, as `append`."""
        index = self.records_count
        if timestamp_ms != self.last_timestamp:
            self.set_timestamp(timestamp_ms)
        front = self.front
        tail = headers or b"\x00"
        try:
            if value is None:
                record = _encode_record(front, index, key, None, tail)
            elif key is None:
                record = b"".join((front, VARINTS[index], b"\x01", VARINTS[len(value)], value, tail))
            else:
                fields = (front, VARINTS[index], VARINTS[len(key)], key, VARINTS[len(value)], value, tail)
                record = b"".join(fields)
            length = VARINTS[len(record)]
        except IndexError:  # longer than the table of varints
            record = _encode_record(front, index, key, value, tail)
            length = encode_varint(len(record))
        size_bytes = self.size_bytes + len(length) + len(record)
        if size_bytes > self.limit and index:
            return -1
        if timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        self.parts += (length, record)
        self.size_bytes = size_bytes
        self.records_count = index + 1
        return index

    def set_timestamp(self, timestamp_ms: int) -> None:
        """Note a new timestamp; not called if it is that of the previous record, the usual case."""
        if type(timestamp_ms) is not int or not NO_TIMESTAMP <= timestamp_ms <= _INT64_MAX:
            raise UsageError(f"timestamp {timestamp_ms!r} is not a number of milliseconds since 1970")
        if not self.records_count:
            self._base_timestamp = timestamp_ms
        self.front = b"\x00" + encode_varint(as_int64(timestamp_ms - self._base_timestamp))
        self.last_timestamp = timestamp_ms

    def finish(self, codec: Codec, level: int | None) -> memoryview:
        """Close the batch and return it, without the producer's fields and the checksum in its header. Once only."""
        parts = self.parts
        self.parts = []
        if codec.id:
            parts[0] = b""
            batch = bytearray(HEADER_SIZE)
            batch += codec.compress(b"".join(parts), level)
        else:
            batch = bytearray().join(parts)
        fill_header(batch, codec.id, self.records_count, self._base_timestamp, self.max_timestamp)
        return memoryview(batch)


def as_bytes(value: object, what: str) -> bytes:
    """Return a key, a value or a header's value as bytes.

    Raises:
        UsageError: it is of another type.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise UsageError(f"a record's {what} is bytes or None, not {type(value).__name__}; serialize it first")


def _encode_record(front: bytes, index: int, key: bytes | None, value: bytes | None, tail: bytes) -> bytes:
    """Encode a record of any size, without its length: the general form of what `append` does in place."""
    parts = [front, encode_varint(index)]
    for field in (key, value):
        if field is None:
            parts.append(b"\x01")
        else:
            parts += (encode_varint(len(field)), field)
    parts.append(tail)
    return b"".join(parts)


def encode_headers(headers: Headers) -> bytes:
    """Encode headers as they follow the value: their number, then the name and the value of each.

    Raises:
        UsageError: a name or a value is of the wrong type.
    """
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        if not isinstance(name, str):
            raise UsageError(f"a header's name is a string, not {type(name).__name__}")
        encoded = name.encode()
        parts += (encode_varint(len(encoded)), encoded)
        if value is None:
            parts.append(b"\x01")
        else:
            value = as_bytes(value, "header value")
            parts += (encode_varint(len(value)), value)
    return b"".join(parts)
