"""The states of a classic group with their transitions, and the types of groups.

Source: org.apache.kafka.coordinator.group.classic.ClassicGroupState, Group.GroupType.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class GroupType(Enum):
    """The protocol of a group; the values are Kafka's names."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"

    @property
    def label(self) -> str:
        """The type in ListGroups."""
        return self.value


class ClassicState(Enum):
    """The life of a classic group; the values are Kafka's names.

    EMPTY: no members; there may be committed offsets. PREPARING_REBALANCE: members have to rejoin.
    COMPLETING_REBALANCE: the leader has to send the assignment. STABLE: all members have it. DEAD: the group is
    deleted.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = ClassicState
MAY_FOLLOW: Final[dict[ClassicState, frozenset[ClassicState]]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.STABLE, _S.COMPLETING_REBALANCE, _S.EMPTY}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
    _S.DEAD: frozenset(_S),
}
"""State -> the states that it may follow."""


class IllegalTransitionError(Exception):
    """A transition that is not in the table: an error in the coordinator, never in a client."""
