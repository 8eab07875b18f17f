"""`PipelineTest`: records and rows in, rows, dead letters and counts out, without Kafka."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafkaraw.errors import UsageError
from kafkaraw.pipelines.testing import PipelineTest, Record

SPECIFICATION = """
name: shop
storage: storage
libraries:
  - glob: {include: "transformations/**"}
configuration:
  kafkaraw.kafka.bootstrap.servers: localhost:1
"""

DEFINITIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
from kafkaraw import pipelines as kp

spark = SparkSession.active()


@dp.temporary_view
@kp.expect_or_quarantine("amount is positive", "amount > 0")
def orders():
    return kp.topic("orders", value="json", schema="id LONG, customer STRING, amount DOUBLE, at TIMESTAMP")


@dp.table
@kp.expect_or_drop("has a customer", "customer IS NOT NULL")
def clean():
    return spark.readStream.table("orders").select("id", "customer", "amount", "at")


@kp.to_topic("revenue", key="hour", output_mode="update")
def revenue():
    rows = spark.readStream.table("clean").withWatermark("at", "10 minutes")
    return rows.groupBy(F.window("at", "1 hour")).agg(F.sum("amount").alias("amount")).select(
        F.col("window.start").cast("string").alias("hour"), "amount"
    )


@dp.table
def hours():
    rows = spark.readStream.table("clean").withWatermark("at", "10 minutes")
    return rows.groupBy(F.window("at", "1 hour")).agg(F.count("*").alias("orders")).select("window.start", "orders")


@dp.materialized_view
def customers():
    return spark.read.table("clean").groupBy("customer").agg(F.sum("amount").alias("amount"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    (folder / "spark-pipeline.yml").write_text(SPECIFICATION)
    (folder / "transformations").mkdir()
    (folder / "transformations" / "shop.py").write_text(DEFINITIONS)
    return folder


@pytest.fixture
def shop(folder, spark):
    with PipelineTest(folder, spark) as shop:
        yield shop


def order(id, amount=1.0, customer="a", at="2026-01-01T10:00:00Z"):
    return {"id": id, "customer": customer, "amount": amount, "at": at}


def test_records_come_out_as_rows_dead_letters_and_counts(shop):
    shop.send("orders", order(1), order(2, amount=-1), order(3, customer=None), b"\xff no JSON")
    shop.run("clean")
    shop.expect("clean", [{"id": 1, "customer": "a", "amount": 1, "at": datetime(2026, 1, 1, 10, tzinfo=UTC)}])
    shop.expect_dead_letters(
        [
            {"dataset": "orders", "reason": "decode", "expectation": "", "offset": "3"},
            {"dataset": "orders", "reason": "expectation", "expectation": "amount is positive", "offset": "1"},
        ]
    )
    shop.expect_counts("clean", {"rows": 2, "dropped": 1, "unmet": {"has a customer": 1}})
    shop.expect_counts("orders", {"records": 4, "undecodable": 1, "quarantined": 1, "unmet": {"amount is positive": 1}})


def test_a_dead_letter_is_the_record_byte_for_byte(shop):
    headers = (("trace", b"\x00\x01"), ("kafkaraw.reason", b"mine"), ("empty", None))
    shop.send("orders", Record(b"no JSON", b"\xfe", headers, datetime(2025, 5, 5, tzinfo=UTC)))
    (letter,) = shop.dead_letters()
    assert (letter.key, letter.value, letter.headers) == (b"\xfe", b"no JSON", headers)
    assert letter.timestamp.astimezone(UTC) == datetime(2025, 5, 5, tzinfo=UTC)
    assert letter.about["reason"] == "decode"


def test_each_run_is_a_micro_batch_that_continues_the_one_before_it(shop):
    shop.send("orders", order(1), order(2))
    shop.run("revenue")
    shop.expect("revenue", [{"hour": "2026-01-01 10:00", "amount": 2}])
    shop.send("orders", order(3), order(4, at="2026-01-01T11:00:00Z"))
    shop.run("revenue")
    shop.expect("revenue", [{"hour": "2026-01-01 10:00", "amount": 3}, {"hour": "2026-01-01 11:00", "amount": 1}])


def test_a_watermark_advances_when_told(shop):
    shop.send("orders", order(1), order(2))
    shop.run("hours")
    shop.expect("hours", [])
    shop.advance_watermark("2026-01-01 11:00")
    shop.run("hours")
    shop.expect("hours", [{"start": "2026-01-01 10:00", "orders": 2}])
    assert shop.late_rows("hours") == 0
    shop.send("orders", order(3))
    shop.run("hours")
    shop.expect("hours", [{"start": "2026-01-01 10:00", "orders": 2}])
    assert shop.late_rows("hours") == 1


def test_after_a_crash_the_last_micro_batch_is_repeated_and_nothing_is_there_twice(shop):
    shop.send("orders", order(1), order(2))
    shop.run("clean", "revenue", "customers")
    shop.send("orders", order(3))
    shop.run("clean", "revenue", "customers")
    shop.crash()
    shop.run("clean", "revenue", "customers")
    shop.expect("clean", [{"id": 1}, {"id": 2}, {"id": 3}])
    shop.expect("revenue", [{"amount": 3}])
    shop.expect("customers", [{"customer": "a", "amount": 3}])


def test_given_rows_replace_what_a_table_or_view_has(shop):
    shop.give("clean", {"id": 1, "customer": "b", "amount": 2}, {"id": 2, "customer": "b", "amount": 3.5})
    shop.run("customers")
    shop.expect("customers", [{"customer": "b", "amount": 5.5}])


def test_rows_of_a_view_may_be_given(shop):
    shop.give("orders", order(1), order(2, amount=-5, customer="z"))
    shop.run("clean")
    shop.expect("clean", [{"id": 1, "amount": 1}, {"id": 2, "amount": -5}])


def test_topics_may_be_those_of_an_embedded_broker(folder, spark):
    with PipelineTest(folder, spark, broker=True) as shop:
        shop.send("orders", order(1), Record(order(2, amount=-1), "k", (("trace", b"1"),), partition=2), b"no JSON")
        shop.run("clean")
        shop.send("orders", order(3))
        shop.run("clean")
        shop.expect("clean", [{"id": 1}, {"id": 3}])
        shop.expect_dead_letters(
            [
                {"reason": "expectation", "key": "k", "partition": "2", "offset": "0"},
                {"reason": "decode", "value": "no JSON", "partition": "0", "offset": "1"},
            ]
        )
        assert {each.headers for each in shop.dead_letters()} == {(), (("trace", b"1"),)}
        with pytest.raises(UsageError, match="partition 3"):
            shop.send("orders", Record(None, partition=3))


def test_differences_are_a_table(shop):
    shop.send("orders", order(1), order(2))
    shop.run("clean")
    with pytest.raises(AssertionError) as caught:
        shop.expect("clean", [{"id": 1, "amount": 7}, {"id": 2, "amount": 1}])
    text = str(caught.value)
    assert "clean: 1 rows as expected, 0 missing, 0 unexpected, 1 different" in text
    assert "7 expected, got 1.0" in text


def test_mistakes_of_a_test_name_what_there_is(shop):
    with pytest.raises(UsageError, match="no column 'amuont'; did you mean 'amount'"):
        shop.give("clean", {"amuont": 1})
    shop.run("clean")
    with pytest.raises(UsageError, match="before the first run"):
        shop.give("orders", order(1))
    with pytest.raises(UsageError, match="no time"):
        shop.advance_watermark("noon")
    with pytest.raises(UsageError, match="unknown count 'dorpped'; did you mean 'dropped'"):
        shop.expect_counts("clean", {"dorpped": 1})
