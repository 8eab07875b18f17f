"""What the error codes of a group's coordinator mean to a member: one table for each protocol. Pure.

Source: Kafka's AbstractCoordinator and ConsumerCoordinator; KIP-848 and AbstractHeartbeatRequestManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from kafkaraw.core.group.actions import GroupSettings, Wanted
from kafkaraw.errors import GroupError, KafkaError, MemberFenced
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode, error_for, is_retriable


class Meaning(Enum):
    """What to do after an answer."""

    AGAIN = auto()
    """Ask again after a pause, perhaps another broker."""
    REJOIN = auto()
    """Join again: the group is changing."""
    LOST = auto()
    """Join as a new member: the coordinator does not know this one, or has given its partitions away."""
    LOST_GENERATION = auto()
    """Join again under the same id: the group has gone on."""
    STUCK = auto()
    """Tell the user."""


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """The error codes of one protocol.

    Attributes:
        meanings: of the codes that are about the group; for others it counts what Kafka declares retriable.
        advice: what the user can do, where the code alone does not tell.
    """

    meanings: Mapping[int, Meaning]
    advice: Mapping[int, str]

    def meaning_of(self, code: int) -> Meaning:
        """What an error code means; one that is not known is for the user, unless Kafka declares it retriable."""
        return self.meanings.get(code) or (Meaning.AGAIN if is_retriable(code) else Meaning.STUCK)

    def stuck_error(
        self, code: int, settings: GroupSettings, doing: str, *, message: str = "", wanted: Wanted | None = None
    ) -> KafkaError:
        """The error for the user.

        Args:
            code: what was answered.
            settings: of the member.
            doing: what failed.
            message: the broker's, when it sent one.
            wanted: what was subscribed to.
        """
        what = f"group {settings.group_id!r}, {doing}"
        if code == ErrorCode.FENCED_INSTANCE_ID:
            return MemberFenced(
                f"{what}: another consumer with group_instance_id={settings.group_instance_id!r} has taken over; each "
                f"running consumer needs a name of its own"
            )
        resource, right, more = _forbidden(code, settings, wanted)
        about = f"{what}: {message}{more}" if message else f"{what}{more}"
        cause = error_for(code, about, resource=resource, operation=right)
        advice = self.advice.get(code)
        if advice is None:
            return cause
        facts = {
            "assignors": ", ".join(assignor.name for assignor in settings.assignors),
            "message": message,
            "pattern": None if wanted is None else wanted.pattern,
        }
        error = GroupError(f"{what}: {advice.format(settings=settings, **facts)}")
        error.__cause__ = cause
        return error


def _forbidden(code: int, settings: GroupSettings, wanted: Wanted | None) -> tuple[str, str, str]:
    """What somebody may not do: the resource, the right, and words when brokers do not say which resource."""
    topics = sorted(wanted.topics) if wanted is not None else []
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return settings.group_id, "READ", ""
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and len(topics) == 1:
        return topics[0], "DESCRIBE", ""
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and topics:
        return "", "", f"; one of the topics {', '.join(topics)}, on each of which it takes DESCRIBE"
    return "", "", ""


CLASSIC: Final = ErrorTable(
    meanings={
        ErrorCode.REBALANCE_IN_PROGRESS: Meaning.REJOIN,
        ErrorCode.UNKNOWN_MEMBER_ID: Meaning.LOST,
        ErrorCode.ILLEGAL_GENERATION: Meaning.LOST_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND: Meaning.LOST,  # somebody has deleted it: a commit is told so
    },
    advice={
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
            "the other members know none of this one's assignors ({assignors}), or they are no consumers, or use the "
            "protocol of KIP-848; set partition_assignment_strategy, or group_protocol, as theirs"
        ),
        ErrorCode.INVALID_SESSION_TIMEOUT: (
            "session_timeout_ms={settings.session_timeout_ms} is outside of the broker's group.min.session.timeout.ms "
            "and group.max.session.timeout.ms"
        ),
        ErrorCode.INVALID_GROUP_ID: "group_id={settings.group_id!r} is not a name that the broker takes",
        ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.max.size allows",
    },
)
MODERN: Final = ErrorTable(
    meanings={
        ErrorCode.UNKNOWN_MEMBER_ID: Meaning.LOST,
        ErrorCode.FENCED_MEMBER_EPOCH: Meaning.LOST,
        ErrorCode.GROUP_ID_NOT_FOUND: Meaning.LOST,  # it was deleted, or its coordinator has lost what it knew
    },
    advice={
        ErrorCode.UNSUPPORTED_VERSION: "the broker does not have the protocol of KIP-848; use group_protocol='classic'",
        ErrorCode.UNSUPPORTED_ASSIGNOR: (
            "the broker has no assignor group_remote_assignor={settings.server_assignor!r}: {message}"
        ),
        ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.consumer.max.size allows",
        ErrorCode.INVALID_REGULAR_EXPRESSION: "pattern {pattern!r} is not a regular expression of RE2: {message}",
        ErrorCode.UNRELEASED_INSTANCE_ID: (
            "group_instance_id={settings.group_instance_id!r} is in use by another consumer; each needs a name of its "
            "own: {message}"
        ),
    },
)
