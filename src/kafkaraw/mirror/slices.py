"""Slices of topics: from which offset to which, and the record batches between them, as the brokers sent them.

`plan_slices` looks the offsets up, `read_slices` reads the batches of all partitions. Batches stay compressed; their
checksums are verified. Only committed data are read: batches of aborted transactions, control batches and batches
without records are left out, and the offsets that they had become gaps. A slice ends at the last stable offset at its
start, so a transaction that is open then is in none of the slices.

If the source loses records while it is read (retention, DeleteRecords, a truncated log, a topic that is created again),
`SourceChangedError` names the partition and the offset: a slice never has silent gaps. Must not write anything. Start
at `plan_slices`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.core.fetch.failures import name_of
from kafkaraw.errors import (
    BrokerError,
    CorruptBatchError,
    KafkaError,
    LogTruncationError,
    UnknownTopicError,
    UsageError,
    cause_of,
)
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.mirror.stalls import Stalls
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import Batch, TopicPartition, Wire, verify_crc
from kafkaraw.records.header import MAGIC
from kafkaraw.records.legacy import unwrapped

if TYPE_CHECKING:
    from kafkaraw.client.consumer import AsyncConsumer

_POLL_S: Final = 0.2


class SourceChangedError(KafkaError):
    """The source lost records of a slice while it was read, or the topic is another one by now."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The offsets of one partition that are copied.

    Attributes:
        key: the partition.
        begin: the first offset.
        end: the offset after the last one.
        log_start: the log start offset of the source.
    """

    key: TopicPartition
    begin: int
    end: int
    log_start: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which records of each partition to take.

    Attributes:
        last: at most this number of offsets before the end; None is no limit.
        since_ms: records from the first one with this timestamp or a later one on; None is no limit.
        partitions: numbers of partitions; None is all.
    """

    last: int | None = None
    since_ms: int | None = None
    partitions: Collection[int] | None = None


class Progress:
    """Receives the progress of a copy, or of a comparison; this one ignores it.

    Attributes:
        is_shown: whether anybody sees it.
    """

    is_shown: bool = False

    def begin(self, offsets_count: int) -> None:
        """This number of offsets is to be read."""

    def advance(self, offsets_count: int) -> None:
        """This number of offsets was read."""


class SourceBatch(NamedTuple):
    """Whole record batches of one partition, with their headers, at least one.

    Attributes:
        key: the partition.
        wires: the batches.
        begin: the first offset that is wanted; the first batch may begin before it.
    """

    key: TopicPartition
    wires: Sequence[Wire]
    begin: int

    @property
    def records_count(self) -> int:
        """Number of records from `begin` on."""
        whole = sum(header.records_count for header, _ in self.wires[1:])
        first = self.wires[0][0]
        if first.base_offset >= self.begin:
            return first.records_count + whole
        return whole + sum(1 for _ in Batch(*self.key, self.wires[:1], start_offset=self.begin, check_crcs=False))

    @property
    def size_bytes(self) -> int:
        """Size of all batches."""
        return sum(len(wire) for _, wire in self.wires)


async def plan_slices(consumer: AsyncConsumer, topics: Sequence[str], bounds: Bounds) -> list[Slice]:
    """Look up the offsets to copy, of all partitions of the topics.

    Args:
        consumer: reads the source with `isolation_level="read_committed"`.
        topics: names.
        bounds: which records to take.

    Returns:
        One slice for each partition, in order; partitions that are not wanted have an empty one at their end.

    Raises:
        UsageError: a topic has no partition that is wanted.
        KafkaError: a topic does not exist, or its offsets are not known in time.
    """
    keys = [key for topic in topics for key in sorted(await consumer.partitions_for(topic))]
    for topic in topics if bounds.partitions is not None else ():
        count = sum(key.topic == topic for key in keys)
        missing = sorted(number for number in bounds.partitions or () if number >= count)
        if missing:
            raise UsageError(f"topic {topic!r} has no partition {missing[0]}: it has {count}")
    starts, ends = await consumer.beginning_offsets(keys), await consumer.end_offsets(keys)
    begins = dict(starts)
    if bounds.since_ms is not None:
        found = await consumer.offsets_for_times(dict.fromkeys(keys, bounds.since_ms))
        begins = {key: ends[key] if (at := found[key]) is None else max(starts[key], at.offset) for key in keys}
    if bounds.last is not None:
        begins = {key: max(begins[key], ends[key] - bounds.last) for key in keys}
    return [
        Slice(key, begins[key] if _is_wanted(key, bounds) else ends[key], ends[key], starts[key])
        for key in keys
    ]  # fmt: skip


