"""Changes of ACLs, users with SCRAM credentials, and quotas; each page says first what a change will do.

Passwords are read from the form and nowhere else: no page, message or log has them. Start at `create_acl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.acls import AclBinding, AclBindingFilter, ResourcePattern
from kafkaraw.client.admin.quotas import QuotaEntity, QuotaName
from kafkaraw.client.admin.users import ScramPassword, ScramRemoval
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.permissions import entity_query, entity_text
from kafkaraw.console.site import MissingError, Site, number_of, url
from kafkaraw.console.topics import check_name
from kafkaraw.errors import UsageError
from kafkaraw.protocol.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType

E = TypeVar("E", bound=Enum)

_FOR_FILTERS: Final = ("UNKNOWN", "ANY", "MATCH")
_CLUSTER_NAME: Final = "kafka-cluster"
_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")
_ITERATIONS: Final = 4_096
_ITERATIONS_MAX: Final = 16_384
_KINDS: Final = ("user", "client-id", "ip")
QUOTAS: Final = {
    "producer_byte_rate": "bytes per second that are produced, to each broker",
    "consumer_byte_rate": "bytes per second that are fetched, from each broker",
    "request_percentage": "percent of a thread of a broker",
    "controller_mutation_rate": "partitions per second that are created and deleted",
    "connection_creation_rate": "new connections per second, of an address",
}


def names_in(kind: type[E]) -> list[str]:
    """Return the names that a form offers."""
    return [each.name for each in kind if each.name not in _FOR_FILTERS]


def _back(cluster: ClusterConnection, part: str) -> str:
    return url("c", cluster.name, "permissions") + f"#{part}"


# -- ACLs


async def acl_form(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the form of a new ACL."""
    return site.page(
        request, "new_acl.html", cluster, tab="permissions",
        resources=names_in(ResourceType), operations=names_in(AclOperation),
    )  # fmt: skip


