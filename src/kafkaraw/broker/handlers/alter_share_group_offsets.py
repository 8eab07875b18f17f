"""AlterShareGroupOffsets: move the start offsets of an empty share group.

Source: KIP-932; kafka.server.KafkaApis.handleAlterShareGroupOffsetsRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.share import Failure
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
from kafkaraw.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


def authorize(
    call: Call[AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse], request: AlterShareGroupOffsetsRequest
) -> Reply[AlterShareGroupOffsetsResponse]:
    """READ on the group, and on each topic."""
    if not call.state.controller.features.has_share_groups:
        return call.go_on(request)
    if not call.may_read_group(request.group_id):
        return _refused(GROUP_DENIED)
    allowed, denied = call.divide(request.topics, AclOperation.READ, lambda topic: topic.topic_name)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def merge(response: AlterShareGroupOffsetsResponse) -> AlterShareGroupOffsetsResponse:
        if not response.error_code:
            response.responses += [
                _failed_topic(call.state, topic, Failure(code, message_of(code))) for topic in denied
            ]
        return response

    return call.go_on(replace(request, topics=allowed), merge)


@handles(
    AlterShareGroupOffsetsRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.READ, ResourceType.GROUP),
        Permission(AclOperation.READ, ResourceType.TOPIC),
    ),
)
def handle(
    state: BrokerState, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Reply[AlterShareGroupOffsetsResponse]:
    """Move the offsets; answered when the states are replicated."""
    if not state.controller.features.has_share_groups:
        return _refused(NOT_ENABLED, message_of(NOT_ENABLED))
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return _refused(coordinator)
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:  # a request may name a topic twice
        wanted = offsets.setdefault(topic.topic_name, {})
        wanted.update({each.partition_index: each.start_offset for each in topic.partitions})

    def begin(done: Callable[[AlterShareGroupOffsetsResponse], None]) -> None:
        def altered(outcomes: Mapping[tuple[str, int], Failure | None]) -> None:
            done(_response(state, request, outcomes))

        try:
            coordinator.share_offsets.alter(request.group_id, offsets, altered)
        except ApiError as error:
            done(_refused(error.code, error.message))

    return answered(begin)


def _response(
    state: BrokerState, request: AlterShareGroupOffsetsRequest, outcomes: Mapping[tuple[str, int], Failure | None]
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        error_code=ErrorCode.NONE,
        responses=[
            AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=_id_of(state, topic.topic_name),
                partitions=[
                    _partition(each.partition_index, outcomes[topic.topic_name, each.partition_index])
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _failed_topic(
    state: BrokerState, topic: AlterShareGroupOffsetsRequestTopic, failure: Failure
) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=_id_of(state, topic.topic_name),
        partitions=[_partition(each.partition_index, failure) for each in topic.partitions],
    )


def _partition(number: int, failure: Failure | None) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=number,
        error_code=ErrorCode.NONE if failure is None else failure.code,
        error_message=None if failure is None else failure.message,
    )


def _id_of(state: BrokerState, name: str) -> Uuid:
    topic = state.catalog.topic(name)
    return ZERO_UUID if topic is None else topic.topic_id


def _refused(code: ErrorCode, message: str | None = None) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message or message_of(code), responses=[])
