"""`make bench-partitions`: what Spark's source costs over thousands of partitions, idle or with one record each.

Each number is a median of fresh processes. `planning` calls the streaming reader as Spark's driver does, without Spark;
`task` reads all ranges as the two tasks of a micro-batch do, one after the other; `spark` runs a batch read and a
streaming query on `local[2]`. The broker has a process of its own: embedded, or Apache Kafka (`--apache`). Start at
`WORK` and `ROWS`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bench.report import Goal, Line, Report, environment, output_options
from bench.worker import measured_by
from kafkaraw import Admin, NewTopic, Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

COUNTS: Final = (100, 1_000, 10_000)
PARTITIONS_AT_ONCE: Final = 5_000
TASKS: Final = 2
VALUE: Final = b"v" * 100
IDLE_LOOKS: Final = 12
SECONDS_MAX: Final = 180
CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
MEBIBYTE: Final = 1 << 20

Numbers = dict[str, float]


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker measures.

    Attributes:
        servers: where the topics are.
        prefix: all topics begin with it, and have a number behind it.
        topics: how many there are.
        partitions: of all topics together.
    """

    servers: str
    prefix: str
    topics: int
    partitions: int

    @property
    def names(self) -> list[str]:
        """The names of the topics."""
        return [f"{self.prefix}-{number:05}" for number in range(self.topics)]

    @property
    def options(self) -> dict[str, str]:
        """Options of the source that read all of them."""
        return {
            "kafka.bootstrap.servers": self.servers,
            "subscribePattern": f"^{self.prefix}-",
            "startingOffsets": "earliest",
            "maxTasks": str(TASKS),
        }

    def touch(self, producer: Producer) -> None:
        """Write one record to one partition, and wait for it to be there."""
        producer.send(self.names[0], VALUE, partition=0).result(30)


# -- what is measured


def planning(job: Job) -> Numbers:
    """Plan the first micro-batch, and micro-batches of one new record in one of the partitions."""
    from kafkaraw.spark.data_source_api import ReadMaxRows
    from kafkaraw.spark.options.parsing import parse_options
    from kafkaraw.spark.reading.arrow import spark_schema
    from kafkaraw.spark.source import KafkaStreamReader

    def plan(start: str) -> str:
        """What Spark's driver asks for, with the texts that it sends and stores."""
        end = json.dumps(reader.latestOffset(json.loads(start), ReadMaxRows(2**62)))
        json.dumps(reader.reportLatestOffset())
        if end != start:
            reader.commit(json.loads(start))
            reader.partitions(json.loads(start), json.loads(end))
        return end

    reader = KafkaStreamReader(parse_options(job.options), spark_schema(include_headers=False))
    before, cpu = time.perf_counter(), time.process_time()
    offsets = plan(json.dumps(reader.initialOffset()))
    first_s = time.perf_counter() - before
    took: list[float] = []
    cpus: list[float] = []
    with Producer(bootstrap_servers=job.servers) as producer:
        for _ in range(IDLE_LOOKS):
            job.touch(producer)
            before, cpu = time.perf_counter(), time.process_time()
            later = plan(offsets)
            took.append(time.perf_counter() - before)
            cpus.append(time.process_time() - cpu)
            assert later != offsets, "the new record was not seen"
            offsets = later
    return {
        "first plan, s": first_s,
        "plan, ms": statistics.median(took) * 1000,
        "longest plan, ms": max(took) * 1000,
        "plan, CPU ms": statistics.median(cpus) * 1000,
        "offsets, KiB": len(offsets) / 1024,
        "planning memory, MiB": _peak_mebibytes(),
        "planning connections": _connections(os.getpid()),
    }


