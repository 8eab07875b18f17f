"""DescribeProducers: the active producers of partitions that this node leads.

Source: KIP-664; kafka.server.ReplicaManager.activeProducerState.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import MESSAGES, Call
from kafkaraw.broker.handlers.chunked_requests import NAME, Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import led_partition
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from kafkaraw.records import TopicPartition

NONE = -1
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[DescribeProducersRequest, DescribeProducersResponse], request: DescribeProducersRequest
) -> Reply[DescribeProducersResponse]:
    """READ on each topic."""
    allowed, refused = call.divide(request.topics, AclOperation.READ, lambda topic: topic.name)
    denied = [_no_producers(topic) for topic in refused]
    return call.go_on_with(request, allowed, denied, DescribeProducersResponse(topics=[]))


def _no_producers(topic: TopicRequest) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        partitions=[
            PartitionResponse(
                partition_index=index,
                error_code=_TOPIC_DENIED,
                error_message=MESSAGES[_TOPIC_DENIED],
                active_producers=[],
            )
            for index in topic.partition_indexes
        ],
    )


@handles(
    DescribeProducersRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.READ, ResourceType.TOPIC),),
    divided={0: Divided(("topics", "partition_indexes"), ("topics", "partitions"), (NAME,))},
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeProducersRequest
) -> Reply[DescribeProducersResponse]:
    """Answer for each partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_answer(state, TopicPartition(topic.name, index)) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _answer(state: BrokerState, key: TopicPartition) -> PartitionResponse:
    try:
        partition = led_partition(state, key)
    except ApiError as error:
        return PartitionResponse(
            partition_index=key.partition,
            error_code=error.code,
            error_message=error.message,
            active_producers=[],
        )
    return PartitionResponse(
        partition_index=key.partition, error_code=ErrorCode.NONE, active_producers=_producers(partition)
    )


def _producers(partition: Partition) -> list[ProducerState]:
    found = []
    for producer_id, entry in partition.producers.describe():
        first_offset = partition.transactions.first_offset_of(producer_id)
        found.append(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.batches[-1].last_sequence if entry.batches else NONE,
                last_timestamp=entry.last_timestamp_ms,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=NONE if first_offset is None else first_offset,
            )
        )
    return found
