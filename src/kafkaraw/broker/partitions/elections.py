"""Leader election, ISR changes and reassignments of a partition, as pure functions.

A `PartitionState` is immutable; each function returns the next state. A change of leader increments the leader epoch,
and every change increments the partition epoch. `controller` calls these functions, stores the states and notifies the
nodes.
Source: org.apache.kafka.controller.PartitionChangeBuilder, ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kafkaraw.light_classes import dataclass, replace

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The replicas, the leader and the ISR of a partition.

    Attributes:
        replicas: ids of the nodes with a replica, the preferred leader first.
        leader: id of the leader; -1 for none.
        leader_epoch: incremented at each change of the leader, also to none.
        isr: the replicas that have all acknowledged records. Never empty: the last one stays, running or not.
        partition_epoch: incremented at each change.
        adding: the replicas that a reassignment adds; it is complete once they are in sync.
        removing: the replicas that the reassignment removes when it is complete.
    """

    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigned(self) -> bool:
        """Whether a reassignment of the replicas is in progress."""
        return bool(self.adding or self.removing)


def first_state(replicas: tuple[int, ...], live: Collection[int] | None = None) -> PartitionState:
    """Return the initial state of a partition.

    Args:
        replicas: ids of the nodes with a replica, the preferred leader first.
        live: the running nodes, at least one of them with a replica; None means all.
    """
    isr = replicas if live is None else tuple(node for node in replicas if node in live)
    return PartitionState(replicas, isr[0], isr)


def without_node(state: PartitionState, node: int, live: Collection[int], *, unclean: bool) -> PartitionState:
    """Return the state after a node has stopped: without it in the ISR, and with another leader or none.

    Args:
        state: the state before.
        node: id of the node that has stopped.
        live: the nodes that are still running.
        unclean: if no in-sync replica is running, another replica may become leader.
    """
    isr = tuple(other for other in state.isr if other != node) or state.isr
    if state.leader != node:
        return _changed(state, state.leader, isr)
    return _elected(state, isr, live, unclean=unclean)


def with_leader(
    state: PartitionState, live: Collection[int], *, unclean: bool, preferred: int = NO_LEADER
) -> PartitionState:
    """Return the state after a node has started: a partition without a leader gets one, if possible.

    Args:
        state: the state before.
        live: the running nodes.
        unclean: if no in-sync replica is running, another replica may become leader.
        preferred: id of the node to elect if it is eligible, such as the leader before all nodes stopped.
    """
    if state.leader != NO_LEADER:
        return state
    if can_lead(state, preferred, live):
        return _changed(state, preferred, state.isr)
    return _elected(state, state.isr, live, unclean=unclean)


def _elected(state: PartitionState, isr: tuple[int, ...], live: Collection[int], *, unclean: bool) -> PartitionState:
    running = [node for node in state.replicas if node in live]
    for node in running:
        if node in isr:
            return _changed(state, node, isr)
    if unclean and running:
        return _changed(state, running[0], (running[0],))  # records that only the other replicas have are lost
    return _changed(state, NO_LEADER, isr)


def can_lead(state: PartitionState, node: int, live: Collection[int]) -> bool:
    """Return whether a node can become leader without losing records."""
    return node in state.isr and node in live


def led_by(state: PartitionState, node: int) -> PartitionState:
    """Return the state with another leader, for which `can_lead` holds; the same leader changes nothing."""
    return _changed(state, node, state.isr)


def with_preferred(state: PartitionState, live: Collection[int]) -> PartitionState:
    """Return the state with the first replica as leader, if that can lead without losing records."""
    preferred = state.replicas[0]
    return led_by(state, preferred) if can_lead(state, preferred, live) else state


def with_unclean(state: PartitionState, live: Collection[int]) -> PartitionState:
    """Return the state of a partition without a leader with one, in sync or not."""
    return with_leader(state, live, unclean=True)


def shrunk(state: PartitionState, lagging: Collection[int]) -> PartitionState:
    """Return the state without lagging followers in the ISR. The leader reports them, and stays in the ISR."""
    if state.leader == NO_LEADER:
        return state
    kept = tuple(node for node in state.isr if node == state.leader or node not in lagging)
    return _changed(state, state.leader, kept)


def expanded(state: PartitionState, node: int) -> PartitionState:
    """Return the state with a follower in the ISR that, as the leader reports, has caught up."""
    return (
        state if node in state.isr or state.leader == NO_LEADER else _changed(state, state.leader, (*state.isr, node))
    )


def _changed(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    if (leader, isr) == (state.leader, state.isr):
        return state
    leader_epoch = state.leader_epoch + (leader != state.leader)
    return replace(state, leader=leader, isr=isr, leader_epoch=leader_epoch, partition_epoch=state.partition_epoch + 1)


# -- reassignments: a leader begins a new epoch when the replicas change, with which it gets to know its followers


def reassigned(state: PartitionState, target: tuple[int, ...]) -> PartitionState:
    """Return the state at the begin of a reassignment: with the replicas of both, the new ones first."""
    removing = tuple(sorted(node for node in state.replicas if node not in target))
    adding = tuple(sorted(node for node in target if node not in state.replicas))
    if (target, adding, removing) == (state.replicas, state.adding, state.removing):
        return state
    return _with_replicas(state, (*target, *removing), state.isr, state.leader, adding, removing)


def completed(state: PartitionState, live: Collection[int]) -> PartitionState:
    """Return the state after a reassignment; the same state if it cannot be completed yet."""
    isr = tuple(node for node in state.isr if node not in state.removing)
    replicas = tuple(node for node in state.replicas if node not in state.removing)
    leader = _leader_among(state, replicas, isr, live)
    if not state.is_reassigned or not isr or not set(state.adding) <= set(isr) or leader == NO_LEADER:
        return state
    return _with_replicas(state, replicas, isr, leader)


def reverted(state: PartitionState, live: Collection[int]) -> PartitionState:
    """Return the state after a reassignment was cancelled: without the replicas that it added."""
    isr = tuple(node for node in state.isr if node not in state.adding)
    replicas = tuple(node for node in state.replicas if node not in state.adding)
    return _with_replicas(state, replicas, isr or replicas[:1], _leader_among(state, replicas, isr, live))


def _leader_among(state: PartitionState, replicas: tuple[int, ...], isr: tuple[int, ...], live: Collection[int]) -> int:
    if state.leader in replicas:
        return state.leader
    return next((node for node in replicas if node in isr and node in live), NO_LEADER)


def _with_replicas(
    state: PartitionState,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> PartitionState:
    return PartitionState(replicas, leader, isr, state.leader_epoch + 1, state.partition_epoch + 1, adding, removing)
