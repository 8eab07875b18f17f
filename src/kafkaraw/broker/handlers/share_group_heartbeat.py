"""ShareGroupHeartbeat: membership of a share group (KIP-932).

Source: kafka.server.KafkaApis.handleShareGroupHeartbeat.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.groups.share import refused
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import caller_of, coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.handlers.share_requests import (
    GROUP_DENIED,
    NOT_ENABLED,
    is_member_id,
)
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse], request: ShareGroupHeartbeatRequest
) -> Reply[ShareGroupHeartbeatResponse]:
    """READ on the group, and DESCRIBE on every topic that is named."""
    if not call.state.controller.features.has_share_groups:
        return call.go_on(request)
    if not call.may_read_group(request.group_id):
        return refused(GROUP_DENIED)
    if not is_member_id(request.member_id):
        return call.go_on(request)
    names = request.subscribed_topic_names or []
    if not all([call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names]):
        return refused(_TOPIC_DENIED)
    return call.go_on(request)


@handles(
    ShareGroupHeartbeatRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.READ, ResourceType.GROUP),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),
    ),
)
def handle(
    state: BrokerState, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Reply[ShareGroupHeartbeatResponse]:
    """Handle the heartbeat; the response has the member's assignment."""
    if not state.controller.features.has_share_groups:
        return refused(NOT_ENABLED)
    if not is_member_id(request.member_id):
        return refused(ErrorCode.INVALID_REQUEST)
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return refused(coordinator)
    return answered(lambda done: coordinator.share_heartbeat(request, caller_of(state, context), done))
