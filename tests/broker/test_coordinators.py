"""Which node coordinates a group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaraw.broker.coordinators import PARTITIONS, coordinator_of, partition_of


def test_the_number_of_a_group_is_kafkas():
    # What Java says for Math.abs("...".hashCode()) % 50.
    assert [partition_of(name) for name in ("", "a", "my-group", "ünïcode-😀")] == [0, 47, 12, 30]
    assert partition_of("polygenelubricants") == 0  # its hash code is the smallest int, which has no absolute value


@given(st.text(), st.sets(st.integers(0, 9), min_size=1), st.data())
def test_a_group_moves_only_when_its_coordinator_stops_and_comes_back_with_it(key, nodes, data):
    first = coordinator_of(key, nodes, nodes)
    assert first in nodes
    live = data.draw(st.sets(st.sampled_from(sorted(nodes))))
    now = coordinator_of(key, nodes, live)
    assert now is None if not live else now in live
    if first in live:
        assert now == first


def test_groups_are_spread_over_the_nodes():
    found = [coordinator_of(f"group-{number}", (0, 1, 2), (0, 1, 2)) for number in range(PARTITIONS * 3)]
    assert all(found.count(node) > PARTITIONS / 2 for node in (0, 1, 2))
