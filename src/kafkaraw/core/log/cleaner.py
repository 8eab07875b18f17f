"""One round of log compaction: the offset map of the dirty section, then what each batch becomes.

    1. `KeyIndexer` reads the batches from the first dirty offset on, until the map is full or the section ends.
    2. `BatchCleaner` reads the batches of all segments up to there, and says for each: as it is, rewritten, without
       records, or removed.

Offsets never change. A batch that is rewritten keeps its base offset and last offset, its producer's fields, its leader
epoch and its codec. A record survives if the map has no later offset for its key; a tombstone, as long as the delete
horizon of its batch is not reached (KIP-534). Batches of aborted transactions lose their records; markers survive until
their transaction has no batch any more, and then until a delete horizon. An empty batch remains where it holds the last
sequence of an active producer, or the last offset of the round.

Nothing here reads a file or a clock. Which log is cleaned, and how its segments are grouped: `compaction`. The work per
record is in `records.compaction`. Each batch is verified with its checksum, so that no damage gets a new checksum.

Source: org.apache.kafka.storage.internals.log.Cleaner, MemoryRecords.filterTo, KIP-534.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafkaraw.core.log.cleaned_transactions import CleanedTransactions
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import NamedTuple, dataclass
from kafkaraw.records import HEADER_SIZE, BatchHeader, codec_by_id, modern, unpack_header, verify_crc
from kafkaraw.records.compaction import OffsetMap, Retained
from kafkaraw.records.header import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LAYOUT,
    LENGTH_PREFIX_SIZE,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    stamp_crc,
)
from kafkaraw.records.varint import encode_varint, read_raw_varint

BYTES_PER_KEY: Final = 24
_KEYS_MAX: Final = 2**31 - 1
_KEPT_BITS: Final = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


def make_offset_map(dedupe_buffer_bytes: int, load_factor: float, seed: bytes) -> OffsetMap:
    """Return an empty map.

    Args:
        dedupe_buffer_bytes: `log.cleaner.dedupe.buffer.size`: the most memory that it uses.
        load_factor: `log.cleaner.io.buffer.load.factor`: the share of it that may have keys.
        seed: 16 random bytes.

    Raises:
        ConfigError: the map would have no room for two keys.
    """
    slots = dedupe_buffer_bytes // BYTES_PER_KEY
    keys_max = min(int(slots * load_factor), slots - 1, _KEYS_MAX)  # as many as Kafka's map of this size
    if keys_max < 1 or slots * load_factor <= 1:
        raise ConfigError(
            f"log.cleaner.dedupe.buffer.size={dedupe_buffer_bytes} has room for {slots} keys, of which "
            f"log.cleaner.io.buffer.load.factor={load_factor} allows {max(keys_max, 0)}; increase one of them"
        )
    return OffsetMap(keys_max, seed)


@dataclass(slots=True)
class CleanerStats:
    """Counts of one round.

    Attributes:
        indexed_bytes: read for the offset map.
        read_bytes: read while cleaning.
        written_bytes: of what survives.
        read_batches: batches read while cleaning.
        copied_batches: batches that were copied as they are.
        retained_records: records that survive, in the batches that were looked into.
        invalid_records: records that were removed because they have no key.
    """

    indexed_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    read_batches: int = 0
    copied_batches: int = 0
    retained_records: int = 0
    invalid_records: int = 0


class KeyIndexer:
    """Builds the offset map from the batches of the dirty section, in their order.

    Args:
        offsets: the map; it is cleared.
        start_offset: the first dirty offset.
        aborted: the aborted transactions of the dirty section.

    Attributes:
        is_full: whether the map is full: what follows is cleaned in another round.
    """

    def __init__(self, offsets: OffsetMap, start_offset: int, aborted: Iterable[AbortedTransaction]) -> None:
        offsets.clear()
        self.is_full: bool = False
        self._offsets = offsets
        self._start_offset = start_offset
        self._transactions = CleanedTransactions()
        self._transactions.add_aborted(aborted)

    def add(self, header: BatchHeader, wire: memoryview) -> None:
        """Add one batch; batches before the first dirty offset are allowed. None may follow when the map is full.

        Raises:
            CorruptBatchError: the batch is damaged.
            BatchTooLargeError: it is too large when decompressed.
        """
        wire, header = _verified(header, wire)
        if header.is_control:
            self._transactions.on_marker(header, wire)
        elif not self._transactions.on_batch(header) and not self._offsets.add_batch(wire, header, self._start_offset):
            self.is_full = True
            return
        if header.last_offset >= self._start_offset:
            self._offsets.latest_offset = header.last_offset

    def end_segment(self, next_base_offset: int) -> None:
        """Record that a segment has been read to its end, and where the next one begins: there may be a gap."""
        self._offsets.latest_offset = next_base_offset - 1


class LastRecord(NamedTuple):
    """Where an active producer stands.

    Attributes:
        last_data_offset: offset of its last record; None if it has appended none with its epoch.
        epoch: its epoch.
    """

    last_data_offset: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class CleaningRound:
    """What holds for all batches of one round.

    Attributes:
        now_ms: when it began.
        delete_retention_ms: `delete.retention.ms`.
        end_offset: the first offset that could not be cleaned when it began; the batch before it is kept, also without
            records.
        last_records: the active producers, by id.
        legacy_horizon_ms: segments that were modified later keep the tombstones in messages of magic 0 and 1.
    """

    now_ms: int
    delete_retention_ms: int
    end_offset: int
    last_records: Mapping[int, LastRecord]
    legacy_horizon_ms: int = 0


class BatchCleaner:
    """Cleans the batches of all segments up to the end of the offset map, in their order.

    Args:
        offsets: the complete map.
        cleaning_round: the round.
        transactions: the state of transactions, shared by the segments of a round.
        stats: counts; updated.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        cleaning_round: CleaningRound,
        transactions: CleanedTransactions,
        stats: CleanerStats,
    ) -> None:
        self._offsets = offsets
        self._round = cleaning_round
        self._transactions = transactions
        self._stats = stats
        self._aborted: list[AbortedTransaction] = []
        self._keeps_legacy_tombstones = True

    def begin_segment(self, aborted: Iterable[AbortedTransaction], last_modified_ms: int) -> None:
        """Begin with the next source segment.

        Args:
            aborted: the aborted transactions that reach into it.
            last_modified_ms: when its file was changed last.
        """
        self._transactions.add_aborted(aborted)
        self._keeps_legacy_tombstones = last_modified_ms > self._round.legacy_horizon_ms

    def take_aborted(self) -> list[AbortedTransaction]:
        """Return the transactions to append to the transaction index of the cleaned segment, once each."""
        taken, self._aborted = self._aborted, []
        return taken

    def clean(self, header: BatchHeader, wire: memoryview) -> memoryview | bytes | bytearray | None:
        """Return what a batch becomes; None if it is removed.

        Raises:
            CorruptBatchError: the batch is damaged.
            BatchTooLargeError: it is too large when decompressed.
        """
        self._stats.read_batches += 1
        self._stats.read_bytes += len(wire)
        cleaned = self._clean(header, wire)
        if cleaned is not None:
            self._stats.written_bytes += len(cleaned)
        return cleaned

    def _clean(self, header: BatchHeader, wire: memoryview) -> memoryview | bytes | bytearray | None:
        old, (wire, header) = header, _verified(header, wire)
        horizon = header.base_timestamp if header.has_delete_horizon else None
        if header.is_control:
            discards, aborted = self._transactions.on_marker(header, wire)
            if aborted is not None:
                self._aborted.append(aborted)
            if not discards:
                return self._copy(header, wire)
            discards = horizon is not None and horizon <= self._round.now_ms
        else:
            discards = self._transactions.on_batch(header)
        if discards:
            return self._without_records(header)
        if old.magic < MAGIC:
            keeps_tombstones = self._keeps_legacy_tombstones
        else:
            keeps_tombstones = horizon is None or self._round.now_ms < horizon
        retained = self._offsets.retain(
            wire,
            header,
            everything=header.is_control,
            tombstones=keeps_tombstones,
            horizon_ms=self._round.now_ms + self._round.delete_retention_ms if horizon is None else -1,
        )
        self._stats.invalid_records += retained.without_key
        if not retained.records_count:
            return self._without_records(header)
        if old.magic < MAGIC:
            return self._modernized(old, header, wire, retained)
        if retained.batch is None:
            return self._copy(header, wire)
        return self._rewritten(header, retained, retained.batch)

    def _copy(self, header: BatchHeader, wire: memoryview) -> memoryview:
        self._stats.copied_batches += 1
        self._stats.retained_records += header.records_count
        return wire

    def _rewritten(self, header: BatchHeader, retained: Retained, batch: bytearray) -> bytearray:
        """Return the batch with the records that are retained, compressed as it was."""
        self._stats.retained_records += retained.records_count
        codec_id = header.attributes & CODEC_MASK
        if codec_id:
            compressed = codec_by_id(codec_id).compress(memoryview(batch)[HEADER_SIZE:], None)
            batch = bytearray(HEADER_SIZE)
            batch += compressed
        attributes = header.attributes & _KEPT_BITS | codec_id
        if header.has_delete_horizon or retained.sets_horizon:
            attributes |= DELETE_HORIZON_BIT
        cleaned = header._replace(
            batch_length=len(batch) - LENGTH_PREFIX_SIZE,
            magic=MAGIC,
            attributes=attributes,
            base_timestamp=retained.base_timestamp,
            max_timestamp=header.max_timestamp if attributes & TIMESTAMP_TYPE_BIT else retained.max_timestamp,
            records_count=retained.records_count,
        )
        LAYOUT.pack_into(batch, 0, *cleaned)
        stamp_crc(batch)
        return batch

    def _modernized(self, old: BatchHeader, header: BatchHeader, wire: memoryview, retained: Retained) -> bytearray:
        """Return messages of magic 0 or 1 as a batch of magic 2: it begins and ends with a record that is retained."""
        batch = bytearray(wire) if retained.batch is None else retained.batch
        if retained.batch is None:
            retained = retained._replace(base_timestamp=header.base_timestamp, max_timestamp=header.max_timestamp)
        first, last = _renumber(batch, retained.records_count)
        header = header._replace(
            base_offset=header.base_offset + first,
            last_offset_delta=last - first,
            attributes=header.attributes & ~CODEC_MASK | old.codec_id,
        )
        return self._rewritten(header, retained, batch)

    def _without_records(self, header: BatchHeader) -> bytes | None:
        """Return an empty batch if it is needed: for the last sequence of a producer, or the end of the round."""
        if not self._is_last_of_producer(header) and header.next_offset != self._round.end_offset:
            return None
        batch = bytearray(
            LAYOUT.pack(
                *header._replace(
                    batch_length=HEADER_SIZE - LENGTH_PREFIX_SIZE,
                    attributes=header.attributes & _KEPT_BITS,
                    base_timestamp=NO_TIMESTAMP,
                    records_count=0,
                )
            )
        )
        stamp_crc(batch)
        return bytes(batch)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._round.last_records.get(header.producer_id)
        if last is None or header.producer_id < 0:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch


