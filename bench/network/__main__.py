"""`make bench-network`: what the way to a broker costs, against bare sockets in the same run.

Every measurement is a fresh process; the kinds take turns, so that what else happens on the machine hits all of them;
tables show medians. Round trips go to a server that answers with bytes made beforehand, and to the embedded broker.
Start at `ROUND_TRIPS` and `main`.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.network.cores import ANY, APART, ONE
from bench.network.peers import peers
from bench.network.settings import Settings
from bench.worker import measured_by

RESULTS: Final = Path(__file__).parents[1] / "results"
ASYNC_TIMES_MAX: Final = 3.0
BLOCKING_TIMES_MAX: Final = 8.0
READS_SHARE_MIN: Final = 0.9
CLIENTS: Final = ("bare", "bare-asyncio", "async", "blocking")
ROUND_TRIPS: Final = [(work, peer) for peer in ("echo", "echo-all", "broker") for work in CLIENTS]
READS: Final = [("bare-reads", "echo"), ("link-reads", "echo"), ("our-reads", "echo")]
SERVING: Final = [
    ("connections", "echo"),
    ("connections", "broker"),
    ("pipelined", "echo-all"),
    ("pipelined", "broker"),
    ("metadata", "broker"),
]
PEERS: Final = {
    "echo": "echo, brief answer",
    "echo-all": "echo, all APIs",
    "broker": "embedded broker",
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One worker's result."""

    work: str
    peer: str
    count: int
    seconds: float
    cpu_seconds: float
    bytes: int = 0

    @property
    def microseconds(self) -> float:
        """Each, by the wall clock."""
        return self.seconds / self.count * 1e6

    @property
    def cpu_microseconds(self) -> float:
        """Each, of the worker's process."""
        return self.cpu_seconds / self.count * 1e6

    @property
    def gigabytes_per_second(self) -> float:
        """By the wall clock."""
        return self.bytes / self.seconds / 1e9


def measure(work: str, peer: str, settings: Settings, addresses: dict[str, str]) -> Measurement:
    """Run one worker."""
    found = measured_by("bench.network.worker", work, settings.to_json(), addresses[peer], what=f"{work} at {peer}")
    return Measurement(work, peer, **found)


class Medians:
    """The middle of what was measured, by kind."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self._measurements = measurements

    def of(self, work: str, peer: str, quantity: str) -> float:
        """The median of one quantity."""
        return statistics.median(
            getattr(it, quantity) for it in self._measurements if (it.work, it.peer) == (work, peer)
        )

    def times_bare(self, work: str, peer: str) -> float:
        """The median over the turns of the ratio to the bare socket in the same turn."""
        mine = [it for it in self._measurements if (it.work, it.peer) == (work, peer)]
        bare = [it for it in self._measurements if (it.work, it.peer) == ("bare", peer)]
        return statistics.median(ours.microseconds / each.microseconds for ours, each in zip(mine, bare, strict=True))

    def reads_share(self, work: str) -> float:
        """Throughput as a share of the bare protocol's, the median over the turns."""
        ours = [it for it in self._measurements if it.work == work]
        bare = [it for it in self._measurements if it.work == "bare-reads"]
        return statistics.median(
            each.gigabytes_per_second / other.gigabytes_per_second for each, other in zip(ours, bare, strict=True)
        )


def table(title: str, columns: Sequence[str]) -> Table:
    """An empty table in the house's style."""
    made = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number < 2 else "right", no_wrap=True)
    return made


