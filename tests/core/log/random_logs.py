"""Logs of one partition for the cleaner, made from a seed, and a round of the cleaner on them without a broker.

`RandomLog` appends segments with the batches of several producers: random keys, tombstones, records without a key,
transactions that overlap, committed and aborted ones, epochs, gaps, empty batches, codecs and timestamp types.
`clean_folder` cleans a folder of `.log` files with the pure functions of `core.log`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafkaraw.core.log.batches import iter_batches
from kafkaraw.core.log.cleaned_transactions import CleanedTransactions
from kafkaraw.core.log.cleaner import (
    BatchCleaner,
    CleanerStats,
    CleaningRound,
    KeyIndexer,
    LastRecord,
    make_offset_map,
)
from kafkaraw.core.log.compaction import (
    CompactionSettings,
    LogToClean,
    SegmentToClean,
    groups_to_clean,
    plan_cleaning,
    segments_between,
)
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.log.names import FileKind, OffsetFile, offset_of
from kafkaraw.core.log.producer_state import ProducerState
from kafkaraw.records import ControlType, encode_batch, encode_control_batch, parse_header, patch_header
from kafkaraw.records.header import LAYOUT, emptied, stamp_crc

TIME_MS = 1_760_000_000_000
CODECS = ("none", "none", "gzip", "snappy", "lz4", "zstd")
PRODUCER_EXPIRATION_MS = 2**31 - 1
TRANSACTIONAL = (100, 101, 102)
IDEMPOTENT = (7, 8)


@dataclass
class _Producer:
    producer_id: int
    epoch: int = 0
    sequence: int = 0
    is_open: bool = False


@dataclass
class RandomLog:
    """The batches of a partition, segment by segment.

    Args:
        seed: everything follows from it.
    """

    seed: int
    segments: list[tuple[int, bytes]] = field(default_factory=list)
    """Base offset and content of each; the last one is the active one."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.offset = self.rng.choice([0, 0, 5, 1000])
        self.now_ms = TIME_MS
        self.keys = [b"key-%d" % number for number in range(self.rng.randint(1, 25))]
        self.keys += [b"", self.rng.randbytes(40)]
        self.leader_epoch = 0
        self.producers = {one: _Producer(one) for one in (*TRANSACTIONAL, *IDEMPOTENT)}
        self.codec = self.rng.choice([*CODECS, "any"])
        self.null_keys = self.rng.random() < 0.3
        self.tombstones = self.rng.choice([0.0, 0.1, 0.5])

    def append_segments(self, count: int) -> None:
        """Append segments; the last one becomes the active one."""
        for _ in range(count):
            self.segments.append(self._segment())

    def write(self, folder: Path, start: int = 0) -> None:
        """Write the segments from a number on as the `.log` files of a folder."""
        for base_offset, data in self.segments[start:]:
            (folder / OffsetFile(base_offset, FileKind.LOG).name).write_bytes(data)

    def _segment(self) -> tuple[int, bytes]:
        base_offset = self.offset
        if self.rng.random() < 0.2:
            self.leader_epoch += 1
        batches = [self._batch() for _ in range(self.rng.randint(1, 14))]
        if self.rng.random() < 0.7:  # Kafka rolls at any time: transactions may be open
            batches += [self._marker(one) for one in self.producers.values() if one.is_open]
        return base_offset, b"".join(batches)

    def _batch(self) -> bytes:
        rng = self.rng
        self.now_ms += rng.randint(0, 2_000)
        if rng.random() < 0.15:
            self.offset += rng.randint(1, 5)  # what compaction or an aborted append has left
        kind = rng.random()
        if kind < 0.45:
            return self._records(None)
        if kind < 0.6:
            return self._records(self.producers[rng.choice(IDEMPOTENT)])
        producer = self.producers[rng.choice(TRANSACTIONAL)]
        if producer.is_open and rng.random() < 0.5:
            return self._marker(producer)
        if not producer.is_open and rng.random() < 0.1:
            return self._marker(producer)  # of a transaction that wrote nothing to this partition
        producer.is_open = True
        return self._records(producer)

    def _records(self, producer: _Producer | None) -> bytes:
        rng = self.rng
        count = rng.choice([1, 1, 2, 3, 10, 70])
        records = []
        for _ in range(count):
            no_key = self.null_keys and rng.random() < 0.1
            value = None if rng.random() < self.tombstones else rng.randbytes(rng.choice([0, 3, 60]))
            headers = [("name", rng.choice([None, b"", b"x" * 70]))] * rng.choice([0, 0, 0, 1, 2])
            timestamp = self.now_ms - rng.randint(0, 10_000) if rng.random() < 0.95 else -1
            records.append((timestamp, None if no_key else rng.choice(self.keys), value, headers))
        is_transactional = producer is not None and producer.producer_id in TRANSACTIONAL
        batch = bytearray(
            encode_batch(
                records,
                codec=rng.choice(CODECS) if self.codec == "any" else self.codec,
                base_offset=self.offset,
                producer_id=-1 if producer is None else producer.producer_id,
                producer_epoch=-1 if producer is None else producer.epoch,
                base_sequence=-1 if producer is None else producer.sequence,
                transactional=is_transactional,
                partition_leader_epoch=self.leader_epoch,
            )
        )
        if producer is not None:
            producer.sequence += count
        if rng.random() < 0.1:
            patch_header(batch, max_timestamp=self.now_ms)  # LogAppendTime
        if rng.random() < 0.08:
            batch = self._with_gap(batch)
        header = parse_header(batch)
        self.offset = header.next_offset
        return emptied(header) if rng.random() < 0.04 else bytes(batch)

    def _with_gap(self, batch: bytearray) -> bytearray:
        """The last records of the batch were removed by an earlier round: its last offset is higher."""
        header = parse_header(batch)
        LAYOUT.pack_into(batch, 0, *header._replace(last_offset_delta=header.last_offset_delta + 3))
        stamp_crc(batch)
        return batch

    def _marker(self, producer: _Producer) -> bytes:
        rng = self.rng
        kind = ControlType.ABORT if rng.random() < 0.5 else ControlType.COMMIT
        if rng.random() < 0.3:  # KIP-890: the marker has the next epoch
            producer.epoch += 1
            producer.sequence = 0
        marker = encode_control_batch(
            kind,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=1,
            timestamp_ms=self.now_ms,
            base_offset=self.offset,
            partition_leader_epoch=self.leader_epoch,
        )
        producer.is_open = False
        self.offset += 1
        return marker


