"""Who leads a partition and who is in sync with the leader: every rule by which that changes. Pure.

A `PartitionState` is never changed, a decision gives the next one: a change of leader grows the leader epoch, and every
change grows the partition epoch. `controller` asks, writes the answers down and tells the nodes.
Source: org.apache.kafka.controller.PartitionChangeBuilder, ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kafkaraw.light_classes import dataclass

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who holds a partition, and who leads it.

    Attributes:
        replicas: ids of the nodes that hold it, the preferred leader first.
        leader: id of the node that leads it; -1 when none does.
        leader_epoch: grows whenever the leader changes, also to none.
        isr: the replicas that have everything that was acknowledged. Never empty: the last one stays, dead or alive.
        partition_epoch: grows with every change.
    """

    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    partition_epoch: int = 0


def first_state(replicas: tuple[int, ...], live: Collection[int] | None = None) -> PartitionState:
    """How a partition begins.

    Args:
        replicas: ids of the nodes that hold it, the preferred leader first.
        live: the nodes that run, at least one of them a replica; None means all.
    """
    isr = replicas if live is None else tuple(node for node in replicas if node in live)
    return PartitionState(replicas, isr[0], isr)


def without_node(state: PartitionState, node: int, live: Collection[int], *, unclean: bool) -> PartitionState:
    """After a node has stopped: it is in sync no more, and leads no more.

    Args:
        state: how it was.
        node: who has stopped.
        live: the nodes that still run.
        unclean: a replica that is not in sync may lead when there is no other.
    """
    isr = tuple(other for other in state.isr if other != node) or state.isr
    if state.leader != node:
        return _changed(state, state.leader, isr)
    return _elected(state, isr, live, unclean=unclean)


def with_leader(
    state: PartitionState, live: Collection[int], *, unclean: bool, preferred: int = NO_LEADER
) -> PartitionState:
    """After a node has come: a partition without a leader gets one when it can.

    Args:
        state: how it was.
        live: the nodes that run.
        unclean: a replica that is not in sync may lead when there is no other.
        preferred: who is to lead if it can, such as the one that led before all nodes stopped.
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
        return _changed(state, running[0], (running[0],))  # what only the others have is lost
    return _changed(state, NO_LEADER, isr)


def can_lead(state: PartitionState, node: int, live: Collection[int]) -> bool:
    """Whether a node may be made the leader without loss."""
    return node in state.isr and node in live


def led_by(state: PartitionState, node: int) -> PartitionState:
    """With another leader, for which `can_lead` holds; the same one changes nothing."""
    return _changed(state, node, state.isr)


def shrunk(state: PartitionState, lagging: Collection[int]) -> PartitionState:
    """Without followers that lag too far behind; it is the leader who says so, and it stays."""
    if state.leader == NO_LEADER:
        return state
    kept = tuple(node for node in state.isr if node == state.leader or node not in lagging)
    return _changed(state, state.leader, kept)


def expanded(state: PartitionState, node: int) -> PartitionState:
    """With a follower that has caught up; it is the leader who says so."""
    return (
        state if node in state.isr or state.leader == NO_LEADER else _changed(state, state.leader, (*state.isr, node))
    )


def _changed(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    if (leader, isr) == (state.leader, state.isr):
        return state
    leader_epoch = state.leader_epoch + (leader != state.leader)
    return PartitionState(state.replicas, leader, isr, leader_epoch, state.partition_epoch + 1)
