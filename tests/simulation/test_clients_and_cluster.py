"""Clients and a cluster of brokers on virtual time: what must hold while leaders move, nodes fail and followers lag."""

from __future__ import annotations

from tests.simulation.lives import live, with_several_brokers, with_unclean_elections
from tests.simulation.seeds import every_seed


@every_seed("several brokers")
def test_nothing_that_was_acknowledged_by_all_in_sync_is_lost_whatever_breaks(seed: int):
    life = live(with_several_brokers, seed)
    assert life.violations == [], life.story
    assert life.history.acknowledged, "nothing was written, so nothing was tested"


@every_seed("unclean elections", normal=8, soak=150)
def test_unclean_elections_lose_records_but_double_none_and_leave_nobody_waiting(seed: int):
    life = live(with_unclean_elections, seed)
    assert life.violations == [], life.story


def test_the_same_seed_gives_the_same_bytes():
    first, second = live(with_several_brokers, 7), live(with_several_brokers, 7)
    assert first.digest == second.digest
    assert first.story == second.story
    assert first.history.final == second.history.final
