"""`make bench-spark`: the jobs of `rows.py` with both connectors, in turns, and what the factors must be.

Each connector runs in a fresh Spark driver per turn, with its jobs one after another and a read before the first, so
that the numbers are those of a warm JVM; the connectors take turns in going first. Factors are medians of those of the
turns. The broker is ours, in a process of its own, unless another one is named.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from bench.report import Line, Report, environment, output_options
from bench.spark import peers, worker
from bench.spark.rows import EXACTLY_ONCE, LOG_DIRS, OF_THEIR_BROKER, ROWS, START, TRICKLES
from bench.topics import broker_at, new_topic
from kafkaraw import Admin, Producer
from kafkaraw.broker import EmbeddedBroker

SECONDS_MAX: Final = 7_200
AT_LEAST_ONCE: Final = "copy, at least once"
TICK_S: Final = 0.02
SMALL_RECORDS: Final = 100


@dataclass(frozen=True, slots=True)
class Measurement:
    """One job of one turn."""

    row: str
    connector: str
    turn: int
    number: float


def fill(servers: str, topic: str, records: int, partitions: int) -> None:
    """Write the records that are read: keys of 8 bytes, values of 100."""
    value = (b"0123456789 the quick brown fox jumps over the lazy dog " * 2)[:100]
    with Producer(bootstrap_servers=servers, linger_ms=5, batch_size=262_144) as producer:
        for number in range(records):
            producer.send(topic, value, b"%08d" % number, partition=number % partitions)
        producer.flush()


@contextlib.contextmanager
def in_files(records: int) -> Iterator[dict[str, str]]:
    """A broker that stores the records in files; options for both ways to read them."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-logs-") as folder,
        EmbeddedBroker(process=True, data_dir=folder) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        new_topic(admin, 4) as topic,
    ):
        fill(broker.bootstrap_servers, topic, records, 4)
        yield {"logDirs": folder, "kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}


class Trickle:
    """Writes a few records to a topic, again and again, as long as one is set."""

    def __init__(self, servers: str, partitions_of: dict[str, int]) -> None:
        self.topic: str | None = None
        self._partitions_of = partitions_of
        self._ended = threading.Event()
        self._producer = Producer(bootstrap_servers=servers, linger_ms=0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(TICK_S):
            topic = self.topic
            for partition in range(self._partitions_of[topic] if topic else 0):
                self._producer.send(str(topic), b"x" * 100, partition=partition)

    def close(self) -> None:
        """Write no more."""
        self._ended.set()
        self._thread.join()
        self._producer.close()


def measure(connector: str, turn: int, asked: dict[str, object], trickle: Trickle) -> Iterator[Measurement]:
    """Run the jobs with one connector."""
    ours = connector == "kafkaraw"
    given = {**asked, "connector": connector, "jars": [] if ours else [str(jar) for jar in peers.jars()]}
    what = f"the jobs with format {connector}"
    for said in peers.said_by(worker.__file__, given, ours=ours, what=what, seconds_max=SECONDS_MAX):
        if "trickle" in said:
            trickle.topic = said["trickle"]
        elif "row" in said:
            yield Measurement(said["row"], connector, turn, said["number"])
    trickle.topic = None


def run(servers: str, records: int, turns: int, names: Sequence[str], report: Report) -> list[Measurement]:
    """All measurements."""
    found: list[Measurement] = []
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(Admin(bootstrap_servers=servers))
        source = stack.enter_context(new_topic(admin, 4))
        trickles = {name: stack.enter_context(new_topic(admin, count)) for name, count in TRICKLES.items()}
        small = stack.enter_context(new_topic(admin, 4))
        logs = stack.enter_context(in_files(records)) if LOG_DIRS in names else {}
        fill(servers, small, SMALL_RECORDS, 4)
        report.say(f"writing {records:,} records")
        fill(servers, source, records, 4)
        trickle = Trickle(servers, {trickles[name]: count for name, count in TRICKLES.items()})
        stack.callback(trickle.close)
        for turn in range(turns):
            for connector in ("kafka", "kafkaraw") if turn % 2 == 0 else ("kafkaraw", "kafka"):
                ours = connector == "kafkaraw"
                if not ours and all(name in (EXACTLY_ONCE, LOG_DIRS) for name in names):
                    continue
                rows = [name for name in names if ours or name not in (EXACTLY_ONCE, LOG_DIRS)]
                if ours and LOG_DIRS in names:
                    rows.insert(rows.index(LOG_DIRS) + turn % 2, OF_THEIR_BROKER)
                if ours and EXACTLY_ONCE in names:
                    rows.append(AT_LEAST_ONCE)
                with contextlib.ExitStack() as targets:
                    asked = {
                        "servers": servers, "source": source, "records": records, "trickles": trickles, "rows": rows,
                        "small": small, "logs": logs,
                        "targets": [targets.enter_context(new_topic(admin, 4)) for _ in range(3)],
                    }  # fmt: skip
                    for each in measure(connector, turn, asked, trickle):
                        found.append(each)
                        report.say(f"turn {turn}, {connector}: {each.row}: {each.number:{digits(each.row)}}")
    return found


def digits(row: str) -> str:
    """How the numbers of a row are written."""
    return ",.2f" if row == START else ",.0f"


def line_of(name: str, found: Sequence[Measurement]) -> Line:
    """The medians of a row; factors are taken within a turn."""
    row = ROWS[name]
    others = {EXACTLY_ONCE: ("kafkaraw", AT_LEAST_ONCE), LOG_DIRS: ("kafkaraw", OF_THEIR_BROKER)}
    other = others.get(name, ("kafka", name))
    ours = {each.turn: each.number for each in found if (each.connector, each.row) == ("kafkaraw", name)}
    theirs = {each.turn: each.number for each in found if (each.connector, each.row) == other}
    factor = statistics.median(ours[turn] / theirs[turn] for turn in ours)
    number, their_number = statistics.median(ours.values()), statistics.median(theirs.values())
    if name == START:
        return Line(name, "s to the end of the first micro-batch", number, row.goal, number, row.against, their_number,
                    digits=digits(name))  # fmt: skip
    judged = "ms per micro-batch" if name in TRICKLES else "rows/s"
    return Line(name, judged, number, row.goal, factor, row.against, their_number)


@click.command()
@click.option("--bootstrap-server", help="Measure against this broker instead of the embedded one.")
@click.option("--records", default=10_000_000, show_default=True, type=click.IntRange(1_500_000))
@click.option("--turns", default=3, show_default=True, type=click.IntRange(1), help="Runs of each; medians are shown.")
@click.option("--only", multiple=True, type=click.Choice(list(ROWS)), help="These rows only.")
@output_options
def main(
    bootstrap_server: str | None,
    records: int,
    turns: int,
    only: tuple[str, ...],
    output: Path | None,
    picture: Path | None,
) -> None:
    """Run Spark jobs with our connector and with Spark's own, and hold the factors against what they must be."""
    report = Report("spark", output, picture)
    names = list(only or ROWS)
    with broker_at(bootstrap_server) as (servers, name):
        about = environment(name) | {"spark-sql-kafka-0-10": f"{peers.SPARK_VERSION}, on pyspark of that version"}
        settings = {
            "records": f"{records:,} of 100 bytes with keys of 8", "partitions": 4, "master": "local[2]",
            "rows_per_batch": worker.ROWS_PER_BATCH, "maxTasks": "2 with 32 partitions",
            "session": "kafkaraw.spark.session() against Spark's defaults", "turns": turns,
        }  # fmt: skip
        report.begin(about, settings)
        found = run(servers, records, turns, names, report)
    report.publish([line_of(each, found) for each in names], found)


if __name__ == "__main__":
    main()
