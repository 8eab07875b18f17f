"""Changes in a schema registry: register a version after it was checked, set compatibility levels, delete.

Start at `register`.
"""

from __future__ import annotations

import contextlib
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.schemas import LEVELS, TYPES, registry_of, schema_of, versions_of
from kafkaraw.console.shown import first, visible
from kafkaraw.console.site import MissingError, Site, number_of, url
from kafkaraw.console.topics import check_name
from kafkaraw.errors import KafkaError, UsageError

_VERSION_MAX: Final = 2**31 - 1


async def schema_form(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the form of a schema of a new subject."""
    registry_of(cluster)
    return site.page(request, "new_schema.html", cluster, tab="schemas", types=TYPES)


async def register(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Register a schema as a new version, if it is compatible."""
    fields = await site.form(request)
    registry = registry_of(cluster)
    name, schema = fields.get("subject", "").strip(), schema_of(fields)
    if not name:
        raise UsageError("the schema needs the name of a subject")
    refused = await registry.incompatibilities(name, schema)
    if refused:
        raise UsageError(f"subject {name!r} was not changed: the schema is incompatible: {visible('; '.join(refused))}")
    facts = {"subject": name, "type": schema.schema_type.value, "characters": len(schema.text)}
    with site.audit.change(request.state.user, cluster.name, "register schema", **facts):
        done = await registry.register(name, schema)
    return site.changed(cluster, url("c", cluster.name, "schema", subject=name, version=done.version))


async def set_level(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Set the compatibility level of a subject or of the registry; a subject without one has that of the registry."""
    fields = await site.form(request)
    registry = registry_of(cluster)
    name, level = fields.get("subject", ""), fields.get("level", "")
    if level not in LEVELS and not (name and not level):
        raise UsageError(f"level={level[:40]!r} must be one of {', '.join(LEVELS)}")
    facts = {"subject": name or "all without one of their own", "level": level or "that of the registry"}
    with site.audit.change(request.state.user, cluster.name, "set compatibility", **facts):
        if level:
            await registry.set_compatibility(level, name or None)
        else:
            await registry.delete_config(name)
    to = url("c", cluster.name, "schema", subject=name) if name else url("c", cluster.name, "schemas")
    return site.changed(cluster, to)


async def confirm(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show what deleting a version or a subject would do."""
    name, version = request.query_params.get("subject", ""), number_of(request.query_params, "version", 0, _VERSION_MAX)
    is_permanent = request.query_params.get("permanent") == "1"
    registered, active = await versions_of(cluster, name)
    chosen = [each for each in registered if (version or each.version) == each.version]
    if not is_permanent:
        chosen = [each for each in chosen if each.version in active]
    if not chosen:
        raise MissingError(f"subject {name!r} has no such version (any more)")
    numbers, ids = first((each.version for each in chosen), 10), first((each.id for each in chosen), 10)
    facts = [f"Version {numbers} of subject {name} is deleted {'permanently' if is_permanent else 'softly'}."]
    if is_permanent:
        facts.append(f"Records with schema id {ids} cannot be decoded any more, unless another subject has the schema.")
    else:
        facts.append(
            f"Records with schema id {ids} can still be decoded. Producers cannot look the version up any more."
        )
    users: list[int] = []
    for each in chosen:
        with contextlib.suppress(KafkaError):
            users += await registry_of(cluster).referenced_by(name, each.version or 0)
    if users:
        facts.append(f"The registry refuses it as long as other schemas reference it: those with id {first(users)}.")
    hidden = {"subject": name, "version": str(version or ""), "permanent": "1" if is_permanent else ""}
    what = f"version {version}" if version else "subject"
    return site.page(
        request, "confirm.html", cluster, title=f"Delete {what} {'permanently' if is_permanent else ''}".strip(),
        facts=facts, name=name, button=f"Delete {what}", tab="schemas", hidden=hidden, name_of="the subject",
        back=url("c", cluster.name, "schema", subject=name),
    )  # fmt: skip


async def delete(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Delete a version or a subject, softly or permanently."""
    fields = await site.form(request)
    registry = registry_of(cluster)
    name, version = fields.get("subject", ""), number_of(fields, "version", 0, _VERSION_MAX)
    is_permanent = fields.get("permanent") == "1"
    check_name(fields, name)
    facts = {"subject": name, "version": version or "all", "permanent": is_permanent}
    with site.audit.change(request.state.user, cluster.name, "delete schema", **facts):
        if version:
            await registry.delete_version(name, version, permanent=is_permanent)
        else:
            await registry.delete_subject(name, permanent=is_permanent)
    return site.changed(cluster, url("c", cluster.name, "schemas", deleted="" if is_permanent else "1"))
