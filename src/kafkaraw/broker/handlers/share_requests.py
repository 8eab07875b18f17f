"""What the handlers of share groups' requests share: the checks that come first, and Kafka's texts for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from kafkaraw.broker.handlers.authorization import MESSAGES, Call, client_of, is_allowed
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
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


def authorize_reading(
    call: Call[Any, Any],
    request: Any,  # noqa: ANN401 - ShareFetch or ShareAcknowledge
    refused: Callable[[ErrorCode], Any],
) -> Reply[Any]:
    """READ on the group; the handlers ask for `unreadable_topics`, since a session has topics of earlier requests.

    Args:
        call: the request.
        request: the same.
        refused: makes the response to a request without READ on the group.
    """
    if not call.state.controller.features.has_share_groups or request.group_id is None:
        return call.go_on(request)
    return call.go_on(request) if call.may_read_group(request.group_id) else refused(GROUP_DENIED)


def unreadable_topics(
    state: BrokerState, context: RequestContext, api: str, topic_ids: Iterable[Uuid]
) -> frozenset[Uuid]:
    """Return the topics that the client may not read; unknown ones are left to the handler.

    Args:
        state: the node's state.
        context: of the request.
        api: name of the API, for the log.
        topic_ids: the topics; each is checked once.
    """
    authorizer = state.catalog.authorizer
    if authorizer is None:
        return frozenset()
    client = client_of(context)
    found = {topic_id: state.catalog.topic_by_id(topic_id) for topic_id in topic_ids}
    return frozenset(
        topic_id
        for topic_id, topic in found.items()
        if topic is not None
        and not is_allowed(authorizer, client, api, AclOperation.READ, ResourceType.TOPIC, topic.name)
    )


def is_member_id(member_id: str | None) -> bool:
    """Return whether a member id is valid: clients use the text of a UUID."""
    return member_id is not None and 0 < len(member_id) <= MEMBER_ID_LENGTH_MAX
