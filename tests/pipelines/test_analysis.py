"""A pipeline is checked without running it; each problem has file, line and remedy."""

from __future__ import annotations

import pytest

from kafkaraw.pipelines.analysis import analyze
from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.evaluation import InputKind, stand_in
from kafkaraw.pipelines.model import PipelineError, PipelineErrors
from kafkaraw.pipelines.specification import read_specification

HEAD = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from kafkaraw.pipelines.definitions import active_registry
from kafkaraw.pipelines.evaluation import current_evaluation
from kafkaraw.pipelines.model import Location, TopicSource, TopicTarget
import sys

def topic(name):
    evaluation = current_evaluation()
    return evaluation.read_topic(TopicSource(name), evaluation)

def to_topic(name, **arguments):
    location = Location("transformations/a.py", sys._getframe(1).f_lineno)
    return lambda function: active_registry().register_topic(TopicTarget(name, **arguments), location, function)

@dp.temporary_view
def orders():
    return topic("orders")

"""
LINES = HEAD.count("\n")
SHOUT = "@dp.append_flow(target='t')\ndef f(): return spark.readStream.table('orders')"


def read_topic(source, evaluation):
    from pyspark.sql.types import StructType

    evaluation.note(source.name, InputKind.TOPIC, streaming=True)
    schema = StructType.fromDDL("id LONG, customer STRING, amount DOUBLE, at TIMESTAMP")
    return stand_in(evaluation.spark, schema, evaluation, streaming=True, name=f"topic {source.name}")


@pytest.fixture
def check(write, spark):
    def check(text, **files):
        given = {"transformations/a.py": HEAD + text} if text else {}
        given |= {f"transformations/{name.replace('_', '.')}": each for name, each in files.items()}
        pipeline = load_pipeline(read_specification(write(given)), spark)
        return analyze(pipeline, spark, read_topic=read_topic, judge=lambda frame, *_: frame)

    return check


@pytest.fixture
def problems(check):
    """Return the problems, with lines counted from the end of HEAD."""

    def problems(text):
        with pytest.raises(PipelineError) as caught:
            check(text)
        errors = caught.value.errors if isinstance(caught.value, PipelineErrors) else [caught.value]
        return [f"{error.location.line - LINES}: {error.dataset}: {error.what}" for error in errors]

    return problems


GOOD = """\
@dp.table
def clean():
    return spark.readStream.table("orders").where("amount > 0")

@to_topic("revenue", key="hour", output_mode="update")
def revenue():
    rows = spark.readStream.table("clean").withWatermark("at", "1 hour")
    return rows.groupBy(F.window("at", "1 hour").start.alias("hour")).agg(F.sum("amount").alias("amount"))

@dp.materialized_view
def top():
    return spark.read.table("clean").groupBy("customer").count()

@dp.table
def both():
    last = spark.read.table("top")
    others = topic("others").select("id", F.col("amount").alias("other"))
    return spark.readStream.table("clean").join(others, "id").join(last, "customer")
"""


def test_analysis_has_graph_schemas_sources_and_state(check):
    found = check(GOOD)
    assert {(each.source.name, each.reader.name, each.streaming) for each in found.graph.edges} == {
        ("orders", "orders", True),
        ("orders", "clean", True),
        ("clean", "revenue", True),
        ("clean", "top", False),
        ("clean", "both", True),
        ("top", "both", False),
        ("others", "both", True),
    }
    assert found.graph.stages() == (("clean",), ("revenue", "top"), ("both",))
    assert found.schemas["revenue"] == "hour TIMESTAMP,amount DOUBLE"
    assert found.schemas["both"].startswith("customer STRING,id BIGINT,amount DOUBLE")
    assert found.flows["clean"].sources == ("topic orders",)
    assert found.flows["clean"].state == ()
    assert found.flows["both"].sources == ("clean", "topic others")
    assert found.flows["both"].state == ("Join Inner, (id = id)",)
    assert [each.partition(" ")[0] for each in found.flows["revenue"].state] == ["Aggregate"]


def test_order_of_files_does_not_matter(check):
    found = check(
        "",
        b_sql="CREATE STREAMING TABLE two AS SELECT id + 1 AS id FROM STREAM one",
        a_sql="",
        c_py=HEAD + "\n@dp.table\ndef one(): return spark.readStream.table('orders')\n",
    )
    assert found.graph.stages() == (("one",), ("two",))
    assert found.schemas["two"] == "id BIGINT"


def test_analysis_writes_nothing(check, spark, tmp_path):
    tables = {each.name for each in spark.catalog.listTables()}
    check(GOOD)
    assert {each.name for each in spark.catalog.listTables()} == tables
    assert not (tmp_path / "sales" / "storage").exists()


def test_table_of_changes_has_the_columns_of_its_source(check):
    found = check("""
