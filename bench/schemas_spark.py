"""A topic of framed Avro to typed columns in Spark: kafkaraw against Spark's own connector with from_avro, in one run.

    .venv/bin/python -m bench.schemas_spark --records 2000000

Each runs in a fresh driver per turn, and they take turns in going first; each row runs once before the run that counts.
Spark's own connector has its own Spark and jars (`bench/spark/peers.py`). Both must have the same sums over all fields.
Factors are medians over the turns, of wall time and of CPU of the driver with its Python workers. Start at `main`.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from bench import schemas_arrow, schemas_spark_worker
from bench.report import Goal, Line, Report, environment, output_options
from bench.spark import peers
from bench.topics import broker_at, new_topic
from kafkaraw import Admin, Producer
from kafkaraw.schemas import EmbeddedRegistry, Registry, Schema

CONNECTORS: Final = ("kafka", "kafkaraw")
GOALS: Final = {"all fields": Goal(2, 3)}
OTHER_GOAL: Final = Goal(1, 2)
"""Of rows that show where the difference comes from."""
SECONDS_MAX: Final = 900


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of one turn.

    Attributes:
        row: its name.
        connector: one of `CONNECTORS`.
        turn: the turn, from 0.
        seconds: wall time.
        cpu_seconds: of the driver, its JVM and its workers; not of the broker.
    """

    row: str
    connector: str
    turn: int
    seconds: float
    cpu_seconds: float


def fill(servers: str, topic: str, framed: list[bytes], partitions: int) -> None:
    """Write the records."""
    with Producer(bootstrap_servers=servers, linger_ms=5, batch_size=262_144) as producer:
        for number, each in enumerate(framed):
            producer.send(topic, each, partition=number % partitions)
        producer.flush()


def measure(connector: str, turn: int, asked: dict[str, Any]) -> tuple[list[Measurement], object]:
    """Run all rows with one connector; return what was measured, and the sums."""
    ours = connector == "kafkaraw"
    jars = [] if ours else [*peers.jars(), *peers.avro_jars()]
    given = {**asked, "connector": connector, "jars": [str(each) for each in jars]}
    what = f"the jobs with format {connector}"
    said = list(peers.said_by(schemas_spark_worker.__file__, given, ours=ours, what=what, seconds_max=SECONDS_MAX))
    found = [
        Measurement(each["row"], connector, turn, each["seconds"], each["cpu_seconds"])
        for each in said
        if "row" in each
    ]
    return found, next(each["check"] for each in said if "check" in each)


def line_of(row: str, records: int, found: list[Measurement]) -> Line:
    """The medians of a row; factors are taken within a turn."""
    ours, theirs = (
        {each.turn: each for each in found if (each.connector, each.row) == (connector, row)}
        for connector in reversed(CONNECTORS)
    )
    factor = statistics.median(theirs[turn].seconds / ours[turn].seconds for turn in ours)
    cpu = statistics.median(theirs[turn].cpu_seconds / ours[turn].cpu_seconds for turn in ours)
    goal = GOALS.get(row, OTHER_GOAL)
    rates = [records / statistics.median(each.seconds for each in side.values()) for side in (ours, theirs)]
    return Line(row, "rows/s", rates[0], goal, factor, "from_avro", rates[1], cpu_factor=cpu)


@click.command()
@click.option("--records", default=2_000_000, show_default=True, type=click.IntRange(1000))
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown.")
@click.option("--only", multiple=True, type=click.Choice(list(schemas_spark_worker.ROWS)), help="These rows only.")
@output_options
def main(records: int, turns: int, only: tuple[str, ...], output: Path | None, picture: Path | None) -> None:
    """Read framed Avro into typed columns with both connectors, and compare the factors with the minimum."""
    report = Report("schemas-spark", output, picture)
    names = list(only or schemas_spark_worker.ROWS)
    found: list[Measurement] = []
    with broker_at(None) as (servers, name), EmbeddedRegistry() as registry, Admin(bootstrap_servers=servers) as admin:
        about = environment(name) | {"from_avro": f"{peers.AVRO_JAR}, on pyspark {peers.SPARK_VERSION}"}
        settings = {"records": f"{records:,}", "partitions": 4, "master": "local[2]", "turns": turns}
        report.begin(about, settings)
        with new_topic(admin, 4) as topic, Registry(registry.url) as client:
            schema_id = client.register(f"{topic}-value", Schema(schemas_arrow.TEXT)).id
            framed = [b"\0" + schema_id.to_bytes(4, "big") + each[5:] for each in schemas_arrow.records(records)]
            fill(servers, topic, framed, 4)
            asked = {
                "servers": servers, "topic": topic, "registry": registry.url, "schema": schemas_arrow.TEXT,
                "records": records, "rows": names,
            }  # fmt: skip
            sums: list[object] = []
            for turn in range(turns):
                for connector in CONNECTORS if turn % 2 == 0 else reversed(CONNECTORS):
                    measured, check = measure(connector, turn, asked)
                    sums.append(check)
                    found += measured
                    for each in measured:
                        report.say(
                            f"turn {turn}, {connector}: {each.row}: {each.seconds:.2f} s, CPU {each.cpu_seconds:.2f} s"
                        )
        if any(each != sums[0] for each in sums):
            raise click.ClickException(f"the connectors read different values: {sums}")
    met = report.publish([line_of(each, records, found) for each in names], found)
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
