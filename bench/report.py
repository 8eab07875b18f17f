"""What the benchmarks' results have in common: goals, lines held against them, a table, a picture and a file.

A benchmark measures, makes a `Line` of each row's medians, and gives them to `Report.publish`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from bench.picture import draw

RESULTS: Final = Path(__file__).with_name("results")
WIDTH: Final = 150


@dataclass(frozen=True, slots=True)
class Goal:
    """What a number must be, and should be.

    Attributes:
        must: the least number, or the greatest one if less is better.
        aim: the number to aim at.
        less_is_better: for times and memory.
        unit: what to write behind the number; "x" says that it is a factor.
    """

    must: float
    aim: float
    less_is_better: bool = False
    unit: str = "x"

    def verdict(self, got: float) -> str:
        """What to say of a number: "aim", "must" or "missed"."""
        sign = -1 if self.less_is_better else 1
        if sign * got >= sign * self.aim:
            return "aim"
        return "must" if sign * got >= sign * self.must else "missed"

    def __str__(self) -> str:
        sign = "<= " if self.less_is_better else ""
        return f"{sign}{self.must:g}{self.unit}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a result.

    Attributes:
        name: of the row.
        judged: which number counts, with its unit.
        ours: our number.
        goal: what `got` is held against.
        got: how many times as good ours is; our number itself where there is no rival.
        against: the rival.
        theirs: its number.
        cpu_factor: how many times our CPU time the rival takes.
        digits: how to write the numbers.
    """

    name: str
    judged: str
    ours: float
    goal: Goal
    got: float
    against: str = ""
    theirs: float | None = None
    cpu_factor: float | None = None
    digits: str = ",.0f"

    @property
    def verdict(self) -> str:
        """What to say of it."""
        return self.goal.verdict(self.got)


def table_of(lines: Sequence[Line]) -> Table:
    """What must, should and did come out; what misses its must is red."""
    with_cpu = any(it.cpu_factor is not None for it in lines)
    shown = Table(box=SIMPLE, show_edge=False, pad_edge=False)
    for title in ("", "in", "against"):
        shown.add_column(title)
    for title in ("kafkaraw", "they", *(["CPU factor"] if with_cpu else []), "must", "aim", "got", ""):
        shown.add_column(title, justify="right", no_wrap=True)
    for it in lines:
        goal, unit = it.goal, it.goal.unit
        cpu = "" if it.cpu_factor is None else f"{it.cpu_factor:.2f}"
        shown.add_row(
            it.name, it.judged, it.against,
            f"{it.ours:{it.digits}}", "" if it.theirs is None else f"{it.theirs:{it.digits}}",
            *([cpu] if with_cpu else []),
            str(goal), f"{goal.aim:g}{unit}", f"{it.got:.2f}{unit}", it.verdict,
            style="bold red" if it.verdict == "missed" else None,
        )  # fmt: skip
    return shown


def environment(broker: str) -> dict[str, str]:
    """What the numbers depend on besides the settings."""
    from kafkaraw import records

    versions = {name: importlib.metadata.version(name) for name in ("kafkaraw", "confluent-kafka", "pyarrow")}
    return {
        "broker": broker,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "records implementation": records.IMPLEMENTATION,
        **versions,
    }


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where a result goes."""
    for option in (
        click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="The result as SVG."),
        click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Result file (JSON)."),
    ):
        command = option(command)
    return command


class Report:
    """Shows a run while it goes on, and keeps it in the end.

    Args:
        bench: name of the benchmark, as in `make bench-NAME`.
        output: file of the result; by default one in `bench/results` named for bench and time.
        picture: file of the picture, if one is wanted.
    """

    def __init__(self, bench: str, output: Path | None = None, picture: Path | None = None) -> None:
        self.console = Console(width=None if sys.stdout.isatty() else WIDTH)
        self._bench, self._output, self._picture = bench, output, picture
        self._environment: Mapping[str, str] = {}
        self._settings: Mapping[str, object] = {}

    def begin(self, about: Mapping[str, str], settings: Mapping[str, object]) -> None:
        """Print everything that somebody needs to repeat the run."""
        self._environment, self._settings = about, settings
        for key, value in about.items():
            self.say(f"{key}: {value}")
        self.say("settings: " + ", ".join(f"{name}={value}" for name, value in settings.items()))

    def say(self, text: str) -> None:
        """Print a line as it is."""
        self.console.print(text, highlight=False, markup=False)

    def publish(self, lines: Sequence[Line], measurements: Sequence[Any]) -> bool:
        """Show the table, write the file and the picture.

        Args:
            lines: one for each row.
            measurements: all that was measured, as dataclasses.

        Returns:
            Whether every must is met.
        """
        self.console.print(table_of(lines))
        path = self._output or RESULTS / f"{self._bench}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
        content = {
            "bench": self._bench,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "environment": dict(self._environment),
            "settings": dict(self._settings),
            "lines": [asdict(it) | {"verdict": it.verdict} for it in lines],
            "measurements": [asdict(each) for each in measurements],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")
        if self._picture is not None:
            self._picture.write_text(draw(content))
        self.say(f"written to {path}")
        return all(it.verdict != "missed" for it in lines)
