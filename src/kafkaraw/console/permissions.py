"""The page of ACLs, users and quotas, with links to what `permission_changes` does.

Start at `permissions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.acls import AclBinding
from kafkaraw.client.admin.quotas import QuotaEntity, QuotaName
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import visible
from kafkaraw.console.site import Site, permission_of
from kafkaraw.errors import KafkaError, RetriableError

ROWS_MAX: Final = 1_000


async def permissions(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show ACLs, users with SCRAM credentials, and quotas."""
    admin = cluster.admin
    (acls, no_acls), (users, no_users), (quotas, no_quotas) = await asyncio.gather(
        _tried(admin.describe_acls()),
        _tried(admin.describe_user_scram_credentials()),
        _tried(admin.describe_client_quotas()),
    )
    words = request.query_params.get("q", "").lower().split()
    rows = [(row, each) for each in acls or () if _has(words, row := _acl(each))]
    return site.page(
        request,
        "permissions.html",
        cluster,
        acls=[(row, acl_query(each)) for row, each in sorted(rows, key=lambda pair: pair[0])[:ROWS_MAX]],
        acls_count=len(rows),
        no_acls=no_acls,
        users=sorted(
            (name, ", ".join(f"{kind} ({count:,} iterations)" for kind, count in found.items()))
            for name, found in (users or {}).items()
        ),
        no_users=no_users,
        quotas=[(entity_text(entity), dict(values), entity_query(entity)) for entity, values in (quotas or {}).items()],
        no_quotas=no_quotas,
        tab="permissions",
    )


async def _tried(work: Awaitable[Any]) -> tuple[Any, str]:
    try:
        return await work, ""
    except KafkaError as error:
        if isinstance(error, RetriableError):  # no broker answers: that is not about one part of the page
            raise
        return None, visible(permission_of(error) or str(error)[:400])


def _has(words: list[str], row: tuple[str, ...]) -> bool:
    text = " ".join(row).lower()
    return all(word in text for word in words)


def _acl(acl: AclBinding) -> tuple[str, ...]:
    pattern = acl.pattern
    return (
        visible(acl.principal),
        acl.permission_type.name,
        acl.operation.name,
        pattern.resource_type.name,
        visible(pattern.name) + ("…" if pattern.pattern_type.name == "PREFIXED" else ""),
        visible(acl.host),
    )


def acl_query(acl: AclBinding) -> dict[str, str]:
    """Return an ACL as the fields of a form, and as an address."""
    return {
        "principal": acl.principal,
        "permission": acl.permission_type.name,
        "operation": acl.operation.name,
        "resource": acl.pattern.resource_type.name,
        "name": acl.pattern.name,
        "pattern": acl.pattern.pattern_type.name,
        "host": acl.host,
    }


def entity_text(entity: QuotaEntity) -> str:
    """Return the entity of a quota for readers."""
    return ", ".join(
        f"{kind} {'(default)' if isinstance(name, QuotaName) else visible(name)}"
        for kind, name in entity.parts().items()
    )


def entity_query(entity: QuotaEntity) -> dict[str, str]:
    """Return the entity of a quota as fields of a form: `default_user` for the default of users, and so on."""
    return {
        f"default_{kind}" if isinstance(name, QuotaName) else kind: "1" if isinstance(name, QuotaName) else name
        for kind, name in entity.parts().items()
    }
