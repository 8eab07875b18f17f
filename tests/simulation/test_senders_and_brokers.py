"""Senders of every kind and brokers on virtual time: what must hold of each record, and of each partition's order."""

from __future__ import annotations

from tests.simulation.lives import live, never_seen, with_many_senders
from tests.simulation.seeds import every_seed

HAPPENS = (
    "several requests in flight",
    "sent again",
    "next epoch",
    "lost",
    "leader moves",
    "repeated",
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "MESSAGE_TOO_LARGE",
)
"""What these lives are for; all of it happens within a few of them."""


@every_seed("senders", normal=12, soak=1_000)
def test_every_record_is_where_its_sender_was_told_and_in_its_order_whatever_breaks(seed: int):
    life = live(with_many_senders, seed)
    assert life.violations == [], life.story
    assert life.history.sent, "nothing was sent, so nothing was tested"


def test_what_these_lives_are_for_happens_in_them():
    assert not never_seen(with_many_senders, HAPPENS, range(12))


def test_the_same_seed_gives_the_same_bytes():
    first, second = live(with_many_senders, 7), live(with_many_senders, 7)
    assert first.digest == second.digest
    assert first.story == second.story
