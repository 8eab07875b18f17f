"""Whatever an assignor of the user's own does wrong ends in one error that names it, what it said, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from kafkaraw.core.group.asking_assignors import ask_assignment, ask_user_data, tell_assigned
from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.core.group.subscription import MemberSubscription
from kafkaraw.errors import GroupError
from kafkaraw.records import TopicPartition

NO_RACK: frozenset[str] = frozenset()
TOPICS: Topics = {"t": [NO_RACK] * 2, "u": [NO_RACK]}
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MEMBERS = {
    "one": MemberSubscription(("t",), owned_partitions=(T0,)),
    "two": MemberSubscription(("t", "u"), owned_partitions=(T1,)),
}


class Mine(Assignor):
    """Answers what the test says."""

    name = "mine"
    answer: object = None

    def assign(
        self, topics: Topics, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        return self._answer()

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        return self._answer()

    def assigned(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        self._answer()

    def _answer(self):  # type: ignore[no-untyped-def]  # whatever it is
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Gentle(Mine):
    """The same, in the manner of cooperative groups."""

    cooperative = True


def answering(answer: object, kind: type[Mine] = Mine) -> Mine:
    assignor = kind()
    assignor.answer = answer
    return assignor


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "Mine.assign() returned None, not a dict from member ids to lists of TopicPartition"),
        ([("one", [T0])], "Mine.assign() returned list [('one', [TopicPartition("),
        (KeyError("lag"), "Mine.assign() raised KeyError('lag')"),
        ({"three": [T0]}, "gave partitions to 'three', which is no member: they are ['one', 'two']"),
        ({1: [T0]}, "gave partitions to 1, which is no member"),
        ({"one": None}, "gave None to member 'one', not a list of TopicPartition"),
        ({"one": T0}, "gave TopicPartition TopicPartition(topic='t', partition=0) to member 'one', not a list"),
        ({"one": "t-0"}, "gave str 't-0' to member 'one', not a list"),
        ({"one": ["t-0"]}, "gave str 't-0' to member 'one', not a TopicPartition"),
        ({"one": [("t", "0")]}, "gave tuple ('t', '0') to member 'one', not a TopicPartition"),
        ({"one": [TopicPartition("t", 2)]}, "gave t-2 to member 'one', but the topic's partitions are 0 to 1"),
        ({"one": [TopicPartition("t", -1)]}, "gave t--1 to member 'one'"),
        ({"one": [TopicPartition("v", 0)]}, "gave v-0 to member 'one', but no such topic exists that a member wants"),
        ({"one": [U0]}, "gave u-0 to member 'one', which has not subscribed to 'u'"),
        ({"one": [T0], "two": [T1, T0]}, "gave t-0 to two members, 'one' and 'two'"),
        ({"one": [T0, T0]}, "gave t-0 to member 'one' twice"),
    ],
)
def test_what_no_group_can_be_given_is_refused_and_said(answer: object, says: str) -> None:
    with pytest.raises(GroupError) as caught:
        ask_assignment(answering(answer), TOPICS, MEMBERS)
    told = str(caught.value)
    assert told.startswith("assignor 'mine': Mine.assign() ")
    assert says in told
    assert told.endswith("mend Mine.assign(), the next call joins the group again")


def test_a_cooperative_one_must_not_give_away_what_another_member_has() -> None:
    moved = {"two": [T0, T1]}
    assert ask_assignment(answering(moved), TOPICS, MEMBERS) == moved
    with pytest.raises(GroupError, match="gave t-0 to member 'two' while 'one' has it"):
        ask_assignment(answering(moved, Gentle), TOPICS, MEMBERS)
    left_out = {"two": [T1]}
    assert ask_assignment(answering(left_out, Gentle), TOPICS, MEMBERS) == left_out


def test_any_iterables_of_pairs_are_as_good_as_lists() -> None:
    answer = {"one": {("t", 0)}, "two": iter([T1, U0])}
    assert ask_assignment(answering(answer), TOPICS, MEMBERS) == {"one": [T0], "two": [T1, U0]}


@pytest.mark.parametrize(
    ("ask", "answer", "says"),
    [
        (lambda mine: ask_user_data(mine, ("t",)), "text", "Mine.user_data() returned str 'text', not bytes or None"),
        (lambda mine: ask_user_data(mine, ("t",)), OSError("disk"), "Mine.user_data() raised OSError('disk')"),
        (lambda mine: tell_assigned(mine, (T0,), 1), OSError("disk"), "Mine.assigned() raised OSError('disk')"),
    ],
)
def test_its_other_methods_are_named_too(ask: Callable[[Assignor], object], answer: object, says: str) -> None:
    with pytest.raises(GroupError) as caught:
        ask(answering(answer))
    assert says in str(caught.value)
    assert caught.value.__cause__ is (answer if isinstance(answer, Exception) else None)
