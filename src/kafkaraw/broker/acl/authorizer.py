"""The authorization decision: whether a principal from a host may perform an operation on a resource.

The rules are those of Kafka's StandardAuthorizer: super users are permitted everything. Among the ACLs that match the
resource, DENY takes precedence over ALLOW. Without a matching ALLOW the operation is denied, unless no ACL matches the
resource and `allow.everyone.if.no.acl.found` is set. Only principal and host count; `broker.handlers.authorization`
calls this module.
Source: org.apache.kafka.metadata.authorizer.StandardAuthorizerData, org.apache.kafka.server.authorizer.Authorizer;
KIP-11, KIP-290, KIP-679 (`allows_any`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.acl.rules import Acl, AclRules
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol.acl_codes import (
    OPERATIONS_OF,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    operation_bits,
)

WILDCARD_PRINCIPAL: Final = "User:*"
_Op = AclOperation
# What an entry that allows one thing allows besides; an entry that denies denies that one thing only.
_ALLOWED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    _Op.DESCRIBE: frozenset({_Op.DESCRIBE, _Op.READ, _Op.WRITE, _Op.DELETE, _Op.ALTER}),
    _Op.DESCRIBE_CONFIGS: frozenset({_Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS}),
}
# The name that matches resources without an entry of their own, as in Kafka.
_SOME_RESOURCE: Final = "hardcode"


class Client(NamedTuple):
    """The client that sent a request.

    Attributes:
        principal: such as "User:ada".
        host: the client's IP address.
    """

    principal: str
    host: str


class Authorizer:
    """Decides by ACLs, super users, and `allow.everyone.if.no.acl.found`.

    Args:
        rules: the entries; read at each decision, so that changes take effect immediately.
        super_users: principals that may everything.
        allow_everyone_if_no_acl_found: the answer for a resource that no entry covers.
    """

    def __init__(
        self,
        rules: AclRules,
        super_users: frozenset[str] = frozenset(),
        *,
        allow_everyone_if_no_acl_found: bool = False,
    ) -> None:
        self.rules = rules
        self._super_users = super_users
        self._allow_everyone = allow_everyone_if_no_acl_found

    def allows(self, client: Client, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether a client may do something to one resource."""
        if client.principal in self._super_users:
            return True
        covered = allowed = False
        for acl in self.rules.applying_to(resource_type, name):
            covered = True
            if _concerns(acl, client) and _is_about(acl, operation):
                if acl.permission_type is AclPermissionType.DENY:
                    return False
                allowed = True
        return allowed or (self._allow_everyone and not covered)

    def allows_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether a client may do something to at least one resource of a type, one that need not exist.

        Operations that are implied by others do not count, as in Kafka.
        """
        if self.allows(client, operation, resource_type, _SOME_RESOURCE):
            return True
        allowed: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        for acl in self.rules.of_type(resource_type):
            if _concerns(acl, client) and acl.operation in (operation, _Op.ALL):
                chosen = denied if acl.permission_type is AclPermissionType.DENY else allowed
                chosen.add((acl.pattern_type, acl.resource_name))
        everything = (PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        return everything in allowed or any(not _overruled(*pattern, denied) for pattern in allowed)

    def authorized_operations(self, client: Client, resource_type: ResourceType, name: str) -> int:
        """What a client may do to a resource, as a field of bits numbered by operation (KIP-430)."""
        supported = OPERATIONS_OF[resource_type]
        return operation_bits(one for one in supported if self.allows(client, one, resource_type, name))


def _concerns(acl: Acl, client: Client) -> bool:
    return acl.principal in (client.principal, WILDCARD_PRINCIPAL) and acl.host in (client.host, WILDCARD)


def _is_about(acl: Acl, operation: AclOperation) -> bool:
    if acl.operation in (operation, _Op.ALL):
        return True
    return acl.permission_type is AclPermissionType.ALLOW and acl.operation in _ALLOWED_BY.get(operation, ())


def _overruled(pattern_type: PatternType, name: str, denied: set[tuple[PatternType, str]]) -> bool:
    """Whether everything that a pattern allows is denied by one other pattern."""
    if pattern_type is PatternType.LITERAL and (pattern_type, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))
