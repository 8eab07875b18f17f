"""What the readers make of options and cores, without a session or a broker."""

from __future__ import annotations

import pytest

from kafkaraw.spark.options import parse_options
from kafkaraw.spark.planning import OffsetRange
from kafkaraw.spark.source import KafkaBatchReader, KafkaStreamReader
from tests.spark.spark_types import struct


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setenv("KAFKARAW_SPARK_CORES", "2")


def tasks(reader: type[KafkaBatchReader | KafkaStreamReader], size: int, **given: str) -> int:
    """How many tasks read 4 partitions of so many offsets each."""
    options = parse_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"} | given)
    ranges = [OffsetRange("t", number, 0, size) for number in range(4)]
    return len(reader(options, struct("value binary"))._tasks(ranges))


def test_a_small_micro_batch_has_as_many_tasks_as_there_are_cores():
    assert tasks(KafkaStreamReader, 2_500) == 2


def test_where_there_is_much_to_do_or_an_option_says_how_each_partition_has_its_task():
    assert tasks(KafkaStreamReader, 2_501) == 4
    assert tasks(KafkaStreamReader, 10, minPartitions="4") == 4
    assert tasks(KafkaStreamReader, 10, maxRecordsPerPartition="10") == 4
    assert tasks(KafkaStreamReader, 10, maxTasks="3") == 3
    assert tasks(KafkaBatchReader, 10) == 4


def test_where_the_cores_are_not_known_each_partition_has_its_task(monkeypatch):
    monkeypatch.delenv("KAFKARAW_SPARK_CORES")
    assert tasks(KafkaStreamReader, 10) == 4
