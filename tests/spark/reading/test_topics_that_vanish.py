"""A topic that is deleted, or deleted and created again, between planning and reading, or while a task reads it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.client.admin import NewTopic
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.ranges.planning import OffsetRange
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.reading.lookup import consumer_settings
from kafkaraw.spark.reading.task import ReadSettings, read_ranges
from kafkaraw.spark.source import KafkaBatchReader

SCHEMA = pa.schema([("value", pa.binary())])
RECORDS = 100
MESSAGES = {
    "deleted": "{0}-0 does not exist any more, {0}-0 is gone from offset",
    "remade": "topic {0} was deleted and",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as embedded:
        yield embedded


@pytest.fixture(autouse=True)
def no_faults_are_left(broker) -> Iterator[None]:
    yield
    broker.faults.clear()


@pytest.fixture
def brokers_hear_of_topics_quickly(monkeypatch) -> None:
    """A topic that they do not know is waited for as long as this, several times."""
    for module in ("network.metadata", "fetching.reading"):
        monkeypatch.setattr(f"kafkaraw.client.{module}.UNKNOWN_TOPIC_GRACE_S", 0.3)


class Topic:
    """A topic of one partition, and what a task reads of it."""

    def __init__(self, broker: EmbeddedBroker, name: str) -> None:
        self.name = name
        self._servers = broker.bootstrap_servers
        self.make("old", RECORDS)
        with Admin(bootstrap_servers=self._servers) as admin:
            topic_id = admin.describe_topics([name])[name].topic_id
        self.work = OffsetRange(name, 0, 0, RECORDS, topic_id)

    def make(self, text: str, count: int) -> None:
        with Admin(bootstrap_servers=self._servers) as admin:
            admin.create_topics([NewTopic(self.name, 1)])
        with Producer(bootstrap_servers=self._servers, batch_size=1000) as producer:
            for _ in range(count):
                producer.send(self.name, text.encode() + bytes(900))

    def delete(self, how: str) -> None:
        with Admin(bootstrap_servers=self._servers) as admin:
            admin.delete_topics([self.name])
        if how == "remade":
            self.make("new", 2 * RECORDS)

    def read(self, *, strict: bool) -> list[bytes]:
        """The values, read a few at a time."""
        given = {"bootstrap_servers": self._servers, "max_partition_fetch_bytes": "5000"}
        settings = ReadSettings(consumer_settings(given), strict, 20_000)
        return [
            v[:3] for batch in read_ranges([self.work], SCHEMA, settings) for v in batch.column("value").to_pylist()
        ]


@pytest.mark.usefixtures("brokers_hear_of_topics_quickly")
@pytest.mark.parametrize("how", MESSAGES)
@pytest.mark.parametrize("strict", [True, False])
def test_a_topic_that_vanishes_between_planning_and_reading_is_a_loss(broker, caplog, how, strict):
    topic = Topic(broker, f"before-{how}-{strict}")
    topic.delete(how)
    message = MESSAGES[how].format(topic.name)
    if strict:
        with pytest.raises(DataLossError, match=message):
            topic.read(strict=True)
    else:
        assert topic.read(strict=False) == []
        assert message in caplog.text


@pytest.mark.parametrize("strict", ["true", "false"])
def test_batch_read_reads_nothing_of_a_topic_that_was_recreated_after_planning(broker, caplog, strict):
    topic = Topic(broker, f"batch-{strict}")
    servers = broker.bootstrap_servers
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic.name, "failOnDataLoss": strict}
    reader = KafkaBatchReader(parse_options(given), StructType([StructField("value", BinaryType())]))
    (task,) = reader.partitions()
    topic.delete("remade")
    message = MESSAGES["remade"].format(topic.name)
    if strict == "true":
        with pytest.raises(DataLossError, match=message):
            list(reader.read(task))
    else:
        assert list(reader.read(task)) == []
        assert message in caplog.text


@pytest.mark.usefixtures("brokers_hear_of_topics_quickly")
@pytest.mark.parametrize("how", MESSAGES)
@pytest.mark.parametrize("strict", [True, False])
def test_a_topic_that_vanishes_while_a_task_reads_it_is_a_loss(broker, caplog, how, strict):
    topic = Topic(broker, f"while-{how}-{strict}")
    held = broker.faults.on("Fetch", topic=topic.name, nth=4).hold()

    def vanish() -> None:
        held.wait_until_consumed()
        topic.delete(how)
        held.release()

    thread = threading.Thread(target=vanish)
    thread.start()
    try:
        message = MESSAGES[how].format(topic.name)
        if strict:
            with pytest.raises(DataLossError, match=message):
                topic.read(strict=True)
        else:
            values = topic.read(strict=False)
            assert 0 < len(values) < RECORDS
            assert set(values) == {b"old"}
            assert message in caplog.text
    finally:
        thread.join()


def test_a_topic_that_a_broker_does_not_know_for_some_seconds_is_read_to_its_end(broker):
    topic = Topic(broker, "unknown-for-a-while")
    fault = broker.faults.on("Metadata", topic=topic.name, times=3).answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert topic.read(strict=True) == [b"old"] * RECORDS
    assert fault.consumed
