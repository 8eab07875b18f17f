"""Changes of record batches for another log: without their producer, with other keys and values. Pure.

`for_other_log` keeps the records as they are, compressed; `masked` decodes them and calls a function. Offsets and
timestamps stay. Both remove what refers to the state of the source: producer id, epoch and sequence, the transaction,
and the leader epoch. Start at `for_other_log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import dataclass
from kafkaraw.records import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NONE,
    Batch,
    BatchHeader,
    Record,
    TopicPartition,
    Wire,
    codec_by_id,
    emptied,
    encode_batch,
    patch_header,
)
from kafkaraw.records.batch import PlainRecord
from kafkaraw.records.header import (
    ATTRIBUTES_AT,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMELESS_BIT,
    stamp_producer,
)

_DELTA_MAX: Final = 2**31 - 2
"""Offsets that one batch covers at most, minus one."""

MaskFunction = Callable[[bytes], bytes | None]
"""Returns what to store instead of a key or a value; None is a null."""


@dataclass(frozen=True, slots=True)
class Mask:
    """What is masked, and how.

    Attributes:
        function: called with each key or value; not with nulls.
        keys: whether keys are masked.
        values: whether values are masked.
        name: of the function, for errors.
    """

    function: MaskFunction
    keys: bool
    values: bool
    name: str = "the mask"


def for_other_log(wires: Sequence[Wire], leader_epoch: int) -> bytearray:
    """Return batches for the log of another cluster, one after the other; only their headers change.

    Args:
        wires: batches with records.
        leader_epoch: the leader epoch of the other log.
    """
    joined = bytearray()
    for header, wire in wires:
        batch = bytearray(wire)
        # What has a producer or our own attribute gets new bytes under its checksum; the others keep theirs.
        if header.producer_id != NO_PRODUCER_ID or header.is_transactional or header.timestamp_type == TIMESTAMP_NONE:
            _clear_time(batch, header)
            stamp_producer(batch, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, transactional=False)
        patch_header(batch, partition_leader_epoch=leader_epoch)
        joined += batch
    return joined


def _clear_time(batch: bytearray, header: BatchHeader) -> None:
    """Remove the attribute of batches that were made of messages without timestamps; their timestamps are -1."""
    if header.timestamp_type == TIMESTAMP_NONE:
        batch[ATTRIBUTES_AT] &= ~(TIMELESS_BIT >> 8) & 0xFF  # the first of the two bytes


def without_records(begin: int, end: int, leader_epoch: int) -> bytes:
    """Return batches without records for a range of offsets, so that a log ends where its source does.

    Args:
        begin: the first offset.
        end: the offset after the last one.
        leader_epoch: the leader epoch of the log.
    """
    joined = b""
    while begin < end:
        delta = min(end - begin - 1, _DELTA_MAX)
        joined += emptied(
            BatchHeader(
                base_offset=begin,
                batch_length=0,
                partition_leader_epoch=leader_epoch,
                magic=MAGIC,
                crc=0,
                attributes=0,
                last_offset_delta=delta,
                base_timestamp=NO_TIMESTAMP,
                max_timestamp=NO_TIMESTAMP,
                producer_id=NO_PRODUCER_ID,
                producer_epoch=NO_PRODUCER_EPOCH,
                base_sequence=NO_SEQUENCE,
                records_count=0,
            )
        )
        begin += delta + 1
    return joined


def masked(key: TopicPartition, wires: Sequence[Wire], mask: Mask, *, begin: int = 0, leader_epoch: int) -> bytearray:
    """Return batches whose keys or values a function has replaced, compressed as before.

    Args:
        key: their partition, for errors.
        wires: batches with records.
        mask: what to replace.
        begin: records before this offset are left out.
        leader_epoch: the leader epoch of the other log.

    Raises:
        UsageError: the function fails, or returns something else than bytes.
        CorruptBatchError: a batch cannot be decoded.
    """
    joined = bytearray()
    for wire in wires:
        header = wire[0]
        records = Batch(key.topic, key.partition, [wire], start_offset=max(begin, header.base_offset))
        codec = codec_by_id(header.codec_id).name
        for run in _without_gaps(records):
            batch = bytearray(
                encode_batch(
                    [_masked_record(record, mask) for record in run],
                    codec=codec,
                    base_offset=run[0].offset,
                    partition_leader_epoch=leader_epoch,
                )
            )
            if header.timestamp_type == TIMESTAMP_LOG_APPEND_TIME:
                patch_header(batch, max_timestamp=header.max_timestamp)
            joined += batch
    return joined


def _without_gaps(records: Batch) -> Iterator[list[Record]]:
    """Yield runs of records with consecutive offsets: an encoded batch has no gaps."""
    run: list[Record] = []
    for record in records:
        if run and record.offset != run[-1].offset + 1:
            yield run
            run = []
        run.append(record)
    if run:
        yield run


def _masked_record(record: Record, mask: Mask) -> PlainRecord:
    key = _masked(record.key, mask, record) if mask.keys else record.key
    value = _masked(record.value, mask, record) if mask.values else record.value
    return record.timestamp_ms, key, value, record.headers


def _masked(data: bytes | None, mask: Mask, record: Record) -> bytes | None:
    if data is None:
        return None
    where = f"{record.topic}-{record.partition} offset {record.offset}"
    try:
        made = mask.function(data)
    except KafkaError:
        raise
    except Exception as error:
        raise UsageError(f"{mask.name} failed at {where}: {type(error).__name__}: {error}") from error
    if made is not None and not isinstance(made, bytes):
        raise UsageError(f"{mask.name} returned {type(made).__name__} at {where}; it must return bytes or None")
    return made
