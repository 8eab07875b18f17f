"""Convert a producer's batch to the stored form: validate it, and change it if the topic's settings require it.

Start at `validated`. Most batches are stored unchanged, and their records are not read.
Source: UnifiedLog.append, LogValidator.
"""

from __future__ import annotations

from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.turns import Steps
from kafkaraw.broker.validation.batch_checks import check_batch, check_size
from kafkaraw.broker.validation.recompression import recompressed, wants_other_codec
from kafkaraw.broker.validation.record_checks import check_records, checked_rows, must_be_read
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import (
    DECOMPRESSED_SIZE_MAX_BYTES,
    TIMESTAMP_LOG_APPEND_TIME,
    BatchHeader,
    stamp_create_time,
)


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
        Refusal: with the code and the records that Kafka names.
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
        raise Refusal(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {len(stored)} bytes in append to partition {where}, which exceeds the maximum "
            f"configured segment size of {config.segment_bytes}.",
        )
    return stored, header
