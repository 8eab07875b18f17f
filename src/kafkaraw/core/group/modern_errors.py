"""What the error codes of ConsumerGroupHeartbeat mean to a member: one table. Pure.

Source: KIP-848; Kafka's AbstractHeartbeatRequestManager.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from kafkaraw.core.group.actions import GroupSettings, Wanted
from kafkaraw.errors import GroupError, KafkaError, MemberFenced
from kafkaraw.protocol.error_codes import ErrorCode, error_for, is_retriable


class Meaning(Enum):
    """What to do after an answer."""

    AGAIN = auto()
    """Send a heartbeat again after a pause."""
    LOST = auto()
    """Join again: the coordinator does not know this member, or has given its partitions away."""
    STUCK = auto()
    """Tell the user."""


_LOST: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})

_ADVICE: Final[dict[int, str]] = {
    ErrorCode.UNSUPPORTED_VERSION: "the broker does not have the protocol of KIP-848; use group_protocol='classic'",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "the broker has no assignor group_remote_assignor={server_assignor!r}: {message}",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.consumer.max.size allows",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "pattern {pattern!r} is not a regular expression of RE2: {message}",
    ErrorCode.UNRELEASED_INSTANCE_ID: (
        "group_instance_id={instance_id!r} is in use by another consumer; each needs a name of its own: {message}"
    ),
}


def meaning_of(code: int) -> Meaning:
    """What an error code means; one that is not known is for the user, unless Kafka declares it retriable."""
    if code in _LOST:
        return Meaning.LOST
    return Meaning.AGAIN if is_retriable(code) else Meaning.STUCK


def stuck_error(code: int, message: str | None, settings: GroupSettings, wanted: Wanted | None) -> KafkaError:
    """The error for the user."""
    what = f"group {settings.group_id!r}"
    if code == ErrorCode.FENCED_INSTANCE_ID:
        return MemberFenced(
            f"{what}: another consumer with group_instance_id={settings.group_instance_id!r} has taken over; each "
            f"running consumer needs a name of its own"
        )
    of_group = code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    resource, right = (settings.group_id, "READ") if of_group else ("", "")
    cause = error_for(code, f"{what}: {message or 'heartbeat'}", resource=resource, operation=right)
    advice = _ADVICE.get(code)
    if advice is None:
        return cause
    error = GroupError(
        f"{what}: "
        + advice.format(
            server_assignor=settings.server_assignor,
            message=message or "",
            pattern=None if wanted is None else wanted.pattern,
            instance_id=settings.group_instance_id,
        )
    )
    error.__cause__ = cause
    return error
