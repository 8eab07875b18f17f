"""Files of a pipeline become datasets and flows, and problems name file and line."""

from __future__ import annotations

import sys

import pytest
from pyspark import cloudpickle

from kafkaraw.pipelines.definitions import active_registry, load_pipeline
from kafkaraw.pipelines.model import DatasetKind, FlowKind, Location, PipelineError, PipelineErrors
from kafkaraw.pipelines.specification import read_specification

HEAD = "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F\n"


@pytest.fixture
def load(write, spark):
    def load(text="", **files):
        given = {f"transformations/{name}.py": each for name, each in files.items()}
        if text:
            given["transformations/a.py"] = text
        return load_pipeline(read_specification(write(given)), spark)

    return load


@pytest.fixture
def load_sql(write, spark):
    def load(text):
        return load_pipeline(read_specification(write({"transformations/a.sql": text})), spark)

    return load


def test_decorators_of_spark_define_datasets_and_flows(load):
    pipeline = load(
        HEAD
        + """
@dp.temporary_view(comment="all of them")
def orders():
    return spark.readStream.format("rate").load()

@dp.table(partition_cols=["day"], table_properties={"a": "b"}, schema="day DATE", format="parquet")
def clean():
    return spark.readStream.table("orders")

@dp.materialized_view(name="top_customers", spark_conf={"spark.sql.shuffle.partitions": "1"})
def top():
    return spark.read.table("clean")

dp.create_sink("loud", "kafkaraw", {"topic": "loud"})
dp.create_streaming_table("all_orders")

@dp.append_flow(target="loud")
def shout():
    return spark.readStream.table("clean")

@dp.append_flow(target="all_orders", name="first")
def one():
    return spark.readStream.table("clean")

@dp.append_flow(target="all_orders")
def second():
    return spark.readStream.table("clean")
"""
    )
    assert [(each.name, each.kind, each.location.line) for each in pipeline.datasets] == [
        ("orders", DatasetKind.TEMPORARY_VIEW, 4),
        ("clean", DatasetKind.STREAMING_TABLE, 8),
        ("top_customers", DatasetKind.MATERIALIZED_VIEW, 12),
        ("loud", DatasetKind.SINK, 16),
        ("all_orders", DatasetKind.STREAMING_TABLE, 17),
    ]
    assert [(each.name, each.target, each.kind) for each in pipeline.flows] == [
        ("clean", "clean", FlowKind.APPEND),
        ("top_customers", "top_customers", FlowKind.COMPLETE),
        ("shout", "loud", FlowKind.APPEND),
        ("first", "all_orders", FlowKind.APPEND),
        ("second", "all_orders", FlowKind.APPEND),
    ]
    clean = pipeline.dataset("clean")
    assert (clean.partition_columns, clean.properties, clean.schema, clean.format) == (
        ("day",),
        {"a": "b"},
        "day DATE",
        "parquet",
    )
    assert clean.location == Location("transformations/a.py", 8)
    assert pipeline.dataset("loud").options == {"topic": "loud"}
    assert pipeline.flow("top_customers").spark_conf == {"spark.sql.shuffle.partitions": "1"}
    assert pipeline.dataset("orders").function is not None


def test_changes_are_texts_and_columns(load):
    pipeline = load(
        HEAD
        + """
dp.create_streaming_table("people")
dp.create_auto_cdc_flow(target="people", source="changes", keys=["id", "a.b"], sequence_by="ts + 1",
                        apply_as_deletes="op = 'd'", except_column_list=["op", F.col("ts")], stored_as_scd_type=2)
dp.create_streaming_table("others")
dp.create_auto_cdc_flow(target="others", source="changes", keys=[F.col("id")], sequence_by=F.col("ts"), name="other")
"""
    )
    changes = pipeline.flow("people").changes
    assert changes.keys == ("id", "a.b")
    assert (changes.sequence_by, changes.apply_as_deletes) == ("ts + 1", "op = 'd'")
    assert (changes.columns, changes.except_columns, changes.scd_type) == (None, ("op", "ts"), 2)
    other = pipeline.flow("other").changes
    assert (other.keys, str(other.sequence_by), other.scd_type) == (("id",), "Column<'ts'>", 1)
    assert pipeline.flow("people").kind is FlowKind.CHANGES


def test_expectations_of_functions_are_those_of_flows_and_datasets(load):
    pipeline = load(
        HEAD
        + """
def expected(*names):
    def attach(function):
        function.__expectations__ = names
        return function
    return attach

@dp.temporary_view
@expected("a")
def orders(): ...

dp.create_streaming_table("t")

@dp.append_flow(target="t")
@expected("b")
def one(): ...

@dp.append_flow(target="t")
@expected("c", "d")
def two(): ...
"""
    )
    assert pipeline.dataset("orders").expectations == ("a",)
    assert pipeline.dataset("t").expectations == ("b", "c", "d")
    assert pipeline.flow("two").expectations == ("c", "d")


