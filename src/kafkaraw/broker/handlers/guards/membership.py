"""Guards of the APIs about members of groups, and about groups as a whole.

Source: kafka.server.KafkaApis.{handleJoinGroupRequest, handleDescribeGroupsRequest} and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.broker.deferred import after
from kafkaraw.broker.groups.classic_group import refused_join
from kafkaraw.broker.groups.consumer_requests import refused
from kafkaraw.broker.handlers.consumer_group_describe import nothing as undescribed
from kafkaraw.broker.handlers.describe_groups import nothing
from kafkaraw.broker.handlers.guards.call import MESSAGES, Call
from kafkaraw.broker.handlers.join_group import worded
from kafkaraw.broker.handlers.sync_group import lacks_protocol
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kafkaraw.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkaraw.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kafkaraw.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkaraw.protocol.messages.join_group import JoinGroupRequest
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkaraw.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkaraw.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

OPERATIONS_SINCE: Final = 3
_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def join_group(call: Call, request: JoinGroupRequest) -> object:
    """READ on the group."""
    if call.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return call.go_on(request)
    return worded(refused_join(_DENIED), call.context)


def sync_group(call: Call, request: SyncGroupRequest) -> object:
    """READ on the group; who does not name the protocol is refused before."""
    if lacks_protocol(request, call.context.api_version):
        return call.go_on(request)
    return _read_group(call, request, lambda code: SyncGroupResponse(error_code=code, assignment=b""))


def heartbeat(call: Call, request: HeartbeatRequest) -> object:
    """READ on the group."""
    return _read_group(call, request, lambda code: HeartbeatResponse(error_code=code))


def leave_group(call: Call, request: LeaveGroupRequest) -> object:
    """READ on the group."""
    return _read_group(call, request, lambda code: LeaveGroupResponse(error_code=code))


def _read_group(
    call: Call,
    request: SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest,
    refused: Callable[[ErrorCode], object],
) -> object:
    if call.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return call.go_on(request)
    return refused(_DENIED)


def describe_groups(call: Call, request: DescribeGroupsRequest) -> object:
    """DESCRIBE on each group."""
    allowed = [name for name in request.groups if call.allows(AclOperation.DESCRIBE, ResourceType.GROUP, name)]
    seen = set(allowed)
    denied = [nothing(name, _DENIED) for name in request.groups if name not in seen]
    tells = request.include_authorized_operations and call.context.api_version >= OPERATIONS_SINCE

    def merge(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        for group in response.groups:
            if tells and not group.error_code:
                group.authorized_operations = call.operations(ResourceType.GROUP, group.group_id)
        response.groups[:0] = denied
        return response

    return after(call.go_on(replace(request, groups=allowed)), merge)


def list_groups(call: Call, request: ListGroupsRequest) -> object:
    """DESCRIBE on the cluster; without it, groups without DESCRIBE are left out."""
    sees_all = call.allows_on_cluster(AclOperation.DESCRIBE, log_denial=False)

    def merge(response: ListGroupsResponse) -> ListGroupsResponse:
        if not sees_all:
            response.groups = [group for group in response.groups if _may_see(call, group.group_id)]
        return response

    return after(call.go_on(request), merge)


def _may_see(call: Call, group_id: str) -> bool:
    return call.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id, log_denial=False)


def delete_groups(call: Call, request: DeleteGroupsRequest) -> object:
    """DELETE on each group."""
    names = list(dict.fromkeys(request.groups_names))
    allowed = [name for name in names if call.allows(AclOperation.DELETE, ResourceType.GROUP, name)]
    seen = set(allowed)

    def merge(response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        response.results.extend(
            DeletableGroupResult(group_id=name, error_code=_DENIED) for name in names if name not in seen
        )
        return response

    return after(call.go_on(replace(request, groups_names=allowed)), merge)


def offset_delete(call: Call, request: OffsetDeleteRequest) -> object:
    """DELETE on the group, and READ on each topic."""
    if not call.allows(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=_DENIED, topics=[])
    allowed, refused = call.divide(request.topics, AclOperation.READ, lambda topic: topic.name)
    denied = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]

    def merge(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if not response.error_code:
            response.topics[:0] = denied
        return response

    return after(call.go_on(replace(request, topics=allowed)), merge)


def consumer_group_heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> object:
    """READ on the group, and DESCRIBE on every topic that is named."""
    if not call.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return refused(_DENIED, MESSAGES[_DENIED])
    names = request.subscribed_topic_names or []
    if not all([call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names]):
        return refused(_TOPIC_DENIED, MESSAGES[_TOPIC_DENIED])
    return call.go_on(request)


def consumer_group_describe(call: Call, request: ConsumerGroupDescribeRequest) -> object:
    """DESCRIBE on each group, and on every topic that its members read."""
    allowed = [name for name in request.group_ids if call.allows(AclOperation.DESCRIBE, ResourceType.GROUP, name)]
    may_see = set(allowed)
    denied = [undescribed(name, _DENIED) for name in request.group_ids if name not in may_see]

    def seen(group: DescribedGroup) -> DescribedGroup:
        topics = {
            part.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for part in assignment.topic_partitions
        }
        topics.update(name for member in group.members for name in member.subscribed_topic_names)
        if not all(call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in sorted(topics)):
            hidden = "The group has described topic(s) that the client is not authorized to describe."
            return undescribed(group.group_id, _TOPIC_DENIED, hidden)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = call.operations(ResourceType.GROUP, group.group_id)
        return group

    def merge(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        response.groups = [*denied, *map(seen, response.groups)]
        return response

    return after(call.go_on(replace(request, group_ids=allowed)), merge)
