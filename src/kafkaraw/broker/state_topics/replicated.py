"""A partition in which a coordinator of this node keeps its state: appended to, and waited for until it cannot be lost.

Used by the coordinators of transactions and of groups. What the records mean is theirs.
Source: org.apache.kafka.coordinator.common.runtime.{PartitionWriter, CoordinatorLoader}.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar  # noqa: TID251 -- `Found` is generic

from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.refusal import Refusal
from kafkaraw.errors import ProtocolError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.records import (
    Batch,
    BatchHeader,
    ControlType,
    Record,
    control_type_of,
    encode_batch,
    iter_headers,
)

_READ_BYTES: Final = 1 << 20
NO_PRODUCER: Final = (-1, -1)
SKIPPED_SHOWN: Final = 10
"""How many undecodable records of a log are logged one by one."""

_logger = logging.getLogger("kafkaraw.broker")

T = TypeVar("T")


class Found(NamedTuple, Generic[T]):
    """One batch of the log.

    Attributes:
        control: what a marker says; None for a batch with records.
        records: what the records say; nothing for a marker.
    """

    header: BatchHeader
    control: ControlType | None
    records: Sequence[T]


@dataclass(slots=True)
class _Skipped:
    """Counts what cannot be decoded in a log, and logs the first of it."""

    folder: str
    count: int = 0

    def note(self, offset: int, error: Exception) -> None:
        self.count += 1
        if self.count <= SKIPPED_SHOWN:
            _logger.error("%s: what is at offset %d cannot be decoded and is skipped: %r", self.folder, offset, error)

    def end(self) -> None:
        if self.count > SKIPPED_SHOWN:
            _logger.error("%s: %d records or batches cannot be decoded and were skipped", self.folder, self.count)


class ReplicatedLog:
    """The log of a partition that this node leads.

    Args:
        partition: of an internal topic.
        now_ms: wall clock, for the records' timestamps.
    """

    def __init__(self, partition: Partition, now_ms: Callable[[], int]) -> None:
        self._partition = partition
        self._now_ms = now_ms

    def append(self, records: Sequence[tuple[bytes, bytes | None]], *, producer: tuple[int, int] = NO_PRODUCER) -> int:
        """Append records as one batch.

        Args:
            records: (key, value); a null value is a tombstone.
            producer: producer id and epoch of the transaction that they are part of.

        Returns:
            the offset to give to `when_replicated`.

        Raises:
            Refusal: the partition is led elsewhere, lacks replicas in sync or cannot be written, or the producer is
                fenced.
        """
        producer_id, epoch = producer
        transactional = producer != NO_PRODUCER
        if transactional:
            self._check_epoch(producer_id, epoch)
        now_ms = self._now_ms()
        batch = encode_batch(
            [(now_ms, key, value, ()) for key, value in records],
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=transactional,
        )
        return self._partition.append_own(batch).next_offset

    def _check_epoch(self, producer_id: int, epoch: int) -> None:
        newest = self._partition.producers.epoch_of(producer_id)
        if newest is not None and epoch < newest:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH, f"producer {producer_id} has epoch {newest}, not {epoch} any more"
            )

    def when_replicated(self, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` when all replicas in sync have what is before an offset; see the function of that name."""
        when_replicated(self._partition, next_offset, done)

    def read(self, decode: Callable[[Record], T | None]) -> Iterator[Found[T]]:
        """Everything that the log holds, oldest first. What cannot be decoded is logged and skipped, as Kafka does.

        Args:
            decode: what a record says; None for one of a kind that is not known. May raise ProtocolError, ValueError or
                struct.error.

        Raises:
            OSError: the storage is broken.
        """
        log = self._partition.log
        skipped = _Skipped(log.folder)
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            for header, wire in iter_headers(memoryview(log.copy(offset, _READ_BYTES))):
                try:
                    if header.is_control:
                        yield Found(header, control_type_of(wire), ())
                    else:
                        records = tuple(Batch("", 0, wire, start_offset=offset))
                        yield Found(header, None, _decoded(records, decode, skipped))
                except ProtocolError as error:
                    skipped.note(header.base_offset, error)
                offset = header.next_offset
        skipped.end()


def _decoded(records: Sequence[Record], decode: Callable[[Record], T | None], skipped: _Skipped) -> list[T]:
    found = []
    for record in records:
        try:
            said = decode(record)
        except (ProtocolError, ValueError, struct.error) as error:
            skipped.note(record.offset, error)
        else:
            if said is not None:
                found.append(said)
    return found


def when_replicated(partition: Partition, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
    """Call `done` when the high watermark has reached an offset, at once when it has.

    Args:
        partition: that this node leads.
        next_offset: the offset after what was appended.
        done: told NONE, or NOT_LEADER_OR_FOLLOWER when the leader has changed before.
    """
    waiting = _Waiting(partition, next_offset, done)
    partition.watch(waiting)
    waiting.readable(0)


class _Waiting:
    """One who waits."""

    def __init__(self, partition: Partition, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self._next_offset = next_offset
        self._done = done

    def readable(self, size_bytes: int) -> None:
        """The high watermark has moved."""
        if self._partition.high_watermark >= self._next_offset:
            self._end(ErrorCode.NONE)

    def ended(self) -> None:
        """The leader has changed, or leads in another epoch now."""
        self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, code: ErrorCode) -> None:
        self._partition.unwatch(self)
        self._done(code)
