"""ListGroups: the groups that this node coordinates, filtered.

Source: org.apache.kafka.coordinator.group.GroupMetadataManager.listGroups; KIP-518, KIP-848.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def authorize(
    call: Call[ListGroupsRequest, ListGroupsResponse], request: ListGroupsRequest
) -> Reply[ListGroupsResponse]:
    """DESCRIBE on the cluster; without it, groups without DESCRIBE are left out."""
    sees_all = call.allows_on_cluster(AclOperation.DESCRIBE, log_denial=False)

    def merge(response: ListGroupsResponse) -> ListGroupsResponse:
        if not sees_all:
            response.groups = [
                group for group in response.groups if call.may_describe_group(group.group_id, log_denial=False)
            ]
        return response

    return call.go_on(request, merge)


@handles(
    ListGroupsRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DESCRIBE, ResourceType.CLUSTER),
        Permission(AclOperation.DESCRIBE, ResourceType.GROUP, "or"),
    ),
    note="entries without the permission are left out",
)
def handle(state: BrokerState, context: RequestContext, request: ListGroupsRequest) -> Reply[ListGroupsResponse]:
    """List the groups."""
    states = {name.lower().strip() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    groups = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state_label,
            group_type=group.type.label,
        )
        for coordinator in state.groups.hosted()
        for group in coordinator.groups()
        if (not states or group.state_label.lower() in states) and (not types or group.type.value in types)
    ]
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)
