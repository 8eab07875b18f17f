"""`make bench-imports`: what importing a client costs, ours beside confluent-kafka, aiokafka and kafka-python.

Each import runs in a fresh process; the imports take turns, and medians are shown, above those of an interpreter that
imports nothing. Bytecode is written before the first turn, as pip does for installed packages. Start at `CASES`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.report import RESULTS, WIDTH, Goal


@dataclass(frozen=True, slots=True)
class Case:
    """One import.

    Attributes:
        name: what is imported, in the words of ours.
        client: whose it is; "" is the interpreter's own.
        code: what the process runs.
        goal: of the CPU time in milliseconds; None for others.
    """

    name: str
    client: str
    code: str
    goal: Goal | None = None


def _milliseconds(must: float, aim: float) -> Goal:
    return Goal(must, aim, less_is_better=True, unit=" ms")


OURS: Final = "kafkaraw"
EMPTY: Final = Case("nothing", "", "pass")
CASES: Final = (
    EMPTY,
    Case("asyncio", "", "import asyncio"),
    Case("package", OURS, "import kafkaraw", _milliseconds(10, 5)),
    Case("Producer", OURS, "from kafkaraw import Producer", _milliseconds(120, 80)),
    Case("Producer", "confluent_kafka", "from confluent_kafka import Producer"),
    Case("Producer", "aiokafka", "from aiokafka import AIOKafkaProducer"),
    Case("Producer", "kafka", "from kafka import KafkaProducer"),
    Case("Consumer", OURS, "from kafkaraw import Consumer", _milliseconds(120, 80)),
    Case("Consumer", "confluent_kafka", "from confluent_kafka import Consumer"),
    Case("Consumer", "aiokafka", "from aiokafka import AIOKafkaConsumer"),
    Case("Consumer", "kafka", "from kafka import KafkaConsumer"),
    Case("all three", OURS, "from kafkaraw import Admin, Consumer, Producer", _milliseconds(150, 80)),
    Case(
        "all three",
        "confluent_kafka",
        "from confluent_kafka import Consumer, Producer; from confluent_kafka.admin import AdminClient",
    ),
    Case(
        "all three",
        "aiokafka",
        "from aiokafka import AIOKafkaConsumer, AIOKafkaProducer; from aiokafka.admin import AIOKafkaAdminClient",
    ),
    Case("all three", "kafka", "from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer"),
    Case("EmbeddedBroker", OURS, "from kafkaraw.broker import EmbeddedBroker", _milliseconds(200, 150)),
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One process, from its start to its end."""

    name: str
    client: str
    cpu_ms: float
    wall_ms: float


def environment() -> dict[str, str]:
    """That of the processes: they may write bytecode, as `make` sees to for the tests' processes."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def modules_of(code: str) -> int:
    """How many modules are loaded after the import."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(len(sys.modules))"],
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    return int(ran.stdout)


def measure(case: Case) -> Measurement:
    """Run one process and take its times from the operating system."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", case.code], env=environment())
    _, status, used = os.wait4(process.pid, 0)
    wall_ms = (time.perf_counter() - began) * 1000
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise click.ClickException(f"{case.code!r} ended with code {process.returncode}")
    return Measurement(case.name, case.client, (used.ru_utime + used.ru_stime) * 1000, wall_ms)


def medians(measurements: Sequence[Measurement], number: str) -> dict[tuple[str, str], float]:
    """The median of a number ("cpu_ms", "wall_ms") of each case, above the empty interpreter's."""
    cases = dict.fromkeys((it.name, it.client) for it in measurements)
    found = {
        case: statistics.median(getattr(it, number) for it in measurements if (it.name, it.client) == case)
        for case in cases
    }
    empty = found[EMPTY.name, EMPTY.client]
    return {case: median - empty for case, median in found.items()}


def show(cases: Sequence[Case], measurements: Sequence[Measurement], modules: Mapping[Case, int]) -> tuple[Table, bool]:
    """The table, and whether every must is met."""
    shown = Table(box=SIMPLE, show_edge=False, pad_edge=False)
    for title in ("import", "of"):
        shown.add_column(title)
    for title in ("CPU ms", "wall ms", "modules", "must", "aim", ""):
        shown.add_column(title, justify="right", no_wrap=True)
    cpu, wall = medians(measurements, "cpu_ms"), medians(measurements, "wall_ms")
    met = True
    for case in cases[1:]:
        key = case.name, case.client
        verdict = "" if case.goal is None else case.goal.verdict(cpu[key])
        met &= verdict != "missed"
        shown.add_row(
            case.name, case.client or "Python",
            f"{cpu[key]:.0f}", f"{wall[key]:.0f}", str(modules[case] - modules[EMPTY]),
            *(("", "") if case.goal is None else (str(case.goal), f"{case.goal.aim:g} ms")), verdict,
            style="bold red" if verdict == "missed" else None,
        )  # fmt: skip
    return shown, met


@click.command()
@click.option("--turns", default=15, show_default=True, type=click.IntRange(1), help="Processes of each import.")
@click.option("--only", multiple=True, help="Names of imports, such as Producer; all when it is not given.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Result file (JSON).")
def main(turns: int, only: tuple[str, ...], output: Path | None) -> None:
    """Measure imports in fresh processes; ends with 1 when a must is missed."""
    cases = [
        case
        for case in CASES
        if (case is EMPTY or not only or case.name in only)
        and (not case.client or importlib.util.find_spec(case.client) is not None)
    ]
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    about = (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {turns} processes of each import, in turns; "
        "medians above an empty interpreter"
    )
    console.print(about, highlight=False)
    modules = {case: modules_of(case.code) for case in cases}  # this also writes bytecode
    measurements = [
        measure(case) for turn in range(turns) for case in (cases if turn % 2 == 0 else list(reversed(cases)))
    ]
    shown, met = show(cases, measurements, modules)
    console.print(shown)
    path = output or RESULTS / f"imports-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"environment": about, "measurements": [asdict(it) for it in measurements]}
    path.write_text(json.dumps(content, indent=1) + "\n")
    console.print(f"written to {path}", highlight=False)
    sys.exit(not met)


if __name__ == "__main__":
    main()
