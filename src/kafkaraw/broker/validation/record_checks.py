"""What the records of a batch must be, where somebody looks at them, and their highest timestamp.

The quick reader looks first. Only when it finds anything odd are the records read again, slowly, to tell each one's
fault as Kafka tells it (KIP-467). Start at `must_be_read`, `check_records` and `checked_rows`.
Source: LogValidator.validateRecord, processRecordErrors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.refusal import RecordError, Refusal
from kafkaraw.broker.settings import LONG_MAX
from kafkaraw.broker.validation.inner_records import InnerRecord, inner_records
from kafkaraw.errors import ProtocolError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TIMESTAMP_LOG_APPEND_TIME, Batch, BatchHeader, Record
from kafkaraw.records.batch import PlainRecord

NO_TIMESTAMP: Final = -1
ERRORS_SHOWN: Final = 3


def must_be_read(header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    """Whether the header does not tell all that the topic's settings ask of the records.

    A header knows the highest timestamp but not the lowest, and nothing of keys.
    """
    if config.is_compacted or _claims_a_brokers_time(header, config):
        return True
    if config.stamps_on_append:
        return False
    if config.timestamp_before_max_ms < LONG_MAX:
        return True
    return header.max_timestamp > now_ms + config.timestamp_after_max_ms


def check_records(batch: memoryview, header: BatchHeader, config: TopicConfig, where: str, now_ms: int) -> int:
    """Judge the records of a batch whose header is right.

    Args:
        batch: its bytes.
        header: its header.
        config: the topic's settings.
        where: topic and partition, for messages.
        now_ms: wall clock.

    Returns:
        Their highest timestamp; -1 when none has one.

    Raises:
        Refusal: INVALID_TIMESTAMP or INVALID_RECORD, with the records to blame; UNKNOWN_SERVER_ERROR when they cannot
            be decompressed, or when their offsets are such that Kafka would have to write the batch anew and cannot.
    """
    highest = _highest_when_sound(_read(batch), header, config, now_ms)
    if highest is not None:
        return highest
    records = inner_records(batch, header)
    _raise_for(list(_errors(records, header, config, where, now_ms)))
    if header.codec_id and any(record.offset != at for at, record in enumerate(records)):
        message = f"the offsets within the compressed batch are not 0 to {len(records) - 1} in topic partition {where}"
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message)
    return max(NO_TIMESTAMP, *(record.timestamp_ms for record in records))


def checked_rows(
    batch: memoryview, header: BatchHeader, config: TopicConfig, where: str, now_ms: int
) -> list[PlainRecord]:
    """Judge the records of a batch that is to be stored in another form, and give them.

    Their offsets do not matter, for they are counted anew. Arguments as for `check_records`.

    Raises:
        Refusal: INVALID_TIMESTAMP or INVALID_RECORD, with the records to blame; UNKNOWN_SERVER_ERROR when they cannot
            be decompressed.
    """
    quick = _read_all(batch)
    if quick and _highest_when_sound(quick, header, config, now_ms) is not None:
        return [(record.timestamp_ms, record.key, record.value, record.headers) for record in quick]
    records = inner_records(batch, header)
    _raise_for(list(_errors(records, header, config, where, now_ms)))
    return [
        (record.timestamp_ms, record.key, record.value, [(_text(name), value) for name, value in record.headers])
        for record in records
    ]


def _text(name: bytes) -> str:
    """A header's name; Java, too, puts a replacement for what is not UTF-8."""
    return name.decode("utf-8", "replace")


def _read(batch: memoryview) -> Batch:
    return Batch("", 0, batch, start_offset=0, check_crcs=False)


def _read_all(batch: memoryview) -> list[Record] | None:
    try:
        return list(_read(batch))
    except ProtocolError:
        return None


def _highest_when_sound(records: Iterable[Record], header: BatchHeader, config: TopicConfig, now_ms: int) -> int | None:
    """The highest timestamp; None when something is odd."""
    if _claims_a_brokers_time(header, config):
        return None
    earliest, latest = _bounds(config, now_ms)
    compacted = config.is_compacted
    highest = NO_TIMESTAMP
    try:
        for record in records:
            timestamp = record.timestamp_ms
            if compacted and record.key is None:
                return None
            if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
                return None
            highest = max(highest, timestamp)
    except ProtocolError:
        return None
    return highest


def _claims_a_brokers_time(header: BatchHeader, config: TopicConfig) -> bool:
    """Whether a producer says LogAppendTime where Kafka does not let it pass."""
    if header.timestamp_type != TIMESTAMP_LOG_APPEND_TIME:
        return False
    return config.stamps_on_append or header.max_timestamp == NO_TIMESTAMP


def _bounds(config: TopicConfig, now_ms: int) -> tuple[int, int]:
    if config.stamps_on_append:
        return -LONG_MAX, LONG_MAX
    return now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms


def _errors(
    records: list[InnerRecord], header: BatchHeader, config: TopicConfig, where: str, now_ms: int
) -> Iterator[tuple[ErrorCode, RecordError]]:
    earliest, latest = _bounds(config, now_ms)
    stamped = header.timestamp_type == TIMESTAMP_LOG_APPEND_TIME
    for at, record in enumerate(records):
        if config.is_compacted and record.key is None:
            message = f"Compacted topic cannot accept message without key in topic partition {where}"
            yield ErrorCode.INVALID_RECORD, RecordError(at, message)
        elif not config.stamps_on_append and record.timestamp_ms != NO_TIMESTAMP:
            if not earliest <= record.timestamp_ms <= latest:
                message = (
                    f"Timestamp {record.timestamp_ms} of message with offset {record.offset} is out of range. "
                    f"The timestamp should be within [{earliest}, {latest}]"
                )
                yield ErrorCode.INVALID_TIMESTAMP, RecordError(at, message)
        elif stamped:
            message = (
                f"Invalid timestamp type in message {_shown(record, header)}. Producer should not set timestamp type "
                "to LogAppendTime."
            )
            yield ErrorCode.INVALID_TIMESTAMP, RecordError(at, message)


def _shown(record: InnerRecord, header: BatchHeader) -> str:
    """A record as Java's class for it writes itself."""
    kind = "PartialDefaultRecord" if header.codec_id else "DefaultRecord"
    sizes = f"key={len(record.key or b'')} bytes, value={len(record.value or b'')} bytes"
    return f"{kind}(offset={record.offset}, timestamp={record.timestamp_ms}, {sizes})"


def _raise_for(found: list[tuple[ErrorCode, RecordError]]) -> None:
    if not found:
        return
    errors = tuple(error for _, error in found)
    if any(code == ErrorCode.INVALID_TIMESTAMP for code, _ in found):
        message = "One or more records have been rejected due to invalid timestamp"
        raise Refusal(ErrorCode.INVALID_TIMESTAMP, message, errors)
    shown = ", ".join(
        f"RecordError(batchIndex={error.batch_index}, message='{error.message}')" for error in errors[:ERRORS_SHOWN]
    )
    message = (
        f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]"
    )
    raise Refusal(ErrorCode.INVALID_RECORD, message, errors)
