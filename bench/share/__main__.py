"""`make bench-share`: our `ShareConsumer` against Java's `KafkaShareConsumer`, on the same Apache Kafka.

Both accept records implicitly, as the only member of a new share group that begins at the first record. Our consumer in
a classic group reads the same topic, to state what a share group costs. Every measurement is a fresh process; the
readers take turns; ratios are of medians. Start at `ROWS`.
"""

from __future__ import annotations

import statistics
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from bench.report import Goal, Line, Report, environment, output_options
from bench.settings import Settings
from bench.share.readers import READERS, Job
from bench.topics import apache_kafka, fill, new_topic
from bench.worker import BenchError, measured_by
from kafkaraw import Admin, ConfigResource, ConfigResourceType

JUDGED: Final = {"rate": "records/s", "cpu": "CPU µs per record"}
DIGITS: Final = {"rate": ",.0f", "cpu": ".3f"}
ROWS: Final = {"rate": Goal(1, 1.5), "cpu": Goal(1, 1.5)}
"""How many times as good as Java's share consumer ours has to be, by quantity."""
CLIENT_SETTINGS: Final = {
    "share.acknowledgement.mode": "implicit",
    "share.acquire.mode": "batch_optimized",
    "max.poll.records": 500,
    "fetch.min.bytes": 1,
    "fetch.max.wait.ms": 500,
    "fetch.max.bytes": 52_428_800,
    "check.crcs": "both",
}
"""The defaults of both share consumers."""


@dataclass(frozen=True, slots=True)
class Run:
    """One reader, once; `records` are those after the first poll."""

    reader: str
    records: int
    seconds: float
    cpu_seconds: float

    def quantity(self, name: str) -> float:
        """Records per second, or microseconds of CPU per record."""
        return self.cpu_seconds * 1e6 / self.records if name == "cpu" else self.records / self.seconds


def read(admin: Admin, reader: str, servers: str, topic: str, settings: Settings) -> Run:
    """Run one worker in a new group.

    Raises:
        BenchError: it failed, or read something else than there is.
    """
    group = f"bench-{uuid.uuid4().hex[:12]}"
    if reader != "classic":
        admin.alter_configs({ConfigResource(ConfigResourceType.GROUP, group): {"share.auto.offset.reset": "earliest"}})
    job = Job(servers, topic, group, settings.records)
    found = measured_by("bench.share.readers", reader, job.to_json(), what=reader)
    size = found.pop("bytes")
    if size != settings.records * settings.value_bytes:
        raise BenchError(f"{reader}: read {size} bytes of {settings.records * settings.value_bytes}")
    if found["records"] < settings.records / 2:
        raise BenchError(f"{reader}: the first poll brought more than half of all records; give more --records")
    return Run(reader, **found)


def measure(admin: Admin, servers: str, settings: Settings, turns: int) -> list[Run]:
    """Fill a topic and let the readers take turns, the order reversed each time."""
    runs: list[Run] = []
    with new_topic(admin, settings.partitions) as topic:
        fill(settings, servers, topic)
        for turn in range(turns):
            for reader in READERS if turn % 2 == 0 else reversed(READERS):
                runs.append(read(admin, reader, servers, topic, settings))  # noqa: PERF401  # a run may fail
    return runs


def median(runs: Sequence[Run], reader: str, quantity: str) -> float:
    """The middle of what one reader did."""
    return statistics.median(run.quantity(quantity) for run in runs if run.reader == reader)


def line_of(quantity: str, runs: Sequence[Run]) -> Line:
    """The medians of ours and Java's, and how many times as good ours is."""
    ours, theirs = (median(runs, reader, quantity) for reader in ("share", "java"))
    cpu = median(runs, "java", "cpu") / median(runs, "share", "cpu")
    got = cpu if quantity == "cpu" else ours / theirs
    return Line("share group", JUDGED[quantity], ours, ROWS[quantity], got, "java", theirs, cpu, DIGITS[quantity])


@click.command()
@click.option("--records", default=2_000_000, show_default=True, type=click.IntRange(1), help="Records of the topic.")
@click.option("--value-bytes", default=100, show_default=True, type=click.IntRange(1), help="Size of each value.")
@click.option("--partitions", default=4, show_default=True, type=click.IntRange(1), help="Partitions of the topic.")
@click.option("--turns", default=5, show_default=True, type=click.IntRange(1), help="Runs of each; medians count.")
@output_options
def main(
    records: int, value_bytes: int, partitions: int, turns: int, output: Path | None, picture: Path | None
) -> None:
    """Read a topic in share groups with our client and with Java's, and hold the factors against what they must be."""
    report = Report("share", output, picture)
    settings = Settings(records=records, value_bytes=value_bytes, partitions=partitions)
    with apache_kafka() as (servers, name), Admin(bootstrap_servers=servers) as admin:
        topic = {
            "records": records,
            "value_bytes": value_bytes,
            "partitions": partitions,
            "compression": settings.compression,
            "producer's batch.size": settings.batch_size,
            "turns": turns,
        }
        report.begin(environment(name), topic | CLIENT_SETTINGS)
        runs = measure(admin, servers, settings, turns)
    for reader, each in READERS.items():
        report.say(f"{reader}: {each.does}")
    for quantity, unit in JUDGED.items():
        ours, other = (median(runs, reader, quantity) for reader in ("share", "classic"))
        report.say(f"share group {ours:{DIGITS[quantity]}}, classic group {other:{DIGITS[quantity]}} {unit}")
    report.publish([line_of(quantity, runs) for quantity in ROWS], runs)


if __name__ == "__main__":
    main()
