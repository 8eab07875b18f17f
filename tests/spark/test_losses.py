"""Topics are made anew or lose records while a query reads them: source and broker, called as Spark calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.records import TopicPartition
from kafkaraw.spark.data_source_api import ReadMaxRows
from kafkaraw.spark.errors import DataLossError
from kafkaraw.spark.options.parsing import parse_options
from kafkaraw.spark.reading import task as reading
from kafkaraw.spark.source import KafkaStreamReader
from tests.spark.kafka import Kafka
from tests.spark.spark_types import struct

# Batches within which a topic that was made anew is noticed: the driver looks at the topics once a second.
MANY = 40

STEPS = ("before the plan", "before the tasks", "after the tasks")


@pytest.fixture(scope="module")
def near() -> Iterator[Kafka]:
    """A broker in this process: it starts at once."""
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers, linger_ms=0) as producer:
            yield Kafka(servers, admin, producer)
        reading._consumers.close()


@pytest.fixture
def start(near: Kafka) -> Iterator[Callable[..., Query]]:
    """Start queries, whose clients are closed after the test."""
    queries: list[Query] = []

    def started(*, strict: bool) -> Query:
        queries.append(Query(near, strict=strict))
        return queries[-1]

    yield started
    for query in queries:
        query.stop()


class Query:
    """A streaming query of one topic of ten records, and the numbers that it has read; ten records in each batch."""

    def __init__(self, kafka: Kafka, *, strict: bool) -> None:
        self.kafka, self.topic = kafka, kafka.new_topic()
        kafka.produce(self.topic, range(10))
        self._strict = strict
        self.numbers: list[int] = []
        self._reader = self._new_reader()
        self._start = self._reader.initialOffset()

    def restart(self) -> None:
        """Go on in a new driver, from the checkpoint."""
        self.stop()
        self._reader = self._new_reader()

    def stop(self) -> None:
        self._reader.stop()

    def _new_reader(self) -> KafkaStreamReader:
        given = {"subscribe": self.topic, "startingOffsets": "earliest", "failOnDataLoss": str(self._strict)}
        options = parse_options(self.kafka.options(**given))
        return KafkaStreamReader(options, struct("value binary"))

    def batch(self, step: str = "", what: Callable[[], None] = lambda: None) -> None:
        """One micro-batch, if there is anything new; something happens at one of its steps."""
        happens = {step: what}
        happens.get("before the plan", int)()
        end = self._reader.latestOffset(self._start, ReadMaxRows(10))
        tasks = self._reader.partitions(self._start, end) if end != self._start else []
        happens.get("before the tasks", int)()
        for task in tasks:
            for rows in self._reader.read(task):
                self.numbers += [int(value.as_py()) for value in rows.column(0)]
        happens.get("after the tasks", int)()
        self._start = end

    def make_anew(self, numbers: range) -> None:
        self.kafka.remake_topic(self.topic)
        self.kafka.produce(self.topic, numbers)

    def delete_up_to(self, offset: int) -> None:
        self.kafka.admin.delete_records({TopicPartition(self.topic, 0): offset})


@pytest.mark.parametrize("count", [3, 25])
@pytest.mark.parametrize("step", STEPS)
def test_a_recreated_topic_is_read_from_its_first_record_without_fail_on_data_loss(near, start, step, count):
    query = start(strict=False)
    query.batch()
    near.produce(query.topic, range(10, 20))
    query.batch(step, lambda: query.make_anew(range(100, 100 + count)))
    expected = [*range(20 if step == "after the tasks" else 10), *range(100, 100 + count)]
    for _ in range(MANY):
        if query.numbers != expected:
            query.batch()
    assert query.numbers == expected


@pytest.mark.parametrize("count", [3, 25])
@pytest.mark.parametrize("step", STEPS)
def test_a_recreated_topic_ends_the_query(near, start, step, count):
    query = start(strict=True)
    query.batch()
    near.produce(query.topic, range(10, 20))
    with pytest.raises(DataLossError, match=f"{query.topic}.*failOnDataLoss"):
        query.batch(step, lambda: query.make_anew(range(100, 100 + count)))
        for _ in range(MANY):
            query.batch()
    assert query.numbers == list(range(20 if step == "after the tasks" else 10))


@pytest.mark.parametrize("step", STEPS)
def test_deleted_unread_records_end_the_query(near, start, step):
    query = start(strict=True)
    query.batch()
    near.produce(query.topic, range(10, 20))
    if step == "after the tasks":
        query.batch(step, lambda: query.delete_up_to(15))
        assert query.numbers == list(range(20))
        return
    with pytest.raises(DataLossError, match=f"{query.topic}-0 starts at offset 15 now, 10 is gone.*failOnDataLoss"):
        query.batch(step, lambda: query.delete_up_to(15))


@pytest.mark.parametrize("restarts", [False, True])
def test_a_query_continues_at_the_first_remaining_record_without_fail_on_data_loss(near, start, caplog, restarts):
    query = start(strict=False)
    query.batch()
    near.produce(query.topic, range(10, 30))
    query.delete_up_to(15)
    if restarts:
        query.restart()
    for _ in range(3):
        query.batch()
    assert query.numbers == [*range(10), *range(15, 30)]
    assert f"{query.topic}-0 starts at offset 15 now, 10 is gone" in caplog.text


def test_a_restarted_driver_continues_at_the_end_of_a_shorter_recreated_topic(near, start):
    query = start(strict=False)
    query.batch()
    query.make_anew(range(100, 103))
    query.restart()
    query.batch()
    near.produce(query.topic, [103])
    query.batch()
    assert query.numbers == [*range(10), 103]
