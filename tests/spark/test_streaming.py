"""Streaming queries through Spark: triggers, start positions, restarts, limits."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from kafkaraw import Consumer
from kafkaraw.client.admin import NewTopic
from kafkaraw.records import TopicPartition
from kafkaraw.spark import batch_writer
from tests.rotation import rotating
from tests.simulation import seeds
from tests.spark.needs import needs_read_limits, needs_real_time_trigger
from tests.spark.side_by_side import few_at_a_time

TRIGGERS = {
    "once": {"once": True},
    "available now": {"availableNow": True},
    "processing time": {"processingTime": "50 milliseconds"},
}
STARTS = {
    "earliest": ("earliest", range(40)),
    "latest": ("latest", range(20, 40)),
    "offsets": ('{"T":{"0":5,"1":-2}}', [*range(5, 40)]),
    "latest and earliest": ('{"T":{"0":-1,"1":-2}}', [*range(10, 40)]),
}


def wait_for(query, trigger: dict[str, object]) -> None:
    """Wait until the query has read what is there, and end it."""
    try:
        if "processingTime" in trigger:
            query.processAllAvailable()
        else:
            assert query.awaitTermination(100)
    finally:
        query.stop()


class Copy:
    """A query that copies a topic, run as often as one likes on one checkpoint."""

    def __init__(self, spark, kafka, folder, **given: str) -> None:
        self._spark, self._kafka, self._given = spark, kafka, given
        self.checkpoint = folder / "checkpoint"
        self.target = kafka.new_topic()

    def start(self, **trigger):
        rows = self._kafka.stream(self._spark, **self._given).load().select("value")
        writer = rows.writeStream.format("kafkaraw").options(**self._kafka.options(topic=self.target))
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

    def run(self, **trigger) -> list[dict]:
        """Run until everything that is there now is read; gives the progress of each batch."""
        query = self.start(**trigger)
        wait_for(query, trigger)
        return [json.loads(progress.json) for progress in query.recentProgress]

    @property
    def numbers(self) -> list[int]:
        return self._kafka.numbers(self.target)


PAIRS = [
    ("earliest", "once"),
    ("earliest", "processing time"),
    ("latest", "available now"),
    ("latest", "processing time"),
    ("offsets", "available now"),
    ("latest and earliest", "once"),
]
"""Every start position, and every trigger with two of them; half of these are a commit's."""
PAIRS_IN_TURN = rotating(PAIRS, 3)
OTHER_PAIRS = [(start, trigger) for start in STARTS for trigger in TRIGGERS if (start, trigger) not in PAIRS]


@pytest.fixture(scope="module")
def copies(spark, kafka, tmp_path_factory) -> dict[tuple[str, str], tuple[list[int], list[int]]]:
    """What a query copied in its first run, and after a second one on the same checkpoint; all side by side."""
    pairs = [each.values for each in PAIRS_IN_TURN if seeds.with_soak or not each.marks]
    return copied(pairs, spark, kafka, tmp_path_factory)


@pytest.fixture(scope="module")
def other_copies(spark, kafka, tmp_path_factory) -> dict[tuple[str, str], tuple[list[int], list[int]]]:
    return copied(OTHER_PAIRS, spark, kafka, tmp_path_factory)


def copied(pairs, spark, kafka, tmp_path_factory) -> dict[tuple[str, str], tuple[list[int], list[int]]]:
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, range(10))
    kafka.produce(topic, range(10, 20), partition=1)
    queries = {
        pair: Copy(
            spark,
            kafka,
            tmp_path_factory.mktemp("copy"),
            subscribe=topic,
            startingOffsets=STARTS[pair[0]][0].replace("T", topic),
        )
        for pair in pairs
    }
    first = run_all(queries)
    kafka.produce(topic, range(20, 30))
    kafka.produce(topic, range(30, 40), partition=1)
    second = run_all(queries)
    return {pair: (first[pair], second[pair]) for pair in pairs}


def run_all(queries: dict[tuple[str, str], Copy]) -> dict[tuple[str, str], list[int]]:
    for some in few_at_a_time(queries):
        running = [(queries[pair].start(**TRIGGERS[pair[1]]), TRIGGERS[pair[1]]) for pair in some]
        for query, trigger in running:
            wait_for(query, trigger)
    return {pair: copy.numbers for pair, copy in queries.items()}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("start", "trigger"), PAIRS_IN_TURN)
def test_every_start_and_trigger_reads_what_it_should_and_goes_on_from_its_checkpoint(copies, start, trigger):
    check_copy(copies[start, trigger], start)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("start", "trigger"), OTHER_PAIRS)
def test_every_start_with_every_trigger_goes_on_from_its_checkpoint(other_copies, start, trigger):
    check_copy(other_copies[start, trigger], start)


def check_copy(copy: tuple[list[int], list[int]], start: str) -> None:
    first, second = copy
    expected = list(STARTS[start][1])
    assert first == [number for number in expected if number < 20]
    assert second == expected


