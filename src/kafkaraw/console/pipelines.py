"""The pages of pipelines: which there are, and of each its graph, the rates of its flows, and its expectations.

Start at `pipeline_page`; `drawn` places the graph.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console import topics
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.providers import GraphNode, PipelineState
from kafkaraw.console.shown import visible
from kafkaraw.console.site import MissingError, Site, number_text, url
from kafkaraw.errors import KafkaError

_DEAD_LETTERS: Final = ".dead-letters"
_WIDTH, _LINE, _PADDING = 210, 17, 10
_GAP_X, _GAP_Y, _MARGIN = 64, 18, 8
_CHARACTERS: Final = 27


@dataclass(frozen=True)
class Box:
    """A node of a drawn graph, with its upper left corner, and lines below its name; `title` is the whole name."""

    x: float
    y: float
    height: float
    kind: str
    name: str
    title: str
    link: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Drawing:
    """A graph as a picture and as sentences.

    Attributes:
        width, height: of the picture.
        boxes: of its nodes.
        edges: from a point to a point, and whether it is a stream.
        sentences: one for each node.
    """

    width: float
    height: float
    boxes: Sequence[Box]
    edges: Sequence[tuple[float, float, float, float, bool]]
    sentences: Sequence[str]


async def pipelines(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the pipelines of this console, and those that have a topic of dead letters."""
    known = cluster.settings.pipelines
    states = await asyncio.gather(*(_state(cluster, each) for each in known))
    rows = [_summary(name, state, error) for name, (state, error) in zip(known, states, strict=True)]
    try:
        names = [each.name for each in await topics.listed(cluster)]
    except KafkaError:
        names = []
    others = [each.removesuffix(_DEAD_LETTERS) for each in names if each.endswith(_DEAD_LETTERS)]
    return site.page(
        request, "pipelines.html", cluster, tab="pipelines", rows=rows,
        others=[each for each in others if each and each not in known],
    )  # fmt: skip


async def _state(cluster: ClusterConnection, name: str) -> tuple[PipelineState, str]:
    """Return the state of a pipeline, or why it cannot be read."""
    try:
        return await asyncio.to_thread(cluster.settings.pipelines[name].state), ""
    except (KafkaError, OSError, ValueError, KeyError) as error:
        return PipelineState(), visible(str(error)[:500])


def _summary(name: str, state: PipelineState, error: str) -> dict[str, Any]:
    flows = (state.status or {}).get("flows", ())
    return {
        "name": name,
        "error": error,
        "state": state_text(state),
        "is_good": state.status is None or (state.status["healthy"] and state_text(state) not in ("failed", "killed")),
        "flows": len(flows),
        "read": sum(each["rows_read"] for each in flows),
        "written": sum(each["rows_written"] for each in flows),
        "rate": sum(each["rows_per_second"] for each in flows) if state.is_running else None,
        "lag": sum(each["lag"] or 0 for each in flows),
        "unmet": _unmet(state.expectations),
    }  # fmt: skip


def state_text(state: PipelineState) -> str:
    """Return the state of a pipeline in a word or two."""
    if state.status is None:
        return "starting" if state.is_running else "has not run yet"
    return str(state.status["state"])