def show(medians: Medians, settings: Settings, console: Console) -> None:
    """Print all tables."""
    trips = table("ApiVersions round trips, medians", ["peer", "client", "µs", "CPU µs", "times bare"])
    for work, peer in ROUND_TRIPS:
        wall, cpu = medians.of(work, peer, "microseconds"), medians.of(work, peer, "cpu_microseconds")
        ratio = "" if work == "bare" else f"{medians.times_bare(work, peer):.2f}"
        trips.add_row(PEERS[peer] if work == "bare" else "", work, f"{wall:.1f}", f"{cpu:.1f}", ratio)
    console.print(trips)
    reads = table(f"Reads of {settings.frame_bytes:,} bytes, medians", ["client", "", "GB/s", "CPU ns/kB", "share"])
    for work, _ in READS:
        speed = medians.of(work, "echo", "gigabytes_per_second")
        cpu = medians.of(work, "echo", "cpu_microseconds") * 1e6 / settings.frame_bytes
        share = "" if work == "bare-reads" else f"{medians.reads_share(work):.0%}"
        reads.add_row(work, "", f"{speed:.2f}", f"{cpu:.0f}", share)
    console.print(reads)
    serving = table("Serving a bare client, medians", ["what", "peer", "per second", "kB each"])
    for work, peer in SERVING:
        each = medians.of(work, peer, "bytes") / settings.requests / 1e3
        speed = 1e6 / medians.of(work, peer, "microseconds")
        serving.add_row(work, PEERS[peer], f"{speed:,.0f}", f"{each:,.1f}" if each else "")
    console.print(serving)


def aims(medians: Medians) -> dict[str, bool]:
    """Each aim in words, and whether it holds."""
    times_async, times_blocking = medians.times_bare("async", "echo"), medians.times_bare("blocking", "echo")
    share = medians.reads_share("link-reads")
    return {
        f"async: at most {ASYNC_TIMES_MAX:g} times a bare socket's round trip, is {times_async:.2f}": (
            times_async <= ASYNC_TIMES_MAX
        ),
        f"blocking: at most {BLOCKING_TIMES_MAX:g} times, is {times_blocking:.2f}": (
            times_blocking <= BLOCKING_TIMES_MAX
        ),
        f"a link's large reads: at least {READS_SHARE_MIN:.0%} of a bare BufferedProtocol's, is {share:.0%}": (
            share >= READS_SHARE_MIN
        ),
    }


@click.command()
@click.option("--turns", default=5, show_default=True, type=click.IntRange(1), help="Processes of each kind.")
@click.option("--round-trips", default=Settings().round_trips, show_default=True, type=click.IntRange(10))
@click.option("--frame-bytes", default=Settings().frame_bytes, show_default=True, type=click.IntRange(1))
@click.option("--frames", default=Settings().frames, show_default=True, type=click.IntRange(10))
@click.option("--in-flight", default=Settings().in_flight, show_default=True, type=click.IntRange(1, 10))
@click.option("--connections", default=Settings().connections, show_default=True, type=click.IntRange(1))
@click.option("--topics", default=Settings().topics, show_default=True, type=click.IntRange(1))
@click.option("--requests", default=Settings().requests, show_default=True, type=click.IntRange(1))
@click.option("--pipelined", default=Settings().pipelined, show_default=True, type=click.IntRange(100))
@click.option("--window", default=Settings().window, show_default=True, type=click.IntRange(1, 100))
@click.option(
    "--cores",
    default=Settings().cores,
    show_default=True,
    type=click.Choice([APART, ONE, ANY]),
    help="Client and servers on cores of their own, all on one, or as it comes.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Result file (JSON).")
def main(turns: int, output: Path | None, **chosen: object) -> None:
    """Measure the network layer; says which aims hold."""
    settings = Settings(**chosen)  # type: ignore[arg-type]  # click has checked them
    console = Console(width=None if sys.stdout.isatty() else 120)
    measurements = []
    with peers(settings) as (addresses, echo):
        about = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
        console.print(f"{about}; echo server: {echo}; {turns} processes of each kind, in turns", highlight=False)
        console.print(f"settings: {settings.describe()}", highlight=False)
        kinds = [*ROUND_TRIPS, *READS, *SERVING]
        for turn in range(turns):
            for work, peer in kinds if turn % 2 == 0 else reversed(kinds):
                measurements.append(measure(work, peer, settings, addresses))
    medians = Medians(measurements)
    show(medians, settings, console)
    if settings.cores != APART:
        console.print("The aims are for client and servers on cores of their own.")
    for aim, holds in aims(medians).items():
        console.print(f"{'met   ' if holds else 'MISSED'} {aim}", highlight=False)
    path = output or RESULTS / f"network-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"environment": about, "echo": echo, "settings": asdict(settings)}
    path.write_text(json.dumps({**content, "measurements": [asdict(it) for it in measurements]}, indent=1) + "\n")
    console.print(f"written to {path}", highlight=False)


if __name__ == "__main__":
    main()
