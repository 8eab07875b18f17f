"""ListConfigResources: the resources that have configurations.

Source: KIP-1142; kafka.server.KafkaApis.handleListConfigResources.
"""

from __future__ import annotations

from kafkaraw.broker.handlers.authorization import on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.config_codes import ConfigResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def _not_authorized(request: ListConfigResourcesRequest, message: str) -> ListConfigResourcesResponse:
    """List nothing; the response has no field for the message."""
    return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, config_resources=[])


@handles(
    ListConfigResourcesRequest,
    authorize=on_cluster(AclOperation.DESCRIBE_CONFIGS, _not_authorized),
    permissions=(Permission(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: ListConfigResourcesRequest
) -> Reply[ListConfigResourcesResponse]:
    """List the resources of the types that the request names, or of all types."""
    known = [ConfigResourceType.CLIENT_METRICS] if context.api_version == 0 else [*ConfigResourceType]
    wanted = {*(request.resource_types or known)}
    if not wanted <= {*known}:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    brokers = [str(node_id) for node_id in sorted(state.catalog.brokers)]
    names = {
        ConfigResourceType.TOPIC: [topic.name for topic in state.catalog.topics()],
        ConfigResourceType.BROKER: brokers,
        ConfigResourceType.BROKER_LOGGER: brokers,
        ConfigResourceType.CLIENT_METRICS: state.dynamic_configs.names(ConfigResourceType.CLIENT_METRICS),
        ConfigResourceType.GROUP: state.dynamic_configs.names(ConfigResourceType.GROUP),
    }
    found = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in names
        if kind in wanted
        for name in names[kind]
    ]
    return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=found)
