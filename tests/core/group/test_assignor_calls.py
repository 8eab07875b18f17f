"""Whatever an assignor of the user's own does wrong ends in one error that names it, what it said, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from kafkaraw.core.group.assignor_calls import assignments_of, notify_assigned, user_data_of
from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.core.group.consumer_protocol import MemberSubscription
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
def test_invalid_assignment_is_refused(answer: object, says: str) -> None:
    with pytest.raises(GroupError) as caught:
        assignments_of(answering(answer), TOPICS, MEMBERS)
    told = str(caught.value)
    assert told.startswith("assignor 'mine': Mine.assign() ")
    assert says in told
    assert told.endswith("fix Mine.assign(); the next call joins the group again")


def test_cooperative_assignor_must_not_move_owned_partition() -> None:
    moved = {"two": [T0, T1]}
    assert assignments_of(answering(moved), TOPICS, MEMBERS) == moved
    with pytest.raises(GroupError, match="gave t-0 to member 'two' while 'one' has it"):
        assignments_of(answering(moved, Gentle), TOPICS, MEMBERS)
    left_out = {"two": [T1]}
    assert assignments_of(answering(left_out, Gentle), TOPICS, MEMBERS) == left_out


def test_assignment_may_be_any_iterable_of_pairs() -> None:
    answer = {"one": {("t", 0)}, "two": iter([T1, U0])}
    assert assignments_of(answering(answer), TOPICS, MEMBERS) == {"one": [T0], "two": [T1, U0]}


@pytest.mark.parametrize(
    ("ask", "answer", "says"),
    [
        (lambda mine: user_data_of(mine, ("t",)), "text", "Mine.user_data() returned str 'text', not bytes or None"),
        (lambda mine: user_data_of(mine, ("t",)), OSError("disk"), "Mine.user_data() raised OSError('disk')"),
        (lambda mine: notify_assigned(mine, (T0,), 1), OSError("disk"), "Mine.assigned() raised OSError('disk')"),
    ],
)
def test_errors_of_other_methods_name_the_method(ask: Callable[[Assignor], object], answer: object, says: str) -> None:
    with pytest.raises(GroupError) as caught:
        ask(answering(answer))
    assert says in str(caught.value)
    assert caught.value.__cause__ is (answer if isinstance(answer, Exception) else None)
