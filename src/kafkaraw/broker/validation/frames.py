"""The batches in the `records` field of a Produce request, by their frames: length and magic, and no more.

A request of version 3 or later has one batch for each partition; one that is cut short behind it is passed over.
Source: ByteBufferLogInputStream, ProduceRequest.validateRecords, RequestUtils.hasTransactionalRecords.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import HEADER_SIZE, unpack_header
from kafkaraw.records.header import ATTRIBUTES_AT, TRANSACTIONAL_BIT

MAGIC: Final = 2
ZSTD_ID: Final = 4
ZSTD_PRODUCE_VERSION_MIN: Final = 7
MAGIC_2_PRODUCE_VERSION_MIN: Final = 3
_PREFIX: Final = struct.Struct(">qi")  # an offset, and the length of what follows
_LENGTH_MIN: Final = 14  # of a message of magic 0, the shortest there is
_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = ATTRIBUTES_AT + 1
BYTE_MAX: Final = 127  # a byte has a sign in Java
_INT32_MAX: Final = 2**31 - 1


class Frame(NamedTuple):
    """The position of a batch, whose content is not read."""

    start: int
    end: int
    magic: int


def frames(records: memoryview) -> Iterator[Frame]:
    """The whole batches, in order.

    Raises:
        ApiError: CORRUPT_MESSAGE, or UNKNOWN_SERVER_ERROR for a length on which Kafka's own reckoning overflows.
    """
    start = 0
    while len(records) - start >= _PREFIX.size:
        _, length = _PREFIX.unpack_from(records, start)
        if length < _LENGTH_MIN:
            message = f"Record size {length} is less than the minimum record overhead ({_LENGTH_MIN})"
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, message)
        if len(records) - start <= _MAGIC_AT:
            return
        magic = records[start + _MAGIC_AT]
        if magic > MAGIC:
            signed = magic - 256 if magic > BYTE_MAX else magic
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {signed}")
        if length + _PREFIX.size > _INT32_MAX:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a batch of {length + _PREFIX.size} bytes")
        end = start + length + _PREFIX.size
        if end > len(records):
            return
        yield Frame(start, end, magic)
        start = end


def only_batch(records: memoryview | None, version: int) -> memoryview:
    """The one batch that a Produce request may carry for a partition.

    Args:
        records: the field's bytes.
        version: of the request.

    Raises:
        ApiError: INVALID_RECORD, CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE, or UNSUPPORTED_FOR_MESSAGE_FORMAT for
            requests of before Kafka 0.11.
    """
    if records is not None and version >= ZSTD_PRODUCE_VERSION_MIN and _is_one_batch(records):
        return records
    found = iter(()) if records is None else frames(records)
    first = next(found, None)
    if first is None or records is None:
        raise _invalid(f"Produce requests with version {version} must have at least one record batch per partition")
    if first.magic < MAGIC and version < MAGIC_2_PRODUCE_VERSION_MIN:
        message = f"this broker keeps records of magic {MAGIC} only, not {first.magic}"
        raise ApiError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, message)
    allowed = f"Produce requests with version {version} are only allowed to contain"
    if first.magic != MAGIC:
        raise _invalid(f"{allowed} record batches with magic version {MAGIC}, not {first.magic}")
    batch = records[first.start : first.end]
    if version < ZSTD_PRODUCE_VERSION_MIN and len(batch) >= HEADER_SIZE and unpack_header(batch).codec_id == ZSTD_ID:
        message = f"Produce requests with version {version} are not allowed to use ZStandard compression"
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    if next(found, None) is not None:
        raise _invalid(f"{allowed} exactly one record batch per partition")
    return batch


def _is_one_batch(records: memoryview) -> bool:
    """Whether a field is one batch of today and nothing else, as it mostly is."""
    if len(records) < HEADER_SIZE or records[_MAGIC_AT] != MAGIC:
        return False
    return bool(_PREFIX.unpack_from(records)[1] == len(records) - _PREFIX.size)


def first_is_transactional(records: memoryview) -> bool:
    """Whether the first batch belongs to a transaction.

    Raises:
        ApiError: its frame makes no sense.
    """
    if _is_one_batch(records):
        return bool(records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_BIT)
    first = next(frames(records), None)
    if first is None or first.magic < MAGIC or first.end - first.start < HEADER_SIZE:
        return False
    return unpack_header(records, first.start).is_transactional


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)
