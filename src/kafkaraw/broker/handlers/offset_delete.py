"""OffsetDelete: forget positions of a group in topics that its members do not read.

Source: kafka.server.KafkaApis.handleOffsetDeleteRequest; KIP-496.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby

from kafkaraw.broker.deferred import Deferred, answered
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_claims import coordinator_or_code
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkaraw.records import TopicPartition


def handle(
    state: BrokerState, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Deferred[OffsetDeleteResponse]:
    """Delete each position."""
    return answered(lambda done: _delete(state, request, done))


def _delete(state: BrokerState, request: OffsetDeleteRequest, done: Callable[[OffsetDeleteResponse], None]) -> None:
    asked = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    known = [key for key in asked if state.catalog.state_of(key) is not None]
    unknown = dict.fromkeys(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def finish(codes: Mapping[TopicPartition, ErrorCode]) -> None:
        done(_response({**unknown, **codes}))

    coordinator = coordinator_or_code(state, request.group_id)
    code = coordinator if isinstance(coordinator, ErrorCode) else ErrorCode.NONE
    if not request.group_id:
        code = ErrorCode.INVALID_GROUP_ID
    if not code and not isinstance(coordinator, ErrorCode):
        code = coordinator.delete_positions(request.group_id, known, finish)
    if code:
        done(OffsetDeleteResponse(error_code=code, topics=[]))


def _response(codes: Mapping[TopicPartition, ErrorCode]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            OffsetDeleteResponseTopic(
                name=name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=key.partition, error_code=codes[key]) for key in keys
                ],
            )
            for name, keys in groupby(codes, key=lambda key: key.topic)
        ],
    )
