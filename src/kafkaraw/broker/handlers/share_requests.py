"""What the handlers of share groups' requests share: the checks that come first, and Kafka's texts for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from kafkaraw.broker.handlers.authorization import MESSAGES, Call
from kafkaraw.broker.replies import Reply
from kafkaraw.light_classes import replace
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.acl_codes import AclOperation
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


class TopicById(Protocol):
    """A topic in ShareFetch or ShareAcknowledge."""

    topic_id: Uuid


T = TypeVar("T", bound=TopicById)


def authorize_reading(
    call: Call[Any, Any],
    request: Any,  # noqa: ANN401 - ShareFetch or ShareAcknowledge
    denied_topic: Callable[[T], object],
    refused: Callable[[ErrorCode], Any],
) -> Reply[Any]:
    """READ on the group, and on each topic.

    Args:
        call: the request.
        request: the same.
        denied_topic: makes the response for a topic without READ.
        refused: makes the response to a request without READ on the group.
    """
    if not call.state.controller.features.has_share_groups or request.group_id is None:
        return call.go_on(request)
    if not call.may_read_group(request.group_id):
        return refused(GROUP_DENIED)

    def name_of(topic: T) -> str | None:
        found = call.state.catalog.topic_by_id(topic.topic_id)
        return None if found is None else found.name

    allowed, denied = call.divide(request.topics, AclOperation.READ, name_of)

    def merge(response: Any) -> Any:  # noqa: ANN401 - its response
        if not response.error_code:
            response.responses += [denied_topic(topic) for topic in denied]
        return response

    return call.go_on(replace(request, topics=allowed), merge)


def is_member_id(member_id: str | None) -> bool:
    """Return whether a member id is valid: clients use the text of a UUID."""
    return member_id is not None and 0 < len(member_id) <= MEMBER_ID_LENGTH_MAX
