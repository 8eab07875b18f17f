"""Checks of the header of a batch: size, checksum, codec, counts, offsets and the producer's sequence.

Pure, in Kafka's order; the records after the header are not read. Start at `check_batch`.
Source: UnifiedLog.analyzeAndValidateRecords, LogValidator.validateBatch.
"""

from __future__ import annotations

from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.refusal import Refusal
from kafkaraw.errors import CorruptBatchError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import HEADER_SIZE, BatchHeader, codec_by_id, unpack_header, verify_crc


def check_batch(batch: memoryview, config: TopicConfig, where: str) -> BatchHeader:
    """Check the header of a client's batch.

    Args:
        batch: its bytes, as many as its length says.
        config: the topic's settings.
        where: topic and partition, for messages.

    Returns:
        The header.

    Raises:
        Refusal: INVALID_RECORD, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, or UNKNOWN_SERVER_ERROR for an unknown codec.
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
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, f"{error.message} in topic partition {where}") from error
    try:
        codec_by_id(header.codec_id)
    except CorruptBatchError as error:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"{error.message} in topic partition {where}") from error
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
        Refusal: MESSAGE_TOO_LARGE.
    """
    if len(batch) > config.max_message_bytes:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {where} is {len(batch)} bytes which exceeds the maximum "
            f"configured value of {config.max_message_bytes}.",
        )


def _wrong_offsets(header: BatchHeader, where: str) -> Refusal:
    offsets = f"[{header.base_offset}, {header.last_offset}]"
    if header.last_offset_delta < 0:
        return _invalid(f"Batch has an invalid offset range: {offsets} in topic partition {where}")
    if header.records_count <= 0:
        return _invalid(f"Invalid reported count for record batch: {header.records_count} in topic partition {where}")
    return _invalid(
        f"Inconsistent batch offset range {offsets} and count of records {header.records_count} in topic "
        f"partition {where}"
    )


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, message)
