"""Which files of a folder are live, and which bytes have a range of offsets."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.log.indexes import AbortedTransaction, OffsetEntry, encode_offset_index
from kafkaraw.core.log.names import FileKind, OffsetFile
from kafkaraw.core.log.read_plan import (
    AbortedOffsets,
    LogSegment,
    ReplicaEnd,
    UncheckedOffsetIndex,
    best_replica,
    cut_points,
    missing_partitions,
    pieces,
    segments_of,
)

BATCH_BYTES = 100
BATCH_OFFSETS = 10


def index_of(segment: LogSegment, every: int = 3) -> UncheckedOffsetIndex:
    """The index of a segment of batches of 100 bytes and 10 offsets, with an entry for every third one."""
    entries = [
        OffsetEntry(segment.base_offset + BATCH_OFFSETS * (number + 1) - 1, BATCH_BYTES * number)
        for number in range(every, segment.size_bytes // BATCH_BYTES, every)
    ]
    data = encode_offset_index(entries, segment.base_offset) + bytes(80)
    return UncheckedOffsetIndex(data, segment.base_offset, segment.size_bytes)


def log_of(*batches: int) -> tuple[list[LogSegment], int]:
    """Segments with these numbers of batches, and the log end offset."""
    segments, base = [], 0
    for count in batches:
        segments.append(LogSegment(base, count * BATCH_BYTES, f"{base}.log"))
        base += count * BATCH_OFFSETS
    return segments, base


def test_segments_have_their_indexes_by_path():
    names = {OffsetFile(5, kind).name: OffsetFile(5, kind).name for kind in (FileKind.LOG, FileKind.TIME_INDEX)}
    [segment] = segments_of("d/t-0", names, dict.fromkeys(names, 12))
    assert segment == LogSegment(5, 12, f"d/t-0/{5:020d}.log", "", f"d/t-0/{5:020d}.timeindex", "")


@given(
    batches=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    bounds=st.tuples(st.integers(0, 900), st.integers(0, 900)),
    parts=st.integers(100, 3000),
)
def test_parts_cover_a_range_once_and_start_at_or_before_their_first_batch(batches, bounds, parts):
    segments, log_end = log_of(*batches)
    start, end = min(*bounds, log_end), min(max(bounds), log_end)
    cuts = [start, *cut_points(segments, index_of, start, end, parts), end]
    assert cuts == sorted(set(cuts)) or start == end
    covered = []
    for low, high in pairwise(cuts):
        for piece in pieces(segments, index_of, low, high, log_end):
            covered += range(piece.start_offset, piece.end_offset)
            number = piece.position // BATCH_BYTES
            assert piece.segment.base_offset + number * BATCH_OFFSETS <= piece.start_offset
            assert piece.position % BATCH_BYTES == 0
            assert piece.position < piece.likely_end <= piece.segment.size_bytes or not piece.position
    assert covered == list(range(start, end))


def test_parts_of_a_large_segment_have_about_the_bytes_asked_for():
    segments, log_end = log_of(1000, 10, 10)
    cuts = cut_points(segments, index_of, 0, log_end, 25_000)
    assert len(cuts) == 4
    bounds = [0, *cuts]
    sizes = [high - low for low, high in zip(bounds, cuts, strict=False)]
    assert all(2400 <= size <= 2600 for size in sizes)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_index_never_changes_which_offsets_are_read(seed):
    rng = random.Random(seed)
    segments, log_end = log_of(50, 60)

    def damaged(segment: LogSegment) -> UncheckedOffsetIndex:
        return UncheckedOffsetIndex(rng.randbytes(rng.randrange(300)), segment.base_offset, segment.size_bytes)

    cuts = [10, *cut_points(segments, damaged, 10, log_end - 5, 1000), log_end - 5]
    covered = [
        offset
        for low, high in pairwise(cuts)
        for piece in pieces(segments, damaged, low, high, log_end)
        for offset in range(piece.start_offset, piece.end_offset)
        if 0 <= piece.position < piece.segment.size_bytes
    ]
    assert covered == list(range(10, log_end - 5))


def test_only_batches_within_an_aborted_transaction_of_their_producer_are_aborted():
    aborted = AbortedOffsets([AbortedTransaction(1, 10, 20, 21), AbortedTransaction(1, 40, 50, 51)])
    assert [offset for offset in range(0, 60, 5) if aborted.has(1, offset)] == [10, 15, 20, 40, 45, 50]
    assert not aborted.has(2, 15)
    assert not AbortedOffsets([])


def test_the_replica_with_the_newest_epoch_then_the_longest_log_is_read():
    assert best_replica([ReplicaEnd(3, 90, 0), ReplicaEnd(4, 50, 0), ReplicaEnd(4, 60, 9), ReplicaEnd(4, 60, 5)]) == 3
    assert best_replica([ReplicaEnd(4, 60, 5), ReplicaEnd(4, 60, 5)]) == 0


def test_partitions_below_the_largest_one_must_exist():
    assert missing_partitions([4, 1]) == [0, 2, 3]
    assert missing_partitions([]) == []