def test_schema_of_types_becomes_ddl(load):
    pipeline = load(
        HEAD
        + """
from pyspark.sql.types import LongType, StringType, StructField, StructType
schema = StructType([StructField("id", LongType(), False), StructField("a b", StringType())])
dp.create_streaming_table("t", schema=schema)
@dp.append_flow(target="t")
def f(): ...
"""
    )
    assert pipeline.dataset("t").schema == "id BIGINT NOT NULL,`a b` STRING"


def test_file_with_future_annotations_may_define_dataclasses(load):
    load(
        "from __future__ import annotations\nfrom dataclasses import dataclass, field\nfrom typing import ClassVar\n"
        + HEAD
        + """
@dataclass
class Order:
    id: int
    names: list[str] = field(default_factory=list)
    all: ClassVar[int] = 3

@dp.table
def t():
    return spark.createDataFrame([Order(1)])
"""
    )


def test_functions_are_pickled_by_value(load):
    pipeline = load(
        HEAD + "def twice(x): return helper(x)\ndef helper(x): return 2 * x\n@dp.table\ndef t(): return twice\n"
    )
    twice = pipeline.flow("t").function()
    pickled = cloudpickle.dumps(twice)
    module = sys.modules.pop(twice.__module__)
    try:
        assert cloudpickle.loads(pickled)(4) == 8
    finally:
        sys.modules[twice.__module__] = module


def test_changed_file_is_compiled_anew(load, write):
    for name in ("one", "two"):
        assert [each.name for each in load(HEAD + f"@dp.table\ndef {name}(): ...\n").flows] == [name]
    assert not list(write({}).rglob("__pycache__"))


def test_files_are_loaded_in_the_folder_of_the_pipeline(load, write):
    write({"names.txt": "one"})
    pipeline = load(HEAD + "from pathlib import Path\n@dp.table(name=Path('names.txt').read_text())\ndef t(): ...\n")
    assert [each.name for each in pipeline.datasets] == ["one"]


def test_problems_of_several_files_are_reported_together(load):
    with pytest.raises(PipelineErrors) as caught:
        load(
            a=HEAD + "\nx = 1 / 0\n",
            b=HEAD + "def f(:\n",
            c=HEAD + "import no_such_module\n",
            d=HEAD + "@dp.table(nme='x')\ndef t(): ...\n",
            e=HEAD + "dp.create_sink('a', 3)\n",
        )
    assert str(caught.value).splitlines() == [
        "pipeline 'sales' has 5 problems:",
        "  transformations/a.py:4: the file raised ZeroDivisionError: division by zero",
        "  transformations/b.py:3: SyntaxError: invalid syntax",
        "  transformations/c.py:3: the file raised ModuleNotFoundError: No module named 'no_such_module'",
        "  transformations/d.py:3: the file raised TypeError: table() got an unexpected keyword argument 'nme'",
        "  transformations/e.py:3: the file raised PySparkTypeError: [NOT_EXPECTED_TYPE] Argument `format` should be "
        "str, got int.",
    ]


def test_names_that_are_wrong_are_reported_together(load):
    with pytest.raises(PipelineErrors) as caught:
        load(
            HEAD
            + """
@dp.table
def clean(): ...

@dp.materialized_view(name="CLEAN")
def other(): ...

@dp.append_flow(target="claen")
def one(): ...

@dp.temporary_view
def view(): ...

@dp.append_flow(target="view")
def two(): ...
"""
        )
    assert str(caught.value).splitlines() == [
        "pipeline 'sales' has 3 problems:",
        "  transformations/a.py:7: dataset 'CLEAN': a materialized view and the streaming table at "
        "transformations/a.py:4 have the same name: rename one of them",
        "  transformations/a.py:10: flow 'one' writes to 'claen', which no file defines; did you mean 'clean'? Define "
        'it with dp.create_streaming_table("claen"), dp.create_sink or kp.create_topic',
        "  transformations/a.py:16: dataset 'view': flow 'two' cannot write to a temporary view, which is not stored: "
        "make it a table, with dp.create_streaming_table, in place of the view at transformations/a.py:13",
    ]


