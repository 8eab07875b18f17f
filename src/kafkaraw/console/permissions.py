"""The page of ACLs, users and quotas. It only shows them: `kafkaraw acls`, `users` and `quotas` change them.

Start at `permissions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.acls import AclBinding
from kafkaraw.client.admin.quotas import QuotaName
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import visible
from kafkaraw.console.site import Site, permission_of
from kafkaraw.errors import KafkaError

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
    rows = [row for row in map(_acl, acls or ()) if all(word in " ".join(row).lower() for word in words)]
    return site.page(
        request,
        "permissions.html",
        cluster,
        acls=sorted(rows)[:ROWS_MAX],
        acls_count=len(rows),
        no_acls=no_acls,
        users=sorted(
            (visible(name), ", ".join(f"{kind} ({count:,} iterations)" for kind, count in found.items()))
            for name, found in (users or {}).items()
        ),
        no_users=no_users,
        quotas=[
            (", ".join(f"{kind} {_name(name)}" for kind, name in entity.parts().items()), dict(values))
            for entity, values in (quotas or {}).items()
        ],
        no_quotas=no_quotas,
        tab="permissions",
    )


async def _tried(work: Awaitable[Any]) -> tuple[Any, str]:
    try:
        return await work, ""
    except KafkaError as error:
        return None, visible(permission_of(error) or str(error)[:400])


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


def _name(name: str | QuotaName) -> str:
    return "(default)" if isinstance(name, QuotaName) else visible(name)
