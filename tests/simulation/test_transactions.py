"""Services that make transactions, and brokers, on virtual time: readers see all of a transaction or nothing of it."""

from __future__ import annotations

from tests.simulation.lives import live, never_seen, with_pipelined_transactions, with_transactions
from tests.simulation.seeds import every_seed
from tests.simulation.services import Step

HAPPENS = (
    *(f"death in {step}" for step in Step),
    "zombie",
    "coordinators move",
    "leader moves",
    "repeated",
    "CONCURRENT_TRANSACTIONS",
    "INVALID_PRODUCER_EPOCH",
    "next epoch",
    "ProducerFencedError in a transaction",
    "TransactionAbortableError in a transaction",
    "offsets in doubt",
)
"""What these lives are for; all of it happens within a few of them."""


@every_seed("transactions", normal=12, soak=1_000)
def test_readers_see_all_of_a_transaction_or_nothing_wherever_its_producer_dies(seed: int):
    life = live(with_transactions, seed)
    assert life.violations == [], life.story
    assert life.history.transactions, "nothing happened, so nothing was tested"


@every_seed("pipelined transactions", normal=8, soak=1_000)
def test_no_transaction_fails_that_begins_with_many_requests_while_the_last_one_ends(seed: int):
    life = live(with_pipelined_transactions, seed)
    assert life.violations == [], life.story


def test_what_these_lives_are_for_happens_in_them():
    assert not never_seen(with_transactions, HAPPENS, range(12))


def test_the_same_seed_gives_the_same_bytes():
    first, second = live(with_transactions, 7), live(with_transactions, 7)
    assert first.digest == second.digest
    assert first.story == second.story
