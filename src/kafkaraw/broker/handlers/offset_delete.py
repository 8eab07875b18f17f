"""OffsetDelete: delete committed offsets of a group in topics to which no member is subscribed.

Source: kafka.server.KafkaApis.handleOffsetDeleteRequest; KIP-496.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Final

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import TOPICS
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkaraw.records import TopicPartition

_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED


def authorize(
    call: Call[OffsetDeleteRequest, OffsetDeleteResponse], request: OffsetDeleteRequest
) -> Reply[OffsetDeleteResponse]:
    """DELETE on the group, and READ on each topic."""
    if not call.allows(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=_DENIED, topics=[])
    allowed, refused = call.divide(request.topics, AclOperation.READ, lambda topic: topic.name)
    denied = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]

    def merge(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if not response.error_code:
            response.topics[:0] = denied
        return response

    return call.go_on(replace(request, topics=allowed), merge)


@handles(
    OffsetDeleteRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DELETE, ResourceType.GROUP),
        Permission(AclOperation.READ, ResourceType.TOPIC),
    ),
    divided={0: TOPICS},
)
def handle(state: BrokerState, context: RequestContext, request: OffsetDeleteRequest) -> Reply[OffsetDeleteResponse]:
    """Delete each committed offset."""
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
        code = coordinator.delete_offsets(request.group_id, known, finish)
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
