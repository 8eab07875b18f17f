"""OffsetFetch: the positions that a group has committed; -1 where it has none.

Source: KIP-709 (many groups at once); org.apache.kafka.coordinator.group.OffsetMetadataManager.fetchOffsets.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.offsets import CommittedOffset
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
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


def handle(state: BrokerState, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Answer for each group and partition."""
    if context.api_version >= MANY_GROUPS_VERSION_MIN:
        return OffsetFetchResponse(
            groups=[_group(state, context, group, request.require_stable) for group in request.groups]
        )
    if not _coordinates(state, request.group_id) and context.api_version >= GROUP_ERROR_VERSION_MIN:
        return OffsetFetchResponse(error_code=ErrorCode.NOT_COORDINATOR, topics=[])
    if request.topics is None:
        wanted = _all_of(state, request.group_id)
    else:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=name, partitions=[_old_partition(state, request, name, index) for index in indexes]
            )
            for name, indexes in wanted
        ]
    )


def _coordinates(state: BrokerState, group_id: str) -> bool:
    return state.catalog.coordinator_of(group_id) == state.node_id


def _all_of(state: BrokerState, group_id: str) -> list[tuple[str, list[int]]]:
    by_topic = groupby(state.offsets.partitions(group_id), key=lambda found: found.topic)
    return [(name, [found.partition for found in partitions]) for name, partitions in by_topic]


def _old_partition(
    state: BrokerState, request: OffsetFetchRequest, name: str, index: int
) -> OffsetFetchResponsePartition:
    coordinates = _coordinates(state, request.group_id)
    code, committed = ErrorCode.NOT_COORDINATOR, NOT_COMMITTED
    if coordinates:
        code, committed = _look_up(state, request.group_id, TopicPartition(name, index), request.require_stable)
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )


def _look_up(
    state: BrokerState, group_id: str, key: TopicPartition, require_stable: bool
) -> tuple[ErrorCode, CommittedOffset]:
    if require_stable and state.offsets.is_undecided(group_id, key):
        return ErrorCode.UNSTABLE_OFFSET_COMMIT, NOT_COMMITTED
    return ErrorCode.NONE, state.offsets.committed(group_id, key) or NOT_COMMITTED


def _group(
    state: BrokerState, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    if not _coordinates(state, group.group_id):
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=ErrorCode.NOT_COORDINATOR)
    topics = []
    for name, topic_id, indexes in _wanted(state, context, group):
        partitions = [_partition(state, group.group_id, name, index, require_stable) for index in indexes]
        topics.append(OffsetFetchResponseTopics(name=name or "", topic_id=topic_id, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=ErrorCode.NONE)


def _wanted(
    state: BrokerState, context: RequestContext, group: OffsetFetchRequestGroup
) -> list[tuple[str | None, Uuid, list[int]]]:
    """(name, id, partitions) of each topic asked for; the name is None when the id is unknown."""
    if group.topics is None:
        return [(name, _id_of(state, name), indexes) for name, indexes in _all_of(state, group.group_id)]
    if context.api_version < TOPIC_ID_VERSION_MIN:
        return [(topic.name, ZERO_UUID, topic.partition_indexes) for topic in group.topics]
    found: list[tuple[str | None, Uuid, list[int]]] = []
    for asked in group.topics:
        topic = state.catalog.topic_by_id(asked.topic_id)
        found.append((None if topic is None else topic.name, asked.topic_id, asked.partition_indexes))
    return found


def _id_of(state: BrokerState, name: str) -> Uuid:
    topic = state.catalog.topic(name)
    return ZERO_UUID if topic is None else topic.topic_id


def _partition(
    state: BrokerState, group_id: str, name: str | None, index: int, require_stable: bool
) -> OffsetFetchResponsePartitions:
    code, committed = ErrorCode.UNKNOWN_TOPIC_ID, NOT_COMMITTED
    if name is not None:
        code, committed = _look_up(state, group_id, TopicPartition(name, index), require_stable)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )
