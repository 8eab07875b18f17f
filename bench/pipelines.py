"""A pipeline with three outputs, and the same job by hand: with our source and sink, and with the JVM connector.

    .venv/bin/python -m bench.pipelines --records 5000000

One topic of JSON orders becomes a table, an hourly aggregate in a topic, and dead letters. Each job runs in a fresh
driver per turn, on a small topic before the one that counts. All must have written the same outputs, but for the
headers of dead letters. Factors are medians over the turns. Start at `main`.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
import time
from collections.abc import Iterable, Iterator
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
from kafkaraw.records import Record

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
        outputs: contents of the table, the aggregate and the dead letters, as digests.
    """

    kind: str
    turn: int
    seconds: float
    cpu_seconds: float
    rows: int
    outputs: tuple[str, str, str]


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


def records_of(servers: str, topic: str) -> Iterator[Record]:
    """Yield the records of a topic that are committed."""
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "enable_auto_commit": False}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        ends = consumer.end_offsets(consumer.partitions_for(topic))
        left = {tp for tp, end in ends.items() if end}
        while left:
            if set(consumer.assignment()) != left:
                consumer.assign(sorted(left))
            for batch in consumer.poll(1.0).values():
                yield from batch
            left -= {tp for tp in left if consumer.position(tp) >= ends[tp]}


def last_of_each_key(records: Iterable[Record]) -> list[tuple[str, int, float]]:
    """Return the aggregate, of which update mode writes a row again when it has changed; sums as far as orders have."""
    last = {found["id"]: found for found in (json.loads(each.value or b"") for each in records)}
    return [(key, found["orders"], round(found["amount"], 2)) for key, found in last.items()]


def origin(letter: Record) -> bytes | None:
    """Return the header with the offset of a dead letter."""
    return next(value for name, value in letter.headers if name in ("offset", "kafkaraw.offset"))


def digest(rows: Iterable[tuple[object, ...]]) -> str:
    """Return a digest of rows in any order."""
    return hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest()[:16]


def measure(kind: str, turn: int, servers: str, topics: list[str]) -> Measurement:
    """Run one job."""
    ours = kind != "JVM connector"
    jars = [] if ours else [str(each) for each in peers.jars()]
    given = {"kind": kind, "servers": servers, "topics": topics, "jars": jars}
    what = f"the job {kind}"
    *_, said = peers.said_by(
        pipelines_worker.__file__, given, ours=ours, what=what, path=[ROOT], seconds_max=SECONDS_MAX
    )
    hours = last_of_each_key(records_of(servers, said["hours"]))
    dead = [(each.key, each.value, origin(each)) for each in records_of(servers, said["dead"])]
    outputs = said["total"], digest(hours), digest(dead)
    return Measurement(kind, turn, said["seconds"], said["cpu_seconds"], said["rows"], outputs)


def line_of(other: str, records: int, found: list[Measurement]) -> Line:
    """The medians of the pipeline beside another job; factors are taken within a turn."""
    ours, theirs = ({each.turn: each for each in found if each.kind == kind} for kind in ("pipeline", other))
    factor = statistics.median(theirs[turn].seconds / ours[turn].seconds for turn in ours)
    cpu = statistics.median(theirs[turn].cpu_seconds / ours[turn].cpu_seconds for turn in ours)
    rates = [records / statistics.median(each.seconds for each in side.values()) for side in (ours, theirs)]
    return Line(
        f"three outputs, against {other}", "records/s", rates[0], GOALS[other], factor, other, rates[1], cpu_factor=cpu
    )


def differences(found: list[Measurement]) -> list[str]:
    """Return the jobs whose outputs are not those of the first one."""
    first = found[0]
    return [
        f"{each.kind}, turn {each.turn}: {each.rows} rows, {each.outputs}; {first.kind}: {first.rows}, {first.outputs}"
        for each in found
        if (each.rows, each.outputs) != (first.rows, first.outputs)
    ]


@click.command()
@click.option("--records", default=5_000_000, show_default=True, type=click.IntRange(1000))
@click.option("--turns", default=2, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown.")
@click.option(
    "--minutes", default=11.0, show_default=True, help="No turn begins that would last longer, by the first one."
)
@click.option("--only", multiple=True, type=click.Choice(list(GOALS)), help="Compare with these only.")
@output_options
def main(
    records: int, turns: int, minutes: float, only: tuple[str, ...], output: Path | None, picture: Path | None
) -> None:
    """Run the pipeline and the jobs by hand, and compare the factors with the minimum."""
    report = Report("pipelines", output, picture)
    others = list(only or GOALS)
    kinds = ["pipeline", *others]
    found: list[Measurement] = []
    began = time.monotonic()
    with broker_at(None) as (servers, name), Admin(bootstrap_servers=servers) as admin:
        about = environment(name) | {"JVM connector": f"spark-sql-kafka, on pyspark {peers.SPARK_VERSION}"}
        report.begin(about, {"records": f"{records:,}", "partitions": 4, "master": "local[2]", "turns": turns})
        with new_topic(admin, 4) as small, new_topic(admin, 4) as large:
            fill(servers, small, WARM_UP, 4)
            fill(servers, large, records, 4)
            filled = time.monotonic()
            for turn in range(turns):
                if turn and (time.monotonic() - filled) * (turn + 1) / turn + filled - began > 60 * minutes:
                    report.say(f"{turn} of {turns} turns: another would take more than {minutes} minutes in all")
                    break
                for kind in kinds if turn % 2 == 0 else reversed(kinds):
                    each = measure(kind, turn, servers, [small, large])
                    found.append(each)
                    report.say(f"turn {turn}, {kind}: {each.seconds:.2f} s, CPU {each.cpu_seconds:.2f} s")
    different = differences(found)
    for each in different:
        report.say(f"DIFFERENT: {each}")
    if not different:
        report.say(f"each job has written the same {found[0].rows:,} rows, aggregates and dead letters")
    met = report.publish([line_of(each, records, found) for each in others], found)
    raise SystemExit(0 if met and not different else 1)


if __name__ == "__main__":
    main()
