"""Heartbeat: keep a member of a classic group alive; the response says whether it has to rejoin."""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def authorize(call: Call[HeartbeatRequest, HeartbeatResponse], request: HeartbeatRequest) -> Reply[HeartbeatResponse]:
    """READ on the group."""
    if call.may_read_group(request.group_id):
        return call.go_on(request)
    return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)


@handles(
    HeartbeatRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.READ, ResourceType.GROUP),),
)
def handle(state: BrokerState, context: RequestContext, request: HeartbeatRequest) -> Reply[HeartbeatResponse]:
    """Restart the member's session timeout."""
    coordinator = coordinator_or_code(state, request.group_id)
    if coordinator is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse(error_code=ErrorCode.NONE)  # the member need not rejoin
    code = coordinator if isinstance(coordinator, ErrorCode) else coordinator.heartbeat(request)
    return HeartbeatResponse(error_code=code)
