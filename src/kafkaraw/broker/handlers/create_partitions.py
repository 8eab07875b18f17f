"""CreatePartitions: add partitions to topics, or only validate the request.

Source: KIP-195; kafka.server.ControllerApis.createPartitions.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.quotas.throttling import MutationQuota
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.partition_creation import plan_partitions
from kafkaraw.broker.turns import Steps
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

STRICT_QUOTA_VERSION_MIN: Final = 3

_logger = logging.getLogger("kafkaraw.broker")
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[CreatePartitionsRequest, CreatePartitionsResponse], request: CreatePartitionsRequest
) -> Reply[CreatePartitionsResponse]:
    """ALTER on each topic."""
    counts = Counter(topic.name for topic in request.topics)
    allowed, refused = call.divide(
        request.topics, AclOperation.ALTER, lambda topic: topic.name if counts[topic.name] == 1 else None
    )
    denied = [CreatePartitionsTopicResult(name=topic.name, error_code=_DENIED) for topic in refused]
    return call.go_on_with(request, allowed, denied, CreatePartitionsResponse(results=[]), results="results")


@handles(
    CreatePartitionsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.ALTER, ResourceType.TOPIC),),
)
def handle(
    state: BrokerState, context: RequestContext, request: CreatePartitionsRequest
) -> Reply[CreatePartitionsResponse]:
    """Add partitions to each topic independently; the response has an entry for each topic."""
    quota = state.throttling.mutations(context.client, strict=context.api_version >= STRICT_QUOTA_VERSION_MIN)
    return state.controller.changes.run(_growing(state, request, quota))


def _growing(
    state: BrokerState, request: CreatePartitionsRequest, quota: MutationQuota
) -> Steps[CreatePartitionsResponse]:
    asked = Counter(topic.name for topic in request.topics)
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        result = CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.NONE)
        try:
            if asked[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            yield from _grow(state, topic, quota, validate_only=request.validate_only)
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message or None
        results.append(result)
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=results)


def _grow(
    state: BrokerState, asked: CreatePartitionsTopic, quota: MutationQuota, *, validate_only: bool
) -> Steps[None]:
    topic = state.catalog.topic(asked.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    chosen = None if asked.assignments is None else [one.broker_ids for one in asked.assignments]
    more = plan_partitions(topic, asked.count, chosen, state.catalog)
    quota.record(len(more))
    if validate_only:
        return
    try:
        yield from state.controller.growing_topic(topic, more)
    except OSError as error:
        _logger.error("cannot add partitions to topic %s: %s", topic.name, error)
        message = f"the partitions cannot be stored: {error.strerror}"
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
    _logger.info("topic %s has %d partitions now", topic.name, asked.count)
