"""ConsumerGroupHeartbeat: membership of a group of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.groups.consumer_requests import refused
from kafkaraw.broker.handlers.authorization import MESSAGES, Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import caller_of, coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse], request: ConsumerGroupHeartbeatRequest
) -> Reply[ConsumerGroupHeartbeatResponse]:
    """READ on the group, and DESCRIBE on every topic that is named."""
    if not call.may_read_group(request.group_id):
        return refused(_DENIED, MESSAGES[_DENIED])
    names = request.subscribed_topic_names or []
    if not all([call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names]):
        return refused(_TOPIC_DENIED, MESSAGES[_TOPIC_DENIED])
    return call.go_on(request)


@handles(
    ConsumerGroupHeartbeatRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.READ, ResourceType.GROUP),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),
    ),
)
def handle(
    state: BrokerState, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Reply[ConsumerGroupHeartbeatResponse]:
    """Handle the heartbeat; the response has the member's assignment."""
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return refused(coordinator)
    return answered(lambda done: coordinator.consumer_heartbeat(request, caller_of(state, context), done))
