"""The page of a pipeline's dead letters: why each record could not be used, replay and discard.

Start at `dead_letters`.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.settings import Pipeline
from kafkaraw.console.shown import Decoder, time_text, visible
from kafkaraw.console.site import MissingError, Site, url
from kafkaraw.errors import UsageError

SHOWN_MAX: Final = 200
_ACTIONS: Final = ("replay", "discard")
_PLACE: Final = re.compile(r"(\d{1,10}):(\d{1,19})")


async def dead_letters(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the dead letters of a pipeline; those that are open, or all."""
    pipelines = cluster.settings.pipelines
    name = request.query_params.get("pipeline", "") or next(iter(pipelines), "")
    rows: list[dict[str, Any]] = []
    counts: Counter[tuple[str, str, str]] = Counter()
    shows_all = request.query_params.get("all") == "1"
    if name:
        found = await asyncio.to_thread(_pipeline(cluster, name).letters.find)
        counts = Counter((each.state.value, each.letter.dataset, each.letter.reason) for each in found)
        chosen = [each for each in found if shows_all or each.state.value == "open"]
        decoder = Decoder("auto", site.settings.masks, cluster.registry)
        rows = [await _row(decoder, each) for each in chosen[:SHOWN_MAX]]
    context: dict[str, Any] = {
        "rows": rows,
        "name": name,
        "names": list(pipelines),
        "counts": sorted(counts.items()),
        "shows_all": shows_all,
    }
    return site.page(request, "dead_letters.html", cluster, tab="dead-letters", shown_max=SHOWN_MAX, **context)


def _pipeline(cluster: ClusterConnection, name: str) -> Pipeline:
    if name not in cluster.settings.pipelines:
        raise MissingError(f"this console was started without --pipeline of {name!r}")
    return cluster.settings.pipelines[name]


async def _row(decoder: Decoder, found: Any) -> dict[str, Any]:  # noqa: ANN401 - of the store
    letter = found.letter
    return {
        "at": f"{letter.place[0]}:{letter.place[1]}",
        "state": found.state.value,
        "time": time_text(letter.time_ms),
        "flow": visible(letter.dataset),
        "reason": letter.reason,
        "expectation": visible(letter.expectation),
        "error": visible(letter.error if not decoder.masks else ""),
        "origin": visible(
            letter.topic if letter.offset < 0 else f"{letter.topic} [{letter.partition}] {letter.offset}"
        ),
        "value": await decoder.shown(letter.topic, "value", letter.value),
    }


async def confirm(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show what a replay or discard would do: a dry run."""
    fields = dict(request.query_params)
    action, name, places = _asked(fields)
    pipeline = _pipeline(cluster, name)
    act = pipeline.letters.replay if action == "replay" else pipeline.letters.discard
    done = await asyncio.to_thread(act, pipeline.places(places), dry_run=True)
    facts = [f"{done.count} dead letters would be {'written again' if action == 'replay' else 'marked as discarded'}."]
    facts += [f"{visible(flow)}, {reason}: {count}" for (flow, reason), count in sorted(done.by_kind.items())]
    if done.to:
        facts.append(f"They are written to {', '.join(map(visible, done.to))}, each exactly once.")
    if action == "replay":
        facts.append("Correct the pipeline first: records that it still cannot use become dead letters again.")
    if done.left:
        facts.append(f"{done.left} stay open: a part of the record is missing or does not fit its schema.")
    hidden = {"action": action, "pipeline": name, "at": fields.get("at", "")}
    return site.page(
        request, "confirm.html", cluster, title=f"{action.capitalize()} dead letters", facts=facts, name=name,
        button=f"{action.capitalize()} {done.count}", back=url("c", cluster.name, "dead-letters", pipeline=name),
        hidden=hidden, tab="dead-letters", name_of="the pipeline",
    )  # fmt: skip


async def act(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Replay or discard dead letters."""
    fields = await site.form(request)
    action, name, places = _asked(fields)
    if fields.get("confirm", "") != name:
        raise UsageError(f"the name that was typed is not {name!r}: nothing was changed")
    pipeline = _pipeline(cluster, name)
    work = pipeline.letters.replay if action == "replay" else pipeline.letters.discard
    facts = {"pipeline": name, "places": sorted(places) if places is not None else "all open"}
    with site.audit.change(request.state.user, cluster.name, f"{action} dead letters", **facts):
        await asyncio.to_thread(work, pipeline.places(places))
    return site.changed(cluster, url("c", cluster.name, "dead-letters", pipeline=name))


def _asked(fields: dict[str, str]) -> tuple[str, str, frozenset[tuple[int, int]] | None]:
    """Return action, pipeline and places; None for all that are open."""
    action, text = fields.get("action", ""), fields.get("at", "")
    if action not in _ACTIONS:
        raise UsageError(f"action={action[:20]!r} must be one of {', '.join(_ACTIONS)}")
    found = frozenset((int(partition), int(offset)) for partition, offset in _PLACE.findall(text))
    if text and not found:
        raise UsageError(f"at={text[:40]!r} must be PARTITION:OFFSET, such as 0:17")
    return action, fields.get("pipeline", ""), found or None
