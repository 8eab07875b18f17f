"""`make bench-sql`: queries over topics, against confluent-kafka with `json` and PyArrow into DuckDB.

Each measurement is a fresh process; kinds take turns. A process imports and connects before the watch starts; it stops
when the result is there. Both must have the same result. Two topics: JSON objects of five fields, and values of 100
bytes. A third measurement reads the last hour of a topic whose timestamps hold ten days, and the whole of it. A fourth
one is the memory of queries over a topic of 5 GB. Start at `WORK` and `GOALS`.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click
import pyarrow as pa

from bench.report import Goal, Line, Report, environment, output_options
from bench.topics import broker_at, new_topic
from bench.worker import BenchError, measured_by
from kafkaraw import Admin, Consumer, Producer, SqlSession

PARTITIONS: Final = 4
DAYS: Final = 10
GROUPED: Final = "SELECT status, count(*) AS n, sum(amount) AS total FROM {table} GROUP BY ALL ORDER BY ALL"
COUNTED: Final = "SELECT count(*) AS n, max(octet_length(value)) AS longest FROM {table}"
LAST_HOUR: Final = "SELECT count(*) AS n FROM {table} WHERE timestamp >= TIMESTAMPTZ '{since}+00'"
GOALS: Final = {"json": Goal(8, 15), "bytes": Goal(8, 15), "hour": Goal(20, 20)}
MEMORY_GOAL: Final = Goal(500, 500, less_is_better=True, unit=" MB")
POLL_RECORDS: Final = 10_000
LARGE_BYTES: Final = 1_000
"""Of a value of the large topic."""
LARGE_QUERIES: Final = {
    "large, count": "SELECT count(*) AS n, max(octet_length(value)) AS longest FROM {table}",
    "large, newest": 'SELECT "offset", hex(value) AS value FROM {table} ORDER BY ALL DESC LIMIT 3',
}
_END_MS: Final = 1_760_000_000_000


@dataclass(frozen=True, slots=True)
class Job:
    """What a process measures: a query over a topic of so many records."""

    servers: str
    topic: str
    records: int
    query: str


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement.

    Attributes:
        kind: of `WORK`.
        what: "json", "bytes", "hour", "whole", or one of `LARGE_QUERIES`.
        seconds: from the query to its result.
        cpu_seconds: of the process, all threads.
        memory_mb: its largest resident size.
        result: the rows.
    """

    kind: str
    what: str
    seconds: float
    cpu_seconds: float
    memory_mb: float
    result: list[dict[str, object]]


# -- in a process of its own


def with_kafkaraw(job: Job) -> Callable[[], pa.Table]:
    """Query the topic as a table."""
    value = "json" if "status" in job.query else "bytes"
    session = SqlSession(bootstrap_servers=job.servers, key="bytes", value=value)
    session.query(f'SELECT count(*) FROM "{job.topic}" WHERE "offset" = 0').read_all()  # connects
    return lambda: session.query(job.query.format(table=f'"{job.topic}"')).read_all()


def with_confluent(job: Job) -> Callable[[], pa.Table]:
    """Read the topic with confluent-kafka, parse with `json`, and query the table."""
    import confluent_kafka
    import duckdb

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": job.servers, "group.id": "bench-sql", "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "fetch.message.max.bytes": 1 << 22}
    )  # fmt: skip
    consumer.assign([confluent_kafka.TopicPartition(job.topic, number, 0) for number in range(PARTITIONS)])
    connection = duckdb.connect()

    def read() -> pa.Table:
        pieces, left = [], job.records
        while left:
            messages = consumer.consume(POLL_RECORDS, 10)
            if not messages:
                raise BenchError(f"confluent-kafka: {left} records did not come")
            left -= len(messages)
            values = [message.value() for message in messages]
            if "status" in job.query:
                pieces.append(pa.Table.from_pylist([json.loads(value) for value in values]))
            else:
                pieces.append(pa.table({"value": pa.array(values, pa.binary())}))
        records = pa.concat_tables(pieces)  # DuckDB finds it by its name
        assert records.num_rows == job.records
        return connection.sql(job.query.format(table="records")).to_arrow_table()

    return read


