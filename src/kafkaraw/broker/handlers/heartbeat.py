"""Heartbeat: a member of a classic group lives, and is told whether to join again."""

from __future__ import annotations

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_claims import coordinator_or_code
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(state: BrokerState, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Note that it lives."""
    coordinator = coordinator_or_code(state, request.group_id)
    if coordinator is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse(error_code=ErrorCode.NONE)  # the member will be found, and need not worry meanwhile
    code = coordinator if isinstance(coordinator, ErrorCode) else coordinator.heartbeat(request)
    return HeartbeatResponse(error_code=code)
