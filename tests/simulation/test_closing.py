"""Clients that are closed with little time, while brokers go down: closing ends in time, for every seed."""

from __future__ import annotations

from tests.simulation.lives import live, never_seen, with_hasty_closes
from tests.simulation.seeds import every_seed

HAPPENS = ("by hand closed", "subscribed closed", "hasty closed", "records to commit", "out of touch")
"""What these lives are for; all of it happens within a few of them."""


@every_seed("hasty closes", normal=6)
def test_close_returns_within_its_timeout_plus_the_stated_bound(seed: int):
    life = live(with_hasty_closes, seed)
    assert life.violations == [], life.story
    assert any(call.is_close for call in life.history.calls), "nothing was closed, so nothing was tested"


def test_what_these_lives_are_for_happens_in_them():
    assert not never_seen(with_hasty_closes, HAPPENS, range(8))