async def create_acl(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Create an ACL for each operation that is chosen."""
    fields = await site.form(request)
    chosen = [name for name in names_in(AclOperation) if fields.get(f"operation_{name}")]
    acls = [_acl_of({**fields, "operation": name}) for name in chosen]
    if not acls:
        raise UsageError("no operation is chosen: nothing was changed")
    facts = {**_facts(acls[0]), "operation": ",".join(chosen)}
    with site.audit.change(request.state.user, cluster.name, "create ACLs", **facts):
        await cluster.admin.create_acls(acls)
    return site.changed(cluster, url("c", cluster.name, "permissions", q=acls[0].principal))


def _acl_of(given: Mapping[str, str]) -> AclBinding:
    """Return the ACL that a form or an address has.

    Raises:
        UsageError: a part is missing or unknown.
    """
    resource = _member(ResourceType, given, "resource")
    name = _CLUSTER_NAME if resource is ResourceType.CLUSTER else given.get("name", "").strip()
    principal = given.get("principal", "").strip()
    kind, colon, who = principal.partition(":")
    if not (kind and colon and who):
        raise UsageError(f"principal {principal[:80]!r} must be TYPE:NAME, such as User:ada")
    if not name:
        raise UsageError("the ACL needs the name of a resource; * is all of them")
    pattern = _member(PatternType, given, "pattern") if resource is not ResourceType.CLUSTER else PatternType.LITERAL
    return AclBinding(
        ResourcePattern(resource, name, pattern),
        principal,
        _member(AclOperation, given, "operation"),
        _member(AclPermissionType, given, "permission"),
        given.get("host", "").strip() or "*",
    )


def _member(kind: type[E], given: Mapping[str, str], field: str) -> E:
    text = given.get(field, "")
    known = names_in(kind)
    if text not in known:
        raise UsageError(f"{field}={text[:40]!r} must be one of {', '.join(known)}")
    return kind[text]


def _facts(acl: AclBinding) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "permission": acl.permission_type.name,
        "operation": acl.operation.name,
        "resource": f"{acl.pattern.resource_type.name} {acl.pattern.name} ({acl.pattern.pattern_type.name})",
        "host": acl.host,
    }


def _matching(acl: AclBinding) -> AclBindingFilter:
    pattern = acl.pattern
    return AclBindingFilter(
        pattern.resource_type, pattern.name, pattern.pattern_type, acl.principal, acl.host, acl.operation,
        acl.permission_type,
    )  # fmt: skip


async def confirm_acl(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show what deleting an ACL would do."""
    given = dict(request.query_params)
    acl = _acl_of(given)
    if not await cluster.admin.describe_acls(_matching(acl)):
        raise MissingError("there is no such ACL (any more)")
    pattern = acl.pattern
    of = f"{pattern.resource_type.name} {pattern.name}" + ("…" if pattern.pattern_type is PatternType.PREFIXED else "")
    facts = [f"The ACL {acl.permission_type.name} {acl.operation.name} on {of} for {acl.principal} is deleted."]
    if acl.permission_type is AclPermissionType.ALLOW:
        facts.append(f"{acl.principal} loses this permission, unless another ACL allows it, too.")
    else:
        facts.append(f"What it denies to {acl.principal} is allowed again wherever another ACL allows it.")
    return site.page(
        request, "confirm.html", cluster, title="Delete ACL", facts=facts, name=acl.principal, button="Delete the ACL",
        back=_back(cluster, "acls"), tab="permissions", hidden=given, name_of="the principal",
    )  # fmt: skip


async def delete_acl(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Delete an ACL."""
    fields = await site.form(request)
    acl = _acl_of(fields)
    check_name(fields, acl.principal)
    with site.audit.change(request.state.user, cluster.name, "delete ACL", **_facts(acl)):
        await cluster.admin.delete_acls([_matching(acl)])
    return site.changed(cluster, _back(cluster, "acls"))


# -- users


async def user_form(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the form of a new user, or of a new password."""
    return site.page(
        request, "user.html", cluster, tab="permissions", name=request.query_params.get("user", ""),
        mechanisms=_MECHANISMS, iterations=_ITERATIONS, iterations_max=_ITERATIONS_MAX,
    )  # fmt: skip


async def set_user(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Create a user, or change the password of one."""
    fields = await site.form(request)
    name, mechanism, password = fields.get("user", ""), fields.get("mechanism", ""), fields.get("password", "")
    if not name or not password:
        raise UsageError("the user needs a name and a password")
    if password != fields.get("again", ""):
        raise UsageError("the passwords are different: nothing was changed")
    if mechanism not in _MECHANISMS:
        raise UsageError(f"mechanism={mechanism[:40]!r} must be one of {', '.join(_MECHANISMS)}")
    iterations = number_of(fields, "iterations", _ITERATIONS, _ITERATIONS_MAX)
    known = await cluster.admin.describe_user_scram_credentials()
    if not fields.get("replace") and name in known:
        raise UsageError(f"there is a user {name!r} already: change the password on the page of permissions")
    action = "change password" if name in known else "create user"
    facts = {"name": name, "mechanism": mechanism, "iterations": iterations}
    with site.audit.change(request.state.user, cluster.name, action, **facts):
        await cluster.admin.alter_user_scram_credentials([ScramPassword(name, mechanism, password, iterations)])
    return site.changed(cluster, _back(cluster, "users"))


async def confirm_user(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show what deleting a user would do."""
    name = request.query_params.get("user", "")
    known = (await cluster.admin.describe_user_scram_credentials()).get(name)
    if not known:
        raise MissingError(f"user {name!r} has no SCRAM credentials (any more)")
    facts = [
        f"User {name} loses the credentials for {' and '.join(sorted(known))}, and cannot authenticate any more.",
        "Connections that are open stay authenticated. ACLs and quotas of the user stay.",
    ]
    return site.page(
        request, "confirm.html", cluster, title="Delete user", facts=facts, name=name, button="Delete the user",
        back=_back(cluster, "users"), tab="permissions", hidden={"user": name}, name_of="the user",
    )  # fmt: skip


async def delete_user(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Delete all credentials of a user."""
    fields = await site.form(request)
    name = fields.get("user", "")
    check_name(fields, name)
    known = (await cluster.admin.describe_user_scram_credentials()).get(name, {})
    with site.audit.change(request.state.user, cluster.name, "delete user", name=name, mechanisms=sorted(known)):
        for mechanism in sorted(known):  # brokers accept one change for each user
            await cluster.admin.alter_user_scram_credentials([ScramRemoval(name, mechanism)])
    return site.changed(cluster, _back(cluster, "users"))


# -- quotas


def _entity_of(given: Mapping[str, str]) -> QuotaEntity:
    """Return the entity that a form or an address has.

    Raises:
        UsageError: it has no part, or parts that do not go together.
    """
    parts: dict[str, str | QuotaName | None] = {}
    for kind in _KINDS:
        name = given.get(kind, "").strip()
        if name and given.get(f"default_{kind}"):
            raise UsageError(f"{kind} {name[:80]!r}: give a name or the default, not both")
        parts[kind] = QuotaName.DEFAULT if given.get(f"default_{kind}") else name or None
    entity = QuotaEntity(parts["user"], parts["client-id"], parts["ip"])
    if not entity.parts():
        raise UsageError("the quota needs a user, a client id or an address, or the default of one")
    if entity.ip is not None and len(entity.parts()) > 1:
        raise UsageError("the quota of an address has no user and no client id")
    return entity


async def _quotas_of(cluster: ClusterConnection, entity: QuotaEntity) -> dict[str, float]:
    found = await cluster.admin.describe_client_quotas(entity, strict=True)
    return dict(found.get(entity, {}))


async def quota_form(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the form of quotas: of an entity that the address has, with its values."""
    given = dict(request.query_params)
    is_known = any(given.get(kind) or given.get(f"default_{kind}") for kind in _KINDS)
    values = await _quotas_of(cluster, _entity_of(given)) if is_known else {}
    shown = {name: f"{value:g}" if value < 1e6 else f"{value:.0f}" for name, value in values.items()}
    return site.page(
        request, "quota.html", cluster, tab="permissions", kinds=_KINDS, quotas=QUOTAS, given=given, values=shown,
    )  # fmt: skip


async def set_quota(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Set quotas of an entity; those that are left empty are removed."""
    fields = await site.form(request)
    entity = _entity_of(fields)
    now = await _quotas_of(cluster, entity)
    wanted = {name: _number(name, fields.get(f"quota_{name}", "")) for name in QUOTAS}
    changes = {name: value for name, value in wanted.items() if value != now.get(name)}
    if not changes:
        raise UsageError("no quota is different from what is set: nothing was changed")
    facts: dict[str, Any] = {"entity": entity_text(entity), "quotas": changes}
    with site.audit.change(request.state.user, cluster.name, "set quotas", **facts):
        await cluster.admin.alter_client_quotas({entity: changes})
    return site.changed(cluster, _back(cluster, "quotas"))


def _number(name: str, text: str) -> float | None:
    text = text.strip().replace(",", "")
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < float("inf"):
        raise UsageError(f"{name}={text[:40]!r} must be a number above 0, or empty for none")
    return found


async def confirm_quota(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show what removing the quotas of an entity would do."""
    entity = _entity_of(request.query_params)
    now = await _quotas_of(cluster, entity)
    if not now:
        raise MissingError(f"{entity_text(entity)} has no quotas (any more)")
    facts = [f"{name} = {value:,g} of {entity_text(entity)} is removed." for name, value in sorted(now.items())]
    facts.append("A quota that is less specific, such as the default, counts instead; without one there is no limit.")
    return site.page(
        request, "confirm.html", cluster, title="Remove quotas", facts=facts, name=entity_text(entity),
        button="Remove the quotas", back=_back(cluster, "quotas"), tab="permissions", hidden=entity_query(entity),
        name_of="the entity",
    )  # fmt: skip


async def remove_quota(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Remove all quotas of an entity."""
    fields = await site.form(request)
    entity = _entity_of(fields)
    check_name(fields, entity_text(entity))
    now = await _quotas_of(cluster, entity)
    with site.audit.change(
        request.state.user, cluster.name, "remove quotas", entity=entity_text(entity), quotas=sorted(now)
    ):
        if now:
            await cluster.admin.alter_client_quotas({entity: dict.fromkeys(now)})
    return site.changed(cluster, _back(cluster, "quotas"))
