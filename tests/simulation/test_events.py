"""Each scenario of `scenarios.py` produces its events, and the same seed produces the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.rotation import rotating
from tests.simulation.read_methods import READ_METHODS
from tests.simulation.scenarios import (
    run_scenario,
    with_failing_disk,
    with_failure_reports,
    with_group,
    with_many_senders,
    with_mirror,
    with_one_broker,
    with_seeking_group,
    with_several_brokers,
    with_share_group,
    with_share_workers,
    with_short_closes,
    with_transactions,
    with_workers,
)
from tests.simulation.transactional_services import Step

EVENTS = {
    with_many_senders: (
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
    ),
    with_transactions: (
        *(f"crash in {step}" for step in Step),
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
    ),
    with_short_closes: (
        "by hand closed",
        "subscribed closed",
        "hasty closed",
        "records to commit",
        "disconnected",
    ),
    with_failing_disk: (
        "crash in append",
        "crash in sync",
        "crash in a recovery",
        "a log directory failed",
        "recovered a partition",
    ),
    with_failure_reports: (
        "flush raised",
        "close raised",
        "commit raised",
        "callback raised SystemExit",
        "sender broken",
        "read interrupted",
    ),
    with_group: (
        "assigned",
        "revoked",
        "lost partitions",
        "unsubscribed",
        "coordinators move",
        "leader moves",
        "responses lost",
        "kill",
        "MaxPollExceededError",
        "CommitFailedError of a commit",
    ),
    with_seeking_group: (
        "a coordinator moved",
        "a partition was added",
        "a topic was created",
        "subscribed to a pattern",
        "closed in a poll",
        "closed in a callback",
        *(f"read by {method}" for method in READ_METHODS),
        "sought back",
        "sought forward",
        "paused a partition",
        "seek or pause with undelivered records",
        " 2 members",
        "12 members",
    ),
    with_workers: (
        "a worker was killed",
        "a worker stopped gracefully",
        "a handler was cancelled",
        "handlers ran at the same time",
        "handled again",
        "copies in the retry topic",
        "dead letters",
    ),
    with_share_workers: (
        "a worker was killed",
        "a worker stopped gracefully",
        "handlers ran at the same time",
        "handled again",
        "copies in the retry topic",
        "dead letters",
    ),
    with_share_group: (
        "a member was killed",
        "a member vanished",
        "an application failed",
        "closed with a short timeout",
        "woken up",
        "unsubscribed",
        "ACCEPT",
        "RELEASE",
        "REJECT",
        "RENEW",
        "confirmed",
        "delivered again",
        "BrokerError of an answer",
        "NetworkError of an answer",
        "a coordinator moved",
        "leader moves",
        "restarted with records left",
        *(f"read by {method}" for method in READ_METHODS),
    ),
    with_mirror: (
        "a mirror was killed",
        "a mirror was replaced",
        "a mirror stopped gracefully",
        "a mirror began a session again",
        "FlowTakenOverError ended a mirror",
        "the topic grew",
        "zombie",
        "leader moves",
        "coordinators move",
    ),
}
"""Events for which a scenario is made; each occurs within a few seeds."""

SEEDS = {
    with_many_senders: (54, 3, 11, *range(12)),
    with_transactions: (9, 2, 11, *range(12)),
    with_short_closes: range(8),
    with_failing_disk: (8, 3, *range(12)),
    with_failure_reports: range(8),
    with_group: (18, 21, *range(16, 24)),
    with_seeking_group: (1, 22, *range(16, 24)),
    with_workers: range(8),
    with_share_workers: range(8),
    with_share_group: (417, 402, 407, *range(12)),
    with_mirror: (6, 2, *range(1, 13)),
}
"""Seeds within which the events occur. First those that have most of them, to save time: a change of the program shifts
what a seed does."""


@pytest.mark.parametrize("scenario", rotating(EVENTS, 2), ids=lambda scenario: scenario.__name__)
def test_the_events_for_which_a_scenario_is_made_occur(scenario: Callable):
    covered: Counter[str] = Counter()
    for seed in dict.fromkeys(SEEDS[scenario]):
        covered.update(run_scenario(scenario, seed).covered)
        missing = [event for event in EVENTS[scenario] if not covered[event]]
        if not missing:
            return
    assert not missing


# Seeds whose runs are short.
@pytest.mark.parametrize(
    ("scenario", "seed"),
    rotating(
        [
            (with_one_broker, 3),
            (with_several_brokers, 2),
            (with_many_senders, 13),
            (with_transactions, 1),
            (with_group, 5),
            (with_mirror, 2),
        ],
        1,
    ),
    ids=lambda it: it.__name__ if callable(it) else "",
)
def test_the_same_seed_produces_the_same_bytes(scenario: Callable, seed: int):
    first, second = run_scenario(scenario, seed), run_scenario(scenario, seed)
    assert first.digest == second.digest
    assert first.log == second.log
    assert first.history.acknowledged == second.history.acknowledged
    assert first.history.final == second.history.final


def test_another_seed_produces_other_bytes():
    assert run_scenario(with_one_broker, 1).digest != run_scenario(with_one_broker, 2).digest
