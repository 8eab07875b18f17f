"""Store a batch with another codec than it was sent with: for topics whose `compression.type` is not `producer`.

Timestamps and the producer's identity stay as they are; offsets are counted anew, as a broker gives them out anyway.
Source: LogValidator.validateMessagesAndAssignOffsetsCompressed, buildRecordsAndAssignOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkaraw.broker.configs.topic_config import PRODUCER, TopicConfig
from kafkaraw.broker.refusal import Refusal
from kafkaraw.errors import UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import BatchHeader, codec_by_name, encode_batch
from kafkaraw.records.batch import PlainRecord

UNCOMPRESSED: Final = "uncompressed"


def wants_other_codec(header: BatchHeader, config: TopicConfig) -> bool:
    """Whether a batch is not stored the way it was sent."""
    return config.compression_type != PRODUCER and codec_by_name(_codec(config)).id != header.codec_id


def recompressed(rows: Iterable[PlainRecord], header: BatchHeader, config: TopicConfig) -> bytearray:
    """The same records under the codec of the topic.

    Args:
        rows: all records of a batch.
        header: its header.
        config: the topic's settings, with a `compression.type` of its own.

    Raises:
        Refusal: UNKNOWN_SERVER_ERROR for records that can be read but not be written.
    """
    try:
        encoded = encode_batch(
            rows,
            codec=_codec(config),
            level=config.compression_level,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
        )
    except UsageError as error:  # a timestamp before 1970, on which Kafka's builder fails, too
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    return bytearray(encoded)


def _codec(config: TopicConfig) -> str:
    return "none" if config.compression_type == UNCOMPRESSED else config.compression_type
