"""What a batch must be to be appended: the checks a Kafka broker makes before it gives out offsets.

Pure judgement over the bytes of one `records` field; nothing is changed here. Start at `check_records`.
Source: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

import struct
from typing import Final

from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.topic_config import TopicConfig
from kafkaraw.errors import BatchTooLarge, CorruptBatch
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import HEADER_SIZE, Batch, BatchHeader, codec_by_id, parse_header, verify_crc

MAGIC: Final = 2
MAGIC_AT: Final = 16
MAGIC_2_PRODUCE_VERSION_MIN: Final = 3
ZSTD_ID: Final = 4
ZSTD_PRODUCE_VERSION_MIN: Final = 7
_FRAME: Final = struct.Struct(">qi")  # base offset, and the length of what follows


def check_records(records: memoryview | None, config: TopicConfig, *, version: int, now_ms: int) -> BatchHeader:
    """Judge the records that a Produce request has for one partition.

    Args:
        records: the field's bytes: must be one whole batch.
        config: the topic's settings.
        version: of the Produce request.
        now_ms: wall clock.

    Returns:
        The header of the batch; the batch is all of `records`.

    Raises:
        Refusal: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP, or
            UNSUPPORTED_FOR_MESSAGE_FORMAT for the records of producers before Kafka 0.11.
    """
    records = _only_batch(records, version)
    if len(records) > config.max_message_bytes:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(records)} bytes, max.message.bytes allows {config.max_message_bytes}",
        )
    try:
        verify_crc(records)
    except CorruptBatch as error:
        raise _corrupt(error.message) from error
    try:
        header = parse_header(records)
    except CorruptBatch as error:  # the checksum is right, so this is what the producer meant to send
        raise _invalid(error.message) from error
    _check_counts(header)
    _check_codec(header, version)
    _check_timestamps(header, config, now_ms)
    if config.is_compacted:
        _check_keys(records, header)
    return header


def _only_batch(records: memoryview | None, version: int) -> memoryview:
    """The one batch that a Produce request of version 3 or later may carry; only its frame is looked at."""
    if records is None or not len(records):
        raise _invalid(f"a Produce request of version {version} has one batch per partition, this one has none")
    if len(records) > MAGIC_AT and records[MAGIC_AT] < MAGIC:
        if version < MAGIC_2_PRODUCE_VERSION_MIN:
            message = f"this broker keeps records of magic 2 only, not {records[MAGIC_AT]}"
            raise Refusal(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, message)
        raise _invalid(f"a Produce request of version {version} has batches of magic 2, not {records[MAGIC_AT]}")
    if len(records) < HEADER_SIZE:
        raise _corrupt(f"{len(records)} bytes are less than the header of a batch")
    base_offset, length = _FRAME.unpack_from(records)
    size = length + _FRAME.size
    if records[MAGIC_AT] > MAGIC:
        raise _corrupt(f"magic {records[MAGIC_AT]} is not known")
    if not HEADER_SIZE <= size <= len(records):
        raise _corrupt(f"the batch says {size} bytes, {len(records)} have come")
    if size < len(records):
        raise _invalid(f"a Produce request of version {version} has one batch per partition, this one has more")
    if base_offset != 0:
        raise _invalid(f"the base offset of a batch that is sent is 0, not {base_offset}")
    return records


def _check_counts(header: BatchHeader) -> None:
    if header.records_count <= 0:
        raise _invalid(f"the batch says that it has {header.records_count} records")
    if header.records_count != header.last_offset_delta + 1:
        raise _invalid(f"{header.records_count} records cannot end at offset delta {header.last_offset_delta}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(f"producer {header.producer_id} sent sequence {header.base_sequence}")
    if header.is_control:
        raise _invalid("clients are not allowed to write control records")


def _check_codec(header: BatchHeader, version: int) -> None:
    try:
        codec_by_id(header.codec_id)
    except CorruptBatch as error:
        raise _invalid(error.message) from error
    if header.codec_id == ZSTD_ID and version < ZSTD_PRODUCE_VERSION_MIN:
        message = f"zstd needs Produce version {ZSTD_PRODUCE_VERSION_MIN}, this is {version}"
        raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)


def _check_timestamps(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    if config.stamps_on_append:
        return
    earliest = now_ms - config.timestamp_before_max_ms
    latest = now_ms + config.timestamp_after_max_ms
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if timestamp != -1 and not earliest <= timestamp <= latest:
            message = f"timestamp {timestamp} is outside [{earliest}, {latest}], see message.timestamp.*.max.ms"
            raise Refusal(ErrorCode.INVALID_TIMESTAMP, message)


def _check_keys(records: memoryview, header: BatchHeader) -> None:
    """A record without a key could never be compacted, so it is not let in."""
    try:
        for at, record in enumerate(Batch("", 0, records, start_offset=header.base_offset, check_crcs=False)):
            if record.key is None:
                raise _invalid(f"a compacted topic cannot take a record without a key: record {at} of the batch")
    except (CorruptBatch, BatchTooLarge) as error:
        raise _corrupt(error.message) from error


def _corrupt(message: str) -> Refusal:
    return Refusal(ErrorCode.CORRUPT_MESSAGE, message)


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, message)
