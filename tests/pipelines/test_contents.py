"""After a run, the tables of a pipeline and the counts of its expectations can be queried."""

from __future__ import annotations

import json

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from kafkaraw.cli.pipelines_tables import tables
from kafkaraw.errors import ConfigError
from kafkaraw.pipelines import read_tables
from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.running.contents import tables_of
from kafkaraw.pipelines.running.plans import planned
from kafkaraw.pipelines.running.runner import RunOptions, run
from kafkaraw.pipelines.specification import read_specification
from tests.pipelines.conftest import SPECIFICATION

DEFINITIONS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from kafkaraw import pipelines as kp

spark = SparkSession.active()


@dp.temporary_view
def orders():
    return kp.topic("{topic}", value="json", schema="id LONG, customer STRING, paid BOOLEAN")


@dp.table(partition_cols=["customer"])
@kp.expect_or_drop("has a customer", "customer IS NOT NULL")
def clean():
    return spark.readStream.table("orders")


@dp.table(name="shop.paid", format="json")
@kp.expect("has an id", "id IS NOT NULL")
def paid():
    return spark.readStream.table("orders").where("paid").select("id")


@dp.materialized_view
def orders_of_customers():
    return spark.read.table("clean").groupBy("customer").count()


dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(target="latest", source="orders", keys=["customer"], sequence_by="_record.offset",
                        column_list=["id"], apply_as_deletes="id = 4")
"""
ORDERS = [(1, "a", True), (2, "a", False), (3, None, True), (4, "b", True)]


@pytest.fixture
def folder(spark, kafka, write):
    topic = kafka.new_topic()
    for number, customer, paid in ORDERS:
        value = json.dumps({"id": number, "customer": customer, "paid": paid})
        kafka.producer.send(topic, value.encode()).result(30)
    specification = SPECIFICATION.replace("localhost:9092", kafka.servers)
    return write({"transformations/shop.py": DEFINITIONS.format(topic=topic)}, specification)


def test_tables_and_counts_are_data_frames_views_and_files(spark, folder):
    with pytest.raises(ConfigError, match=r"'sales' has not run yet.*kafkaraw pipelines run"):
        read_tables(folder, spark)
    pipeline = load_pipeline(read_specification(folder), spark)
    summary = run(pipeline, spark, RunOptions(once=True), plan=planned(pipeline, spark))
    assert summary.exit_code == 0, summary
    balance = {each.flow: each for each in summary.status.balance}
    assert {"clean", "shop.paid", "latest"} <= set(balance)
    assert (balance["shop.paid"].records, balance["shop.paid"].rows_out) == (4, 3)

    found = read_tables(folder, spark)
    assert list(found) == ["clean", "shop.paid", "orders_of_customers", "latest", "kafkaraw_expectations"]
    assert sorted(row.id for row in found["clean"].collect()) == [1, 2, 4]
    assert sorted(row.id for row in found["shop.paid"].collect()) == [1, 3, 4]
    assert [tuple(row) for row in found["latest"].orderBy("id").collect()] == [(2, "a"), (3, None)]
    joined = spark.sql("SELECT customer, count FROM orders_of_customers JOIN latest USING (customer)")
    assert [tuple(row) for row in joined.collect()] == [("a", 2)]
    counts = spark.sql("SELECT flow, expectation, rows, unmet FROM kafkaraw_expectations ORDER BY flow").collect()
    assert [tuple(row) for row in counts] == [("clean", "has a customer", 4, 1), ("shop.paid", "has an id", 3, 0)]

    paths = {each.name: each.path for each in tables_of(folder)}
    assert ds.dataset(paths["orders_of_customers"]).to_table().num_rows == 2
    shown = CliRunner().invoke(tables, [str(folder)])
    assert (shown.exit_code, str(paths["orders_of_customers"]) in shown.output) == (0, True), shown.output
    listed = json.loads(CliRunner().invoke(tables, [str(folder), "--json"]).output)
    kinds = ["streaming table", "streaming table", "materialized view", "table of changes", "counts of expectations"]
    assert [each["kind"] for each in listed] == kinds
