"""AlterConfigs: give a resource exactly the settings named, and no others. IncrementalAlterConfigs is what to use.

Source: KIP-133; kafka.server.ConfigAdminManager.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.config_resources import alter, change_each, refuse_doubles, refuse_nulls
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(state: BrokerState, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change each resource by itself."""

    def change(resource: AlterConfigsResource) -> None:
        _alter(state, resource, validate_only=request.validate_only)

    return AlterConfigsResponse(responses=change_each(request.resources, change, AlterConfigsResourceResponse))


def _alter(state: BrokerState, resource: AlterConfigsResource, *, validate_only: bool) -> None:
    refuse_doubles(config.name for config in resource.configs)
    refuse_nulls(config.name for config in resource.configs if config.value is None)
    configs = {config.name: config.value or "" for config in resource.configs}
    alter(
        state,
        resource.resource_type,
        resource.resource_name,
        lambda own, lists: configs,
        validate_only=validate_only,
    )
