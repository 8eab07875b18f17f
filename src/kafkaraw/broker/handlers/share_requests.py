"""What the handlers of share groups' requests share: the checks that come first, and Kafka's texts for them."""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.handlers.authorization import MESSAGES
from kafkaraw.protocol.error_codes import ErrorCode

GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
NOT_ENABLED: Final = ErrorCode.UNSUPPORTED_VERSION
"""The code of a request about share groups while the feature `share.version` is 0."""
MEMBER_ID_LENGTH_MAX: Final = 36
_TEXTS: Final = {
    **MESSAGES,
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
}


def message_of(code: ErrorCode) -> str | None:
    """Return Kafka's text for a code, if one is known."""
    return _TEXTS.get(code)


def is_member_id(member_id: str | None) -> bool:
    """Return whether a member id is valid: clients use the text of a UUID."""
    return member_id is not None and 0 < len(member_id) <= MEMBER_ID_LENGTH_MAX
