"""How far queries lag behind."""

from __future__ import annotations

import json
import logging
import uuid
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from kafkaraw.records import TopicPartition
from kafkaraw.spark import KafkaLagListener, QueryLag
from tests.spark.needs import needs_read_limits

QUERY = uuid.UUID(int=7)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def progress(end: object, latest: object, name: str | None = "copy") -> SimpleNamespace:
    source = SimpleNamespace(
        endOffset=end if end is None else json.dumps(end), latestOffset=latest if latest is None else json.dumps(latest)
    )
    return SimpleNamespace(progress=SimpleNamespace(id=QUERY, name=name, batchId=3, sources=[source]))


def published(**events: object) -> list[QueryLag]:
    found: list[QueryLag] = []
    KafkaLagListener(found.append).onQueryProgress(progress(**events))
    return found


def test_the_lag_is_what_lies_between_the_end_of_the_batch_and_that_of_the_topic():
    (lag,) = published(end={"t": {"0": 5, "1": 9}}, latest={"t": {"0": 8, "1": 9, "2": 4}})
    assert lag.offsets_behind == {T0: 3, T1: 0}
    assert lag.statistics == {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 3,
        "avgOffsetsBehindLatest": 1.5,
    }
    assert str(lag) == "query copy, batch 3, source 0: 0 to 3 offsets behind, 1.5 on average over 2 partitions"


@pytest.mark.parametrize(("end", "latest"), [(5, 9), (None, None), ({"t": {"0": 5}}, None), ({}, {}), ({"a": 1}, {})])
def test_other_sources_are_ignored(end, latest):
    assert published(end=end, latest=latest) == []


def test_each_batch_is_a_line_in_the_log(caplog):
    with caplog.at_level(logging.INFO):
        KafkaLagListener().onQueryProgress(progress({"t": {"0": 5}}, {"t": {"0": 8}}, name=None))
    assert f"query {QUERY}, batch 3, source 0: 3 to 3 offsets behind" in caplog.text


def test_gauges_show_the_last_batch_until_the_query_ends():
    registry = CollectorRegistry()
    listener = KafkaLagListener(registry=registry)
    listener.onQueryProgress(progress({"t": {"0": 1}}, {"t": {"0": 8}}))
    listener.onQueryProgress(progress({"t": {"0": 5}}, {"t": {"0": 8}}))

    def shown(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"query": "copy", "source": "0", **labels})

    assert shown("kafkaraw_spark_offsets_behind", statistic="maxOffsetsBehindLatest") == 3
    assert shown("kafkaraw_spark_partition_offsets_behind", topic="t", partition="0") == 3
    listener.onQueryTerminated(SimpleNamespace(id=QUERY))
    assert shown("kafkaraw_spark_offsets_behind", statistic="maxOffsetsBehindLatest") is None
    assert shown("kafkaraw_spark_partition_offsets_behind", topic="t", partition="0") is None


@needs_read_limits
def test_a_listener_hears_of_the_queries_of_its_session(spark, kafka, tmp_path):
    topic = kafka.new_topic()
    kafka.produce(topic, range(10))
    heard: list[QueryLag] = []
    listener = KafkaLagListener(heard.append)
    spark.streams.addListener(listener)
    try:
        rows = kafka.stream(spark, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="6").load()
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.queryName("read").trigger(availableNow=True).start()
        assert query.awaitTermination(100)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(listener)
    lags = [(lag.query_name, lag.batch_id, lag.offsets_behind) for lag in heard]
    assert lags[:2] == [("read", 0, {(topic, 0): 4}), ("read", 1, {(topic, 0): 0})]
