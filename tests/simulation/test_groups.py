"""Groups of consumers and brokers on virtual time: who has what, what is processed, and where the group stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.lives import (
    live,
    never_seen,
    with_a_calm_group,
    with_a_calm_versatile_group,
    with_a_group,
    with_a_group_that_moves,
    with_a_versatile_group,
)
from tests.simulation.manners import MANNERS
from tests.simulation.seeds import every_seed

HAPPENS = {
    with_a_group: (
        "assigned",
        "revoked",
        "lost partitions",
        "unsubscribed",
        "coordinators move",
        "leader moves",
        "replies lost",
        "kill",
        "MaxPollExceededError",
        "CommitFailedError of a commit",
    ),
    with_a_versatile_group: (
        "a coordinator moved",
        "a topic grew",
        "a topic appeared",
        "subscribed to a pattern",
        "closed while it was waiting",
        "closed while a callback ran",
        *(f"read by {manner}" for manner in MANNERS),
        "sought back",
        "sought forth",
        "paused a partition",
        "had a whim about what was in hand",
        " 2 members",
        "12 members",
    ),
}
"""What these lives are for; all of it happens within a few of them."""


@every_seed("groups", normal=8, soak=1_000)
def test_every_record_is_processed_by_its_one_owner_whoever_comes_goes_or_crashes(seed: int):
    life = live(with_a_group, seed)
    assert life.violations == [], life.story
    assert life.covered["assigned"], "nobody got anything, so nothing was tested"


@every_seed("groups that move", normal=4, soak=1_000)
def test_the_same_holds_while_the_group_moves_between_the_two_protocols(seed: int):
    life = live(with_a_group_that_moves, seed)
    assert life.violations == [], life.story


@every_seed("calm groups", normal=8, soak=1_000)
def test_every_record_is_processed_exactly_once_when_all_come_and_go_in_order(seed: int):
    life = live(with_a_calm_group, seed)
    assert life.violations == [], life.story
    assert life.covered["assigned"], "nobody got anything, so nothing was tested"


@every_seed("versatile groups", normal=3, soak=1_000)
def test_the_same_holds_for_members_that_read_in_every_way_and_seek_and_pause_and_take_patterns(seed: int):
    life = live(with_a_versatile_group, seed)
    assert life.violations == [], life.story


@every_seed("calm versatile groups", normal=3, soak=1_000)
def test_what_they_process_again_they_have_sought_when_all_come_and_go_in_order(seed: int):
    life = live(with_a_calm_versatile_group, seed)
    assert life.violations == [], life.story
    assert life.covered["assigned"], "nobody got anything, so nothing was tested"


@pytest.mark.parametrize("kind", HAPPENS, ids=lambda kind: kind.__name__)
def test_what_these_lives_are_for_happens_in_them(kind: Callable):
    assert not never_seen(kind, HAPPENS[kind], range(16, 24))


def test_the_same_seed_gives_the_same_bytes():
    first, second = live(with_a_group, 7), live(with_a_group, 7)
    assert first.digest == second.digest
    assert first.story == second.story
