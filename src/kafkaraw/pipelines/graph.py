"""The graph of a pipeline: which dataset, topic or other table each dataset reads, and the order that follows.

Built from the reads of an analysis. Pure: knows neither Spark nor files. Start at `Graph`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.model import DatasetKind, Pipeline, PipelineError


class NodeKind(Enum):
    """What a node of the graph is."""

    STREAMING_TABLE = "streaming table"
    MATERIALIZED_VIEW = "materialized view"
    TEMPORARY_VIEW = "temporary view"
    SINK = "sink"
    TOPIC = "topic"  # that the pipeline reads, writes, or both
    OTHER = "other table"  # that the pipeline does not define


@dataclass(frozen=True, slots=True)
class Node:
    """A dataset, a topic, or another table; the pipeline may have a table and a topic of the same name."""

    kind: NodeKind
    name: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A read.

    Args:
        source: what is read.
        reader: the dataset whose rows depend on it.
        streaming: whether the rows are read as they are added.
    """

    source: Node
    reader: Node
    streaming: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes and edges.

    Args:
        nodes: datasets in the order of their definition, then the topics and tables that they read.
        edges: in the order of their readers.
        flows: names of the flows into each dataset that is no view, in the order of their definition.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    flows: Mapping[Node, tuple[str, ...]]

    def node(self, name: str) -> Node | None:
        """Return the dataset of a name, in any case; a table or view before a topic."""
        found = [each for each in self.nodes if each.name.lower() == name.lower()]
        return min(found, key=lambda each: each.kind is NodeKind.TOPIC, default=None)

    def levels(self) -> tuple[tuple[Node, ...], ...]:
        """Return the nodes by their distance from the nodes that read nothing; needs a graph without cycles."""
        level = dict[Node, int]()

        def level_of(node: Node) -> int:
            if node not in level:
                level[node] = 1 + max((level_of(each) for each in self._sources(node)), default=-1)
            return level[node]

        rows: list[list[Node]] = []
        for node in self.nodes:
            while len(rows) <= level_of(node):
                rows.append([])
            rows[level[node]].append(node)
        return tuple(tuple(row) for row in rows)

    def stages(self, names: Collection[str] | None = None) -> tuple[tuple[str, ...], ...]:
        """Return the flows in groups: a flow is in a later group than the flows into datasets that it reads.

        Args:
            names: of datasets and flows; only their flows are returned. None for all.
        """
        wanted = None if names is None else {each.lower() for each in names}
        rows = [
            tuple(
                flow
                for node in row
                for flow in self.flows.get(node, ())
                if wanted is None or {flow.lower(), node.name.lower()} & wanted
            )
            for row in self.levels()
        ]
        return tuple(row for row in rows if row)

    def upstream(self, nodes: Iterable[Node]) -> frozenset[Node]:
        """Return these nodes and everything that their rows depend on."""
        return self._reached(nodes, {node: self._sources(node) for node in self.nodes})

    def downstream(self, nodes: Iterable[Node]) -> frozenset[Node]:
        """Return these nodes and everything whose rows depend on them."""
        readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for edge in self.edges:
            readers[edge.source].append(edge.reader)
        return self._reached(nodes, readers)

    def _sources(self, node: Node) -> list[Node]:
        return [edge.source for edge in self.edges if edge.reader == node]

    @staticmethod
    def _reached(nodes: Iterable[Node], following: Mapping[Node, Iterable[Node]]) -> frozenset[Node]:
        reached, waiting = set[Node](), list(nodes)
        while waiting:
            node = waiting.pop()
            if node not in reached:
                reached.add(node)
                waiting.extend(following.get(node, ()))
        return frozenset(reached)

    def cycle(self) -> tuple[Node, ...]:
        """Return the nodes of a cycle, each of which reads the next one and the last one the first; () without one."""
        done, path = set[Node](), list[Node]()

        def visit(node: Node) -> tuple[Node, ...]:
            if node in path:
                return tuple(path[path.index(node) :])
            if node in done:
                return ()
            path.append(node)
            for source in self._sources(node):
                found = visit(source)
                if found:
                    return found
            path.pop()
            done.add(node)
            return ()

        return next((found for node in self.nodes if (found := visit(node))), ())


def node_of(name: str, pipeline: Pipeline) -> Node:
    """Return the node of a dataset."""
    dataset = pipeline.dataset(name)
    return Node(NodeKind(dataset.kind.value), dataset.name)


def build_graph(pipeline: Pipeline, edges: Iterable[Edge]) -> Graph:
    """Return the graph of a pipeline.

    Args:
        pipeline: has the datasets and flows.
        edges: every read of its functions.

    Raises:
        PipelineError: there is a cycle; it names the datasets.
    """
    datasets = [node_of(each.name, pipeline) for each in pipeline.datasets]
    position = {node: number for number, node in enumerate(datasets)}
    ordered = sorted(dict.fromkeys(edges), key=lambda edge: (position[edge.reader], edge.source.name))
    others = [edge.source for edge in ordered if edge.source not in position]
    flows = {
        node_of(each.name, pipeline): tuple(flow.name for flow in pipeline.flows_into(each.name))
        for each in pipeline.datasets
        if each.kind is not DatasetKind.TEMPORARY_VIEW
    }
    graph = Graph((*datasets, *dict.fromkeys(others)), tuple(ordered), flows)
    cycle = graph.cycle()
    if cycle:
        start = next((each for each in cycle if each in position), cycle[0])
        turn = cycle[cycle.index(start) :] + cycle[: cycle.index(start)]
        shown = " reads ".join(repr(each.name) for each in (*turn, start))
        raise PipelineError(
            f"is part of a cycle: {shown}. A dataset cannot be computed from itself: remove one of these reads",
            location=pipeline.dataset(start.name).location,
            dataset=start.name,
        )
    return graph
