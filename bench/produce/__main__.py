"""`make bench-produce`: what sending costs with our client and with others, on the same broker, in one run.

Every measurement is a fresh process. The clients take turns, so that what else happens on the machine hits all of them;
factors are medians of those of the turns. The broker runs in a process of its own and is not measured. Start at
`rows.py`.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.produce.others import CLIENTS
from bench.produce.rows import ROWS, Judged, Row
from bench.report import Line, Report, environment, output_options
from bench.settings import Settings
from bench.topics import apache_kafka, broker_at, count, new_topic
from bench.worker import BenchError, measured_by
from kafkaraw import Admin

EXTRA: Final = {Judged.LATENCY: "p50_us", Judged.IDLE: "idle_percent", Judged.MEMORY: "mb_above_bound"}
DIGITS: Final = {
    Judged.RATE: ",.0f",
    Judged.CPU: ".3f",
    Judged.LATENCY: ".0f",
    Judged.IDLE: ".2f",
    Judged.MEMORY: ".1f",
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One worker's result."""

    row: str
    work: str
    turn: int
    found: dict[str, float]

    def number(self, judged: Judged) -> float:
        """The number that counts."""
        if judged is Judged.RATE:
            return self.found["records"] / self.found["seconds"]
        if judged is Judged.CPU:
            return self.found["cpu_seconds"] * 1e6 / self.found["records"]
        return self.found[EXTRA[judged]]


def measure(row: Row, work: str, turn: int, settings: Settings, bootstrap_servers: str, topic: str) -> Measurement:
    """Run one worker."""
    environ = {"KAFKARAW_IMPL": "python"} if row.plain_python else {}
    arguments = (work, settings.to_json(), bootstrap_servers, topic)
    found = measured_by("bench.produce.worker", *arguments, what=f"{row.name}: {work}", environ=environ)
    if found["records"]:
        there = count(settings.partitions, bootstrap_servers, topic)
        if settings.acks != "0" and there != settings.records + 1:  # and the warm-up record
            raise BenchError(f"{row.name}: of {work}, {there} records arrived, not {settings.records + 1}")
    return Measurement(row.name, work, turn, found)


def settings_of(row: Row, settings: Settings) -> Settings:
    """The run's settings with those of the row."""
    return dataclasses.replace(settings, **row.settings, records=max(20, int(settings.records * row.share)))  # type: ignore[arg-type]


def run(
    rows: Sequence[Row], settings: Settings, turns: int, bootstrap_servers: str, console: Console
) -> list[Measurement]:
    """All measurements, the clients taking turns."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    measurements = []
    with (
        Admin(bootstrap_servers=bootstrap_servers) as admin,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        task = progress.add_task("", total=turns * sum(1 + len(row.others) for row in rows))
        for row in rows:
            for turn in range(turns):
                works = (row.ours, *row.others)
                for work in works if turn % 2 == 0 else reversed(works):
                    progress.update(task, description=f"{row.name}: {work}")
                    with new_topic(admin, settings.partitions) as topic:
                        own = settings_of(row, settings)
                        measurements.append(measure(row, work, turn, own, bootstrap_servers, topic))
                    progress.advance(task)
    return measurements


def line_of(row: Row, measurements: Sequence[Measurement], *, by_cpu: bool) -> Line:
    """The medians of a row; factors are taken within a turn."""
    judged = Judged.CPU if by_cpu and row.judged is Judged.RATE else row.judged
    mine = [each for each in measurements if each.row == row.name]
    by_work = {work: [each for each in mine if each.work == work] for work in (row.ours, *row.others)}
    medians = {work: statistics.median(each.number(judged) for each in runs) for work, runs in by_work.items()}
    ours = by_work[row.ours]
    number, digits = medians[row.ours], DIGITS[judged]
    if not row.others:
        return Line(row.name, judged.value, number, row.goal, number, digits=digits)
    best = (max if judged is Judged.RATE else min)(row.others, key=medians.__getitem__)
    pairs = list(zip(ours, by_work[best], strict=True))
    ratios = [our.number(judged) / their.number(judged) for our, their in pairs]
    if judged is Judged.CPU:
        ratios = [1 / ratio for ratio in ratios]
    cpu = statistics.median(their.number(Judged.CPU) / our.number(Judged.CPU) for our, their in pairs)
    factor = statistics.median(ratios)
    return Line(row.name, judged.value, number, row.goal, factor, CLIENTS[best], medians[best], cpu, digits)


@click.command()
@click.option("--bootstrap-server", help="Measure against this broker instead of the embedded one; judged by CPU.")
@click.option("--apache", is_flag=True, help="Start Apache Kafka and measure against that; judged by CPU.")
@click.option("--records", default=2_000_000, show_default=True, type=click.IntRange(1000))
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown.")
@click.option("--linger-ms", default=Settings().linger_ms, show_default=True, type=click.IntRange(0))
@click.option("--batch-size", default=Settings().batch_size, show_default=True, type=click.IntRange(1000))
@click.option("--partitions", default=Settings().partitions, show_default=True, type=click.IntRange(1))
@click.option("--idempotent/--not-idempotent", default=Settings().idempotent, show_default=True)
@click.option(
    "--by-cpu", is_flag=True, help="Judge rates by CPU per record: for a machine that does other things, too."
)
@click.option("--only", multiple=True, type=click.Choice(list(ROWS)), help="These rows only.")
@output_options
def main(
    bootstrap_server: str | None,
    apache: bool,
    turns: int,
    by_cpu: bool,
    only: tuple[str, ...],
    output: Path | None,
    picture: Path | None,
    **chosen: object,
) -> None:
    """Send with our client and with others, and hold the factors against what they must be."""
    settings = Settings(**chosen)  # type: ignore[arg-type]  # click has checked them
    report = Report("produce", output, picture)
    rows = [ROWS[name] for name in only or ROWS]
    by_cpu = by_cpu or apache or bootstrap_server is not None
    with apache_kafka() if apache else broker_at(bootstrap_server) as (bootstrap_servers, name):
        about = environment(name) | {"aiokafka": importlib.metadata.version("aiokafka")}
        report.begin(about, asdict(settings) | {"turns": turns})
        for row in rows:
            if row.settings or row.share != 1.0:
                differs = {**row.settings, "records": settings_of(row, settings).records}
                report.say(f"  {row.name}: {', '.join(f'{k}={v}' for k, v in differs.items())}")
        found = run(rows, settings, turns, bootstrap_servers, report.console)
    report.publish([line_of(row, found, by_cpu=by_cpu) for row in rows], found)


if __name__ == "__main__":
    main()