def _verified(header: BatchHeader, wire: memoryview) -> tuple[memoryview, BatchHeader]:
    """Verify a batch; messages of magic 0 and 1 are returned as a batch of magic 2, not compressed.

    Raises:
        CorruptBatchError: it is damaged.
    """
    if header.magic >= MAGIC:
        verify_crc(wire)
        return wire, header
    converted = modern(wire)
    return converted, unpack_header(converted)


def _renumber(batch: bytearray, count: int) -> tuple[int, int]:
    """Make the offset deltas of records, behind room for a header, begin at 0; return the first and last of before.

    Only old messages need it, so that it is plain Python.
    """
    data = bytes(memoryview(batch)[HEADER_SIZE:])
    first = last = -1
    at = 0
    written = bytearray()
    for _ in range(count):
        size, at = read_raw_varint(data, at)
        end = at + (size >> 1)
        _, delta_at = read_raw_varint(data, at + 1)  # behind the attributes: the timestamp
        delta, rest_at = read_raw_varint(data, delta_at)
        last = delta >> 1
        first = last if first < 0 else first
        content = data[at:delta_at] + encode_varint(last - first) + data[rest_at:end]
        written += encode_varint(len(content)) + content
        at = end
    batch[HEADER_SIZE:] = written
    return first, last
