"""The pages of the schema registry: subjects, versions, differences, and whether a new version would be compatible.

Start at `subjects`.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import visible
from kafkaraw.console.site import MissingError, Site, number_of, url
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.schemas.errors import RegistryError, SubjectNotFoundError

if TYPE_CHECKING:
    from kafkaraw.schemas.client import AsyncRegistry
    from kafkaraw.schemas.model import RegisteredSchema, Schema

PER_PAGE: Final = 200
_VERSIONS_MAX: Final = 50
_LIST_S: Final = 5.0
_MANY: Final = 1_000_000
TYPES: Final = ("AVRO", "JSON", "PROTOBUF")
LEVELS: Final = ("NONE", *(f"{each}{more}" for each in ("BACKWARD", "FORWARD", "FULL") for more in ("", "_TRANSITIVE")))


async def subjects(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the subjects; with `deleted`, also those that are deleted softly."""
    found: tuple[str, ...] = ()
    level = ""
    registry = cluster.registry
    shows_deleted = request.query_params.get("deleted") == "1"
    if registry is not None:
        found = await cluster.kept(
            f"subjects {shows_deleted}", _LIST_S, lambda: registry.subjects(deleted=shows_deleted)
        )
        with contextlib.suppress(KafkaError):
            level = (await registry.compatibility()).value
    words = request.query_params.get("q", "").lower().split()
    chosen = [each for each in sorted(found) if all(word in each.lower() for word in words)]
    context: dict[str, Any] = {"names": chosen[:PER_PAGE], "count": len(chosen), "level": level, "levels": LEVELS}
    context |= {"has_registry": registry is not None, "shows_deleted": shows_deleted}
    return site.page(request, "schemas.html", cluster, tab="schemas", per_page=PER_PAGE, **context)


def registry_of(cluster: ClusterConnection) -> AsyncRegistry:
    """Return the registry's client.

    Raises:
        MissingError: the cluster has none here.
    """
    if cluster.registry is None:
        raise MissingError("this console was started without a schema registry: give its URL with -r")
    return cluster.registry


async def versions_of(cluster: ClusterConnection, name: str) -> tuple[list[RegisteredSchema], set[int]]:
    """Return the newest versions of a subject, also those that are deleted softly, and which of them are not.

    Raises:
        MissingError: there is no such subject.
    """
    registry = registry_of(cluster)
    if not name:
        raise MissingError("the address names no subject: it needs ?subject=NAME")
    numbers = (await registry.versions(name, deleted=True))[-_VERSIONS_MAX:]
    active: set[int] = set()
    with contextlib.suppress(SubjectNotFoundError):
        active = set(await registry.versions(name))
    return list(await asyncio.gather(*(registry.version(name, each, deleted=True) for each in numbers))), active


async def subject(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show a subject: its versions, and what the newest one changed; or what a new text would be refused for."""
    name = request.query_params.get("subject", "")
    registered, active = await versions_of(cluster, name)
    registry = registry_of(cluster)
    texts = {each.version or 0: _pretty(each.schema.text) for each in registered}
    shown = number_of(request.query_params, "version", max(active & set(texts), default=max(texts)), _MANY)
    if shown not in texts:
        raise MissingError(f"subject {name!r} has no version {shown}; it has {', '.join(map(str, texts))}")
    before = number_of(
        request.query_params, "against", max((each for each in texts if each < shown), default=shown), _MANY
    )
    lines = difflib.unified_diff(
        texts.get(before, "").splitlines(),
        texts[shown].splitlines(),
        f"version {before}",
        f"version {shown}",
        lineterm="",
    )
    one = next(each for each in registered if each.version == shown)
    tried, reasons, references = "", None, references_text(one.schema)
    if request.method == "POST":
        fields = await site.fields(request)
        tried, references = fields.get("schema", ""), fields.get("references", "")
        reasons = [visible(each) for each in await registry.incompatibilities(name, schema_of(fields))]
    own = ""
    with contextlib.suppress(RegistryError):  # it has none of its own
        config = await registry.config(name, default_to_global=False)
        own = config.compatibility.value if config.compatibility else ""
    level = await registry.config(name)
    return site.page(
        request,
        "schema.html",
        cluster,
        subject=name,
        versions=[(each.version, each.id, each.version in active) for each in registered],
        shown=shown,
        before=before,
        schema_id=one.id,
        is_active=shown in active,
        has_active=bool(active),
        kind=one.schema.schema_type.value,
        text=visible(texts[shown]),
        diff=[visible(line) for line in lines],
        level=level.compatibility.value if level.compatibility else "",
        own_level=own,
        levels=LEVELS,
        tried=tried,
        references=references,
        reasons=reasons,
        back=url("c", cluster.name, "schemas"),
        tab="schemas",
    )


def schema_of(fields: Mapping[str, str]) -> Schema:
    """Return the schema of a form.

    Raises:
        UsageError: its type or a reference cannot be read.
    """
    from kafkaraw.schemas.model import Schema, SchemaReference, SchemaType

    kind = fields.get("type", "AVRO")
    if kind not in TYPES:
        raise UsageError(f"type={kind[:20]!r} must be one of {', '.join(TYPES)}")
    references = []
    for line in fields.get("references", "").splitlines():
        parts = line.split()
        if parts and (len(parts) != 3 or not (parts[2].isascii() and parts[2].isdigit())):
            raise UsageError(f"reference {line[:80]!r} must be NAME SUBJECT VERSION")
        if parts:
            references.append(SchemaReference(parts[0], parts[1], int(parts[2])))
    return Schema(fields.get("schema", "").replace("\r\n", "\n"), SchemaType(kind), tuple(references))


def references_text(schema: Schema) -> str:
    """Return the references of a schema as lines of a form."""
    return "\n".join(f"{each.name} {each.subject} {each.version}" for each in schema.references)


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
