"""Elections: who leads, who is in sync, and which epochs grow; as properties over any history of a partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkaraw.broker.partitions.elections import (
    NO_LEADER,
    PartitionState,
    can_lead,
    completed,
    expanded,
    first_state,
    led_by,
    reassigned,
    reverted,
    shrunk,
    with_leader,
    without_node,
)

THREE = first_state((1, 2, 3))


def test_a_partition_begins_with_its_first_replica_that_runs_as_the_leader():
    assert PartitionState((1, 2, 3), 1, (1, 2, 3), 0, 0) == THREE
    assert first_state((1, 2, 3), live={3, 2}) == PartitionState((1, 2, 3), 2, (2, 3), 0, 0)


def test_the_first_replica_in_sync_that_runs_takes_over():
    after = without_node(shrunk(THREE, [2]), 1, live={2, 3}, unclean=False)
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (3, (3,), 1, 2)


def test_a_follower_that_stops_leaves_the_isr_and_the_leader_epoch_stays():
    after = without_node(THREE, 2, live={1, 3}, unclean=False)
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (1, 3), 0, 1)


def test_without_unclean_election_there_is_no_leader_until_an_in_sync_replica_returns():
    alone = shrunk(THREE, [2, 3])
    down = without_node(alone, 1, live={2, 3}, unclean=False)
    assert (down.leader, down.isr) == (NO_LEADER, (1,))
    assert with_leader(down, live={2, 3}, unclean=False) == down
    back = with_leader(down, live={1, 2, 3}, unclean=False)
    assert (back.leader, back.isr, back.leader_epoch) == (1, (1,), 2)


def test_an_unclean_election_makes_any_replica_that_runs_the_only_one_in_sync():
    down = without_node(shrunk(THREE, [2, 3]), 1, live={2, 3}, unclean=True)
    assert (down.leader, down.isr, down.leader_epoch) == (2, (2,), 1)


def test_after_a_restart_of_all_the_same_leader_begins_a_new_epoch():
    stopped = PartitionState((1, 2, 3), NO_LEADER, (1, 2), 4, 6)
    again = with_leader(stopped, {1, 2, 3}, unclean=False, preferred=2)
    assert again == PartitionState((1, 2, 3), 2, (1, 2), 5, 7)
    assert with_leader(stopped, {1, 3}, unclean=False, preferred=2).leader == 1
    assert with_leader(stopped, {1, 3}, unclean=False, preferred=3).leader == 1


@given(st.permutations([1, 2, 3]), st.sets(st.integers(1, 4)))
def test_only_a_replica_in_sync_that_runs_can_be_made_the_leader(replicas: list[int], live: set[int]):
    state = shrunk(first_state(tuple(replicas)), [3])
    for node in range(5):
        assert can_lead(state, node, live) == (node in state.isr and node in live)


class AnyHistory(RuleBasedStateMachine):
    """Nodes come and go, followers lag and catch up, leaders are moved."""

    def __init__(self) -> None:
        super().__init__()
        self.live = {1, 2, 3}
        self.state = first_state((2, 3, 1))
        self.before = self.state

    def take(self, after: PartitionState) -> None:
        self.before, self.state = self.state, after

    @rule(node=st.integers(1, 3), unclean=st.booleans())
    def stops(self, node: int, unclean: bool) -> None:
        self.live.discard(node)
        self.take(without_node(self.state, node, self.live, unclean=unclean))
        if not unclean:
            assert self.state.leader == NO_LEADER or self.state.leader in self.before.isr

    @rule(node=st.integers(1, 3), unclean=st.booleans())
    def starts(self, node: int, unclean: bool) -> None:
        self.live.add(node)
        self.take(with_leader(self.state, self.live, unclean=unclean))

    @rule(lagging=st.sets(st.integers(1, 3)))
    def lag(self, lagging: set[int]) -> None:
        self.take(shrunk(self.state, lagging))

    @precondition(lambda self: self.state.leader != NO_LEADER)
    @rule(node=st.integers(1, 3))
    def catches_up(self, node: int) -> None:
        if node in self.live:
            self.take(expanded(self.state, node))
            assert node in self.state.isr

    @rule(node=st.integers(1, 3))
    def is_moved(self, node: int) -> None:
        if can_lead(self.state, node, self.live):
            self.take(led_by(self.state, node))

    @invariant()
    def the_leader_runs_and_is_in_sync(self) -> None:
        assert self.state.leader == NO_LEADER or self.state.leader in self.live & set(self.state.isr)

    @invariant()
    def somebody_is_in_sync_and_nobody_twice(self) -> None:
        assert self.state.isr
        assert len(set(self.state.isr)) == len(self.state.isr)
        assert set(self.state.isr) <= set(self.state.replicas)

    @invariant()
    def epochs_grow_with_what_they_count(self) -> None:
        before, after = self.before, self.state
        assert after.leader_epoch - before.leader_epoch == (after.leader != before.leader)
        changed = (after.leader, after.isr) != (before.leader, before.isr)
        assert after.partition_epoch - before.partition_epoch == changed


TestAnyHistory = AnyHistory.TestCase


def test_reassignment_has_the_replicas_of_both_until_the_new_ones_are_in_sync():
    moving = reassigned(THREE, (4, 2))
    assert moving == PartitionState((4, 2, 1, 3), 1, (1, 2, 3), 1, 1, adding=(4,), removing=(1, 3))
    assert completed(moving, live=(1, 2, 3, 4)) is moving
    caught_up = expanded(moving, 4)
    assert completed(caught_up, live=(1, 2, 3, 4)) == PartitionState((4, 2), 4, (2, 4), 2, 3)
    assert completed(caught_up, live=(1,)) is caught_up  # no node could lead


def test_reassignment_to_the_same_replicas_changes_nothing():
    assert reassigned(THREE, (1, 2, 3)) is THREE
    assert completed(THREE, live=(1, 2, 3)) is THREE


def test_reassignment_in_another_order_keeps_the_leader():
    assert completed(reassigned(THREE, (3, 1, 2)), live=(1, 2, 3)).leader == 1


def test_cancelled_reassignment_removes_what_it_has_added():
    moving = expanded(reassigned(THREE, (4, 5, 1)), 4)
    assert reverted(moving, live=(1, 2, 3, 4)) == PartitionState((1, 2, 3), 1, (1, 2, 3), 2, 3)
