"""Where replicas go: every rule of the placement, over any cluster."""

from __future__ import annotations

from collections import Counter

from hypothesis import assume, given
from hypothesis import strategies as st

from kafkaraw.broker.topics.replica_placement import place_replicas

clusters = st.dictionaries(st.integers(0, 20), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9)


@given(clusters, st.data())
def test_replicas_are_different_nodes_and_the_leader_runs(racks: dict[int, str | None], data: st.DataObject):
    live = data.draw(st.sets(st.sampled_from(sorted(racks)), min_size=1))
    factor = data.draw(st.integers(1, len(racks)))
    placed = place_replicas(racks, live, partitions=5, factor=factor, start=data.draw(st.integers(0, 100)))
    assert len(placed) == 5
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= racks.keys()
        assert replicas[0] in live


@given(clusters, st.integers(0, 100))
def test_no_rack_has_two_replicas_while_another_has_none(racks: dict[int, str | None], start: int):
    names = {rack or "" for rack in racks.values()}
    (replicas,) = place_replicas(racks, racks, partitions=1, factor=min(len(names), len(racks)), start=start)
    assert len({racks[node] or "" for node in replicas}) == len(replicas)


@given(st.integers(1, 7), st.integers(0, 50))
def test_without_racks_every_node_leads_and_holds_the_same_number(nodes: int, start: int):
    factor = min(3, nodes)
    placed = place_replicas(dict.fromkeys(range(nodes)), range(nodes), partitions=2 * nodes, factor=factor, start=start)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {2}
    assert set(Counter(node for replicas in placed for node in replicas).values()) == {2 * factor}


@given(clusters, st.data())
def test_nodes_that_do_not_run_are_taken_last_within_their_rack(racks: dict[int, str | None], data: st.DataObject):
    live = data.draw(st.sets(st.sampled_from(sorted(racks)), min_size=1))
    assume(len({racks[node] or "" for node in racks}) == 1)
    (replicas,) = place_replicas(racks, live, partitions=1, factor=len(racks))
    assert set(replicas[: len(live)]) == live
