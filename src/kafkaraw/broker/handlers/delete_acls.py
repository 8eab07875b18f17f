"""DeleteAcls: delete the ACLs that match filters.

Source: kafka.server.AclApis.handleDeleteAcls, org.apache.kafka.controller.AclControlManager.deleteAcls.
"""

from __future__ import annotations

import logging

from kafkaraw.broker.acl.rules import Acl, AclFilter
from kafkaraw.broker.handlers.authorization import on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.create_acls import NO_AUTHORIZER
from kafkaraw.broker.handlers.describe_acls import filter_of
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

_logger = logging.getLogger("kafkaraw.broker")


def _not_authorized(request: DeleteAclsRequest, message: str) -> DeleteAclsResponse:
    """Refuse to delete any ACL."""
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=message, matching_acls=[]
            )
            for _ in request.filters
        ]
    )


@handles(
    DeleteAclsRequest,
    authorize=on_cluster(AclOperation.ALTER, _not_authorized),
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(state: BrokerState, context: RequestContext, request: DeleteAclsRequest) -> Reply[DeleteAclsResponse]:
    """Remove the matching ACLs; an ACL that matches several filters is listed in the result of each."""
    filters = [filter_of(asked) for asked in request.filters]
    authorizer = state.catalog.authorizer
    if authorizer is None:
        return _refused(len(filters), ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    problems = [_problem(wanted) for wanted in filters]
    found = [
        [] if problem else authorizer.rules.matching(wanted) for wanted, problem in zip(filters, problems, strict=True)
    ]
    try:
        state.change_acls(authorizer, remove=dict.fromkeys(acl for acls in found for acl in acls))
    except OSError as error:
        _logger.error("cannot delete ACLs: %s", error)
        why = f"the change cannot be stored: {error.strerror}"
        return _refused(len(filters), ErrorCode.KAFKA_STORAGE_ERROR, why)
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=ErrorCode.INVALID_REQUEST if problem else ErrorCode.NONE,
                error_message=problem or None,
                matching_acls=[_removed(acl) for acl in acls],
            )
            for acls, problem in zip(found, problems, strict=True)
        ]
    )


def _problem(wanted: AclFilter) -> str:
    if wanted.resource_type is ResourceType.UNKNOWN or wanted.pattern_type is PatternType.UNKNOWN:
        return "Unknown patternFilter."
    if wanted.operation is AclOperation.UNKNOWN or wanted.permission_type is AclPermissionType.UNKNOWN:
        return "Unknown entryFilter."
    return ""


def _refused(count: int, code: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[]) for _ in range(count)
        ]
    )


def _removed(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
