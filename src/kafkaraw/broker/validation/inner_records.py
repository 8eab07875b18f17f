"""The records of one batch, read the way a Kafka broker does, to find the invalid ones.

This is a slow, simple reader, used if the readers of `kafkaraw.records` find an error. Those are stricter in one point:
a broker ignores the offsets within a batch and assigns its own. Only one record is in memory at a time, because a few
hundred bytes may contain millions of records.
Source: DefaultRecordBatch, DefaultRecord.readFrom.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import HEADER_SIZE, TIMESTAMP_LOG_APPEND_TIME, BatchHeader, codec_by_id
from kafkaraw.records.varint import as_int64, read_raw_varint

_NO_RECORDS_LEFT: Final = "Incorrect declared batch size, premature EOF reached"


class InnerRecord(NamedTuple):
    """One record, with the offset that its producer gave it; headers have their names as bytes."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


def inner_records(batch: memoryview, header: BatchHeader, size_max_bytes: int) -> Iterator[InnerRecord]:
    """Give the records of a batch, one after another.

    Args:
        batch: its bytes.
        header: its header.
        size_max_bytes: limit on its decompressed size.

    Raises:
        BatchTooLargeError: it has more than `size_max_bytes` when decompressed.
        ApiError: INVALID_RECORD for what is no record, UNKNOWN_SERVER_ERROR when they cannot be decompressed.
    """
    payload = _decompressed(batch[HEADER_SIZE:], header, size_max_bytes)
    append_time = header.max_timestamp if header.timestamp_type == TIMESTAMP_LOG_APPEND_TIME else None
    reader = _Reader(payload)
    for _ in range(header.records_count):
        if reader.at >= len(payload):
            raise ApiError(ErrorCode.INVALID_RECORD, _NO_RECORDS_LEFT)
        yield reader.record(header, append_time)
    if reader.at < len(payload):
        raise ApiError(ErrorCode.INVALID_RECORD, "Incorrect declared batch size, records still remaining in file")


def _decompressed(payload: memoryview, header: BatchHeader, size_max_bytes: int) -> bytes:
    try:
        return codec_by_id(header.codec_id).decompress(payload, size_max_bytes)
    except CorruptBatchError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, error.message) from error


class _Reader:
    """Walks over the records of a payload."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self.at = 0

    def record(self, header: BatchHeader, append_time: int | None) -> InnerRecord:
        """The next record.

        Raises:
            ApiError: INVALID_RECORD.
        """
        size = self._number()
        end = self.at + size
        if size < 0 or end > len(self._payload):
            left = len(self._payload) - self.at
            raise _invalid(f"expected {size} bytes in record payload, but instead the buffer has only {left}")
        self._byte()
        time_delta = self._number()
        offset_delta = self._number()
        key = self._field()
        value = self._field()
        headers = self._headers()
        if self.at != end:
            raise _invalid(f"expected to read {size} bytes in record payload, but instead read {self.at - end + size}")
        timestamp = as_int64(header.base_timestamp + time_delta) if append_time is None else append_time
        return InnerRecord(header.base_offset + offset_delta, timestamp, key, value, headers)

    def _headers(self) -> list[tuple[bytes, bytes | None]]:
        count = self._number()
        if not 0 <= count <= len(self._payload) - self.at:
            raise ApiError(ErrorCode.INVALID_RECORD, f"Found invalid number of record headers {count}")
        headers = []
        for _ in range(count):
            name = self._field()
            if name is None:
                raise ApiError(ErrorCode.INVALID_RECORD, "Invalid negative header key size")
            headers.append((name, self._field()))
        return headers

    def _field(self) -> bytes | None:
        size = self._number()
        if size < 0:
            return None
        start, self.at = self.at, self.at + size
        if self.at > len(self._payload):
            raise ApiError(ErrorCode.INVALID_RECORD, "Found invalid record structure")
        return self._payload[start : self.at]

    def _byte(self) -> int:
        if self.at >= len(self._payload):
            raise ApiError(ErrorCode.INVALID_RECORD, "Found invalid record structure")
        self.at += 1
        return self._payload[self.at - 1]

    def _number(self) -> int:
        try:
            raw, self.at = read_raw_varint(self._payload, self.at)
        except (CorruptBatchError, IndexError) as error:
            raise ApiError(ErrorCode.INVALID_RECORD, "Found invalid record structure") from error
        return raw >> 1 ^ -(raw & 1)


def _invalid(what: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"Invalid record size: {what}")
