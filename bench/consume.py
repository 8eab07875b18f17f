"""`python -m bench.consume`: the goals for reading, held against other clients on the same topics in one run.

Every measurement is a fresh process; the readers take turns, so that what else happens on the machine hits all; ratios
are of medians. The broker runs in a process of its own and is not measured. Start at `GOALS`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.__main__ import RESULTS, broker_at, fill
from bench.consume_readers import FETCH_QUEUE_BACKOFF_MS, READERS, Job
from bench.report import environment
from bench.settings import Settings
from kafkaraw import Admin, NewTopic

WORKER_SECONDS_MAX: Final = 600


@dataclass(frozen=True, slots=True)
class Data:
    """What a topic is filled with; as many bytes of values as the others have."""

    value_bytes: int = 100
    compression: str = "none"

    def __str__(self) -> str:
        return f"{self.value_bytes} B {self.compression}"

    def records(self, values_bytes: int) -> int:
        """How many records make so many bytes; large ones are given more bytes, so that the run is long enough."""
        return max(2000, values_bytes * (2 if self.value_bytes > 100 else 1) // self.value_bytes)


PLAIN, LZ4, KILOBYTE, LARGE = Data(), Data(compression="lz4"), Data(1_000), Data(10_000)


@dataclass(frozen=True, slots=True)
class Goal:
    """One line of the table: how many times as good as the rival a reader has to be.

    Attributes:
        quantity: "cpu" is CPU time per record of the client's process, "rate" is records per second.
    """

    reader: str
    rival: str
    data: Data
    quantity: str
    must: float
    aim: float


GOALS: Final = (
    Goal("iterate", "confluent consume", PLAIN, "cpu", 3, 4.5),
    Goal("iterate", "confluent consume", LZ4, "cpu", 2.5, 3.5),
    Goal("iterate", "confluent consume", PLAIN, "rate", 2.5, 3.5),
    Goal("iterate", "confluent poll", PLAIN, "rate", 6, 10),
    Goal("arrow", "confluent arrow", PLAIN, "cpu", 8, 12),
    Goal("arrow", "confluent arrow", LZ4, "cpu", 5, 7),
    Goal("arrow", "confluent arrow", PLAIN, "rate", 5, 8),
    Goal("iterate", "confluent consume", KILOBYTE, "cpu", 2, 2.3),
    Goal("arrow", "confluent arrow", KILOBYTE, "cpu", 3, 4),
    Goal("iterate", "confluent consume", LARGE, "cpu", 1, 1.5),
    Goal("iterate", "confluent consume", LARGE, "rate", 1, 1.5),
    Goal("arrow", "confluent arrow", LARGE, "cpu", 1, 1.5),
    Goal("iterate", "aiokafka", PLAIN, "cpu", 7, 13),
    Goal("iterate", "kafka-python", PLAIN, "cpu", 25, 45),
    Goal("fallback", "confluent consume", PLAIN, "cpu", 0.4, 0.5),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One reader, once."""

    reader: str
    data: str
    records: int
    seconds: float
    cpu_seconds: float

    def quantity(self, name: str) -> float:
        """Higher is better: records per second, by the wall clock or of CPU time."""
        return self.records / (self.cpu_seconds if name == "cpu" else self.seconds)


