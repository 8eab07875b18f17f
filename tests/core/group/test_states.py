"""The transition tables of both group protocols, and the size of the state machines that use them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from enum import Enum

import pytest

from kafkaraw.core.group.classic import ClassicMember
from kafkaraw.core.group.consumer import ConsumerMember
from kafkaraw.core.group.events import GroupSettings, Send, Subscription, SubscriptionChanged
from kafkaraw.core.group.member import GroupMember
from kafkaraw.core.group.states import (
    CLASSIC_TRANSITIONS,
    CONSUMER_TRANSITIONS,
    ClassicState,
    ClassicTrigger,
    ConsumerState,
    ConsumerTrigger,
)
from kafkaraw.core.retry import Backoff

TABLES = [
    pytest.param(CLASSIC_TRANSITIONS, ClassicState, ClassicTrigger, id="classic"),
    pytest.param(CONSUMER_TRANSITIONS, ConsumerState, ConsumerTrigger, id="consumer"),
]
Table = Mapping[tuple[Enum, Enum], Enum]


@pytest.mark.parametrize(("table", "states", "triggers"), TABLES)
def test_every_state_is_reachable_and_every_trigger_is_used(
    table: Table, states: type[Enum], triggers: type[Enum]
) -> None:
    reached = {next(iter(states))}
    while new := {after for (before, _), after in table.items() if before in reached} - reached:
        reached |= new
    assert reached == set(states)
    assert {trigger for _, trigger in table} == set(triggers)


@pytest.mark.parametrize(("table", "states", "triggers"), TABLES)
def test_every_state_can_be_left_and_joined_from(table: Table, states: type[Enum], triggers: type[Enum]) -> None:
    assert all((state, triggers["LEAVE"]) in table for state in states)
    for state in states:
        reached = {state}
        while new := {after for (before, _), after in table.items() if before in reached} - reached:
            reached |= new
        assert states["STABLE"] in reached


def members() -> list[GroupMember]:
    settings, backoff, rng = GroupSettings("g"), Backoff(100, 1_000), random.Random(1)
    return [
        ClassicMember(settings, backoff, rng),
        ConsumerMember(settings, backoff, rng, "me", lambda topic_id: None),
    ]


@pytest.mark.parametrize("member", members(), ids=["classic", "consumer"])
def test_member_has_at_most_15_attributes(member: GroupMember) -> None:
    assert len(vars(member)) <= 15
    assert all(len(vars(part)) <= 15 for part in vars(member).values() if hasattr(part, "__dict__"))


@pytest.mark.parametrize("member", members(), ids=["classic", "consumer"])
def test_member_has_the_four_verbs_of_every_machine(member: GroupMember) -> None:
    assert member.deadline_ms() is None
    assert member.actions() == []
    member.receive(SubscriptionChanged(Subscription(frozenset({"t"}))), 5)
    assert member.deadline_ms() == 5
    member.tick(5)
    first = member.actions()
    assert [type(action) for action in first] == [Send]
    assert member.actions() == [], "each action is returned once"
