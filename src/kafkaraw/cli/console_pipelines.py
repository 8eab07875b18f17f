"""The pipelines of a console: which folders have one, and what its storage tells. Start at `pipelines_in`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaraw.console.providers import GraphNode, PipelineState
    from kafkaraw.console.settings import Pipeline
    from kafkaraw.pipelines.graph import Node
    from kafkaraw.pipelines.plan import Plan


def pipelines_in(paths: Iterable[Path]) -> dict[str, Pipeline]:
    """Return pipelines by name: of each path, or of the folders in it if it has no specification itself."""
    from kafkaraw.pipelines.specification import FILE_NAMES

    found: dict[str, Pipeline] = {}
    for path in paths:
        inner = sorted({each.parent for name in FILE_NAMES for each in path.glob(f"*/{name}")})
        is_one = path.is_file() or any((path / name).exists() for name in FILE_NAMES)
        found |= dict(map(_pipeline, [path] if is_one or not inner else inner))
    return found


def _pipeline(path: Path) -> tuple[str, Pipeline]:
    from kafkaraw.console.settings import Pipeline
    from kafkaraw.pipelines.dead_letters.store import EVERY, DeadLetters, Filter
    from kafkaraw.pipelines.specification import read_specification

    specification = read_specification(path)

    def places(chosen: frozenset[tuple[int, int]] | None) -> Filter:
        return EVERY if chosen is None else Filter(places=chosen)

    letters = DeadLetters(specification.name, specification.settings)
    return specification.name, Pipeline(letters, places, lambda: state_of(path))


def state_of(path: Path) -> PipelineState:
    """Return what a pipeline has noted in its storage.

    Raises:
        ConfigError: the specification is wrong, or the storage is damaged or another pipeline's.
    """
    from kafkaraw.console.providers import PipelineState
    from kafkaraw.pipelines.balance import FlowBalance, rows_of
    from kafkaraw.pipelines.running.last_status import last_status
    from kafkaraw.pipelines.running.plans import kept_plan
    from kafkaraw.pipelines.running.progress import FlowProgress
    from kafkaraw.pipelines.running.storage import Storage, local_path
    from kafkaraw.pipelines.specification import read_specification

    storage = Storage(local_path(read_specification(path).storage))
    if storage.owner() is None or not storage.status_file.exists():
        return PipelineState(is_running=storage.is_locked())
    last, kept = last_status(path), kept_plan(storage)
    nodes = {} if kept is None else {each: _node(each, kept.plan) for each in kept.plan.graph.nodes}
    return PipelineState(
        last.values,
        last.running,
        [] if kept is None else [[nodes[each] for each in level] for level in kept.plan.graph.levels()],
        []
        if kept is None
        else [(nodes[each.source], nodes[each.reader], each.streaming) for each in kept.plan.graph.edges],
        [
            row
            for each in last.values["flows"]
            for row in rows_of(FlowProgress(each["flow"], each["target"], totals=each["totals"]))
        ],
        [(each.is_balanced, str(each)) for each in (FlowBalance(**one) for one in last.values.get("balance", ()))],
    )


def _node(node: Node, plan: Plan) -> GraphNode:
    from kafkaraw.console.providers import GraphNode
    from kafkaraw.pipelines.graph import NodeKind

    flows = plan.graph.flows.get(node, ())
    is_topic = node.kind is NodeKind.TOPIC
    dataset = None if is_topic and node not in plan.graph.flows else plan.dataset(node.name)
    return GraphNode(
        node.kind.value,
        node.name,
        (node.name if is_topic else "") if dataset is None else dataset.topic or "",
        tuple(flows),
        0 if dataset is None else len(dataset.expectations),
        any(flow.state for flow in plan.flows if flow.name in flows),
    )
