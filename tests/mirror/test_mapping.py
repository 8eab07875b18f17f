"""`OffsetMapping` translates offsets as a list of all copied records would, in bounded space."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw import TopicPartition
from kafkaraw.errors import ProtocolError
from kafkaraw.mirror import mapping as module
from kafkaraw.mirror.interfaces import CopiedBatch
from kafkaraw.mirror.mapping import (
    CHUNK_RUNS,
    LEVEL_CHUNKS,
    Mark,
    OffsetMapping,
    Run,
    Translation,
    mapping_key,
    of_present_copies,
    paired,
    parsed_mapping_key,
)
from kafkaraw.protocol import ZERO_UUID, Uuid

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("east.orders", 3)


def batch(settled: range, runs: list[range], target: int) -> CopiedBatch:
    return CopiedBatch(SOURCE, TARGET, settled, tuple(runs), target)


class Copy:
    """A source with gaps and its copy with gaps, and the list of all pairs that a mapping must agree with."""

    def __init__(self) -> None:
        self.mapping = OffsetMapping()
        self.pairs: list[tuple[int, int]] = []
        self.source_end = self.target_end = 0

    def copy(self, lengths: list[int], gaps: list[int], marker: int) -> None:
        start, at, runs = self.source_end, self.source_end, []
        target = self.target_end
        for length, gap in zip(lengths, gaps, strict=True):
            at += gap
            runs.append(range(at, at + length))
            self.pairs += [(at + n, self.target_end + n) for n in range(length)]
            at += length
            self.target_end += length
        self.mapping.add(batch(range(start, at + 1), runs, target))
        self.source_end = at + 1
        self.target_end += marker

    def expected(self, offset: int) -> int:
        place = bisect_left(self.pairs, (offset, -1))
        return self.pairs[place][1] if place < len(self.pairs) else self.pairs[-1][1] + 1


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    made = Copy()
    for _ in range(draw(st.integers(1, 8))):
        count = draw(st.integers(1, 3))
        lengths = draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
        gaps = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
        made.copy(lengths, gaps, draw(st.integers(0, 2)))
    return made


def same_position(made: Copy, found: Translation | None, expected: int) -> bool:
    """Whether two positions of the target are before the same record."""
    assert found is not None
    targets = [target for _, target in made.pairs]
    return found.is_exact and bisect_left(targets, found.offset) == bisect_left(targets, expected)


@given(copies())
def test_every_offset_is_translated_to_the_same_record_in_both_directions(made: Copy) -> None:
    for offset in range(made.source_end + 1):
        assert same_position(made, made.mapping.translate(offset), made.expected(offset)), offset
    for source, target in made.pairs:
        assert made.mapping.translate_back(target) == Translation(source, is_exact=True)
    is_known = made.target_end == made.mapping.target_end  # otherwise another batch may be there
    assert made.mapping.translate_back(made.target_end) == Translation(made.source_end, is_known)


@given(copies())
def test_a_mapping_that_is_written_and_read_is_the_same(made: Copy) -> None:
    written = [(number, value) for number, value in made.mapping.records() if value is not None]
    again = OffsetMapping.of_records(written)
    assert (again.runs(), again.source_end) == (made.mapping.runs(), made.mapping.source_end)
    assert made.mapping.records() == []


def test_a_mapping_without_gaps_is_one_run() -> None:
    mapping = OffsetMapping()
    for start in range(0, 1000, 10):
        mapping.add(batch(range(start, start + 10), [range(start, start + 10)], start + 7))
    assert mapping.runs() == [Run(0, 7, 1000)]
    assert mapping.target_end == 1007


def test_equal_gaps_on_both_sides_continue_a_run() -> None:
    mapping = OffsetMapping()
    mapping.add(batch(range(11), [range(10)], 0))
    mapping.add(batch(range(11, 22), [range(11, 21)], 11))
    assert mapping.runs() == [Run(0, 0, 21)]


def test_a_position_ahead_of_the_copy_is_never_translated_ahead_of_it() -> None:
    mapping = OffsetMapping()
    mapping.add(batch(range(10), [range(10)], 100))
    assert mapping.translate(10) == Translation(110, is_exact=True)
    assert mapping.translate(50) == Translation(110, is_exact=False)


def test_a_position_before_the_first_copied_record_is_known_only_if_the_copy_begins_with_it() -> None:
    mapping = OffsetMapping()
    assert mapping.translate(3) is None
    mapping.add(batch(range(50, 60), [range(50, 60)], 0))
    assert mapping.translate(3) == Translation(0, is_exact=True)
    mapping = OffsetMapping()
    mapping.add(batch(range(50, 60), [range(50, 60)], 5))
    assert mapping.translate(3) is None
    assert mapping.translate_back(4) is None


def test_a_batch_that_is_copied_again_replaces_the_first_copy() -> None:
    mapping = OffsetMapping()
    mapping.add(batch(range(10), [range(10)], 0))
    mapping.add(batch(range(10, 20), [range(10, 20)], 10))
    mapping.add(batch(range(15, 25), [range(15, 25)], 20))
    assert mapping.runs() == [Run(0, 0, 15, is_followed=False), Run(15, 20, 10)]
    assert mapping.translate(16) == Translation(21, is_exact=True)
    assert mapping.translate_back(17) == Translation(15, is_exact=False)


def test_between_batches_of_two_at_least_once_mirrors_a_translation_is_not_exact() -> None:
    mapping = OffsetMapping()
    mapping.add(batch(range(10), [range(10)], 0), may_repeat=True)
    mapping.add(batch(range(10, 20), [range(10, 20)], 14), may_repeat=True)
    assert mapping.translate_back(12) == Translation(10, is_exact=False)
    assert mapping.translate(10) == Translation(14, is_exact=True)


def test_filling_a_gap_before_a_thinned_run_does_not_close_the_gap_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaraw.mirror.mapping.CHUNK_RUNS", 2)
    monkeypatch.setattr("kafkaraw.mirror.mapping.LEVEL_CHUNKS", 1)
    mapping = OffsetMapping()
    for number in range(5, 20):
        mapping.add(batch(range(10 * number, 10 * number + 10), [range(10 * number, 10 * number + 9)], 9 * number))
    thinned = mapping.runs()[0]
    assert not thinned.is_followed
    mapping.fill_gap(range(50), range(45), [Run(40, 35, 10)])
    gap = thinned.source + thinned.length + 1
    assert mapping.runs()[0] == Run(40, 35, thinned.source + thinned.length - 40, is_followed=False)
    assert mapping.translate(gap) == Translation(thinned.target + thinned.length, is_exact=False)


def test_a_closed_chunk_without_the_next_one_does_not_know_what_that_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaraw.mirror.mapping.CHUNK_RUNS", 2)
    mapping = OffsetMapping()
    for number in range(5):
        mapping.add(batch(range(10 * number, 10 * number + 10), [range(10 * number, 10 * number + 8)], 9 * number))
    (first, value), *_ = mapping.records()
    assert value is not None
    again = OffsetMapping.of_records([(first, value)])
    assert again.source_end == 20
    again.add(batch(range(50, 60), [range(50, 58)], 45))
    assert again.translate(25) == Translation(17, is_exact=False)


def test_a_topic_that_was_created_anew_begins_a_new_mapping() -> None:
    mapping = OffsetMapping()
    mapping.add(batch(range(10), [range(10)], 0))
    mapping.add(batch(range(10, 12), [range(10, 12)], 0))
    assert mapping.runs() == [Run(10, 0, 2)]


def test_between_batches_that_are_not_known_a_translation_is_not_exact_and_not_ahead() -> None:
    mapping = OffsetMapping()
    mapping.add(batch(range(10), [range(10)], 0))
    mapping.add(batch(range(30, 40), [range(30, 40)], 30))
    assert mapping.translate(15) == Translation(10, is_exact=False)
    assert mapping.translate_back(15) == Translation(10, is_exact=False)
    assert mapping.translate(30) == Translation(30, is_exact=True)


def test_behind_a_gap_without_later_records_a_translation_is_not_exact_until_the_gap_is_mended() -> None:
    made = OffsetMapping()
    made.add(batch(range(10), [range(10)], 0))
    made.add(batch(range(30, 33), [], 22))
    assert made.translate(10) == Translation(10, is_exact=True)
    assert made.translate(20) == Translation(10, is_exact=False)
    assert made.translate_back(15) == Translation(10, is_exact=False)
    made.fill_gap(range(10, 30), range(10, 22), [Run(12, 11, 8)])
    assert made.translate(15) == Translation(14, is_exact=True)
    assert made.translate(33) == Translation(19, is_exact=True)
    assert made.translate_back(19) == Translation(33, is_exact=True)


def test_what_was_copied_before_the_mapping_began_is_mended_from_both_topics() -> None:
    made = OffsetMapping()
    made.add(batch(range(30, 40), [range(30, 40)], 22))
    assert made.translate(5) is None
    source = [Mark(offset, offset) for offset in range(10, 30)]
    runs = paired(source, [Mark(offset, offset + 8) for offset in range(1, 22)], is_first=True)
    assert runs == [Run(10, 2, 20)]
    made.fill_gap(range(30), range(22), runs)
    assert made.translate(10) == Translation(2, is_exact=True)
    assert made.translate(30) == Translation(22, is_exact=True)
    assert made.translate(9) is None


def test_what_was_copied_before_a_mapping_that_begins_without_records_is_filled_up_to_its_begin() -> None:
    """The process that copied it was killed before it wrote; the next one read markers and aborted records first."""
    mapping = OffsetMapping()
    mapping.add(batch(range(99, 129), [], 78))
    mapping.fill_gap(range(99), range(78), [Run(0, 0, 9), Run(83, 62, 15)])
    mapping.add(batch(range(129, 142), [range(129, 142)], 78))
    assert mapping.translate(98) == mapping.translate(129) == Translation(78, is_exact=True)


def test_a_gap_is_mended_with_the_records_that_both_sides_have() -> None:
    made = OffsetMapping()
    made.add(batch(range(10), [range(10)], 0))
    made.add(batch(range(30, 40), [range(30, 40)], 22))
    assert made.gap_at(15) == (range(10, 30), range(10, 22))
    assert made.gap_at(15, back=True) == (range(10, 30), range(10, 22))
    assert made.gap_at(9) is made.gap_at(30) is None
    source = [Mark(offset, n) for n, offset in enumerate((10, 11, 15, 16, 17))]
    runs = paired(source, [Mark(offset, n) for n, offset in enumerate((11, 12, 13, 14, 15))])
    assert runs == [Run(10, 11, 2), Run(15, 13, 3)]
    made.fill_gap(range(10, 30), range(10, 22), runs)
    assert made.runs() == [Run(0, 0, 10), Run(10, 11, 2), Run(15, 13, 3), Run(30, 22, 10)]
    assert made.translate(20) == Translation(22, is_exact=True)
    made.fill_gap(range(10, 30), range(10, 22), runs)
    assert len(made.runs()) == 4
    assert made.gap_at(15) is None
    assert paired(source, source[1:]) is None
    assert paired([Mark(1, "a")], [Mark(1, "b")]) is None


def test_a_mapping_is_bounded_exact_for_new_offsets_and_never_ahead_for_old_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHUNK_RUNS", 4)
    monkeypatch.setattr(module, "LEVEL_CHUNKS", 2)
    made, kept = Copy(), dict[int, bytes]()
    for turn in range(300):
        made.copy([1 + turn % 3], [0], turn % 2)
        for number, value in made.mapping.records():
            kept.pop(number, None) if value is None else kept.update({number: value})
    assert len(made.mapping.runs()) < 100
    again = OffsetMapping.of_records(kept.items())
    assert (again.runs(), again.source_end) == (made.mapping.runs(), made.mapping.source_end)
    inexact = 0
    before = -1
    for offset in range(made.source_end + 1):
        found = made.mapping.translate(offset)
        assert found is not None
        assert found.offset <= made.expected(offset)
        assert found.offset >= before
        before = found.offset
        if found.is_exact:
            assert same_position(made, found, made.expected(offset))
        inexact += not found.is_exact
    assert inexact > 0
    assert all(made.mapping.translate(offset).is_exact for offset in range(made.source_end - 20, made.source_end))  # type: ignore[union-attr]
    again.add(
        batch(
            range(made.source_end, made.source_end + 1), [range(made.source_end, made.source_end + 1)], made.target_end
        )
    )
    assert again.runs()[:-1] == made.mapping.runs()[: len(again.runs()) - 1]


def test_a_half_written_merge_of_chunks_is_read_without_the_repeated_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_RUNS", 2)
    monkeypatch.setattr(module, "LEVEL_CHUNKS", 2)
    made, kept = Copy(), dict[int, bytes]()
    for _ in range(7):
        made.copy([1], [0], 1)
        records = made.mapping.records()
        assert made.mapping.runs()
        if any(value is None for _, value in records):
            for number, value in records:
                if value is not None:
                    kept[number] = value
            break
        kept.update({number: value for number, value in records if value is not None})
    sources = [run.source for run in OffsetMapping.of_records(kept.items()).runs()]
    assert sources == sorted(set(sources))


def test_the_size_of_a_mapping_has_a_limit() -> None:
    made = OffsetMapping()
    source = target = 0
    noise = random.Random(7)
    for _ in range(40 * CHUNK_RUNS):
        length = noise.randrange(1, 2000)
        made.add(batch(range(source, source + length), [range(source, source + length)], target))
        source, target = source + length, target + length + 1
    assert len(made.runs()) <= (LEVEL_CHUNKS + 1) * CHUNK_RUNS * 2


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x00\x80", b"\x00\x00\x00\x81"])
def test_a_value_of_another_form_is_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError, match="an offset mapping"):
        OffsetMapping.of_records([(0, value)]).runs()


def test_the_key_of_a_chunk_names_partition_and_number() -> None:
    key = mapping_key(SOURCE, 9)
    assert parsed_mapping_key(key) == (SOURCE, 9)
    for wrong in (key[:-1], b"", key + b"x", b"\x00\x01" + key[2:]):
        with pytest.raises(ProtocolError, match="is not one of an offset mapping"):
            parsed_mapping_key(wrong)


def test_old_state_of_a_chunk_from_a_suspended_process_is_not_taken_as_exact() -> None:
    """Another process has taken over; the first one wakes up, and writes the chunk as it was before."""
    mapping = OffsetMapping()
    stored: dict[int, bytes | None] = {}
    for number in range(CHUNK_RUNS + 50):  # each transaction has ten records and a marker
        mapping.add(batch(range(10 * number, 10 * number + 10), [range(10 * number, 10 * number + 10)], 11 * number))
        if number == 99:
            old = mapping.records()
            mapping.changed.add(0)
    stored.update(mapping.records())
    stored.update(old)
    again = OffsetMapping.of_records((number, value) for number, value in stored.items() if value is not None)
    assert again.translate(995) == Translation(99 * 11 + 5, is_exact=True)
    found = again.translate(1500)
    assert found == Translation(99 * 11 + 10, is_exact=False)
    assert again.gap_at(1500) == (range(1000, 10 * CHUNK_RUNS), range(99 * 11 + 10, 11 * CHUNK_RUNS))
    assert again.translate(10 * CHUNK_RUNS + 5) == Translation(11 * CHUNK_RUNS + 5, is_exact=True)


def test_filling_a_gap_leaves_a_gap_where_the_run_behind_it_was_thinned_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gap is read while batches are copied: their runs close chunks, and the first one of them is thinned."""
    monkeypatch.setattr(module, "CHUNK_RUNS", 2)
    monkeypatch.setattr(module, "LEVEL_CHUNKS", 1)
    made = OffsetMapping()
    made.add(batch(range(10), [range(10)], 0))
    made.add(batch(range(20, 30), [range(20, 30)], 22))
    for number in range(3, 6):
        made.add(batch(range(10 * number, 10 * number + 10), [range(10 * number, 10 * number + 10)], 12 * number))
    assert [run.source for run in made.runs()] == [0, 30, 50]
    made.fill_gap(range(10, 20), range(10, 22), [Run(10, 11, 10)])
    assert made.translate(15) == Translation(16, is_exact=True)
    assert made.translate(25) == Translation(21, is_exact=False)
    assert made.translate_back(30) == Translation(20, is_exact=False)
    assert made.translate(30) == Translation(36, is_exact=True)


