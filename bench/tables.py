"""`make bench-tables`: a topic into a Delta table and into Parquet files, against Spark's own connector and writer.

The records have the seven columns of Spark's Kafka sources. Each connector runs in a fresh Spark driver per turn, which
reads and writes them once before the jobs that count; the connectors take turns in going first. Spark's own connector
has no Delta without a JAR, so both rows are held against its Parquet files. The size of data files and the time of a
commit are measured in the same run: sizes are those of the Delta table, and commits are those of a table with as many
versions, without Spark.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from bench.report import Goal, Line, Report, environment, output_options
from bench.spark import peers, worker
from bench.topics import apache_kafka, broker_at, new_topic
from kafkaraw import Admin, Producer

PARQUET: Final = "read to Parquet"
DELTA: Final = "read to a Delta table"
SIZE: Final = "size of data files"
COMMIT: Final = "commit of a micro-batch"
SECONDS_MAX: Final = 3_600
PARTITIONS: Final = 4
COMMITS: Final = 60
COMMITS_WARM: Final = 10
FILES_PER_COMMIT: Final = 4
_VALUES: Final = 5_000
_RIVAL: Final = "spark-sql-kafka-0-10 and Spark's Parquet"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number of one turn."""

    row: str
    connector: str
    turn: int
    number: float


def fill(servers: str, topic: str, records: int) -> None:
    """Write records with keys of 8 bytes and values of 60 to 140 bytes of text, which compresses to about a half."""
    draw = random.Random(7)
    values = [
        b'{"flight":"UA%d","gate":"%s"}'
        % (draw.randrange(10_000), draw.randbytes(draw.randrange(15, 55)).hex().encode())
        for _ in range(_VALUES)
    ]
    with Producer(bootstrap_servers=servers, linger_ms=5, batch_size=262_144) as producer:
        for number in range(records):
            producer.send(topic, draw.choice(values), b"%08d" % number, partition=number % PARTITIONS)
        producer.flush()


def measure(
    servers: str, topic: str, records: int, connector: str, turn: int, target_size: int
) -> Iterator[Measurement]:
    """Run the jobs with one connector; sizes of data files are shares of the target."""
    ours = connector == "kafkaraw"
    asked = {
        "servers": servers, "source": topic, "records": records, "logs": {}, "targets": [], "trickles": {}, "small": "",
        "connector": connector, "jars": [] if ours else [str(jar) for jar in peers.jars()],
        "rows": [PARQUET, DELTA] if ours else [PARQUET], "target_file_size": target_size, "warm": [PARQUET],
    }  # fmt: skip
    what = f"the jobs with format {connector}"
    for said in peers.said_by(worker.__file__, asked, ours=ours, what=what, seconds_max=SECONDS_MAX):
        if "row" in said:
            yield Measurement(said["row"], connector, turn, said["number"])
        for size in said.get("full_files", []):
            yield Measurement(SIZE, connector, turn, size / target_size)


def commits(folder: str) -> Iterator[Measurement]:
    """Seconds of each of many commits to one table, for both formats."""
    import pyarrow as pa

    from kafkaraw.spark.lake.batches import BatchId
    from kafkaraw.spark.lake.commits import commit_batch
    from kafkaraw.spark.lake.data_files import write_files
    from kafkaraw.spark.lake.delta import prepare_delta
    from kafkaraw.spark.lake.iceberg import prepare_iceberg
    from kafkaraw.spark.lake.layout import Commit
    from kafkaraw.spark.options.lake import parse_delta, parse_iceberg

    rows = pa.table({"n": range(1000)})
    delta = parse_delta({"path": f"{folder}/delta"})
    iceberg = parse_iceberg({
        "table": "bench.commits", "catalog.type": "sql", "catalog.uri": f"sqlite:///{folder}/catalog.db",
        "catalog.warehouse": f"file://{folder}",
    })  # fmt: skip
    for kind, options, prepare in (("delta", delta, prepare_delta), ("iceberg", iceberg, prepare_iceberg)):
        for number in range(COMMITS):
            table, layout = prepare(options, rows.schema)
            batch = BatchId("bench", number, "run")
            files = [
                file
                for task in range(FILES_PER_COMMIT)
                for file in write_files(rows.to_batches(), layout, options, batch, task)
            ]
            began = time.perf_counter()
            commit_batch(table, Commit(batch, files), layout)
            yield Measurement(f"{COMMIT}, {kind}", "kafkaraw", number, time.perf_counter() - began)


