"""OffsetCommit: keep the positions of a consumer that assigns its partitions itself (generation -1, no member).

There is no group membership yet, so a commit that claims one is refused as Kafka refuses it in an empty group.
Source: org.apache.kafka.coordinator.group.OffsetMetadataManager.commitOffset; KIP-516, KIP-848.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.catalog import Topic
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.offsets import CommittedOffset
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkaraw.records import TopicPartition

TOPIC_ID_VERSION_MIN: Final = 10
NO_GENERATION: Final = -1


def handle(state: BrokerState, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Keep each position, or say why not."""
    refused = _check_group(state, request)
    return OffsetCommitResponse(
        topics=[_topic(state, context, request.group_id, topic, refused) for topic in request.topics]
    )


def _check_group(state: BrokerState, request: OffsetCommitRequest) -> ErrorCode:
    if state.catalog.coordinator_of(request.group_id) != state.node_id:
        return ErrorCode.NOT_COORDINATOR
    if request.generation_id_or_member_epoch > NO_GENERATION:
        return ErrorCode.ILLEGAL_GENERATION
    if request.member_id or request.group_instance_id is not None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def _topic(
    state: BrokerState,
    context: RequestContext,
    group_id: str,
    asked: OffsetCommitRequestTopic,
    refused: ErrorCode,
) -> OffsetCommitResponseTopic:
    by_id = context.api_version >= TOPIC_ID_VERSION_MIN
    topic = state.catalog.topic_by_id(asked.topic_id) if by_id else state.catalog.topic(asked.name)
    answers = []
    for partition in asked.partitions:
        code = refused
        if code == ErrorCode.NONE and topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code == ErrorCode.NONE and topic is not None:
            code = _commit(state, group_id, topic, partition)
        answers.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code))
    return OffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id, partitions=answers)


def _commit(state: BrokerState, group_id: str, topic: Topic, asked: OffsetCommitRequestPartition) -> ErrorCode:
    if not 0 <= asked.partition_index < topic.partitions_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = asked.committed_metadata or ""
    if len(metadata) > state.config.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = CommittedOffset(asked.committed_offset, asked.committed_leader_epoch, metadata)
    state.offsets.commit(group_id, TopicPartition(topic.name, asked.partition_index), committed)
    return ErrorCode.NONE
