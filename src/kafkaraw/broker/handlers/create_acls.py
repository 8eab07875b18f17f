"""CreateAcls: add ACLs. Each succeeds or fails independently; an existing ACL is no error.

Source: kafka.server.AclApis.handleCreateAcls, org.apache.kafka.controller.AclControlManager.validateNewAcl.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkaraw.broker.acl.rules import Acl
from kafkaraw.broker.api_error import ApiError, CloseConnectionError
from kafkaraw.broker.handlers.authorization import on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

NO_AUTHORIZER = "No Authorizer is configured."

_logger = logging.getLogger("kafkaraw.broker")


def _not_authorized(request: CreateAclsRequest, message: str) -> CreateAclsResponse:
    """Refuse to create any ACL."""
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=message)
            for _ in request.creations
        ]
    )


@handles(
    CreateAclsRequest,
    authorize=on_cluster(AclOperation.ALTER, _not_authorized),
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(state: BrokerState, context: RequestContext, request: CreateAclsRequest) -> Reply[CreateAclsResponse]:
    """Add the valid ACLs."""
    acls = [_acl(creation) for creation in request.creations]
    authorizer = state.catalog.authorizer
    if authorizer is None:
        return _all_failed(acls, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    if any(_is_for_filters(acl) for acl in acls):
        # Kafka's own classes cannot hold such an entry, which fails the whole request.
        return _all_failed(acls, ErrorCode.UNKNOWN_SERVER_ERROR, "ANY and MATCH are valid in filters only")
    results, good = list[AclCreationResult](), list[Acl]()
    for acl in acls:
        try:
            check_new(acl)
        except ApiError as error:
            results.append(_failed(error.code, error.message))
        else:
            good.append(acl)
            results.append(AclCreationResult(error_code=ErrorCode.NONE, error_message=None))
    try:
        state.change_acls(authorizer, add=good)
    except OSError as error:
        _logger.error("cannot store ACLs: %s", error)
        return _all_failed(acls, ErrorCode.KAFKA_STORAGE_ERROR, f"the ACLs cannot be stored: {error.strerror}")
    return CreateAclsResponse(results=results)


def _all_failed(acls: Sequence[Acl], code: ErrorCode, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_failed(code, message) for _ in acls])


def _failed(code: ErrorCode, message: str) -> AclCreationResult:
    return AclCreationResult(error_code=code, error_message=message)


def _acl(creation: AclCreation) -> Acl:
    """Return the requested ACL. As in Kafka, an ACL with an UNKNOWN type closes the connection."""
    codes = (creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type)
    if not all(codes):
        raise CloseConnectionError("CreateAcls has an entry with unknown elements")
    return Acl(
        ResourceType.of(creation.resource_type),
        creation.resource_name,
        PatternType.of(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation.of(creation.operation),
        AclPermissionType.of(creation.permission_type),
    )


def _is_for_filters(acl: Acl) -> bool:
    return (
        acl.resource_type is ResourceType.ANY
        or acl.pattern_type in (PatternType.ANY, PatternType.MATCH)
        or acl.operation is AclOperation.ANY
        or acl.permission_type is AclPermissionType.ANY
    )


def check_new(acl: Acl) -> None:
    """Check that an ACL is valid.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    checks = (
        (
            acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME,
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}",
        ),
        (not acl.resource_name, "Invalid empty resource name"),
        (acl.resource_type is ResourceType.UNKNOWN, "Invalid resourceType UNKNOWN"),
        (acl.pattern_type is PatternType.UNKNOWN, "Invalid patternType UNKNOWN"),
        (acl.operation is AclOperation.UNKNOWN, "Invalid operation UNKNOWN"),
        (acl.permission_type is AclPermissionType.UNKNOWN, "Invalid permissionType UNKNOWN"),
        (
            ":" not in acl.principal,
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)",
        ),
    )
    for wrong, message in checks:
        if wrong:
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
