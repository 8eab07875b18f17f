"""The exactly-once sink through Spark: batches that are written again, and writes that fail."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F


class Doubt:
    """A query that copies a topic in batches of four, and may be made to forget that it has committed its last."""

    def __init__(self, spark, kafka, folder, **options: str) -> None:
        self._spark, self._kafka = spark, kafka
        self.source, self.target = kafka.new_topic(partitions=2), kafka.new_topic(partitions=2)
        self._options = kafka.options(topic=self.target, **options)
        self._checkpoint = folder / "checkpoint"

    def run(self, **reading: str) -> None:
        given = {"subscribe": self.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"} | reading
        rows = self._kafka.stream(self._spark, **given).load().select("value")
        writer = rows.writeStream.format("kafkaraw").options(**self._options)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        assert writer.trigger(availableNow=True).start().awaitTermination(100)

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
