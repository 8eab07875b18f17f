"""`kafkaraw pipelines plan` with Spark: what it shows, its exit codes, and that it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkaraw.cli import main
from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.running.plans import keep_plan, planned
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.specification import read_specification

FLOWS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
from kafkaraw import pipelines as kp

spark = SparkSession.active()

@dp.temporary_view
@kp.expect_or_quarantine("amount is positive", "amount > 0")
def orders():
    return kp.topic("orders", value="json", schema="id LONG, customer STRING, amount DOUBLE, at TIMESTAMP")

@dp.table(comment="Orders with an amount.")
def clean():
    return spark.readStream.table("orders").select("id", "customer", "amount")

@kp.to_topic("revenue", key="hour", output_mode="update")
def revenue():
    rows, hour = spark.readStream.table("orders"), F.window("at", "1 hour").start.alias("hour")
    return rows.withWatermark("at", "1 hour").groupBy(hour).agg(F.sum("amount").alias("amount"))

@dp.materialized_view
def top_customers():
    return spark.read.table("clean").groupBy("customer").count()
"""


@pytest.fixture
def folder(write, spark, monkeypatch) -> Path:
    folder = write({"transformations/sales.py": FLOWS})
    monkeypatch.chdir(folder)
    return folder


def run(*options: str) -> Result:
    return CliRunner().invoke(main, ["pipelines", "plan", *options])


def kept(folder: Path, spark) -> Storage:
    """The storage after a run of the definitions as they are now, in which each flow had a micro-batch."""
    pipeline = load_pipeline(read_specification(folder), spark)
    storage = Storage.of(pipeline.storage, pipeline.name)
    for flow in pipeline.flows:
        storage.flow(flow.name).prepare()
        storage.flow(flow.name).keep_counts(0, {})
    keep_plan(planned(pipeline, spark), storage)
    return storage


def test_plan_shows_the_graph_and_writes_nothing(folder, spark):
    files, tables = sorted(folder.rglob("*")), spark.sql("SHOW TABLES").collect()
    result = run()
    assert result.exit_code == 0, result.output
    assert (
        result.stdout
        == """\
pipeline sales: 4 datasets, 3 flows

topic orders

temporary view orders   transformations/sales.py:7
  reads orders
  expects 'amount is positive': amount > 0 (quarantine)
  columns id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP, _key STRING, _timestamp TIMESTAMP

streaming table clean   transformations/sales.py:12
  Orders with an amount.
  reads orders
  columns id BIGINT, customer STRING, amount DOUBLE

topic revenue   transformations/sales.py:16
  reads orders
  output mode update; keeps state: Aggregate [window.start], [window.start, sum(amount)]
  columns hour TIMESTAMP, amount DOUBLE

materialized view top_customers   transformations/sales.py:21
  reads clean (batch)
  columns customer STRING, count BIGINT

This pipeline has not run yet.
"""
    )
    assert (sorted(folder.rglob("*")), spark.sql("SHOW TABLES").collect()) == (files, tables)


def test_plan_is_written_as_picture_and_json(folder):
    assert run("--output", "plan.svg").exit_code == 0
    assert (folder / "plan.svg").read_text().startswith("<svg ")
    result = run("--format", "json")
    assert {each["name"] for each in json.loads(result.stdout)["datasets"]} == {
        "orders",
        "clean",
        "revenue",
        "top_customers",
    }


def test_plan_of_an_unchanged_pipeline_says_so(folder, spark):
    storage = kept(folder, spark)
    files = sorted(storage.root.rglob("*"))
    result = run()
    assert (result.exit_code, "Nothing changed since the last run." in result.stdout) == (0, True), result.output
    assert sorted(storage.root.rglob("*")) == files


def test_change_that_the_next_run_refuses_is_shown_with_exit_code_1(folder, spark):
    kept(folder, spark)
    (folder / "transformations/sales.py").write_text(FLOWS.replace('groupBy("customer")', 'groupBy("id")').replace(
        "groupBy(hour)", 'groupBy(hour, "customer")'
    ))  # fmt: skip
    result = run()
    assert result.exit_code == 1
    assert "1 change cannot be continued, and `run` refuses it:" in result.stdout
    assert "the state in its checkpoint belongs to the old operators" in result.stdout
    assert "Run `kafkaraw pipelines checkpoint fork revenue`" in result.stdout
    assert json.loads(run("--format", "json").stdout)["changes"][0]["effect"] == "new checkpoint"


def test_wrong_definition_has_exit_code_2_and_its_line(folder):
    (folder / "transformations/sales.py").write_text(FLOWS.replace('read.table("clean")', 'read.table("cleen")'))
    result = run()
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        "Error: transformations/sales.py:23: dataset 'top_customers': reads 'cleen', which neither the pipeline nor "
        "the catalog has; did you mean 'clean'?\n"
    )
