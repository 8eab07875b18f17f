"""The configs of a resource after they are altered, and whether the change is allowed. Pure.

`altered` applies the operations of IncrementalAlterConfigs; `check_broker`, `check_topic`, `check_group` and
`check_client_metrics` judge the outcome, each with the error codes that Kafka uses for that resource.
Source: kafka.server.{ConfigAdminManager, ControllerConfigurationValidator, DynamicBrokerConfig}, Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs import topic_config
from kafkaraw.broker.configs.client_metrics import parse_match
from kafkaraw.broker.configs.config import BROKER_SETTINGS
from kafkaraw.broker.configs.kafka_configs import BROKER_CONFIGS
from kafkaraw.broker.configs.kafka_configs.declared import PER_BROKER, READ_ONLY, Declared, check_type
from kafkaraw.broker.configs.kafka_configs.groups import GROUP_CONFIGS
from kafkaraw.broker.configs.kafka_configs.network import CLIENT_METRICS_CONFIGS
from kafkaraw.broker.configs.share_settings import BY_DURATION, EARLIEST, LATEST
from kafkaraw.broker.configs.topic_config import BROKER_PROPERTY, TOPIC_SETTINGS
from kafkaraw.broker.settings import invalid
from kafkaraw.core.fetch.offsets import parse_duration_ms
from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol.config_codes import AlterOperation, ConfigType
from kafkaraw.protocol.error_codes import ErrorCode

Configs = Mapping[str, str]

LISTENER_PREFIX: Final = "listener.name."
_KERBEROS_PREFIX: Final = "sasl.kerberos."
# What Kafka lets change for one listener only, never for all of a broker's.
_PER_LISTENER: Final = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password", "keystore.certificate.chain", "keystore.key", "keystore.location", "keystore.password",
        "keystore.type", "truststore.certificates", "truststore.location", "truststore.password", "truststore.type",
    )
)  # fmt: skip
_TOPIC_NAME: Final = {broker: topic for topic, broker in BROKER_PROPERTY.items()}
_INTERVAL_MS: Final = (100, 3_600_000)


def _is_offset_reset(value: str) -> bool:
    duration = value.removeprefix(BY_DURATION)
    return value in (EARLIEST, LATEST) or (duration != value and parse_duration_ms(duration) is not None)


# Texts of groups that may not be anything, and what Kafka says then.
_GROUP_TEXTS: Final[dict[str, tuple[Callable[[str], bool], str]]] = {
    "share.isolation.level": (
        frozenset({"read_uncommitted", "read_committed"}).__contains__,
        "String must be one of: read_committed, read_uncommitted",
    ),
    "share.auto.offset.reset": (
        _is_offset_reset,
        "Invalid value `{}` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' "
        "or of the format 'by_duration:<PnDTnHnMn.nS>'.",
    ),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One operation on one setting; `value` is empty for DELETE."""

    name: str
    operation: int
    value: str = ""


@dataclass(frozen=True, slots=True)
class Lists:
    """The configs of a kind of resource that are lists, and Kafka's message for one that is not.

    Attributes:
        start_of: what a list begins with that was not set; raises ApiError for what is no list.
        not_an_operation: raises for an operation that there is not.
    """

    start_of: Callable[[str, AlterOperation], str]
    not_an_operation: Callable[[int], ApiError]


def altered(own: Configs, changes: Iterable[Change], lists: Lists) -> dict[str, str]:
    """The settings after some operations.

    Args:
        own: the resource's settings so far.
        changes: the operations, each on another setting.
        lists: what is known about lists in such resources.

    Raises:
        ApiError: there is no such operation, or not on such a setting.
    """
    result = dict(own)
    for change in changes:
        try:
            operation = AlterOperation(change.operation)
        except ValueError:
            raise lists.not_an_operation(change.operation) from None
        if operation is AlterOperation.SET:
            result[change.name] = change.value
        elif operation is AlterOperation.DELETE:
            result.pop(change.name, None)
        else:
            start = lists.start_of(change.name, operation)
            result[change.name] = _merged(result.get(change.name, start), change.value, operation)
    return result


def _merged(old: str, given: str, operation: AlterOperation) -> str:
    members = [member for member in old.split(",") if member]
    for member in given.split(","):
        if operation is AlterOperation.APPEND and member not in members:
            members.append(member)
        elif operation is AlterOperation.SUBTRACT and member in members:
            members.remove(member)
    return ",".join(members)


def _start_in_broker(name: str, operation: AlterOperation) -> str:
    declared = BROKER_CONFIGS.get(name)
    if declared is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if declared.kind is not ConfigType.LIST:
        verb = operation.name.lower()
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Config value {verb} is not allowed for config key: {name}")
    return declared.default or ""


BROKER_LISTS: Final = Lists(
    _start_in_broker, lambda number: ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {number}")
)