@dataclass(frozen=True)
class CleanSettings:
    """What a round is asked to do.

    Attributes:
        now_ms: the time.
        checkpoint: the first dirty offset; None before the first round.
        slots: of the offset map.
        segment_bytes: most bytes of a group.
        delete_retention_ms: as the topic's setting.
        lag_min_ms: `min.compaction.lag.ms`.
        load_factor: how full the map may be.
    """

    now_ms: int
    checkpoint: int | None = None
    slots: int = 1 << 12
    segment_bytes: int = 1 << 20
    delete_retention_ms: int = 60_000
    lag_min_ms: int = 0
    load_factor: float = 0.9


@dataclass(frozen=True)
class Cleaned:
    """What a round did: the plan, the next dirty offset, and the aborted transactions that each new segment kept."""

    plan: LogToClean
    next_dirty_offset: int
    aborted: Mapping[int, list[AbortedTransaction]]


def read_folder(folder: Path) -> dict[int, bytes]:
    """The segments of a folder, by base offset."""
    found = {offset_of(path.name, FileKind.LOG): path.read_bytes() for path in folder.iterdir()}
    return {base: found[base] for base in sorted(base for base in found if base is not None)}


def clean_folder(folder: Path, settings: CleanSettings) -> Cleaned:
    """Clean the `.log` files of a folder, the last of which is active, in one round."""
    data = read_folder(folder)
    producers = ProducerState()
    segments: list[SegmentToClean] = []
    aborted: dict[int, list[AbortedTransaction]] = {}
    end_offset = 0
    for base, content in data.items():
        view = memoryview(content)
        largest = -1
        aborted[base] = []
        end_offset = max(end_offset, base)
        for at, header in iter_batches(view, str(base)):
            found = producers.add(header, view[at : at + header.size])
            aborted[base] += [] if found is None else [found]
            largest = max(largest, header.max_timestamp)
            end_offset = header.next_offset
        # Without timestamps, the time of the last change of the file counts, which is not that of the seed's clock.
        segments.append(SegmentToClean(base, len(content), largest if largest >= 0 else 1 << 62))
    plan = plan_cleaning(
        segments,
        CompactionSettings(lag_min_ms=settings.lag_min_ms),
        log_start_offset=segments[0].base_offset,
        log_end_offset=end_offset,
        last_stable_offset=end_offset if producers.first_ongoing_offset is None else producers.first_ongoing_offset,
        checkpoint=settings.checkpoint,
        now_ms=settings.now_ms,
    )
    if plan.cleanable_bytes == 0:
        return Cleaned(plan, plan.first_dirty_offset, {})
    offsets = make_offset_map(settings.slots * 24, settings.load_factor, bytes(16))

    def aborted_between(start: int, end: int) -> list[AbortedTransaction]:
        every = [one for base in data for one in aborted[base]]
        return [one for one in every if one.last_offset >= start and one.first_offset < end]

    indexer = KeyIndexer(offsets, plan.first_dirty_offset, aborted_between(plan.first_dirty_offset, plan.end_offset))
    dirty = segments_between(segments, plan.first_dirty_offset, plan.end_offset)
    for at, segment in enumerate(dirty):
        view = memoryview(data[segment.base_offset])
        for position, header in iter_batches(view, "dirty"):
            indexer.add(header, view[position : position + header.size])
            if indexer.is_full:
                break
        if indexer.is_full:
            break
        indexer.end_segment(dirty[at + 1].base_offset if at + 1 < len(dirty) else plan.end_offset)
    next_dirty = offsets.latest_offset + 1
    last_records = {
        one.producer_id: LastRecord(one.last_offset if one.last_offset >= 0 else None, one.epoch)
        for one in producers.snapshots()
        if settings.now_ms - one.timestamp_ms <= PRODUCER_EXPIRATION_MS
    }
    cleaning = CleaningRound(settings.now_ms, settings.delete_retention_ms, plan.end_offset, last_records)
    cleaner = BatchCleaner(offsets, cleaning, CleanedTransactions(), CleanerStats())
    kept: dict[int, list[AbortedTransaction]] = {}
    bases = [segment.base_offset for segment in segments]
    sources = segments_between(segments, 0, next_dirty)
    for group in groups_to_clean(sources, settings.segment_bytes, 10 << 20, plan.end_offset):
        written = bytearray()
        for segment in group:
            following = bases[bases.index(segment.base_offset) + 1]
            cleaner.begin_segment(aborted_between(segment.base_offset, following), settings.now_ms)
            view = memoryview(data[segment.base_offset])
            for position, header in iter_batches(view, "source"):
                written += cleaner.clean(header, view[position : position + header.size]) or b""
        kept[group[0].base_offset] = cleaner.take_aborted()
        for segment in group:
            (folder / OffsetFile(segment.base_offset, FileKind.LOG).name).unlink()
        (folder / OffsetFile(group[0].base_offset, FileKind.LOG).name).write_bytes(written)
    return Cleaned(plan, next_dirty, kept)
