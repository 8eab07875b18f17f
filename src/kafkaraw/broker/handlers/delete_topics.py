"""DeleteTopics: delete topics by name, or (version 6 and later) by id.

Source: KIP-516; kafka.server.ControllerApis.deleteTopics.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import MESSAGES, Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.turns import Steps
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BY_ID_VERSION_MIN: Final = 6
DISABLED_CODE_VERSION_MIN: Final = 3
STRICT_QUOTA_VERSION_MIN: Final = 5

_logger = logging.getLogger("kafkaraw.broker")


@dataclass(frozen=True, slots=True)
class _Asked:
    name: str | None
    topic_id: bytes = ZERO_UUID


_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[DeleteTopicsRequest, DeleteTopicsResponse], request: DeleteTopicsRequest
) -> Reply[DeleteTopicsResponse]:
    """DELETE on the cluster, or DELETE and DESCRIBE on each topic."""
    by_state = call.context.api_version >= BY_ID_VERSION_MIN
    asked = request.topics if by_state else [DeleteTopicState(name=name) for name in request.topic_names]
    if not call.state.config.delete_topic_enable or call.allows_on_cluster(AclOperation.DELETE, log_denial=False):
        return call.go_on(request)
    counts = Counter((topic.name, bytes(topic.topic_id)) for topic in asked)
    allowed, denied = list[DeleteTopicState](), list[DeletableTopicResult]()
    for topic in asked:
        malformed = counts[topic.name, bytes(topic.topic_id)] > 1
        result = None if malformed else _denied(call, topic)
        if result is None:
            allowed.append(topic)
        else:
            denied.append(result)
    if not allowed:
        return DeleteTopicsResponse(responses=denied)

    def merge(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses.extend(denied)
        return response

    names = [] if by_state else [topic.name for topic in allowed if topic.name is not None]
    return call.go_on(replace(request, topics=allowed if by_state else [], topic_names=names), merge)


def _denied(
    call: Call[DeleteTopicsRequest, DeleteTopicsResponse], asked: DeleteTopicState
) -> DeletableTopicResult | None:
    by_id = asked.topic_id != ZERO_UUID
    if by_id == (asked.name is not None):
        return None  # neither or both: the handler refuses it
    topic = call.state.catalog.topic_by_id(asked.topic_id) if by_id else call.state.catalog.topic(asked.name)
    name = asked.name if topic is None else topic.name
    if name is None:
        return None  # an unknown id
    describable = call.may_describe_topic(name, log_denial=not by_id)
    deletable = call.allows(AclOperation.DELETE, ResourceType.TOPIC, name, log_denial=topic is not None)
    if by_id:
        return None if deletable else _not_deleted(name if describable else None, asked.topic_id)
    if describable and (deletable or topic is None):
        return None
    return _not_deleted(name, ZERO_UUID)


def _not_deleted(name: str | None, topic_id: Uuid) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=_DENIED, error_message=MESSAGES[_DENIED])


@handles(
    DeleteTopicsRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DELETE, ResourceType.CLUSTER),
        Permission(AclOperation.DELETE, ResourceType.TOPIC, "or"),
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, "with it"),
    ),
)
def handle(state: BrokerState, context: RequestContext, request: DeleteTopicsRequest) -> Reply[DeleteTopicsResponse]:
    """Delete each topic by itself; one that fails does not stop the others."""
    return state.controller.changes.run(_deleting(state, context, request))


def _deleting(state: BrokerState, context: RequestContext, request: DeleteTopicsRequest) -> Steps[DeleteTopicsResponse]:
    if context.api_version >= BY_ID_VERSION_MIN:
        asked = [_Asked(topic.name, topic.topic_id) for topic in request.topics]
    else:
        asked = [_Asked(name) for name in request.topic_names]
    counts = Counter(asked)
    quota = state.throttling.mutations(context.client, strict=context.api_version >= STRICT_QUOTA_VERSION_MIN)
    results = []
    for one in counts:
        result = DeletableTopicResult(name=one.name, topic_id=Uuid(one.topic_id), error_code=ErrorCode.NONE)
        try:
            topic = _find(state, context, one, twice=counts[one] > 1)
            result.name, result.topic_id = topic.name, topic.topic_id
            quota.record(topic.partitions_count)
            yield from _delete(state, topic)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    return DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=results)


def _find(state: BrokerState, context: RequestContext, asked: _Asked, *, twice: bool) -> Topic:
    if not state.config.delete_topic_enable:
        known = context.api_version >= DISABLED_CODE_VERSION_MIN
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        raise ApiError(code, "Topic deletion is disabled.")
    has_id = asked.topic_id != ZERO_UUID
    if has_id == (asked.name is not None):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Exactly one of topic name and topic ID must be set.")
    if twice:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic.")
    topic = state.catalog.topic_by_id(asked.topic_id) if has_id else state.catalog.topic(asked.name)
    if topic is None:
        if has_id:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic


def _delete(state: BrokerState, topic: Topic) -> Steps[None]:
    try:
        yield from state.controller.deleting_topic(topic)
    except OSError as error:
        _logger.error("cannot delete topic %s: %s", topic.name, error)
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the topic cannot be deleted: {error.strerror}") from error
