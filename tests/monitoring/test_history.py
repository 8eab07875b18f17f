"""The ages of offsets, from ends of partitions that were observed, and from records that were looked up."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw import TopicPartition
from kafkaraw.monitoring.history import FIRST_RECORD_S, PRECISION, PRECISION_MIN_S, SAMPLES_MAX, TRIES_MAX, EndHistory

PARTITION = TopicPartition("orders", 0)


def history(*samples: tuple[float, int]) -> EndHistory:
    made = EndHistory()
    for now_s, end in samples:
        made.add(now_s, {PARTITION: end})
    return made


@pytest.mark.parametrize(
    ("committed", "lag_s"),
    [
        (200, 0),  # at the end
        (210, 0),  # committed after the end was asked for
        (150, 15),  # written half-way between the second and the third sample
        (100, 20),  # the next record came right after the second sample
        (50, 25),
        (5, 30),  # before the first sample: at least as old as that
    ],
)
def test_the_age_of_an_offset_is_estimated_from_earlier_ends(committed: int, lag_s: float) -> None:
    seen = history((0, 10), (10, 100), (20, 200))
    assert seen.lag_s(PARTITION, committed, 30) == pytest.approx(lag_s, abs=0.6)


def test_a_partition_that_nothing_is_written_to_keeps_two_samples_of_its_end() -> None:
    seen = history((0, 0), *((float(second), 10) for second in range(1, 1000)))
    assert seen.lag_s(PARTITION, 0, 1000) == pytest.approx(1000)
    assert seen.lag_s(PARTITION, 9, 1000) == pytest.approx(999.1, abs=0.1)


def test_samples_are_bounded_and_reach_back_to_the_first() -> None:
    seen = history(*((float(second), second) for second in range(10 * SAMPLES_MAX)))
    assert seen.samples_of(PARTITION) <= SAMPLES_MAX
    assert seen.lag_s(PARTITION, 5, 640) == pytest.approx(635, abs=20)


def test_a_topic_that_was_made_anew_has_no_old_samples() -> None:
    assert history((0, 1000), (10, 5)).lag_s(PARTITION, 2, 20) == 10


def test_partitions_that_are_gone_are_forgotten() -> None:
    seen = history((0, 1000))
    seen.add(1, {})
    assert seen.lag_s(PARTITION, 2, 20) is None


class Log:
    """A partition whose records were written at known times; it answers lookups as a broker does."""

    def __init__(self, times_s: list[float], start: int = 0) -> None:
        self.times_s = sorted(times_s)
        self.start = start

    @property
    def end(self) -> int:
        return len(self.times_s)

    def look_up(self, seen: EndHistory, at_s: float) -> None:
        offset = max(self.start, bisect_left(self.times_s, at_s))
        if offset < self.end:
            seen.found(PARTITION, at_s, offset, self.times_s[offset])
        else:
            seen.found(PARTITION, at_s, self.end, None)

    def age_of(self, offset: int, now_s: float) -> float:
        return now_s - self.times_s[max(offset, self.start)]


def looked_up(log: Log, offset: int, now_s: float) -> tuple[EndHistory, int]:
    """A history that began now, after all lookups that it wants, and their number."""
    seen, tries = EndHistory(), 0
    seen.add(now_s, {PARTITION: log.end})
    while (at_s := seen.next_lookup(PARTITION, max(offset, log.start), now_s)) is not None:
        log.look_up(seen, at_s)
        tries += 1
    return seen, tries


def test_the_first_lookup_asks_for_the_first_record() -> None:
    log = Log([100.0, 200.0, 300.0])
    seen = history((1000, 3))
    assert seen.next_lookup(PARTITION, 0, 1000) == FIRST_RECORD_S
    log.look_up(seen, FIRST_RECORD_S)
    assert seen.age(PARTITION, 0, 1000) == (900, False)
    assert seen.next_lookup(PARTITION, 0, 1000) is None, "the age of the first record is known exactly"


def test_records_that_were_deleted_count_as_old_as_the_first_one_that_is_left() -> None:
    log = Log([float(second) for second in range(1000)], start=400)
    seen = history((1000, log.end))
    log.look_up(seen, FIRST_RECORD_S)
    assert seen.age(PARTITION, 10, 1000) == (600, False)


def test_what_was_written_since_the_first_observation_is_not_looked_up() -> None:
    seen = history((10, 100), (20, 200))
    assert seen.next_lookup(PARTITION, 150, 20) is None
    assert seen.next_lookup(PARTITION, 200, 20) is None, "nothing is behind the end"
    assert seen.next_lookup(TopicPartition("other", 0), 150, 20) is None


@given(
    st.lists(st.floats(0, 700_000), min_size=1, max_size=300),
    st.floats(0.5, 100_000),
    st.data(),
)
def test_lookups_find_the_age_of_a_record_within_the_precision_or_the_number_of_tries(
    times_s: list[float], quiet_s: float, data: st.DataObject
) -> None:
    log = Log([1_000_000 + round(each, 3) for each in times_s])
    now_s = log.times_s[-1] + quiet_s
    offset = data.draw(st.integers(0, log.end - 1))
    seen, tries = looked_up(log, offset, now_s)
    found = seen.age(PARTITION, offset, now_s)
    assert found is not None and not found.is_at_least
    assert tries <= TRIES_MAX
    if tries < TRIES_MAX:
        true_s = log.age_of(offset, now_s)
        assert abs(found.seconds - true_s) <= max(PRECISION_MIN_S, PRECISION * max(true_s, found.seconds)) + 0.01


@pytest.mark.parametrize(("count", "period_s", "few"), [(100_000, 1.0, 4), (100_000, 60.0, 4), (1_000, 0.01, 7)])
def test_a_partition_that_was_written_evenly_needs_few_lookups(count: int, period_s: float, few: int) -> None:
    log = Log([1_000_000 + number * period_s for number in range(count)])
    now_s = log.times_s[-1] + 1
    for offset in (0, count // 2, count - 2):
        seen, tries = looked_up(log, offset, now_s)
        assert tries <= few
        found = seen.age(PARTITION, offset, now_s)
        assert found is not None
        assert found.seconds == pytest.approx(log.age_of(offset, now_s), rel=PRECISION, abs=PRECISION_MIN_S)


def test_a_group_that_goes_on_is_looked_up_again() -> None:
    log = Log([1_000_000 + second**2 for second in range(1000)])
    now_s = log.times_s[-1] + 1
    seen, _ = looked_up(log, 900, now_s)
    while (at_s := seen.next_lookup(PARTITION, 100, now_s)) is not None:
        log.look_up(seen, at_s)
    found = seen.age(PARTITION, 100, now_s)
    assert found is not None
    assert found.seconds == pytest.approx(log.age_of(100, now_s), rel=PRECISION)


def test_timestamps_of_the_future_leave_an_age_that_is_at_least() -> None:
    log = Log([5000.0, 6000.0])
    seen, tries = looked_up(log, 0, 1000)
    assert tries == TRIES_MAX
    assert seen.age(PARTITION, 0, 1000) == (0, True)
