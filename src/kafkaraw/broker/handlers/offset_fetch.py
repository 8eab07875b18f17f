"""OffsetFetch: the committed offsets of a group; -1 for partitions without one.

Source: KIP-709 (many groups at once); org.apache.kafka.coordinator.group.OffsetMetadataManager.fetchOffsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Final

from kafkaraw.broker.groups.coordinator import GroupCoordinator
from kafkaraw.broker.groups.offsets import CommittedOffset
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import NAME, TOPIC_ID_OR_NAME, Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kafkaraw.records import TopicPartition

GROUP_ERROR_VERSION_MIN: Final = 2
MANY_GROUPS_VERSION_MIN: Final = 8
TOPIC_ID_VERSION_MIN: Final = 10
NOT_COMMITTED: Final = CommittedOffset(-1, -1, "")
NONE: Final = -1
GROUP_CODE_SINCE: Final = 2


def authorize(
    call: Call[OffsetFetchRequest, OffsetFetchResponse], request: OffsetFetchRequest
) -> Reply[OffsetFetchResponse]:
    """DESCRIBE on each group and each topic; a request for all topics leaves out those without it."""
    if call.context.api_version < MANY_GROUPS_VERSION_MIN:
        return _fetch_one_group(call, request)
    groups, denied_groups = list[OffsetFetchRequestGroup](), list[OffsetFetchResponseGroup]()
    denied_topics: dict[str, list[OffsetFetchRequestTopics]] = {}
    for group in request.groups:
        if not call.may_describe_group(group.group_id):
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            denied_groups.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code))
            continue
        if group.topics is not None:
            allowed, refused = call.divide(
                group.topics,
                AclOperation.DESCRIBE,
                lambda topic: call.topic_name(topic.name, topic.topic_id, TOPIC_ID_VERSION_MIN),
            )
            denied_topics[group.group_id] = refused
            group = replace(group, topics=allowed)
        groups.append(group)

    def merge(response: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in response.groups:
            if group.group_id not in denied_topics:  # the request is for all topics
                group.topics = [topic for topic in group.topics if _may_see(call, topic)]
            elif group.error_code == ErrorCode.NONE:
                group.topics.extend(_not_fetched(topic) for topic in denied_topics[group.group_id])
        response.groups.extend(denied_groups)
        return response

    return call.go_on(replace(request, groups=groups), merge)


def _may_see(call: Call[OffsetFetchRequest, OffsetFetchResponse], topic: OffsetFetchResponseTopics) -> bool:
    name = call.topic_name(topic.name, topic.topic_id, TOPIC_ID_VERSION_MIN) or topic.name
    return call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, log_denial=False)


def _not_fetched(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NONE, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
            for index in topic.partition_indexes
        ],
    )


def _fetch_one_group(
    call: Call[OffsetFetchRequest, OffsetFetchResponse], request: OffsetFetchRequest
) -> Reply[OffsetFetchResponse]:
    if not call.may_describe_group(request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        in_partitions = call.context.api_version < GROUP_CODE_SINCE
        topics = request.topics if in_partitions and request.topics is not None else []
        return OffsetFetchResponse(topics=[_not_fetched_before_8(topic, code) for topic in topics], error_code=code)
    asked = request.topics
    allowed, refused = (None, []) if asked is None else call.divide(asked, AclOperation.DESCRIBE, lambda one: one.name)

    def merge(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if asked is None:
            response.topics = [
                topic for topic in response.topics if call.may_describe_topic(topic.name, log_denial=False)
            ]
        elif response.error_code == ErrorCode.NONE:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics.extend(_not_fetched_before_8(topic, code) for topic in refused)
        return response

    return call.go_on(replace(request, topics=allowed), merge)


def _not_fetched_before_8(topic: OffsetFetchRequestTopic, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=NONE, error_code=code)
            for index in topic.partition_indexes
        ],
    )


@handles(
    OffsetFetchRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DESCRIBE, ResourceType.GROUP),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),
    ),
    note="in a request for all topics, those without the permission are left out",
    divided={
        8: Divided(
            ("groups", "topics", "partition_indexes"),
            ("groups", "topics", "partitions"),
            (("group_id",), TOPIC_ID_OR_NAME),
        ),
        0: Divided(("topics", "partition_indexes"), ("topics", "partitions"), (NAME,)),
    },
)
def handle(state: BrokerState, context: RequestContext, request: OffsetFetchRequest) -> Reply[OffsetFetchResponse]:
    """Answer for each group and partition."""
    if context.api_version >= MANY_GROUPS_VERSION_MIN:
        return OffsetFetchResponse(
            groups=[_group(state, context, group, request.require_stable) for group in request.groups]
        )
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        in_partitions = context.api_version < GROUP_ERROR_VERSION_MIN
        topics = [(topic.name, topic.partition_indexes) for topic in request.topics or ()] if in_partitions else []
        refused = {TopicPartition(name, index): coordinator for name, indexes in topics for index in indexes}
        return OffsetFetchResponse(error_code=coordinator, topics=_old_topics(refused))
    wanted = None
    if request.topics is not None:
        wanted = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    return OffsetFetchResponse(
        topics=_old_topics(coordinator.committed_offsets(request.group_id, wanted, stable=request.require_stable))
    )


def _old_topics(found: Mapping[TopicPartition, CommittedOffset | ErrorCode | None]) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(name=name, partitions=[_old_partition(key, found[key]) for key in keys])
        for name, keys in groupby(found, key=lambda key: key.topic)
    ]


def _old_partition(key: TopicPartition, found: CommittedOffset | ErrorCode | None) -> OffsetFetchResponsePartition:
    position, code = _offset_and_code(found)
    return OffsetFetchResponsePartition(
        partition_index=key.partition,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        metadata=position.metadata,
        error_code=code,
    )


def _offset_and_code(found: CommittedOffset | ErrorCode | None) -> tuple[CommittedOffset, ErrorCode]:
    if isinstance(found, ErrorCode):
        return NOT_COMMITTED, found
    return found or NOT_COMMITTED, ErrorCode.NONE


def _group(
    state: BrokerState, context: RequestContext, group: OffsetFetchRequestGroup, stable: bool
) -> OffsetFetchResponseGroup:
    coordinator = coordinator_or_code(state, group.group_id)
    code = coordinator if isinstance(coordinator, ErrorCode) else ErrorCode.NONE
    if not isinstance(coordinator, ErrorCode):
        code = coordinator.check_fetch(group.group_id, group.member_id, group.member_epoch)
    if isinstance(coordinator, ErrorCode) or code:
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
    if group.topics is None:
        topics = _all_topics(state, coordinator, group.group_id, stable)
    else:
        by_id = context.api_version >= TOPIC_ID_VERSION_MIN
        topics = [_topic(state, coordinator, group.group_id, topic, by_id, stable) for topic in group.topics]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=ErrorCode.NONE)


def _all_topics(
    state: BrokerState, coordinator: GroupCoordinator, group_id: str, stable: bool
) -> list[OffsetFetchResponseTopics]:
    found = coordinator.committed_offsets(group_id, None, stable=stable)
    return [
        OffsetFetchResponseTopics(
            name=name, topic_id=_id_of(state, name), partitions=[_partition(key.partition, found[key]) for key in keys]
        )
        for name, keys in groupby(found, key=lambda key: key.topic)
    ]


def _topic(
    state: BrokerState,
    coordinator: GroupCoordinator,
    group_id: str,
    asked: OffsetFetchRequestTopics,
    by_id: bool,
    stable: bool,
) -> OffsetFetchResponseTopics:
    topic = state.catalog.topic_by_id(asked.topic_id) if by_id else None
    name = asked.name if not by_id else "" if topic is None else topic.name
    if by_id and topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        partitions = [_partition(index, unknown) for index in asked.partition_indexes]
    else:
        keys = [TopicPartition(name, index) for index in asked.partition_indexes]
        found = coordinator.committed_offsets(group_id, keys, stable=stable)
        partitions = [_partition(key.partition, _of_topic(found[key], asked.topic_id)) for key in keys]
    return OffsetFetchResponseTopics(name=name, topic_id=asked.topic_id, partitions=partitions)


def _of_topic(found: CommittedOffset | ErrorCode | None, topic_id: bytes) -> CommittedOffset | ErrorCode | None:
    """Return a committed offset, unless it belongs to an earlier topic of the same name."""
    if not isinstance(found, CommittedOffset) or ZERO_UUID in (found.topic_id, topic_id):
        return found
    return found if found.topic_id == topic_id else None


def _id_of(state: BrokerState, name: str) -> Uuid:
    topic = state.catalog.topic(name)
    return ZERO_UUID if topic is None else topic.topic_id


def _partition(index: int, found: CommittedOffset | ErrorCode | None) -> OffsetFetchResponsePartitions:
    position, code = _offset_and_code(found)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=position.offset,
        committed_leader_epoch=position.leader_epoch,
        metadata=position.metadata,
        error_code=code,
    )
