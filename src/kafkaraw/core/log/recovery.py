"""Recovery of one segment: which batches are valid, and the index files that belong to them.

`recover_segment` (in one piece) and `SegmentRecovery` (part by part) do what Kafka does with every segment that may
have been written after the last sync: they verify all batches, end the segment before the first invalid one, and
rebuild the indexes, the producer state and the leader epochs. The broker and the tools write the result, or compare it
with what lies on disk. It differs from Kafka in one rule: a batch whose base offset is not above that of its
predecessor ends the segment, where Kafka empties the segment.

Source: org.apache.kafka.storage.internals.log.{LogSegment.recover, LogLoader}.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.core.log.batches import REMEDY, is_valid, iter_batches, problem_of
from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import RELATIVE_OFFSET_MAX, AbortedTransaction, OffsetEntry, TimeEntry
from kafkaraw.core.log.leader_epochs import LeaderEpochs
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.errors import CorruptBatchError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.records import BatchHeader
from kafkaraw.records.header import HEADER_SIZE, MAGIC

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's default of `index.interval.bytes`."""
NO_TIMESTAMP: Final = -1


@dataclass(slots=True)
class Segment:
    """What is known of a segment after its batches were read.

    Attributes:
        base_offset: the offset in its name.
        size_bytes: bytes of the log file.
        valid_bytes: bytes before the first invalid batch.
        next_offset: offset after the last valid batch.
        batches: valid batches.
        max_timestamp_ms: the highest timestamp; -1 if there is none.
        max_timestamp_offset: last offset of the first batch that has it.
        positions: position of each batch -> its last offset.
        offset_index: entries that Kafka's recovery writes.
        time_index: as `offset_index`.
        transactions: aborted transactions whose markers are in the segment.
        max_timestamps: last offset of each batch that raised the highest timestamp -> that timestamp.
        damage: the first invalid batch; None if all are valid.
        lost: offsets of whole batches behind the damage, as (first, last), as far as they can be found.
    """

    base_offset: int
    size_bytes: int
    next_offset: int
    valid_bytes: int = 0
    batches: int = 0
    max_timestamp_ms: int = NO_TIMESTAMP
    max_timestamp_offset: int = -1
    positions: dict[int, int] = field(default_factory=dict)
    offset_index: list[OffsetEntry] = field(default_factory=list)
    time_index: list[TimeEntry] = field(default_factory=list)
    transactions: list[AbortedTransaction] = field(default_factory=list)
    max_timestamps: dict[int, int] = field(default_factory=dict)
    damage: DamagedFileError | None = None
    lost: tuple[int, int] | None = None


