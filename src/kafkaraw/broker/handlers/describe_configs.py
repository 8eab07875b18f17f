"""DescribeConfigs: the settings of topics, of this broker and its loggers, of groups and client metrics.

Source: KIP-133, KIP-226 (sources), KIP-569 (types, documentation); kafka.server.ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kafkaraw.broker import loggers
from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config_layers import (
    Entry,
    broker_entries,
    client_metrics_entries,
    cluster_entries,
    group_entries,
    topic_entries,
)
from kafkaraw.broker.configs.dynamic_configs import ALL_BROKERS
from kafkaraw.broker.configs.kafka_configs.declared import Declared
from kafkaraw.broker.handlers.authorization import MESSAGES, Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.config_resources import divide_permitted, invalid, layers_of
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import check_name
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.config_codes import ConfigResourceType, ConfigSource, ConfigType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
ANSWER_BYTES_MAX: Final = 48 << 20
"""Approximate size limit of the settings in one response: those of 10,000 topics with all their synonyms.

Without it, each 16 bytes of a request could return 20 to 100 KB of a broker's settings.
"""
_ENTRY_BYTES: Final = 12
"""Size of an entry or a synonym without its texts."""


def _has_unknown_kinds(request: DescribeConfigsRequest) -> bool:
    """Return whether a request contains a resource type that Kafka does not have."""
    return not all(resource.resource_type in _LOOK_UPS for resource in request.resources)


class _ResponseBound:
    """Limits the size of a response in parts: equal entries share an object, and parts beyond the limit are refused."""

    def __init__(self) -> None:
        self._entries: dict[tuple[object, ...], tuple[DescribeConfigsResourceResult, int]] = {}
        self._left_bytes = ANSWER_BYTES_MAX

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached; further parts are refused."""
        return self._left_bytes <= 0

    def take(self, response: DescribeConfigsResponse) -> None:
        """Count the response to the next part."""
        for result in response.results:
            shared = [self._shared(entry) for entry in result.configs]
            result.configs = [entry for entry, _ in shared]
            self._left_bytes -= sum(size for _, size in shared)

    def error_response(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """Return the response to a part beyond the limit."""
        message = f"The settings before this one take {ANSWER_BYTES_MAX} bytes already: ask for fewer resources at once"
        code = ErrorCode.POLICY_VIOLATION
        return DescribeConfigsResponse(results=[_refused(resource, code, message) for resource in request.resources])

    def _shared(self, entry: DescribeConfigsResourceResult) -> tuple[DescribeConfigsResourceResult, int]:
        synonyms = tuple((synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms)
        key = (
            entry.name,
            entry.value,
            entry.config_source,
            entry.read_only,
            entry.is_sensitive,
            entry.config_type,
            entry.documentation,
            synonyms,
        )
        known = self._entries.get(key)
        if known is None:
            texts = [
                entry.name,
                entry.value,
                entry.documentation,
                *(text for name, value, _ in synonyms for text in (name, value)),
            ]
            size = _ENTRY_BYTES * (1 + len(synonyms)) + sum(len(text) for text in texts if text)
            known = self._entries[key] = (entry, size)
        return known


def authorize(
    call: Call[DescribeConfigsRequest, DescribeConfigsResponse], request: DescribeConfigsRequest
) -> Reply[DescribeConfigsResponse]:
    """DESCRIBE_CONFIGS on each topic or group; on the cluster for brokers and client metrics."""
    allowed, refused = divide_permitted(call, request.resources, AclOperation.DESCRIBE_CONFIGS)
    denied = [
        DescribeConfigsResult(
            error_code=code,
            error_message=MESSAGES[code],
            resource_type=one.resource_type,
            resource_name=one.resource_name,
            configs=[],
        )
        for one, code in refused
    ]
    answer = DescribeConfigsResponse(results=[])
    return call.go_on_with(request, allowed, denied, answer, entries="resources", results="results")


@handles(
    DescribeConfigsRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "of a topic"),
        Permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP, "of a group"),
        Permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, "of a broker"),
    ),
    divided={
        0: Divided(("resources",), ("results",), entries_per_chunk=10, whole=_has_unknown_kinds, bound=_ResponseBound)
    },
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeConfigsRequest
) -> Reply[DescribeConfigsResponse]:
    """Describe each resource independently; as in Kafka, a resource of an unknown type fails the whole request."""
    describe = _refuse if _has_unknown_kinds(request) else _describe
    return DescribeConfigsResponse(results=[describe(state, request, resource) for resource in request.resources])


def _describe(
    state: BrokerState, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )
    try:
        look_up = _LOOK_UPS[resource.resource_type]
        wanted = resource.configuration_keys
        result.configs = [
            _shown(request, entry)
            for entry in look_up(state, resource.resource_name)
            if not wanted or entry.declared.name in wanted
        ]
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _refuse(
    state: BrokerState, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    return _refused(resource, ErrorCode.INVALID_REQUEST, _MALFORMED)


def _refused(resource: DescribeConfigsResource, code: ErrorCode, message: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def _shown(request: DescribeConfigsRequest, entry: Entry) -> DescribeConfigsResourceResult:
    declared = entry.declared
    synonyms = entry.layers if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=declared.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=layer.name, value=layer.value, source=layer.source) for layer in synonyms
        ],
        config_type=declared.kind,
        documentation=declared.doc if request.include_documentation else None,
    )


def _topic(state: BrokerState, name: str) -> Iterable[Entry]:
    check_name(name)
    topic = state.catalog.topic(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return topic_entries(topic.configs, layers_of(state), state.config)


def _broker(state: BrokerState, name: str) -> Iterable[Entry]:
    if name == ALL_BROKERS:
        return cluster_entries(state.dynamic_configs.of(ConfigResourceType.BROKER, ALL_BROKERS))
    if _broker_id(name) != state.node_id:
        raise invalid(f"Unexpected broker id, expected {state.node_id} or empty string, but received {name}")
    return broker_entries(layers_of(state))


def _broker_logger(state: BrokerState, name: str) -> Iterable[Entry]:
    if not name:
        raise invalid("Broker id must not be empty")
    if _broker_id(name) != state.node_id:
        raise invalid(f"Unexpected broker id, expected {state.node_id} but received {name}")
    return [
        Entry(Declared(logger, ConfigType.UNKNOWN, None, ""), level, ConfigSource.DYNAMIC_BROKER_LOGGER, False, ())
        for logger, level in loggers.levels().items()
    ]


def _broker_id(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise invalid(f"Broker id must be an integer, but it is: {name}") from None


def _group(state: BrokerState, name: str) -> Iterable[Entry]:
    if not name:
        raise invalid("Group name must not be empty")
    return group_entries(state.dynamic_configs.of(ConfigResourceType.GROUP, name), layers_of(state))


def _client_metrics(state: BrokerState, name: str) -> Iterable[Entry]:
    if not name:
        raise invalid("Client metrics subscription name must not be empty")
    return client_metrics_entries(state.dynamic_configs.of(ConfigResourceType.CLIENT_METRICS, name))


_LOOK_UPS: Final[dict[int, Callable[[BrokerState, str], Iterable[Entry]]]] = {
    ConfigResourceType.TOPIC: _topic,
    ConfigResourceType.BROKER: _broker,
    ConfigResourceType.BROKER_LOGGER: _broker_logger,
    ConfigResourceType.GROUP: _group,
    ConfigResourceType.CLIENT_METRICS: _client_metrics,
}
