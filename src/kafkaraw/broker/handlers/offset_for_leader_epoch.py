"""OffsetForLeaderEpoch: where an epoch of a partition ends, by which clients notice that records were cut.

Source: KIP-101, KIP-279, KIP-320; kafka.server.ReplicaManager.lastOffsetForLeaderEpoch.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import led_partition
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kafkaraw.records import TopicPartition


def handle(
    state: BrokerState, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
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
    except Refusal as refusal:
        return EpochEndOffset(partition=asked.partition, error_code=refusal.code)
    end = partition.end_of_epoch(asked.leader_epoch)
    return EpochEndOffset(
        partition=asked.partition, error_code=ErrorCode.NONE, leader_epoch=end.epoch, end_offset=end.end_offset
    )
