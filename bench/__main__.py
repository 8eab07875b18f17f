"""`make bench`: produce and consume with our client and with confluent-kafka, on the same broker, in one run.

Every measurement is a fresh process. The clients take turns, so that what else happens on the machine hits both; the
table shows medians. The broker runs in a process of its own and is not measured.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.report import Measurement, environment, show, write
from bench.settings import Settings, values
from bench.topics import broker_at, count, new_topic
from bench.workloads import OURS, THEIRS, WORKLOADS, Workload
from kafkaraw import Admin

RESULTS = Path(__file__).with_name("results")
WORKER_SECONDS_MAX = 600


class BenchError(click.ClickException):
    """A measurement that means nothing: a worker failed, or records are missing."""


def fill(settings: Settings, bootstrap_servers: str, topic: str) -> None:
    """Write the records that the consuming workloads read, evenly over the partitions, with the rival's producer."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "batch.size": settings.batch_size,
            "batch.num.messages": 1_000_000,
            "compression.type": settings.compression,
            "linger.ms": 50,
            "queue.buffering.max.messages": settings.queue_messages,
        }
    )
    made = values(settings)
    for number in range(settings.records):
        while True:
            try:
                producer.produce(topic, made[number % len(made)], partition=number % settings.partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60) != 0:
        raise BenchError("the topic to read could not be filled")


def measure(workload: Workload, client: str, settings: Settings, bootstrap_servers: str, topic: str) -> Measurement:
    """Run one worker."""
    command = [sys.executable, "-m", "bench.worker", workload.name, client, settings.to_json()]
    done = subprocess.run(
        [*command, bootstrap_servers, topic], capture_output=True, text=True, timeout=WORKER_SECONDS_MAX, check=False
    )
    if done.returncode != 0:
        raise BenchError(f"{workload.name} with {client} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    expected = settings.records if workload.produces else settings.records - 1  # the first comes before the watch
    if found["records"] != expected:
        raise BenchError(f"{workload.name} with {client}: {found['records']} of {expected} records")
    if workload.produces:
        there = count(settings.partitions, bootstrap_servers, topic)
        if settings.acks != "0" and there != settings.records + 1:  # and the warm-up record
            raise BenchError(f"{workload.name} with {client}: {there} records arrived, not {settings.records + 1}")
    return Measurement(workload.name, client, found["records"], found["seconds"], found["cpu_seconds"])


def run(
    workloads: Sequence[Workload], settings: Settings, repeats: int, bootstrap_servers: str, console: Console
) -> list[Measurement]:
    """All measurements, the clients taking turns."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    measurements = []
    with (
        Admin(bootstrap_servers=bootstrap_servers) as admin,
        Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress,
        contextlib.ExitStack() as stack,
    ):
        task = progress.add_task("filling a topic", total=repeats * len(workloads) * 2)
        filled = ""
        if not all(workload.produces for workload in workloads):
            filled = stack.enter_context(new_topic(admin, settings.partitions))
            fill(settings, bootstrap_servers, filled)
        for repeat in range(repeats):
            for workload in workloads:
                for client in (OURS, THEIRS) if repeat % 2 == 0 else (THEIRS, OURS):
                    progress.update(task, description=f"{workload.name}, {client}")
                    if workload.produces:
                        with new_topic(admin, settings.partitions) as topic:
                            found = measure(workload, client, settings, bootstrap_servers, topic)
                    else:
                        found = measure(workload, client, settings, bootstrap_servers, filled)
                    measurements.append(found)
                    progress.advance(task)
    return measurements


@click.command()
@click.option("--bootstrap-server", help="Measure against this broker instead of the embedded one.")
@click.option("--records", default=Settings().records, show_default=True, type=click.IntRange(1000))
@click.option(
    "--repeats", default=5, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown."
)
@click.option("--value-bytes", default=Settings().value_bytes, show_default=True, type=click.IntRange(1))
@click.option("--partitions", default=Settings().partitions, show_default=True, type=click.IntRange(1))
@click.option("--acks", default=Settings().acks, show_default=True, type=click.Choice(["0", "1", "all"]))
@click.option("--idempotent/--not-idempotent", default=Settings().idempotent, show_default=True)
@click.option(
    "--compression",
    default=Settings().compression,
    show_default=True,
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
)
@click.option("--batch-size", default=Settings().batch_size, show_default=True, type=click.IntRange(1000))
@click.option("--linger-ms", default=Settings().linger_ms, show_default=True, type=click.IntRange(0))
@click.option("--only", multiple=True, type=click.Choice(list(WORKLOADS)), help="These workloads only.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Result file (JSON).")
def main(
    bootstrap_server: str | None, repeats: int, only: tuple[str, ...], output: Path | None, **chosen: object
) -> None:
    """Produce and consume, ours and confluent-kafka's side by side."""
    settings = Settings(**chosen)  # type: ignore[arg-type]  # click has checked them
    console = Console()
    workloads = [WORKLOADS[name] for name in only or WORKLOADS]
    with broker_at(bootstrap_server) as (bootstrap_servers, name):
        about = environment(name)
        for key, value in about.items():
            console.print(f"{key}: {value}", highlight=False)
        console.print(f"settings: {settings.describe()}; {repeats} runs of each", highlight=False)
        measurements = run(workloads, settings, repeats, bootstrap_servers, console)
    show(measurements, console)
    path = output or RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    write(path, settings, about, measurements)
    console.print(f"written to {path}", highlight=False)


if __name__ == "__main__":
    main()
