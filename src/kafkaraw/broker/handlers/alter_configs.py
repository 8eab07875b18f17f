"""AlterConfigs: replace all settings of a resource. Clients should use IncrementalAlterConfigs instead.

Source: KIP-133; kafka.server.ConfigAdminManager.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.config_resources import (
    alter,
    change_each,
    denied_result,
    divide_permitted,
    refuse_doubles,
    refuse_nulls,
)
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def authorize(
    call: Call[AlterConfigsRequest, AlterConfigsResponse], request: AlterConfigsRequest
) -> Reply[AlterConfigsResponse]:
    """As IncrementalAlterConfigs."""
    allowed, refused = divide_permitted(call, request.resources, AclOperation.ALTER_CONFIGS)
    denied = [denied_result(AlterConfigsResourceResponse, *one) for one in refused]
    answer = AlterConfigsResponse(responses=[])
    return call.go_on_with(request, allowed, denied, answer, parts="resources", results="responses")


@handles(
    AlterConfigsRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, "of a topic"),
        Permission(AclOperation.ALTER_CONFIGS, ResourceType.GROUP, "of a group"),
        Permission(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, "of a broker"),
    ),
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
