"""One Spark driver that runs the jobs with one connector; a process of its own, in that connector's Python.

Its one argument is JSON, see `Job`. It prints a line of JSON for each result, and for each topic that is to be written
to from now on, or no longer. Run as a script: Spark's own connector has no kafkaraw in its Python, so nothing of it
may be imported here before it is asked for.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRICKLE_WARM = 100
"""Micro-batches before the ones that count: Java compiles what they run while they run."""
TRICKLE_BATCHES = 50
TRICKLE_SECONDS_MAX = 180
STARTS_WARM = 2
"""Queries before the ones that count."""
STARTS = 5
START_SECONDS_MAX = 60
WARM_ROWS = 100_000
ROWS_PER_BATCH = 500_000


class Job:
    """What is asked for, and the session to do it in.

    Args:
        asked: connector ("kafka" or "kafkaraw"), servers, source (a topic), records (in it), logs (options logDirs,
            kafka.bootstrap.servers and subscribe of a topic of as many records in files), targets (topics to write to),
            trickles (topics that are written to, by row), small (a topic of few records), jars, rows; target_file_size
            (of tables, in bytes) and warm (rows whose jobs are run once before), which may be missing.
    """

    def __init__(self, asked: dict[str, Any]) -> None:
        self.connector: str = asked["connector"]
        self.servers: str = asked["servers"]
        self.source: str = asked["source"]
        self.records: int = asked["records"]
        self.logs: dict[str, str] = asked["logs"]
        self.targets: list[str] = asked["targets"]
        self.trickles: dict[str, str] = asked["trickles"]
        self.small: str = asked["small"]
        self.rows: list[str] = asked["rows"]
        self.target_file_size: int = asked.get("target_file_size", 128 << 20)
        self.warm: list[str] = asked.get("warm", [])
        self.scratch = Path(tempfile.mkdtemp(prefix="bench-spark-"))
        self.spark = self._session(asked["jars"])

    @property
    def ours(self) -> bool:
        """Whether it is our connector."""
        return self.connector == "kafkaraw"

    def _session(self, jars: list[str]) -> SparkSession:
        from pyspark.sql import SparkSession

        if self.ours:
            from kafkaraw.spark import session

            return session("bench", master="local[2]", conf={"spark.driver.memory": "4g"})
        builder = SparkSession.builder.master("local[2]").appName("bench").config("spark.driver.memory", "4g")
        return builder.config("spark.jars", ",".join(jars)).config("spark.ui.enabled", "false").getOrCreate()

    def options(self, **more: str) -> dict[str, str]:
        """These options, and where the brokers are."""
        return {"kafka.bootstrap.servers": self.servers, **more}

    def read(self, schema: str | None = None, **options: str) -> DataFrame:
        """A batch read; a schema chooses columns where the connector lets it, else they are selected."""
        given = self.options(subscribe=self.source, **options)
        reader = self.spark.read.format(self.connector).options(**given)
        if schema is None:
            return reader.load()
        if self.ours:
            return reader.schema(schema).load()
        return reader.load().selectExpr(*(column.split()[0] for column in schema.split(",")))

    def stream(self, topic: str, **options: str) -> DataFrame:
        """A streaming read."""
        given = self.options(subscribe=topic, **options)
        return self.spark.readStream.format(self.connector).options(**given).load()

    def folder(self, name: str) -> str:
        """A folder of its own, which may be left behind."""
        return tempfile.mkdtemp(prefix=name, dir=self.scratch)


def seconds(act: Callable[[], object]) -> float:
    """How long something takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def to_noop(frame: DataFrame) -> None:
    """Read everything, and do nothing with it."""
    frame.write.format("noop").mode("overwrite").save()


def read_all(job: Job) -> float:
    """Rows per second of a read."""
    return job.records / seconds(lambda: to_noop(job.read()))


def read_log_directories(job: Job) -> float:
    """Rows per second of the same read from the broker's files."""
    return read_logs(job, "logDirs")


def read_logs(job: Job, where: str) -> float:
    """Rows per second of a read of that topic, from its files or through its broker."""
    given = {name: job.logs[name] for name in (where, "subscribe")}
    return job.records / seconds(lambda: to_noop(job.spark.read.format("kafkaraw").options(**given).load()))


def read_values(job: Job) -> float:
    """Rows per second of a read of one column."""
    return job.records / seconds(lambda: to_noop(job.read("value binary")))


def read_to_parquet(job: Job) -> float:
    """Rows per second into files."""
    return job.records / seconds(lambda: job.read().write.parquet(job.folder("parquet") + "/out"))


