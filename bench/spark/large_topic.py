"""`make bench-large-topic`: a topic of 10 GB on two cores, read by Spark as a batch and in micro-batches.

The records are random bytes, uncompressed, and the embedded broker has them on disk in a process of its own. Every
record is checked: the sums of the CRCs, lengths and offsets that Spark computes are those of what was written. Memory
of the Python processes is looked at all the time. Start at `WORK`.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pyarrow as pa

from bench.report import Goal, Line, Report, environment, output_options
from bench.spark.partitions import Numbers, python_memory_mebibytes, resident_mebibytes, scratch_folder
from bench.worker import measured_by
from kafkaraw import Admin, NewTopic, Producer
from kafkaraw.broker import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

GIGABYTE: Final = 1_000_000_000
VALUE_BYTES: Final = 1_000
RECORDS_AT_ONCE: Final = 20_000
TASKS: Final = 2
MEMORY_LOOKS_PER_SECOND: Final = 2
SECONDS_MAX: Final = 1_800


@dataclass(frozen=True, slots=True)
class Sums:
    """What identifies the records of a topic.

    Attributes:
        records: how many.
        bytes: of their values.
        crcs: the sum of the CRC-32 of all values.
        offsets: the sum of all offsets.
    """

    records: int
    bytes: int
    crcs: int
    offsets: int


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker reads.

    Attributes:
        servers: where the topic is.
        topic: its name.
        trigger_offsets: how many records a micro-batch has at most.
        written: what is in the topic.
    """

    servers: str
    topic: str
    trigger_offsets: int
    written: Sums

    @property
    def options(self) -> dict[str, str]:
        """Options of the source."""
        return {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "maxTasks": str(TASKS),
        }


