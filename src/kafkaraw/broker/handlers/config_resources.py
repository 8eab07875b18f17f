"""What IncrementalAlterConfigs and AlterConfigs do to a resource, by its kind; and the layers behind every setting.

`alter` finds the settings so far, has them changed, judges the outcome and stores it. Broker loggers, which keep
nothing, are the business of `incremental_alter_configs`.
Source: kafka.server.ConfigAdminManager, org.apache.kafka.controller.ConfigurationControlManager of Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config_changes import (
    BROKER_LISTS,
    Configs,
    Lists,
    check_broker,
    check_client_metrics,
    check_group,
    check_topic,
    lists_among,
)
from kafkaraw.broker.configs.config_layers import BrokerLayers, topic_declaration
from kafkaraw.broker.configs.dynamic_configs import ALL_BROKERS
from kafkaraw.broker.configs.kafka_configs.declared import Declared
from kafkaraw.broker.configs.kafka_configs.groups import GROUP_CONFIGS
from kafkaraw.broker.configs.kafka_configs.network import CLIENT_METRICS_CONFIGS
from kafkaraw.broker.configs.topic_config import TOPIC_SETTINGS, not_acted_on
from kafkaraw.broker.handlers.authorization import DENIED_WITH, MESSAGES, Call
from kafkaraw.broker.handlers.registration import Permission
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.settings import to_text
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.topic_creation import check_name
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol.acl_codes import CLUSTER_NAME, AclOperation, ResourceType
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.protocol.declare import Response
from kafkaraw.protocol.error_codes import ErrorCode

ACL_RESOURCES: Final[dict[int, ResourceType]] = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.BROKER: ResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
    ConfigResourceType.GROUP: ResourceType.GROUP,
}
"""Config resource type -> the type of the resource on which a client needs the permission."""
ALTER_PERMISSIONS: Final = (
    Permission(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "of a topic"),
    Permission(AclOperation.ALTER_CONFIGS, ResourceType.GROUP, "of a group"),
    Permission(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, "of a broker"),
)
"""What AlterConfigs and IncrementalAlterConfigs require."""

_logger = logging.getLogger("kafkaraw.broker")

TOPIC_DECLARATIONS: Final[dict[str, Declared]] = {
    name: topic_declaration(setting) for name, setting in TOPIC_SETTINGS.items()
}

Decide = Callable[[Configs, Lists], dict[str, str]]
"""Returns the new configs, given the current ones."""


def layers_of(state: BrokerState) -> BrokerLayers:
    """The layers of this broker's configuration."""
    own = state.dynamic_configs.of(ConfigResourceType.BROKER, str(state.node_id))
    cluster = state.dynamic_configs.of(ConfigResourceType.BROKER, ALL_BROKERS)
    return BrokerLayers.of(state.config, own, cluster)


class _Resource(Protocol):
    resource_type: int
    resource_name: str


R = TypeVar("R", bound=_Resource)
A = TypeVar("A")
Q = TypeVar("Q")
S = TypeVar("S", bound=Response)


def change_each(resources: Sequence[R], change: Callable[[R], None], answer: Callable[..., A]) -> list[A]:
    """Change each resource independently, and return a result for each, in the type of the response."""
    asked = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    answers = []
    for resource in resources:
        code, message = ErrorCode.NONE, None
        try:
            if asked[(resource.resource_type, resource.resource_name)] > 1:
                raise invalid("Each resource must appear at most once.")
            change(resource)
        except ApiError as error:
            code, message = error.code, error.message or None
        kind, name = resource.resource_type, resource.resource_name
        answers.append(answer(error_code=code, error_message=message, resource_type=kind, resource_name=name))
    return answers


def divide_permitted(
    call: Call[Any, Any], resources: Sequence[R], operation: AclOperation
) -> tuple[list[R], list[tuple[R, ErrorCode]]]:
    """Divide resources by whether the client may describe or alter their configs.

    A resource that is named twice, or is of a type that does not exist, is the handler's to refuse.

    Returns:
        The permitted resources, and the others with their error codes.
    """
    counts = Counter((one.resource_type, one.resource_name) for one in resources)
    allowed: list[R] = []
    denied: list[tuple[R, ErrorCode]] = []
    for one in resources:
        kind = ACL_RESOURCES.get(one.resource_type)
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else one.resource_name
        malformed = counts[one.resource_type, one.resource_name] > 1 and operation is not AclOperation.DESCRIBE_CONFIGS
        if kind is None or malformed or call.allows(operation, kind, name):
            allowed.append(one)
        else:
            denied.append((one, DENIED_WITH[kind]))
    return allowed, denied


