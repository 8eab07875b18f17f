"""Calls that answer for many records tell of every one that is not in the log, for every seed."""

from __future__ import annotations

from tests.simulation.lives import live, never_seen, with_reports
from tests.simulation.seeds import every_seed

HAPPENS = ("flush raised", "close raised", "commit raised", "left in a callback", "broken", "reading interrupted")
"""What these lives are for; all of it happens within a few of them."""


@every_seed("reports", normal=6)
def test_what_returned_without_an_error_is_in_the_log_and_what_is_not_there_was_reported(seed: int):
    life = live(with_reports, seed)
    assert life.violations == [], life.story
    assert life.history.reports.vouched and life.history.reports.committed


def test_what_these_lives_are_for_happens_in_them():
    assert not never_seen(with_reports, HAPPENS, range(8))
