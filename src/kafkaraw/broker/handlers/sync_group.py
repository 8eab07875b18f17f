"""SyncGroup: the leader sends the assignment; each member waits for its own."""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_NAMED_SINCE: Final = 5


def authorize(call: Call[SyncGroupRequest, SyncGroupResponse], request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
    """READ on the group; the handler refuses a request without the protocol."""
    if _lacks_protocol(request, call.context.api_version):
        return call.go_on(request)
    if call.may_read_group(request.group_id):
        return call.go_on(request)
    return SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, assignment=b"")


@handles(
    SyncGroupRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.READ, ResourceType.GROUP),),
)
def handle(state: BrokerState, context: RequestContext, request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
    """Let the member wait for its assignment."""
    if _lacks_protocol(request, context.api_version):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return SyncGroupResponse(error_code=coordinator, assignment=b"")
    return answered(lambda done: coordinator.sync(request, done))


def _lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Return whether a request lacks the required type and name of the protocol."""
    return version >= PROTOCOL_NAMED_SINCE and (request.protocol_type is None or request.protocol_name is None)