def read(reader: str, job: Job, data: Data) -> Run:
    """Run one worker.

    Raises:
        click.ClickException: it failed, or read something else than there is.
    """
    share = READERS[reader].records_share
    own = Job(**asdict(job) | {"records": max(1000, int(job.records * share))})
    environ = os.environ | {"KAFKARAW_IMPL": READERS[reader].implementation}
    command = [sys.executable, "-m", "bench.consume_readers", reader, own.to_json()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WORKER_SECONDS_MAX, check=False, env=environ)
    if done.returncode:
        raise click.ClickException(f"{reader} on {data} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    records, left_over = divmod(found["bytes"], data.value_bytes)
    # Ours may be given more than it was to read, when that is not all there is: a whole batch at a time.
    if left_over or records < own.records - 1 or records > job.records:
        raise click.ClickException(f"{reader} on {data}: read {records} of {own.records} records")
    return Run(reader, str(data), records, found["seconds"], found["cpu_seconds"])


def measure(
    admin: Admin, bootstrap_servers: str, data: Data, readers: Iterable[str], records: int, repeats: int
) -> list[Run]:
    """Fill a topic and let the readers take turns."""
    settings = Settings(records=records, value_bytes=data.value_bytes, compression=data.compression)
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    admin.create_topics([NewTopic(topic, partitions=settings.partitions, replication_factor=1)])
    fill(settings, bootstrap_servers, topic)
    job = Job(bootstrap_servers, topic, settings.partitions, records, data.value_bytes)
    order = list(readers)
    runs = []
    for repeat in range(repeats):
        for reader in order if repeat % 2 == 0 else reversed(order):
            runs.append(read(reader, job, data))  # noqa: PERF401  # a run that fails leaves nothing half done
    admin.delete_topics([topic])
    return runs


def median(runs: Sequence[Run], reader: str, data: Data, quantity: str) -> float:
    """The middle of what one reader did."""
    return statistics.median(it.quantity(quantity) for it in runs if (it.reader, it.data) == (reader, str(data)))


def show(runs: Sequence[Run], goals: Sequence[Goal], console: Console) -> bool:
    """Print what was measured, and the goals; gives whether every must is met."""
    cells = dict.fromkeys((run.reader, run.data) for run in runs)
    numbers = Table(title="Medians", title_justify="left", box=SIMPLE, pad_edge=False)
    for name in ("reader", "data", "records/s", "CPU µs per record"):
        numbers.add_column(name, justify="left" if name in {"reader", "data"} else "right")
    for reader, data in cells:
        mine = [run for run in runs if (run.reader, run.data) == (reader, data)]
        rate = statistics.median(run.quantity("rate") for run in mine)
        cpu = 1e6 / statistics.median(run.quantity("cpu") for run in mine)
        numbers.add_row(reader, data, f"{rate:,.0f}", f"{cpu:.3f}")
    console.print(numbers)
    table = Table(title="Goals: times as good as the rival", title_justify="left", box=SIMPLE, pad_edge=False)
    for name in ("reader", "rival", "data", "", "must", "aim", "got", ""):
        table.add_column(name, justify="right" if name in {"must", "aim", "got"} else "left")
    all_met = True
    for goal in goals:
        got = median(runs, goal.reader, goal.data, goal.quantity) / median(runs, goal.rival, goal.data, goal.quantity)
        all_met &= got >= goal.must
        verdict = "aim met" if got >= goal.aim else "met" if got >= goal.must else "MISSED"
        what = (goal.reader, goal.rival, str(goal.data), goal.quantity)
        table.add_row(*what, f"{goal.must:g}", f"{goal.aim:g}", f"{got:.2f}", verdict)
    console.print(table)
    return all_met


@click.command()
@click.option("--bootstrap-server", help="Measure against this broker instead of the embedded one.")
@click.option("--megabytes", default=200, show_default=True, type=click.IntRange(1), help="Values in a topic.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="Runs of each; medians count.")
@click.option("--only", multiple=True, type=click.Choice(list(READERS)), help="Goals of these readers only.")
@click.option("--data", "only_data", multiple=True, help='Goals with these data only, as in "100 B lz4".')
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Result file (JSON).")
def main(
    bootstrap_server: str | None,
    megabytes: int,
    repeats: int,
    only: tuple[str, ...],
    only_data: tuple[str, ...],
    output: Path | None,
) -> None:
    """Read topics with our client and with others; exits with 1 when a goal that must be met is not."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    goals = [
        goal for goal in GOALS if (not only or goal.reader in only) and (not only_data or str(goal.data) in only_data)
    ]
    runs: list[Run] = []
    with broker_at(bootstrap_server) as (servers, name), Admin(bootstrap_servers=servers) as admin:
        about = environment(name)
        for key, value in about.items():
            console.print(f"{key}: {value}", highlight=False)
        console.print(f"confluent-kafka with fetch.queue.backoff.ms={FETCH_QUEUE_BACKOFF_MS}; {repeats} runs of each")
        for data in dict.fromkeys(goal.data for goal in goals):
            named = (reader for goal in goals if goal.data == data for reader in (goal.reader, goal.rival))
            count = data.records(megabytes * 1_000_000)
            runs += measure(admin, servers, data, dict.fromkeys(named), count, repeats)
    for reader in dict.fromkeys(run.reader for run in runs):
        console.print(f"{reader}: {READERS[reader].does}", highlight=False, markup=False)
    all_met = show(runs, goals, console)
    path = output or RESULTS / f"consume-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"environment": about, "runs": [asdict(run) for run in runs]}, indent=1) + "\n")
    console.print(f"written to {path}", highlight=False)
    if not all_met:
        sys.exit(1)


if __name__ == "__main__":
    main()
