"""Store a batch with another codec than it was sent with: for topics whose `compression.type` is not `producer`.

Offsets, timestamps and the producer's identity stay as they are.
Source: LogValidator.validateMessagesAndAssignOffsetsCompressed.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.refusal import Refusal
from kafkaraw.errors import BatchTooLarge, CorruptBatch
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Batch, BatchHeader, codec_by_name, encode_batch

UNCOMPRESSED: Final = "uncompressed"


def recompressed(records: memoryview, header: BatchHeader, compression_type: str, level: int | None) -> memoryview:
    """The same records under the codec of the topic; the same bytes when they have it already.

    Args:
        records: one whole batch.
        header: its header.
        compression_type: the topic setting, not `producer`.
        level: for codecs that have one.

    Raises:
        Refusal: CORRUPT_MESSAGE when the batch cannot be decoded.
    """
    codec = "none" if compression_type == UNCOMPRESSED else compression_type
    if codec_by_name(codec).id == header.codec_id:
        return records
    try:
        decoded = [
            (record.timestamp_ms, record.key, record.value, record.headers)
            for record in Batch("", 0, records, start_offset=header.base_offset, check_crcs=False)
        ]
    except (CorruptBatch, BatchTooLarge) as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, error.message) from error
    encoded = encode_batch(
        decoded,
        codec=codec,
        level=level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    return memoryview(encoded)
