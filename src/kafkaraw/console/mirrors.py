"""The pages of mirrors: lag and heartbeats of flows, and what a group's offsets are on the other side of one.

Start at `mirrors`.
"""

from __future__ import annotations

import shlex
import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console import groups, topics
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.providers import FoundMirrors
from kafkaraw.console.shown import duration_text, visible
from kafkaraw.console.site import MissingError, Site, permission_of
from kafkaraw.errors import KafkaError

ROWS_MAX: Final = 500
_KEPT_S: Final = 5.0
_OLD_S: Final = 60.0


async def mirrors(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the mirrors of this console, and what others have written into the cluster."""
    configured = []
    for name, mirror in cluster.settings.mirrors.items():
        try:
            states, error = await cluster.kept(f"mirror {name}", _KEPT_S, mirror.status), ""
        except KafkaError as failure:
            states, error = (), visible(permission_of(failure) or str(failure)[:500])
        configured.append((name, [_flow(each) for each in states], error))
    found, unread = FoundMirrors(), ""
    try:
        found = await cluster.kept("mirrors", _KEPT_S, lambda: _found(cluster))
    except KafkaError as failure:
        unread = visible(permission_of(failure) or str(failure)[:500])
    words = request.query_params.get("q", "").lower().split()
    checkpoints = [
        (source, *row)
        for source, rows in sorted(found.checkpoints.items())
        for row in sorted(rows)
        if all(word in " ".join((source, *row[:2])).lower() for word in words)
    ]
    return site.page(
        request,
        "mirrors.html",
        cluster,
        tab="mirrors",
        configured=configured,
        heartbeats=[(f"{source}->{target}", *_age(at)) for (source, target), at in sorted(found.heartbeats.items())],
        positions=[(flow, *row) for flow, rows in sorted(found.positions.items()) for row in rows][:ROWS_MAX],
        checkpoints=checkpoints[:ROWS_MAX],
        count=len(checkpoints),
        unread=[*found.unread, *([unread] if unread else ())],
    )


async def _found(cluster: ClusterConnection) -> FoundMirrors:
    if cluster.settings.found_mirrors is None:
        return FoundMirrors()
    names = [each.name for each in await topics.listed(cluster)]
    return await cluster.settings.found_mirrors(cluster.admin, cluster.consumer, names)


def _age(at_ms: int) -> tuple[int, float, bool]:
    """Return the time of a heartbeat, its age, and whether that is old."""
    age_s = max(time.time() - at_ms / 1000, 0.0)
    return at_ms, age_s, age_s > _OLD_S


def _flow(status: Any) -> dict[str, Any]:  # noqa: ANN401 - of the mirror
    parts = sorted(status.partitions, key=lambda each: -(each.lag or 0))
    said = [("bad", f"Topic {topic} is not copied: {why}") for topic, why in status.problems.items()]
    said += [("bad", each.refusal) for each in parts if each.refusal]
    beat = None if status.heartbeat_ms is None else _age(status.heartbeat_ms)
    if beat is None:
        said.append(("note", "No heartbeat of the source has arrived in the target."))
    elif beat[2]:
        age = duration_text(beat[1])
        said.append(("bad", f"The last heartbeat is {age} old: the flow does not run, or is behind."))
    waiting = sum(each.position is None for each in parts)
    if waiting:
        said.append(
            ("note", f"{waiting} of {len(parts)} partitions have no position: MirrorMaker copies them, or nothing yet.")
        )
    if not said:
        said.append(("good", f"All {len(parts)} partitions are copied."))
    return {
        "name": status.name, "topics": status.topics_count, "partitions": parts[:ROWS_MAX], "count": len(parts),
        "lag": status.lag, "heartbeat": beat, "sentences": said[:ROWS_MAX],
    }  # fmt: skip


async def translate(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show what a failover of groups would do: their offsets on the other side. Nothing is changed."""
    query = request.query_params
    name, given = query.get("mirror", ""), query.get("group", "").strip()
    mirror = cluster.settings.mirrors.get(name)
    if mirror is None:
        raise MissingError(f"this console was started without --mirror of {name!r}")
    flow = query.get("flow", "") or next(iter(mirror.flows), "")
    if flow not in mirror.flows:
        raise MissingError(f"mirror {name!r} has no flow {flow[:80]!r}; it has {', '.join(mirror.flows)}")
    back, by_timestamp = query.get("back") == "1", query.get("timestamp") == "1"
    context: dict[str, Any] = {"plan": None, "sentences": (), "command": ""}
    if given:
        origin, destination, plan = await mirror.plan(flow, [given], back=back, by_timestamp=by_timestamp)
        words = ["kafkaraw", "mirror", "failback" if back else "failover", given, *mirror.option.split(" ", 1)]
        if len(mirror.flows) > 1:
            words += ["--flow", flow]
        words += ["--timestamp"] * by_timestamp
        command = shlex.join(words)
        context = {"plan": plan, "sentences": _about(plan, origin, destination), "command": visible(command)}
    try:
        known = [each.group_id for each in await groups.listed(cluster)]
    except KafkaError:
        known = []
    return site.page(
        request, "translate.html", cluster, tab="mirrors", mirror=name, flow=flow, flows=mirror.flows, group=given,
        back=back, by_timestamp=by_timestamp, known=known[:ROWS_MAX], **context,
    )  # fmt: skip


def _about(plan: Any, origin: str, destination: str) -> list[tuple[str, str]]:  # noqa: ANN401 - of the mirror
    said: list[tuple[str, str]] = []
    if plan.silent:
        said.append(("note", f"{origin} does not answer, so its last checkpoints are used: {plan.silent}"))
    said += [("bad", f"Group {each} has no offset in {origin} of a topic of this flow.") for each in plan.missing]
    said += [
        ("bad", f"The group has members in {origin}, which go on reading: stop them first.")
        for _ in plan.active_at_origin
    ]
    said += [
        ("bad", f"The group has members in {destination}: its offsets there are not changed.")
        for _ in plan.active_at_destination
    ]
    unknown = [each for each in plan.offsets if each.translated is None]
    if unknown:
        said.append(
            (
                "bad",
                f"{len(unknown)} offsets cannot be translated: no flow of this mirror has copied them.",
            )
        )
    commits = [each for each in plan.offsets if each.to_commit is not None]
    if not said or commits:
        kept = len(plan.offsets) - len(commits) - len(unknown)
        as_far = f"; {kept} are as far already" if kept else ""
        said.append(("good", f"A failover would commit {len(commits)} offsets in {destination}{as_far}."))
    return said  # fmt: skip
