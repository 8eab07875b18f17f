"""The sparse indexes of a segment: look-ups, truncation, damaged files, and which aborted transactions a read needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.log.damage import DamagedFileError
from kafkaraw.core.log.indexes import AbortedTransaction, OffsetEntry, TimeEntry
from kafkaraw.core.log.segment_indexes import OffsetIndex, TimeIndex, aborted_between

BASE = 100


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(BASE)
    for offset, position in entries:
        index.append(offset, position)
    return index


def test_lookup_returns_the_position_of_the_last_entry_that_is_not_behind_the_offset():
    index = offset_index((110, 5000), (120, 10_000))
    assert [index.lookup(offset) for offset in (100, 109, 110, 119, 120, 5000)] == [0, 0, 5000, 5000, 10_000, 10_000]
    assert [index.lookup_position(at) for at in (0, 4999, 5000, 9999, 10_000)] == [0, 0, 5000, 5000, 10_000]
    assert (index.first_at(5001), index.first_at(10_001)) == (OffsetEntry(120, 10_000), None)
    assert (index.offset_of_row(-3), index.offset_of_row(1)) == (BASE, 120)


def test_an_empty_index_leads_to_the_start_of_the_segment():
    assert (OffsetIndex(BASE).lookup(500), OffsetIndex(BASE).last) == (0, OffsetEntry(BASE, 0))
    assert (TimeIndex(BASE).lookup(500), TimeIndex(BASE).last) == (BASE, TimeEntry(-1, BASE))


def test_the_time_index_grows_only_with_the_largest_timestamp():
    index = TimeIndex(BASE)
    assert [index.append(*entry) for entry in ((50, 110), (50, 120), (40, 130), (60, 140))] == [
        True,
        False,
        False,
        True,
    ]
    assert [index.lookup(timestamp) for timestamp in (49, 50, 59, 60, 99)] == [BASE, 110, 110, 140, 140]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9000)), max_size=40), st.integers(0, 3000))
def test_truncation_leaves_the_entries_below_the_offset(steps: list[tuple[int, int]], offset: int):
    entries, at = [], (BASE, 0)
    for more, size in steps:
        at = at[0] + more, at[1] + size
        entries.append(at)
    index, times = offset_index(*entries), TimeIndex(BASE)
    for each, position in entries:
        times.append(position, each)
    kept = [entry for entry in entries if entry[0] < BASE + offset]
    changes = len(kept) < len(entries)
    assert (index.truncate_to(BASE + offset), times.truncate_to(BASE + offset)) == (changes, changes)
    assert (bytes(index.loaded()), len(times)) == (bytes(offset_index(*kept).loaded()), len(kept))


def test_zeros_behind_the_last_entry_are_not_entries():
    index = offset_index((110, 5000))
    assert len(OffsetIndex(BASE, bytes(index.loaded()) + bytes(80))) == 1
    times = TimeIndex(BASE)
    times.append(7, 110)
    assert len(TimeIndex(BASE, bytes(times.loaded()) + bytes(120))) == 1


def test_a_lone_entry_of_timestamp_zero_is_an_entry():
    times = TimeIndex(BASE)
    times.append(0, BASE)
    assert TimeIndex(BASE, bytes(times.loaded())).last == TimeEntry(0, BASE)


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_half_an_entry_or_one_below_the_base_offset_is_damage(kind: type[OffsetIndex] | type[TimeIndex]):
    with pytest.raises(DamagedFileError, match=r"0\.index: byte 0: 5 bytes are behind the last whole entry"):
        kind(BASE, b"12345", "0.index")
    with pytest.raises(DamagedFileError, match="below the base offset 100"):
        kind(BASE, b"\xff" * 24, "0.index")


def test_a_read_needs_the_aborted_transactions_that_overlap_it():
    entries = [AbortedTransaction(1, 0, 4, 2), AbortedTransaction(3, 6, 7, 8), AbortedTransaction(4, 9, 12, 13)]
    assert aborted_between(entries, 5, 7) == ([entries[1]], True)
    assert aborted_between(entries, 5, 8) == ([entries[1]], True)
    assert aborted_between(entries, 5, 13) == (entries[1:], True)
    assert aborted_between(entries, 5, 14) == (entries[1:], False)
