"""ShareGroupDescribe: the state and the members of share groups.

Source: org.apache.kafka.coordinator.group.GroupMetadataManager.shareGroupDescribe; KIP-932.
"""

from __future__ import annotations

from kafkaraw.broker.groups.share_assignor import NAME
from kafkaraw.broker.groups.share_group import ShareGroup, ShareMember
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_descriptions import DIVIDED, PERMISSIONS, authorize_descriptions, described
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.handlers.share_requests import NOT_ENABLED
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


def authorize(
    call: Call[ShareGroupDescribeRequest, ShareGroupDescribeResponse], request: ShareGroupDescribeRequest
) -> Reply[ShareGroupDescribeResponse]:
    """DESCRIBE on each group, and on every topic that is assigned to its members."""
    if not call.state.controller.features.has_share_groups:
        return call.go_on(request)

    def may_see_topics(group: DescribedGroup) -> bool:
        topics = {part.topic_name for member in group.members for part in member.assignment.topic_partitions}
        return all(call.may_describe_topic(name) for name in sorted(topics))

    hidden = "The group has described topic(s) that the client is not authorized to describe."
    return authorize_descriptions(call, request, _not_described, may_see_topics, hidden)


@handles(
    ShareGroupDescribeRequest,
    authorize=authorize,
    permissions=PERMISSIONS,
    divided=DIVIDED,
)
def handle(
    state: BrokerState, context: RequestContext, request: ShareGroupDescribeRequest
) -> Reply[ShareGroupDescribeResponse]:
    """Describe each."""
    if not state.controller.features.has_share_groups:
        return ShareGroupDescribeResponse(groups=[_not_described(name, NOT_ENABLED) for name in request.group_ids])
    groups = described(state, request, ShareGroup, "share", lambda group: _described(state, group), _not_described)
    return ShareGroupDescribeResponse(groups=groups)


def _described(state: BrokerState, group: ShareGroup) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
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
