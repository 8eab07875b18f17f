"""AlterConfigs: give a resource exactly the settings named, and no others. IncrementalAlterConfigs is what to use.

Source: KIP-133; kafka.server.ConfigAdminManager.
"""

from __future__ import annotations

from collections import Counter

from kafkaraw.broker.handlers.config_resources import alter, invalid, refuse_doubles, refuse_nulls
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(state: BrokerState, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change each resource by itself."""
    asked = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = []
    for resource in request.resources:
        answer = AlterConfigsResourceResponse(
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            if asked[(resource.resource_type, resource.resource_name)] > 1:
                raise invalid("Each resource must appear at most once.")
            _alter(state, resource, validate_only=request.validate_only)
        except Refusal as refusal:
            answer.error_code, answer.error_message = refusal.code, refusal.message or None
        responses.append(answer)
    return AlterConfigsResponse(responses=responses)


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