def fill(servers: str, topic: str, partitions: int, size_bytes: int) -> Sums:
    """Write records to all partitions in turn; what was written."""
    records = size_bytes // VALUE_BYTES
    crcs, written, next_offset = 0, 0, [0] * partitions
    with Producer(bootstrap_servers=servers, batch_size=1 << 20, linger_ms=50) as producer:
        while written < records:
            count = min(RECORDS_AT_ONCE, records - written)
            data = os.urandom(count * VALUE_BYTES)
            values = [data[at : at + VALUE_BYTES] for at in range(0, len(data), VALUE_BYTES)]
            crcs += sum(map(zlib.crc32, values))
            partition = written // RECORDS_AT_ONCE % partitions
            where = pa.array([partition] * count, pa.int32())
            producer.send_arrow(topic, pa.table({"value": pa.array(values, pa.binary()), "partition": where}))
            next_offset[partition] += count
            written += count
        producer.flush(120)
    return Sums(records, records * VALUE_BYTES, crcs, sum(end * (end - 1) // 2 for end in next_offset))


# -- what is measured


def batch(engine: SparkSession, job: Job) -> Numbers:
    """Read all of it as one batch."""
    before = time.perf_counter()
    row = _sums(engine.read.format("kafkaraw").options(**job.options).load()).first()
    took_s = time.perf_counter() - before
    assert row is not None
    _check(job, Sums(**row.asDict()))
    return {"batch read, s": took_s, "batch read, MB/s": job.written.bytes / took_s / 1e6}


def stream(engine: SparkSession, job: Job) -> Numbers:
    """Read all of it in micro-batches of a limited size."""
    found: list[Row] = []

    def add(frame: DataFrame, batch_id: int) -> None:
        found.extend(_sums(frame).collect())

    options = job.options | {"maxOffsetsPerTrigger": str(job.trigger_offsets)}
    with scratch_folder() as folder:
        frame = engine.readStream.format("kafkaraw").options(**options).load()
        writer = frame.writeStream.foreachBatch(add).option("checkpointLocation", str(folder / "checkpoint"))
        before = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(SECONDS_MAX):
            raise TimeoutError(f"the query did not end within {SECONDS_MAX} s")
        took_s = time.perf_counter() - before
        durations = [each["durationMs"] for each in query.recentProgress]
    totals = {name: sum(row[name] or 0 for row in found) for name in ("records", "bytes", "crcs", "offsets")}
    _check(job, Sums(**totals))
    return {
        "micro-batches, s": took_s,
        "micro-batches, MB/s": job.written.bytes / took_s / 1e6,
        "micro-batches": len(found),
        "longest plan of a micro-batch, ms": max(each.get("latestOffset", 0) for each in durations),
    }


WORK: Final[dict[str, Callable[[SparkSession, Job], Numbers]]] = {"batch": batch, "stream": stream}


def _sums(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions

    return frame.select("value", "offset").agg(
        functions.count("*").alias("records"),
        functions.sum(functions.length("value")).alias("bytes"),
        functions.sum(functions.crc32("value")).alias("crcs"),
        functions.sum("offset").alias("offsets"),
    )


def _check(job: Job, found: Sums) -> None:
    assert found == job.written, f"{job.written} was written, {found} was read"


def work(name: str, job: Job) -> Numbers:
    """Do one measurement in a session, and look at the memory of Spark's Python processes meanwhile."""
    from kafkaraw.spark import session

    engine = session("bench", master=f"local[{TASKS}]", conf={"spark.driver.memory": "2g"})
    engine.sparkContext.setLogLevel("OFF")
    ended, peak = threading.Event(), [0.0]

    def look() -> None:
        while not ended.wait(1 / MEMORY_LOOKS_PER_SECOND):
            peak[0] = max(peak[0], *python_memory_mebibytes())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        found = WORK[name](engine, job)
    finally:
        ended.set()
        looking.join()
    engine.stop()
    return found | {f"{name}: largest Python process, MiB": peak[0]}


# -- the command

MEMORY: Final = Goal(500, 300, less_is_better=True, unit=" MiB")


@click.command()
@click.option("--gigabytes", default=10.0, show_default=True, help="Size of the values; the disk needs as much.")
@click.option("--partitions", default=4, show_default=True, type=click.IntRange(1))
@click.option("--trigger-offsets", default=1_000_000, show_default=True, help="Records of a micro-batch.")
@click.option("--turns", default=1, show_default=True, type=click.IntRange(1), help="Runs of each; the last is shown.")
@output_options
def main(
    gigabytes: float, partitions: int, trigger_offsets: int, turns: int, output: Path | None, picture: Path | None
) -> None:
    """Write a large topic, read it with Spark, and check every record."""
    report = Report("large-topic", output, picture)
    settings = {"GB": gigabytes, "partitions": partitions, "value bytes": VALUE_BYTES, "tasks": TASKS}
    report.begin(environment("embedded, logs on disk"), settings)
    with (
        scratch_folder() as folder,
        EmbeddedBroker(data_dir=folder, process=True) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        topic = f"bench-{uuid.uuid4().hex[:8]}"
        admin.create_topics([NewTopic(topic, partitions)])
        before = time.perf_counter()
        written = fill(broker.bootstrap_servers, topic, partitions, int(gigabytes * GIGABYTE))
        report.say(f"{written.records:,} records were written in {time.perf_counter() - before:,.1f} s")
        job = json.dumps(asdict(Job(broker.bootstrap_servers, topic, trigger_offsets, written)))
        found: Numbers = {}
        for name in WORK:
            for _ in range(turns):
                found |= measured_by(
                    "bench.spark.large_topic", "--work", name, job, what=f"{name} of {topic}", seconds_max=SECONDS_MAX
                )
                report.say(", ".join(f"{key} {number:,.4g}" for key, number in found.items()))
        report.say(f"memory of the broker: {resident_mebibytes(broker.process_id):,.0f} MiB")
    lines = [
        Line(f"{gigabytes:g} GB, {name}", "MiB", number, MEMORY, number)
        for name in WORK
        for number in [found[f"{name}: largest Python process, MiB"]]
    ]
    report.publish(lines, [])


if __name__ == "__main__":
    import sys

    if sys.argv[1:2] == ["--work"]:
        given = json.loads(sys.argv[3])
        task = Job(**{**given, "written": Sums(**given["written"])})
        print(json.dumps(work(sys.argv[2], task)), flush=True)
        os._exit(0)
    main()
