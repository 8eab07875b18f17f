"""Rates over windows and token buckets, as Kafka reckons them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.quotas.rates import TokenBucket, WindowedRate, Windows

WINDOWS = Windows(11, 1000)


def test_a_young_rate_is_measured_over_all_whole_windows():
    rate = WindowedRate(WINDOWS, 0)
    rate.record(1000, 0)
    assert rate.per_second(0) == pytest.approx(100)
    assert rate.per_second(500) == pytest.approx(1000 / 10.5)


def test_the_delay_is_what_brings_the_rate_down_to_the_bound():
    rate = WindowedRate(WINDOWS, 0)
    rate.record(2000, 0)
    assert rate.delay_ms(200, 0) == 0
    assert rate.delay_ms(100, 0) == 10_000
    for second in range(1, 11):
        rate.record(1, second * 1000)
    delay_ms = rate.delay_ms(150, 10_000)
    assert delay_ms == 3400
    assert 2010 / (10_000 + delay_ms) * 1000 == pytest.approx(150)


def test_what_is_older_than_all_windows_does_not_count():
    rate = WindowedRate(WINDOWS, 0)
    rate.record(5000, 0)
    assert rate.per_second(10_999) > 0
    assert rate.per_second(11_000) == 0


def test_what_is_taken_back_does_not_count():
    rate = WindowedRate(WINDOWS, 0)
    rate.record(5000, 0)
    rate.record(-5000, 20)
    assert rate.per_second(20) == 0


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 10_000)), min_size=1, max_size=60))
def test_a_client_that_waits_the_throttle_time_gets_the_quota_and_one_burst(steps: list[tuple[int, int]]):
    """For amounts of up to a second's worth: of larger ones Kafka lets a tenth more pass."""
    now_ms, total, bound = 0, 0, 10_000
    rate = WindowedRate(WINDOWS, now_ms)
    for pause_ms, amount in steps:
        now_ms += pause_ms
        assert total <= bound * (now_ms / 1000 + 22)
        total += amount
        rate.record(amount, now_ms)
        now_ms += rate.delay_ms(bound, now_ms)


def test_a_bucket_allows_a_burst_and_then_the_rate():
    bucket = TokenBucket(WINDOWS, 0, 5)
    bucket.record(55, 5, 0)
    assert bucket.delay_ms(5, 0) == 0
    bucket.record(10, 5, 0)
    assert bucket.delay_ms(5, 0) == 2000
    assert bucket.delay_ms(5, 1500) == 500
    assert bucket.delay_ms(5, 2000) == 0
    bucket.record(5, 5, 60_000)
    assert bucket.delay_ms(5, 60_000) == 0
