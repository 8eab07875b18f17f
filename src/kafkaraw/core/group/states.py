"""The states of group members and their transitions, of both protocols: an enum and a table each. Pure.

`ClassicMember` and `ConsumerMember` move by these tables only. docs/state-machines.md is generated from them. A state's
value ends the sentence "the consumer ...", a trigger's says what has happened.
Source: AbstractCoordinator.MemberState for the classic protocol; Kafka's MemberState for the consumer protocol, from
which STALE and FENCED come in both.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ClassicState(Enum):
    """The state of a member of the classic protocol."""

    UNSUBSCRIBED = "is in no group"
    UNJOINED = "is about to join"
    PREPARING_REBALANCE = "waits for the other members to join"
    ASSIGNING = "computes the assignment, as the leader"
    COMPLETING_REBALANCE = "waits for its assignment"
    RECONCILING = "has an assignment to take over"
    SUPERSEDED = "takes over an assignment while the group rebalances again"
    STABLE = "is a member"
    REVOKING = "has to revoke partitions before it joins"
    FENCED = "was fenced and has to report lost partitions before it joins"
    STALE = "has left because it was not asked for records"
    FAILED = "cannot be a member"


class ClassicTrigger(Enum):
    """What moves a member of the classic protocol from one state to the next."""

    JOIN = "joins or rejoins"
    JOIN_GROUP_SENT = "JoinGroup sent"
    IS_LEADER = "is the leader"
    IS_FOLLOWER = "is a follower"
    ASSIGNMENT_COMPUTED = "assignment computed"
    ASSIGNMENT_RECEIVED = "assignment received"
    REBALANCE_AGAIN = "the group rebalances again"
    RECONCILED = "listener returned"
    REVOKE = "rejoins, with partitions to revoke"
    FENCE = "fenced, with partitions lost"
    POLL_TIMEOUT = "max_poll_interval_ms expired"
    FAIL = "fatal error"
    LEAVE = "unsubscribes or closes"


class ConsumerState(Enum):
    """The state of a member of the consumer protocol."""

    UNSUBSCRIBED = "is in no group"
    JOINING = "is about to join"
    JOIN_UNCONFIRMED = "may have joined: a request to join got no response"
    RELEASING = "frees its group_instance_id, which an unconfirmed join may have taken"
    STABLE = "is a member"
    RECONCILING = "has a new assignment to take over"
    FENCED = "was fenced and has to report lost partitions before it joins"
    STALE = "has left because it was not asked for records"
    FAILED = "cannot be a member"


class ConsumerTrigger(Enum):
    """What moves a member of the consumer protocol from one state to the next."""

    JOIN = "joins or rejoins"
    NO_RESPONSE = "no response to the join"
    INSTANCE_ID_IN_USE = "UNRELEASED_INSTANCE_ID"
    INSTANCE_ID_RELEASED = "group_instance_id released"
    JOINED = "heartbeat accepted"
    TARGET_DIFFERS = "target differs from owned partitions"
    TARGET_REACHED = "target reached"
    FENCE = "fenced, with partitions lost"
    POLL_TIMEOUT = "max_poll_interval_ms expired"
    FAIL = "fatal error"
    LEAVE = "unsubscribes or closes"


def _classic() -> dict[tuple[ClassicState, ClassicTrigger], ClassicState]:
    state, trigger = ClassicState, ClassicTrigger
    left = {state.STALE, state.FAILED}
    active = frozenset(state) - left - {state.UNSUBSCRIBED}
    joined = {state.ASSIGNING, state.COMPLETING_REBALANCE, state.RECONCILING, state.STABLE}
    joins = active - {state.UNJOINED, state.SUPERSEDED} | left | {state.UNSUBSCRIBED}
    return {
        (state.UNJOINED, trigger.JOIN_GROUP_SENT): state.PREPARING_REBALANCE,
        (state.PREPARING_REBALANCE, trigger.IS_LEADER): state.ASSIGNING,
        (state.PREPARING_REBALANCE, trigger.IS_FOLLOWER): state.COMPLETING_REBALANCE,
        (state.ASSIGNING, trigger.ASSIGNMENT_COMPUTED): state.COMPLETING_REBALANCE,
        (state.COMPLETING_REBALANCE, trigger.ASSIGNMENT_RECEIVED): state.RECONCILING,
        (state.RECONCILING, trigger.RECONCILED): state.STABLE,
        (state.RECONCILING, trigger.REBALANCE_AGAIN): state.SUPERSEDED,
        (state.SUPERSEDED, trigger.REBALANCE_AGAIN): state.SUPERSEDED,
        (state.SUPERSEDED, trigger.RECONCILED): state.STABLE,
        **{(before, trigger.JOIN): state.UNJOINED for before in joins},
        **{(before, trigger.REVOKE): state.REVOKING for before in joined},
        **{(before, trigger.FENCE): state.FENCED for before in active | left},
        **{(before, trigger.POLL_TIMEOUT): state.STALE for before in active},
        **{(before, trigger.FAIL): state.FAILED for before in active - {state.FENCED}},
        **{(before, trigger.LEAVE): state.UNSUBSCRIBED for before in state},
    }


def _consumer() -> dict[tuple[ConsumerState, ConsumerTrigger], ConsumerState]:
    state, trigger = ConsumerState, ConsumerTrigger
    left = {state.STALE, state.FAILED}
    active = frozenset(state) - left - {state.UNSUBSCRIBED}
    joined = {state.STABLE, state.RECONCILING}
    joins = active - {state.RELEASING} | left | {state.UNSUBSCRIBED}
    return {
        (state.JOINING, trigger.NO_RESPONSE): state.JOIN_UNCONFIRMED,
        (state.JOIN_UNCONFIRMED, trigger.NO_RESPONSE): state.JOIN_UNCONFIRMED,
        (state.JOIN_UNCONFIRMED, trigger.INSTANCE_ID_IN_USE): state.RELEASING,
        (state.RELEASING, trigger.INSTANCE_ID_RELEASED): state.JOINING,
        (state.JOINING, trigger.JOINED): state.STABLE,
        (state.JOIN_UNCONFIRMED, trigger.JOINED): state.STABLE,
        **{(before, trigger.TARGET_DIFFERS): state.RECONCILING for before in joined},
        **{(before, trigger.TARGET_REACHED): state.STABLE for before in joined},
        **{(before, trigger.JOIN): state.JOINING for before in joins},
        **{(before, trigger.FENCE): state.FENCED for before in joined | left | {state.FENCED}},
        **{(before, trigger.POLL_TIMEOUT): state.STALE for before in active},
        **{(before, trigger.FAIL): state.FAILED for before in active - {state.FENCED}},
        **{(before, trigger.LEAVE): state.UNSUBSCRIBED for before in state},
    }


CLASSIC_TRANSITIONS: Final = _classic()
CONSUMER_TRANSITIONS: Final = _consumer()