def test_flows_that_are_missing_or_too_many_are_reported_together(load):
    with pytest.raises(PipelineErrors) as caught:
        load(
            HEAD
            + """
dp.create_streaming_table("lonely")

@dp.materialized_view
def mv(): ...

@dp.append_flow(target="mv")
def more(): ...
dp.create_streaming_table("changed")
dp.create_auto_cdc_flow(target="changed", source="changes", keys=["id"], sequence_by="ts")

@dp.append_flow(target="changed")
def twice(): ...
"""
        )
    assert str(caught.value).splitlines() == [
        "pipeline 'sales' has 3 problems:",
        "  transformations/a.py:4: dataset 'lonely': no flow writes to it: add a function with "
        "@dp.append_flow(target='lonely'), or remove it",
        "  transformations/a.py:6: dataset 'mv': a materialized view has one query, and 2 flows write to it: make it a "
        "streaming table",
        "  transformations/a.py:11: dataset 'changed': the target of a flow of changes has no other flow, and 2 flows "
        "write to it",
    ]


def test_pipeline_without_datasets_is_an_error(load):
    with pytest.raises(PipelineError, match=r"^spark-pipeline.yml: the files of its libraries define no dataset"):
        load("x = 1\n")


def test_decorators_of_kafkaraw_need_a_pipeline_that_is_being_loaded():
    with pytest.raises(PipelineError, match="put them at the top level of a file"):
        active_registry()


# -- SQL


def test_statements_define_datasets_and_flows(load_sql):
    pipeline = load_sql(
        """\
        -- what comes in
        CREATE TEMPORARY VIEW orders COMMENT 'all; of them' AS SELECT 1 AS id;

        SET spark.sql.shuffle.partitions = 3;
        CREATE STREAMING TABLE clean PARTITIONED BY (day) COMMENT 'good' TBLPROPERTIES ('a' = 'b')
        AS SELECT * FROM STREAM orders;
        CREATE MATERIALIZED VIEW db.top (customer STRING COMMENT 'who', n BIGINT NOT NULL) USING parquet
        AS WITH c AS (SELECT * FROM clean) SELECT customer, count(*) AS n FROM c GROUP BY customer;
        CREATE STREAMING TABLE every;
        CREATE FLOW first AS INSERT INTO every BY NAME SELECT * FROM STREAM clean;
        CREATE STREAMING TABLE people;
        CREATE FLOW changed AS AUTO CDC INTO people FROM STREAM changes KEYS (id) APPLY AS DELETE WHEN op = 'd'
        SEQUENCE BY ts COLUMNS * EXCEPT (op, ts) STORED AS SCD TYPE 2;
        CREATE VIEW names AS SELECT 2 AS id;
        """
    )
    assert [(each.name, each.kind, each.location.line) for each in pipeline.datasets] == [
        ("orders", DatasetKind.TEMPORARY_VIEW, 2),
        ("clean", DatasetKind.STREAMING_TABLE, 5),
        ("db.top", DatasetKind.MATERIALIZED_VIEW, 7),
        ("every", DatasetKind.STREAMING_TABLE, 9),
        ("people", DatasetKind.STREAMING_TABLE, 11),
        ("names", DatasetKind.TEMPORARY_VIEW, 14),
    ]
    clean, top = pipeline.dataset("clean"), pipeline.dataset("db.top")
    assert (clean.comment, clean.partition_columns, clean.properties) == ("good", ("day",), {"a": "b"})
    assert (top.schema, top.format) == ("customer STRING COMMENT 'who', n BIGINT NOT NULL", "parquet")
    assert [(each.name, each.target, each.kind) for each in pipeline.flows] == [
        ("clean", "clean", FlowKind.APPEND),
        ("db.top", "db.top", FlowKind.COMPLETE),
        ("first", "every", FlowKind.APPEND),
        ("changed", "people", FlowKind.CHANGES),
    ]
    assert pipeline.flow("clean").spark_conf == {"spark.sql.shuffle.partitions": "3"}
    changes = pipeline.flow("changed").changes
    assert (changes.source, changes.keys, changes.sequence_by) == ("changes", ("id",), "ts")
    assert (changes.apply_as_deletes, changes.except_columns, changes.scd_type) == ("(op = 'd')", ("op", "ts"), 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1", "transformations/a.sql:1: a statement is none of CREATE STREAMING TABLE, "),
        (
            "CREATE TEMPORARY VIEW v AS SELECT 1;\n\n\nCREATE FLUW f AS SELECT 1",
            "transformations/a.sql:4: [PARSE_SYNTAX",
        ),
        (
            "CREATE STREAMING TABLE t;\nCREATE FLOW f AS INSERT INTO t SELECT 1",
            "transformations/a.sql:2: flow 'f': write INSERT INTO ... BY NAME",
        ),
        (
            "CREATE STREAMING TABLE t PARTITIONED BY (years(a)) AS SELECT 1",
            "transformations/a.sql:1: dataset 't': is partitioned by years(a): a table can be partitioned by columns",
        ),
    ],
)
def test_statement_that_defines_nothing_is_an_error(load_sql, text, message):
    with pytest.raises(PipelineError) as caught:
        load_sql(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
