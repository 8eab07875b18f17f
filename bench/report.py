"""From measurements to medians, a table and a file."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.settings import Settings
from bench.workloads import OURS, THEIRS, WORKLOADS


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one workload with one client."""

    workload: str
    client: str
    records: int
    seconds: float
    cpu_seconds: float

    @property
    def records_per_second(self) -> float:
        """By the wall clock."""
        return self.records / self.seconds

    @property
    def cpu_us_per_record(self) -> float:
        """User and system time of the client's process, in microseconds."""
        return self.cpu_seconds * 1e6 / self.records


@dataclass(frozen=True, slots=True)
class Median:
    """Of the runs of one workload with one client, each number by itself."""

    records_per_second: float
    cpu_us_per_record: float
    spread_percent: float  # (highest - lowest) / median of the CPU per record


def median(measurements: Sequence[Measurement], workload: str, client: str) -> Median:
    """The medians of one cell of the table."""
    mine = [each for each in measurements if (each.workload, each.client) == (workload, client)]
    cpu = [each.cpu_us_per_record for each in mine]
    middle = statistics.median(cpu)
    return Median(
        statistics.median(each.records_per_second for each in mine), middle, (max(cpu) - min(cpu)) / middle * 100
    )


def show(measurements: Sequence[Measurement], console: Console) -> None:
    """Print both clients side by side; a ratio above 1 is in our favour."""
    shown = Table(box=SIMPLE, show_edge=False, pad_edge=False)
    shown.add_column("medians", no_wrap=True)
    shown.add_column("client", no_wrap=True)
    for title in ("records/s", "ratio", "CPU µs", "ratio", "spread"):
        shown.add_column(title, justify="right", no_wrap=True)
    names = list(dict.fromkeys(each.workload for each in measurements))
    for name in names:
        ours, theirs = median(measurements, name, OURS), median(measurements, name, THEIRS)
        wall = f"{ours.records_per_second / theirs.records_per_second:.2f}"
        cpu = f"{theirs.cpu_us_per_record / ours.cpu_us_per_record:.2f}"
        for client, found in ((OURS, ours), (THEIRS, theirs)):
            mine = client == OURS
            shown.add_row(
                name if mine else "",
                client,
                f"{found.records_per_second:,.0f}",
                wall if mine else "",
                f"{found.cpu_us_per_record:.3f}",
                cpu if mine else "",
                f"{found.spread_percent:.0f} %",
                end_section=not mine,
            )
    console.print(shown)
    console.print("CPU: user and system time of the client's process per record; spread: of the CPU, highest - lowest")
    for name in names:
        does = WORKLOADS[name].does
        console.print(f"{name}: {does[OURS]}; {does[THEIRS]}", highlight=False, markup=False)


def environment(broker: str) -> dict[str, str]:
    """What the numbers depend on besides the settings."""
    from kafkaraw import records

    versions = {name: importlib.metadata.version(name) for name in ("kafkaraw", "confluent-kafka", "pyarrow")}
    return {
        "broker": broker,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "records implementation": records.IMPLEMENTATION,
        **versions,
    }


def write(path: Path, settings: Settings, about: dict[str, str], measurements: Sequence[Measurement]) -> None:
    """Everything that was measured, and the medians, as JSON."""
    cells = sorted({(each.workload, each.client) for each in measurements})
    content = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": about,
        "settings": asdict(settings),
        "medians": [
            {"workload": workload, "client": client, **asdict(median(measurements, workload, client))}
            for workload, client in cells
        ],
        "measurements": [asdict(each) for each in measurements],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