def read_to_delta(job: Job) -> float:
    """Rows per second into a Delta table, which only this connector has without a JAR; tells sizes of full files."""
    folder = Path(job.folder("delta"), "table")
    writer = job.read().write.format("kafkaraw.delta").option("targetFileSize", str(job.target_file_size))
    rate = job.records / seconds(lambda: writer.mode("append").save(str(folder)))
    of_tasks: dict[str, list[tuple[int, int]]] = {}
    for path in folder.glob("kafkaraw_*.parquet"):
        task, _, count = path.stem.rpartition("_")
        of_tasks.setdefault(task, []).append((int(count), path.stat().st_size))
    say({"full_files": [size for files in of_tasks.values() for _, size in sorted(files)[:-1]]})
    return rate


def copy(job: Job) -> float:
    """Rows per second from topic to topic."""
    frame = job.read("key binary, value binary")
    writer = frame.write.format(job.connector).options(**job.options(topic=job.targets.pop())).mode("append")
    return job.records / seconds(writer.save)


def stream(job: Job) -> float:
    """Rows per second of a query that reads, in batches."""
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS_PER_BATCH)}
    writer = job.stream(job.source, **given).writeStream.format("noop")
    query = writer.option("checkpointLocation", job.folder("stream")).trigger(availableNow=True).start()
    query.awaitTermination()
    times = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
    return ROWS_PER_BATCH / statistics.median(times[1:]) * 1000


def copy_stream(job: Job, **options: str) -> float:
    """Rows per second of a query that copies, in batches."""
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS_PER_BATCH)}
    frame = job.stream(job.source, **given).select("key", "value")
    writer = frame.writeStream.format(job.connector).options(**job.options(topic=job.targets.pop(), **options))
    query = writer.option("checkpointLocation", job.folder("copy")).trigger(availableNow=True).start()
    query.awaitTermination()
    times = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
    return ROWS_PER_BATCH / statistics.median(times[1:]) * 1000


def trickle(job: Job, name: str) -> float:
    """Milliseconds of a micro-batch, while records trickle in."""
    topic = job.trickles[name]
    say({"trickle": topic})
    given = {"maxTasks": "2"} if job.ours and "32" in name else {}
    writer = job.stream(topic, startingOffsets="latest", **given).writeStream.format("noop")
    query = writer.option("checkpointLocation", job.folder("trickle")).trigger(processingTime="0 seconds").start()
    deadline = time.monotonic() + TRICKLE_SECONDS_MAX
    times: dict[int, int] = {}
    while len(times) < TRICKLE_WARM + TRICKLE_BATCHES and time.monotonic() < deadline:
        time.sleep(0.2)
        found = [each for each in query.recentProgress if each["numInputRows"]]
        times.update({each["batchId"]: each["durationMs"]["triggerExecution"] for each in found})
    query.stop()
    say({"trickle": None})
    return statistics.median([times[batch] for batch in sorted(times)][-TRICKLE_BATCHES:])


def start(job: Job) -> float:
    """Seconds from `start()` of a query to the end of its first micro-batch with records."""
    return statistics.median([started(job) for _ in range(STARTS_WARM + STARTS)][STARTS_WARM:])


def started(job: Job) -> float:
    """The same of one query."""
    frame = job.stream(job.small, startingOffsets="earliest")
    writer = frame.writeStream.format("noop").option("checkpointLocation", job.folder("start"))
    began = time.perf_counter()
    query = writer.start()
    while not any(each["numInputRows"] for each in query.recentProgress):
        if time.perf_counter() - began > START_SECONDS_MAX:
            raise TimeoutError(f"a query read nothing within {START_SECONDS_MAX} s: {query.exception()}")
        time.sleep(0.01)
    took = time.perf_counter() - began
    query.stop()
    return took


WORK: dict[str, Callable[[Job], float]] = {
    "read, all columns": read_all,
    "read log directories": read_log_directories,
    "read through the broker of the directories": lambda job: read_logs(job, "kafka.bootstrap.servers"),
    "read, value only": read_values,
    "read to Parquet": read_to_parquet,
    "read to a Delta table": read_to_delta,
    "copy key and value": copy,
    "stream, available now": stream,
    "trickle, 4 partitions": lambda job: trickle(job, "trickle, 4 partitions"),
    "trickle, 32 partitions": lambda job: trickle(job, "trickle, 32 partitions"),
    "start of a query": start,
    "copy, exactly once": lambda job: copy_stream(job, exactlyOnce="true"),
    "copy, at least once": copy_stream,
}


def say(what: dict[str, Any]) -> None:
    """Tell the bench."""
    print(json.dumps(what), flush=True)


def main() -> None:
    """Do all jobs."""
    job = Job(json.loads(sys.argv[1]))
    job.spark.sparkContext.setLogLevel("OFF")
    to_noop(job.read().limit(WARM_ROWS))
    for name in job.warm:
        WORK[name](job)
    for name in job.rows:
        say({"row": name, "number": WORK[name](job)})
    job.spark.stop()


if __name__ == "__main__":
    main()
