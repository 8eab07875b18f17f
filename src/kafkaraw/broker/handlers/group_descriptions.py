"""What the handlers share that describe groups of one type: consumer, share and streams groups.

A client may describe a group with DESCRIBE on it, and on every topic that the description names. Start at
`authorize_descriptions` and `described`.
Source: kafka.server.KafkaApis.{handleConsumerGroupDescribe, handleShareGroupDescribe, handleStreamsGroupDescribe}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.describe_groups import GROUP_OPERATIONS
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode

PERMISSIONS: Final = (
    Permission(AclOperation.DESCRIBE, ResourceType.GROUP),
    Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),
)
DIVIDED: Final = {0: Divided(("group_ids",), ("groups",))}
_GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Request(Protocol):
    """A request of one of these APIs."""

    group_ids: list[str]
    include_authorized_operations: bool


class Description(Protocol):
    """The description of a group in its response."""

    error_code: int
    group_id: str
    authorized_operations: int


D = TypeVar("D", bound=Description)
G = TypeVar("G")
Q = TypeVar("Q", bound=Request)
NotDescribed = Callable[[str, ErrorCode, str | None], D]
"""Makes the description of a group that cannot be described: its id, the error code, and a message."""


def authorize_descriptions(
    call: Call[Q, Any],
    request: Q,
    not_described: NotDescribed[D],
    may_see_topics: Callable[[D], bool],
    hidden: str,
) -> Reply[Any]:
    """Call the handler with the groups that the client may describe, and add errors for the others.

    Args:
        call: the request.
        request: the same.
        not_described: makes the description of a denied group.
        may_see_topics: whether the client may describe all topics that a description names.
        hidden: the message if it may not.
    """
    allowed = [name for name in request.group_ids if call.may_describe_group(name)]
    may_see = set(allowed)
    denied = [not_described(name, _GROUP_DENIED, None) for name in request.group_ids if name not in may_see]

    def seen(group: D) -> D:
        if not may_see_topics(group):
            return not_described(group.group_id, _TOPIC_DENIED, hidden)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = call.operations(ResourceType.GROUP, group.group_id)
        return group

    def merge(response: Any) -> Any:  # noqa: ANN401 - one of three responses
        response.groups = [*denied, *map(seen, response.groups)]
        return response

    return call.go_on(replace(request, group_ids=allowed), merge)  # type: ignore[type-var]


def described(
    state: BrokerState,
    request: Request,
    kind: type[G],
    name: str,
    describe: Callable[[G], D],
    not_described: NotDescribed[D],
) -> list[D]:
    """Describe the groups of a request that this node coordinates.

    Args:
        state: the node's state.
        request: names the groups.
        kind: the class of groups of this type.
        name: of the type, for messages.
        describe: describes a group.
        not_described: makes the description of a group that cannot be described.
    """
    groups = [_described(state, group_id, kind, name, describe, not_described) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return groups


def _described(
    state: BrokerState,
    group_id: str,
    kind: type[G],
    name: str,
    describe: Callable[[G], D],
    not_described: NotDescribed[D],
) -> D:
    if not group_id:
        return not_described(group_id, ErrorCode.INVALID_GROUP_ID, None)
    coordinator = coordinator_or_code(state, group_id)
    if isinstance(coordinator, ErrorCode):
        return not_described(group_id, coordinator, None)
    group = coordinator.group(group_id)
    if not isinstance(group, kind):
        missing = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a {name} group."
        return not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, missing)
    return describe(group)
