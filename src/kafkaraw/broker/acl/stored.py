"""The file of ACLs, which survive a restart in it. Text in, text out.

Kafka keeps them in its metadata log, we in `kafkaraw-acls.json`, by the names that Kafka's tools print.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from kafkaraw.broker.acl.rules import Acl
from kafkaraw.errors import ConfigError
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType

ACLS_FILE: Final = "kafkaraw-acls.json"
ACLS_VERSION: Final = 1


def write_acls(acls: Iterable[Acl]) -> str:
    """The text of `kafkaraw-acls.json`."""
    rows = [
        {
            "resource_type": acl.resource_type.name,
            "resource_name": acl.resource_name,
            "pattern_type": acl.pattern_type.name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation.name,
            "permission_type": acl.permission_type.name,
        }
        for acl in acls
    ]
    return json.dumps({"version": ACLS_VERSION, "acls": rows}, indent=1) + "\n"


def read_acls(text: str) -> list[Acl]:
    """Read `kafkaraw-acls.json`.

    Raises:
        ConfigError: it is damaged, or of a newer version. It is never ignored: that would permit what its entries deny.
    """
    try:
        content = json.loads(text)
        if content["version"] != ACLS_VERSION:
            raise ConfigError(f"{ACLS_FILE}: version {content['version']} is not known, only {ACLS_VERSION} is")
        return [
            Acl(
                ResourceType[row["resource_type"]],
                str(row["resource_name"]),
                PatternType[row["pattern_type"]],
                str(row["principal"]),
                str(row["host"]),
                AclOperation[row["operation"]],
                AclPermissionType[row["permission_type"]],
            )
            for row in content["acls"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{ACLS_FILE} in the data directory is damaged: {error}") from error
