"""Files that only use Spark's names run unchanged, those of Spark's own `init` among them."""

from __future__ import annotations

from pathlib import Path

from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.running.plans import planned
from kafkaraw.pipelines.running.runner import RunOptions, run
from kafkaraw.pipelines.specification import read_specification

PYTHON = """\
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

spark = SparkSession.active()
kafka = {{"kafka.bootstrap.servers": "{servers}"}}

@dp.table(comment="The numbers of a topic.")
def numbers() -> DataFrame:
    rows = spark.readStream.format("kafkaraw").options(**kafka, subscribe="{source}", startingOffsets="earliest").load()
    return rows.select(col("value").cast("string").cast("long").alias("n"))

dp.create_streaming_table("chosen")

for name, condition in (("small", "n < 3"), ("large", "n > 7")):

    @dp.append_flow(target="chosen", name=name)
    def choose(condition=condition) -> DataFrame:
        return spark.readStream.table("numbers").where(condition)

@dp.temporary_view()
def doubled() -> DataFrame:
    return spark.read.table("chosen").select(col("n"), (2 * col("n")).alias("twice"))

dp.create_sink("out", "kafkaraw", {{**kafka, "topic": "{target}"}})

@dp.append_flow(target="out")
def copy() -> DataFrame:
    return spark.readStream.table("chosen").selectExpr("CAST(n AS STRING) AS value")
"""
SQL = """\
-- a materialized view of a view of another file
CREATE MATERIALIZED VIEW total COMMENT 'Of what was chosen.' AS
SELECT count(*) AS rows, sum(twice) AS twice FROM doubled;
"""


def write_files(folder: Path, kafka) -> tuple[str, str]:
    """Write the files; return the source and the target topic."""
    source, target = kafka.new_topic(), kafka.new_topic()
    (folder / "transformations").mkdir(parents=True)
    libraries = "libraries: [{glob: {include: transformations/**}}]"
    specification = f"name: both\nstorage: file://{folder}/storage\n{libraries}\n"
    (folder / "spark-pipeline.yml").write_text(specification)
    given = {"servers": kafka.servers, "source": source, "target": target}
    (folder / "transformations/a.py").write_text(PYTHON.format(**given))
    (folder / "transformations/b.sql").write_text(SQL)
    kafka.produce(source, range(10))
    return source, target


def test_project_of_sparks_own_init_runs(tmp_path, spark, monkeypatch, capsys):
    from pyspark.pipelines.init_cli import init

    monkeypatch.chdir(tmp_path)
    init("plain")
    pipeline = load_pipeline(read_specification(tmp_path / "plain"), spark)
    plan = planned(pipeline, spark)
    assert [each.name for each in plan.datasets] == [
        "example_python_materialized_view",
        "example_sql_materialized_view",
    ]
    assert plan.graph.stages() == (("example_python_materialized_view",), ("example_sql_materialized_view",))
    assert run(pipeline, spark, RunOptions(once=True), plan=plan).exit_code == 0
    (version,) = tmp_path.glob("plain/pipeline-storage/tables/example_sql_materialized_view/version-*")
    assert sorted(row.id for row in spark.read.parquet(str(version)).collect()) == [0, 2, 4, 6, 8]


def test_files_with_sparks_names_only_run(tmp_path, spark, kafka):
    _, target = write_files(tmp_path / "both", kafka)
    pipeline = load_pipeline(read_specification(tmp_path / "both"), spark)
    plan = planned(pipeline, spark)
    assert run(pipeline, spark, RunOptions(once=True), plan=plan).exit_code == 0
    assert sorted(kafka.numbers(target)) == [0, 1, 2, 8, 9]
    (version,) = tmp_path.glob("both/storage/tables/total/version-*")
    assert spark.read.parquet(str(version)).collect() == [(5, 40)]
