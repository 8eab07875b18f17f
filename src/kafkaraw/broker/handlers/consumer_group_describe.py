"""ConsumerGroupDescribe: the state and the members of groups of the consumer protocol.

Source: org.apache.kafka.coordinator.group.GroupMetadataManager.consumerGroupDescribe; KIP-848, KIP-1099.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kafkaraw.broker.groups.consumer_group import ConsumerGroup, ConsumerMember
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.describe_groups import GROUP_OPERATIONS
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1
_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse], request: ConsumerGroupDescribeRequest
) -> Reply[ConsumerGroupDescribeResponse]:
    """DESCRIBE on each group, and on every topic that its members read."""
    allowed = [name for name in request.group_ids if call.may_describe_group(name)]
    may_see = set(allowed)
    denied = [_not_described(name, _DENIED) for name in request.group_ids if name not in may_see]

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
            return _not_described(group.group_id, _TOPIC_DENIED, hidden)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = call.operations(ResourceType.GROUP, group.group_id)
        return group

    def merge(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        response.groups = [*denied, *map(seen, response.groups)]
        return response

    return call.go_on(replace(request, group_ids=allowed), merge)


@handles(
    ConsumerGroupDescribeRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DESCRIBE, ResourceType.GROUP),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),
    ),
    divided={0: Divided(("group_ids",), ("groups",))},
)
def handle(
    state: BrokerState, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Reply[ConsumerGroupDescribeResponse]:
    """Describe each."""
    groups = [_described(state, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)


def _described(state: BrokerState, group_id: str) -> DescribedGroup:
    if not group_id:
        return _not_described(group_id, ErrorCode.INVALID_GROUP_ID)
    coordinator = coordinator_or_code(state, group_id)
    if isinstance(coordinator, ErrorCode):
        return _not_described(group_id, coordinator)
    group = coordinator.group(group_id)
    if not isinstance(group, ConsumerGroup):
        missing = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return _not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, missing)
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state_label,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(state.config.groups.limits.assignors[0]),
        members=[_member(state, group, member) for member in group.members.values()],
    )


def _member(state: BrokerState, group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(state, _held(member)),
        target_assignment=_assignment(state, group.target.get(member.member_id, {})),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _held(member: ConsumerMember) -> dict[Uuid, set[int]]:
    """Return the assignment of a member, including the partitions that it has yet to revoke."""
    held: dict[Uuid, set[int]] = {}
    for parts in (member.assigned, member.revoking):
        for topic_id, partitions in parts.items():
            held.setdefault(topic_id, set()).update(partitions)
    return held


def _assignment(state: BrokerState, parts: Mapping[Uuid, Iterable[int]]) -> Assignment:
    topics = [(state.catalog.topic_by_id(topic_id), partitions) for topic_id, partitions in parts.items()]
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(partitions))
            for topic, partitions in topics
            if topic is not None
        ]
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
