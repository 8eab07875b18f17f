"""Calls of assignors, which may be user code: every failure becomes a `GroupError` that names the assignor. Pure.

Each method of `Assignor` has its function here, and the state machines call only these. `assign_group` checks what
`assign` returns before the leader sends it: a member with an assignment that it cannot read would stop the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.core.group.consumer_protocol import MemberSubscription, encode_assignment
from kafkaraw.errors import GroupError
from kafkaraw.records import TopicPartition

R = TypeVar("R")
Members = Mapping[str, MemberSubscription]
Assignments = dict[str, list[TopicPartition]]
EncodedAssignments = Mapping[str, bytes]


def user_data_of(assignor: Assignor, topics: Sequence[str]) -> bytes | None:
    """Return what the assignor adds to the member's subscription.

    Raises:
        GroupError: the assignor raised, or returned neither bytes nor None.
    """
    data: object = _call(assignor, "user_data", lambda: assignor.user_data(topics))
    if data is not None and not isinstance(data, bytes | bytearray | memoryview):
        raise _error(assignor, "user_data", f"returned {_shortened(data)}, not bytes or None")
    return None if data is None else bytes(data)


def assign_group(assignor: Assignor, topics: Topics, members: Members) -> EncodedAssignments:
    """Have the leader's assignor assign the partitions of subscribed topics that exist; return the bytes per member.

    Raises:
        GroupError: the assignor raised, or returned an invalid assignment.
    """
    subscribed = {topic for member in members.values() for topic in member.topics}
    existing = {topic: topics[topic] for topic in sorted(subscribed & topics.keys())}
    assignments = assignments_of(assignor, existing, members)
    return {member_id: encode_assignment(assignments.get(member_id, ())) for member_id in members}


def assignments_of(assignor: Assignor, topics: Topics, members: Members) -> Assignments:
    """Return what the assignor assigns to each member.

    Raises:
        GroupError: it raised, or returned an invalid assignment.
    """
    validator = _Validator(assignor, topics, members)
    return validator.check(_call(assignor, "assign", lambda: assignor.assign(topics, members)))


def notify_assigned(assignor: Assignor, partitions: Sequence[TopicPartition], generation_id: int) -> None:
    """Call the assignor with the member's assignment.

    Raises:
        GroupError: it raised.
    """
    _call(assignor, "assigned", lambda: assignor.assigned(partitions, generation_id))


class _Validator:
    """Checks what `assign` returned."""

    def __init__(self, assignor: Assignor, topics: Topics, members: Members) -> None:
        self._assignor, self._topics, self._members = assignor, topics, members
        self._owner: dict[TopicPartition, str] = {}

    def check(self, answer: object) -> Assignments:
        """Return the assignments by member id."""
        if not isinstance(answer, Mapping):
            raise self._error(f"returned {_shortened(answer)}, not a dict from member ids to lists of TopicPartition")
        given = {self._member(member_id): self._partitions(member_id, them) for member_id, them in answer.items()}
        if self._assignor.cooperative and self._assignor.name != "cooperative-sticky":
            self._check_moves()
        return given

    def _member(self, member_id: object) -> str:
        if not isinstance(member_id, str) or member_id not in self._members:
            raise self._error(f"gave partitions to {member_id!r}, which is no member: they are {sorted(self._members)}")
        return member_id

    def _partitions(self, member_id: str, given: object) -> list[TopicPartition]:
        if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping | TopicPartition):
            raise self._error(f"gave {_shortened(given)} to member {member_id!r}, not a list of TopicPartition")
        return [self._partition(member_id, each) for each in given]

    def _partition(self, member_id: str, given: object) -> TopicPartition:
        match given:
            case (str() as topic, int() as number) if isinstance(given, tuple) and not isinstance(number, bool):
                partition = TopicPartition(topic, number)
            case _:
                raise self._error(f"gave {_shortened(given)} to member {member_id!r}, not a TopicPartition")
        what, count = f"{topic}-{number}", len(self._topics.get(topic, ()))
        if topic not in self._topics:
            raise self._error(f"gave {what} to member {member_id!r}, but no such topic exists that a member wants")
        if not 0 <= number < count:
            raise self._error(f"gave {what} to member {member_id!r}, but the topic's partitions are 0 to {count - 1}")
        if topic not in self._members[member_id].topics:
            raise self._error(f"gave {what} to member {member_id!r}, which has not subscribed to {topic!r}")
        if partition in self._owner:
            before = self._owner[partition]
            twice = f"member {before!r} twice" if before == member_id else f"two members, {before!r} and {member_id!r}"
            raise self._error(f"gave {what} to {twice}")
        self._owner[partition] = member_id
        return partition

    def _check_moves(self) -> None:
        before = {each: member_id for member_id, member in self._members.items() for each in member.owned_partitions}
        for partition, member_id in sorted(self._owner.items()):
            had = before.get(partition, member_id)
            if had != member_id:
                raise self._error(
                    f"gave {partition.topic}-{partition.partition} to member {member_id!r} while {had!r} has it: a "
                    f"cooperative one must leave it out until it was given up"
                )

    def _error(self, what: str) -> GroupError:
        return _error(self._assignor, "assign", what)


def _call(assignor: Assignor, method: str, call: Callable[[], R]) -> R:
    try:
        return call()
    except Exception as error:
        raise _error(assignor, method, f"raised {error!r}") from error


def _error(assignor: Assignor, method: str, what: str) -> GroupError:
    code = f"{type(assignor).__name__}.{method}()"
    return GroupError(f"assignor {assignor.name!r}: {code} {what}; fix {code}; the next call joins the group again")


def _shortened(value: object) -> str:
    """Return the type and the beginning of a value's repr, for errors."""
    if value is None:
        return "None"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 100 else text[:100] + '...'}"
