"""Store a batch with another codec than it was sent with: for topics whose `compression.type` is not `producer`.

Timestamps and the producer's identity stay as they are; offsets are counted anew, as a broker gives them out anyway.
Source: LogValidator.validateMessagesAndAssignOffsetsCompressed, buildRecordsAndAssignOffsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafkaraw.broker.configs.topic_config import PRODUCER, TopicConfig
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.settings import INT_MAX
from kafkaraw.broker.turns import Steps
from kafkaraw.broker.validation.record_checks import RECORDS_PER_STEP
from kafkaraw.errors import UsageError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import BatchBuilder, BatchHeader, codec_by_name
from kafkaraw.records.batch import PlainRecord
from kafkaraw.records.header import stamp_producer

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
        Refusal: UNKNOWN_SERVER_ERROR for records that can be read but not be written.
    """
    builder = BatchBuilder(INT_MAX)
    try:
        for at, row in enumerate(rows, 1):
            if builder.append(*row) < 0:
                raise Refusal(ErrorCode.RECORD_LIST_TOO_LARGE, "a batch cannot have 2 GiB or more")
            if not at % RECORDS_PER_STEP:
                yield None
    except UsageError as error:  # a timestamp before 1970, on which Kafka's builder fails, too
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    batch = builder.finish(codec_by_name(_codec(config)), config.compression_level)
    stamp_producer(batch, header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional)
    return batch


def _codec(config: TopicConfig) -> str:
    return "none" if config.compression_type == UNCOMPRESSED else config.compression_type
