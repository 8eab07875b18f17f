"""ConsumerGroupDescribe: the state and the members of groups of the consumer protocol.

Source: org.apache.kafka.coordinator.group.GroupMetadataManager.consumerGroupDescribe; KIP-848, KIP-1099.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkaraw.broker.groups.consumer_group import ConsumerGroup, ConsumerMember
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_descriptions import DIVIDED, PERMISSIONS, authorize_descriptions, described
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import Uuid
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


def authorize(
    call: Call[ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse], request: ConsumerGroupDescribeRequest
) -> Reply[ConsumerGroupDescribeResponse]:
    """DESCRIBE on each group, and on every topic that its members read."""

    def may_see_topics(group: DescribedGroup) -> bool:
        topics = {
            part.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for part in assignment.topic_partitions
        }
        topics.update(name for member in group.members for name in member.subscribed_topic_names)
        return all(call.may_describe_topic(name) for name in sorted(topics))

    hidden = "The group has described topic(s) that the client is not authorized to describe."
    return authorize_descriptions(call, request, _not_described, may_see_topics, hidden)


@handles(
    ConsumerGroupDescribeRequest,
    authorize=authorize,
    permissions=PERMISSIONS,
    divided=DIVIDED,
)
def handle(
    state: BrokerState, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Reply[ConsumerGroupDescribeResponse]:
    """Describe each."""
    groups = described(
        state, request, ConsumerGroup, "consumer", lambda group: _described(state, group), _not_described
    )
    return ConsumerGroupDescribeResponse(groups=groups)


def _described(state: BrokerState, group: ConsumerGroup) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
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
