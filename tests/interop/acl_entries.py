"""The access control entries of the comparison with Apache Kafka, and the users that they concern.

Some are written by hand, one user for each rule; others are random.
"""

from __future__ import annotations

import dataclasses
import random
from typing import TypeVar

from kafkaraw.protocol.acl_codes import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kafkaraw.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkaraw.protocol.messages.delete_acls import DeleteAclsFilter
from kafkaraw.protocol.messages.describe_acls import DescribeAclsRequest

_Op, _On, _As, _Is = AclOperation, ResourceType, PatternType, AclPermissionType
Entry = tuple[str, ResourceType, str, PatternType, AclOperation, AclPermissionType, str]


def entry(
    user: str,
    on: ResourceType,
    name: str,
    operation: AclOperation,
    *,
    pattern: PatternType = _As.LITERAL,
    permission: AclPermissionType = _Is.ALLOW,
    host: str = "*",
) -> Entry:
    return f"User:{user}", on, name, pattern, operation, permission, host


def on_cluster(user: str, operation: AclOperation) -> Entry:
    return entry(user, _On.CLUSTER, CLUSTER_NAME, operation)


ENTRIES = [
    # ada: everything about her topic, her group and her transactions
    entry("ada", _On.TOPIC, "flights", _Op.ALL),
    entry("ada", _On.GROUP, "g", _Op.ALL),
    entry("ada", _On.TRANSACTIONAL_ID, "tx", _Op.ALL),
    entry("ada", _On.GROUP, "s", _Op.ALL, pattern=_As.PREFIXED),
    # bob: sees what begins with fl or d, and the offsets of groups
    entry("bob", _On.TOPIC, "fl", _Op.DESCRIBE, pattern=_As.PREFIXED),
    entry("bob", _On.TOPIC, "d", _Op.DESCRIBE, pattern=_As.PREFIXED),
    entry("bob", _On.GROUP, "g", _Op.DESCRIBE),
    entry("bob", _On.GROUP, "s", _Op.DESCRIBE, pattern=_As.PREFIXED),
    # cid: everything but writing what begins with pl, and seeing one topic that he may delete
    entry("cid", _On.TOPIC, "*", _Op.ALL),
    entry("cid", _On.GROUP, "*", _Op.ALL),
    entry("cid", _On.TOPIC, "pl", _Op.WRITE, pattern=_As.PREFIXED, permission=_Is.DENY),
    entry("cid", _On.TOPIC, "doomed-by-name", _Op.DESCRIBE, permission=_Is.DENY),
    entry("cid", _On.TOPIC, "doomed-by-id", _Op.DESCRIBE, permission=_Is.DENY),
    # dot: the cluster is hers
    on_cluster("dot", _Op.ALL),
    # eve: nothing
    # fay: parts of the cluster; reads, but may not describe
    on_cluster("fay", _Op.CREATE),
    on_cluster("fay", _Op.IDEMPOTENT_WRITE),
    on_cluster("fay", _Op.DESCRIBE),
    entry("fay", _On.TOPIC, "flights", _Op.READ),
    entry("fay", _On.TOPIC, "flights", _Op.DESCRIBE, permission=_Is.DENY),
    entry("fay", _On.GROUP, "g", _Op.READ),
    entry("fay", _On.GROUP, "s", _Op.READ, pattern=_As.PREFIXED),
    # gus: creates by prefix, changes settings and sizes, from this host
    entry("gus", _On.TOPIC, "new-", _Op.CREATE, pattern=_As.PREFIXED, host="127.0.0.1"),
    entry("gus", _On.TOPIC, "new-", _Op.DESCRIBE, pattern=_As.PREFIXED, host="127.0.0.1"),
    entry("gus", _On.TOPIC, "flights", _Op.ALTER_CONFIGS, host="127.0.0.1"),
    entry("gus", _On.TOPIC, "flights", _Op.ALTER, host="127.0.0.1"),
    entry("gus", _On.GROUP, "g", _Op.ALTER_CONFIGS, host="127.0.0.1"),
    entry("gus", _On.GROUP, "s", _Op.DELETE, pattern=_As.PREFIXED, host="127.0.0.1"),
    # hal: everything, but from another host
    entry("hal", _On.TOPIC, "*", _Op.ALL, host="10.9.9.9"),
    entry("hal", _On.CLUSTER, CLUSTER_NAME, _Op.ALL, host="10.9.9.9"),
    # ivy: writes everything, which all of it is denied to her
    entry("ivy", _On.TOPIC, "f", _Op.WRITE, pattern=_As.PREFIXED),
    entry("ivy", _On.TOPIC, "*", _Op.WRITE, permission=_Is.DENY),
    on_cluster("ivy", _Op.CLUSTER_ACTION),
    # jan: sees everything, is in any group, writes nothing
    entry("jan", _On.TOPIC, "*", _Op.DESCRIBE),
    entry("jan", _On.GROUP, "*", _Op.READ),
    entry("jan", _On.TOPIC, "*", _Op.WRITE, permission=_Is.DENY),
    # everybody: one topic
    entry("*", _On.TOPIC, "public", _Op.READ),
]
USERS = ("root", "ada", "bob", "cid", "dot", "eve", "fay", "gus", "hal", "ivy", "jan")


def create_entries() -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=on,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for principal, on, name, pattern, operation, permission, host in ENTRIES
        ]
    )


Filter = TypeVar("Filter", DescribeAclsRequest, DeleteAclsFilter)


def every_entry(kind: type[Filter]) -> Filter:
    """A filter that matches everything."""
    return kind(
        resource_type_filter=_On.ANY,
        resource_name_filter=None,
        pattern_type_filter=_As.ANY,
        principal_filter=None,
        host_filter=None,
        operation=_Op.ANY,
        permission_type=_Is.ANY,
    )


# -- random entries ------------------------------------------------------------------------------------------------

# Names that share beginnings, so that prefixes cover some and not others.
_RANDOM_NAMES = ("f", "fl", "flights", "fla", "p", "public", "x", "*")


def random_entries(rng: random.Random, user: str) -> CreateAclsRequest:
    """A few entries about topics, groups and the cluster that concern one user."""
    entries: dict[tuple[object, ...], AclCreation] = {}
    for _ in range(rng.randrange(1, 9)):
        on = rng.choice((_On.TOPIC, _On.TOPIC, _On.TOPIC, _On.GROUP, _On.CLUSTER))
        entry = AclCreation(
            resource_type=on,
            resource_name=CLUSTER_NAME if on is _On.CLUSTER else rng.choice(_RANDOM_NAMES),
            resource_pattern_type=rng.choice((_As.LITERAL, _As.PREFIXED)),
            principal=f"User:{user}",
            host=rng.choice(("*", "*", "127.0.0.1", "10.9.9.9")),
            operation=rng.choice((_Op.ALL, *OPERATIONS_OF[on])),
            permission_type=rng.choice((_Is.ALLOW, _Is.ALLOW, _Is.DENY)),
        )
        entries[dataclasses.astuple(entry)] = entry
    return CreateAclsRequest(creations=list(entries.values()))
