"""The streaming reader for Spark 4.0 and 4.1, called as these versions call it, on any version."""

from __future__ import annotations

import logging

import pytest

from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.source import KafkaUnlimitedStreamReader
from tests.spark.spark_types import struct


@pytest.fixture
def made(kafka):
    readers = []

    def make(topic: str, **given: str) -> KafkaUnlimitedStreamReader:
        options = parse_options(kafka.options(subscribe=topic, **given))
        readers.append(KafkaUnlimitedStreamReader(options, struct("value binary")))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def read(partitions) -> list[tuple[int, int]]:
    return [(work.start, work.end) for partition in partitions for work in partition.value]


def test_a_query_without_a_checkpoint_takes_no_more_than_its_limit(kafka, made):
    topic = kafka.new_topic()
    kafka.produce(topic, range(25))
    reader = made(topic, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    ends = [reader.latestOffset()]
    assert read(reader.partitions(reader.initialOffset(), ends[0])) == [(0, 10)]
    ends += [reader.latestOffset() for _ in range(3)]
    assert [end[topic]["0"] for end in ends] == [10, 20, 25, 25]


def test_a_query_that_goes_on_from_a_checkpoint_keeps_its_limit_and_its_position(kafka, made):
    topic = kafka.new_topic()
    kafka.produce(topic, range(50))
    reader = made(topic, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    seen = {topic: {"0": 30}}
    assert reader.partitions(seen, seen) == []  # as PythonMicroBatchStream.setLatestSeenOffset asks
    assert reader.latestOffset() == {topic: {"0": 40}}


def test_a_batch_that_is_repeated_is_followed_by_the_next_one(kafka, made):
    topic = kafka.new_topic()
    kafka.produce(topic, range(50))
    reader = made(topic, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    logged = {topic: {"0": 20}}
    assert reader.partitions(logged, logged) == []
    assert read(reader.partitions({topic: {"0": 10}}, logged)) == [(10, 20)]
    assert reader.latestOffset() == {topic: {"0": 30}}


def test_batch_0_of_a_query_that_starts_at_latest_is_empty(kafka, made):
    topic = kafka.new_topic()
    kafka.produce(topic, range(5))
    reader = made(topic)
    first = reader.latestOffset()
    assert first == reader.initialOffset() == {topic: {"0": 5}}
    assert reader.partitions(first, first) == []
    kafka.produce(topic, range(3))
    assert reader.latestOffset() == {topic: {"0": 8}}


def test_a_batch_waits_for_the_least_number_of_offsets(kafka, made):
    topic = kafka.new_topic()
    kafka.produce(topic, range(5))
    reader = made(topic, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="10m")
    assert reader.latestOffset() == {topic: {"0": 5}}
    kafka.produce(topic, range(3))
    assert reader.latestOffset() == {topic: {"0": 5}}
    kafka.produce(topic, range(2))
    assert reader.latestOffset() == {topic: {"0": 10}}


def test_a_limit_with_a_one_batch_trigger_is_a_warning(kafka, made, caplog):
    topic = kafka.new_topic()
    reader = made(topic, maxOffsetsPerTrigger="10")
    with caplog.at_level(logging.WARNING, logger="kafkaraw.spark.source"):
        reader.latestOffset()
        reader.latestOffset()
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["maxOffsetsPerTrigger=10"]
