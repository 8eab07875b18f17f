"""DeleteGroups: groups without members go, and their positions.

Source: kafka.server.KafkaApis.handleDeleteGroupsRequest; KIP-229.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkaraw.broker.deferred import Deferred, answered
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_claims import coordinator_or_code
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(
    state: BrokerState, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Deferred[DeleteGroupsResponse]:
    """Delete each; answered when none of them can come back."""
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
