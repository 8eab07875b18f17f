"""One round of log compaction, batch by batch, and the same in plain Python and compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw.core.log import cleaner as cleaner_module
from kafkaraw.core.log.cleaned_transactions import CleanedTransactions
from kafkaraw.core.log.cleaner import (
    BatchCleaner,
    CleanerStats,
    CleaningRound,
    KeyIndexer,
    LastRecord,
    make_offset_map,
)
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.errors import ConfigError, CorruptBatchError
from kafkaraw.records import (
    IMPLEMENTATION,
    Batch,
    BatchHeader,
    ControlType,
    batches_of,
    encode_batch,
    encode_control_batch,
    parse_header,
)
from kafkaraw.records._fallback.compaction import OffsetMap as PlainOffsetMap
from kafkaraw.records.legacy import old_header
from tests.core.log.random_logs import CleanSettings, RandomLog, clean_folder, read_folder

NOW_MS = 1_760_000_000_000
RETENTION_MS = 1_000
SEED = bytes(16)


def wire_of(*records: tuple[bytes | None, bytes | None], **fields: object) -> tuple[BatchHeader, memoryview]:
    plain = [(NOW_MS - 100, key, value, None) for key, value in records]
    wire = memoryview(encode_batch(plain, **fields))  # type: ignore[arg-type]
    return parse_header(wire), wire


def marker(kind: ControlType, offset: int, epoch: int = 0) -> tuple[BatchHeader, memoryview]:
    wire = memoryview(
        encode_control_batch(
            kind, producer_id=5, producer_epoch=epoch, coordinator_epoch=0, timestamp_ms=NOW_MS, base_offset=offset
        )
    )
    return parse_header(wire), wire


def cleaner_of(
    *batches: tuple[BatchHeader, memoryview],
    aborted: tuple[AbortedTransaction, ...] = (),
    now_ms: int = NOW_MS,
    end_offset: int = 1_000_000,
    last_records: dict[int, LastRecord] | None = None,
) -> BatchCleaner:
    offsets = make_offset_map(24_000, 0.9, SEED)
    indexer = KeyIndexer(offsets, 0, aborted)
    for header, wire in batches:
        indexer.add(header, wire)
    cleaning = CleaningRound(now_ms, RETENTION_MS, end_offset, last_records or {})
    cleaner = BatchCleaner(offsets, cleaning, CleanedTransactions(), CleanerStats())
    cleaner.begin_segment(aborted, NOW_MS)
    return cleaner


def values_of(cleaned: memoryview | bytes | bytearray | None) -> list[tuple[int, bytes | None]]:
    assert cleaned is not None
    return [(one.offset, one.value) for one in Batch("t", 0, memoryview(cleaned), start_offset=0)]


def test_a_batch_that_loses_nothing_is_the_same_object() -> None:
    header, wire = wire_of((b"a", b"1"), (b"b", b"2"))
    assert cleaner_of((header, wire)).clean(header, wire) is wire


def test_a_damaged_batch_is_refused_by_both_passes() -> None:
    header, wire = wire_of((b"a", b"1"))
    damaged = bytearray(wire)
    damaged[-2] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum of the batch at offset 0"):
        cleaner_of((header, memoryview(damaged)))
    with pytest.raises(CorruptBatchError, match="checksum of the batch at offset 0"):
        cleaner_of().clean(header, memoryview(damaged))


def test_the_last_batch_of_a_round_stays_without_records() -> None:
    first = wire_of((b"a", b"1"))
    second = wire_of((b"a", b"2"), base_offset=1)
    later = cleaner_of(first, second, end_offset=1).clean(*first)
    assert later is not None
    assert (parse_header(later).records_count, parse_header(later).next_offset) == (0, 1)
    assert cleaner_of(first, second).clean(*first) is None


def test_the_last_sequence_of_an_active_producer_stays() -> None:
    first = wire_of((b"a", b"1"), (b"a", b"2"), producer_id=5, producer_epoch=3, base_sequence=40)
    second = wire_of((b"a", b"3"), base_offset=2)
    kept = cleaner_of(first, second, last_records={5: LastRecord(1, 3)}).clean(*first)
    assert kept is not None
    header = parse_header(kept)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_offset) == (5, 3, 40, 1)
    assert cleaner_of(first, second, last_records={5: LastRecord(9, 3)}).clean(*first) is None


def test_the_marker_that_fences_a_producer_stays() -> None:
    """The producer has appended nothing since the epoch was incremented: the marker is all that has the epoch."""
    batch = marker(ControlType.COMMIT, 0, epoch=4)
    cleaner = cleaner_of(batch, now_ms=NOW_MS)
    with_horizon = cleaner.clean(*batch)
    assert with_horizon is not None
    header = parse_header(with_horizon)
    assert header.has_delete_horizon
    later = {5: LastRecord(None, 4)}
    kept = cleaner_of(now_ms=NOW_MS + RETENTION_MS, last_records=later).clean(header, memoryview(with_horizon))
    assert kept is not None
    assert parse_header(kept).records_count == 0
    assert cleaner_of(now_ms=NOW_MS + RETENTION_MS).clean(header, memoryview(with_horizon)) is None
    assert cleaner_of(now_ms=NOW_MS + RETENTION_MS - 1).clean(header, memoryview(with_horizon)) is not None


def test_aborted_records_are_removed_and_their_marker_stays() -> None:
    batch = wire_of((b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    end = marker(ControlType.ABORT, 1)
    other = wire_of((b"a", b"0"), base_offset=2)
    cleaner = cleaner_of(batch, end, other, aborted=(AbortedTransaction(5, 0, 1, 2),))
    assert cleaner.clean(*batch) is None
    assert cleaner.clean(*end) is end[1]
    assert cleaner.take_aborted() == [AbortedTransaction(5, 0, 1, 2)]
    assert cleaner.take_aborted() == []


def test_aborted_records_remove_no_others() -> None:
    plain = wire_of((b"a", b"0"))
    batch = wire_of((b"a", b"1"), base_offset=1, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    end = marker(ControlType.ABORT, 2)
    cleaner = cleaner_of(plain, batch, end, aborted=(AbortedTransaction(5, 1, 2, 3),))
    assert cleaner.clean(*plain) is plain[1]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_become_batches(magic: int) -> None:
    from tests.records.test_legacy import message

    wires = [
        memoryview(message(offset, b"v%d" % offset, key=b"k%d" % (offset % 2), magic=magic)) for offset in range(3)
    ]
    batches = [(old_header(wire, offset), wire) for offset, wire in enumerate(wires)]
    cleaner = cleaner_of(*batches)
    cleaned = [cleaner.clean(*batch) for batch in batches]
    assert cleaned[0] is None
    assert [values_of(one) for one in cleaned[1:]] == [[(1, b"v1")], [(2, b"v2")]]
    header = parse_header(cleaned[1] or b"")
    assert (header.magic, header.base_offset, header.last_offset_delta, header.attributes) == (2, 1, 0, 0)


@pytest.mark.skipif(IMPLEMENTATION == "python", reason="the compiled form is not here")
@pytest.mark.parametrize("seed", range(12))
def test_both_implementations_write_the_same_bytes(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RandomLog(seed)
    log.append_segments(5)
    for name in ("compiled", "plain"):
        (tmp_path / name).mkdir()
        log.write(tmp_path / name)
    settings = CleanSettings(log.now_ms, slots=[8, 1_000][seed % 2])
    compiled = clean_folder(tmp_path / "compiled", settings)
    monkeypatch.setattr(cleaner_module, "OffsetMap", PlainOffsetMap)
    plain = clean_folder(tmp_path / "plain", settings)
    assert compiled == plain
    assert read_folder(tmp_path / "compiled") == read_folder(tmp_path / "plain")


@pytest.mark.parametrize("seed", range(4))
def test_readers_see_the_last_value_of_each_key_after_any_rounds(seed: int, tmp_path: Path) -> None:
    log = RandomLog(seed)
    log.null_keys, log.tombstones = False, 0.2
    checkpoint = None
    every: dict[bytes | None, tuple[int, bytes | None]] = {}
    for number in range(4):
        before = len(log.segments)
        log.append_segments(3)
        log.write(tmp_path, before)
        every = last_values(b"".join(data for _, data in log.segments))
        settings = CleanSettings(log.now_ms, checkpoint, slots=[5, 50][number % 2], delete_retention_ms=5_000)
        checkpoint = clean_folder(tmp_path, settings).next_dirty_offset
        found = last_values(b"".join(read_folder(tmp_path).values()))
        assert {key: at for key, at in found.items() if at[1] is not None} == {
            key: at for key, at in every.items() if at[1] is not None
        }


def last_values(data: bytes) -> dict[bytes | None, tuple[int, bytes | None]]:
    """What a reader with read_committed sees last of each key."""
    aborted = aborted_in(data)
    found: dict[bytes | None, tuple[int, bytes | None]] = {}
    offset = -1
    for header, wire in batches_of(memoryview(data)):
        assert header.base_offset > offset
        offset = header.last_offset
        if header.is_control or any(
            header.producer_id == one.producer_id and one.first_offset <= header.base_offset < one.last_offset
            for one in aborted
        ):
            continue
        for record in Batch("t", 0, wire, start_offset=0):
            found[record.key] = (record.offset, record.value)
    return found


def aborted_in(data: bytes) -> list[AbortedTransaction]:
    from kafkaraw.core.log.producer_state import ProducerState

    state = ProducerState()
    every = [state.add(header, wire) for header, wire in batches_of(memoryview(data))]
    unfinished = [
        AbortedTransaction(one.producer_id, one.transaction_first_offset, 2**62, 2**62)
        for one in state.snapshots()
        if one.transaction_first_offset >= 0
    ]
    return [one for one in every if one is not None] + unfinished


@pytest.mark.parametrize(("memory", "load"), [(23, 0.9), (24, 0.9), (48, 0.4), (0, 0.9)])
def test_a_map_without_room_is_refused(memory: int, load: float) -> None:
    with pytest.raises(ConfigError, match=f"log.cleaner.dedupe.buffer.size={memory} has room for"):
        make_offset_map(memory, load, SEED)


def test_a_segment_is_read_beyond_its_records(tmp_path: Path) -> None:
    """A gap at the end of the dirty section does not make it dirty again."""
    log = RandomLog(1)
    log.append_segments(2)
    log.offset += 500
    log.append_segments(1)
    log.write(tmp_path)
    assert clean_folder(tmp_path, CleanSettings(log.now_ms)).next_dirty_offset in {base for base, _ in log.segments}
