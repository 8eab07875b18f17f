"""DeleteShareGroupOffsets: forget the offsets of topics in an empty share group.

Source: KIP-932; kafka.server.KafkaApis.handleDeleteShareGroupOffsetsRequest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.groups.share import Failure
from kafkaraw.broker.groups.share_offsets import Deleted
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.group_requests import coordinator_or_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.handlers.share_requests import GROUP_DENIED, NOT_ENABLED, message_of
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.light_classes import replace
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse], request: DeleteShareGroupOffsetsRequest
) -> Reply[DeleteShareGroupOffsetsResponse]:
    """DELETE on the group, and READ on each topic."""
    if not call.state.controller.features.has_share_groups:
        return call.go_on(request)
    if not call.allows(AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return _refused(GROUP_DENIED)
    allowed, denied = call.divide(request.topics, AclOperation.READ, lambda topic: topic.topic_name)
    failure = Failure(_TOPIC_DENIED, message_of(_TOPIC_DENIED))

    def merge(response: DeleteShareGroupOffsetsResponse) -> DeleteShareGroupOffsetsResponse:
        if not response.error_code:
            response.responses[:0] = [_topic(Deleted(topic.topic_name, None, failure)) for topic in denied]
        return response

    return call.go_on(replace(request, topics=allowed), merge)


@handles(
    DeleteShareGroupOffsetsRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DELETE, ResourceType.GROUP),
        Permission(AclOperation.READ, ResourceType.TOPIC),
    ),
)
def handle(
    state: BrokerState, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Reply[DeleteShareGroupOffsetsResponse]:
    """Delete the offsets; answered when the tombstones are replicated."""
    if not state.controller.features.has_share_groups:
        return _refused(NOT_ENABLED, message_of(NOT_ENABLED))
    if not request.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    coordinator = coordinator_or_code(state, request.group_id)
    if isinstance(coordinator, ErrorCode):
        return _refused(coordinator)

    def begin(done: Callable[[DeleteShareGroupOffsetsResponse], None]) -> None:
        def deleted(outcomes: list[Deleted]) -> None:
            done(DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NONE, responses=list(map(_topic, outcomes))))

        names = [topic.topic_name for topic in request.topics]
        try:
            coordinator.share_offsets.delete(request.group_id, names, deleted)
        except ApiError as error:
            done(_refused(error.code, error.message))

    return answered(begin)


def _topic(outcome: Deleted) -> DeleteShareGroupOffsetsResponseTopic:
    failure = outcome.failure
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=outcome.name,
        topic_id=outcome.topic_id or ZERO_UUID,
        error_code=ErrorCode.NONE if failure is None else failure.code,
        error_message=None if failure is None else failure.message,
    )


def _refused(code: ErrorCode, message: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message or message_of(code), responses=[])
