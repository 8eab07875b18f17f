"""JoinGroup: become a member of a classic group; answered when all members have joined."""

from __future__ import annotations

from kafkaraw.broker.deferred import Deferred, answered
from kafkaraw.broker.groups.classic_group import refused_join
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_claims import caller_of, coordinator_or_code
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_SINCE = 7


def handle(
    state: BrokerState, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Deferred[JoinGroupResponse]:
    """Let the client join."""
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return worded(refused_join(coordinator, request.member_id), context)
    return answered(
        lambda done: coordinator.join(
            request, caller_of(state, context), lambda response: done(worded(response, context))
        )
    )


def worded(response: JoinGroupResponse, context: RequestContext) -> JoinGroupResponse:
    """An answer as older versions can say it."""
    if context.api_version < NULL_PROTOCOL_SINCE and response.protocol_name is None:
        response.protocol_name = ""
    return response
