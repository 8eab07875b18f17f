"""LeaveGroup: members go, by their own wish or by an administrator's.

Source: org.apache.kafka.common.requests.{LeaveGroupRequest, LeaveGroupResponse}.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.deferred import Deferred, answered
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_claims import coordinator_or_code
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

MANY_MEMBERS_SINCE: Final = 3


def handle(
    state: BrokerState, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Deferred[LeaveGroupResponse]:
    """Let each go."""
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return LeaveGroupResponse(error_code=coordinator)
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    many = context.api_version >= MANY_MEMBERS_SINCE
    leaving = request.members if many else [MemberIdentity(member_id=request.member_id)]

    def told(codes: list[ErrorCode]) -> LeaveGroupResponse:
        if not many:
            return LeaveGroupResponse(error_code=codes[0])
        return LeaveGroupResponse(
            error_code=ErrorCode.NONE,
            members=[
                MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code)
                for one, code in zip(leaving, codes, strict=True)
            ],
        )

    return answered(lambda done: coordinator.leave(request.group_id, leaving, lambda codes: done(told(codes))))