@needs_read_limits
def test_a_limit_makes_batches_of_that_size_and_the_lag_is_reported(spark, kafka, tmp_path):
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, range(30))
    kafka.produce(topic, range(30, 40), partition=1)
    copy = Copy(spark, kafka, tmp_path, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    progress = copy.run(availableNow=True)
    assert [batch["numInputRows"] for batch in progress if batch["numInputRows"]] == [20, 20]
    assert copy.numbers == list(range(40))
    source = progress[0]["sources"][0]
    assert source["endOffset"] == {topic: {"0": 15, "1": 5}}
    assert source["latestOffset"] == {topic: {"0": 30, "1": 10}}


def test_a_limit_holds_from_the_first_micro_batch_and_after_a_restart(spark, kafka, tmp_path):
    topic = kafka.new_topic()
    kafka.produce(topic, range(10))
    copy = Copy(spark, kafka, tmp_path, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    trigger = {"processingTime": "0 seconds"}
    assert [batch["numInputRows"] for batch in copy.run(**trigger) if batch["numInputRows"]] == [4, 4, 2]
    kafka.produce(topic, range(10, 16))
    assert [batch["numInputRows"] for batch in copy.run(**trigger) if batch["numInputRows"]] == [4, 2]
    assert copy.numbers == list(range(16))


@needs_read_limits
def test_offsets_of_finished_batches_are_committed_to_a_group_on_request(spark, kafka, tmp_path):
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, range(10))
    group = {"kafka.group.id": f"lag-of-{topic}", "commitOffsets": "true"}
    copy = Copy(spark, kafka, tmp_path, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4", **group)
    copy.run(availableNow=True)
    with Consumer(bootstrap_servers=kafka.servers, group_id=group["kafka.group.id"]) as consumer:
        found = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert [each.offset if each else None for each in found.values()] == [10, 0]


def test_the_checkpoint_holds_offsets_as_the_jvm_connector_writes_them(spark, kafka, tmp_path):
    topic = kafka.new_topic(partitions=11)
    kafka.produce(topic, [1], partition=10)
    copy = Copy(spark, kafka, tmp_path, subscribe=topic, startingOffsets="earliest")
    copy.run(availableNow=True)
    logged = json.loads((copy.checkpoint / "offsets" / "0").read_text().splitlines()[-1])
    assert logged == {topic: {str(n): int(n == 10) for n in range(11)}}
    assert list(logged[topic]) == [str(n) for n in range(11)]


def test_an_idle_query_makes_no_empty_batches(spark, kafka, tmp_path):
    topic = kafka.new_topic(partitions=11)
    copy = Copy(spark, kafka, tmp_path, subscribe=topic, startingOffsets="earliest")
    query = copy.start(processingTime="0 seconds")
    try:
        kafka.produce(topic, [1], partition=10)
        query.processAllAvailable()
        kafka.produce(topic, [2], partition=9)
        query.processAllAvailable()
        query.processAllAvailable()
        assert copy.numbers == [1, 2]
        assert len(list((copy.checkpoint / "commits").glob("[0-9]*"))) <= 3
    finally:
        query.stop()


def test_a_topic_that_is_subscribed_to_later_is_read_from_its_start(spark, kafka, tmp_path):
    first, second = kafka.new_topic(), kafka.new_topic()
    kafka.produce(first, [1])
    kafka.produce(second, [2])
    Copy(spark, kafka, tmp_path, subscribe=first, startingOffsets="latest").run(availableNow=True)
    copy = Copy(spark, kafka, tmp_path, subscribe=f"{first},{second}", startingOffsets="latest")
    copy.run(availableNow=True)
    assert copy.numbers == [2]


def test_a_running_query_reads_new_partitions_and_topics_and_reports_one_that_is_gone(spark, kafka, tmp_path):
    first = kafka.new_topic()
    kafka.produce(first, [1])
    copy = Copy(spark, kafka, tmp_path, subscribePattern=rf"^{first}(-more)?$", startingOffsets="earliest")
    query = copy.start(processingTime="0 seconds")
    try:
        query.processAllAvailable()
        kafka.admin.create_partitions({first: 2})
        kafka.admin.create_topics([NewTopic(f"{first}-more", partitions=1)])
        kafka.produce(first, [2], partition=1)
        kafka.produce(f"{first}-more", [3])
        while len(kafka.numbers(copy.target)) < 3:
            query.processAllAvailable()
        kafka.admin.delete_topics([f"{first}-more"])
        assert f"{first}-more-0 is gone; the query had read it up to offset 1" in failure_of(query)
    finally:
        query.stop()
    assert copy.numbers == [1, 2, 3]


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ({"continuous": "1 second"}, "Data source kafkaraw does not support continuous processing"),
        pytest.param({"realTime": "5 seconds"}, "STREAMING_REAL_TIME_MODE", marks=needs_real_time_trigger),
    ],
)
def test_features_for_java_sources_are_refused_when_the_query_starts(spark, kafka, tmp_path, trigger, message):
    copy = Copy(spark, kafka, tmp_path, subscribe=kafka.new_topic())
    with pytest.raises(PySparkException, match=message):
        copy.start(**trigger)


