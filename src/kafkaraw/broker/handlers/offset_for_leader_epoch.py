"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which clients detect truncation.

Source: KIP-101, KIP-279, KIP-320; kafka.server.ReplicaManager.lastOffsetForLeaderEpoch.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import led_partition
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kafkaraw.records import TopicPartition

_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse], request: OffsetForLeaderEpochRequest
) -> Reply[OffsetForLeaderEpochResponse]:
    """CLUSTER_ACTION on the cluster, which brokers have, or DESCRIBE on each topic (KIP-320)."""
    if call.allows_on_cluster(AclOperation.CLUSTER_ACTION, log_denial=False):
        return call.go_on(request)
    allowed, refused = call.divide(request.topics, AclOperation.DESCRIBE, lambda topic: topic.topic)
    return call.go_on_with(
        request, allowed, [_no_end(topic) for topic in refused], OffsetForLeaderEpochResponse(topics=[])
    )


def _no_end(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[EpochEndOffset(partition=asked.partition, error_code=_TOPIC_DENIED) for asked in topic.partitions],
    )


@handles(
    OffsetForLeaderEpochRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, "or"),
    ),
    divided={0: Divided(("topics", "partitions"), ("topics", "partitions"), (("topic",),))},
)
def handle(
    state: BrokerState, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Reply[OffsetForLeaderEpochResponse]:
    """Answer for each partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end(state, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end(state: BrokerState, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = led_partition(state, TopicPartition(topic, asked.partition), asked.current_leader_epoch)
    except ApiError as error:
        return EpochEndOffset(partition=asked.partition, error_code=error.code)
    end = partition.end_of_epoch(asked.leader_epoch)
    return EpochEndOffset(
        partition=asked.partition, error_code=ErrorCode.NONE, leader_epoch=end.epoch, end_offset=end.end_offset
    )
