"""What is asked of an assignor, which may be the user's own: whatever goes wrong becomes one error that names it. Pure.

Each method of `Assignor` has its function here; the machine calls these only. `_Answer` checks what `assign` returned,
before any of it goes to the group: a member that were given what it cannot read would stop the whole group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.core.group.subscription import MemberSubscription
from kafkaraw.errors import GroupError
from kafkaraw.records import TopicPartition

R = TypeVar("R")
Members = Mapping[str, MemberSubscription]
Given = dict[str, list[TopicPartition]]


def ask_user_data(assignor: Assignor, topics: Sequence[str]) -> bytes | None:
    """What the member adds to its subscription.

    Raises:
        GroupError: the assignor failed, or answered something else than bytes or None.
    """
    data: object = _call(assignor, "user_data", lambda: assignor.user_data(topics))
    if data is not None and not isinstance(data, bytes | bytearray | memoryview):
        raise _wrong(assignor, "user_data", f"returned {_words(data)}, not bytes or None")
    return None if data is None else bytes(data)


def ask_assignment(assignor: Assignor, topics: Topics, members: Members) -> Given:
    """Have the leader's assignor share the partitions out.

    Raises:
        GroupError: it failed, or gave out what no group can be given.
    """
    answer = _Answer(assignor, topics, members)
    return answer.check(_call(assignor, "assign", lambda: assignor.assign(topics, members)))


def tell_assigned(assignor: Assignor, partitions: Sequence[TopicPartition], generation_id: int) -> None:
    """Let the assignor know what this member was given.

    Raises:
        GroupError: it failed.
    """
    _call(assignor, "assigned", lambda: assignor.assigned(partitions, generation_id))


class _Answer:
    """What `assign` returned, and what it was asked."""

    def __init__(self, assignor: Assignor, topics: Topics, members: Members) -> None:
        self._assignor, self._topics, self._members = assignor, topics, members
        self._owner: dict[TopicPartition, str] = {}

    def check(self, answer: object) -> Given:
        """The answer as it should be, member by member."""
        if not isinstance(answer, Mapping):
            raise self._wrong(f"returned {_words(answer)}, not a dict from member ids to lists of TopicPartition")
        given = {self._member(member_id): self._partitions(member_id, them) for member_id, them in answer.items()}
        if self._assignor.cooperative and self._assignor.name != "cooperative-sticky":
            self._check_moves()
        return given

    def _member(self, member_id: object) -> str:
        if not isinstance(member_id, str) or member_id not in self._members:
            raise self._wrong(f"gave partitions to {member_id!r}, which is no member: they are {sorted(self._members)}")
        return member_id

    def _partitions(self, member_id: str, given: object) -> list[TopicPartition]:
        if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping | TopicPartition):
            raise self._wrong(f"gave {_words(given)} to member {member_id!r}, not a list of TopicPartition")
        return [self._partition(member_id, each) for each in given]

    def _partition(self, member_id: str, given: object) -> TopicPartition:
        match given:
            case (str() as topic, int() as number) if isinstance(given, tuple) and not isinstance(number, bool):
                partition = TopicPartition(topic, number)
            case _:
                raise self._wrong(f"gave {_words(given)} to member {member_id!r}, not a TopicPartition")
        what, count = f"{topic}-{number}", len(self._topics.get(topic, ()))
        if topic not in self._topics:
            raise self._wrong(f"gave {what} to member {member_id!r}, but no such topic exists that a member wants")
        if not 0 <= number < count:
            raise self._wrong(f"gave {what} to member {member_id!r}, but the topic's partitions are 0 to {count - 1}")
        if topic not in self._members[member_id].topics:
            raise self._wrong(f"gave {what} to member {member_id!r}, which has not subscribed to {topic!r}")
        if partition in self._owner:
            before = self._owner[partition]
            twice = f"member {before!r} twice" if before == member_id else f"two members, {before!r} and {member_id!r}"
            raise self._wrong(f"gave {what} to {twice}")
        self._owner[partition] = member_id
        return partition

    def _check_moves(self) -> None:
        before = {each: member_id for member_id, member in self._members.items() for each in member.owned_partitions}
        for partition, member_id in sorted(self._owner.items()):
            had = before.get(partition, member_id)
            if had != member_id:
                raise self._wrong(
                    f"gave {partition.topic}-{partition.partition} to member {member_id!r} while {had!r} has it: a "
                    f"cooperative one must leave it out until it was given up"
                )

    def _wrong(self, what: str) -> GroupError:
        return _wrong(self._assignor, "assign", what)


def _call(assignor: Assignor, method: str, call: Callable[[], R]) -> R:
    try:
        return call()
    except Exception as error:
        raise _wrong(assignor, method, f"raised {error!r}") from error


def _wrong(assignor: Assignor, method: str, what: str) -> GroupError:
    code = f"{type(assignor).__name__}.{method}()"
    return GroupError(f"assignor {assignor.name!r}: {code} {what}; mend {code}, the next call joins the group again")


def _words(value: object) -> str:
    """A value that is not what it should be, in short."""
    if value is None:
        return "None"
    told = repr(value)
    return f"{type(value).__name__} {told if len(told) <= 100 else told[:100] + '...'}"
