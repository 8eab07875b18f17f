"""One Spark driver that makes three outputs of a topic of JSON orders, as a process in the Python of its connector.

The outputs: a table of the good orders, an hourly aggregate in a topic, and the bad orders in a topic, unchanged, with
headers that say why. Its one argument is JSON, see `Job`. Run as a script: the Python of Spark's own connector has no
kafkaraw, so nothing of it may be imported here before it is needed. Start at `KINDS`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.schemas_spark_worker import tree_cpu

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id LONG, customer STRING, city STRING, amount DOUBLE, quantity INT, at TIMESTAMP"
CONDITION = "id IS NOT NULL AND amount > 0"
DEFINITION = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F
from kafkaraw import pipelines as kp

spark = SparkSession.active()

@dp.temporary_view
@kp.expect_or_quarantine("has an id", "id IS NOT NULL")
@kp.expect_or_quarantine("amount is positive", "amount > 0")
@kp.expect("has a customer", "customer IS NOT NULL")
def orders():
    return kp.topic({topic!r}, value="json", schema={schema!r})

@dp.table
def clean():
    return spark.readStream.table("orders").select("id", "customer", "city", "amount", "quantity", "at")

@kp.to_topic({hours!r}, key="id", output_mode="update")
def by_hour():
    hours = spark.readStream.table("orders").withWatermark("at", "1 hour").groupBy(F.window("at", "1 hour"), "city")
    hours = hours.agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
    return hours.select(F.concat_ws("|", F.col("window.start"), "city").alias("id"), "orders", "amount")
"""
SPECIFICATION = """
name: bench
storage: storage
libraries:
  - glob:
      include: orders.py
configuration:
  kafkaraw.kafka.bootstrap.servers: {servers}
  kafkaraw.dead.letter.topic: {dead}
  kafkaraw.replay.topic: {replays}
"""


