"""SyncGroup: hand in an assignment, or wait for one's own."""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.deferred import Deferred, answered
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_claims import coordinator_or_code
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_NAMED_SINCE: Final = 5


def handle(
    state: BrokerState, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Deferred[SyncGroupResponse]:
    """Let the client wait for its part."""
    if lacks_protocol(request, context.api_version):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return SyncGroupResponse(error_code=coordinator, assignment=b"")
    return answered(lambda done: coordinator.sync(request, done))


def lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Whether a request does not name type and name of the protocol, as it has to."""
    return version >= PROTOCOL_NAMED_SINCE and (request.protocol_type is None or request.protocol_name is None)
