"""DeleteGroups: delete groups without members, and their committed offsets.

Source: kafka.server.KafkaApis.handleDeleteGroupsRequest; KIP-229.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


def authorize(
    call: Call[DeleteGroupsRequest, DeleteGroupsResponse], request: DeleteGroupsRequest
) -> Reply[DeleteGroupsResponse]:
    """DELETE on each group."""
    names = list(dict.fromkeys(request.groups_names))
    allowed = [name for name in names if call.allows(AclOperation.DELETE, ResourceType.GROUP, name)]
    seen = set(allowed)

    def merge(response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        response.results.extend(
            DeletableGroupResult(group_id=name, error_code=_DENIED) for name in names if name not in seen
        )
        return response

    return call.go_on(replace(request, groups_names=allowed), merge)


@handles(
    DeleteGroupsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.DELETE, ResourceType.GROUP),),
    divided={0: Divided(("groups_names",), ("results",), unique=lambda name: name)},
)
def handle(state: BrokerState, context: RequestContext, request: DeleteGroupsRequest) -> Reply[DeleteGroupsResponse]:
    """Delete each group; answered when all tombstones are replicated."""
    return answered(lambda done: _delete(state, list(dict.fromkeys(request.groups_names)), done))


def _delete(state: BrokerState, names: list[str], done: Callable[[DeleteGroupsResponse], None]) -> None:
    codes: dict[str, ErrorCode] = {}

    def note(name: str, code: ErrorCode) -> None:
        codes[name] = code
        if len(codes) == len(names):
            results = [DeletableGroupResult(group_id=name, error_code=codes[name]) for name in names]
            done(DeleteGroupsResponse(results=results))

    for name in names:
        coordinator = coordinator_or_code(state, name)
        if isinstance(coordinator, ErrorCode):
            note(name, coordinator)
        else:
            coordinator.delete_group(name, lambda code, name=name: note(name, code))  # type: ignore[misc]
    if not names:
        done(DeleteGroupsResponse(results=[]))
