"""Functions of a pipeline read its datasets by name, and nothing of it stays in the session."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from kafkaraw.light_classes import replace
from kafkaraw.pipelines.evaluation import (
    Evaluation,
    Input,
    InputKind,
    Purpose,
    current_evaluation,
    evaluate_dataset,
    evaluate_flow,
    stand_in,
)
from kafkaraw.pipelines.model import (
    Action,
    Dataset,
    DatasetKind,
    Expectation,
    FlowDefinition,
    FlowKind,
    Location,
    Pipeline,
    PipelineError,
    Settings,
    TopicSource,
)

AT = Location("flows.py", 1)
ORDERS = StructType().add("id", "long").add("amount", "double")


def view(name, function, expectations=()):
    return Dataset(name, DatasetKind.TEMPORARY_VIEW, AT, function=function, expectations=expectations)


def table(name):
    return Dataset(name, DatasetKind.STREAMING_TABLE, AT)


def flow(name, function, expectations=()):
    return FlowDefinition(name, name, FlowKind.APPEND, AT, function, expectations=expectations)


def read_topic(source, evaluation):
    evaluation.note(source.name, InputKind.TOPIC, streaming=True)
    return stand_in(evaluation.spark, ORDERS, evaluation, streaming=True)


def read_table(dataset, streaming, evaluation):
    return stand_in(evaluation.spark, ORDERS, evaluation, streaming=streaming)


@pytest.fixture
def evaluate(spark, tmp_path):
    """Evaluate the flow of the last dataset; returns its rows and the evaluation."""

    def evaluate(*definitions, judge=lambda frame, dataset, evaluation: frame, purpose=Purpose.PLAN):
        datasets = tuple(each for each in definitions if isinstance(each, Dataset))
        flows = tuple(each for each in definitions if isinstance(each, FlowDefinition))
        pipeline = Pipeline("p", tmp_path, str(tmp_path), datasets, flows, Settings("d", "r", "p"))
        evaluation = Evaluation(spark, pipeline, flows[-1].name, purpose, read_topic, judge, read_table)
        return evaluate_flow(flows[-1], evaluation), evaluation

    return evaluate


def orders():
    evaluation = current_evaluation()
    return evaluation.read_topic(TopicSource("orders"), evaluation)


def test_flow_reads_a_view_and_the_view_a_topic(spark, evaluate):
    frame, evaluation = evaluate(
        view("orders", orders),
        table("clean"),
        flow("clean", lambda: spark.readStream.table("Orders").select("id")),
    )
    assert frame.isStreaming
    assert frame.columns == ["id"]
    assert evaluation.inputs == {
        Input("clean", "orders", InputKind.DATASET, streaming=True),
        Input("orders", "orders", InputKind.TOPIC, streaming=True),
    }
    assert evaluation.chain == ()


def test_sql_reads_views_and_tables_as_streams_and_batches(spark, evaluate):
    frame, evaluation = evaluate(
        view("orders", orders),
        table("clean"),
        table("joined"),
        flow("clean", orders),
        flow("joined", lambda: spark.sql("SELECT o.id, c.amount FROM STREAM orders o JOIN clean c ON o.id = c.id")),
    )
    assert frame.isStreaming
    assert frame.columns == ["id", "amount"]
    assert {(each.name, each.streaming) for each in evaluation.inputs if each.kind is InputKind.DATASET} == {
        ("orders", True),
        ("clean", False),
    }
    assert not spark.catalog.tableExists("orders")


def test_sql_with_a_dataframe_as_an_argument(spark, evaluate):
    def flow_of_a_frame():
        return spark.sql("SELECT * FROM {given} WHERE id > {least}", given=spark.readStream.table("orders"), least=3)

    frame, _ = evaluate(view("orders", orders), table("clean"), flow("clean", flow_of_a_frame))
    assert frame.columns == ["id", "amount"]


def test_table_of_the_pipeline_is_read_as_stream_and_batch(spark, evaluate):
    def both():
        known = spark.read.table("clean").select("id")
        return spark.readStream.table("clean").join(known, "id")

    frame, _ = evaluate(table("clean"), table("both"), flow("clean", orders), flow("both", both))
    assert frame.columns == ["id", "amount"]


def test_expectations_of_flow_and_view_are_judged_with_their_dataset(spark, evaluate):
    judged = []

    def judge(frame, dataset, evaluation):
        judged.append((dataset.name, [each.name for each in dataset.expectations], evaluation.chain))
        return frame

    evaluate(
        view("orders", orders, (Expectation("has an id", "id IS NOT NULL", Action.DROP),)),
        table("clean"),
        flow("clean", lambda: spark.readStream.table("orders"), (Expectation("e", "true", Action.WARN),)),
        judge=judge,
    )
    assert judged == [("orders", ["has an id"], ("clean", "orders")), ("clean", ["e"], ("clean",))]


@pytest.mark.parametrize("purpose", [Purpose.FLOW, Purpose.PLAN])
def test_view_is_evaluated_once_for_each_chain_and_for_a_plan_once(spark, evaluate, purpose):
    calls = []

    def counted():
        calls.append(current_evaluation().chain)
        return orders()

    def joined():
        mine = spark.readStream.table("orders")
        return mine.unionByName(spark.readStream.table("orders")).unionByName(spark.readStream.table("cheap"))

    evaluate(
        view("orders", counted),
        view("cheap", lambda: spark.readStream.table("orders")),
        table("all"),
        flow("all", joined),
        purpose=purpose,
    )
    assert calls == [("all", "orders"), ("all", "cheap", "orders")][: 1 if purpose is Purpose.PLAN else 2]


def test_cycle_of_views_is_named(spark, evaluate):
    with pytest.raises(PipelineError, match="dataset 'a': is part of a cycle: 'a' reads 'b' reads 'a'"):
        evaluate(
            view("a", lambda: spark.read.table("b")),
            view("b", lambda: spark.read.table("a")),
            table("t"),
            flow("t", lambda: spark.read.table("a")),
        )


def test_stream_that_is_read_as_a_batch_is_an_error_with_the_remedy(spark, evaluate):
    with pytest.raises(PipelineError, match=r"flows.py:1: dataset 't': view 'orders' is a stream .*readStream.table"):
        evaluate(view("orders", orders), table("t"), flow("t", lambda: spark.read.table("orders")))


def test_topics_and_sinks_cannot_be_read_by_name(spark, evaluate):
    with pytest.raises(PipelineError, match=r'is a topic: read it with kp.topic\("loud"\)'):
        evaluate(Dataset("loud", DatasetKind.TOPIC, AT), table("t"), flow("t", lambda: spark.readStream.table("loud")))
    with pytest.raises(PipelineError, match="is a sink, which cannot be read"):
        evaluate(Dataset("out", DatasetKind.SINK, AT), table("t"), flow("t", lambda: spark.readStream.table("out")))


def test_other_names_are_those_of_spark(spark, evaluate):
    spark.range(3).createOrReplaceTempView("of_spark")
    try:
        frame, evaluation = evaluate(table("t"), flow("t", lambda: spark.read.table("of_spark")))
    finally:
        spark.catalog.dropTempView("of_spark")
    assert frame.columns == ["id"]
    assert evaluation.inputs == {Input("t", "of_spark", InputKind.OTHER, streaming=False)}


def test_error_of_a_function_names_the_line_that_raised_it(spark, evaluate, tmp_path):
    source = "def broken(spark):\n    rows = spark.range(3)\n    return rows.select('nme')\n"
    path = tmp_path / "flows.py"
    names = {}
    exec(compile(source, str(path), "exec"), names)
    with pytest.raises(PipelineError) as caught:
        evaluate(table("t"), flow("t", lambda: names["broken"](spark)))
    assert str(caught.value).startswith(
        "flows.py:3: dataset 't': [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with "
        "name `nme` cannot be resolved."
    )
    assert "\n" not in str(caught.value)
    assert "SQLSTATE" not in str(caught.value)


def test_function_that_returns_no_dataframe_is_an_error(evaluate):
    with pytest.raises(PipelineError, match="its function returned NoneType, not a DataFrame"):
        evaluate(table("t"), flow("t", lambda: None))


def test_a_stand_in_for_a_stream_does_not_list_the_files_of_the_storage(spark, tmp_path):
    for name in ("storage/tables/clean/a.parquet", "storage/tables/parts/day=1/a.parquet"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    evaluation = SimpleNamespace(pipeline=SimpleNamespace(root=tmp_path))
    schema = StructType.fromDDL("n LONG")
    assert stand_in(spark, schema, evaluation, streaming=True).schema == schema


def test_methods_of_spark_are_restored(spark, evaluate):
    before = SparkSession.sql, SparkSession.table, DataFrameReader.table
    evaluate(table("t"), flow("t", orders))
    with pytest.raises(PipelineError):
        evaluate(table("t"), flow("t", lambda: 1 / 0))
    assert before == (SparkSession.sql, SparkSession.table, DataFrameReader.table)
    with pytest.raises(PipelineError, match="only within the function of a dataset or flow"):
        current_evaluation()


def test_dataset_with_one_flow_is_evaluated_by_name(spark, evaluate, tmp_path):
    datasets = (view("orders", orders), table("one"), table("two"))
    flows = (flow("one", orders), replace(flow("a", orders), target="two"), replace(flow("b", orders), target="two"))
    pipeline = Pipeline("p", Path(tmp_path), "s", datasets, flows, Settings("d", "r", "p"))

    def evaluation():
        return Evaluation(spark, pipeline, "f", Purpose.DEAD_LETTERS, read_topic, lambda frame, *_: frame)

    assert evaluate_dataset("orders", evaluation()).columns == ["id", "amount"]
    assert evaluate_dataset("one", evaluation()).columns == ["id", "amount"]
    with pytest.raises(PipelineError, match="dataset 'two': has 2 flows"):
        evaluate_dataset("two", evaluation())
