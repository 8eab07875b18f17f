"""Checks of the records of a batch, and their highest timestamp.

A fast reader checks the records first. Only if it finds an error, a slow reader reads them again to report the error of
each record as Kafka does (KIP-467). A batch of a few hundred bytes may contain 18 million records: they are read one by
one, in turns with other work, and at most `ERRORS_MAX` errors are reported. Start at `must_be_read`, `check_records`
and `checked_rows`.
Source: LogValidator.validateRecord, processRecordErrors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kafkaraw.broker.api_error import ApiError, RecordError
from kafkaraw.broker.configs.topic_config import TopicConfig
from kafkaraw.broker.settings import LONG_MAX
from kafkaraw.broker.turns import Steps
from kafkaraw.broker.validation.inner_records import InnerRecord, inner_records
from kafkaraw.errors import BatchTooLargeError, ProtocolError
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import TIMESTAMP_LOG_APPEND_TIME, Batch, BatchHeader
from kafkaraw.records.batch import PlainRecord

NO_TIMESTAMP: Final = -1
ERRORS_SHOWN: Final = 3
ERRORS_MAX: Final = 1_000
"""Maximum number of invalid records that are reported. Kafka reports all, possibly megabytes for each received byte."""
RECORDS_PER_STEP: Final = 256
"""How many records are looked at before other work may have its turn: some 0.3 ms."""


def must_be_read(header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    """Return whether the topic's settings require a check of the records, which the header cannot replace.

    A header has the highest timestamp, but not the lowest, and no information on keys.
    """
    if config.is_compacted or _claims_a_brokers_time(header, config):
        return True
    if config.stamps_on_append:
        return False
    if config.timestamp_before_max_ms < LONG_MAX:
        return True
    return header.max_timestamp > now_ms + config.timestamp_after_max_ms


def check_records(
    batch: memoryview, header: BatchHeader, config: TopicConfig, where: str, now_ms: int, size_max_bytes: int
) -> Steps[int]:
    """Judge the records of a batch whose header is right.

    Args:
        batch: its bytes.
        header: its header.
        config: the topic's settings.
        where: topic and partition, for messages.
        now_ms: wall clock.
        size_max_bytes: limit on its decompressed size.

    Returns:
        Their highest timestamp; -1 when none has one.

    Raises:
        BatchTooLargeError: it has more than `size_max_bytes` when decompressed.
        ApiError: INVALID_TIMESTAMP or INVALID_RECORD, with the records to blame; UNKNOWN_SERVER_ERROR when they cannot
            be decompressed, or when their offsets are such that Kafka would have to write the batch anew and cannot.
    """
    highest = yield from _highest_when_sound(batch, header, config, now_ms, size_max_bytes)
    if highest is not None:
        return highest
    highest, are_in_order = yield from _judge(batch, header, config, where, now_ms, size_max_bytes)
    if header.codec_id and not are_in_order:
        count = header.records_count
        message = f"the offsets within the compressed batch are not 0 to {count - 1} in topic partition {where}"
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
    return highest


def checked_rows(
    batch: memoryview, header: BatchHeader, config: TopicConfig, where: str, now_ms: int, size_max_bytes: int
) -> Steps[Iterator[PlainRecord]]:
    """Judge the records of a batch that is to be stored in another form, and give them.

    Their offsets are ignored, because the broker assigns new ones. Arguments as for `check_records`.

    Raises:
        BatchTooLargeError: it has more than `size_max_bytes` when decompressed.
        ApiError: INVALID_TIMESTAMP or INVALID_RECORD, with the records to blame; UNKNOWN_SERVER_ERROR when they cannot
            be decompressed.
    """
    highest = yield from _highest_when_sound(batch, header, config, now_ms, size_max_bytes)
    if highest is not None:
        records = _read(batch, size_max_bytes)
        return ((record.timestamp_ms, record.key, record.value, record.headers) for record in records)
    yield from _judge(batch, header, config, where, now_ms, size_max_bytes)
    return (
        (record.timestamp_ms, record.key, record.value, [(_text(name), value) for name, value in record.headers])
        for record in inner_records(batch, header, size_max_bytes)
    )


def _text(name: bytes) -> str:
    """Return a header's key; as in Java, a replacement character stands for invalid UTF-8."""
    return name.decode("utf-8", "replace")