def test_a_gap_that_is_not_there_any_more_is_not_filled() -> None:
    made = OffsetMapping()
    made.add(batch(range(10), [range(10)], 0))
    made.add(batch(range(20, 30), [range(20, 30)], 22))
    before = made.runs()
    made.fill_gap(range(8, 20), range(8, 22), [Run(8, 8, 10)])
    made.fill_gap(range(10, 40), range(10, 42), [Run(10, 11, 30)])
    assert made.runs() == before
    made.add(batch(range(12, 30), [range(12, 30)], 40), may_repeat=True)  # a part of it is copied again
    before = made.runs()
    made.fill_gap(range(10, 20), range(10, 22), [Run(10, 11, 10)])
    assert made.runs() == before


def test_filling_a_gap_before_batches_without_records_leaves_the_gap_between_them() -> None:
    made = OffsetMapping()
    made.add(batch(range(10), [range(10)], 0))
    made.add(batch(range(20, 22), [], 22))
    made.add(batch(range(30, 32), [], 33))
    made.fill_gap(range(10, 20), range(10, 22), [Run(10, 11, 10)])
    assert made.translate(15) == Translation(16, is_exact=True)
    assert made.translate(25) == Translation(21, is_exact=False)


def written(*batches: CopiedBatch, may_repeat: bool = False) -> dict[int, bytes]:
    """Return the stored chunks of a process that has copied some batches."""
    mapping = OffsetMapping()
    for each in batches:
        mapping.add(each, may_repeat=may_repeat)
    return {number: value for number, value in mapping.records() if value is not None}