async def pipeline_page(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show a pipeline."""
    name = request.query_params.get("name", "")
    if name not in cluster.settings.pipelines:
        raise MissingError(f"this console was started without --pipeline of {name!r}")
    state, error = await _state(cluster, name)
    status = state.status or {}
    flows = status.get("flows", ())
    return site.page(
        request,
        "pipeline.html",
        cluster,
        tab="pipelines",
        name=name,
        error=error,
        state=state_text(state),
        is_running=state.is_running,
        sentences=_sentences(state),
        mode=status.get("mode", ""),
        since_s=max(time.time() - status["since"], 0) if status else None,
        seen_s=max(time.time() - status["at"], 0) if status else None,
        flows=flows,
        shows_errors=not site.settings.masks,
        expectations=state.expectations,
        balance=[text for is_good, text in state.balance if is_good],
        drawing=drawn(state, cluster.name) if state.levels else None,
    )


def _sentences(state: PipelineState) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    word, status = state_text(state), state.status or {}
    if word == "killed":
        said.append(("bad", "The last run did not note its end: it was killed. Its next run continues."))
    elif word == "failed" or not status.get("healthy", True):
        said.append(("bad", "Flows have failed: the table of flows has the errors."))
    elif state.is_running:
        said.append(("good", "It runs."))
    else:
        said.append(("note", f"It does not run now; its state: {word}."))
    said += [("bad", f"Not balanced: {text}") for is_good, text in state.balance if not is_good]
    return said  # fmt: skip


def drawn(state: PipelineState, cluster: str) -> Drawing:
    """Return the graph of a pipeline: a column for each level, the nodes of a column in the order of what they read."""
    by_flow = {str(each["flow"]): each for each in (state.status or {}).get("flows", ())}
    lines = {node: tuple(_lines(node, by_flow, state)) for level in state.levels for node in level}
    heights = {node: 2 * _PADDING + _LINE * (1 + len(found)) for node, found in lines.items()}
    tallest = max(sum(heights[node] + _GAP_Y for node in level) - _GAP_Y for level in state.levels)
    placed: dict[GraphNode, Box] = {}
    for number, level in enumerate(state.levels):
        y = _MARGIN + (tallest - sum(heights[node] + _GAP_Y for node in level) + _GAP_Y) / 2

        def middle(node: GraphNode) -> float:
            found = [placed[one].y + placed[one].height / 2 for one, other, _ in state.edges if other == node]
            return sum(found) / len(found) if found else 0.0

        for node in sorted(level, key=middle):
            name = visible(node.name)
            shown = name if len(name) <= _CHARACTERS else f"{name[: _CHARACTERS - 1]}…"
            link = url("c", cluster, "topics", node.topic, "messages") if node.topic else f"#{_anchor(node)}"
            x = _MARGIN + number * (_WIDTH + _GAP_X)
            placed[node] = Box(x, y, heights[node], node.kind, shown, name, link if len(link) > 1 else "", lines[node])
            y += heights[node] + _GAP_Y
    edges = [(*_end(placed[one], _WIDTH), *_end(placed[other], 0), is_stream) for one, other, is_stream in state.edges]
    width = 2 * _MARGIN + len(state.levels) * (_WIDTH + _GAP_X) - _GAP_X
    sentences = [_told(node, lines[node], state) for level in state.levels for node in level]
    return Drawing(width, tallest + 2 * _MARGIN, list(placed.values()), edges, sentences)


def _end(box: Box, x: float) -> tuple[float, float]:
    return box.x + x, box.y + box.height / 2


def _anchor(node: GraphNode) -> str:
    return f"flow-{node.flows[0]}" if node.flows else ""


def _lines(node: GraphNode, by_flow: Mapping[str, Mapping[str, Any]], state: PipelineState) -> list[str]:
    found = [node.kind]
    flows = [by_flow[each] for each in node.flows if each in by_flow]
    if flows and state.is_running:
        found.append(f"{number_text(round(sum(each['rows_per_second'] for each in flows)))} rows/s")
    if flows:
        lags = [each["lag"] for each in flows if each["lag"] is not None]
        behind = f", lag {number_text(sum(lags))}" if lags else ""
        found.append(f"{number_text(sum(each['rows_written'] for each in flows))} written{behind}")
    if node.expectations:
        unmet = _unmet([each for each in state.expectations if each["dataset"] == node.name])
        found.append(f"{node.expectations} expectation{'s' * (node.expectations != 1)}: {number_text(unmet)} unmet")
    if node.keeps_state:
        found.append("keeps state")
    failed = [each["flow"] for each in flows if each["failure"]]
    if failed:
        found.append("⚠ failed")
    return found


def _unmet(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return how many rows were unmet; several flows that read a view count the same rows."""
    most: dict[tuple[str, str], int] = {}
    for each in rows:
        key = each["dataset"], each["expectation"]
        most[key] = max(most.get(key, 0), each["unmet"])
    return sum(most.values())


def _told(node: GraphNode, lines: Sequence[str], state: PipelineState) -> str:
    reads = [f"{one.name}{'' if is_stream else ' (batch)'}" for one, other, is_stream in state.edges if other == node]
    text = f"{node.name}, {', '.join(lines)}"
    return visible(f"{text}; reads {', '.join(reads)}." if reads else f"{text}.")
