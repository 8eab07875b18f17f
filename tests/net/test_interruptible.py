"""Waiting in slices: what is asked of the wait, with a clock that the waits themselves move on."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from kafkaraw.net import interruptible
from kafkaraw.net.interruptible import SLICE_S, wait_interruptibly


class Waits:
    """Something to wait for that is over after so many seconds; notes how long each wait was to be."""

    def __init__(self, over_after: float) -> None:
        self.now = 1000.0
        self.slices: list[float] = []
        self._over_at = self.now + over_after

    def __call__(self, seconds: float) -> bool:
        self.slices.append(seconds)
        self.now = min(self.now + seconds, max(self._over_at, self.now))
        return self.now >= self._over_at


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Waits]:
    def make(over_after: float) -> Waits:
        waits = Waits(over_after)
        monkeypatch.setattr(interruptible, "monotonic", lambda: waits.now)
        return waits

    return make


@pytest.mark.parametrize("timeout", [None, 0.0, 0.5, 3600.0, math.inf])
def test_what_is_over_is_asked_for_once(waits: Callable[[float], Waits], timeout: float | None) -> None:
    over = waits(0.0)
    assert wait_interruptibly(over, timeout)
    assert len(over.slices) == 1


@pytest.mark.parametrize("timeout", [0.0, 0.25, SLICE_S, 1.5, 2 * SLICE_S, 30.125])
def test_a_timeout_is_kept_exactly(waits: Callable[[float], Waits], timeout: float) -> None:
    never = waits(math.inf)
    assert not wait_interruptibly(never, timeout)
    assert never.now == 1000.0 + timeout
    assert max(never.slices) <= SLICE_S


@pytest.mark.parametrize("timeout", [None, 60.0, math.inf])
def test_a_long_wait_is_over_when_it_is_over(waits: Callable[[float], Waits], timeout: float | None) -> None:
    late = waits(7.5)
    assert wait_interruptibly(late, timeout)
    assert late.now == 1007.5
    assert max(late.slices) <= SLICE_S


def test_a_negative_timeout_asks_only(waits: Callable[[float], Waits]) -> None:
    never = waits(math.inf)
    assert not wait_interruptibly(never, -1)  # not for ever, as with a lock
    assert never.slices == [0.0]
