"""The plan of a pipeline for readers: as text and as an SVG picture.

The picture has a box for each dataset, topic and table, from left to right in the order of the data; solid lines are
streams, dashed ones batches. Pure. Start at `as_text` and `as_svg`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.graph import Graph, Node, NodeKind
from kafkaraw.pipelines.model import RECORD_COLUMN, TOMBSTONE_COLUMN
from kafkaraw.pipelines.plan import Change, Effect, Plan, PlannedDataset, PlannedFlow, columns_of

_COLUMNS_SHOWN: Final = 8
_HIDDEN: Final = (RECORD_COLUMN, TOMBSTONE_COLUMN)


# -- text


def as_text(plan: Plan, changed: Sequence[Change] | None) -> str:
    """Return a plan as text.

    Args:
        plan: to show.
        changed: since the last run; None if there was none.
    """
    flows = len(plan.flows)
    lines = [f"pipeline {plan.pipeline}: {_count(len(plan.datasets), 'dataset')}, {_count(flows, 'flow')}"]
    for row in plan.graph.levels():
        for node in row:
            lines += ["", *_lines_of(node, plan)]
    lines += ["", *_lines_of_changes(changed)]
    return "\n".join(lines)


def _lines_of(node: Node, plan: Plan) -> Iterator[str]:
    dataset = None if plan.graph.flows.get(node) is None and node.kind is NodeKind.TOPIC else plan.dataset(node.name)
    if dataset is None:
        yield f"{node.kind.value} {node.name}"
        return
    yield f"{node.kind.value} {node.name}   {dataset.location}"
    if dataset.comment:
        yield f"  {dataset.comment}"
    reads = [
        f"{each.source.name}{'' if each.streaming else ' (batch)'}" for each in plan.graph.edges if each.reader == node
    ]
    if reads:
        yield f"  reads {', '.join(reads)}"
    flows = plan.flows_into(dataset.name)
    for flow in flows:
        told = _told(flow, named=len(flows) > 1 or flow.name != dataset.name)
        if told:
            yield f"  {told}"
    for expectation in dataset.expectations:
        yield f"  expects {expectation.name!r}: {expectation.condition} ({expectation.action})"
    yield f"  columns {_columns(dataset)}"


def _told(flow: PlannedFlow, *, named: bool) -> str:
    parts = [f"flow {flow.name} ({flow.location})"] if named else []
    if flow.output_mode == "update" and flow.changes is None:
        parts.append("output mode update")
    if flow.changes is not None:
        parts.append(f"applies changes by {flow.changes}")
    parts += [f"keeps state: {each}" for each in flow.state]
    return "; ".join(parts)


def _columns(dataset: PlannedDataset) -> str:
    columns = [f"{name} {kind}" for name, kind in columns_of(dataset.schema) if name not in _HIDDEN]
    shown = columns[:_COLUMNS_SHOWN]
    rest = len(columns) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _lines_of_changes(changed: Sequence[Change] | None) -> Iterator[str]:
    if changed is None:
        yield "This pipeline has not run yet."
    elif not changed:
        yield "Nothing changed since the last run."
    else:
        yield "Changed since the last run:"
        yield from (f"  {each}" for each in changed if each.effect is Effect.NOTHING)
        needed = [each for each in changed if each.effect is not Effect.NOTHING]
        if needed:
            refused = "it" if len(needed) == 1 else "them"
            yield f"{_count(len(needed), 'change')} cannot be continued, and `run` refuses {refused}:"
            yield from (f"  {each}" for each in needed)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# -- SVG

_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_INK, _GREY = "#111827", "#4b5563"
_WIDTH, _LINE, _PADDING = 200, 16, 10
_GAP_X, _GAP_Y, _MARGIN = 70, 18, 16
_CHARACTERS: Final = 28
_COLOURS: Final = {
    NodeKind.TOPIC: ("#fef3c7", "#b45309"),
    NodeKind.OTHER: ("#f3f4f6", "#6b7280"),
    NodeKind.TEMPORARY_VIEW: ("#ffffff", "#6b7280"),
    NodeKind.STREAMING_TABLE: ("#dcfce7", "#15803d"),
    NodeKind.MATERIALIZED_VIEW: ("#e0e7ff", "#4f46e5"),
    NodeKind.SINK: ("#fee2e2", "#b91c1c"),
}


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    height: float
    node: Node
    lines: tuple[str, ...]


def as_svg(plan: Plan) -> str:
    """Return a plan as a picture."""
    boxes = _placed(plan)
    width = max(box.x for box in boxes.values()) + _WIDTH + _MARGIN
    height = max(box.y + box.height for box in boxes.values()) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="{_FONT}" role="img" aria-labelledby="title">',
        f'<title id="title">{escape(f"Pipeline {plan.pipeline}")}</title>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_drawn_edges(plan.graph, boxes),
        *(part for box in boxes.values() for part in _drawn_box(box)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _placed(plan: Plan) -> dict[Node, _Box]:
    """Boxes in columns by level; in a column, in the order of what they read."""
    boxes = dict[Node, _Box]()
    columns = plan.graph.levels()
    tallest = max(_height_of(column, plan) for column in columns)
    for number, column in enumerate(columns):
        ordered = sorted(column, key=lambda node: _middle_of_sources(node, plan.graph, boxes))
        y = _MARGIN + (tallest - _height_of(column, plan)) / 2
        for node in ordered:
            lines = tuple(_labels(node, plan))
            box = _Box(_MARGIN + number * (_WIDTH + _GAP_X), y, _box_height(lines), node, lines)
            boxes[node] = box
            y += box.height + _GAP_Y
    return boxes


def _middle_of_sources(node: Node, graph: Graph, boxes: dict[Node, _Box]) -> float:
    sources = [boxes[each.source] for each in graph.edges if each.reader == node and each.source in boxes]
    return sum(box.y + box.height / 2 for box in sources) / len(sources) if sources else 0


def _height_of(column: Iterable[Node], plan: Plan) -> float:
    heights = [_box_height(tuple(_labels(node, plan))) for node in column]
    return sum(heights) + _GAP_Y * (len(heights) - 1)


def _box_height(lines: tuple[str, ...]) -> float:
    return 2 * _PADDING + _LINE * (1 + len(lines))


def _labels(node: Node, plan: Plan) -> Iterator[str]:
    """The lines below the name."""
    yield node.kind.value
    if node not in plan.graph.flows and node.kind is NodeKind.TOPIC:
        return
    dataset = plan.dataset(node.name)
    if dataset is None:
        return
    if dataset.expectations:
        yield _count(len(dataset.expectations), "expectation")
    flows = plan.flows_into(dataset.name)
    if len(flows) > 1:
        yield _count(len(flows), "flow")
    state = [each.partition(" ")[0] for flow in flows for each in flow.state]
    if state:
        yield f"state: {', '.join(dict.fromkeys(state))}"


def _drawn_edges(graph: Graph, boxes: dict[Node, _Box]) -> Iterator[str]:
    for edge in graph.edges:
        one, other = boxes[edge.source], boxes[edge.reader]
        x1, y1 = one.x + _WIDTH, one.y + one.height / 2
        x2, y2 = other.x - 6, other.y + other.height / 2
        bend = max((x2 - x1) / 2, _GAP_X / 2)
        dash = "" if edge.streaming else ' stroke-dasharray="5 4"'
        yield (
            f'<path d="M{x1:.1f},{y1:.1f} C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} {x2:.1f},{y2:.1f}" '
            f'fill="none" stroke="{_GREY}" stroke-width="1.5"{dash}/>'
        )
        yield f'<path d="M{x2:.1f},{y2 - 4:.1f} l6,4 l-6,4 z" fill="{_GREY}"/>'


def _drawn_box(box: _Box) -> Iterator[str]:
    fill, stroke = _COLOURS[box.node.kind]
    dash = ' stroke-dasharray="3 3"' if box.node.kind is NodeKind.TEMPORARY_VIEW else ""
    yield (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{_WIDTH}" height="{box.height:.1f}" rx="6" fill="{fill}" '
        f'stroke="{stroke}"{dash}/>'
    )
    x, y = box.x + _PADDING, box.y + _PADDING + 12
    yield f'<text x="{x:.1f}" y="{y:.1f}" font-size="14" font-weight="600" fill="{_INK}">{_text(box.node.name)}</text>'
    for line in box.lines:
        y += _LINE
        yield f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" fill="{_GREY}">{_text(line)}</text>'


def _text(text: str) -> str:
    """A text that fits into a box; the whole text as its tooltip if it does not."""
    if len(text) <= _CHARACTERS:
        return escape(text)
    return f"{escape(text[: _CHARACTERS - 1])}…<title>{escape(text)}</title>"
