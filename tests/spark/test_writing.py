"""Rows of Spark as records of Kafka."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from kafkaraw.errors import ConfigError, UsageError
from kafkaraw.spark.options import parse_options
from kafkaraw.spark.writing import record_arguments, write_settings
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
        ("value string, headers map<string,binary>", "the column headers is map<string,binary>"),
        ("value string, partition bigint", "the column partition is bigint; to be written it must be int"),
        ("value string, topic binary", "the column topic is binary; to be written it must be string"),
    ],
)
def test_columns_that_kafka_cannot_take_are_refused_before_anything_is_written(ddl, message):
    with pytest.raises(ConfigError) as error:
        write_settings(options(topic="t"), struct(ddl))
    assert message in str(error.value)


def test_it_must_be_said_where_to_write():
    with pytest.raises(ConfigError, match="give the option topic, or a column `topic`"):
        write_settings(options(), struct("value string"))


def test_other_columns_are_left_alone():
    assert write_settings(options(), struct("value string, topic string, offset bigint")).topic is None


def test_only_the_producers_settings_reach_the_producer():
    given = options(topic="t", kafka__linger__ms="9", kafka__fetch__max__bytes="100000")
    settings = write_settings(given, struct("value string")).producer
    assert settings["linger_ms"] == "9"
    assert "fetch_max_bytes" not in settings


def test_a_row_becomes_the_arguments_of_a_record():
    batch = pa.RecordBatch.from_pydict(
        {
            "value": pa.array(["a", "é", None]),
            "key": pa.array([b"\xff", None, b""], pa.binary()),
            "headers": pa.array([[("h", b"1"), ("h", None)], None, []], HEADERS),
            "partition": pa.array([2, None, 0], pa.int32()),
            "timestamp": pa.array([datetime(2013, 1, 1, 5, 0, 0, 1999, UTC), None, None], pa.timestamp("us", "UTC")),
            "ignored": pa.array([1, 2, 3]),
        }
    )
    assert list(record_arguments(batch, "t")) == [
        ("t", b"a", b"\xff", [("h", b"1"), ("h", None)], 2, 1_357_016_400_001),
        ("t", "é".encode(), None, None, None, None),
        ("t", None, b"", [], 0, None),
    ]


def test_a_timestamp_before_1970_is_rounded_down_like_the_others():
    moment = pa.array([-1_500], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"x"]), "timestamp": moment})
    assert next(iter(record_arguments(batch, "t")))[5] == -2


def test_the_option_topic_wins_over_the_column():
    batch = pa.RecordBatch.from_pydict({"value": ["x"], "topic": ["column"]})
    assert next(iter(record_arguments(batch, "option")))[0] == "option"
    assert next(iter(record_arguments(batch, None)))[0] == "column"


def test_a_row_without_a_topic_is_refused():
    batch = pa.RecordBatch.from_pydict({"value": ["x", "y"], "topic": ["t", None]})
    with pytest.raises(UsageError, match="the column topic is null in some row"):
        list(record_arguments(batch, None))


def test_a_header_without_a_name_is_refused():
    batch = pa.RecordBatch.from_pydict({"value": ["x"], "headers": pa.array([[(None, b"1")]], HEADERS)})
    with pytest.raises(UsageError, match="header whose key is null"):
        list(record_arguments(batch, "t"))
