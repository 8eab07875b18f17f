"""Configurations for the admin client: describe and alter those of topics, brokers, groups and client metrics."""

# ruff: noqa: D102 - `AsyncAdmin` documents the operations

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kafkaraw.client.admin.calls import Calls, failure
from kafkaraw.client.arguments import list_of
from kafkaraw.client.deadline import Deadline
from kafkaraw.client.network.connection import Connection
from kafkaraw.errors import KafkaError, UnsupportedVersionError, UsageError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol.config_codes import AlterOperation, ConfigResourceType, ConfigSource, ConfigType
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from kafkaraw.protocol.messages.list_config_resources import ListConfigResourcesRequest

_LIST_CONFIG_RESOURCES_KEY: Final = 74
_ALL_KINDS_FROM_VERSION: Final = 1

# Which broker answers for a resource: a node's id, or None for any.
_OF_ONE_NODE = frozenset((ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER))


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A resource that has a configuration.

    Attributes:
        kind: the kind of resource.
        name: of the topic or group, or the id of the broker as text; empty for the defaults of all brokers.
    """

    kind: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """A topic."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None = None) -> ConfigResource:
        """One broker; None for the defaults of all brokers."""
        return cls(ConfigResourceType.BROKER, "" if node_id is None else str(node_id))

    @classmethod
    def broker_logger(cls, node_id: int) -> ConfigResource:
        """The loggers of one broker."""
        return cls(ConfigResourceType.BROKER_LOGGER, str(node_id))

    @classmethod
    def group(cls, name: str) -> ConfigResource:
        """A group of consumers."""
        return cls(ConfigResourceType.GROUP, name)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        """A subscription to client metrics."""
        return cls(ConfigResourceType.CLIENT_METRICS, name)


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value of the setting from another source, such as a default. The value of a secret is None."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting.

    Attributes:
        name: Kafka's name for it.
        value: the value in force, as text; None when there is none, or when it is a secret.
        source: where the value comes from.
        kind: the type of the value.
        is_read_only: whether it cannot be altered while the broker runs.
        is_sensitive: whether it is a secret.
        documentation: the broker's description of the setting; None when not requested.
        synonyms: the values from all sources, the one in force first; empty when not requested.
    """

    name: str
    value: str | None
    source: ConfigSource
    kind: ConfigType
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change of one setting.

    Attributes:
        name: Kafka's name for it.
        value: the new value; for a list, the entries to add or remove, separated by commas. None with DELETE only.
        operation: SET, DELETE (back to the value of the next source), APPEND or SUBTRACT.
    """

    name: str
    value: str | None = field(default=None, repr=False)  # it may be a secret
    operation: AlterOperation = AlterOperation.SET


Changes = Mapping[str, str | None] | Iterable[ConfigChange]
R = TypeVar("R", bound=Response)
_Ask = Callable[[int | None, Sequence[ConfigResource]], Awaitable[dict[ConfigResource, KafkaError]]]


