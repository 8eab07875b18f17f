"""The pages of the schema registry: subjects, versions, differences, and whether a new version would be compatible.

Start at `subjects`.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import visible
from kafkaraw.console.site import MissingError, Site, number_of, url
from kafkaraw.errors import KafkaError, UsageError

PER_PAGE: Final = 200
_VERSIONS_MAX: Final = 50
_LIST_S: Final = 5.0
_MANY: Final = 1_000_000
_TYPES: Final = ("AVRO", "JSON", "PROTOBUF")


async def subjects(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the subjects."""
    found: tuple[str, ...] = ()
    level = ""
    registry = cluster.registry
    if registry is not None:
        found = await cluster.kept("subjects", _LIST_S, registry.subjects)
        with contextlib.suppress(KafkaError):
            level = (await registry.compatibility()).value
    words = request.query_params.get("q", "").lower().split()
    chosen = [each for each in sorted(found) if all(word in each.lower() for word in words)]
    context: dict[str, Any] = {
        "names": chosen[:PER_PAGE],
        "count": len(chosen),
        "level": level,
        "has_registry": registry is not None,
    }
    return site.page(request, "schemas.html", cluster, tab="schemas", per_page=PER_PAGE, **context)


async def subject(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show a subject: its versions, and what the newest one changed; or what a new text would be refused for."""
    from kafkaraw.schemas.model import Schema, SchemaType

    name = request.query_params.get("subject", "")
    registry = cluster.registry
    if registry is None or not name:
        raise MissingError("this cluster has no schema registry here, or the address names no subject")
    versions = (await registry.versions(name))[-_VERSIONS_MAX:]
    registered = await asyncio.gather(*(registry.version(name, each) for each in versions))
    texts = {each.version or 0: _pretty(each.schema.text) for each in registered}
    newest = max(texts)
    shown = number_of(request.query_params, "version", newest, _MANY)
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
    tried, reasons = "", None
    if request.method == "POST":
        fields = await site.fields(request)
        tried = fields.get("schema", "")
        kind = fields.get("type", "AVRO")
        if kind not in _TYPES:
            raise UsageError(f"type={kind[:20]!r} must be one of {', '.join(_TYPES)}")
        reasons = [visible(each) for each in await registry.incompatibilities(name, Schema(tried, SchemaType(kind)))]
    level = await registry.config(name)
    return site.page(
        request,
        "schema.html",
        cluster,
        subject=name,
        versions=[(each.version, each.id) for each in registered],
        shown=shown,
        before=before,
        kind=next(each.schema.schema_type.value for each in registered if each.version == shown),
        text=visible(texts[shown]),
        diff=[visible(line) for line in lines],
        level=level.compatibility.value if level.compatibility else "",
        tried=tried,
        reasons=reasons,
        back=url("c", cluster.name, "schemas"),
        tab="schemas",
    )


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