def authorize_changes(
    call: Call[Q, S], request: Q, resources: Sequence[R], result: Callable[..., object], answer: S
) -> Reply[S]:
    """Call the handler with the resources whose configs the client may alter, and refuse the others.

    ALTER_CONFIGS on each topic or group; on the cluster for brokers and client metrics.

    Args:
        call: the call.
        request: the request.
        resources: its resources.
        result: makes the result for one resource.
        answer: a response without results.
    """
    allowed, refused = divide_permitted(call, resources, AclOperation.ALTER_CONFIGS)
    denied = [
        result(
            error_code=code,
            error_message=MESSAGES[code],
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource, code in refused
    ]
    return call.go_on_with(request, allowed, denied, answer, entries="resources", results="responses")


def alter(state: BrokerState, kind: int, name: str, decide: Decide, *, validate_only: bool) -> None:
    """Alter the settings of a topic, a broker, all brokers, a group, or a subscription to client metrics.

    Args:
        state: the node.
        kind: number of the kind of resource.
        name: of the resource.
        decide: returns the new configs.
        validate_only: change nothing.

    Raises:
        ApiError: it is not allowed, or cannot be stored.
    """
    found = _KINDS.get(kind)
    if found is None:
        raise invalid(f"Unknown resource type {kind}")
    found.check_name(state, name)
    configs = decide(found.own(state, name), found.lists(state))
    found.check(state, name, configs)
    if validate_only:
        return
    try:
        found.store(state, name, configs)
    except OSError as error:
        _logger.error("configs of %s %r cannot be stored: %s", ConfigResourceType(kind).name.lower(), name, error)
        message = f"the configs cannot be stored: {error.strerror}"
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error


def refuse_doubles(names: Iterable[str]) -> None:
    """Check that no setting is named twice in one request.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    given = list(names)
    if len(set(given)) != len(given):
        raise invalid("Error due to duplicate config keys")


def refuse_nulls(names: Iterable[str]) -> None:
    """Refuse settings that are to be set to nothing.

    Args:
        names: those settings.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    given = list(names)
    if given:
        raise invalid(f"Null value not supported for : {', '.join(given)}")


def invalid(message: str) -> ApiError:
    """The error for an invalid request."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What to do for one kind of resource.

    Attributes:
        check_name: raises when the request must be refused before it is looked at.
        own: the settings so far.
        lists: which settings are lists.
        check: judges the settings to be; says, too, that there is no such resource.
        store: has them from now on.
    """

    check_name: Callable[[BrokerState, str], None]
    own: Callable[[BrokerState, str], Configs]
    lists: Callable[[BrokerState], Lists]
    check: Callable[[BrokerState, str, Configs], None]
    store: Callable[[BrokerState, str, Configs], None]


def _any_name(state: BrokerState, name: str) -> None:
    """Names are judged together with the settings."""


# -- topics


def _topic_own(state: BrokerState, name: str) -> Configs:
    topic = state.catalog.topic(name)
    return {} if topic is None else topic.configs


def _topic_lists(state: BrokerState) -> Lists:
    return lists_among(TOPIC_DECLARATIONS, lambda name: to_text(state.config.topic_defaults[name]))


def _check_topic(state: BrokerState, name: str, configs: Configs) -> None:
    if not name:
        raise invalid("Default topic resources are not allowed.")
    check_name(name)
    check_topic(configs)
    if state.catalog.topic(name) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _store_topic(state: BrokerState, name: str, configs: Configs) -> None:
    topic = state.catalog.topic(name)
    assert topic is not None, name
    if dict(topic.configs) != dict(configs):
        state.controller.alter_topic(replace(topic, configs=dict(configs)))
        unused = not_acted_on(configs)
        note = f"; this broker does not act on {', '.join(unused)}" if unused else ""
        _logger.info("configs of topic %r are now %s%s", name, dict(configs), note)


# -- brokers


def _check_broker_name(state: BrokerState, name: str) -> None:
    if name == ALL_BROKERS:
        return
    try:
        node_id = int(name)
    except ValueError:
        raise invalid(f"Node id must be an integer, but it is: {name}") from None
    if node_id != state.node_id:
        raise invalid(f"Unexpected broker id, expected {state.node_id}, but received {name}")


def _check_broker(state: BrokerState, name: str, configs: Configs) -> None:
    check_broker(configs, one_broker=name != ALL_BROKERS)
    try:
        state.config_with(configs, one_broker=name != ALL_BROKERS)
    except ConfigError as error:
        raise invalid(str(error)) from error


# -- groups and client metrics


def _check_group(state: BrokerState, name: str, configs: Configs) -> None:
    if not name:
        raise invalid("Default group resources are not allowed.")
    layers = layers_of(state)
    check_group(configs, lambda config: next((layer.value for layer in layers.layers(config)), None))


def _check_client_metrics(state: BrokerState, name: str, configs: Configs) -> None:
    check_client_metrics(name, configs)


def _dynamic(kind: ConfigResourceType) -> Callable[[BrokerState, str], Configs]:
    return lambda state, name: state.dynamic_configs.of(kind, name)


def _keep(kind: ConfigResourceType) -> Callable[[BrokerState, str, Configs], None]:
    def store(state: BrokerState, name: str, configs: Configs) -> None:
        state.controller.configure(kind, name, configs)
        _logger.info("configs of %s %r are now set for %s", kind.name.lower(), name or "(all)", ", ".join(configs))

    return store


def _default_in(declared: dict[str, Declared]) -> Callable[[BrokerState], Lists]:
    return lambda state: lists_among(declared, lambda name: declared[name].default or "")


_KINDS: Final[dict[int, _Kind]] = {
    ConfigResourceType.TOPIC: _Kind(_any_name, _topic_own, _topic_lists, _check_topic, _store_topic),
    ConfigResourceType.BROKER: _Kind(
        _check_broker_name,
        _dynamic(ConfigResourceType.BROKER),
        lambda state: BROKER_LISTS,
        _check_broker,
        _keep(ConfigResourceType.BROKER),
    ),
    ConfigResourceType.GROUP: _Kind(
        _any_name,
        _dynamic(ConfigResourceType.GROUP),
        _default_in(GROUP_CONFIGS),
        _check_group,
        _keep(ConfigResourceType.GROUP),
    ),
    ConfigResourceType.CLIENT_METRICS: _Kind(
        _any_name,
        _dynamic(ConfigResourceType.CLIENT_METRICS),
        _default_in(CLIENT_METRICS_CONFIGS),
        _check_client_metrics,
        _keep(ConfigResourceType.CLIENT_METRICS),
    ),
}
