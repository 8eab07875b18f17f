"""DescribeShareGroupOffsets: the start offsets and the lag of share groups.

Source: KIP-932, KIP-1226; org.apache.kafka.coordinator.group.GroupCoordinatorService.describeShareGroupOffsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from kafkaraw.broker.groups.share import Failure, StateSummary
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.handlers.share_requests import GROUP_DENIED, NOT_ENABLED, message_of
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kafkaraw.records import TopicPartition

UNKNOWN: Final = -1
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_Done = Callable[[DescribeShareGroupOffsetsResponseGroup], None]
_Summaries = Mapping[tuple[Uuid, int], StateSummary | Failure]


def authorize(
    call: Call[DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse],
    request: DescribeShareGroupOffsetsRequest,
) -> Reply[DescribeShareGroupOffsetsResponse]:
    """DESCRIBE on each group, and on its topics."""
    if not call.state.controller.features.has_share_groups:
        return call.go_on(request)
    allowed = [group for group in request.groups if call.may_describe_group(group.group_id)]
    denied = [
        _not_described(group.group_id, GROUP_DENIED)
        for group in request.groups
        if not any(group is other for other in allowed)
    ]
    hidden: dict[str, list[DescribeShareGroupOffsetsResponseTopic]] = {}
    asked = []
    for group in allowed:
        topics, refused = call.divide(group.topics or (), AclOperation.DESCRIBE, lambda topic: topic.topic_name)
        asked.append(group if group.topics is None else replace(group, topics=topics))
        hidden[group.group_id] = [_denied_topic(topic.topic_name, topic.partitions) for topic in refused]

    def merge(response: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
        for group in response.groups:
            if not group.error_code:
                group.topics = [topic for topic in group.topics if call.may_describe_topic(topic.topic_name)]
                group.topics += hidden.get(group.group_id, [])
        response.groups += denied
        return response

    return call.go_on(replace(request, groups=asked), merge)


def _denied_topic(name: str, partitions: Sequence[int]) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=ZERO_UUID,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=partition,
                start_offset=UNKNOWN,
                leader_epoch=0,
                error_code=_TOPIC_DENIED,
                error_message=message_of(_TOPIC_DENIED),
            )
            for partition in partitions
        ],
    )


@handles(
    DescribeShareGroupOffsetsRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DESCRIBE, ResourceType.GROUP),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, "partitions of other topics are left out"),
    ),
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Reply[DescribeShareGroupOffsetsResponse]:
    """Describe the offsets of each group."""
    if not state.controller.features.has_share_groups:
        return DescribeShareGroupOffsetsResponse(
            groups=[_not_described(group.group_id, NOT_ENABLED) for group in request.groups]
        )

    def begin(done: Callable[[DescribeShareGroupOffsetsResponse], None]) -> None:
        found: dict[int, DescribeShareGroupOffsetsResponseGroup] = {}

        def note(at: int, group: DescribeShareGroupOffsetsResponseGroup) -> None:
            found[at] = group
            if len(found) == len(request.groups):
                done(DescribeShareGroupOffsetsResponse(groups=[found[each] for each in sorted(found)]))

        for at, group in enumerate(request.groups):
            _describe(state, group, partial(note, at))
        if not request.groups:
            done(DescribeShareGroupOffsetsResponse(groups=[]))

    return answered(begin)


def _describe(state: BrokerState, asked: DescribeShareGroupOffsetsRequestGroup, done: _Done) -> None:
    coordinator = coordinator_or_code(state, asked.group_id)
    if isinstance(coordinator, ErrorCode):
        done(_not_described(asked.group_id, coordinator))
        return
    wanted: dict[Uuid, Sequence[int]] = {}
    missing = []
    if asked.topics is None:
        wanted.update(
            (topic_id, sorted(partitions))
            for topic_id, partitions in coordinator.share_offsets.initialized(asked.group_id).items()
        )
    for topic in asked.topics or ():
        found = state.catalog.topic(topic.topic_name)
        if found is None:
            missing.append(_no_topic(topic.topic_name, topic.partitions))
        else:
            wanted[found.topic_id] = topic.partitions
    answer = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=[], error_code=ErrorCode.NONE)
    if not wanted:
        answer.topics = missing
        done(answer)
        return

    def summarized(summaries: _Summaries) -> None:
        for topic_id, partitions in wanted.items():
            topic = state.catalog.topic_by_id(topic_id)
            if topic is not None:
                answer.topics.append(
                    DescribeShareGroupOffsetsResponseTopic(
                        topic_name=topic.name,
                        topic_id=topic_id,
                        partitions=[
                            _partition(state, TopicPartition(topic.name, partition), summaries[topic_id, partition])
                            for partition in partitions
                        ],
                    )
                )
        answer.topics += missing
        done(answer)

    coordinator.share_offsets.summaries(
        asked.group_id, {topic_id: frozenset(partitions) for topic_id, partitions in wanted.items()}, summarized
    )


def _partition(
    state: BrokerState, key: TopicPartition, summary: StateSummary | Failure
) -> DescribeShareGroupOffsetsResponsePartition:
    """Describe a share partition; as in Kafka, one without a state has no error."""
    if isinstance(summary, Failure):
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=key.partition, start_offset=UNKNOWN, leader_epoch=0, error_code=ErrorCode.NONE
        )
    lag = UNKNOWN
    if summary.start_offset >= 0 and summary.complete_count >= 0:
        end_offset = _end_offset(state, key)
        lag = UNKNOWN if end_offset is None else end_offset - summary.start_offset - summary.complete_count
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=key.partition,
        start_offset=summary.start_offset,
        leader_epoch=summary.leader_epoch,
        lag=lag,
        error_code=ErrorCode.NONE,
    )


def _end_offset(state: BrokerState, key: TopicPartition) -> int | None:
    """Return the high watermark at the leader, on whichever node it is; None while there is none."""
    found = state.catalog.state_of(key)
    leader = None if found is None else state.controller.replication.replica(found.leader, key)
    return None if leader is None else leader.high_watermark


def _no_topic(name: str, partitions: Sequence[int]) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=ZERO_UUID,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=partition, start_offset=UNKNOWN, leader_epoch=0, error_code=ErrorCode.NONE
            )
            for partition in partitions
        ],
    )


def _not_described(group_id: str, code: ErrorCode) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[], error_code=code)
