"""Order, stages and cycles of a pipeline's graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaraw.pipelines.graph import Edge, Node, NodeKind, build_graph, node_of
from kafkaraw.pipelines.model import (
    Dataset,
    DatasetKind,
    FlowDefinition,
    FlowKind,
    Location,
    Pipeline,
    PipelineError,
    Settings,
)

KINDS = {"orders": DatasetKind.TEMPORARY_VIEW, "top": DatasetKind.MATERIALIZED_VIEW, "loud": DatasetKind.TOPIC}
TOPIC = Node(NodeKind.TOPIC, "orders-topic")


def pipeline(*names: str, more: tuple[FlowDefinition, ...] = ()) -> Pipeline:
    at = Location("a.py", 3)
    kinds = {name: KINDS.get(name, DatasetKind.STREAMING_TABLE) for name in names}
    datasets = tuple(Dataset(name, kind, at) for name, kind in kinds.items())
    flows = tuple(
        FlowDefinition(name, name, FlowKind.APPEND, at, lambda: None)
        for name, kind in kinds.items()
        if kind is not DatasetKind.TEMPORARY_VIEW
    )
    return Pipeline("p", Path("p"), "s", datasets, (*flows, *more), Settings("d", "r", "p"))


def graph(given: Pipeline, *reads: str, of_topics: tuple[str, ...] = ()):
    edges = []
    for read in reads:
        reader, source = read.split(" reads ")
        edges.append(Edge(node_of(source, given), node_of(reader, given), streaming=True))
    edges += [Edge(TOPIC, node_of(reader, given), streaming=True) for reader in of_topics]
    return build_graph(given, edges)


def names(rows):
    return [[node.name for node in row] for row in rows]


def sales():
    reads = ("top reads clean", "clean reads orders", "loud reads clean")
    return graph(pipeline("top", "loud", "clean", "orders"), *reads, of_topics=("orders",))


def test_levels_are_distances_from_what_reads_nothing():
    assert names(sales().levels()) == [["orders-topic"], ["orders"], ["clean"], ["top", "loud"]]


def test_stages_have_flows_behind_the_tables_that_they_read():
    assert sales().stages() == (("clean",), ("top", "loud"))
    assert sales().stages(["LOUD"]) == (("loud",),)
    assert sales().stages(["top", "clean"]) == (("clean",), ("top",))


def test_flows_into_one_table_are_in_one_stage():
    more = FlowDefinition("more", "clean", FlowKind.APPEND, Location("a.py", 9), lambda: None)
    given = graph(pipeline("clean", "top", more=(more,)), "top reads clean")
    assert given.stages() == (("clean", "more"), ("top",))
    assert given.stages(["more"]) == (("more",),)


def test_upstream_and_downstream_reach_everything_that_depends():
    given = sales()
    clean = given.node("CLEAN")
    assert {each.name for each in given.upstream([clean])} == {"clean", "orders", "orders-topic"}
    assert {each.name for each in given.downstream([clean])} == {"clean", "top", "loud"}


def test_nodes_are_datasets_then_topics_and_tables_that_they_read():
    assert [each.name for each in sales().nodes] == ["top", "loud", "clean", "orders", "orders-topic"]


def test_cycle_is_an_error_with_the_datasets_in_order():
    with pytest.raises(PipelineError) as caught:
        graph(pipeline("a", "b", "c"), "a reads b", "b reads c", "c reads a")
    assert str(caught.value) == (
        "a.py:3: dataset 'a': is part of a cycle: 'a' reads 'b' reads 'c' reads 'a'. A dataset cannot be computed from "
        "itself: remove one of these reads"
    )


def test_table_that_is_read_twice_is_no_cycle():
    given = graph(pipeline("a", "b", "c", "d"), "a reads b", "a reads c", "b reads d", "c reads d")
    assert names(given.levels()) == [["d"], ["b", "c"], ["a"]]
