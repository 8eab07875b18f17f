"""CreateAcls: add access control entries. Each succeeds or fails by itself; one that is there already is no error.

Source: kafka.server.AclApis.handleCreateAcls, org.apache.kafka.controller.AclControlManager.validateNewAcl.
"""

from __future__ import annotations

import logging

from kafkaraw.broker.acl.rules import Acl
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.refusal import CloseConnection, Refusal
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


def handle(state: BrokerState, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Add the entries that make sense."""
    acls = [_acl(creation) for creation in request.creations]
    authorizer = state.catalog.authorizer
    if authorizer is None:
        return CreateAclsResponse(results=[_failed(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER) for _ in acls])
    results, good = list[AclCreationResult](), list[Acl]()
    for acl in acls:
        try:
            check_new(acl)
        except Refusal as refusal:
            results.append(_failed(refusal.code, refusal.message))
        else:
            good.append(acl)
            results.append(AclCreationResult(error_code=ErrorCode.NONE, error_message=None))
    try:
        state.change_acls(authorizer, add=good)
    except OSError as error:
        _logger.error("cannot keep access control entries: %s", error)
        why = f"the entries cannot be stored: {error.strerror}"
        return CreateAclsResponse(results=[_failed(ErrorCode.KAFKA_STORAGE_ERROR, why) for _ in acls])
    return CreateAclsResponse(results=results)


def _failed(code: ErrorCode, message: str) -> AclCreationResult:
    return AclCreationResult(error_code=code, error_message=message)


def _acl(creation: AclCreation) -> Acl:
    """The entry that is asked for. Kafka closes the connection when a number has no meaning, and so does this."""
    acl = Acl(
        ResourceType.of(creation.resource_type),
        creation.resource_name,
        PatternType.of(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation.of(creation.operation),
        AclPermissionType.of(creation.permission_type),
    )
    if not (acl.resource_type and acl.pattern_type and acl.operation and acl.permission_type):
        raise CloseConnection("CreateAcls has an entry with unknown elements")
    return acl


def check_new(acl: Acl) -> None:
    """Check that an entry can be one.

    Raises:
        Refusal: INVALID_REQUEST.
    """
    checks = (
        (
            acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME,
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}",
        ),
        (not acl.resource_name, "Invalid empty resource name"),
        (acl.resource_type is ResourceType.ANY, f"Invalid resourceType {acl.resource_type.name}"),
        (
            acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED),
            f"Invalid patternType {acl.pattern_type.name}",
        ),
        (acl.operation is AclOperation.ANY, f"Invalid operation {acl.operation.name}"),
        (acl.permission_type is AclPermissionType.ANY, f"Invalid permissionType {acl.permission_type.name}"),
        (
            ":" not in acl.principal,
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)",
        ),
    )
    for wrong, message in checks:
        if wrong:
            raise Refusal(ErrorCode.INVALID_REQUEST, message)
