"""What the error codes of a group coordinator mean to a member: one table for each protocol. Pure.

Source: Kafka's AbstractCoordinator and ConsumerCoordinator; KIP-848 and AbstractHeartbeatRequestManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from kafkaraw.core.group.events import GroupSettings, Subscription
from kafkaraw.errors import FencedInstanceIdError, GroupError, KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.error_codes import ErrorCode, error_for, is_retriable


class Meaning(Enum):
    """What a member does after an error code."""

    RETRY = auto()
    """Back off and send the request again, perhaps to another coordinator."""
    REJOIN = auto()
    """Rejoin: the group is rebalancing."""
    FENCED = auto()
    """Rejoin as a new member: the coordinator does not know the member id, or has assigned its partitions to others."""
    FENCED_GENERATION = auto()
    """Rejoin under the same member id: the group is in a later generation."""
    FATAL = auto()
    """Report the error to the application."""


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """The error codes of one protocol.

    Attributes:
        meanings: of the codes that concern the group; other codes are retried if Kafka declares them retriable.
        advice: what the user can do, if the code alone does not say so.
    """

    meanings: Mapping[int, Meaning]
    advice: Mapping[int, str]

    def meaning_of(self, code: int) -> Meaning:
        """Return what an error code means; an unknown code is fatal, unless Kafka declares it retriable."""
        return self.meanings.get(code) or (Meaning.RETRY if is_retriable(code) else Meaning.FATAL)

    def fatal_error(
        self,
        code: int,
        settings: GroupSettings,
        doing: str,
        *,
        message: str = "",
        subscription: Subscription | None = None,
    ) -> KafkaError:
        """Return the error that the application gets.

        Args:
            code: the error code of the response.
            settings: the member's settings.
            doing: what failed.
            message: the broker's error message, if it sent one.
            subscription: what the member is subscribed to.
        """
        what = f"group {settings.group_id!r}, {doing}"
        if code == ErrorCode.FENCED_INSTANCE_ID:
            return FencedInstanceIdError(
                f"{what}: another consumer with group_instance_id={settings.group_instance_id!r} has replaced this "
                "one; each "
                f"running consumer needs a name of its own"
            )
        resource, right, more = _unauthorized(code, settings, subscription)
        about = f"{what}: {message}{more}" if message else f"{what}{more}"
        cause = error_for(code, about, resource=resource, operation=right)
        advice = self.advice.get(code)
        if advice is None:
            return cause
        facts = {
            "assignors": ", ".join(assignor.name for assignor in settings.assignors),
            "message": message,
            "pattern": None if subscription is None else subscription.pattern,
        }
        error = GroupError(f"{what}: {advice.format(settings=settings, **facts)}")
        error.__cause__ = cause
        return error


def _unauthorized(code: int, settings: GroupSettings, subscription: Subscription | None) -> tuple[str, str, str]:
    """Return the resource, the operation, and a text for brokers that do not say which topic was refused."""
    topics = sorted(subscription.topics) if subscription is not None else []
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
        ErrorCode.UNKNOWN_MEMBER_ID: Meaning.FENCED,
        ErrorCode.ILLEGAL_GENERATION: Meaning.FENCED_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND: Meaning.FENCED,  # it was deleted; only commits get this code
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
CONSUMER: Final = ErrorTable(
    meanings={
        ErrorCode.UNKNOWN_MEMBER_ID: Meaning.FENCED,
        ErrorCode.FENCED_MEMBER_EPOCH: Meaning.FENCED,
        ErrorCode.GROUP_ID_NOT_FOUND: Meaning.FENCED,  # it was deleted, or its coordinator has lost its state
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
