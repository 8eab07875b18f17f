"""`make bench-tap`: confluent-kafka producing and consuming records of 1 KB through a tap, and directly.

The tap runs as `kafkaraw wire tap --quiet`, in a process of its own, and counts every exchange. Each measurement is a
fresh process; tapped and direct runs take turns. Bytes are those of the values; with lz4, about a third of them pass.
On a machine with few cores, client, broker and tap share them, so the rate of the tap is judged by its CPU time: the
megabytes that one core passes in a second.

The rows "tap alone" have a client and a broker that take little CPU time (`bench.tap.raw`), so that the tap is the
slowest of the three: Produce requests and Fetch answers of 64 KB to 1 MB. Start at `ROWS`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from bench.report import Goal, Line, Report, environment, output_options
from bench.tap.raw import KEYS, raw_broker
from bench.topics import apache_kafka, broker_at, new_topic
from bench.worker import BenchError, measured_by
from kafkaraw import Admin

MEGA: Final = 1_000_000
CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
STOP_SECONDS_MAX: Final = 30
RATE: Final = Goal(400, 800, unit="MB/s")
ADDED: Final = Goal(0.3, 0.1, less_is_better=True, unit="ms")
ROWS: Final = ("produce", "consume", "produce-lz4", "consume-lz4", "round-trip")
WAYS: Final = ("direct", "tap")
RAW_KB: Final = (64, 256, 1024)
RAW_WARMUP_FRAMES: Final = 100


@dataclass(frozen=True, slots=True)
class Run:
    """One workload, once; `tap_cpu_seconds` is 0 without a tap."""

    workload: str
    way: str
    records: float
    bytes: float
    seconds: float
    tap_cpu_seconds: float
    median_seconds: float = 0.0


@contextlib.contextmanager
def tap(servers: str) -> Iterator[tuple[str, int]]:
    """A tap in a process of its own: its address, and the process's id."""
    command = [sys.executable, "-m", "kafkaraw", "wire", "tap", "-b", servers, "--listen", "127.0.0.1:0", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"bootstrap.servers=(\S+);", said)
        if found is None:
            raise BenchError(f"the tap did not start: {said}{process.stderr.read()}")
        yield found[1], process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=STOP_SECONDS_MAX)


def cpu_seconds(process_id: int) -> float:
    """CPU time that a process has taken so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def measure(servers: str, records: int, round_trips: int, turns: int) -> list[Run]:
    """Let both ways take turns, the order reversed each time."""
    runs: list[Run] = []
    with tap(servers) as (tapped, process_id), Admin(bootstrap_servers=servers) as admin:
        for turn in range(turns):
            for way in WAYS if turn % 2 == 0 else WAYS[::-1]:
                with new_topic(admin, 2) as topic:
                    for workload in ROWS:
                        number = round_trips if workload == "round-trip" else records
                        before = cpu_seconds(process_id)
                        address = tapped if way == "tap" else servers
                        arguments = (workload, address, topic, str(number))
                        found = measured_by("bench.tap.worker", *arguments, what=f"{workload} ({way})")
                        taken = cpu_seconds(process_id) - before if way == "tap" else 0.0
                        runs.append(Run(workload, way, tap_cpu_seconds=taken, **found))
    return runs


def measure_raw(megabytes: int, turns: int) -> list[Run]:
    """Let both ways take turns with each size of frames and in each direction."""
    runs: list[Run] = []
    for kilobytes in RAW_KB:
        frame_bytes = kilobytes << 10
        number = max(megabytes * MEGA // frame_bytes, 1)
        with raw_broker(frame_bytes) as servers, tap(servers) as (tapped, process_id):
            for turn in range(turns):
                for workload in KEYS:
                    for way in WAYS if turn % 2 == 0 else WAYS[::-1]:
                        address = tapped if way == "tap" else servers
                        arguments = (workload, address, str(frame_bytes), str(RAW_WARMUP_FRAMES), str(number))
                        before = cpu_seconds(process_id)
                        found = measured_by("bench.tap.raw", *arguments, what=f"raw {workload} ({way})")
                        taken = cpu_seconds(process_id) - before if way == "tap" else 0.0
                        runs.append(Run(raw_name(workload, kilobytes), way, tap_cpu_seconds=taken, **found))
    return runs


def raw_name(workload: str, kilobytes: int) -> str:
    """Return what a row of raw load is called."""
    return f"tap alone, {workload} {kilobytes} KB"


def raw_lines_of(runs: Sequence[Run]) -> list[Line]:
    """Two lines for each workload and size of frames: by time, and by the tap's CPU time."""
    lines = []
    for workload in KEYS:
        for kilobytes in RAW_KB:
            name = raw_name(workload, kilobytes)
            wall, direct, by_cpu = _rates(runs, name)
            lines.append(Line(name, "MB/s, raw load", wall, RATE, wall, "direct", direct))
            lines.append(Line(name, "MB per CPU second of the tap", by_cpu, RATE, by_cpu))
    return lines


