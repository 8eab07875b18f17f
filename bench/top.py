"""`make bench-top`: what `kafkaraw top` costs a large cluster and itself: 10,000 topics, 5,000 groups.

The embedded broker runs in a child process. Topics have three partitions, groups have committed offsets of six.
Measured are snapshots with all parts, those of the view of topics and of that of groups: elapsed time, CPU of both
processes, bytes from the broker. Then the screen: the time to draw it and to filter it, and how many bytes a terminal
of 100 columns and 30 lines gets. Start at `measure`.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from kafkaraw import AsyncAdmin, NewTopic, Producer, TopicPartition
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.cli.top_screen import Screen, Shown
from kafkaraw.cli.top_terminal import LineWriter, changed_lines
from kafkaraw.monitoring import ALL_PARTS, ClusterStatus, Monitor, Part
from kafkaraw.monitoring.collector import TIMEOUT_S

PARTITIONS: Final = 3
PARTITIONS_OF_A_GROUP: Final = 6
TOPICS_OF_A_REQUEST: Final = 1_000
COMMITS_AT_ONCE: Final = 50
WIDTH, HEIGHT = 100, 30
PREPARE_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True)
class Cost:
    """What one kind of snapshot costs: medians of several."""

    name: str
    seconds: float
    client_cpu_s: float
    broker_cpu_s: float
    kilobytes: float


def cpu_of(process_id: int) -> float:
    """CPU that a process has used, in seconds."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def prepare(servers: str, topics: int, groups: int) -> None:
    """Make topics and groups, and write a record into each hundredth topic."""
    names = [f"topic-{number:05}" for number in range(topics)]
    async with AsyncAdmin(bootstrap_servers=servers) as admin:
        for start in range(0, topics, TOPICS_OF_A_REQUEST):
            chunk = [NewTopic(name, PARTITIONS, 1) for name in names[start : start + TOPICS_OF_A_REQUEST]]
            await admin.create_topics(chunk, timeout=PREPARE_TIMEOUT_S)

        async def commit(number: int) -> None:
            first = number * PARTITIONS_OF_A_GROUP // PARTITIONS
            keys = [
                TopicPartition(names[(first + at) % topics], partition)
                for at in range(PARTITIONS_OF_A_GROUP // PARTITIONS)
                for partition in range(PARTITIONS)
            ]
            await admin.alter_group_offsets(f"group-{number:04}", dict.fromkeys(keys, 0), timeout=PREPARE_TIMEOUT_S)

        for start in range(0, groups, COMMITS_AT_ONCE):
            await asyncio.gather(*map(commit, range(start, min(groups, start + COMMITS_AT_ONCE))))


def write(servers: str, topics: int) -> None:
    """Write ten records into each hundredth topic."""
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(0, topics, 100):
            for _ in range(10):
                producer.send(f"topic-{number:05}", b"x" * 100, partition=0)
        producer.flush()


async def measure(broker: EmbeddedBroker, topics: int, rounds: int) -> tuple[list[Cost], ClusterStatus]:
    """Make snapshots of each kind."""
    costs = []
    async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
        monitor = Monitor(admin)

        def received() -> int:
            return sum(int(of_broker["bytes_in"]) for of_broker in admin.metrics().values())

        async def once(parts: Collection[Part]) -> tuple[float, float, float, float]:
            write(broker.bootstrap_servers, topics)
            began, cpu, of_broker, bytes_before = (
                time.perf_counter(), time.process_time(), cpu_of(broker.process_id), received()
            )  # fmt: skip
            await monitor.refresh(parts, timeout_s=10 * TIMEOUT_S)
            return (
                time.perf_counter() - began,
                time.process_time() - cpu,
                cpu_of(broker.process_id) - of_broker,
                (received() - bytes_before) / 1000,
            )

        costs.append(Cost("first, all parts", *await once(ALL_PARTS)))
        for name, parts in (
            ("all parts", ALL_PARTS), ("topics, brokers", {Part.SIZES}), ("groups", {Part.GROUPS}), ("ends only", ())
        ):  # fmt: skip
            found = [await once(parts) for _ in range(rounds)]
            costs.append(Cost(name, *(statistics.median(column) for column in zip(*found, strict=True))))
        status = monitor.status
        assert status is not None
        return costs, status


def screen_times(status: ClusterStatus) -> dict[str, float]:
    """How long the screen takes, in milliseconds, and bytes of a refresh."""
    shown = Shown(status, servers="localhost:9092", clock="10:00:00")

    def timed(work: Callable[[], object]) -> float:
        times = []
        for _ in range(10):
            began = time.perf_counter()
            work()
            times.append((time.perf_counter() - began) * 1000)
        return statistics.median(times)

    def typed(screen: Screen) -> None:
        screen.press("1")
        screen.lines(shown, WIDTH, HEIGHT)
        screen.press("backspace")
        screen.lines(shown, WIDTH, HEIGHT)

    def groups() -> Screen:
        screen = Screen()
        screen.press("g")
        return screen

    screen = Screen()
    found = {
        "first draw of topics after a snapshot, ms": timed(lambda: Screen().lines(shown, WIDTH, HEIGHT)),
        "first draw of groups after a snapshot, ms": timed(lambda: groups().lines(shown, WIDTH, HEIGHT)),
        "other draws of topics, ms": timed(lambda: screen.lines(shown, WIDTH, HEIGHT)),
    }
    for key in "/topic-0":
        screen.press(key)
    found["a character of a filter, ms"] = timed(lambda: typed(screen)) / 2
    found["bytes of a whole screen"] = float(len(_encoded(Screen(), shown)))
    return found


def _encoded(screen: Screen, shown: Shown) -> bytes:
    writer = LineWriter(WIDTH)
    return changed_lines([], [writer.text(line) for line in screen.lines(shown, WIDTH, HEIGHT)]).encode()


@click.command(help=__doc__)
@click.option("--topics", default=10_000, show_default=True, help="Topics, of three partitions each.")
@click.option("--groups", default=5_000, show_default=True, help="Groups, with offsets of six partitions each.")
@click.option("--rounds", default=3, show_default=True, help="Snapshots of each kind.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(topics: int, groups: int, rounds: int, as_json: bool) -> None:
    """Run the benchmark."""
    with EmbeddedBroker(process=True, properties={"num.partitions": PARTITIONS}) as broker:
        began = time.perf_counter()
        asyncio.run(prepare(broker.bootstrap_servers, topics, groups))
        prepared_s = time.perf_counter() - began
        costs, status = asyncio.run(measure(broker, topics, rounds))
        screen = screen_times(status)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if as_json:
        click.echo(json.dumps({"costs": [vars(cost) for cost in costs], "screen": screen, "memory_mib": memory}))
        return
    table = Table(title=f"{topics:,} topics, {topics * PARTITIONS:,} partitions, {groups:,} groups")
    for column in ("snapshot", "seconds", "CPU of top, s", "CPU of the broker, s", "kB"):
        table.add_column(column, justify="left" if column == "snapshot" else "right")
    for cost in costs:
        numbers = (f"{number:.2f}" for number in (cost.seconds, cost.client_cpu_s, cost.broker_cpu_s))
        table.add_row(cost.name, *numbers, f"{cost.kilobytes:,.0f}")
    console = Console()
    console.print(table)
    for name, number in screen.items():
        console.print(f"{name}: {number:,.1f}")
    console.print(f"memory at most: {memory:.0f} MiB; prepared in {prepared_s:.0f} s")


if __name__ == "__main__":
    main()
