"""ConsumerGroupHeartbeat: membership of a consumer group of the new protocol (KIP-848)."""

from __future__ import annotations

from kafkaraw.broker.deferred import Deferred, answered
from kafkaraw.broker.groups.consumer_requests import refused
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_claims import caller_of, coordinator_or_code
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    state: BrokerState, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Deferred[ConsumerGroupHeartbeatResponse]:
    """Tell the member what it is to read."""
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return refused(coordinator)
    return answered(lambda done: coordinator.beat(request, caller_of(state, context), done))
