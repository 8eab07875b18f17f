"""Which batches of the source go to the target as they are, and what of their headers has to change. Pure.

A broker takes a batch as it is, still compressed, if its records have no gaps in their offsets. Base offset, leader
epoch, the producer's numbers and the checksum are written anew; records and compression stay. All other batches are
written record by record:

- Gaps, which compaction leaves: brokers demand `count == last_offset_delta + 1`.
- Batches of which a part was copied before.
- Messages of the formats before Kafka 0.11.
- Batches stamped with the append time, unless the copy is stamped anew, too: a producer must not send that stamp, and
  the records' own timestamps are not those that consumers of the source see.
- Batches larger than the target's `max.message.bytes`: divided into several. If a broker's limit is lower than what is
  known here, the producer divides them, too.

Small batches that follow each other are written into one, too: of each partition, at most five batches are under way to
the target, so a source that writes records one by one would be copied slower than it grows if the target is far away.

If the target's `compression.type` is another one, its broker compresses anew; nothing has to be done here.

Start at `groups_of`, `treatment_of` and `rewritten`. Source: Kafka's LogValidator and DefaultRecordBatch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import NamedTuple
from kafkaraw.records import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Batch,
    BatchBuilder,
    BatchHeader,
    Codec,
    Record,
    TopicPartition,
    Wire,
    codec_by_id,
    unstamped,
    verify_crc,
)

_MAGIC: Final = 2
_BATCH_BYTES_MAX: Final = 1 << 20
"""Of batches written record by record, uncompressed; unless one record has more."""
_SMALL_RECORDS: Final = 16
_SMALL_BYTES: Final = 4 << 10
"""A batch with more records or more bytes than these is not small: to send it costs less than to decode its records."""
_GROUP_BYTES: Final = 256 << 10
"""Of small batches that become one."""
_MESSAGE_MAX_BYTES: Final = "max.message.bytes"
_TIMESTAMP_TYPE: Final = "message.timestamp.type"
_LOG_APPEND_TIME: Final = "LogAppendTime"


class Treatment(Enum):
    """What to do with a batch of the source."""

    VERBATIM = "is sent as it is"
    REWRITE = "is sent record by record"
    SKIP = "has no records for the copy"


class TargetLimits(NamedTuple):
    """What the configuration of the copy says about batches.

    Attributes:
        message_max_bytes: the largest batch; None if it is not known.
        stamps_append_time: its broker sets the timestamps of all records.
    """

    message_max_bytes: int | None = None
    stamps_append_time: bool = False

    @classmethod
    def of(cls, config: Mapping[str, str]) -> TargetLimits:
        """Read them from the configuration of a topic."""
        size = config.get(_MESSAGE_MAX_BYTES)
        return cls(None if size is None else int(size), config.get(_TIMESTAMP_TYPE) == _LOG_APPEND_TIME)


class NewBatch(NamedTuple):
    """A batch that was written record by record.

    Attributes:
        builder: has the records.
        codec: the compression of the source's batch.
        runs: the offsets of its records in the source, as consecutive runs.
    """

    builder: BatchBuilder
    codec: Codec
    runs: tuple[range, ...]


def treatment_of(header: BatchHeader, start_offset: int, limits: TargetLimits) -> Treatment:
    """Say what to do with a batch.

    Args:
        header: of the batch.
        start_offset: records before it are in the copy already.
        limits: of the target.
    """
    if header.is_control or not header.records_count or header.next_offset <= start_offset:
        return Treatment.SKIP
    is_whole = header.records_count == header.last_offset_delta + 1 and header.base_offset >= start_offset
    if header.magic != _MAGIC or not is_whole:
        return Treatment.REWRITE
    kind = header.timestamp_type
    if kind != TIMESTAMP_CREATE_TIME and not (kind == TIMESTAMP_LOG_APPEND_TIME and limits.stamps_append_time):
        return Treatment.REWRITE
    if limits.message_max_bytes is not None and header.size > limits.message_max_bytes and header.records_count > 1:
        return Treatment.REWRITE
    return Treatment.VERBATIM


class Group(NamedTuple):
    """Batches of the source that are treated together.

    Attributes:
        treatment: verbatim or record by record.
        wires: one batch, or small ones that become one.
    """

    treatment: Treatment
    wires: Sequence[Wire]


def groups_of(wires: Iterable[Wire], start_offset: int, limits: TargetLimits, *, joins: bool = True) -> Iterator[Group]:
    """Yield the batches that have records for the copy; small ones that follow each other are yielded together.

    Args:
        wires: of one partition, in order.
        start_offset: records before it are in the copy already.
        limits: of the target.
        joins: False yields each batch alone.

    Raises:
        CorruptBatchError: a small batch is damaged; those before it were yielded.
    """
    small, size_bytes = list[Wire](), 0
    for wire in wires:
        header = wire[0]
        treatment = treatment_of(header, start_offset, limits)
        if treatment is Treatment.SKIP:
            continue
        is_small = joins and header.records_count <= _SMALL_RECORDS and header.size <= _SMALL_BYTES
        if not is_small or treatment is not Treatment.VERBATIM:
            yield from _group(small)
            small, size_bytes = [], 0
            yield Group(treatment, (wire,))
            continue
        if small and (size_bytes + header.size > _GROUP_BYTES or header.codec_id != small[0][0].codec_id):
            yield from _group(small)
            small, size_bytes = [], 0
        try:
            verify_crc(wire[1])
        except CorruptBatchError:
            yield from _group(small)
            raise
        small.append(wire)
        size_bytes += header.size
    yield from _group(small)


def _group(small: Sequence[Wire]) -> Iterator[Group]:
    if small:
        yield Group(Treatment.REWRITE if len(small) > 1 else Treatment.VERBATIM, small)


def some_of(batches: Sequence[Batch], size_max_bytes: int) -> tuple[dict[TopicPartition, Batch], Sequence[Batch]]:
    """Return what is sent next, and what stays in hand: whole wire batches, at least one of each partition.

    The positions of a consumer are behind what it has given. So what is sent between two commits has a limit, whatever
    a Fetch response holds.

    Args:
        batches: of different partitions.
        size_max_bytes: of all together, unless single wire batches are larger.
    """
    room_bytes = size_max_bytes // max(1, len(batches))
    some: dict[TopicPartition, Batch] = {}
    left: list[Batch] = []
    for batch in batches:
        count, size_bytes = 0, 0
        if batch.size_bytes > room_bytes:
            for _, data in batch.wires:
                size_bytes += len(data)
                if count and size_bytes > room_bytes:
                    break
                count += 1
        of = batch.topic_partition
        if 0 < count < len(batch.wires):
            some[of] = head = Batch(*of, batch.wires[:count], start_offset=batch.start_offset)
            left.append(Batch(*of, batch.wires[count:], start_offset=head.next_offset))
        else:
            some[of] = batch
    return some, left


def verbatim(wire: Wire) -> Wire:
    """Return a batch as a producer sends it, in its own bytes if they can be written to, with the header of the source.

    The producer's numbers and the checksum are still those of the source: the producer writes both.

    Raises:
        CorruptBatchError: the checksum is wrong; a new one would hide that.
    """
    verify_crc(wire[1])
    return wire[0], unstamped(wire)


def rewritten(of: TopicPartition, wires: Sequence[Wire], start_offset: int, limits: TargetLimits) -> Iterator[NewBatch]:
    """Write the records of batches into new ones without gaps, in order.

    Args:
        of: the partition of the source.
        wires: the batches, with the same compression.
        start_offset: leave out records before it.
        limits: of the target.

    Raises:
        CorruptBatchError: a batch is damaged.
    """
    size_max = min(limits.message_max_bytes or _BATCH_BYTES_MAX, _BATCH_BYTES_MAX)
    codec = codec_by_id(wires[0][0].codec_id)
    builder, offsets = BatchBuilder(size_max), list[int]()
    for record in Batch(*of, wires, start_offset=start_offset):
        if not _append(builder, record):
            yield NewBatch(builder, codec, runs_of(offsets))
            builder, offsets = BatchBuilder(size_max), []
            _append(builder, record)
        offsets.append(record.offset)
    if offsets:
        yield NewBatch(builder, codec, runs_of(offsets))


def _append(builder: BatchBuilder, record: Record) -> bool:
    return builder.append(record.timestamp_ms, record.key, record.value, record.headers) >= 0


def runs_of(offsets: Iterable[int]) -> tuple[range, ...]:
    """Return rising offsets as consecutive runs."""
    runs: list[range] = []
    first = last = -1
    for offset in offsets:
        if first >= 0 and offset == last + 1:
            last = offset
            continue
        if first >= 0:
            runs.append(range(first, last + 1))
        first = last = offset
    if first >= 0:
        runs.append(range(first, last + 1))
    return tuple(runs)


def pieces(runs: Iterable[range], first: int, count: int) -> tuple[range, ...]:
    """Return the part of some runs that holds `count` records from the `first` one on, counted over all runs."""
    found: list[range] = []
    for run in runs:
        part = run[max(first, 0) : max(first + count, 0)]
        if part:
            found.append(part)
        first -= len(run)
    return tuple(found)
