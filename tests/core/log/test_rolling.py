"""When a log starts a new segment: size, age, full indexes, offsets that do not fit."""

from __future__ import annotations

import pytest

from kafkaraw.core.log.rolling import SegmentSettings, jitter_ms, should_roll

SETTINGS = SegmentSettings(segment_bytes=1000, segment_ms=500, segment_index_bytes=100)
AT_REST = {
    "size_bytes": 900,
    "batch_bytes": 100,
    "waited_ms": 500,
    "jitter_ms": 0,
    "relative_offset": 2**31 - 1,
    "offset_entries": 11,
    "time_entries": 6,
}


@pytest.mark.parametrize(
    "change",
    [
        {"batch_bytes": 101},
        {"waited_ms": 501},
        {"jitter_ms": 1},
        {"relative_offset": 2**31},
        {"offset_entries": 12},  # of 8 bytes each
        {"time_entries": 7},  # of 12 bytes each; the eighth is for the end of the segment
    ],
    ids=str,
)
def test_each_limit_rolls_the_segment_when_it_is_exceeded(change: dict[str, int]):
    assert not should_roll(SETTINGS, **AT_REST)
    assert should_roll(SETTINGS, **AT_REST | change)


def test_the_defaults_are_kafkas():
    assert SegmentSettings().segment_bytes == 1 << 30
    assert SegmentSettings().segment_index_bytes == 10 << 20
    assert SegmentSettings().index_interval_bytes == 4096


def test_jitter_differs_between_segments_and_stays_below_its_bound():
    settings = SegmentSettings(segment_ms=1000, segment_jitter_ms=400)
    found = {jitter_ms(settings, f"t-{number}", 0) for number in range(100)}
    assert len(found) > 50
    assert max(found) < 400
    assert jitter_ms(settings, "t-0", 0) == jitter_ms(settings, "t-0", 0)
    assert jitter_ms(SegmentSettings(segment_ms=1000), "t-0", 0) == 0
