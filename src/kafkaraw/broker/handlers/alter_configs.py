"""AlterConfigs: replace all settings of a resource. Clients should use IncrementalAlterConfigs instead.

Source: KIP-133; kafka.server.ConfigAdminManager.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.config_resources import (
    ALTER_PERMISSIONS,
    alter,
    authorize_changes,
    change_each,
    refuse_doubles,
    refuse_nulls,
)
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def authorize(
    call: Call[AlterConfigsRequest, AlterConfigsResponse], request: AlterConfigsRequest
) -> Reply[AlterConfigsResponse]:
    """ALTER_CONFIGS on each resource."""
    answer = AlterConfigsResponse(responses=[])
    return authorize_changes(call, request, request.resources, AlterConfigsResourceResponse, answer)


@handles(
    AlterConfigsRequest,
    authorize=authorize,
    permissions=ALTER_PERMISSIONS,
)
def handle(state: BrokerState, context: RequestContext, request: AlterConfigsRequest) -> Reply[AlterConfigsResponse]:
    """Change each resource independently."""

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