def test_a_gap_at_the_end_of_a_chunk_stays_if_an_older_process_has_written_the_runs_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A suspended process wakes up, and writes a chunk that the other one has deleted: its runs are in two chunks."""
    monkeypatch.setattr(module, "CHUNK_RUNS", 2)
    batches = [batch(range(10 * n, 10 * n + 10), [range(10 * n, 10 * n + 8)], 9 * n) for n in range(6)]
    suspended = written(*batches[:3])
    active = written(*batches[:2], *batches[3:])  # it was told of the third one by nobody
    for stored in ({0: suspended[0], 1: suspended[1], 2: active[1]}, {0: active[0], 1: suspended[1], 2: active[1]}):
        again = OffsetMapping.of_records(stored.items())
        assert again.translate(25) == Translation(23, is_exact=True)
        assert again.translate(29).offset <= 27  # type: ignore[union-attr]
    again = OffsetMapping.of_records({0: suspended[0], 1: active[0], 2: active[1]}.items())
    found = again.translate(25)
    assert found is not None
    assert found == Translation(17, is_exact=False)


def test_a_run_of_two_stored_chunks_is_taken_once() -> None:
    first, second = batch(range(10), [range(10)], 5), batch(range(10, 20), [range(10, 20)], 15)
    stored = {0: written(first)[0], 1: written(first, second)[0]}
    again = OffsetMapping.of_records(stored.items())
    assert again.translate(12) == Translation(17, is_exact=True)
    assert again.target_end == 25
    stored = {0: written(first, second)[0], 1: written(first)[0]}
    again = OffsetMapping.of_records(stored.items())
    assert (again.runs(), again.source_end) == ([Run(0, 5, 20)], 20)
    assert again.records() == [(1, None)]  # nothing of it is needed


def test_stored_chunks_of_two_at_least_once_mirrors_grow_on_both_sides_and_have_a_gap_between_them() -> None:
    """Two processes have copied the same records, and each one has written some of the chunks."""
    early = written(batch(range(10), [range(10)], 0), may_repeat=True)[0]
    late = written(batch(range(10, 20), [range(10, 20)], 30), may_repeat=True)[0]
    again = OffsetMapping.of_records([(0, early), (1, late)])
    assert again.translate(10) == Translation(30, is_exact=True)
    assert again.translate_back(20) == Translation(10, is_exact=False)
    late = written(batch(range(10), [range(10)], 30), may_repeat=True)[0]
    early = written(batch(range(10, 20), [range(10, 20)], 10), may_repeat=True)[0]
    again = OffsetMapping.of_records([(0, late), (1, early)])
    assert again.translate(15) == Translation(40, is_exact=False)
    assert again.translate_back(15) is None


def test_a_stored_chunk_without_runs_says_up_to_where_the_topic_is_copied_and_not_what_is_there() -> None:
    records = written(batch(range(10), [range(10)], 0))
    nothing = written(batch(range(30), [], 25))
    again = OffsetMapping.of_records([(0, records[0]), (1, nothing[0])])
    assert again.source_end == 30
    assert again.translate(20) == Translation(10, is_exact=False)
    assert OffsetMapping.of_records(nothing.items()).source_end == 30


def test_a_value_of_version_0_is_read() -> None:
    again = OffsetMapping.of_records([(0, b"\x00\x00\x0a\x00\x00\x11"), (1, b"\x00\x00\x14\x0a\x0b\x15")])
    assert again.runs() == [Run(0, 0, 8), Run(10, 11, 10)]
    assert again.source_end == 20


OLD, NEW = Uuid(b"o" * 16), Uuid(b"n" * 16)


def of_copy(copy_id: Uuid, source: range, target: int) -> CopiedBatch:
    return CopiedBatch(SOURCE, TARGET, source, (source,), target, copy_id)


def test_a_batch_of_another_copy_begins_the_mapping_anew() -> None:
    mapping = OffsetMapping()
    mapping.add(of_copy(OLD, range(10), 0))
    mapping.add(of_copy(ZERO_UUID, range(10, 12), 10))  # not known: no difference
    assert (mapping.copy_id, mapping.runs()) == (OLD, [Run(0, 0, 12)])
    mapping.add(of_copy(NEW, range(12, 15), 30))
    assert (mapping.copy_id, mapping.runs()) == (NEW, [Run(12, 30, 3)])


def test_the_records_of_a_mapping_have_the_id_of_the_copy() -> None:
    mapping = OffsetMapping()
    mapping.add(of_copy(NEW, range(10), 5))
    loaded = OffsetMapping.of_records([(number, value) for number, value in mapping.records() if value is not None])
    assert (loaded.copy_id, loaded.runs()) == (NEW, mapping.runs())


def test_chunks_of_an_earlier_copy_are_left_out_and_deleted() -> None:
    old, new = OffsetMapping(), OffsetMapping()
    old.add(of_copy(OLD, range(10), 0))
    new.add(of_copy(NEW, range(4), 7))
    ((_, earlier),), ((_, later),) = old.records(), new.records()
    assert earlier is not None and later is not None
    loaded = OffsetMapping.of_records([(1, later), (0, earlier)])
    assert (loaded.copy_id, loaded.runs(), loaded.source_end) == (NEW, [Run(0, 7, 4)], 4)
    assert loaded.records() == [(0, None)]
    loaded.add(of_copy(NEW, range(4, 6), 11))
    assert [number for number, _ in loaded.records()] == [1]


def test_values_of_earlier_versions_are_about_any_copy() -> None:
    for value, end in ((b"\0\0\5" + b"\0\0\x0b", 5), (b"\1\0\5\5" + b"\0\0\x0b", 5)):
        loaded = OffsetMapping.of_records([(0, value)])
        assert (loaded.copy_id, loaded.runs(), loaded.source_end) == (ZERO_UUID, [Run(0, 0, 5)], end)
    with pytest.raises(ProtocolError, match="within the id of its copy"):
        OffsetMapping.of_records([(0, b"\2\0\5\5" + bytes(15))])
    with pytest.raises(ProtocolError, match="has the version 03, not 2"):
        OffsetMapping.of_records([(0, b"\3\0\5\5")])


def test_mappings_of_copies_that_are_gone_or_created_again_are_not_used() -> None:
    mapping, unknown = OffsetMapping(), OffsetMapping()
    mapping.add(of_copy(OLD, range(10), 0))
    unknown.add(of_copy(ZERO_UUID, range(10), 0))

    def used(ids: dict[str, Uuid], each: OffsetMapping) -> bool:
        return of_present_copies({SOURCE: each}, "east.{}".format, ids) == {SOURCE: each}

    assert used({"east.orders": OLD}, mapping)
    assert used({"east.orders": ZERO_UUID}, mapping)
    assert used({"east.orders": NEW}, unknown)
    assert not used({"east.orders": NEW}, mapping)
    assert not used({"orders": OLD}, mapping)