def task(job: Job) -> Numbers:
    """Read all of it as tasks do."""
    from kafkaraw.spark.options.parsing import parse_options
    from kafkaraw.spark.reading.arrow import spark_schema
    from kafkaraw.spark.source import KafkaBatchReader

    reader = KafkaBatchReader(parse_options(job.options), spark_schema(include_headers=False))
    before = time.perf_counter()
    tasks = reader.partitions()
    planned_s = time.perf_counter() - before
    before, cpu = time.perf_counter(), time.process_time()
    batches = [batch.num_rows for each in tasks for batch in reader.read(each)]
    read_s, read_cpu_s = time.perf_counter() - before, time.process_time() - cpu
    assert sum(batches) >= job.partitions, f"{sum(batches)} records were read"
    return {
        "batch plan, s": planned_s,
        "tasks, s": read_s,
        "tasks, CPU s": read_cpu_s,
        "rows per Arrow batch": statistics.mean(batches),
        "task memory, MiB": _peak_mebibytes(),
        "task connections": _connections(os.getpid()),
    }


def spark(job: Job) -> Numbers:
    """A batch read and a streaming query in a Spark session."""
    from kafkaraw.spark import session

    with scratch_folder() as folder:
        engine = session("bench", master=f"local[{TASKS}]", conf={"spark.driver.memory": "2g"})
        engine.sparkContext.setLogLevel("OFF")
        warm = Job(job.servers, f"{job.prefix}-00000", 1, job.partitions // job.topics)
        _to_noop(engine.read.format("kafkaraw").options(**warm.options).load().limit(10))
        reads = [_batch_read(engine, job) for _ in range(2)]
        found = {"batch read, s": reads[-1], "first batch read, s": reads[0]} | _streamed(engine, job, folder)
        engine.stop()
    return found


WORK: Final[dict[str, Callable[[Job], Numbers]]] = {"planning": planning, "task": task, "spark": spark}


def _to_noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _batch_read(engine: SparkSession, job: Job) -> float:
    before = time.perf_counter()
    _to_noop(engine.read.format("kafkaraw").options(**job.options).load())
    return time.perf_counter() - before


def _streamed(engine: SparkSession, job: Job, folder: Path) -> Numbers:
    """The first micro-batch, with a record of each partition, and later ones, with one record in all."""
    frame = engine.readStream.format("kafkaraw").options(**job.options).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    before = time.perf_counter()
    query = writer.trigger(processingTime="0 seconds").start()
    first = _progress_after(query, -1)
    started_s = time.perf_counter() - before
    later: list[dict[str, Any]] = []
    batch_id: int = first["batchId"]
    with Producer(bootstrap_servers=job.servers) as producer:
        for _ in range(IDLE_LOOKS):
            job.touch(producer)
            progress = _progress_after(query, batch_id)
            batch_id = progress["batchId"]
            later.append(progress)
    memory = python_memory_mebibytes()
    query.stop()
    logged = max((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda each: each.stat().st_size)
    settled = later[2:]

    def median_ms(step: str) -> float:
        return statistics.median(each["durationMs"].get(step, 0) for each in settled)

    return {
        "first micro-batch, s": first["durationMs"]["triggerExecution"] / 1000,
        "query started, s": started_s,
        "micro-batch, ms": median_ms("triggerExecution"),
        "latestOffset, ms": median_ms("latestOffset"),
        "addBatch, ms": median_ms("addBatch"),
        "queryPlanning, ms": median_ms("queryPlanning"),
        "checkpoint offsets, KiB": logged.stat().st_size / 1024,
        "progress event, KiB": len(json.dumps(later[-1])) / 1024,
        "largest Python process, MiB": max(memory),
        "Python processes": len(memory),
    }


def _progress_after(query: StreamingQuery, batch_id: int) -> dict[str, Any]:
    """Wait for the next micro-batch with records."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        found = [each for each in query.recentProgress if each["numInputRows"] and each["batchId"] > batch_id]
        if found:
            progress: dict[str, Any] = json.loads(found[0].json)
            return progress
        time.sleep(0.01)
    raise TimeoutError(f"no micro-batch after {batch_id} within {SECONDS_MAX} s: {query.exception()}")


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEBIBYTE


def _connections(process_id: int) -> int:
    links = Path(f"/proc/{process_id}/fd").iterdir()
    return sum(os.readlink(link).startswith("socket:") for link in links if link.is_symlink())


def python_memory_mebibytes() -> list[float]:
    """The memory of the Python processes below this one's JVM, in MiB: Spark's driver-side ones and its workers."""
    parents: dict[int, int] = {}
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
    found = []
    for process_id in parents:
        above: int | None = parents[process_id]
        while above not in (None, 0, os.getpid()):
            above = parents.get(above or 0)
        with contextlib.suppress(OSError, StopIteration):
            if above == os.getpid() and "python" in Path(f"/proc/{process_id}/comm").read_text():
                lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
                resident = next(line for line in lines if line.startswith("VmRSS"))
                found.append(int(resident.split()[1]) * 1024 / MEBIBYTE)
    return found or [0.0]


# -- the topics


def create(admin: Admin, job: Job) -> None:
    """Make the topics: Apache Kafka's controller refuses requests that need 10,000 metadata records."""
    each = job.partitions // job.topics
    at_once = max(1, PARTITIONS_AT_ONCE // each)
    for start in range(0, job.topics, at_once):
        topics = [NewTopic(name, min(each, PARTITIONS_AT_ONCE)) for name in job.names[start : start + at_once]]
        admin.create_topics(topics, timeout=300)
    for count in range(2 * PARTITIONS_AT_ONCE, each + PARTITIONS_AT_ONCE, PARTITIONS_AT_ONCE):
        admin.create_partitions({name: min(count, each) for name in job.names}, timeout=300)


def fill(job: Job) -> None:
    """Write one record to each partition."""
    with Producer(bootstrap_servers=job.servers, linger_ms=50, delivery_timeout_ms=300_000) as producer:
        for name in job.names:
            for partition in range(job.partitions // job.topics):
                producer.send(name, VALUE, partition=partition)
        producer.flush(300)


# -- the command

ROWS: Final[dict[str, Goal]] = {
    "batch read, s": Goal(3, 2, less_is_better=True, unit=" s"),
    "first micro-batch, s": Goal(2, 1, less_is_better=True, unit=" s"),
    "plan, ms": Goal(300, 100, less_is_better=True, unit=" ms"),
    "largest Python process, MiB": Goal(300, 200, less_is_better=True, unit=" MiB"),
}
"""The numbers that have a goal; it is for 10,000 partitions."""


def _broker(*, apache: bool, memory: str) -> contextlib.AbstractContextManager[tuple[str, int]]:
    """The servers, and the broker's process."""

    @contextlib.contextmanager
    def embedded() -> Iterator[tuple[str, int]]:
        from kafkaraw.broker import EmbeddedBroker

        with EmbeddedBroker(process=True) as broker:
            yield broker.bootstrap_servers, broker.process_id

    @contextlib.contextmanager
    def of_apache() -> Iterator[tuple[str, int]]:
        from tests.interop.apache_kafka import ApacheKafka

        class LargeHeap(ApacheKafka):
            def _node_options(self) -> tuple[str, ...]:
                return (*super()._node_options(), f"-Xmx{memory}")  # Java takes the last one

            @property
            def process_id(self) -> int:
                assert self._process is not None
                return self._process.pid

        with LargeHeap(optimize=True) as kafka:
            yield kafka.bootstrap_servers, kafka.process_id

    return of_apache() if apache else embedded()


def _cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def resident_mebibytes(process_id: int) -> float:
    """The memory of a process, in MiB."""
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE


def measured(job: Job, names: list[str], turns: int, process_id: int, say: Callable[[str], None]) -> Numbers:
    """The medians of all measurements of one layout."""
    found: dict[str, list[float]] = {}
    for name in names:
        for turn in range(turns):
            before = _cpu_s(process_id)
            what = f"{name} of {job.partitions} partitions in {job.topics} topics"
            numbers = measured_by("bench.spark.partitions", "--work", name, json.dumps(asdict(job)), what=what)
            numbers[f"{name}: broker, CPU s"] = _cpu_s(process_id) - before
            say(f"{what}, turn {turn}: " + ", ".join(f"{key} {number:,.4g}" for key, number in numbers.items()))
            for key, number in numbers.items():
                found.setdefault(key, []).append(number)
    return {key: statistics.median(numbers) for key, numbers in found.items()}


@click.command()
@click.option("--partitions", "counts", multiple=True, type=int, default=COUNTS, show_default=True)
@click.option(
    "--topics", "topic_counts", multiple=True, type=int, default=(1,), show_default=True, help="Each in turn."
)
@click.option("--only", multiple=True, type=click.Choice(list(WORK)), help="These measurements only.")
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown.")
@click.option("--apache", is_flag=True, help="Against Apache Kafka, which the command starts.")
@click.option("--broker-memory", default="2G", show_default=True, help="Maximum heap of Apache Kafka.")
@output_options
def main(
    counts: tuple[int, ...],
    topic_counts: tuple[int, ...],
    only: tuple[str, ...],
    turns: int,
    apache: bool,
    broker_memory: str,
    output: Path | None,
    picture: Path | None,
) -> None:
    """Measure planning, tasks and Spark jobs over 100, 1,000 and 10,000 partitions."""
    report = Report("partitions", output, picture)
    layouts = [(topics, count) for topics in topic_counts for count in counts if count >= topics]
    report.begin(environment("Apache Kafka" if apache else "embedded"), {"turns": turns, "tasks": TASKS})
    found: dict[str, Numbers] = {}
    for topics, count in layouts:
        with (
            _broker(apache=apache, memory=broker_memory) as (servers, process_id),
            Admin(bootstrap_servers=servers) as admin,
        ):
            job = Job(servers, f"bench-{uuid.uuid4().hex[:8]}", topics, count)
            before, cpu = time.perf_counter(), _cpu_s(process_id)
            create(admin, job)
            numbers = {
                "create, s": time.perf_counter() - before,
                "create: broker, CPU s": _cpu_s(process_id) - cpu,
            }
            before, cpu = time.perf_counter(), _cpu_s(process_id)
            fill(job)
            numbers["fill, s"] = time.perf_counter() - before
            numbers["fill: broker, CPU s"] = _cpu_s(process_id) - cpu
            name = f"{count:,} partitions in {topics:,} topics"
            report.say(f"{name}: " + ", ".join(f"{key} {number:,.4g}" for key, number in numbers.items()))
            numbers |= measured(job, list(only or WORK), turns, process_id, report.say)
            numbers["broker memory, MiB"] = resident_mebibytes(process_id)
            numbers["broker open files"] = len(list(Path(f"/proc/{process_id}/fd").iterdir()))
            numbers["broker memory maps"] = len(Path(f"/proc/{process_id}/maps").read_text().splitlines())
            found[name] = numbers
    _show(found)
    largest = [(name, numbers) for name, numbers in found.items() if name.startswith("10,000")]
    lines = [
        Line(
            f"{key.rpartition(', ')[0]}, {name}",
            key.rpartition(", ")[2],
            numbers[key],
            goal,
            numbers[key],
            digits=",.2f",
        )
        for name, numbers in largest
        for key, goal in ROWS.items()
        if key in numbers
    ]
    if lines:
        report.publish(lines, [])


def _show(found: dict[str, Numbers]) -> None:
    """Print all numbers, a column for each layout."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right")
    for key in dict.fromkeys(key for numbers in found.values() for key in numbers):
        table.add_row(key, *(f"{numbers[key]:,.4g}" if key in numbers else "" for numbers in found.values()))
    Console(width=150).print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(WORK[sys.argv[2]](Job(**json.loads(sys.argv[3])))), flush=True)
        os._exit(0)
    main()
