"""The log of a coordinator of this node: appends records, and waits until they are replicated.

Used by the coordinators of transactions and of groups, which define the meaning of the records.
Source: org.apache.kafka.coordinator.common.runtime.{PartitionWriter, CoordinatorLoader}.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar  # noqa: TID251 -- `Found` is generic

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.partitions.partition import Partition
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
"""Number of undecodable records of a log that are logged individually."""

_logger = logging.getLogger("kafkaraw.broker")

T = TypeVar("T")


class Found(NamedTuple, Generic[T]):
    """One batch of the log.

    Attributes:
        control: type of the marker; None for a batch with records.
        records: the decoded records; empty for a marker.
    """

    header: BatchHeader
    control: ControlType | None
    records: Sequence[T]


@dataclass(slots=True)
class _Skipped:
    """Counts the undecodable records of a log, and logs the first ones."""

    folder: str
    count: int = 0

    def note(self, offset: int, error: Exception) -> None:
        self.count += 1
        if self.count <= SKIPPED_SHOWN:
            _logger.error(
                "%s: the record or batch at offset %d cannot be decoded and is skipped: %r", self.folder, offset, error
            )

    def end(self) -> None:
        if self.count > SKIPPED_SHOWN:
            _logger.error("%s: %d records or batches cannot be decoded and were skipped", self.folder, self.count)


class CoordinatorLog:
    """The log of an internal partition of which this node is leader.

    Args:
        partition: the partition.
        now_ms: wall clock, for the timestamps of records.
    """

    def __init__(self, partition: Partition, now_ms: Callable[[], int]) -> None:
        self._partition = partition
        self._now_ms = now_ms

    def append(self, records: Sequence[tuple[bytes, bytes | None]], *, producer: tuple[int, int] = NO_PRODUCER) -> int:
        """Append records as one batch.

        Args:
            records: (key, value); a null value is a tombstone.
            producer: producer id and epoch of their transaction.

        Returns:
            the offset for `when_replicated`.

        Raises:
            ApiError: another node leads, the ISR is too small, the log cannot be written, or the producer is fenced.
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
        return self._partition.append_as_leader(batch).next_offset

    def _check_epoch(self, producer_id: int, epoch: int) -> None:
        newest = self._partition.producers.epoch_of(producer_id)
        if newest is not None and epoch < newest:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {newest}, which fences epoch {epoch}",
            )

    def when_replicated(self, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` when all in-sync replicas have the records before an offset; see the function below."""
        when_replicated(self._partition, next_offset, done)

    def read(self, decode: Callable[[Record], T | None]) -> Iterator[Found[T]]:
        """Return all batches of the log, oldest first. As in Kafka, undecodable records are logged and skipped.

        Args:
            decode: decodes a record; returns None for an unknown type. May raise ProtocolError, ValueError or
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
    """Call `done` when the high watermark has reached an offset; immediately if it already has.

    Args:
        partition: a partition of which this node is leader.
        next_offset: the offset after the appended records.
        done: called with NONE, or with NOT_LEADER_OR_FOLLOWER if the leader changes first.
    """
    waiting = _Waiting(partition, next_offset, done)
    partition.watch(waiting)
    waiting.readable(0)


class _Waiting:
    """A watcher that waits for the high watermark to reach an offset."""

    def __init__(self, partition: Partition, next_offset: int, done: Callable[[ErrorCode], None]) -> None:
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self._next_offset = next_offset
        self._done = done

    def readable(self, size_bytes: int) -> None:
        """Check the high watermark, which has advanced."""
        if self._partition.high_watermark >= self._next_offset:
            self._end(ErrorCode.NONE)

    def ended(self) -> None:
        """Report that the leader or its epoch has changed."""
        self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _end(self, code: ErrorCode) -> None:
        self._partition.unwatch(self)
        self._done(code)
