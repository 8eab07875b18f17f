"""Retention decides as UnifiedLog.deleteOldSegments: by log start offset, size and time, from the head of the log."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.core.log.retention import Expired, Reason, Retention, expired_segments

NOW_MS = 1_000_000
FOR_EVER = Retention(True, -1, -1)
START, SIZE, TIME = Reason.LOG_START_OFFSET, Reason.SIZE, Reason.TIME


class Segment(NamedTuple):
    base_offset: int
    size_bytes: int = 100
    largest_timestamp_ms: int = NOW_MS - 500


def four(*ages_ms: int, sizes: tuple[int, ...] = (100, 100, 100, 100)) -> list[Segment]:
    """Segments of 10 offsets each."""
    ages = ages_ms or (400, 300, 200, 100)
    return [Segment(at * 10, size, NOW_MS - age) for at, (size, age) in enumerate(zip(sizes, ages, strict=True))]


def expired(
    segments: list[Segment], retention: Retention, *, start: int = 0, end: int = 40, high_watermark: int | None = None
) -> Expired:
    return expired_segments(
        segments,
        retention,
        now_ms=NOW_MS,
        log_start_offset=start,
        log_end_offset=end,
        high_watermark=end if high_watermark is None else high_watermark,
    )


def test_without_limits_nothing_is_deleted():
    assert expired(four(), FOR_EVER) == Expired()


@pytest.mark.parametrize(("time_ms", "count"), [(400, 0), (399, 1), (250, 2), (100, 3)])
def test_segments_older_than_retention_ms_by_their_largest_timestamp_are_deleted(time_ms: int, count: int):
    assert expired(four(), FOR_EVER._replace(time_ms=time_ms)) == Expired((TIME,) * count)


def test_the_active_segment_is_rolled_before_it_is_deleted():
    assert expired(four(), FOR_EVER._replace(time_ms=99)) == Expired((TIME,) * 4, rolls=True)
    assert expired(four(), FOR_EVER._replace(size_bytes=0)) == Expired((SIZE,) * 4, rolls=True)


def test_an_empty_active_segment_is_never_deleted():
    segments = four(sizes=(100, 100, 100, 0))
    assert expired(segments, FOR_EVER._replace(time_ms=0), end=30) == Expired((TIME,) * 3)
    assert expired([Segment(0, 0, NOW_MS - 900)], FOR_EVER._replace(time_ms=0, size_bytes=0), end=0) == Expired()


def test_only_the_head_of_the_log_is_deleted():
    assert expired(four(100, 400, 400, 400), FOR_EVER._replace(time_ms=200)) == Expired()


def test_a_timestamp_in_the_future_keeps_a_segment_and_is_reported():
    assert expired(four(-5, 400, 400, 400), FOR_EVER._replace(time_ms=0)) == Expired(future=(0,))


@pytest.mark.parametrize(("size_bytes", "count"), [(301, 0), (300, 1), (201, 1), (200, 2), (0, 4)])
def test_a_segment_goes_if_what_is_left_still_has_retention_bytes(size_bytes: int, count: int):
    assert expired(four(), FOR_EVER._replace(size_bytes=size_bytes)).reasons == (SIZE,) * count


@pytest.mark.parametrize(("high_watermark", "count"), [(0, 0), (9, 0), (10, 1), (25, 2), (39, 3), (40, 4)])
def test_no_segment_with_offsets_at_or_above_the_high_watermark_is_deleted(high_watermark: int, count: int):
    for retention in (FOR_EVER._replace(time_ms=0), FOR_EVER._replace(size_bytes=0)):
        assert len(expired(four(), retention, high_watermark=high_watermark).reasons) == count


@pytest.mark.parametrize(("start", "count"), [(0, 0), (9, 0), (10, 1), (39, 3), (40, 3)])
def test_segments_below_the_log_start_offset_are_deleted_but_never_the_active_one(start: int, count: int):
    for deletes in (True, False):
        assert expired(four(), Retention(deletes, -1, -1), start=start) == Expired((START,) * count)


def test_a_compacted_topic_keeps_its_records_whatever_their_age_and_size():
    assert expired(four(), Retention(False, 0, 0)) == Expired()


def test_start_offset_then_size_then_time_each_from_where_the_one_before_ended():
    found = expired(four(), Retention(True, 150, 250), start=10)
    assert found == Expired((START, SIZE, TIME)[:1] + (TIME,) * 2)
    assert expired(four(), Retention(True, 150, 200), start=10) == Expired((START, SIZE, TIME))


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 50), st.integers(-50, 200)), min_size=1, max_size=8),
    st.integers(-1, 200),
    st.integers(-1, 300),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_the_log_start_never_passes_the_high_watermark(
    rows: list[tuple[int, int, int]], time_ms: int, size_bytes: int, watermark_at: float, start_at: float
):
    segments, offset = [], 0
    for count, size, age in rows:
        segments.append(Segment(offset, size, NOW_MS - age))
        offset += count
    high_watermark = round(offset * watermark_at)
    start = round(high_watermark * start_at)
    found = expired(
        segments, Retention(True, time_ms, size_bytes), start=start, end=offset, high_watermark=high_watermark
    )
    bounds = [*(segment.base_offset for segment in segments[1:]), offset]
    assert all(bound <= high_watermark for bound in bounds[: len(found.reasons)])
    assert found.rolls == (len(found.reasons) == len(segments))
    assert list(found.reasons) == sorted(found.reasons, key=list(Reason).index)
