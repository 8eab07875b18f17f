"""DescribeCluster: the cluster's id, its brokers and its controller.

Source: KIP-700, KIP-919 (endpoint types), KIP-1073 (fenced brokers); kafka.server.AuthHelper.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.metadata import CLUSTER_OPERATIONS
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


def authorize(
    call: Call[DescribeClusterRequest, DescribeClusterResponse], request: DescribeClusterRequest
) -> Reply[DescribeClusterResponse]:
    """No permission required; the authorized operations are only returned with DESCRIBE on the cluster."""

    def merge(response: DescribeClusterResponse) -> DescribeClusterResponse:
        if request.include_cluster_authorized_operations and response.error_code == ErrorCode.NONE:
            response.cluster_authorized_operations = call.cluster_operations()
        return response

    return call.go_on(request, merge)


@handles(
    DescribeClusterRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.CLUSTER, "to see the authorized operations"),),
    note="otherwise open",
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeClusterRequest
) -> Reply[DescribeClusterResponse]:
    """Return the nodes that are reachable on the client's listener."""
    if request.endpoint_type == CONTROLLERS:
        return _error_response(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        return _error_response(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {request.endpoint_type}"
        )
    brokers = []
    for node_id, broker in sorted(state.catalog.brokers.items()):
        endpoint = broker.endpoints.get(context.listener)
        if endpoint is not None:
            brokers.append(
                DescribeClusterBroker(broker_id=node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            )
    response = DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=state.catalog.cluster_id,
        controller_id=state.catalog.controller_id,
        brokers=brokers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _error_response(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message, cluster_id="", brokers=[])
