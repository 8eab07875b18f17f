"""Codecs side by side: `python -m bench.protocol` measures kafkaraw's and kafka-python's, and kio's for orientation.

A Metadata response with 1,000 topics of 10 partitions first, then the commonest messages, then the time of
`import kafkaraw.protocol`. Every measurement is a fresh process; the codecs take turns, so that what else happens on
the machine hits all; the tables show medians of CPU time. All codecs get the same bytes and must write them again.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.protocol.messages import COMMON, LARGE, Case
from kafkaraw.protocol import encode_message

OURS: Final = "kafkaraw"
RIVAL: Final = "kafka-python"
ORIENTATION: Final = "kio"
DIRECTIONS: Final = ("decode", "encode")
LARGE_RATIO_MIN: Final = 1.5
COMMON_RATIO_MIN: Final = 1.0
IMPORT_MS_MAX: Final = 50.0
WORKER_SECONDS_MAX: Final = 300
IMPORT_PROGRAM: Final = """
import json, time
wall, cpu = time.perf_counter(), time.process_time()
import kafkaraw.protocol
print(json.dumps([(time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3]))
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One codec, one message, one direction."""

    codec: str
    case: int
    direction: str
    microseconds: float


def measure(codec: str, cases: Sequence[Case]) -> list[Cell]:
    """Measure one codec in a process of its own.

    Raises:
        click.ClickException: the process failed, or the codec wrote other bytes than it read.
    """
    asked = [
        {
            "name": it.name,
            "module": it.module,
            "version": it.version,
            "hex": encode_message(it.make(), it.version).hex(),
        }
        for it in cases
    ]
    command = [sys.executable, "-m", "bench.protocol.worker", codec]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, timeout=WORKER_SECONDS_MAX, check=False
    )
    if done.returncode != 0:
        raise click.ClickException(f"{codec}: {done.stderr[-1500:]}")
    cells: list[Cell] = []
    for i, numbers in enumerate(json.loads(done.stdout)):
        if not numbers["same_bytes"]:
            raise click.ClickException(
                f"{codec} writes {cases[i].name} v{cases[i].version} differently than it read it"
            )
        cells += [Cell(codec, i, direction, numbers[direction]) for direction in DIRECTIONS]
    return cells


def take_turns(codecs: Sequence[str], cases: Sequence[Case], turns: int) -> dict[tuple[str, int, str], float]:
    """Medians over turns, by codec, case and direction."""
    cells: list[Cell] = []
    for turn in range(turns):
        for codec in codecs if turn % 2 == 0 else reversed(codecs):
            cells += measure(codec, cases)
    keys = {(cell.codec, cell.case, cell.direction) for cell in cells}
    return {
        key: statistics.median(it.microseconds for it in cells if (it.codec, it.case, it.direction) == key)
        for key in keys
    }


def show(
    console: Console,
    title: str,
    cases: Sequence[Case],
    codecs: Sequence[str],
    medians: dict[tuple[str, int, str], float],
) -> float:
    """Print a table and return the lowest ratio of the rival's time to ours."""
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("message")
    table.add_column("bytes", justify="right")
    table.add_column("")
    for codec in codecs:
        table.add_column(f"{codec} µs", justify="right")
    table.add_column(f"times as fast as {RIVAL}", justify="right", style="bold")
    lowest = float("inf")
    for i, case in enumerate(cases):
        size = len(encode_message(case.make(), case.version))
        for direction in DIRECTIONS:
            ratio = medians[RIVAL, i, direction] / medians[OURS, i, direction]
            lowest = min(lowest, ratio)
            numbers = [f"{medians[codec, i, direction]:,.1f}" for codec in codecs]
            table.add_row(f"{case.name} v{case.version}", f"{size:,}", direction, *numbers, f"{ratio:.2f}")
    console.print(table)
    return lowest


def import_milliseconds(turns: int) -> tuple[float, float]:
    """Median CPU and wall time of `import kafkaraw.protocol` in fresh processes."""
    command = [sys.executable, "-c", IMPORT_PROGRAM]
    times = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(turns)
    ]
    return statistics.median(cpu for cpu, _ in times), statistics.median(wall for _, wall in times)


@click.command()
@click.option("--turns", type=click.IntRange(1), default=5, show_default=True, help="Processes per codec and table.")
def main(turns: int) -> None:
    """Measure the codecs; exits with 1 when a target is missed."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    codecs = [OURS, RIVAL]
    if importlib.util.find_spec("kio") is not None:
        codecs.append(ORIENTATION)
    else:
        console.print("kio is not installed: measured without it (pip install kio).")
    versions = ", ".join(f"{codec} {importlib.metadata.version(codec)}" for codec in codecs)
    console.print(f"{versions}; Python {platform.python_version()}; {turns} processes each, in turns")
    large = show(console, "Large", [LARGE], codecs, take_turns(codecs, [LARGE], turns))
    common = show(console, "Common", COMMON, codecs, take_turns(codecs, COMMON, turns))
    import_ms, wall_ms = import_milliseconds(turns)
    times = f"{import_ms:.1f} of CPU ({wall_ms:.1f} by the clock)"
    targets = {
        f"large: at least {LARGE_RATIO_MIN} times as fast as {RIVAL}, is {large:.2f}": large >= LARGE_RATIO_MIN,
        f"common: never slower than {RIVAL}, slowest is {common:.2f} times as fast": common >= COMMON_RATIO_MIN,
        f"import kafkaraw.protocol: under {IMPORT_MS_MAX:.0f} ms, is {times}": import_ms < IMPORT_MS_MAX,
    }
    for target, is_met in targets.items():
        console.print(f"{'met   ' if is_met else 'MISSED'} {target}")
    if not all(targets.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
