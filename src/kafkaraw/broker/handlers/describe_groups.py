"""DescribeGroups: the state and the members of classic groups.

Source: org.apache.kafka.coordinator.group.GroupMetadataManager.describeGroups; KIP-1043.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.groups.classic_group import ClassicGroup, ClassicMember
from kafkaraw.broker.groups.states import ClassicState
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import OPERATIONS_OF, AclOperation, ResourceType, operation_bits
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_SINCE: Final = 6
GROUP_OPERATIONS: Final = operation_bits(OPERATIONS_OF[ResourceType.GROUP])
OPERATIONS_SINCE: Final = 3
_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


def authorize(
    call: Call[DescribeGroupsRequest, DescribeGroupsResponse], request: DescribeGroupsRequest
) -> Reply[DescribeGroupsResponse]:
    """DESCRIBE on each group."""
    allowed = [name for name in request.groups if call.may_describe_group(name)]
    seen = set(allowed)
    denied = [_not_described(name, _DENIED) for name in request.groups if name not in seen]
    has_operations = request.include_authorized_operations and call.context.api_version >= OPERATIONS_SINCE

    def merge(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        for group in response.groups:
            if has_operations and not group.error_code:
                group.authorized_operations = call.operations(ResourceType.GROUP, group.group_id)
        response.groups[:0] = denied
        return response

    return call.go_on(replace(request, groups=allowed), merge)


@handles(
    DescribeGroupsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.GROUP),),
    divided={0: Divided(("groups",), ("groups",))},
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeGroupsRequest
) -> Reply[DescribeGroupsResponse]:
    """Describe each."""
    groups = [_described(state, context, group_id) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def _described(state: BrokerState, context: RequestContext, group_id: str) -> DescribedGroup:
    coordinator = coordinator_or_code(state, group_id)
    if isinstance(coordinator, ErrorCode):
        return _not_described(group_id, coordinator)
    group = coordinator.group(group_id)
    if not isinstance(group, ClassicGroup):
        missing = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        code = ErrorCode.GROUP_ID_NOT_FOUND if context.api_version >= NOT_FOUND_SINCE else ErrorCode.NONE
        return _not_described(group_id, code, ClassicState.DEAD.value, missing if code else None)
    stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[_member(member, group.protocol_name if stable else None) for member in group.members.values()],
    )


def _member(member: ClassicMember, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol),
        member_assignment=member.assignment,
    )


def _not_described(group_id: str, code: ErrorCode, group_state: str = "", message: str | None = None) -> DescribedGroup:
    """Return the description of a group that cannot be described."""
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=group_state,
        protocol_type="",
        protocol_data="",
        members=[],
    )
