"""Ranges of partitions: what is fetched of them, and when everything is."""

from __future__ import annotations

from kafkaraw.core.fetch.requests import FetchLimits
from kafkaraw.core.fetch.subscription_state import FetchRange
from tests.core.fetch.test_fetcher import P0, P1, answer, asked, batch, cluster, data, fetcher


def test_nothing_is_fetched_at_or_behind_the_end_of_a_range():
    made, view = fetcher(), cluster((1, 1))
    made.subscriptions.assign_ranges({P0: FetchRange(0, 5, 1000), P1: FetchRange(2, 9)})
    (plan,) = made.plan(view, 0, [])
    request = plan.request(FetchLimits(), 17)
    assert [(each.fetch_offset, each.partition_max_bytes) for each in request.topics[0].partitions] == [
        (0, 1000),
        (2, 1_048_576),
    ]
    made.receive(plan, answer(data(0, batch(0)), data(1, batch(2))), view, 0)
    assert [each.start_offset for each in made.take()] == [0, 2]
    assert not made.subscriptions.is_all_fetched
    (plan,) = made.plan(view, 0, [])
    assert asked([plan]) == {1: [(1, 7)]}
    made.receive(plan, answer(data(1, batch(7))), view, 0)
    made.take()
    assert made.subscriptions.is_all_fetched
    assert made.plan(view, 0, []) == []


def test_an_assignment_without_ranges_is_never_all_fetched():
    made = fetcher(P0)
    assert not made.subscriptions.is_all_fetched
    made.subscriptions.assign(())
    assert not made.subscriptions.is_all_fetched


def test_a_range_is_read_anew_after_another_one_of_the_same_partition():
    made, view = fetcher(), cluster((1, 1))
    made.subscriptions.assign_ranges({P0: FetchRange(0, 5)})
    (plan,) = made.plan(view, 0, [])
    made.subscriptions.assign_ranges({P0: FetchRange(7, 9)})
    made.receive(plan, answer(data(0, batch(0))), view, 0)
    assert made.take() == []
    assert asked(made.plan(view, 0, [])) == {1: [(0, 7)]}
