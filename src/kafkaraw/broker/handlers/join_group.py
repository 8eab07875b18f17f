"""JoinGroup: join a classic group; answered when all members have joined."""

from __future__ import annotations

from kafkaraw.broker.groups.classic_group import refused_join
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import caller_of, coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_SINCE = 7


def authorize(call: Call[JoinGroupRequest, JoinGroupResponse], request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
    """READ on the group."""
    if call.may_read_group(request.group_id):
        return call.go_on(request)
    return _in_version(refused_join(ErrorCode.GROUP_AUTHORIZATION_FAILED), call.context)


@handles(
    JoinGroupRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.READ, ResourceType.GROUP),),
)
def handle(state: BrokerState, context: RequestContext, request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
    """Add the client to the group."""
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return _in_version(refused_join(coordinator, request.member_id), context)
    return answered(
        lambda done: coordinator.join(
            request, caller_of(state, context), lambda response: done(_in_version(response, context))
        )
    )


def _in_version(response: JoinGroupResponse, context: RequestContext) -> JoinGroupResponse:
    """Convert a response to the request's version."""
    if context.api_version < NULL_PROTOCOL_SINCE and response.protocol_name is None:
        response.protocol_name = ""
    return response
