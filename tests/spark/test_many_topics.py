"""One streaming query over very many topics, which come and go: each record is copied once, with the topic's name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkaraw import NewTopic
from tests.spark.kafka import Kafka

TIMEOUT_S = 240


def create(kafka: Kafka, names: Sequence[str]) -> None:
    kafka.admin.create_topics([NewTopic(name, partitions=2) for name in names])


def produce(kafka: Kafka, names: Sequence[str], number: int) -> list[str]:
    """Write a record to each topic; return what its copy contains."""
    tickets = [kafka.producer.send(name, b"%d" % number, partition=number % 2) for name in names]
    for ticket in tickets:
        ticket.result(60)
    return [f"{name} {number}" for name in names]


def copy(spark, kafka: Kafka, pattern: str, target: str, checkpoint: Path) -> None:
    """Run one query over all topics of a pattern, as far as there are records."""
    stream = kafka.stream(spark, subscribePattern=pattern, startingOffsets="earliest").load()
    rows = stream.selectExpr("concat(topic, ' ', cast(value AS STRING)) AS value")
    writer = rows.writeStream.format("kafkaraw").options(**kafka.options(topic=target, exactlyOnce="true"))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.soak)])
def test_query_over_many_topics_reads_new_ones_and_goes_on_where_it_was(spark, kafka, tmp_path, count):
    target = kafka.new_topic()
    names = [f"of-{count}-{number:04}" for number in range(count)]
    create(kafka, names[:-3])
    expected = produce(kafka, names[:-3], 1)
    copy(spark, kafka, f"of-{count}-.*", target, tmp_path / "checkpoint")
    assert sorted(copies(kafka, target)) == sorted(expected)
    create(kafka, names[-3:])
    expected += produce(kafka, names[-10:], 2)
    copy(spark, kafka, f"of-{count}-.*", target, tmp_path / "checkpoint")
    assert sorted(copies(kafka, target)) == sorted(expected)


def copies(kafka: Kafka, topic: str) -> list[str]:
    return [(record.value or b"").decode() for record in kafka.records(topic)]
