"""What changed since the last run, which change needs a new checkpoint or a full refresh, and how plans are shown."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from kafkaraw.light_classes import replace
from kafkaraw.pipelines.drawing import as_svg, as_text
from kafkaraw.pipelines.graph import Edge, Graph, Node, NodeKind
from kafkaraw.pipelines.plan import (
    Effect,
    Plan,
    PlanFormatError,
    PlannedDataset,
    PlannedExpectation,
    PlannedFlow,
    changes,
    columns_of,
    flows_of_run,
    from_json,
    to_json,
)

TOPIC = Node(NodeKind.TOPIC, "orders")
ORDERS = Node(NodeKind.TEMPORARY_VIEW, "orders")
CLEAN = Node(NodeKind.STREAMING_TABLE, "clean")
TOP = Node(NodeKind.MATERIALIZED_VIEW, "top")
POSITIVE = PlannedExpectation("amount is positive", "amount > 0", "drop")
CLEAN_SCHEMA = "id BIGINT,amount DOUBLE"


def dataset(node: Node, schema: str = CLEAN_SCHEMA, **more) -> PlannedDataset:
    given = {"comment": None, "partition_columns": (), "topic": None, "expectations": (), **more}
    return PlannedDataset(node.name, node.kind.value, "a.py:3", schema, **given)


def flow(name: str, **more) -> PlannedFlow:
    given = {
        "target": name,
        "kind": "append",
        "output_mode": "append",
        "sources": ("topic orders",),
        "state": (),
        "schema": CLEAN_SCHEMA,
        "changes": None,
        "shuffle_partitions": None,
        **more,
    }
    return PlannedFlow(name=name, location="a.py:3", **given)


PLAN = Plan(
    "sales",
    (
        dataset(ORDERS, expectations=(POSITIVE,)),
        dataset(CLEAN, comment="Orders with an amount."),
        dataset(TOP, "customer STRING,n BIGINT"),
    ),
    (
        flow("clean"),
        flow("top", kind="complete", output_mode="complete", sources=(), schema="customer STRING,n BIGINT"),
    ),
    Graph(
        (ORDERS, CLEAN, TOP, TOPIC),
        (Edge(TOPIC, ORDERS, True), Edge(ORDERS, CLEAN, True), Edge(CLEAN, TOP, False)),
        {CLEAN: ("clean",), TOP: ("top",)},
    ),
)


LETTERS = flow("dead_letters_of_orders", target="sales.dead-letters", kind="dead letters", schema="", reads=("orders",))


def with_dead_letters(plan: Plan = PLAN, **changed) -> Plan:
    return replace(plan, dead_letters=(replace(LETTERS, **changed),))


def with_flow(**changed) -> Plan:
    return replace(PLAN, flows=(replace(PLAN.flows[0], **changed), PLAN.flows[1]))


def with_clean(**changed) -> Plan:
    return replace(PLAN, datasets=(PLAN.datasets[0], replace(PLAN.datasets[1], **changed), PLAN.datasets[2]))


def test_plan_is_the_same_after_json():
    assert from_json(to_json(PLAN)) == PLAN


def test_plan_with_dead_letters_is_the_same_after_json():
    assert from_json(to_json(with_dead_letters())) == with_dead_letters()


def test_query_of_dead_letters_that_reads_its_topic_once_more_needs_a_new_checkpoint():
    (change,) = changes(with_dead_letters(), with_dead_letters(sources=("topic orders", "topic orders")))
    assert (change.effect, change.name) == (Effect.CHECKPOINT, "dead_letters_of_orders")
    assert change.what == "read topic orders and reads topic orders, topic orders"


def test_plan_of_an_earlier_version_has_no_dead_letters_to_compare():
    assert changes(PLAN, with_dead_letters()) == ()


def test_run_of_some_flows_has_the_dead_letters_of_what_they_read():
    plan = with_dead_letters(with_flow(reads=("orders",)))
    assert flows_of_run(plan, ["clean"]) == {"clean", "dead_letters_of_orders"}
    assert flows_of_run(plan, ["top"]) == {"top"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2}', to_json(PLAN).replace('"streaming table"', '"x"')])
def test_text_that_is_no_plan_is_an_error(text):
    with pytest.raises(PlanFormatError):
        from_json(text)


def test_same_plan_has_no_changes():
    assert changes(PLAN, PLAN) == ()


STATEFUL = {"state": ("Aggregate [customer], [customer, sum(amount)]",)}


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (
            {},
            {"sources": ("topic orders", "topic others")},
            "clean: read topic orders and reads topic orders, topic others: a checkpoint has the offsets of its "
            "sources by their position in the query. Run `kafkaraw pipelines checkpoint fork clean`",
        ),
        (
            {},
            STATEFUL,
            "clean: kept no state and keeps Aggregate [customer], [customer, sum(amount)]: the state in its checkpoint "
            "belongs to the old operators. Run `kafkaraw pipelines checkpoint fork clean`",
        ),
        (
            STATEFUL,
            {**STATEFUL, "schema": "id BIGINT,amount DECIMAL(10,2)"},
            "clean: returned id BIGINT,amount DOUBLE and returns id BIGINT,amount DECIMAL(10,2): the state in its "
            "checkpoint has the old types. Run `kafkaraw pipelines checkpoint fork clean`",
        ),
        (
            {},
            {"target": "top"},
            "clean: wrote to clean and writes to top: with its checkpoint, top would get new rows only. Run `kafkaraw "
            "pipelines checkpoint fork clean`",
        ),
        (
            {"kind": "changes", "changes": "keys id, sequence at, SCD 1"},
            {"kind": "changes", "changes": "keys id, sequence at, SCD 2"},
            "clean: applied changes with keys id, sequence at, SCD 1 and does with keys id, sequence at, SCD 2: the "
            "rows of the table were found by the old ones. Run `kafkaraw pipelines run --full-refresh clean`",
        ),
    ],
)
def test_change_of_a_query_that_its_checkpoint_cannot_follow(before, after, text):
    assert [str(each) for each in changes(with_flow(**before), with_flow(**after))] == [text]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"schema": "id BIGINT"}),
        (STATEFUL, {**STATEFUL, "shuffle_partitions": "3"}),
        ({"output_mode": "update"}, {}),
    ],
)
def test_change_of_a_query_that_its_checkpoint_follows(before, after):
    found = changes(with_flow(**before), with_flow(**after))
    assert [each.effect for each in found] == [Effect.NOTHING] * len(found)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"schema": CLEAN_SCHEMA + ",at TIMESTAMP"},
            "clean: new column at TIMESTAMP: it is NULL in the rows that the table has",
        ),
        ({"schema": "id BIGINT"}, "clean: column amount is no longer there: the files of the table keep it"),
        (
            {"schema": "id INT,amount DOUBLE"},
            "clean: column id was BIGINT and is INT: the files of the table have the old type. Run `kafkaraw pipelines "
            "run --full-refresh clean`",
        ),
        (
            {"partition_columns": ("id",)},
            "clean: was partitioned by nothing and is by id: the folders of the table have the old columns. Run "
            "`kafkaraw pipelines run --full-refresh clean`",
        ),
        (
            {"kind": "materialized view"},
            "clean: was a streaming table and is a materialized view: their files are stored in different ways. Run "
            "`kafkaraw pipelines run --full-refresh clean`",
        ),
        ({"expectations": (POSITIVE,)}, "clean: new expectation 'amount is positive': it applies to new rows"),
        ({"location": "b.py:7"}, None),
        ({"comment": "other"}, None),
        ({"schema": "id BIGINT NOT NULL,amount DOUBLE COMMENT 'a, b'"}, None),
    ],
)
def test_change_of_a_table(changed, text):
    assert [str(each) for each in changes(PLAN, with_clean(**changed))] == ([] if text is None else [text])


def test_new_and_removed_datasets_and_flows():
    without = replace(PLAN, datasets=PLAN.datasets[:2], flows=PLAN.flows[:1])
    more = replace(PLAN, flows=(*PLAN.flows, flow("more", target="clean")))
    assert [str(each) for each in changes(without, PLAN)] == ["top: new materialized view"]
    assert [str(each) for each in changes(PLAN, without)] == [
        "top: materialized view is no longer defined: its files stay in the storage"
    ]
    assert [str(each) for each in changes(PLAN, more)] == ["more: new flow into clean"]
    assert [str(each) for each in changes(more, PLAN)] == [
        "more: flow into clean is no longer defined: its checkpoint stays in the storage"
    ]


def test_columns_of_a_schema():
    schema = "id BIGINT NOT NULL,`a, b` STRUCT<x: INT, y: MAP<STRING, DECIMAL(3,1)>> COMMENT 'c, d',`e``f` STRING"
    assert list(columns_of(schema)) == [
        ("id", "BIGINT"),
        ("a, b", "STRUCT<x: INT, y: MAP<STRING, DECIMAL(3,1)>>"),
        ("e``f", "STRING"),
    ]


def test_text_shows_the_graph_in_the_order_of_the_data():
    assert as_text(PLAN, None) == (
        """\
