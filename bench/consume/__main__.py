"""`make bench-consume`: the goals for reading, held against other clients on the same topics in one run.

Every measurement is a fresh process; the readers take turns, so that what else happens on the machine hits all; ratios
are of medians. The broker runs in a process of its own and is not measured. Start at `ROWS`.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from bench.consume import joining
from bench.consume.readers import BARE, FETCH_QUEUE_BACKOFF_MS, READERS, Job
from bench.report import Goal, Line, Report, environment, output_options
from bench.settings import Settings
from bench.topics import apache_kafka, broker_at, fill, new_topic
from bench.worker import BenchError, measured_by
from kafkaraw import Admin

JUDGED: Final = {"cpu": "CPU µs per record", "rate": "records/s", "join": "ms to the first record"}
DIGITS: Final = {"cpu": ".3f", "rate": ",.0f", "join": ".0f"}


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
class Row:
    """One line of the table: how many times as good as the rival a reader has to be.

    Attributes:
        quantity: "cpu" is CPU time per record of the client's process, "rate" is records per second.
    """

    reader: str
    rival: str
    data: Data
    quantity: str
    goal: Goal

    @property
    def name(self) -> str:
        """What to call it."""
        return f"{self.reader}, {self.data}"


ROWS: Final = (
    Row("iterate", "confluent consume", PLAIN, "cpu", Goal(3, 4.5)),
    Row("iterate", "confluent consume", LZ4, "cpu", Goal(2.5, 3.5)),
    Row("iterate", "confluent consume", PLAIN, "rate", Goal(2.5, 3.5)),
    Row("iterate", "confluent poll", PLAIN, "rate", Goal(6, 10)),
    Row("arrow", "confluent arrow", PLAIN, "cpu", Goal(8, 12)),
    Row("arrow", "confluent arrow", LZ4, "cpu", Goal(5, 7)),
    Row("arrow", "confluent arrow", PLAIN, "rate", Goal(5, 8)),
    Row("iterate", "confluent consume", KILOBYTE, "cpu", Goal(2, 2.3)),
    Row("arrow", "confluent arrow", KILOBYTE, "cpu", Goal(3, 4)),
    Row("iterate", "confluent consume", LARGE, "cpu", Goal(1, 1.5)),
    Row("iterate", "confluent consume", LARGE, "rate", Goal(1, 1.5)),
    Row("arrow", "confluent arrow", LARGE, "cpu", Goal(1, 1.5)),
    Row("iterate", "aiokafka", PLAIN, "cpu", Goal(7, 13)),
    Row("iterate", "kafka-python", PLAIN, "cpu", Goal(25, 45)),
    Row("fallback", "confluent consume", PLAIN, "cpu", Goal(0.4, 0.5)),
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
        """Records per second, or microseconds of CPU per record."""
        return self.cpu_seconds * 1e6 / self.records if name == "cpu" else self.records / self.seconds


@dataclass(frozen=True, slots=True)
class Joined:
    """One start of a member, once; see `joining.py`.

    Attributes:
        row: "join classic" or "join KIP-848".
        who: "kafkaraw" or "confluent".
    """

    row: str
    who: str
    seconds: float
    cpu_seconds: float


JOIN_GOAL: Final = Goal(1, 2)


def joins(admin: Admin, bootstrap_servers: str, rows: Iterable[str], turns: int) -> list[Joined]:
    """Let one member of a new group start, again and again, by turns of the clients."""
    runs: list[Joined] = []
    settings = Settings(records=1000)
    with new_topic(admin, settings.partitions) as topic:
        fill(settings, bootstrap_servers, topic)
        for turn in range(2 * turns):  # short ones: so there can be more of them
            for row in rows:
                for who in joining.JOINERS if turn % 2 == 0 else reversed(joining.JOINERS):
                    arguments = (who, joining.PROTOCOLS[row], bootstrap_servers, topic)
                    found = measured_by("bench.consume.joining", *arguments, what=f"{row} of {who}")
                    runs.append(Joined(row, who, **found))
    return runs


def line_of_join(row: str, runs: Sequence[Joined]) -> Line:
    """The medians of both clients, and how many times as fast ours is."""
    mine = [run for run in runs if (run.row, run.who) == (row, "kafkaraw")]
    other = [run for run in runs if (run.row, run.who) == (row, "confluent")]
    ours, theirs = (1000 * statistics.median(run.seconds for run in side) for side in (mine, other))
    cpu = statistics.median(run.cpu_seconds for run in other) / statistics.median(run.cpu_seconds for run in mine)
    return Line(row, JUDGED["join"], ours, JOIN_GOAL, theirs / ours, "confluent", theirs, cpu, DIGITS["join"])


def read(reader: str, job: Job, data: Data) -> Run:
    """Run one worker.

    Raises:
        BenchError: it failed, or read something else than there is.
    """
    share = READERS[reader].records_share
    own = Job(**asdict(job) | {"records": max(1000, int(job.records * share))})
    environ = {"KAFKARAW_IMPL": READERS[reader].implementation}
    arguments = (reader, own.to_json())
    found = measured_by("bench.consume.readers", *arguments, what=f"{reader} on {data}", environ=environ)
    records, left_over = divmod(found["bytes"], data.value_bytes)
    # Ours may be given more than it was to read, when that is not all there is: a whole batch at a time.
    if left_over or records < own.records - 1 or records > job.records:
        raise BenchError(f"{reader} on {data}: read {records} of {own.records} records")
    return Run(reader, str(data), records, found["seconds"], found["cpu_seconds"])


def measure(
    admin: Admin, bootstrap_servers: str, data: Data, readers: Iterable[str], records: int, turns: int
) -> list[Run]:
    """Fill a topic and let the readers take turns."""
    settings = Settings(records=records, value_bytes=data.value_bytes, compression=data.compression)
    order, runs = list(readers), []
    with new_topic(admin, settings.partitions) as topic:
        fill(settings, bootstrap_servers, topic)
        job = Job(bootstrap_servers, topic, settings.partitions, records, data.value_bytes)
        for turn in range(turns):
            for reader in order if turn % 2 == 0 else reversed(order):
                runs.append(read(reader, job, data))  # noqa: PERF401  # a run that fails leaves nothing half done
    return runs


def median(runs: Sequence[Run], reader: str, data: Data, quantity: str) -> float:
    """The middle of what one reader did."""
    return statistics.median(it.quantity(quantity) for it in runs if (it.reader, it.data) == (reader, str(data)))


def line_of(row: Row, runs: Sequence[Run]) -> Line:
    """The medians of a row, and their ratio."""
    ours, theirs = (median(runs, reader, row.data, row.quantity) for reader in (row.reader, row.rival))
    cpu = median(runs, row.rival, row.data, "cpu") / median(runs, row.reader, row.data, "cpu")
    got = cpu if row.quantity == "cpu" else ours / theirs
    return Line(row.name, JUDGED[row.quantity], ours, row.goal, got, row.rival, theirs, cpu, DIGITS[row.quantity])


def by_cpu_only(rows: Iterable[Row]) -> list[Row]:
    """The rows, judged by CPU; of two that are then the same, the one that was meant so."""
    by_cpu = sorted(rows, key=lambda row: row.quantity != "cpu")
    first: dict[tuple[str, str, Data], Row] = {}
    for row in by_cpu:
        first.setdefault((row.reader, row.rival, row.data), dataclasses.replace(row, quantity="cpu"))
    return list(first.values())


@click.command()
@click.option("--bootstrap-server", help="Measure against this broker instead of the embedded one; judged by CPU.")
@click.option("--apache", is_flag=True, help="Start Apache Kafka and measure against that; judged by CPU.")
@click.option(
    "--by-cpu", is_flag=True, help="Judge rates by CPU per record: for a machine that does other things, too."
)
@click.option("--bare", is_flag=True, help="Let bare sockets take turns, too: what no reader can beat.")
@click.option(
    "--megabytes",
    default=800,
    show_default=True,
    type=click.IntRange(1),
    help="Values of 100 bytes in a topic; of larger ones twice as much. Ours reads 200 MB in a fifth of a second, in "
    "which memory that is touched for the first time, and imports, count.",
)
@click.option("--turns", default=5, show_default=True, type=click.IntRange(1), help="Runs of each; medians count.")
@click.option(
    "--only", multiple=True, type=click.Choice([*READERS, *joining.PROTOCOLS]), help="Rows of these readers only."
)
@click.option(
    "--data",
    "only_data",
    multiple=True,
    type=click.Choice(sorted({str(row.data) for row in ROWS})),
    help="Rows with these data only.",
)
@output_options
def main(
    bootstrap_server: str | None,
    apache: bool,
    by_cpu: bool,
    bare: bool,
    megabytes: int,
    turns: int,
    only: tuple[str, ...],
    only_data: tuple[str, ...],
    output: Path | None,
    picture: Path | None,
) -> None:
    """Read topics with our client and with others, and hold the factors against what they must be."""
    report = Report("consume", output, picture)
    rows = [row for row in ROWS if (not only or row.reader in only) and (not only_data or str(row.data) in only_data)]
    join_rows = [row for row in joining.PROTOCOLS if (not only or row in only) and not only_data]
    if by_cpu or apache or bootstrap_server is not None:
        rows, join_rows = by_cpu_only(rows), []
    runs: list[Run] = []
    joined: list[Joined] = []
    with (
        apache_kafka() if apache else broker_at(bootstrap_server, joining.NO_WAIT) as (servers, name),
        Admin(bootstrap_servers=servers) as admin,
    ):
        settings = {
            "megabytes": megabytes,
            "turns": turns,
            "fetch.queue.backoff.ms": FETCH_QUEUE_BACKOFF_MS,
            "check.crcs": "both",
        }
        report.begin(environment(name), settings)
        for data in dict.fromkeys(row.data for row in rows):
            named = [reader for row in rows if row.data == data for reader in (row.reader, row.rival)]
            count = data.records(megabytes * 1_000_000)
            runs += measure(admin, servers, data, dict.fromkeys(named + list(BARE if bare else ())), count, turns)
        if join_rows:
            joined = joins(admin, servers, join_rows, turns)
    for reader in dict.fromkeys(run.reader for run in runs):
        report.say(f"{reader}: {READERS[reader].does}")
    for reader, data_text in dict.fromkeys((run.reader, run.data) for run in runs if run.reader in BARE):
        cpu = statistics.median(it.quantity("cpu") for it in runs if (it.reader, it.data) == (reader, data_text))
        report.say(f"{reader}, {data_text}: {cpu:.3f} {JUDGED['cpu']}")
    if joined:
        report.say("join: from making the consumer to its first record, in a process that has done nothing else")
    lines = [line_of(row, runs) for row in rows] + [line_of_join(row, joined) for row in join_rows]
    report.publish(lines, [*runs, *joined])


if __name__ == "__main__":
    main()
