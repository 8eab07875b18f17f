"""LeaveGroup: remove members, at their own request or that of an administrator.

Source: org.apache.kafka.common.requests.{LeaveGroupRequest, LeaveGroupResponse}.
"""

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
from kafkaraw.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

MANY_MEMBERS_SINCE: Final = 3


def authorize(
    call: Call[LeaveGroupRequest, LeaveGroupResponse], request: LeaveGroupRequest
) -> Reply[LeaveGroupResponse]:
    """READ on the group."""
    if call.may_read_group(request.group_id):
        return call.go_on(request)
    return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)


@handles(
    LeaveGroupRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.READ, ResourceType.GROUP),),
)
def handle(state: BrokerState, context: RequestContext, request: LeaveGroupRequest) -> Reply[LeaveGroupResponse]:
    """Remove each member."""
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return LeaveGroupResponse(error_code=coordinator)
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    many = context.api_version >= MANY_MEMBERS_SINCE
    leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]

    def response(codes: list[ErrorCode]) -> LeaveGroupResponse:
        if not many:
            return LeaveGroupResponse(error_code=codes[0])
        return LeaveGroupResponse(
            error_code=ErrorCode.NONE,
            members=[
                MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
                for one, code in zip(leaving, codes, strict=True)
            ],
        )

    return answered(lambda done: coordinator.leave(request.group_id, leaving, lambda codes: done(response(codes))))
