"""A pipeline with three outputs, and the same job by hand: with our source and sink, and with the JVM connector.

    .venv/bin/python -m bench.pipelines --records 5000000

One topic of JSON orders becomes a table, an hourly aggregate in a topic, and dead letters. Each job runs in a fresh
driver per turn, on a small topic before the one that counts. The number of rows and of dead letters must be the same.
Factors are medians over the turns. Start at `main`.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from bench import pipelines_worker
from bench.report import Goal, Line, Report, environment, output_options
from bench.spark import peers
from bench.topics import broker_at, new_topic
from kafkaraw import Admin, Consumer, Producer

ROOT: Final = Path(__file__).parents[1]
GOALS: Final = {"JVM connector": Goal(1.5, 2.5), "by hand": Goal(0.9, 0.97)}
"""The pipeline's rate over that of another job."""
WARM_UP: Final = 20_000
BAD_EVERY: Final = 1_000
SECONDS_MAX: Final = 1_800


@dataclass(frozen=True, slots=True)
class Measurement:
    """One job of one turn.

    Attributes:
        kind: one of `pipelines_worker.KINDS`.
        turn: the turn, from 0.
        seconds: wall time.
        cpu_seconds: of the driver, its JVM and its workers; not of the broker.
        rows: of the table.
        dead_letters: that were written.
    """

    kind: str
    turn: int
    seconds: float
    cpu_seconds: float
    rows: int
    dead_letters: int


def orders(count: int) -> Iterator[bytes]:
    """JSON orders, one of `BAD_EVERY` is none, and one has a negative amount."""
    chosen, start = random.Random(7), datetime(2026, 1, 1, tzinfo=UTC)
    cities = [f"city {number}" for number in range(40)]
    for number in range(count):
        if number % BAD_EVERY == 17:
            yield b'{"id": %d, "amount": ' % number
            continue
        amount = round(chosen.random() * 100 + 0.01, 2) * (-1 if number % BAD_EVERY == 18 else 1)
        at = (start + timedelta(milliseconds=17 * number)).isoformat()
        order = {"id": number, "customer": f"customer {number % 9973}", "city": cities[number % 40], "amount": amount}
        yield json.dumps({**order, "quantity": number % 7, "at": at}).encode()


def fill(servers: str, topic: str, count: int, partitions: int) -> None:
    """Write the records."""
    with Producer(bootstrap_servers=servers, linger_ms=5, batch_size=262_144, compression_type="lz4") as producer:
        for number, each in enumerate(orders(count)):
            producer.send(topic, each, b"%d" % number, partition=number % partitions)
        producer.flush()


def records_in(servers: str, topic: str) -> int:
    """Count the records of a topic that are committed."""
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "enable_auto_commit": False}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        ends = consumer.end_offsets(consumer.partitions_for(topic))
        left, count = {tp for tp, end in ends.items() if end}, 0
        while left:
            if set(consumer.assignment()) != left:
                consumer.assign(sorted(left))
            count += sum(1 for batch in consumer.poll(1.0).values() for _ in batch)
            left -= {tp for tp in left if consumer.position(tp) >= ends[tp]}
        return count


def measure(kind: str, turn: int, servers: str, topics: list[str]) -> Measurement:
    """Run one job."""
    ours = kind != "JVM connector"
    python = Path(sys.executable) if ours else peers.python()
    jars = [] if ours else [str(each) for each in peers.jars()]
    given = {"kind": kind, "servers": servers, "topics": topics, "jars": jars}
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    paths = [str(ROOT / "src"), str(ROOT)] if ours else [str(ROOT)]
    environ |= {"PYSPARK_PYTHON": str(python), "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [str(python), pipelines_worker.__file__, json.dumps(given)],
        capture_output=True,
        text=True,
        env=environ,
        timeout=SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise click.ClickException(f"{kind}: the job failed: {done.stderr[-2000:]}")
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")][-1]
    dead = records_in(servers, said["dead"])
    return Measurement(kind, turn, said["seconds"], said["cpu_seconds"], said["rows"], dead)


def line_of(other: str, records: int, found: list[Measurement]) -> Line:
    """The medians of the pipeline beside another job; factors are taken within a turn."""
    ours, theirs = ({each.turn: each for each in found if each.kind == kind} for kind in ("pipeline", other))
    factor = statistics.median(theirs[turn].seconds / ours[turn].seconds for turn in ours)
    cpu = statistics.median(theirs[turn].cpu_seconds / ours[turn].cpu_seconds for turn in ours)
    rates = [records / statistics.median(each.seconds for each in side.values()) for side in (ours, theirs)]
    return Line(
        f"three outputs, against {other}", "records/s", rates[0], GOALS[other], factor, other, rates[1], cpu_factor=cpu
    )


@click.command()
@click.option("--records", default=5_000_000, show_default=True, type=click.IntRange(1000))
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown.")
@click.option("--only", multiple=True, type=click.Choice(list(GOALS)), help="Compare with these only.")
@output_options
def main(records: int, turns: int, only: tuple[str, ...], output: Path | None, picture: Path | None) -> None:
    """Run the pipeline and the jobs by hand, and compare the factors with the minimum."""
    report = Report("pipelines", output, picture)
    others = list(only or GOALS)
    kinds = ["pipeline", *others]
    found: list[Measurement] = []
    with broker_at(None) as (servers, name), Admin(bootstrap_servers=servers) as admin:
        about = environment(name) | {"JVM connector": f"spark-sql-kafka, on pyspark {peers.SPARK_VERSION}"}
        report.begin(about, {"records": f"{records:,}", "partitions": 4, "master": "local[2]", "turns": turns})
        with new_topic(admin, 4) as small, new_topic(admin, 4) as large:
            fill(servers, small, WARM_UP, 4)
            fill(servers, large, records, 4)
            for turn in range(turns):
                for kind in kinds if turn % 2 == 0 else reversed(kinds):
                    each = measure(kind, turn, servers, [small, large])
                    found.append(each)
                    report.say(f"turn {turn}, {kind}: {each.seconds:.2f} s, CPU {each.cpu_seconds:.2f} s")
        if len({(each.rows, each.dead_letters) for each in found}) != 1:
            raise click.ClickException(f"the jobs have written different numbers of rows: {found}")
    met = report.publish([line_of(each, records, found) for each in others], found)
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