class SegmentRecovery:
    """Reads a segment as Kafka's recovery does, part by part.

    Args:
        file: name of the log file, for errors.
        base_offset: the offset in its name.
        size_bytes: bytes of the log file.
        producers: the state at the start of the segment; after the last part, at the end of its valid batches.
        epochs: gets the leader epochs of the batches that are newer than those it has.
        index_interval_bytes: bytes of batches between two entries of an index.
        keeps_batches: keep `positions` and `max_timestamps`, an entry per batch.

    Attributes:
        segment: what is known of the segment so far.
    """

    def __init__(
        self,
        file: str,
        base_offset: int,
        size_bytes: int,
        producers: ProducerState,
        epochs: LeaderEpochs,
        *,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
        keeps_batches: bool = True,
    ) -> None:
        self.segment: Segment = Segment(base_offset, size_bytes, base_offset)
        self._file = file
        self._producers = producers
        self._epochs = epochs
        self._index_interval_bytes = index_interval_bytes
        self._keeps_batches = keeps_batches
        self._indexed_position = 0

    def add(self, data: memoryview) -> int:
        """Read the batches of the next part.

        Args:
            data: the bytes of the file from `segment.valid_bytes` on; a batch that is cut short at their end is left.

        Returns:
            the bytes of the valid batches that were read. The rest belongs to the next part, unless
            `segment.damage` is set or the file ends with `data`.
        """
        segment, start = self.segment, self.segment.valid_bytes
        try:
            for at, header in iter_batches(data, self._file):
                problem = problem_of(data, at, header, segment.next_offset)
                if not problem and header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
                    base = segment.base_offset
                    problem = f"last offset {header.last_offset} is too far above the segment's base offset {base}"
                if problem:
                    raise DamagedFileError(self._file, start + at, problem, REMEDY)
                self._follow(data, at, header)
        except CorruptBatchError as error:
            segment.damage = DamagedFileError(self._file, segment.valid_bytes, str(error), REMEDY)
        except DamagedFileError as error:
            segment.damage = DamagedFileError(self._file, segment.valid_bytes, error.problem, REMEDY)
        return segment.valid_bytes - start

    def finish(self) -> Segment:
        """Return what is known of the segment, after its last part."""
        segment = self.segment
        if segment.damage is None and segment.valid_bytes < segment.size_bytes:
            problem = f"{segment.size_bytes - segment.valid_bytes} bytes are no whole batch"
            segment.damage = DamagedFileError(self._file, segment.valid_bytes, problem, REMEDY)
        _add_time_entry(segment)
        return segment

    def _follow(self, data: memoryview, at: int, header: BatchHeader) -> None:
        segment, position = self.segment, self.segment.valid_bytes
        if header.producer_id >= 0:
            aborted = self._producers.add(header, data[at : at + header.size])
            if aborted is not None:
                segment.transactions.append(aborted)
        if header.max_timestamp > segment.max_timestamp_ms:
            segment.max_timestamp_ms, segment.max_timestamp_offset = header.max_timestamp, header.last_offset
            if self._keeps_batches:
                segment.max_timestamps[header.last_offset] = header.max_timestamp
        if self._keeps_batches:
            segment.positions[position] = header.last_offset
        segment.batches += 1
        segment.valid_bytes = position + header.size
        segment.next_offset = header.next_offset
        if position - self._indexed_position > self._index_interval_bytes:
            segment.offset_index.append(OffsetEntry(header.last_offset, position))
            _add_time_entry(segment)
            self._indexed_position = position
        if header.partition_leader_epoch > self._epochs.latest:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)


def recover_segment(
    data: memoryview,
    file: str,
    base_offset: int,
    producers: ProducerState,
    epochs: LeaderEpochs,
    *,
    index_interval_bytes: int = INDEX_INTERVAL_BYTES,
) -> Segment:
    """Read a whole segment as Kafka's recovery does; arguments as for `SegmentRecovery`.

    Args:
        data: the bytes of the log file.
        file: its name, for errors.
        base_offset: the offset in its name.
        producers: the state at the start of the segment; at the return, at the end of its valid batches.
        epochs: gets the leader epochs of the batches that are newer than those it has.
        index_interval_bytes: bytes of batches between two entries of an index.
    """
    recovery = SegmentRecovery(
        file, base_offset, len(data), producers, epochs, index_interval_bytes=index_interval_bytes
    )
    recovery.add(data)
    segment = recovery.finish()
    if segment.damage is not None:
        segment.lost = _offsets_behind(data, file, segment)
    return segment


def _add_time_entry(segment: Segment) -> None:
    last = segment.time_index[-1].timestamp_ms if segment.time_index else NO_TIMESTAMP
    if segment.max_timestamp_ms > last:
        segment.time_index.append(TimeEntry(segment.max_timestamp_ms, segment.max_timestamp_offset))


def _offsets_behind(data: memoryview, file: str, segment: Segment) -> tuple[int, int] | None:
    """Return the first and the last offset of the batches that a truncation loses; None if no header can be read."""
    first = last = None
    try:
        for at, header in iter_batches(data, file, segment.valid_bytes):
            if header.magic != MAGIC or header.size < HEADER_SIZE or header.base_offset < segment.next_offset:
                continue
            if not is_valid(data, at, header) and first is not None:
                continue
            first = segment.next_offset if first is None else first
            last = max(last or 0, header.last_offset)
    except DamagedFileError:
        pass
    return None if first is None or last is None else (first, last)
