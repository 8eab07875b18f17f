"""ShareGroupDescribe: the state and the members of share groups.

Source: org.apache.kafka.coordinator.group.GroupMetadataManager.shareGroupDescribe; KIP-932.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.groups.share_assignor import NAME
from kafkaraw.broker.groups.share_group import ShareGroup, ShareMember
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.describe_groups import GROUP_OPERATIONS
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.handlers.share_requests import GROUP_DENIED, NOT_ENABLED
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[ShareGroupDescribeRequest, ShareGroupDescribeResponse], request: ShareGroupDescribeRequest
) -> Reply[ShareGroupDescribeResponse]:
    """DESCRIBE on each group, and on every topic that is assigned to its members."""
    if not call.state.controller.features.has_share_groups:
        return call.go_on(request)
    allowed = [name for name in request.group_ids if call.may_describe_group(name)]
    may_see = set(allowed)
    denied = [_not_described(name, GROUP_DENIED) for name in request.group_ids if name not in may_see]

    def seen(group: DescribedGroup) -> DescribedGroup:
        topics = {part.topic_name for member in group.members for part in member.assignment.topic_partitions}
        if not all(call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in sorted(topics)):
            hidden = "The group has described topic(s) that the client is not authorized to describe."
            return _not_described(group.group_id, _TOPIC_DENIED, hidden)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = call.operations(ResourceType.GROUP, group.group_id)
        return group

    def merge(response: ShareGroupDescribeResponse) -> ShareGroupDescribeResponse:
        response.groups = [*denied, *map(seen, response.groups)]
        return response

    return call.go_on(replace(request, group_ids=allowed), merge)


@handles(
    ShareGroupDescribeRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DESCRIBE, ResourceType.GROUP),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),
    ),
    divided={0: Divided(("group_ids",), ("groups",))},
)
def handle(
    state: BrokerState, context: RequestContext, request: ShareGroupDescribeRequest
) -> Reply[ShareGroupDescribeResponse]:
    """Describe each."""
    if not state.controller.features.has_share_groups:
        return ShareGroupDescribeResponse(groups=[_not_described(name, NOT_ENABLED) for name in request.group_ids])
    groups = [_described(state, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ShareGroupDescribeResponse(groups=groups)


def _described(state: BrokerState, group_id: str) -> DescribedGroup:
    if not group_id:
        return _not_described(group_id, ErrorCode.INVALID_GROUP_ID)
    coordinator = coordinator_or_code(state, group_id)
    if isinstance(coordinator, ErrorCode):
        return _not_described(group_id, coordinator)
    group = coordinator.group(group_id)
    if not isinstance(group, ShareGroup):
        missing = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a share group."
        return _not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, missing)
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state_label,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=NAME,
        members=[_member(state, member) for member in group.members.values()],
    )


def _member(state: BrokerState, member: ShareMember) -> Member:
    topics = [(state.catalog.topic_by_id(topic_id), partitions) for topic_id, partitions in member.assigned.items()]
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(partitions))
                for topic, partitions in topics
                if topic is not None
            ]
        ),
    )


def _not_described(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedGroup:
    """Return the description of a group that cannot be described."""
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
