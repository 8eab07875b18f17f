"""IncrementalAlterConfigs: change single settings of topics, brokers, loggers, groups and client metrics.

Each resource is changed completely or not at all, independently of the others.
Source: KIP-339, KIP-412 (loggers); kafka.server.ConfigAdminManager.
"""

from __future__ import annotations

from kafkaraw.broker import loggers
from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.configs.config_changes import Change, altered
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.config_resources import (
    ALTER_PERMISSIONS,
    alter,
    authorize_changes,
    change_each,
    invalid,
    refuse_doubles,
    refuse_nulls,
)
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.config_codes import AlterOperation, ConfigResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def authorize(
    call: Call[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse], request: IncrementalAlterConfigsRequest
) -> Reply[IncrementalAlterConfigsResponse]:
    """ALTER_CONFIGS on each resource."""
    answer = IncrementalAlterConfigsResponse(responses=[])
    return authorize_changes(call, request, request.resources, AlterConfigsResourceResponse, answer)


@handles(
    IncrementalAlterConfigsRequest,
    authorize=authorize,
    permissions=ALTER_PERMISSIONS,
)
def handle(
    state: BrokerState, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Reply[IncrementalAlterConfigsResponse]:
    """Change each resource independently."""

    def change(resource: AlterConfigsResource) -> None:
        _alter(state, resource, validate_only=request.validate_only)

    return IncrementalAlterConfigsResponse(
        responses=change_each(request.resources, change, AlterConfigsResourceResponse)
    )


def _alter(state: BrokerState, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    refuse_doubles(config.name for config in resource.configs)
    refuse_nulls(
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != AlterOperation.DELETE
    )
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        _alter_loggers(state, resource, validate_only=validate_only)
        return
    changes = [Change(config.name, config.config_operation, config.value or "") for config in resource.configs]
    alter(
        state,
        resource.resource_type,
        resource.resource_name,
        lambda own, lists: altered(own, changes, lists),
        validate_only=validate_only,
    )


def _alter_loggers(state: BrokerState, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    try:
        node_id = int(resource.resource_name)
    except ValueError:
        raise invalid(f"Node id must be an integer, but it is: {resource.resource_name}") from None
    if node_id != state.node_id:
        raise invalid(f"Unexpected node id. Expected {state.node_id}, but received {node_id}")
    for config in resource.configs:
        _check_logger(config)
    if not validate_only:
        for config in resource.configs:
            deleted = config.config_operation == AlterOperation.DELETE
            loggers.set_level(config.name, None if deleted else config.value)


def _check_logger(config: AlterableConfig) -> None:
    if config.config_operation not in (AlterOperation.SET, AlterOperation.DELETE):
        known = config.config_operation in set(AlterOperation)
        name = AlterOperation(config.config_operation).name if known else str(config.config_operation)
        raise invalid(f"{name} operation is not allowed for the BROKER_LOGGER resource")
    if config.name not in loggers.levels():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {config.name} does not exist!")
    if config.config_operation == AlterOperation.DELETE:
        if config.name == loggers.ROOT:
            raise invalid("Removing the log level of the root logger is not allowed")
    elif config.value not in loggers.LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {config.name} to {config.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(loggers.LEVELS)}",
        )