@pytest.mark.soak
def test_with_progress_written_asynchronously_a_query_goes_on_without_a_gap(spark, kafka, tmp_path):
    topic = kafka.new_topic()

    def run() -> list[dict]:
        rows = kafka.stream(spark, subscribe=topic, startingOffsets="earliest").load()
        writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        writer = writer.options(asyncProgressTrackingEnabled="true", asyncProgressTrackingCheckpointIntervalMs="0")
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return [json.loads(each.json)["sources"][0] for each in query.recentProgress if each.numInputRows]

    def ends(sources: list[dict]) -> list[int]:
        return [each["endOffset"][topic]["0"] for each in sources]

    kafka.produce(topic, range(5))
    assert ends(run())[-1] == 5
    kafka.produce(topic, range(5))
    second = run()
    assert ends(second)[-1] == 10
    # What was not written down in time is read again: Spark says so of this option.
    assert (second[0]["startOffset"] or {topic: {"0": 0}})[topic]["0"] <= 5


def test_a_sink_in_python_cannot_have_its_progress_written_asynchronously(spark, kafka, tmp_path):
    topic = kafka.new_topic()
    writer = (
        kafka.stream(spark, subscribe=topic).load().writeStream.format("kafkaraw").options(**kafka.options(topic=topic))
    )
    writer = writer.options(checkpointLocation=str(tmp_path), asyncProgressTrackingEnabled="true")
    with pytest.raises(PySparkException, match="Sink kafkaraw does not support async progress tracking"):
        writer.trigger(processingTime="0 seconds").start()


def test_topics_that_begin_to_match_a_pattern_are_read_from_their_start_by_as_many_tasks_as_wanted(
    spark, kafka, tmp_path
):
    first = kafka.new_topic(partitions=3)
    kafka.produce(first, [1], partition=2)
    copy = Copy(
        spark, kafka, tmp_path, subscribePattern=rf"^\Q{first}\E(-\w+)?$", startingOffsets="earliest", maxTasks="2"
    )
    copy.run(availableNow=True)
    kafka.admin.create_topics([NewTopic(f"{first}-more", partitions=3)])
    for partition in range(3):
        kafka.produce(f"{first}-more", [partition + 2], partition=partition)
    (progress,) = [batch for batch in copy.run(availableNow=True) if batch["numInputRows"]]
    assert progress["numInputRows"] == 3
    assert copy.numbers == [1, 2, 3, 4]


def test_update_mode_goes_through_foreach_batch(spark, kafka, tmp_path):
    topic, target = kafka.new_topic(), kafka.new_topic()
    kafka.produce(topic, [1, 2, 1])
    counts = kafka.stream(spark, subscribe=topic, startingOffsets="earliest").load().groupBy("value").count()
    rows = counts.select(F.col("value").alias("key"), F.col("count").cast("string").alias("value"))
    write = batch_writer(kafka.options(topic=target))
    query = rows.writeStream.outputMode("update").foreachBatch(write)
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert sorted((record.key, record.value) for record in kafka.records(target)) == [(b"1", b"2"), (b"2", b"1")]


def failure_of(query) -> str:
    try:
        with pytest.raises(Exception) as error:
            query.awaitTermination(60)
        return str(error.value)
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribe": "nowhere"}, "topic 'nowhere' does not exist"),
        ({"subscribe": "T", "endingOffsets": "latest"}, "endingOffsets is for batch reads"),
        ({"subscribe": "T", "startingOffsets": '{"T":{"0":5}}'}, "startingOffsets leaves out"),
    ],
)
def test_a_query_that_cannot_start_says_why(spark, kafka, tmp_path, given, message):
    topic = kafka.new_topic(partitions=2)
    given = {name: text.replace("T", topic) for name, text in given.items()}
    failure = failure_of(Copy(spark, kafka, tmp_path, **given).start(availableNow=True))
    assert message in failure
    assert "Traceback" not in failure


@pytest.mark.parametrize("strict", [True, False])
def test_a_recreated_topic_is_data_loss_or_a_warning(spark, kafka, tmp_path, strict):
    topic = kafka.new_topic()
    kafka.produce(topic, range(5))
    copy = Copy(spark, kafka, tmp_path, subscribe=topic, startingOffsets="earliest", failOnDataLoss=str(strict).lower())
    copy.run(availableNow=True)
    kafka.remake_topic(topic)
    kafka.produce(topic, [100])
    if strict:
        assert f"{topic}-0 ends at offset 1, before 5" in failure_of(copy.start(availableNow=True))
    else:
        copy.run(availableNow=True)
        kafka.produce(topic, [101])
        copy.run(availableNow=True)
        assert copy.numbers == [0, 1, 2, 3, 4, 101]
