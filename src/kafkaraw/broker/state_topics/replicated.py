"""A partition in which a coordinator of this node keeps its state: appended to, and waited for until it cannot be lost.

Used by the coordinators of transactions and of groups. What the records mean is theirs.
Source: org.apache.kafka.coordinator.common.runtime.{PartitionWriter, CoordinatorLoader}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.refusal import Refusal
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


class Found(NamedTuple):
    """One batch of the log.

    Attributes:
        control: what a marker says; None for a batch with records.
        records: the records; none for a marker.
    """

    header: BatchHeader
    control: ControlType | None
    records: Sequence[Record]


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

    def batches(self) -> Iterator[Found]:
        """Everything that the log holds, oldest first.

        Raises:
            ProtocolError: a batch makes no sense.
        """
        log = self._partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            for header, wire in iter_headers(memoryview(log.copy(offset, _READ_BYTES))):
                if header.is_control:
                    yield Found(header, control_type_of(wire), ())
                else:
                    yield Found(header, None, tuple(Batch("", 0, wire, start_offset=offset)))
                offset = header.next_offset


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
