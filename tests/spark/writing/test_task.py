"""Rows of Spark as records of Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from kafkaraw import Admin, Consumer, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.records import Record
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.writing.task import WriteSettings, columns_to_send, send_rows, write_settings
from tests.spark.spark_types import struct

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def options(**given: str):
    return parse_options({"kafka.bootstrap.servers": "h:1"} | {name.replace("__", "."): v for name, v in given.items()})


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("key string", "there is no column `value` to write; the columns are key"),
        ("value int", "the column value is int; to be written it must be binary or string"),
        ("value string, key double", "the column key is double; to be written it must be binary or string"),
        ("value string, headers map<string,string>", "the column headers is map<string,string>"),
        ("value string, partition bigint", "the column partition is bigint; to be written it must be int"),
    ],
)
def test_columns_that_kafka_cannot_take_are_refused_before_anything_is_written(ddl, message):
    with pytest.raises(ConfigError) as error:
        write_settings(options(topic="t"), struct(ddl))
    assert message in str(error.value)


def test_a_column_topic_of_another_type_is_refused_unless_the_option_topic_is_set():
    with pytest.raises(ConfigError, match="the column topic is int; to be written it must be string"):
        write_settings(options(), struct("value string, topic int"))
    assert write_settings(options(topic="t"), struct("value string, topic int")).topic == "t"


def test_options_of_reading_have_no_effect_on_a_write_and_options_that_writing_refuses_are_refused():
    given = {"subscribe": "a", "startingOffsets": "earliest", "kafka__auto__offset__reset": "earliest"}
    assert write_settings(options(topic="t", **given), struct("value string")).topic == "t"
    with pytest.raises(ConfigError, match=r"kafka\.key\.serializer is not accepted for writing"):
        write_settings(options(topic="t", kafka__key__serializer="x"), struct("value string"))


def test_a_write_needs_a_topic():
    with pytest.raises(ConfigError, match="give the option topic, or a column `topic`"):
        write_settings(options(), struct("value string"))


def test_other_columns_are_ignored():
    assert write_settings(options(), struct("value string, topic string, offset bigint")).topic is None


def test_only_the_producers_settings_reach_the_producer():
    given = options(topic="t", kafka__linger__ms="9", kafka__fetch__max__bytes="100000")
    settings = write_settings(given, struct("value string")).producer
    assert settings["linger_ms"] == "9"
    assert "fetch_max_bytes" not in settings


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def written(
    servers: str, batch: pa.RecordBatch, *, topic: str | None = "t", partitions: int = 3, timestamps: bool = True
) -> list[Record]:
    """Send a batch to a topic of its own, and read it."""
    name = f"{topic or 'column'}-{uuid.uuid4().hex[:8]}"
    if topic is None:
        named = [name if each else None for each in batch.column("topic").to_pylist()]
        batch = batch.set_column(batch.schema.get_field_index("topic"), "topic", pa.array(named, pa.string()))
    with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
    ):
        admin.create_topics([NewTopic(name, partitions)])
        settings = WriteSettings({}, None if topic is None else name, {}, include_timestamp=timestamps)
        assert send_rows(producer, [batch], settings) == batch.num_rows
        producer.flush()
        consumer.assign(consumer.partitions_for(name))
        found: list[Record] = []
        while len(found) < batch.num_rows:
            found += [record for each in consumer.poll(10).values() for record in each]
    return sorted(found, key=lambda record: record.partition)


def test_a_row_becomes_a_record(servers: str):
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array(["a", "é", None]),
            "key": pa.array([b"\xff", b"k", b""], pa.binary()),
            "headers": pa.array([[("h", b"1"), ("h", None)], None, []], HEADERS),
            "partition": pa.array([2, 1, 0], pa.int32()),
            "timestamp": pa.array([datetime(2013, 1, 1, 5, 0, 0, 1999, UTC), None, None], pa.timestamp("us", "UTC")),
            "ignored": pa.array([1, 2, 3]),
        }
    )
    last, middle, first = written(servers, batch)
    assert (first.partition, first.value, first.key, first.timestamp_ms) == (2, b"a", b"\xff", 1_357_016_400_001)
    assert list(first.headers) == [("h", b"1"), ("h", None)]
    assert (middle.value, middle.key, list(middle.headers)) == ("é".encode(), b"k", [])
    assert middle.timestamp_ms > first.timestamp_ms
    assert (last.value, last.key) == (None, b"")


def test_headers_may_be_a_map(servers: str):
    headers = pa.array([[("a", b"1"), ("b", None)]], pa.map_(pa.string(), pa.binary()))
    (record,) = written(servers, pa.RecordBatch.from_pydict({"value": ["x"], "headers": headers}))
    assert list(record.headers) == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.int64()])
def test_a_column_of_timestamps_is_ignored_unless_the_option_asks_for_it(servers: str, kind: pa.DataType):
    """So does Spark's JVM connector: old times could fall to retention at once."""
    before_ms = int(time.time() * 1000)
    batch = pa.RecordBatch.from_pydict({"value": ["x"], "timestamp": pa.array([-1_000_000], kind)})
    (record,) = written(servers, batch, timestamps=False)
    assert record.timestamp_ms >= before_ms


def test_a_column_timestamp_of_another_type_is_refused_only_if_it_is_to_be_written():
    assert not write_settings(options(topic="t"), struct("value string, timestamp bigint")).include_timestamp
    with pytest.raises(ConfigError, match="the column timestamp is bigint"):
        write_settings(options(topic="t", includeTimestamp="true"), struct("value string, timestamp bigint"))
    with pytest.raises(ConfigError, match="includeTimestamp=true needs a column `timestamp`; the columns are value"):
        write_settings(options(topic="t", includeTimestamp="true"), struct("value string"))


def test_a_timestamp_before_1970_is_refused_as_by_javas_producer(servers: str):
    moment = pa.array([-1_500], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"x"]), "timestamp": moment})
    with pytest.raises(UsageError, match="row 0 has -2, which is not a number of milliseconds since 1970"):
        written(servers, batch)


def test_a_row_without_a_topic_is_refused_by_the_name_of_the_option_that_helps() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["x", "y"], "topic": pa.array([None, "t"], pa.string())})
    with pytest.raises(UsageError, match=r"column topic is null in 1 of 2 rows: .* give the option topic"):
        columns_to_send(batch, WriteSettings({}, None, {}))
    assert columns_to_send(batch, WriteSettings({}, "option", {})).num_rows == 2


def test_the_option_topic_wins_over_the_column(servers: str):
    batch = pa.RecordBatch.from_pydict({"value": ["x"], "topic": ["column"]})
    assert columns_to_send(batch, WriteSettings({}, "option", {})).schema.names == ["value"]
    (record,) = written(servers, batch, topic=None)
    assert record.topic.startswith("column-")


def test_a_row_without_a_topic_is_refused(servers: str):
    batch = pa.RecordBatch.from_pydict({"value": ["x", "y"], "topic": ["t", None]})
    with pytest.raises(UsageError, match="topic"):
        written(servers, batch, topic=None)


def test_a_header_without_a_name_is_refused(servers: str):
    batch = pa.RecordBatch.from_pydict({"value": ["x"], "headers": pa.array([[(None, b"1")]], HEADERS)})
    with pytest.raises(UsageError, match="header"):
        written(servers, batch)