def lines_of(found: Sequence[Measurement]) -> list[Line]:
    """Medians, factors within a turn, and the worst file."""

    def by_turn(row: str, connector: str) -> dict[int, float]:
        return {each.turn: each.number for each in found if (each.row, each.connector) == (row, connector)}

    theirs = by_turn(PARQUET, "kafka")
    lines = []
    for row, goal in ((DELTA, Goal(1.2, 2)), (PARQUET, Goal(1.2, 2))):
        ours = by_turn(row, "kafkaraw")
        factor = statistics.median(ours[turn] / theirs[turn] for turn in ours)
        numbers = statistics.median(ours.values()), statistics.median(theirs.values())
        lines.append(Line(row, "rows/s", numbers[0], goal, factor, _RIVAL, numbers[1]))
    shares = [each.number for each in found if each.row == SIZE]
    if shares:  # few records fill no file
        worst = max(abs(share - 1) for share in shares) * 100
        limits = Goal(20, 10, less_is_better=True, unit=" %")
        lines.append(Line(f"{SIZE}, {len(shares)} full ones", "% from the target", worst, limits, worst))
    for kind in ("delta", "iceberg"):
        times = [each.number for each in found if each.row == f"{COMMIT}, {kind}" and each.turn >= COMMITS_WARM]
        median_ms = statistics.median(times) * 1000
        limits = Goal(200, 100, less_is_better=True, unit=" ms")
        lines.append(Line(f"{COMMIT}, {kind}", "ms", median_ms, limits, median_ms))
    return lines


def run(servers: str, records: int, turns: int, target_size: int, report: Report) -> list[Measurement]:
    """All measurements."""
    found: list[Measurement] = []
    with Admin(bootstrap_servers=servers) as admin, new_topic(admin, PARTITIONS) as topic:
        report.say(f"writing {records:,} records")
        fill(servers, topic, records)
        for turn in range(turns):
            for connector in ("kafka", "kafkaraw") if turn % 2 == 0 else ("kafkaraw", "kafka"):
                for each in measure(servers, topic, records, connector, turn, target_size):
                    found.append(each)
                    if each.row != SIZE:
                        report.say(f"turn {turn}, {connector}: {each.row}: {each.number:,.0f} rows/s")
    with tempfile.TemporaryDirectory(prefix="bench-tables-") as folder:
        report.say(f"committing {COMMITS} micro-batches to a Delta and to an Iceberg table")
        found += commits(folder)
    return found


@click.command()
@click.option("--bootstrap-server", help="Measure against this broker instead of the embedded one.")
@click.option("--apache-kafka", "apache", is_flag=True, help="Measure against Apache Kafka, started for this run.")
@click.option("--records", default=5_000_000, show_default=True, type=click.IntRange(1_000))
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown.")
@click.option(
    "--target-file-size", default=16, show_default=True, type=click.IntRange(1), help="Of data files, in MiB."
)
@output_options
def main(
    bootstrap_server: str | None,
    apache: bool,
    records: int,
    turns: int,
    target_file_size: int,
    output: Path | None,
    picture: Path | None,
) -> None:
    """Write a topic into a Delta table and into Parquet files, and hold the factors against what they must be."""
    report = Report("tables", output, picture)
    with contextlib.ExitStack() as stack:
        servers, name = stack.enter_context(apache_kafka() if apache else broker_at(bootstrap_server))
        about = environment(name) | {"spark-sql-kafka-0-10": f"{peers.SPARK_VERSION}, on pyspark of that version"}
        settings = {
            "records": f"{records:,} of 60 to 140 bytes with keys of 8, 7 columns", "partitions": PARTITIONS,
            "master": "local[2]", "target file size": f"{target_file_size} MiB", "turns": turns,
            "codec": "zstd in the Delta table, Spark's default in Parquet",
            "commit": f"{FILES_PER_COMMIT} files, median of {COMMITS - COMMITS_WARM}",
        }  # fmt: skip
        report.begin(about, settings)
        found = run(servers, records, turns, target_file_size << 20, report)
    report.publish(lines_of(found), found)


if __name__ == "__main__":
    main()
