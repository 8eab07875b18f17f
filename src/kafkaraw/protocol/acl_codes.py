"""The numbers that access control lists have on the wire: resources, patterns, operations, permissions.

Only names and numbers, shared by client and broker; the broker's authorizer decides what they mean.
Source: KIP-11, KIP-290 (patterns), KIP-373 (users), KIP-430 (`OPERATIONS_OF`), KIP-939 (two-phase commit);
org.apache.kafka.common.acl, org.apache.kafka.security.authorizer.AclEntry of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, Self


class _Code(IntEnum):
    @classmethod
    def of(cls, code: int) -> Self:
        """Return the member with a number from the wire; UNKNOWN for one that this version does not have."""
        return cls(code) if code in cls._value2member_map_ else cls(0)


class ResourceType(_Code):
    """The type of a protected resource. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How a pattern's name is compared. ANY and MATCH (all patterns that apply to a name) are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """The operation of a principal. ANY is for filters only; ALL means every operation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_Code):
    """Whether an entry allows or denies. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""

WILDCARD: Final = "*"
"""As a literal name: every resource of the type; as a host: every host."""

_Op = AclOperation
OPERATIONS_OF: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            _Op.READ,
            _Op.WRITE,
            _Op.CREATE,
            _Op.DELETE,
            _Op.ALTER,
            _Op.DESCRIBE,
            _Op.DESCRIBE_CONFIGS,
            _Op.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (_Op.READ, _Op.DELETE, _Op.DESCRIBE, _Op.DESCRIBE_CONFIGS, _Op.ALTER_CONFIGS),
        ResourceType.CLUSTER: (
            _Op.CREATE,
            _Op.ALTER,
            _Op.DESCRIBE,
            _Op.CLUSTER_ACTION,
            _Op.DESCRIBE_CONFIGS,
            _Op.ALTER_CONFIGS,
            _Op.IDEMPOTENT_WRITE,
        ),
        ResourceType.TRANSACTIONAL_ID: (_Op.WRITE, _Op.DESCRIBE, _Op.TWO_PHASE_COMMIT),
        ResourceType.DELEGATION_TOKEN: (_Op.DESCRIBE,),
        ResourceType.USER: (_Op.CREATE_TOKENS, _Op.DESCRIBE_TOKENS),
    }
)
"""The operations of each type of resource, as brokers return them in "authorized operations"."""


def operation_bits(operations: Iterable[AclOperation]) -> int:
    """Return operations as the bit field in which brokers return authorized operations (KIP-430)."""
    return sum(1 << operation for operation in frozenset(operations))
