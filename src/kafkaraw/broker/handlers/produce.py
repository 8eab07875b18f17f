"""Produce: append record batches.

Each partition succeeds or fails by itself. With acks=0 nobody waits for an answer: there is none, and an error closes
the connection, which is the only sign that such a producer understands.
Source: kafka.server.KafkaApis.handleProduceRequest, ReplicaManager.appendRecords.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.catalog import Topic
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.refusal import CloseConnection, Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkaraw.records import TopicPartition

TOPIC_ID_VERSION_MIN: Final = 13
ACKS: Final = (-1, 0, 1)
NO_OFFSET: Final = -1


def handle(state: BrokerState, context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    """Append, and say where."""
    response = ProduceResponse(responses=[_topic(state, context, request, topic) for topic in request.topic_data])
    if request.acks != 0:
        return response
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                name = ErrorCode(partition.error_code).name
                reason = f"produce with acks=0 failed with {name}: {partition.error_message}"
                raise CloseConnection(reason)
    return None


def _topic(
    state: BrokerState, context: RequestContext, request: ProduceRequest, asked: TopicProduceData
) -> TopicProduceResponse:
    by_id = context.api_version >= TOPIC_ID_VERSION_MIN
    topic = state.catalog.topic_by_id(asked.topic_id) if by_id else state.catalog.topic(asked.name)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answers = []
    for data in asked.partition_data:
        try:
            if request.acks not in ACKS:
                raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is one of -1, 0 and 1, not {request.acks}")
            if topic is None:
                name = str(asked.topic_id) if by_id else asked.name
                raise Refusal(unknown, f"this broker has no topic {name}")
            answers.append(_append(state, context, topic, data))
        except Refusal as refusal:
            answers.append(
                PartitionProduceResponse(
                    index=data.index,
                    error_code=refusal.code,
                    base_offset=NO_OFFSET,
                    error_message=refusal.message,
                )
            )
    return TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=answers)


def _append(
    state: BrokerState, context: RequestContext, topic: Topic, data: PartitionProduceData
) -> PartitionProduceResponse:
    partition = state.partition(TopicPartition(topic.name, data.index))
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} has no partition {data.index}")
    records = data.records
    if records is not None and not isinstance(records, memoryview):
        raise TypeError("records of a decoded request are a memoryview")
    appended = partition.append(records, version=context.api_version)
    return PartitionProduceResponse(
        index=data.index,
        error_code=ErrorCode.NONE,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=partition.log.log_start_offset,
    )