def lists_among(declared: Mapping[str, Declared], default_of: Callable[[str], str]) -> Lists:
    """What is known about lists in topics, groups and subscriptions.

    Args:
        declared: the settings there are.
        default_of: what one is when it is not set.
    """

    def start_of(name: str, operation: AlterOperation) -> str:
        known = declared.get(name)
        if known is None or known.kind is not ConfigType.LIST:
            message = f"Can't {operation.name} to key {name} because its type is not LIST."
            raise ApiError(ErrorCode.INVALID_CONFIG, message)
        return default_of(name)

    return Lists(start_of, lambda number: ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, ""))


# -- brokers -------------------------------------------------------------------------------------------------------


def check_broker(configs: Configs, *, one_broker: bool) -> None:
    """Check the dynamic configs of one broker, or of all.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    _refuse_names("Cannot update these configs dynamically", (n for n in configs if _mode_is(n, READ_ONLY)))
    _refuse_names(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (name for name in configs if name in _PER_LISTENER),
    )
    for name, value in configs.items():
        _check_value(name.removeprefix(LISTENER_PREFIX).partition(".")[2] if _is_per_listener(name) else name, value)
    listening = [name for name in configs if _is_per_listener(name) or _mode_is(name, PER_BROKER)]
    if not one_broker:
        _refuse_names("Cannot update these configs at default cluster level, broker id must be specified", listening)
    # Kafka would apply them. Ignoring them silently could leave a listener open that an administrator meant to close.
    # What is about Kerberos is kept: no listener of this broker has it.
    acted_on = (name for name in listening if not name.startswith(_KERBEROS_PREFIX))
    _refuse_names("This broker cannot change its listeners while it runs", acted_on)


def _mode_is(name: str, mode: object) -> bool:
    declared = BROKER_CONFIGS.get(name)
    return declared is not None and declared.mode is mode


def _is_per_listener(name: str) -> bool:
    return name.startswith(LISTENER_PREFIX)


def _refuse_names(message: str, names: Iterable[str]) -> None:
    found = sorted(names)
    if found:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{message}: [{', '.join(found)}]")


def _check_value(name: str, value: str) -> None:
    setting = BROKER_SETTINGS.get(name) or TOPIC_SETTINGS.get(_TOPIC_NAME.get(name, ""))
    declared = BROKER_CONFIGS.get(name)
    try:
        if setting is not None:
            setting.parse(value, name=name)
        elif declared is not None:
            check_type(declared, value)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error


# -- topics, groups, subscriptions ---------------------------------------------------------------------------------


def check_topic(configs: Configs) -> None:
    """Check a topic's settings.

    Raises:
        ApiError: INVALID_CONFIG.
    """
    try:
        topic_config.check(configs)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def check_group(configs: Configs, broker_value: Callable[[str], str | None]) -> None:
    """Check a group's settings.

    Args:
        configs: the settings.
        broker_value: the value in force of a configuration of the broker, which may set limits.

    Raises:
        ApiError: INVALID_CONFIG.
    """
    for name, value in configs.items():
        declared = GROUP_CONFIGS.get(name)
        if declared is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        try:
            check_type(declared, value)
            accepts, problem = _GROUP_TEXTS.get(name, (None, ""))
            if accepts is not None and not accepts(value):
                raise invalid(name, value, problem.format(value))
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        kind, _, rest = name.partition(".")
        for bound, word, fits in (("min", "greater", int.__ge__), ("max", "less", int.__le__)):
            limit_name = f"group.{kind}.{bound}.{rest.removeprefix('num.')}"
            limit = broker_value(limit_name)
            if limit is not None and not fits(int(value), int(limit)):
                message = f"{name} must be {word} than or equal to {limit_name}"
                raise ApiError(ErrorCode.INVALID_CONFIG, message)


def check_client_metrics(name: str, configs: Configs) -> None:
    """Check a subscription to client metrics.

    Raises:
        ApiError: INVALID_REQUEST, or INVALID_CONFIG for a pattern.
    """
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key, value in configs.items():
        check = _CLIENT_METRICS_CHECKS.get(key)
        if check is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
        check(value)


def _check_interval(value: str) -> None:
    low, high = _INTERVAL_MS
    _check_client_metrics_type("interval.ms", value)
    if not low <= int(value) <= high:
        message = f"Invalid value {value} for interval.ms, interval must be between {low} and {high} (1 hour)"
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_match(value: str) -> None:
    _check_client_metrics_list("match", value)
    try:
        parse_match(value)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {error}") from error


def _check_metrics(value: str) -> None:
    _check_client_metrics_list("metrics", value)


def _check_client_metrics_list(name: str, value: str) -> None:
    """Check a list, which has no empty members."""
    if value.strip() and not all(member.strip() for member in value.split(",")):
        message = f"Invalid value {value} for configuration {name}: it has empty members"
        raise ApiError(ErrorCode.INVALID_CONFIG, message)


def _check_client_metrics_type(name: str, value: str) -> None:
    try:
        check_type(CLIENT_METRICS_CONFIGS[name], value)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


_CLIENT_METRICS_CHECKS: Final[dict[str, Callable[[str], None]]] = {
    "interval.ms": _check_interval,
    "match": _check_match,
    "metrics": _check_metrics,
}