class ConfigAdmin:
    """The operations on configurations.

    Args:
        calls: sends the requests to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        wanted = _resources(resources)
        keys = None if names is None else list(names)
        deadline = self._calls.deadline(timeout)
        found: dict[ConfigResource, dict[str, ConfigEntry]] = {}

        def request_for(asked: Sequence[ConfigResource]) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=one.kind, resource_name=one.name, configuration_keys=keys)
                    for one in asked
                ],
                include_synonyms=synonyms,
                include_documentation=documentation,
            )

        async def ask(node_id: int | None, asked: Sequence[ConfigResource]) -> dict[ConfigResource, KafkaError]:
            answer = await self._ask("describe_configs", node_id, request_for(asked), deadline)
            failures = {}
            for result in answer.results:
                resource = ConfigResource(ConfigResourceType(result.resource_type), result.resource_name)
                if result.error_code:
                    failures[resource] = _failure(result, resource, "DESCRIBE_CONFIGS")
                else:
                    found[resource] = {config.name: _entry(config) for config in result.configs}
            return failures

        await self._calls.each(wanted, lambda left: _by_node(left, ask), deadline)
        return {resource: found[resource] for resource in wanted if resource in found}

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Changes],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
    ) -> None:
        if not isinstance(changes, Mapping):
            raise UsageError(
                f"alter_configs({changes!r:.80}): give new values by resource, as in "
                f"{{ConfigResource.topic('orders'): {{'retention.ms': '60000'}}}}"
            )
        wanted = {resource: _changes(given) for resource, given in changes.items()}
        deadline = self._calls.deadline(timeout)

        async def ask(node_id: int | None, asked: Sequence[ConfigResource]) -> dict[ConfigResource, KafkaError]:
            request = IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(resource_type=one.kind, resource_name=one.name, configs=wanted[one])
                    for one in asked
                ],
                validate_only=validate_only,
            )
            answer = await self._ask("alter_configs", node_id, request, deadline)
            results = answer.responses
            failed = [
                (ConfigResource(ConfigResourceType(result.resource_type), result.resource_name), result)
                for result in results
                if result.error_code
            ]
            return {resource: _failure(result, resource, "ALTER_CONFIGS") for resource, result in failed}

        await self._calls.each(_resources(wanted), lambda left: _by_node(left, ask), deadline)

    async def list_config_resources(
        self, kinds: Iterable[ConfigResourceType] | None = None, *, timeout: float | None = None
    ) -> list[ConfigResource]:
        wanted = list_of(kinds or (), ConfigResourceType, "list_config_resources", "ConfigResourceType.GROUP")
        deadline = self._calls.deadline(timeout)

        def for_version(connection: Connection) -> ListConfigResourcesRequest:
            version = connection.version_for(_LIST_CONFIG_RESOURCES_KEY)
            if version < _ALL_KINDS_FROM_VERSION and wanted != [ConfigResourceType.CLIENT_METRICS]:
                raise UnsupportedVersionError(
                    f"list_config_resources: this needs ListConfigResources {_ALL_KINDS_FROM_VERSION}; version "
                    f"{version} of this broker lists [ConfigResourceType.CLIENT_METRICS] only"
                )
            types = [int(kind) for kind in wanted] if version >= _ALL_KINDS_FROM_VERSION else []
            return ListConfigResourcesRequest(resource_types=types)

        async def once() -> list[ConfigResource]:
            answer = await self._calls.ask_any(for_version, deadline)
            if answer.error_code:
                what = "list the resources with configurations"
                raise failure(answer.error_code, None, what, operation="DESCRIBE_CONFIGS")
            known = {*ConfigResourceType}
            found = [one for one in answer.config_resources if one.resource_type in known]
            return [ConfigResource(ConfigResourceType(one.resource_type), one.resource_name) for one in found]

        return await self._calls.retry(once, deadline)

    async def _ask(self, call: str, node_id: int | None, request: Request[R], deadline: Deadline) -> R:
        if node_id is None:
            return await self._calls.ask_any(request, deadline)
        if self._calls.unknown_broker(call, node_id) is not None:
            await self._calls.engine.refresh_brokers(timeout=deadline.remaining)
            error = self._calls.unknown_broker(call, node_id)
            if error is not None:
                raise error
        return await self._calls.ask_node(node_id, request, deadline)


async def _by_node(resources: Sequence[ConfigResource], ask: _Ask) -> dict[ConfigResource, KafkaError]:
    """Send each broker the part that only it can answer, and any broker the rest, all concurrently.

    If a broker cannot be reached, only its own part fails.
    """
    shares: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        shares.setdefault(_node_of(resource), []).append(resource)
    outcomes = await asyncio.gather(*(ask(node_id, share) for node_id, share in shares.items()), return_exceptions=True)
    failures: dict[ConfigResource, KafkaError] = {}
    for share, outcome in zip(shares.values(), outcomes, strict=True):
        if isinstance(outcome, KafkaError):
            failures.update(dict.fromkeys(share, outcome))
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            failures.update(outcome)
    return failures


def _node_of(resource: ConfigResource) -> int | None:
    if resource.kind not in _OF_ONE_NODE or not resource.name:
        return None
    try:
        return int(resource.name)
    except ValueError:
        raise UsageError(f"{_shown(resource)}: a broker is named by its id, a number") from None


def _resources(resources: Iterable[ConfigResource]) -> list[ConfigResource]:
    if isinstance(resources, str | ConfigResource) or not isinstance(resources, Iterable):
        raise UsageError(f"{resources!r} is no list: give a list, as in [ConfigResource.topic('orders')]")
    found = list(dict.fromkeys(resources))
    for resource in found:
        if not isinstance(resource, ConfigResource):
            raise UsageError(f"{resource!r} is not a ConfigResource; write ConfigResource.topic({resource!r})")
        if not isinstance(resource.kind, ConfigResourceType):
            raise UsageError(f"{resource!r}: the kind is no ConfigResourceType; write ConfigResource.topic('orders')")
        _node_of(resource)
    return found


def _changes(given: Changes) -> list[AlterableConfig]:
    if isinstance(given, Mapping):
        operations = {True: AlterOperation.DELETE, False: AlterOperation.SET}
        given = [ConfigChange(name, value, operations[value is None]) for name, value in given.items()]
    return [
        AlterableConfig(
            name=change.name,
            config_operation=change.operation,
            value=None if change.value is None else str(change.value),
        )
        for change in given
    ]


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=ConfigSource(config.config_source),
        kind=ConfigType(config.config_type),
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        documentation=config.documentation or None,
        synonyms=tuple(
            ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source)) for synonym in config.synonyms
        ),
    )


def _failure(
    result: DescribeConfigsResult | AlterConfigsResourceResponse, resource: ConfigResource, operation: str
) -> KafkaError:
    verb = operation.partition("_")[0].lower()
    return failure(
        result.error_code,
        result.error_message,
        f"{verb} {_shown(resource)}",
        resource=resource.name,
        operation=operation,
    )


def _shown(resource: ConfigResource) -> str:
    kind = resource.kind.name.lower().replace("_", " ")
    return f"the configuration of {kind} {resource.name!r}" if resource.name else "the defaults of all brokers"
