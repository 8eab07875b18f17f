"""Client and broker, as they are, in one process on virtual time: what must hold whatever breaks, for every seed."""

from __future__ import annotations

from tests.simulation.lives import live, with_one_broker
from tests.simulation.seeds import every_seed


@every_seed("one broker")
def test_nothing_is_lost_doubled_reordered_or_late_whatever_breaks(seed: int):
    life = live(with_one_broker, seed)
    assert life.violations == [], life.story
    assert life.history.acknowledged, "nothing was written, so nothing was tested"


def test_the_same_seed_gives_the_same_bytes():
    first, second = live(with_one_broker, 7), live(with_one_broker, 7)
    assert first.digest == second.digest
    assert first.story == second.story
    assert first.history.acknowledged == second.history.acknowledged


def test_another_seed_gives_another_life():
    assert live(with_one_broker, 1).digest != live(with_one_broker, 2).digest