pipeline sales: 3 datasets, 2 flows

topic orders

temporary view orders   a.py:3
  reads orders
  expects 'amount is positive': amount > 0 (drop)
  columns id BIGINT, amount DOUBLE

streaming table clean   a.py:3
  Orders with an amount.
  reads orders
  columns id BIGINT, amount DOUBLE

materialized view top   a.py:3
  reads clean (batch)
  columns customer STRING, n BIGINT

This pipeline has not run yet."""
    )


def test_text_shows_what_changed():
    assert as_text(PLAN, ()).endswith("\n\nNothing changed since the last run.")
    found = changes(PLAN, with_clean(schema="id INT,amount DOUBLE,at TIMESTAMP"))
    assert as_text(PLAN, found).partition("Changed")[2] == (
        """ since the last run:
  clean: new column at TIMESTAMP: it is NULL in the rows that the table has
1 change cannot be continued, and `run` refuses it:
  clean: column id was BIGINT and is INT: the files of the table have the old type. Run `kafkaraw pipelines run \
--full-refresh clean`"""
    )


def test_picture_has_a_box_for_each_node_and_a_line_for_each_edge():
    picture = ElementTree.fromstring(as_svg(PLAN))
    name = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f"{name}rect")) == 1 + len(PLAN.graph.nodes)
    assert len(picture.findall(f"{name}path")) == 2 * len(PLAN.graph.edges)
    texts = [each.text for each in picture.findall(f"{name}text")]
    assert {"orders", "clean", "top", "1 expectation"} <= set(texts)


def test_plan_as_json_has_no_settings():
    names = {"version", "pipeline", "datasets", "flows", "nodes", "edges", "dead_letters"}
    assert set(json.loads(to_json(PLAN))) == names


def test_a_run_of_some_flows_has_those_that_write_the_tables_that_they_read():
    revenue, late = Node(NodeKind.TOPIC, "revenue"), Node(NodeKind.STREAMING_TABLE, "late")
    nodes = (*PLAN.graph.nodes, revenue, late)
    edges = (*PLAN.graph.edges, Edge(revenue, late, True))  # a topic that another flow of the pipeline writes
    flows = (
        flow("clean", reads=("orders",)),
        flow("clean_of_old", target="clean", reads=()),
        flow("top", reads=("clean",)),
        flow("revenue", reads=("top",)),
        flow("late", reads=()),
    )
    datasets = (*PLAN.datasets, dataset(revenue, topic="revenue"), dataset(late))
    plan = Plan("sales", datasets, flows, Graph(nodes, edges, {}))
    assert flows_of_run(plan, ["clean"]) == {"clean"}
    assert flows_of_run(plan, ["top"]) == {"top", "clean", "clean_of_old"}
    assert flows_of_run(plan, ["late"]) == {"late"}
    assert flows_of_run(from_json(to_json(plan)), ["revenue"]) == {"revenue", "top", "clean", "clean_of_old"}