def _is_wanted(key: TopicPartition, bounds: Bounds) -> bool:
    return bounds.partitions is None or key.partition in bounds.partitions


async def read_slices(
    consumer: AsyncConsumer, slices: Sequence[Slice], topic_ids: Mapping[str, Uuid]
) -> AsyncIterator[SourceBatch]:
    """Yield the batches of slices, partition by partition as they arrive.

    The first batch of a slice may begin before it, because batches are never divided.

    Args:
        consumer: as in `plan_slices`, with nothing assigned and `auto_offset_reset="none"`.
        slices: of different partitions.
        topic_ids: the id of each topic when the slices were planned; zero if it is not known.

    Raises:
        SourceChangedError: records of a slice are gone.
        CorruptBatchError: a batch is damaged.
        KafkaTimeoutError: the source brings no more records.
        KafkaError: it cannot be read.
    """
    left = {one.key: one for one in slices if one.begin < one.end}
    if not left:
        return
    consumer.assign(list(left))
    for key, one in left.items():
        consumer.seek(key, one.begin)
    stalls, positions = Stalls(), {key: one.begin for key, one in left.items()}
    while left:
        try:
            fetched = await consumer.poll(timeout=_POLL_S)
        except KafkaError as error:
            change = _as_change(error, positions)
            raise change from cause_of(change, error)
        for key, batch in fetched.items():
            if key in left:
                wires = _wires_of(batch, left[key])
                if wires:
                    yield SourceBatch(key, wires, left[key].begin)
        before = dict(positions)
        positions.update((key, at.offset) for key, at in consumer.next_offsets().items())
        done = [key for key, one in left.items() if positions[key] >= one.end]
        consumer.pause(done)
        for key in done:
            _check_id(consumer, key.topic, topic_ids)
            del left[key]
        if positions != before:
            stalls.clear()
        elif left:
            key = next(iter(left))
            stalls.check(key, positions[key], left[key].end, waited_s=_POLL_S)


def _wires_of(batch: Batch, wanted: Slice) -> list[Wire]:
    try:
        return [
            (header, wire)
            for header, wire in checked_wires(batch)
            if not header.is_control
            and header.records_count
            and header.next_offset > wanted.begin
            and header.base_offset < wanted.end
        ]
    except CorruptBatchError as error:
        raise CorruptBatchError(f"{name_of(wanted.key)}: the source is damaged: {error}") from error


def checked_wires(batch: Batch) -> Iterator[Wire]:
    """Yield the wire batches of a batch with verified checksums; compressed messages of old formats are converted.

    Raises:
        CorruptBatchError: a checksum is wrong, or a message cannot be converted.
        BatchTooLargeError: a message is too large when decompressed.
    """
    for header, wire in batch.wires:
        try:
            made = [(header, wire)] if header.magic == MAGIC else unwrapped(wire)
            for _, each in made:
                verify_crc(each)
        except CorruptBatchError as error:
            raise CorruptBatchError(f"the batch at offset {header.base_offset}: {error}") from error
        yield from made


def _check_id(consumer: AsyncConsumer, topic: str, topic_ids: Mapping[str, Uuid]) -> None:
    expected, found = topic_ids.get(topic), consumer.topic_id(topic)
    if expected and found and expected != found:
        raise SourceChangedError(
            f"topic {topic!r} was deleted and created again while it was read: it had the id {expected}, now {found}; "
            "start again"
        )


def _as_change(error: KafkaError, positions: Mapping[TopicPartition, int]) -> KafkaError:
    """Return the error that says that records of a slice are gone, if that is what has happened."""
    gone = isinstance(error, LogTruncationError | UnknownTopicError) or (
        isinstance(error, BrokerError)
        and error.code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    )
    if not gone:
        return error
    where = ", ".join(f"{name_of(key)} at offset {offset}" for key, offset in sorted(positions.items()))
    return SourceChangedError(
        f"the source lost records while it was read ({where}): {error}; start again, or take a smaller slice"
    )
