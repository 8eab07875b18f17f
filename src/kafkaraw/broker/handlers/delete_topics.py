"""DeleteTopics: delete topics by name, or (version 6 and later) by id.

Source: KIP-516; kafka.server.ControllerApis.deleteTopics.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from kafkaraw.broker.deferred import Deferred
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.turns import Steps
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

BY_ID_VERSION_MIN: Final = 6
DISABLED_CODE_VERSION_MIN: Final = 3
STRICT_QUOTA_VERSION_MIN: Final = 5

_logger = logging.getLogger("kafkaraw.broker")


@dataclass(frozen=True, slots=True)
class _Asked:
    name: str | None
    topic_id: bytes = ZERO_UUID


def handle(
    state: BrokerState, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | Deferred[DeleteTopicsResponse]:
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
        except Refusal as refusal:
            result.error_code, result.error_message = refusal.code, refusal.message
        results.append(result)
    return DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=results)


def _find(state: BrokerState, context: RequestContext, asked: _Asked, *, twice: bool) -> Topic:
    if not state.config.delete_topic_enable:
        known = context.api_version >= DISABLED_CODE_VERSION_MIN
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        raise Refusal(code, "Topic deletion is disabled.")
    has_id = asked.topic_id != ZERO_UUID
    if has_id == (asked.name is not None):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Exactly one of topic name and topic ID must be set.")
    if twice:
        raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic.")
    topic = state.catalog.topic_by_id(asked.topic_id) if has_id else state.catalog.topic(asked.name)
    if topic is None:
        if has_id:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic


def _delete(state: BrokerState, topic: Topic) -> Steps[None]:
    try:
        yield from state.controller.deleting_topic(topic)
    except OSError as error:
        _logger.error("cannot delete topic %s: %s", topic.name, error)
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the topic cannot be deleted: {error.strerror}") from error
