"""ListGroups: the groups that this node coordinates, filtered.

Source: org.apache.kafka.coordinator.group.GroupMetadataManager.listGroups; KIP-518, KIP-848.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(state: BrokerState, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List them."""
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