WORK: Final = {"kafkaraw": with_kafkaraw, "confluent-kafka": with_confluent}


def cpu_seconds() -> float:
    """Return the CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def work(kind: str, job: Job) -> dict[str, object]:
    """Measure in this process."""
    run = WORK[kind](job)
    began, cpu = time.perf_counter(), cpu_seconds()
    result = run()
    seconds, used = time.perf_counter() - began, cpu_seconds() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "cpu_seconds": used, "memory_mb": memory, "result": result.to_pylist()}


# -- the parent


def fill(servers: str, topic: str, records: int, *, is_json: bool) -> None:
    """Write records whose timestamps are spread over `DAYS` days, evenly over the partitions."""
    size = 20_000
    spread_ms = DAYS * 86_400_000 / records
    with Producer(bootstrap_servers=servers, compression_type="lz4", batch_size=1 << 18, linger_ms=20) as producer:
        for start in range(0, records, size):
            numbers = range(start, min(start + size, records))
            values = [value_of(number) if is_json else b"%099d;" % number for number in numbers]
            times = [int(_END_MS - DAYS * 86_400_000 + number * spread_ms) for number in numbers]
            columns = {
                "value": pa.array(values, pa.binary()),
                "partition": pa.array([number % PARTITIONS for number in numbers], pa.int32()),
                "timestamp": pa.array(times, pa.timestamp("ms", tz="UTC")),
            }
            producer.send_arrow(topic, pa.RecordBatch.from_pydict(columns))
        producer.flush()
    with Consumer(bootstrap_servers=servers) as consumer:
        found = sum(consumer.end_offsets(consumer.partitions_for(topic)).values())
    if found != records:
        raise BenchError(f"{topic} has {found} of {records} records")


def fill_large(servers: str, topic: str, size_gb: int) -> int:
    """Write records of a kilobyte that do not compress; return how many."""
    count = 10_000
    values = [os.urandom(LARGE_BYTES) for _ in range(count)]
    columns = {
        "value": pa.array(values, pa.binary()),
        "partition": pa.array([number % PARTITIONS for number in range(count)], pa.int32()),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    turns = size_gb * 10**9 // (count * LARGE_BYTES)
    with Producer(bootstrap_servers=servers, batch_size=1 << 19, linger_ms=20) as producer:
        for _ in range(turns):
            producer.send_arrow(topic, batch)
        producer.flush()
    return turns * count


def value_of(number: int) -> bytes:
    """Return an order: five fields."""
    status = ("new", "paid", "sent")[number % 3]
    return (
        b'{"id": %d, "status": "%s", "amount": %d.25, "city": "city-%d", "is_gift": %s}'
        % (number, status.encode(), number % 1_000, number % 50, b"true" if number % 7 == 0 else b"false")
    )  # fmt: skip


def measured(kind: str, what: str, job: Job) -> Run:
    """Measure in a fresh process."""
    return Run(kind, what, **measured_by("bench.sql", "work", kind, json.dumps(asdict(job)), what=f"{kind}, {what}"))


def compared(servers: str, topic: str, what: str, query: str, records: int, turns: int, report: Report) -> list[Run]:
    """Measure both kinds in turn; their results must be equal."""
    runs: list[Run] = []
    for turn in range(turns):
        for kind in list(WORK)[:: 1 if turn % 2 == 0 else -1]:
            runs.append(measured(kind, what, Job(servers, topic, records, query)))
            report.say(f"{what}, turn {turn}, {kind}: {runs[-1].seconds:.2f} s, {runs[-1].cpu_seconds:.2f} s of CPU, "
                       f"{runs[-1].memory_mb:.0f} MB")  # fmt: skip
    if any(run.result != runs[0].result for run in runs):
        raise BenchError(f"{what}: the results differ: {[run.result for run in runs]}")
    return runs


def median(runs: Sequence[Run], kind: str, what: str, name: str) -> float:
    """The median of a number."""
    return statistics.median(getattr(run, name) for run in runs if (run.kind, run.what) == (kind, what))


def lines_of(runs: Sequence[Run], records: int) -> list[Line]:
    """The medians, held against the goals."""
    lines = []
    for what, name in (("json", "count and group by over JSON"), ("bytes", "count over 100 bytes")):
        ours, theirs = (median(runs, kind, what, "seconds") for kind in WORK)
        cpu = median(runs, "confluent-kafka", what, "cpu_seconds") / median(runs, "kafkaraw", what, "cpu_seconds")
        lines.append(Line(name, "records/s", records / ours, GOALS[what], theirs / ours, "confluent-kafka",
                          records / theirs, cpu))  # fmt: skip
    hour, whole = (median(runs, "kafkaraw", what, "seconds") for what in ("hour", "whole"))
    lines.append(
        Line("last hour of ten days", "s", hour, GOALS["hour"], whole / hour, "the whole", whole, digits=".3f")
    )
    memory = max(run.memory_mb for run in runs if run.kind == "kafkaraw")
    large = any(run.what in LARGE_QUERIES for run in runs)
    lines.append(Line("memory, with a large topic" if large else "memory", "MB", memory, MEMORY_GOAL, memory))
    return lines


@click.group(invoke_without_command=True)
@click.option("--records", default=5_000_000, show_default=True, type=click.IntRange(1_000), help="Of each topic.")
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians count.")
@click.option("--large-gb", default=5, show_default=True, type=click.IntRange(0), help="The large topic; 0 for none.")
@click.option("--bootstrap-server", help="A broker that runs; the default is an embedded one.")
@output_options
@click.pass_context
def main(
    ctx: click.Context,
    records: int,
    turns: int,
    large_gb: int,
    bootstrap_server: str | None,
    output: Path | None,
    picture: Path | None,
) -> None:
    """Query topics with our SQL, and with confluent-kafka, json, PyArrow and DuckDB."""
    if ctx.invoked_subcommand is not None:
        return
    report = Report("sql", output, picture)
    with (
        broker_at(bootstrap_server, {"log.retention.ms": "-1"}) as (servers, name),
        Admin(bootstrap_servers=servers) as admin,
    ):
        settings = {"records": records, "partitions": PARTITIONS, "compression": "lz4", "threads": os.cpu_count()}
        report.begin(environment(name), settings | {"turns": turns, "consume()": POLL_RECORDS})
        runs: list[Run] = []
        with new_topic(admin, PARTITIONS) as topic:
            fill(servers, topic, records, is_json=True)
            runs += compared(servers, topic, "json", GROUPED, records, turns, report)
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(_END_MS / 1000 - 3_600))
            for _ in range(turns):
                for what, query in (
                    ("hour", LAST_HOUR.format(table="{table}", since=since)),
                    ("whole", "SELECT count(*) AS n FROM {table}"),
                ):
                    runs.append(measured("kafkaraw", what, Job(servers, topic, records, query)))
        with new_topic(admin, PARTITIONS) as topic:
            fill(servers, topic, records, is_json=False)
            runs += compared(servers, topic, "bytes", COUNTED, records, turns, report)
        if large_gb:
            with new_topic(admin, PARTITIONS) as topic:
                count = fill_large(servers, topic, large_gb)
                for what, query in LARGE_QUERIES.items():
                    runs.append(measured("kafkaraw", what, Job(servers, topic, count, query)))
                    report.say(f"{what}: {runs[-1].seconds:.2f} s, {runs[-1].memory_mb:.0f} MB")
    report.publish(lines_of(runs, records), runs)


@main.command(hidden=True, name="work")
@click.argument("kind", type=click.Choice(list(WORK)))
@click.argument("job")
def work_command(kind: str, job: str) -> None:
    """Measure in this process, and print what was measured."""
    print(json.dumps(work(kind, Job(**json.loads(job)))))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
