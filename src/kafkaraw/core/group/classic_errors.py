"""What the error codes of a classic group's coordinator mean to a member: one table. Pure.

Source: Kafka's AbstractCoordinator and ConsumerCoordinator.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from kafkaraw.core.group.actions import GroupSettings
from kafkaraw.errors import GroupError, KafkaError, MemberFenced
from kafkaraw.protocol.error_codes import ErrorCode, error_for, is_retriable


class Meaning(Enum):
    """What to do after an answer."""

    AGAIN = auto()
    """Ask again after a pause, perhaps another broker."""
    REJOIN = auto()
    """Join again: the group is changing."""
    LOST = auto()
    """Join as a new member: the coordinator does not know this one."""
    LOST_GENERATION = auto()
    """Join again under the same id: the group has gone on."""
    STUCK = auto()
    """Tell the user."""


_MEANINGS: Final[dict[int, Meaning]] = {
    ErrorCode.NOT_COORDINATOR: Meaning.AGAIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Meaning.AGAIN,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Meaning.AGAIN,
    ErrorCode.REBALANCE_IN_PROGRESS: Meaning.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Meaning.LOST,
    ErrorCode.ILLEGAL_GENERATION: Meaning.LOST_GENERATION,
}

_ADVICE: Final[dict[int, str]] = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "the other members know none of this one's assignors ({assignors}), or they are no consumers, or use the "
        "protocol of KIP-848; set partition_assignment_strategy, or group_protocol, as theirs"
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "session_timeout_ms={session_timeout_ms} is outside of the broker's group.min.session.timeout.ms and "
        "group.max.session.timeout.ms"
    ),
    ErrorCode.INVALID_GROUP_ID: "group_id={group_id!r} is not a name that the broker takes",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.max.size allows",
}


def meaning_of(code: int) -> Meaning:
    """What an error code means; one that is not known is for the user, unless Kafka declares it retriable."""
    listed = _MEANINGS.get(code)
    if listed is not None:
        return listed
    return Meaning.AGAIN if is_retriable(code) else Meaning.STUCK


def stuck_error(code: int, settings: GroupSettings, doing: str) -> KafkaError:
    """The error for the user."""
    what = f"group {settings.group_id!r}, {doing}"
    if code == ErrorCode.FENCED_INSTANCE_ID:
        return MemberFenced(
            f"{what}: another consumer with group_instance_id={settings.group_instance_id!r} has taken over; each "
            f"running consumer needs a name of its own"
        )
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return error_for(code, what, resource=settings.group_id, operation="READ")
    advice = _ADVICE.get(code)
    cause = error_for(code, what)
    if advice is None:
        return cause
    names = ", ".join(assignor.name for assignor in settings.assignors)
    error = GroupError(
        f"{what}: "
        + advice.format(assignors=names, group_id=settings.group_id, session_timeout_ms=settings.session_timeout_ms)
    )
    error.__cause__ = cause
    return error
