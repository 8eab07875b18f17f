"""Validate a producer's batch and convert it to the stored form: header checks, record checks, another codec.

Start at `validated`. `check_batch` checks the header in Kafka's order: size, checksum, codec, counts, offsets and the
producer's sequence. `record_checks` checks the records, if the topic's settings require that. `recompressed` stores the
batch with another codec than it was sent with, for topics whose `compression.type` is not `producer`: timestamps and
the producer's identity stay as they are; offsets are counted from 0, because the broker assigns them anyway.
Most batches are stored unchanged, and their records are not read.
Source: UnifiedLog.append, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.topic_config import PRODUCER, TopicConfig
from kafkaraw.broker.settings import INT_MAX
from kafkaraw.broker.turns import Steps
from kafkaraw.broker.validation.record_checks import RECORDS_PER_STEP, check_records, checked_rows, must_be_read
from kafkaraw.errors import CorruptBatchError, UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import (
    DECOMPRESSED_SIZE_MAX_BYTES,
    HEADER_SIZE,
    TIMESTAMP_LOG_APPEND_TIME,
    BatchBuilder,
    BatchHeader,
    codec_by_id,
    codec_by_name,
    stamp_create_time,
    unpack_header,
    verify_crc,
)
from kafkaraw.records.batch import PlainRecord
from kafkaraw.records.header import stamp_producer


def validated(
    sent: memoryview,
    config: TopicConfig,
    *,
    where: str,
    now_ms: int,
    reads_all: bool = False,
    size_max_bytes: int = DECOMPRESSED_SIZE_MAX_BYTES,
) -> Steps[tuple[memoryview, BatchHeader]]:
    """Validate a batch that a client sent for a partition, and convert it to the stored form.

    Args:
        sent: the bytes of the batch; changed in place where they are writable.
        config: the topic's settings.
        where: topic and partition, for messages.
        now_ms: wall clock.
        reads_all: read every record, also where the topic's settings do not depend on them.
        size_max_bytes: limit on its decompressed size, if its records are read.

    Returns:
        The batch, writable, with the offsets and the header that its producer gave it.

    Raises:
        BatchTooLargeError: it has more than `size_max_bytes` when decompressed.
        ApiError: with the code and the records that Kafka names.
    """
    header = check_batch(sent, config, where)
    highest = header.max_timestamp
    if wants_other_codec(header, config):
        rows = yield from checked_rows(sent, header, config, where, now_ms, size_max_bytes)
        stored = yield from recompressed(rows, header, config)
        check_size(stored, config, where)
    else:
        if reads_all or must_be_read(header, config, now_ms):
            highest = yield from check_records(sent, header, config, where, now_ms, size_max_bytes)
        stored = memoryview(bytearray(sent)) if sent.readonly else sent
        if not config.stamps_on_append and (
            highest != header.max_timestamp or header.timestamp_type == TIMESTAMP_LOG_APPEND_TIME
        ):
            stamp_create_time(stored, highest)
    if len(stored) > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {len(stored)} bytes in append to partition {where}, which exceeds the maximum "
            f"configured segment size of {config.segment_bytes}.",
        )
    return stored, header


def check_batch(batch: memoryview, config: TopicConfig, where: str) -> BatchHeader:
    """Check the header of a client's batch.

    Args:
        batch: its bytes, as many as its length says.
        config: the topic's settings.
        where: topic and partition, for messages.

    Returns:
        The header.

    Raises:
        ApiError: INVALID_RECORD, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, or UNKNOWN_SERVER_ERROR for an unknown codec.
    """
    header = unpack_header(batch) if len(batch) >= HEADER_SIZE else None
    base_offset = header.base_offset if header is not None else int.from_bytes(batch[:8], "big", signed=True)
    if base_offset != 0:
        message = f"The baseOffset of the record batch in the append to {where} should be 0, but it is {base_offset}"
        raise _invalid(message)
    check_size(batch, config, where)
    try:
        verify_crc(batch)  # or complain that it has no whole header
        header = header or unpack_header(batch)
    except CorruptBatchError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{error.message} in topic partition {where}") from error
    try:
        codec_by_id(header.codec_id)
    except CorruptBatchError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{error.message} in topic partition {where}") from error
    if header.records_count != header.last_offset_delta + 1 or header.records_count <= 0:
        raise _wrong_offsets(header, where)
    if header.is_control:
        raise _invalid(f"Clients are not allowed to write control records in topic partition {where}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id} in "
            f"topic partition {where}"
        )
    return header


def check_size(batch: memoryview, config: TopicConfig, where: str) -> None:
    """Check the size of a batch, as sent or as stored.

    Raises:
        ApiError: MESSAGE_TOO_LARGE.
    """
    if len(batch) > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {where} is {len(batch)} bytes which exceeds the maximum "
            f"configured value of {config.max_message_bytes}.",
        )


def _wrong_offsets(header: BatchHeader, where: str) -> ApiError:
    offsets = f"[{header.base_offset}, {header.last_offset}]"
    if header.last_offset_delta < 0:
        return _invalid(f"Batch has an invalid offset range: {offsets} in topic partition {where}")
    if header.records_count <= 0:
        return _invalid(f"Invalid reported count for record batch: {header.records_count} in topic partition {where}")
    return _invalid(
        f"Inconsistent batch offset range {offsets} and count of records {header.records_count} in topic "
        f"partition {where}"
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)


UNCOMPRESSED: Final = "uncompressed"


def wants_other_codec(header: BatchHeader, config: TopicConfig) -> bool:
    """Whether a batch is not stored the way it was sent."""
    return config.compression_type != PRODUCER and codec_by_name(_codec(config)).id != header.codec_id


def recompressed(rows: Iterable[PlainRecord], header: BatchHeader, config: TopicConfig) -> Steps[memoryview]:
    """The same records under the codec of the topic.

    Args:
        rows: all records of a batch.
        header: its header.
        config: the topic's settings, with a `compression.type` of its own.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR for records that can be read but not be written.
    """
    builder = BatchBuilder(INT_MAX)
    try:
        for at, row in enumerate(rows, 1):
            if builder.append(*row) < 0:
                raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, "a batch cannot have 2 GiB or more")
            if not at % RECORDS_PER_STEP:
                yield None
    except UsageError as error:  # a timestamp before 1970, on which Kafka's builder fails, too
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    batch = builder.finish(codec_by_name(_codec(config)), config.compression_level)
    stamp_producer(batch, header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional)
    return batch


def _codec(config: TopicConfig) -> str:
    return "none" if config.compression_type == UNCOMPRESSED else config.compression_type
