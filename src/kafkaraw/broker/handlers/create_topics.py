"""CreateTopics: create topics, or only validate the request.

Source: KIP-4, KIP-464 (defaults), KIP-525 (settings in the answer), KIP-516 (topic ids), KIP-599 (quotas).
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config_layers import topic_entries
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.config_resources import layers_of
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.quotas.throttling import MutationQuota
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.topics.topic_creation import (
    DEFAULT,
    METADATA_TOPIC,
    PARTITIONS_MAX,
    PARTITIONS_PER_TURN,
    Plan,
    TopicSpec,
    plan_topic,
)
from kafkaraw.broker.turns import Steps, Turn
from kafkaraw.light_classes import replace
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
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
UNKNOWN: Final = -1
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[CreateTopicsRequest, CreateTopicsResponse], request: CreateTopicsRequest
) -> Reply[CreateTopicsResponse]:
    """CREATE on the cluster, or on each topic; without DESCRIBE_CONFIGS, the response has no settings."""
    counts = Counter(topic.name for topic in request.topics)
    # The errors of these topics are returned without any permission.
    malformed = {METADATA_TOPIC, *(name for name, count in counts.items() if count > 1)}
    refused = {name for name in counts if name not in malformed and not call.may_create_topic(name)}
    denied = [
        CreatableTopicResult(name=name, error_code=_DENIED, error_message="Authorization failed.", configs=[])
        for name in counts
        if name in refused
    ]
    allowed = [topic for topic in request.topics if topic.name not in refused]
    if not allowed:
        return CreateTopicsResponse(topics=denied)

    def merge(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for result in response.topics:
            if result.error_code == ErrorCode.NONE and not call.allows(
                AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name, log_denial=False
            ):
                result.topic_config_error_code = _DENIED
                result.num_partitions = result.replication_factor = UNKNOWN
                result.configs = []
        response.topics.extend(denied)
        return response

    return call.go_on(replace(request, topics=allowed), merge)


@handles(
    CreateTopicsRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.CREATE, ResourceType.CLUSTER),
        Permission(AclOperation.CREATE, ResourceType.TOPIC, "or"),
        Permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "to see the configs in the response"),
    ),
)
def handle(state: BrokerState, context: RequestContext, request: CreateTopicsRequest) -> Reply[CreateTopicsResponse]:
    """Create each topic independently."""
    quota = state.throttling.mutations(context.client, strict=context.api_version >= STRICT_QUOTA_VERSION_MIN)
    creation = _Creation(state, quota, request)
    if creation.partitions_count > PARTITIONS_MAX:
        message = "Excessively large number of partitions per request."
        return creation.refused(ErrorCode.POLICY_VIOLATION, message)
    return state.controller.changes.run(creation.steps(), on_cancel=creation.shorten)


class _Creation:
    """One CreateTopics request and its progress."""

    def __init__(self, state: BrokerState, quota: MutationQuota, request: CreateTopicsRequest) -> None:
        self._state = state
        self._quota = quota
        self._validate_only = request.validate_only
        self._named = Counter(topic.name for topic in request.topics)
        self._left = deque({topic.name: topic for topic in request.topics}.values())
        self._results: list[CreatableTopicResult] = []
        self._told_configs: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}
        self.partitions_count = sum(self._partitions_of(topic) for topic in request.topics)

    def _partitions_of(self, topic: CreatableTopic) -> int:
        if topic.assignments:
            return len(topic.assignments)
        return max(0, self._state.config.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions)

    def refused(self, code: ErrorCode, message: str) -> CreateTopicsResponse:
        """Return the response to a request that only validates."""
        self._results += [_failed(topic.name, ApiError(code, message)) for topic in self._left]
        return self.response()

    def response(self) -> CreateTopicsResponse:
        """Return the response."""
        return CreateTopicsResponse(throttle_time_ms=self._quota.throttle_ms, topics=self._results)

    def shorten(self) -> None:
        """Create no further topics, because the connection is lost."""
        self._left.clear()

    def steps(self) -> Steps[CreateTopicsResponse]:
        """Create the topics; the metadata of several topics is written together."""
        while self._left:
            yield from self._next_together()
            if self._left:
                yield True
        return self.response()

    def _next_together(self) -> Steps[None]:
        """Create the next topics, and write their metadata together, within one turn of the loop."""
        turn = Turn()
        made: dict[str, Topic] = {}
        results: list[CreatableTopicResult] = []
        partitions = 0
        while self._left and partitions < PARTITIONS_PER_TURN and not (results and turn.is_over()):
            topic = self._left.popleft()
            partitions += max(1, self._partitions_of(topic))
            try:
                if self._named[topic.name] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                results.append((yield from self._create(topic, made)))
            except ApiError as error:
                results.append(_failed(topic.name, error))
        try:
            yield from self._state.controller.publishing(list(made.values()))
        except OSError as error:
            not_stored = _not_stored(", ".join(made), error)
            results = [_failed(one.name, not_stored) if one.name in made else one for one in results]
        self._results += results

    def _create(self, asked: CreatableTopic, made: dict[str, Topic]) -> Steps[CreatableTopicResult]:
        spec = TopicSpec(
            name=asked.name,
            partitions=asked.num_partitions,
            replication_factor=asked.replication_factor,
            assignments=[(one.partition_index, one.broker_ids) for one in asked.assignments],
            configs={config.name: config.value for config in asked.configs},
        )
        plan = plan_topic(spec, self._state.catalog, self._state.config)
        self._quota.record(len(plan.assignments))
        topic_id = ZERO_UUID
        if not self._validate_only:
            try:
                made[plan.name] = yield from self._state.controller.making_topic(plan)
            except OSError as error:
                raise _not_stored(plan.name, error) from error
            topic_id = made[plan.name].topic_id
        return CreatableTopicResult(
            name=plan.name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=len(plan.assignments),
            replication_factor=len(plan.assignments[0]),
            configs=self._configs(plan),
        )

    def _configs(self, plan: Plan) -> list[CreatableTopicConfigs]:
        """Return all settings of the topic with their sources; topics with equal settings share the list."""
        key = frozenset(plan.configs.items())
        if key not in self._told_configs:
            self._told_configs[key] = [
                CreatableTopicConfigs(name=entry.declared.name, value=entry.value, config_source=entry.source)
                for entry in topic_entries(plan.configs, layers_of(self._state), self._state.config)
            ]
        return self._told_configs[key]


def _failed(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])


def _not_stored(names: str, error: OSError) -> ApiError:
    _logger.error("cannot create topic %s: %s", names, error)
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the topic cannot be stored: {error.strerror}")
