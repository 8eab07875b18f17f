from __future__ import annotations

import random

import pytest

from kafkaraw.core.retry import Backoff
from kafkaraw.errors import ConfigError


class Middle:
    """No jitter."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


class Highest:
    """As much jitter as there may be."""

    def uniform(self, a: float, b: float) -> float:
        return b


def test_waits_double_up_to_the_largest() -> None:
    backoff = Backoff(100, 1000)
    assert [backoff.delay_ms(attempt, Middle()) for attempt in range(6)] == [100, 200, 400, 800, 1000, 1000]


def test_no_wait_is_longer_than_the_largest_jitter_included() -> None:
    backoff = Backoff(100, 1000)
    assert [backoff.delay_ms(attempt, Highest()) for attempt in (0, 3, 9)] == [120, 960, 1000]


def test_waits_are_spread_by_the_jitter() -> None:
    backoff, rng = Backoff(100, 1000), random.Random(1)
    waits = [backoff.delay_ms(0, rng) for _ in range(1000)]
    assert 80 <= min(waits) < 82 and 118 < max(waits) <= 120


def test_a_huge_attempt_costs_and_overflows_nothing() -> None:
    assert Backoff(100, 1000).delay_ms(10**12, Middle()) == 1000
    assert Backoff(0, 0).delay_ms(10**12, Middle()) == 0
    assert Backoff(50, 60, multiplier=1).delay_ms(10**12, Middle()) == 50


@pytest.mark.parametrize("wrong", [(-1, 5), (6, 5), (1, 5, 0.5), (1, 5, 2, 1.0), (1, 5, 2, -0.1)])
def test_values_outside_their_limits_are_refused(wrong: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError):
        Backoff(*wrong)
