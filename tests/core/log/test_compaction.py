"""Which log the cleaner cleans, up to where, and how its segments are grouped."""

from __future__ import annotations

import pytest

from kafkaraw.core.log.compaction import (
    CompactionSettings,
    LogToClean,
    SegmentToClean,
    dirtiest,
    groups_to_clean,
    plan_cleaning,
    segments_between,
)

NOW_MS = 1_760_000_000_000
SETTINGS = CompactionSettings()
SEGMENTS = [SegmentToClean(base, 1_000, NOW_MS - 5_000 + base, NOW_MS - 9_000 + base) for base in (0, 100, 200, 300)]


def plan(
    settings: CompactionSettings = SETTINGS,
    *,
    start: int = 0,
    end: int = 350,
    stable: int = 350,
    checkpoint: int | None = None,
) -> LogToClean:
    return plan_cleaning(
        SEGMENTS,
        settings,
        log_start_offset=start,
        log_end_offset=end,
        last_stable_offset=stable,
        checkpoint=checkpoint,
        now_ms=NOW_MS,
    )


def test_a_log_that_was_never_cleaned_is_dirty_up_to_the_active_segment() -> None:
    found = plan()
    assert (found.first_dirty_offset, found.end_offset) == (0, 300)
    assert (found.clean_bytes, found.cleanable_bytes, found.dirty_ratio) == (0, 3_000, 1.0)


def test_the_segment_with_the_last_stable_offset_is_not_cleaned() -> None:
    assert plan(stable=250).end_offset == 200
    assert plan(stable=200).end_offset == 200
    assert plan(stable=5).cleanable_bytes == 0


def test_the_checkpoint_divides_clean_from_dirty() -> None:
    found = plan(checkpoint=200)
    assert (found.first_dirty_offset, found.clean_bytes, found.cleanable_bytes) == (200, 2_000, 1_000)
    assert found.dirty_ratio == pytest.approx(1 / 3)
    # A segment that is partly dirty counts on both sides, as in Kafka.
    within = plan(checkpoint=150)
    assert (within.clean_bytes, within.cleanable_bytes) == (2_000, 2_000)


def test_a_log_that_is_clean_up_to_the_active_segment_has_nothing_to_clean() -> None:
    for checkpoint in (300, 320, 350):
        found = plan(checkpoint=checkpoint)
        assert (found.end_offset, found.cleanable_bytes, found.is_overdue) == (300, 0, False)


@pytest.mark.parametrize(
    ("checkpoint", "problem"),
    [
        (50, "the checkpointed offset 50 is not in the log: the log starts at 100"),
        (351, "the checkpointed offset 351 is not in the log: the log ends at 350"),
    ],
)
def test_a_checkpoint_outside_of_the_log_is_replaced(checkpoint: int, problem: str) -> None:
    found = plan(start=100, checkpoint=checkpoint)
    assert (found.first_dirty_offset, found.checkpoint_problem) == (100, problem)
    assert plan(start=100, checkpoint=100).checkpoint_problem == ""


def test_segments_with_young_records_are_not_cleaned() -> None:
    """The largest timestamp counts: those of the segments are 5,000, 4,900 and 4,800 ms ago."""
    assert plan(CompactionSettings(lag_min_ms=4_850)).end_offset == 200
    assert plan(CompactionSettings(lag_min_ms=4_801)).end_offset == 200
    assert plan(CompactionSettings(lag_min_ms=4_800)).end_offset == 300
    assert plan(CompactionSettings(lag_min_ms=4_901)).end_offset == 100
    assert plan(CompactionSettings(lag_min_ms=60_000)).cleanable_bytes == 0


def test_a_log_is_due_when_more_than_the_ratio_is_dirty_or_it_waits_too_long() -> None:
    third = plan(checkpoint=200)
    assert not third.is_due(SETTINGS)
    assert third.is_due(CompactionSettings(dirty_ratio_min=0.33))
    assert not plan(checkpoint=150).is_due(SETTINGS)  # one half: not more than that
    # The first dirty batch is 8,800 ms old.
    for lag_max_ms, is_due in ((8_801, False), (8_800, False), (8_799, True)):
        settings = CompactionSettings(lag_max_ms=lag_max_ms)
        assert plan(settings, checkpoint=200).is_due(settings) is is_due
    settings = CompactionSettings(lag_max_ms=1)
    assert not plan(settings, checkpoint=320).is_due(settings)


def test_the_dirtiest_log_that_is_due_comes_first() -> None:
    def of(clean: int, dirty: int, *, is_overdue: bool = False) -> LogToClean:
        return LogToClean(0, 10, clean, dirty, is_overdue)

    def choice(*logs: LogToClean) -> int | None:
        return dirtiest([(log, SETTINGS) for log in logs])

    assert choice(of(10, 9), of(1, 8), of(1, 9), of(0, 0)) == 2
    assert choice(of(10, 9), of(10, 10)) is None
    assert choice(of(10, 1, is_overdue=True), of(10, 2)) == 0
    assert choice(of(10, 0, is_overdue=True)) is None
    assert choice() is None


def test_segments_between_are_those_that_may_hold_the_offsets() -> None:
    def bases(start: int, end: int) -> list[int]:
        return [one.base_offset for one in segments_between(SEGMENTS, start, end)]

    assert bases(0, 100) == [0]
    assert bases(50, 101) == [0, 100]
    assert bases(-1, 1 << 62) == [0, 100, 200, 300]
    assert bases(350, 360) == [300]
    assert bases(100, 100) == []


def sizes(*segments: SegmentToClean, segment_bytes: int = 100, index_bytes: int = 100, end: int = 10_000) -> list[int]:
    return [len(group) for group in groups_to_clean(segments, segment_bytes, index_bytes, end)]


def test_segments_are_grouped_up_to_the_size_of_a_segment() -> None:
    log = [SegmentToClean(base, size) for base, size in enumerate((60, 40, 1, 99, 100, 0, 200, 0))]
    assert sizes(*log) == [2, 2, 2, 1, 1]
    assert sizes(*log, segment_bytes=10_000) == [8]
    assert sizes() == []


def test_segments_are_grouped_up_to_the_size_of_an_index() -> None:
    log = [SegmentToClean(base, 1, offset_index_bytes=40, time_index_bytes=10) for base in range(5)]
    assert sizes(*log) == [2, 2, 1]
    log = [SegmentToClean(base, 1, offset_index_bytes=10, time_index_bytes=60) for base in range(3)]
    assert sizes(*log) == [1, 1, 1]


def test_the_offsets_of_a_group_fit_an_index_entry() -> None:
    far = 2**31
    assert sizes(SegmentToClean(0, 1), SegmentToClean(far - 1, 1), end=far) == [2]
    assert sizes(SegmentToClean(0, 1), SegmentToClean(far - 1, 1), end=far + 1) == [1, 1]
    assert sizes(SegmentToClean(0, 1), SegmentToClean(10, 1), SegmentToClean(far, 1), end=far + 1) == [2, 1]
    # Segments without batches are no reason to begin another group.
    assert sizes(SegmentToClean(0, 1), SegmentToClean(far, 0), end=far * 2) == [2]
