"""CreateTopics: create topics, or only say whether they could be.

Source: KIP-4, KIP-464 (defaults), KIP-525 (settings in the answer), KIP-516 (topic ids), KIP-599 (quotas).
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from kafkaraw.broker.configs.config_layers import topic_entries
from kafkaraw.broker.handlers.config_resources import layers_of
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.quotas.throttling import MutationQuota
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import Plan, Wish, plan_topic
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

STRICT_QUOTA_VERSION_MIN: Final = 6

_logger = logging.getLogger("kafkaraw.broker")


def handle(state: BrokerState, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create each topic by itself; one that fails does not stop the others."""
    asked = Counter(topic.name for topic in request.topics)
    quota = state.throttling.mutations(context.client, strict=context.api_version >= STRICT_QUOTA_VERSION_MIN)
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        try:
            if asked[topic.name] > 1:
                raise Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(_create(state, topic, quota, validate_only=request.validate_only))
        except Refusal as refusal:
            results.append(
                CreatableTopicResult(
                    name=topic.name, error_code=refusal.code, error_message=refusal.message, configs=[]
                )
            )
    return CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=results)


def _create(
    state: BrokerState, asked: CreatableTopic, quota: MutationQuota, *, validate_only: bool
) -> CreatableTopicResult:
    wish = Wish(
        name=asked.name,
        partitions=asked.num_partitions,
        replication_factor=asked.replication_factor,
        assignments=[(one.partition_index, one.broker_ids) for one in asked.assignments],
        configs={config.name: config.value for config in asked.configs},
    )
    plan = plan_topic(wish, state.catalog, state.config)
    quota.record(len(plan.assignments))
    topic_id = ZERO_UUID
    if not validate_only:
        try:
            topic_id = state.create_topic(plan).topic_id
        except OSError as error:
            _logger.error("cannot create topic %s: %s", asked.name, error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"the topic cannot be stored: {error.strerror}") from error
    return CreatableTopicResult(
        name=plan.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(plan.assignments),
        replication_factor=len(plan.assignments[0]),
        configs=_configs(state, plan),
    )


def _configs(state: BrokerState, plan: Plan) -> list[CreatableTopicConfigs]:
    """Every setting of the topic, with where its value comes from."""
    return [
        CreatableTopicConfigs(name=entry.declared.name, value=entry.value, config_source=entry.source)
        for entry in topic_entries(plan.configs, layers_of(state), state.config)
    ]
