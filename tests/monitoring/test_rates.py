"""Rates between two snapshots, computed by hand beside."""

from __future__ import annotations

import pytest

from kafkaraw import TopicPartition
from kafkaraw.monitoring import Part, Snapshot, Timeline, byte_rates, commit_rates, record_rates
from tests.monitoring.snapshots import directory, group, snapshot

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def sized(at_ms: int, sizes: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> Snapshot:
    return snapshot(at_ms, ends, log_dirs={1: (directory(sizes),)})


def test_records_per_second_are_the_growth_of_the_ends() -> None:
    before, after = snapshot(10_000, {A0: 5, A1: 0, B0: 7}), snapshot(12_000, {A0: 25, A1: 0, B0: 8})
    assert record_rates(before, after) == {A0: 10, A1: 0, B0: 0.5}


def test_a_partition_that_is_new_has_no_rate() -> None:
    assert record_rates(snapshot(0, {A0: 5}), snapshot(1000, {A0: 6, A1: 100})) == {A0: 1}


def test_a_topic_that_was_created_again_has_no_rate() -> None:
    before, after = snapshot(0, {A0: 5, B0: 1}), snapshot(1000, {A0: 8, B0: 2}, topic_ids={"a": 77})
    assert record_rates(before, after) == {B0: 1}


def test_an_end_that_went_back_is_no_negative_rate() -> None:
    assert record_rates(snapshot(0, {A0: 50}), snapshot(1000, {A0: 40})) == {A0: 0}


@pytest.mark.parametrize("at_ms", [1000, 500])
def test_a_clock_that_stands_or_goes_back_makes_no_rates(at_ms: int) -> None:
    before, after = snapshot(1000, {A0: 5}), snapshot(at_ms, {A0: 9})
    assert record_rates(before, after) == {}
    assert byte_rates(sized(1000, {A0: 5}, {A0: 5}), sized(at_ms, {A0: 9}, {A0: 9})) == {}


def test_bytes_per_second_are_the_growth_of_the_leaders_logs() -> None:
    before, after = sized(0, {A0: 1000, B0: 10}, {A0: 10, B0: 1}), sized(2000, {A0: 3000, B0: 10}, {A0: 30, B0: 1})
    assert byte_rates(before, after) == {A0: 1000, B0: 0}


def test_bytes_of_a_log_that_lost_segments_are_estimated_from_its_records() -> None:
    before, after = sized(0, {A0: 1000}, {A0: 100}), sized(1000, {A0: 600}, {A0: 120})
    records = record_rates(before, after)
    assert records == {A0: 20}
    assert byte_rates(before, after) == {A0: 0}
    assert byte_rates(before, after, records) == {A0: 20 * 600 / 120}


def test_snapshots_without_sizes_have_no_byte_rates() -> None:
    assert byte_rates(snapshot(0, {A0: 1}), sized(1000, {A0: 600}, {A0: 2})) == {}


def test_offsets_per_second_are_those_that_a_group_commits() -> None:
    before = snapshot(0, {A0: 100, A1: 100}, groups=[group("g", {A0: 10, A1: 50})])
    after = snapshot(4000, {A0: 100, A1: 100}, groups=[group("g", {A0: 30, A1: 40}), group("new", {A0: 1})])
    assert commit_rates(before, after) == {"g": {A0: 5, A1: -2.5}}


def test_a_part_that_was_not_asked_for_is_as_old_as_it_says() -> None:
    timeline = Timeline()
    timeline.add(sized(0, {A0: 1000}, {A0: 10}))
    timeline.add(snapshot(1000, {A0: 20}))
    status = timeline.status()
    assert status is not None
    assert status.topics[0].size_bytes == 1000
    assert status.topics[0].records_per_s == 10
    assert status.snapshot.part_times_ms == {Part.SIZES: 0}
    timeline.add(sized(2000, {A0: 5000}, {A0: 30}))
    status = timeline.status()
    assert status is not None
    assert status.topics[0].bytes_per_s == 2000, "4,000 bytes in the two seconds since sizes were asked for"