dp.create_streaming_table("people")
dp.create_auto_cdc_flow(target="people", source="orders", keys=["id"], sequence_by="at", except_column_list=["amount"],
                        apply_as_deletes="amount < 0", stored_as_scd_type=2)
dp.create_streaming_table("others")
dp.create_auto_cdc_flow(target="others", source="orders", keys=["id"], sequence_by=F.col("at"), column_list=["amount"])
""")
    assert found.schemas["people"] == ("id BIGINT,customer STRING,at TIMESTAMP,__START_AT TIMESTAMP,__END_AT TIMESTAMP")
    assert found.schemas["others"] == "id BIGINT,amount DOUBLE"


def test_static_aggregate_beside_a_stream_is_no_state(check):
    found = check("""
@dp.table
def t():
    counts = spark.range(3).groupBy("id").count()
    return spark.readStream.table("orders").join(counts, "id")
""")
    assert found.flows["t"].state == ()


def test_names_of_columns_do_not_change_the_state(check):
    text = """
@dp.table
def t():
    rows = spark.readStream.table("orders").withWatermark("at", "1 hour")
    return rows.groupBy("at", "customer").agg(F.sum("amount").alias("{}"))
"""
    assert check(text.format("one")).flows["t"].state == check(text.format("two")).flows["t"].state


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "def t(): return spark.readStream.table('ordrs')",
            "2: t: reads 'ordrs', which neither the pipeline nor the catalog has; did you mean 'orders'?",
        ),
        (
            "def t(): return spark.read.table('orders')",
            "2: t: view 'orders' is a stream and was read as a batch: read it with spark.readStream.table(\"orders\"), "
            "in SQL with STREAM orders",
        ),
        (
            "def t(): return spark.range(3)",
            "1: t: its query is a batch, but a streaming table is written by streams: read with spark.readStream.table "
            "(in SQL: FROM STREAM name) or kp.topic, or make it a view with @dp.materialized_view",
        ),
        (
            "def t(): return spark.readStream.table('orders').groupBy('customer').count()",
            "1: t: [STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. This output "
            "mode is not supported for streaming aggregations without watermark on streaming DataFrames/DataSets. Call "
            'withWatermark("COLUMN", "1 hour") in front of the aggregation and group by this column, or make it a '
            "@dp.materialized_view",
        ),
        (
            "def t(): return spark.readStream.table('orders').selectExpr('id', 'amount AS ID')",
            "1: t: its query returns the column 'id' twice: rename or drop one of them",
        ),
        (
            "def t(): return spark.readStream.table('orders').selectExpr('NULL AS x')",
            "1: t: its column 'x' has no type: cast it, for example CAST(NULL AS STRING)",
        ),
        ("def t(): return 1 / 0", "2: t: ZeroDivisionError: division by zero"),
        (
            "def t(): return spark.sql('SELECT * FORM STREAM orders')",
            "2: t: [PARSE_SYNTAX_ERROR] Syntax error at or near 'STREAM'. (line 1, pos 14)",
        ),
    ],
)
def test_problem_of_a_table_names_line_and_remedy(problems, text, problem):
    assert problems(f"@dp.table\n{text}\n") == [problem]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "@dp.materialized_view\ndef t(): return spark.readStream.table('orders')",
            "1: t: its query is a stream, but a materialized view is computed from batches: make it a table with "
            "@dp.table, or read with spark.read.table in place of spark.readStream.table",
        ),
        (
            "@dp.table(partition_cols=['day'])\ndef t(): return spark.readStream.table('orders')",
            "1: t: it is partitioned by 'day', which its query does not return",
        ),
        (
            "@dp.table(schema='id LONG, customer INT, amount DOUBLE, at TIMESTAMP')\n"
            "def t(): return spark.readStream.table('orders')",
            "1: t: its schema has the column 'customer' as INT, and the query returns it as STRING: change one of them",
        ),
        (
            "@dp.table(schema='id LONG')\ndef t(): return spark.readStream.table('orders').select('id', 'at')",
            "1: t: the query returns the column 'at', which its schema does not have: change one of them",
        ),
        (
            "@dp.table(schema='id LONG, x INT')\ndef t(): return spark.readStream.table('orders').select('id')",
            "1: t: its schema has the column 'x', which the query does not return: change one of them",
        ),
        (
            "@to_topic('loud', key='nme')\ndef t(): return spark.readStream.table('orders')",
            "1: loud: the key of its records is 'nme', which its query does not return",
        ),
        (
            "@to_topic('loud', output_mode='complete')\ndef t(): return spark.readStream.table('orders')",
            "1: loud: [STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: complete. This "
            "output mode is not supported for no streaming aggregations on streaming DataFrames/DataSets. Write with "
            'output_mode="append", or aggregate the rows',
        ),
        (
            "dp.create_streaming_table('t')\n"
            "dp.create_auto_cdc_flow(target='t', source='orders', keys=['idd'], sequence_by='at')",
            "2: t: keys: 'orders' has no column 'idd'; did you mean 'id'?",
        ),
        (
            "@dp.materialized_view\ndef a(): return spark.range(3)\n"
            "@dp.table\ndef t(): return spark.readStream.table('a')",
            "4: t: 'a' is read as a stream, but its rows are replaced when they change: read it with "
            'spark.read.table("a"), in SQL without STREAM',
        ),
        (
            "dp.create_streaming_table('t')\n"
            "@dp.append_flow(target='t')\ndef a(): return spark.readStream.table('orders').select('id')\n"
            "@dp.append_flow(target='t')\ndef b(): return spark.readStream.table('orders').selectExpr('amount AS id')",
            "4: t: flow 'b' returns the column 'id' as DOUBLE, and another flow as BIGINT: cast one of them",
        ),
        (
            "@dp.materialized_view\ndef a(): return spark.read.table('b')\n"
            "@dp.materialized_view\ndef b(): return spark.read.table('a')",
            "1: a: is part of a cycle: 'a' reads 'b' reads 'a'. A dataset cannot be computed from itself: remove one "
            "of these reads",
        ),
        (
            "@dp.temporary_view\ndef t(): return 3",
            "1: t: its function returned int, not a DataFrame: return the rows of the dataset",
        ),
        (
            f"dp.create_sink('t', 'no-such-format')\n{SHOUT}",
            "1: t: format 'no-such-format' is no data source that Spark can find: correct its name, or install it",
        ),
        (
            f"dp.create_sink('t', 'kafka')\n{SHOUT}",
            "1: t: format 'kafka' is Spark's own connector, which is not installed: use format 'kafkaraw', whose "
            "options are the same",
        ),
        (
            f"dp.create_sink('t', 'kafkaraw', {{'topik': 't'}})\n{SHOUT}",
            "1: t: unknown option 'topik' of format kafkaraw; did you mean topic?",
        ),
    ],
)
def test_problem_of_a_definition_names_line_and_remedy(problems, text, problem):
    assert problems(f"{text}\n") == [problem]


def test_problems_are_reported_together_and_those_of_readers_left_out(problems):
    found = problems("""\
@dp.table
def one():
    return spark.readStream.table("orders").select("nme")
@dp.table
def two():
    return spark.readStream.table("one").select("id")
@dp.table
def three():
    return spark.readStream.table("two").join(spark.read.table("nothing"), "id")
@dp.table
def four():
    return spark.readStream.table("orders").where("amount")
""")
    assert [each.partition(". ")[0] for each in found] == [
        "3: one: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nme` cannot "
        "be resolved",
        '12: four: [DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN] Cannot resolve "amount" due to data type mismatch: Filter '
        'expression "amount" of type "DOUBLE" is not a boolean',
    ]
