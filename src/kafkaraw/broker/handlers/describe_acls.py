"""DescribeAcls: list the ACLs that match a filter.

Source: kafka.server.AclApis.handleDescribeAcls, DescribeAclsResponse.aclsResources.
"""

from __future__ import annotations

from kafkaraw.broker.acl.rules import AclFilter
from kafkaraw.broker.api_error import CloseConnectionError
from kafkaraw.broker.handlers.authorization import on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_acls import (
    DeleteAclsFilter,
)
from kafkaraw.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def _not_authorized(request: DescribeAclsRequest, message: str) -> DescribeAclsResponse:
    """Refuse to list any ACL."""
    return DescribeAclsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=message, resources=[])


@handles(
    DescribeAclsRequest,
    authorize=on_cluster(AclOperation.DESCRIBE, _not_authorized),
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.CLUSTER),),
)
def handle(state: BrokerState, context: RequestContext, request: DescribeAclsRequest) -> Reply[DescribeAclsResponse]:
    """Answer with the entries, by resource."""
    wanted = filter_of(request)
    authorizer = state.catalog.authorizer
    if authorizer is None:
        message = "No Authorizer is configured on the broker"
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=message, resources=[])
    resources: dict[tuple[ResourceType, str, PatternType], DescribeAclsResource] = {}
    for acl in authorizer.rules.matching(wanted):
        pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
        if pattern not in resources:
            resources[pattern] = DescribeAclsResource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type, acls=[]
            )
        resources[pattern].acls.append(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
            )
        )
    return DescribeAclsResponse(error_code=ErrorCode.NONE, error_message=None, resources=list(resources.values()))


def filter_of(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter of a request. As in Kafka, a filter with an UNKNOWN type closes the connection.

    Raises:
        CloseConnectionError: a type is UNKNOWN. Undefined numbers become UNKNOWN, which matches no ACL.
    """
    codes = (asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type)
    if not all(codes):
        raise CloseConnectionError("an ACL filter has unknown elements")
    return AclFilter(
        ResourceType.of(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType.of(asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        AclOperation.of(asked.operation),
        AclPermissionType.of(asked.permission_type),
    )