def _read(batch: memoryview, size_max_bytes: int) -> Batch:
    return Batch("", 0, batch, start_offset=0, check_crcs=False, size_max_bytes=size_max_bytes)


def _highest_when_sound(
    batch: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int, size_max_bytes: int
) -> Steps[int | None]:
    """The highest timestamp; None when something is odd."""
    if _claims_a_brokers_time(header, config):
        return None
    earliest, latest = _bounds(config, now_ms)
    compacted = config.is_compacted
    highest = NO_TIMESTAMP
    try:
        for at, record in enumerate(_read(batch, size_max_bytes), 1):
            timestamp = record.timestamp_ms
            if compacted and record.key is None:
                return None
            if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
                return None
            highest = max(highest, timestamp)
            if not at % RECORDS_PER_STEP:
                yield None
    except BatchTooLargeError:
        raise
    except ProtocolError:
        return None
    return highest


def _judge(
    batch: memoryview, header: BatchHeader, config: TopicConfig, where: str, now_ms: int, size_max_bytes: int
) -> Steps[tuple[int, bool]]:
    """Read the records slowly. Returns their highest timestamp, and whether their offsets count from 0."""
    fault_of = _faults(header, config, where, now_ms)
    found: list[tuple[ErrorCode, RecordError]] = []
    highest, are_in_order = NO_TIMESTAMP, True
    yield None  # the batch is decompressed a second time, which may take half a second
    for at, record in enumerate(inner_records(batch, header, size_max_bytes)):
        fault = fault_of(at, record)
        if fault is not None:
            found.append(fault)
            if len(found) == ERRORS_MAX:
                break
        highest = max(highest, record.timestamp_ms)
        are_in_order = are_in_order and record.offset == at
        if not at % RECORDS_PER_STEP:
            yield None
    _raise_for(found)
    return highest, are_in_order


def _claims_a_brokers_time(header: BatchHeader, config: TopicConfig) -> bool:
    """Return whether a producer set LogAppendTime where Kafka refuses it."""
    if header.timestamp_type != TIMESTAMP_LOG_APPEND_TIME:
        return False
    return config.stamps_on_append or header.max_timestamp == NO_TIMESTAMP


def _bounds(config: TopicConfig, now_ms: int) -> tuple[int, int]:
    if config.stamps_on_append:
        return -LONG_MAX, LONG_MAX
    return now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms


def _faults(
    header: BatchHeader, config: TopicConfig, where: str, now_ms: int
) -> Callable[[int, InnerRecord], tuple[ErrorCode, RecordError] | None]:
    """Return a function that returns the error of a record with its index; None if the record is valid."""
    earliest, latest = _bounds(config, now_ms)
    stamped = header.timestamp_type == TIMESTAMP_LOG_APPEND_TIME

    def fault_of(at: int, record: InnerRecord) -> tuple[ErrorCode, RecordError] | None:
        if config.is_compacted and record.key is None:
            message = f"Compacted topic cannot accept message without key in topic partition {where}"
            return ErrorCode.INVALID_RECORD, RecordError(at, message)
        if not config.stamps_on_append and record.timestamp_ms != NO_TIMESTAMP:
            if not earliest <= record.timestamp_ms <= latest:
                message = (
                    f"Timestamp {record.timestamp_ms} of message with offset {record.offset} is out of range. "
                    f"The timestamp should be within [{earliest}, {latest}]"
                )
                return ErrorCode.INVALID_TIMESTAMP, RecordError(at, message)
        elif stamped:
            message = (
                f"Invalid timestamp type in message {_shown(record, header)}. Producer should not set timestamp type "
                "to LogAppendTime."
            )
            return ErrorCode.INVALID_TIMESTAMP, RecordError(at, message)
        return None

    return fault_of


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
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, message, errors)
    shown = ", ".join(
        f"RecordError(batchIndex={error.batch_index}, message='{error.message}')" for error in errors[:ERRORS_SHOWN]
    )
    message = (
        f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]"
    )
    raise ApiError(ErrorCode.INVALID_RECORD, message, errors)