class Job:
    """What is asked for, and the session to do it in.

    Args:
        asked: kind (one of `KINDS`), servers, topics (the small and the large one), jars.
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.kind = asked["kind"]
        self.connector = "kafka" if self.kind == "JVM connector" else "kafkaraw"
        self.spark = self._session()

    def _session(self) -> SparkSession:
        from pyspark.sql import SparkSession

        conf = {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2", "spark.scheduler.mode": "FAIR"}
        if self.connector == "kafkaraw":
            from kafkaraw.spark import session

            return session("bench", master="local[2]", conf=conf)
        conf |= {"spark.jars": ",".join(self.asked["jars"]), "spark.sql.session.timeZone": "UTC"}
        builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.ui.enabled", "false")
        for name, value in conf.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()

    def run(self, topic: str, folder: Path, hours: str, dead: str) -> Path:
        """Make the outputs; return where the table is."""
        return KINDS[self.kind](self, topic, folder, hours, dead)

    def contents(self, table: Path) -> tuple[int, str]:
        """Return the number of rows of a table, and a sum over them that does not depend on their order."""
        from pyspark.sql import functions as F

        rows = self.spark.read.parquet(str(table)).select("id", "customer", "city", "amount", "quantity", "at")
        one = F.xxhash64(*rows.columns).cast("decimal(20,0)")
        found = rows.agg(F.count("*").alias("rows"), F.sum(one).alias("total")).collect()[0]
        return found.rows, str(found.total)

    def by_hand(self, topic: str, folder: Path, hours: str, dead: str) -> Path:
        """Make the outputs with three queries."""
        from pyspark.sql import functions as F

        servers = {"kafka.bootstrap.servers": self.asked["servers"]}
        exact = {"exactlyOnce": "true"} if self.connector == "kafkaraw" else {}

        def parsed() -> DataFrame:
            read = self.spark.readStream.format(self.connector).options(**servers, subscribe=topic)
            records = read.options(startingOffsets="earliest", includeHeaders="true").load()
            return records.withColumn("order", F.from_json(F.col("value").cast("string"), SCHEMA))

        is_good = F.coalesce(F.expr("order.id IS NOT NULL AND order.amount > 0"), F.lit(False))
        good = parsed().where(is_good).select("order.*")
        clean = good.writeStream.format("parquet").option("path", str(folder / "clean"))

        grouped = parsed().where(is_good).select("order.*").withWatermark("at", "1 hour")
        sums = grouped.groupBy(F.window("at", "1 hour"), "city").agg(
            F.count("*").alias("orders"), F.sum("amount").alias("amount")
        )
        key = F.concat_ws("|", F.col("window.start"), "city").alias("id")
        sums = sums.select(key, "orders", "amount")
        sums = sums.select(F.col("id").alias("key"), F.to_json(F.struct("id", "orders", "amount")).alias("value"))
        if self.connector == "kafkaraw":
            from kafkaraw.spark.foreach_batch import batch_writer

            by_hour = sums.writeStream.foreachBatch(batch_writer({**servers, **exact, "topic": hours}))
        else:
            by_hour = sums.writeStream.format("kafka").options(**servers, topic=hours)

        why = F.array(
            F.struct(F.lit("why").alias("key"), F.lit("not good").cast("binary").alias("value")),
            F.struct(F.lit("offset").alias("key"), F.col("offset").cast("string").cast("binary").alias("value")),
        )
        headers = F.concat(why, F.coalesce(F.col("headers"), F.array().cast("array<struct<key:string,value:binary>>")))
        bad = parsed().where(~is_good).select("key", "value", headers.alias("headers"))
        letters = bad.writeStream.format(self.connector).options(**servers, **exact, topic=dead)

        started = [
            each.option("checkpointLocation", str(folder / name)).outputMode(mode).trigger(availableNow=True).start()
            for name, each, mode in (
                ("c1", clean, "append"),
                ("c2", by_hour, "update"),
                ("c3", letters, "append"),
            )
        ]
        for query in started:
            query.awaitTermination()
        return folder / "clean"

    def pipeline(self, topic: str, folder: Path, hours: str, dead: str) -> Path:
        """Make the outputs with a pipeline."""
        from kafkaraw.pipelines.definitions import load_pipeline
        from kafkaraw.pipelines.running.runner import RunOptions, run
        from kafkaraw.pipelines.specification import read_specification

        definition = DEFINITION.format(topic=topic, schema=SCHEMA, hours=hours)
        (folder / "orders.py").write_text(definition)
        specification = SPECIFICATION.format(servers=self.asked["servers"], dead=dead, replays=f"{dead}.replays")
        (folder / "spark-pipeline.yml").write_text(specification)
        pipeline = load_pipeline(read_specification(folder), self.spark)
        summary = run(pipeline, self.spark, RunOptions(once=True))
        if summary.exit_code:
            raise SystemExit(f"the pipeline failed: {summary}")
        return folder / "storage" / "tables" / "clean"


KINDS: dict[str, Callable[[Job, str, Path, str, str], Path]] = {
    "pipeline": Job.pipeline,
    "by hand": Job.by_hand,
    "JVM connector": Job.by_hand,
}
"""What makes the outputs: a pipeline, our source and sink with three queries, and Spark's own with the same three."""


def main() -> None:
    """Make the outputs of a small topic, so that Java has compiled what it runs, then those of the large one."""
    job = Job(json.loads(sys.argv[1]))
    job.spark.sparkContext.setLogLevel("OFF")
    for topic in job.asked["topics"]:
        with tempfile.TemporaryDirectory() as folder:
            name = f"{topic}-{os.getpid()}"
            cpu, began = tree_cpu(os.getpid()), time.perf_counter()
            table = job.run(topic, Path(folder), f"{name}-hours", f"{name}-dead")
            took = time.perf_counter() - began
            cpu = tree_cpu(os.getpid()) - cpu
            rows, total = job.contents(table)
        said = {"topic": topic, "seconds": took, "cpu_seconds": cpu, "rows": rows, "total": total}
        print(json.dumps(said | {"hours": f"{name}-hours", "dead": f"{name}-dead"}), flush=True)
    job.spark.stop()


if __name__ == "__main__":
    main()