def lines_of(runs: Sequence[Run]) -> list[Line]:
    """Two lines for each rate, by time and by the tap's CPU time, and one for the round trip."""
    lines = []
    for workload in ROWS[:-1]:
        wall, direct, by_cpu = _rates(runs, workload)
        name = f"{workload} 1 KB".replace("-", " ")
        lines.append(Line(name, "MB per CPU second of the tap", by_cpu, RATE, by_cpu))
        lines.append(Line(name, "MB/s, all processes on these cores", wall, RATE, wall, "direct", direct))
    medians = [
        statistics.median(run.median_seconds * 1000 for run in _runs(runs, ROWS[-1], way)) for way in ("tap", "direct")
    ]
    added = medians[0] - medians[1]
    lines.append(Line("round trip, p50", "ms", medians[0], ADDED, added, "direct", medians[1], digits=".3f"))
    return lines


def _rates(runs: Sequence[Run], workload: str) -> tuple[float, float, float]:
    """Return the medians of megabytes per second through the tap, directly, and per CPU second of the tap."""
    direct, tapped = (_runs(runs, workload, way) for way in WAYS)
    wall, without = (statistics.median(run.bytes / run.seconds / MEGA for run in some) for some in (tapped, direct))
    by_cpu = statistics.median(run.bytes / max(run.tap_cpu_seconds, 1 / CLOCK_TICKS) / MEGA for run in tapped)
    return wall, without, by_cpu


def _runs(runs: Sequence[Run], workload: str, way: str) -> list[Run]:
    return [run for run in runs if (run.workload, run.way) == (workload, way)]


@click.command(help=__doc__)
@click.option("--records", default=400_000, show_default=True, help="Records of 1 KB in a run.")
@click.option("--round-trips", default=2000, show_default=True, help="Round trips in a run.")
@click.option("--raw-megabytes", default=1000, show_default=True, help="Megabytes in a run of raw load.")
@click.option("--turns", default=5, show_default=True, help="Runs of each.")
@click.option("--only-raw", is_flag=True, help="Measure the tap alone, without confluent-kafka.")
@click.option("--bootstrap-server", help="Measure with this broker instead of starting one.")
@click.option("--apache", is_flag=True, help="Measure with Apache Kafka, which the command starts.")
@output_options
def main(
    records: int,
    round_trips: int,
    raw_megabytes: int,
    turns: int,
    only_raw: bool,
    bootstrap_server: str | None,
    apache: bool,
    output: Path | None,
    picture: Path | None,
) -> None:
    """Measure, and show the table."""
    report = Report("tap", output, picture)
    settings = {"records": records, "round trips": round_trips, "raw megabytes": raw_megabytes, "turns": turns}
    runs: list[Run] = []
    if only_raw:
        report.begin(environment("prepared answers"), settings)
    else:
        with apache_kafka() if apache else broker_at(bootstrap_server) as (servers, name):
            report.begin(environment(name), settings)
            runs = measure(servers, records, round_trips, turns)
    raw_runs = measure_raw(raw_megabytes, turns)
    lines = ([] if only_raw else lines_of(runs)) + raw_lines_of(raw_runs)
    if not report.publish(lines, [*runs, *raw_runs]):
        sys.exit(1)


if __name__ == "__main__":
    main()
