"""The exactly-once sink through Spark: batches that are written again, and writes that fail."""

from __future__ import annotations

import re
import shutil

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from kafkaraw.errors import UsageError
from kafkaraw.spark import batch_writer
from kafkaraw.spark.versions import features


def run_to_the_end(writer) -> None:
    """Run a query until it has read what is there now."""
    if features().read_limits:
        assert writer.trigger(availableNow=True).start().awaitTermination(100)
        return
    query = writer.trigger(processingTime="0 seconds").start()  # availableNow would run one batch of four
    try:
        query.processAllAvailable()
    finally:
        query.stop()


class Doubt:
    """A query that copies a topic in batches of four, and may be made to forget that it has committed its last."""

    def __init__(self, spark, kafka, folder, **options: str) -> None:
        self._spark, self._kafka = spark, kafka
        self.source, self.target = kafka.new_topic(partitions=2), kafka.new_topic(partitions=2)
        self.options = kafka.options(topic=self.target, **options)
        self._checkpoint = folder / "checkpoint"

    def run(self, **reading: str) -> None:
        given = {"subscribe": self.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"} | reading
        rows = self._kafka.stream(self._spark, **given).load().select("value")
        writer = rows.writeStream.format("kafkaraw").options(**self.options)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        run_to_the_end(writer)

    def forget_last_commit(self) -> None:
        """As if the driver had died after the sink's commit, before Spark wrote it down."""
        commits = self._checkpoint / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    def produce(self, begin: int, end: int) -> None:
        for number in range(begin, end):
            self._kafka.produce(self.source, [number], partition=number % 2)

    @property
    def numbers(self) -> list[int]:
        return self._kafka.numbers(self.target)


@pytest.mark.parametrize(("options", "repeated"), [({"exactlyOnce": "true"}, 0), ({}, 4)])
def test_a_batch_that_spark_repeats_is_written_once(spark, kafka, tmp_path, options, repeated):
    query = Doubt(spark, kafka, tmp_path, **options)
    query.produce(0, 8)
    query.run()
    query.forget_last_commit()
    query.produce(8, 12)
    query.run()
    assert len(query.numbers) == 12 + repeated
    assert set(query.numbers) == set(range(12))


def test_a_batch_that_is_repeated_with_another_plan_is_refused(spark, kafka, tmp_path):
    query = Doubt(spark, kafka, tmp_path, exactlyOnce="true")
    query.produce(0, 4)
    query.run()
    query.forget_last_commit()
    with pytest.raises(PySparkException, match="was written by 2 tasks before and has 1 tasks now"):
        query.run(maxTasks="1")
    query.run()
    assert query.numbers == [0, 1, 2, 3]


def test_a_batch_write_is_there_whole_or_not_at_all(spark, kafka):
    topic = kafka.new_topic()
    options = kafka.options(topic=topic, exactlyOnce="true")
    rows = spark.range(10, numPartitions=2).select(F.col("id").cast("string").alias("value"))
    rows.write.format("kafkaraw").options(**options).mode("append").save()
    assert kafka.numbers(topic) == list(range(10))

    value = F.col("value")
    failing = rows.select(F.when(value == "9", F.raise_error(F.lit("no nine"))).otherwise(value).alias("value"))
    with pytest.raises(PySparkException, match="no nine"):
        failing.write.format("kafkaraw").options(**options).mode("append").save()
    assert kafka.numbers(topic) == list(range(10))


def test_a_checkpoint_that_is_restored_from_a_backup_is_refused_and_the_batch_resolved(spark, kafka, tmp_path):
    query = Doubt(spark, kafka, tmp_path, exactlyOnce="true")
    query.produce(0, 4)
    query.run()
    backup = tmp_path / "backup"
    shutil.copytree(tmp_path / "checkpoint", backup)
    query.produce(4, 8)
    query.run()
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(backup, tmp_path / "checkpoint")
    query.produce(8, 12)
    with pytest.raises(
        PySparkException, match=r"batch 1 of query .* has other rows than when it was written"
    ) as refusal:
        query.run(maxOffsetsPerTrigger="100")  # batch 1 is planned anew, with eight rows
    assert query.numbers == [*range(8)]
    resolution = re.search(r"1@\d+=write", str(refusal.value))
    assert resolution is not None
    query.options["resolveBatches"] = resolution[0]
    query.run()
    query.run()
    assert query.numbers == sorted([*range(12), *range(4, 8)])


def updating(spark, kafka, topic, target, checkpoint, write):
    """A query that counts what is in a topic, in update mode."""
    rows = kafka.stream(spark, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4").load()
    counts = rows.groupBy(F.col("partition")).count().select(F.col("count").cast("string").alias("value"))
    writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    return writer.foreachBatch(write)


@pytest.mark.parametrize(("options", "repeated"), [({"exactlyOnce": "true"}, 0), ({}, 1)])
def test_update_mode_through_foreach_batch_is_exactly_once(spark, kafka, tmp_path, options, repeated):
    topic, target = kafka.new_topic(), kafka.new_topic()
    write = batch_writer(kafka.options(topic=target, **options), name="counts")
    kafka.produce(topic, range(8))
    run_to_the_end(updating(spark, kafka, topic, target, tmp_path, write))
    commits = tmp_path / "commits"
    last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    write = batch_writer(kafka.options(topic=target, **options), name="counts")
    run_to_the_end(updating(spark, kafka, topic, target, tmp_path, write))
    assert kafka.numbers(target) == sorted([4, 8, *[8] * repeated])


def test_two_writers_of_one_query_need_names_of_their_own(spark, kafka, tmp_path):
    topic, target = kafka.new_topic(), kafka.new_topic()
    kafka.produce(topic, range(4))

    def two_writers(*names: str):
        options = kafka.options(topic=target, exactlyOnce="true")
        writers = [batch_writer(options, name=name) for name in names]

        def write(batch, batch_id):
            for each in writers:
                each(batch, batch_id)

        return write

    query = updating(spark, kafka, topic, target, tmp_path / "same", two_writers("a", "a"))
    with pytest.raises(PySparkException, match=r"two writers of query .* have the name 'a'"):
        run_to_the_end(query)
    run_to_the_end(updating(spark, kafka, topic, target, tmp_path / "other", two_writers("a", "b")))
    assert kafka.numbers(target) == [4, 4, 4]


def test_a_batch_writer_may_be_created_for_each_micro_batch(spark, kafka, tmp_path):
    topic, target = kafka.new_topic(), kafka.new_topic()
    kafka.produce(topic, range(12))

    def write(batch, batch_id):
        batch_writer(kafka.options(topic=target, exactlyOnce="true"))(batch, batch_id)

    run_to_the_end(updating(spark, kafka, topic, target, tmp_path, write))
    assert kafka.numbers(target) == [4, 8, 12]


def test_a_batch_writer_that_no_query_calls_refuses_exactly_once(spark, kafka):
    rows = spark.range(2).select(F.col("id").cast("string").alias("value"))
    write = batch_writer(kafka.options(topic=kafka.new_topic(), exactlyOnce="true"))
    with pytest.raises(UsageError, match="Spark does not pass the id of the query"):
        write(rows, 0)


def test_an_empty_micro_batch_is_decided_by_one_task(spark, kafka, tmp_path):
    topic, target = kafka.new_topic(), kafka.new_topic()
    write = batch_writer(kafka.options(topic=target, exactlyOnce="true"))
    kafka.produce(topic, range(8))
    checkpoint = tmp_path / "checkpoint"

    def nothing(batch, batch_id):
        write(batch.where("value = 'none'") if batch_id == 0 else batch, batch_id)

    run_to_the_end(updating(spark, kafka, topic, target, checkpoint, nothing))
    assert kafka.numbers(target) == [8]
