"""Dead letters of a whole pipeline: written by a run, replayed through the corrected flow, counted everywhere alike."""

from __future__ import annotations

import json
import re
from textwrap import dedent

import pytest

from kafkaraw.client.admin import NewTopic
from kafkaraw.pipelines.balance import balance_of
from kafkaraw.pipelines.dead_letters.store import DeadLetters, Filter
from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.letters import letter_of
from kafkaraw.pipelines.running.last_status import LastStatus, printed
from kafkaraw.pipelines.running.runner import RunOptions, run
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.specification import read_specification

SPECIFICATION = """\
name: {name}
storage: storage
libraries:
  - glob:
      include: transformations/**
configuration:
  kafkaraw.kafka.bootstrap.servers: {servers}
"""
DEFINITION = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from kafkaraw import pipelines as kp

spark = SparkSession.active()

@dp.temporary_view
@kp.expect_or_quarantine("amount is positive", "{condition}")
def orders():
    return kp.topic("{topic}", value="json", schema="id LONG, amount DOUBLE, note STRING")

@dp.table
@kp.expect_or_drop("has an id", "id IS NOT NULL")
@kp.expect("is small", "amount < 100")
def clean():
    return spark.readStream.table("orders")

@kp.to_topic("{target}", key="id")
def notes():
    return spark.readStream.table("orders").select("id", "note")
"""


@pytest.fixture
def pipeline(spark, kafka, write):
    topic, target = kafka.new_topic(partitions=2), f"notes-{kafka.new_topic()}"
    kafka.admin.create_topics([NewTopic(target, configs={"max.message.bytes": "1000"})])
    name = f"sales-{topic}"

    def load(condition: str = "amount > 0"):
        definition = DEFINITION.format(topic=topic, target=target, condition=condition)
        folder = write(
            {"transformations/sales.py": dedent(definition)}, SPECIFICATION.format(name=name, servers=kafka.servers)
        )
        return load_pipeline(read_specification(folder), spark)

    load.topic, load.target = topic, target
    return load


def test_a_corrected_flow_gets_the_replayed_records_once_and_all_counts_agree(spark, kafka, pipeline):
    values = [
        {"id": 1, "amount": 5, "note": "a"},
        {"id": 2, "amount": 0, "note": "b"},
        {"id": None, "amount": 500, "note": "c"},
        {"id": 4, "amount": 7, "note": "x" * 2000},
    ]
    for number, value in enumerate(values):
        kafka.producer.send(pipeline.topic, json.dumps(value).encode(), partition=number % 2)
    kafka.producer.send(pipeline.topic, b"{no json").result(30)
    first = pipeline()
    summary = run(first, spark, RunOptions(once=True))
    assert summary.exit_code == 0, summary
    store = DeadLetters(first.name, first.settings)
    letters = {each.letter.reason: each.letter for each in store.find()}
    assert set(letters) == {"decode", "expectation", "sink"} and len(store.find()) == 3
    assert (letters["expectation"].dataset, letters["expectation"].expectation) == ("orders", "amount is positive")
    assert (letters["sink"].dataset, letters["sink"].topic) == ("notes", pipeline.target)
    assert "max.message.bytes of topic" in letters["sink"].error and letters["sink"].key == b"4"

    def ids(table):
        return sorted(row.id for row in spark.read.parquet(f"{first.storage}/tables/{table}").collect())

    assert ids("clean") == [1, 4]
    assert [json.loads(each.value)["note"] for each in kafka.records(pipeline.target)] == ["a", "c"]
    balance = {each.flow: each for each in balance_of(summary.status.flows)}
    shown = {name: str(each) for name, each in balance.items()}
    assert shown == {
        "clean": "clean: 5 records = 2 rows out + 1 dropped + 2 dead letters + 0 left out by functions",
        "notes": "notes: 5 records = 3 rows out + 0 dropped + 2 dead letters + 0 left out by functions",
    }
    assert all(each.is_balanced for each in balance.values())

    corrected = pipeline("amount >= 0")
    assert store.replay(Filter(reasons=frozenset({"expectation", "decode"}))).count == 2
    for _ in range(2):
        summary = run(corrected, spark, RunOptions(once=True))
        assert summary.exit_code == 0, summary
        assert ids("clean") == [1, 2, 4]
    assert sorted(json.loads(each.value)["note"] for each in kafka.records(pipeline.target)) == ["a", "b", "c"]
    counted = spark.read.parquet(f"{first.storage}/expectations").where("dataset = 'orders' AND flow = 'clean'")
    assert [(row.expectation, row.action, row.rows, row.unmet) for row in counted.collect()] == [
        ("amount is positive", "quarantine", 5, 1)
    ]
    shown = printed(LastStatus(summary.status.as_json(), running=False))
    assert re.search(r"^clean +orders +amount is positive +quarantine +5 +1$", shown, re.MULTILINE)
    assert "clean: 7 records = 3 rows out + 1 dropped + 3 dead letters + 0 left out by functions" in shown
    again = [each.letter for each in store.find() if each.state.value == "open"]
    assert sorted((each.reason, each.offset) for each in again) == [("decode", 2), ("sink", -1)]
    assert all(each.is_balanced for each in summary.status.balance)
    replays = kafka.records(first.settings.replay_topic)
    assert sorted(letter_of(each).reason for each in replays) == ["decode", "expectation"]

    flow = Storage.of(first.storage, first.name).flow("clean")
    flow.keep_counts(flow.counts().batch + 1, {"kafkaraw.written": {"rows": 1}})
    summary = run(corrected, spark, RunOptions(once=True))
    assert (summary.exit_code, summary.status.state, summary.status.healthy) == (1, "unbalanced", False)
    (wrong,) = summary.unbalanced
    assert str(wrong).startswith("clean: 7 records = 4 rows out + 1 dropped + 3 dead letters + -1 left out"), wrong
    shown = printed(LastStatus(summary.status.as_json(), running=False))
    assert "NOT BALANCED: clean: 7 records" in shown
