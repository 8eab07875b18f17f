"""Batch reads and writes through Spark, against a broker in a process of its own."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import KafkaError


def values(frame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_spark_reads_the_records_that_the_producer_writes(spark, kafka):
    topic = kafka.new_topic(partitions=2)
    headers = [("a", b"1"), ("a", None), ("é", b"")]
    kafka.producer.send(topic, b"v", b"k", headers=headers, partition=1, timestamp_ms=1_357_016_400_123)
    kafka.producer.send(topic, None, None, partition=0, timestamp_ms=1).result(10)
    kafka.producer.flush(10)
    rows = kafka.batch(spark, subscribe=topic, includeHeaders="true").load().orderBy("partition").collect()
    assert [row.asDict(recursive=True) for row in rows] == [
        {
            "key": None,
            "value": None,
            "topic": topic,
            "partition": 0,
            "offset": 0,
            "timestamp": rows[0].timestamp,
            "timestampType": 0,
            "headers": None,
        },
        {
            "key": b"k",
            "value": b"v",
            "topic": topic,
            "partition": 1,
            "offset": 0,
            "timestamp": rows[1].timestamp,
            "timestampType": 0,
            "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "é", "value": b""}],
        },
    ]
    shown = [
        row.ms
        for row in spark.createDataFrame(
            [(row.partition, row.timestamp) for row in rows], "partition int, timestamp timestamp"
        )
        .orderBy("partition")
        .select(F.unix_millis("timestamp").alias("ms"))
        .collect()
    ]
    assert shown == [1, 1_357_016_400_123]


def test_the_consumer_reads_the_records_that_spark_writes(spark, kafka):
    topic = kafka.new_topic(partitions=3)
    moment = datetime(2013, 1, 1, 5, 0, 0, 123_000, UTC)
    rows = [
        (bytearray(b"\x00\xff"), "text", [("h", bytearray(b"1")), ("h", None)], 2, moment),
        (None, None, None, 0, moment),
        (bytearray(b""), "", [], 1, moment),
    ]
    schema = (
        "key binary, value string, headers array<struct<key:string,value:binary>>, partition int, timestamp timestamp"
    )
    frame = spark.createDataFrame(rows, schema)
    given = kafka.options(topic=topic, includeTimestamp="true")
    frame.write.format("kafkaraw").options(**given).mode("append").save()
    found = kafka.records(topic)
    assert [(r.partition, r.key, r.value, r.headers) for r in found] == [
        (0, None, None, []),
        (1, b"", b"", []),
        (2, b"\x00\xff", b"text", [("h", b"1"), ("h", None)]),
    ]
    assert {r.timestamp_ms for r in found} == {1_357_016_400_123}


def test_many_records_of_many_partitions_are_read_once_each(spark, kafka):
    topic = kafka.new_topic(partitions=4)
    options = kafka.options(topic=topic, **{"kafka.compression.type": "zstd"})
    frame = spark.range(0, 50_000, numPartitions=3).select(
        F.col("id").cast("string").alias("value"), F.col("id").cast("string").alias("key")
    )
    frame.write.format("kafkaraw").options(**options).mode("append").save()
    read = kafka.batch(spark, subscribe=topic, minPartitions="6").load()
    assert read.rdd.getNumPartitions() >= 6
    summary = read.agg(
        F.count("*"),
        F.countDistinct("partition", "offset"),
        F.sum(F.col("value").cast("string").cast("long")),
        F.countDistinct("partition"),
    )
    assert tuple(summary.collect()[0]) == (50_000, 50_000, sum(range(50_000)), 4)


def test_each_row_goes_to_the_topic_that_it_names(spark, kafka):
    first, second = kafka.new_topic(), kafka.new_topic()
    frame = spark.createDataFrame([(first, "1"), (second, "2"), (first, "3")], "topic string, value string")
    frame.write.format("kafkaraw").options(**kafka.options()).mode("append").save()
    assert (kafka.numbers(first), kafka.numbers(second)) == ([1, 3], [2])


POSITIONS = {
    "everything by default": ({}, range(20)),
    "earliest to latest": ({"startingOffsets": "earliest", "endingOffsets": "latest"}, range(20)),
    "offsets": (
        {"startingOffsets": '{"T":{"0":2,"1":-2}}', "endingOffsets": '{"T":{"0":5,"1":-1}}'},
        [2, 3, 4, *range(10, 20)],
    ),
    "nothing": ({"startingOffsets": '{"T":{"0":10,"1":10}}'}, []),
}


@pytest.mark.parametrize(("given", "expected"), POSITIONS.values(), ids=POSITIONS)
def test_a_batch_reads_from_its_start_to_its_end(spark, kafka, two_tens, given, expected):
    given = {name: text.replace("T", two_tens) if "{" in text else text for name, text in given.items()}
    assert values(kafka.batch(spark, subscribe=two_tens, **given).load()) == list(expected)


@pytest.fixture(scope="module")
def two_tens(kafka) -> str:
    """A topic with 0 to 9 in partition 0 and 10 to 19 in partition 1."""
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, range(10))
    kafka.produce(topic, range(10, 20), partition=1)
    return topic


@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_batch_that_starts_beyond_its_end_is_refused(spark, kafka, two_tens, strict):
    start = f'{{"{two_tens}":{{"0":11,"1":9}}}}'
    given = {"subscribe": two_tens, "startingOffsets": start, "failOnDataLoss": strict}
    message = error_of(kafka.batch(spark, **given).load().collect)
    assert f"startingOffsets is beyond the end of {two_tens}-0: " in message
    assert "from offset 11 up to 10 (endingOffsets)" in message


def test_single_partitions_can_be_assigned(spark, kafka, two_tens):
    assert values(kafka.batch(spark, assign=f'{{"{two_tens}":[1]}}').load()) == list(range(10, 20))


def test_a_schema_chooses_the_columns_that_are_decoded(spark, kafka, two_tens):
    frame = kafka.batch(spark, subscribe=two_tens).schema("offset bigint, partition int").load()
    assert frame.columns == ["offset", "partition"]
    assert frame.agg(F.sum("offset"), F.sum("partition")).collect() == [(90, 10)]


@pytest.mark.parametrize("form", [str, StructType.fromDDL], ids=["text", "StructType"])
def test_a_schema_gives_headers_as_a_map(spark, kafka, form):
    topic = kafka.new_topic()
    kafka.producer.send(topic, b"1", headers=[("a", b"old"), ("b", None), ("a", b"new")])
    kafka.producer.send(topic, b"2").result(10)
    schema = form("headers MAP<STRING, BINARY>, offset BIGINT NOT NULL")
    rows = kafka.batch(spark, subscribe=topic).schema(schema).load().collect()
    assert [tuple(row) for row in rows] == [({"a": b"new", "b": None}, 0), (None, 1)]


def error_of(action) -> str:
    with pytest.raises((PySparkException, KafkaError)) as error:
        action()
    return str(error.value)


def refusal_of(action) -> str:
    """An error that comes from the driver: one line, without the calls of any process."""
    message, state = error_of(action).rsplit("SQLSTATE", 1)
    assert state == ": 38000"
    assert message.rstrip().count("\n") == 0, message
    return message


def test_a_wrong_option_is_refused_in_one_line_when_the_dataframe_is_made(spark, kafka):
    assert "did you mean startingOffsets?" in refusal_of(
        lambda: kafka.batch(spark, subscribe="t", startingOffset="x").load()
    )
    assert "did you mean startingOffsets?" in refusal_of(
        lambda: kafka.stream(spark, subscribe="t", startingOffset="x").load()
    )
    assert "startingOffsets='{x' is not JSON" in refusal_of(
        lambda: kafka.batch(spark, subscribe="t", startingOffsets="{x").load()
    )
    assert "give the option subscribe, subscribePattern or assign" in refusal_of(lambda: kafka.batch(spark).load())
    assert "kafka.bootstrap.servers is missing" in refusal_of(lambda: spark.read.format("kafkaraw").load())


def test_an_unknown_topic_is_named_and_not_created(spark, kafka):
    assert "topic 'nowhere' does not exist" in refusal_of(kafka.batch(spark, subscribe="nowhere").load().collect)
    assert "nowhere" not in {listing.name for listing in kafka.admin.list_topics()}


def test_a_partition_that_does_not_exist_is_named(spark, kafka, two_tens):
    message = refusal_of(kafka.batch(spark, assign=f'{{"{two_tens}":[0,2]}}').load().collect)
    assert f"partition {two_tens}-2 does not exist" in message


def test_an_unreachable_broker_is_named(spark, closed_port):
    frame = spark.read.format("kafkaraw").option("kafka.bootstrap.servers", f"127.0.0.1:{closed_port}")
    frame = frame.option("subscribe", "t").option("kafka.bootstrap.timeout.ms", "0")
    assert f"127.0.0.1:{closed_port}" in refusal_of(frame.load().collect)


def test_columns_that_cannot_be_written_are_refused(spark, kafka):
    write = spark.range(1).write.format("kafkaraw").options(**kafka.options(topic="t"))
    assert "there is no column `value` to write" in refusal_of(write.mode("append").save)
    assert 'mode("overwrite") is not possible' in refusal_of(write.mode("overwrite").save)


def test_a_record_that_is_too_large_fails_the_write_and_says_so(spark, kafka):
    topic = kafka.new_topic()
    frame = spark.range(1).select(F.expr("repeat('x', 2000000)").alias("value"))
    message = error_of(frame.write.format("kafkaraw").options(**kafka.options(topic=topic)).mode("append").save)
    assert "RecordTooLargeError" in message
    assert "kafka.max.request.size" in message


def test_topics_are_selected_by_a_java_regex(spark, kafka):
    mark = uuid.uuid4().hex[:8]
    names = [f"{mark}-{name}" for name in ("orders.eu", "orders.us", "orders-old")]
    kafka.admin.create_topics([NewTopic(name, partitions=1) for name in names])
    for number, name in enumerate(names):
        kafka.produce(name, [number])
    pattern = rf"\Q{mark}-\Eorders\.\p{{Lower}}{{2}}"
    assert values(kafka.batch(spark, subscribePattern=pattern).load()) == [0, 1]
    assert values(kafka.batch(spark, subscribePattern=f" {mark[1:]} ").load()) == [0, 1, 2]
    assert values(kafka.batch(spark, subscribePattern=rf"{mark}$").load()) == []


def test_a_read_starts_and_ends_by_time(spark, kafka):
    topic = kafka.new_topic(partitions=2)
    for partition in range(2):
        for number in range(10):
            time = 1_000_000 + 100 * number
            kafka.producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=time)
    kafka.producer.flush(10)
    times = {"startingTimestamp": "1000250", "endingTimestamp": "1000700"}
    assert values(kafka.batch(spark, subscribe=topic, **times).load()) == [3, 3, 4, 4, 5, 5, 6, 6]
    by_partition = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": 1000800, "1": 1000900}})}
    assert values(kafka.batch(spark, subscribe=topic, **by_partition).load()) == [8, 9, 9]
    late = {"startingTimestamp": "2000000"}
    with pytest.raises(PySparkException, match="has no record at or after 2000000"):
        kafka.batch(spark, subscribe=topic, **late).load().collect()
    lenient = late | {"startingOffsetsByTimestampStrategy": "latest", "endingTimestamp": "3000000"}
    assert values(kafka.batch(spark, subscribe=topic, **lenient).load()) == []


@pytest.mark.parametrize(
    ("options", "tasks"),
    [({}, 4), ({"maxTasks": "2"}, 2), ({"maxRecordsPerPartition": "3"}, 8), ({"minPartitions": "6"}, 8)],
)
def test_the_options_say_how_many_tasks_there_are(spark, kafka, options, tasks):
    topic = kafka.new_topic(partitions=4)
    for partition in range(4):
        kafka.produce(topic, range(6), partition=partition)
    frame = kafka.batch(spark, subscribe=topic, **options).load()
    assert frame.rdd.getNumPartitions() == tasks
    assert values(frame) == sorted([*range(6)] * 4)
