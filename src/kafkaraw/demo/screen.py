"""The output of the flights demo: steps, progress bars, the worst hours, the balance sheet. Only here is rich used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TextIO, cast

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kafkaraw.demo.flights import NEW_YORK
from kafkaraw.demo.readback import DeadLetters, Hour
from kafkaraw.demo.sheet import BalanceSheet
from kafkaraw.pipelines.running.output import Output
from kafkaraw.pipelines.running.reports import Bars as FlowBars


class _RowsColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.completed:,.0f}/{task.total or 0:,.0f} rows", style="progress.download")


class _SpeedColumn(ProgressColumn):
    """Rows per second: over the whole time when done, else as last reported."""

    def render(self, task: Task) -> Text:
        if task.finished and task.finished_time:
            speed = task.completed / task.finished_time
        else:
            speed = float(task.fields.get("rows_per_s") or task.speed or 0.0)
        return Text(f"{speed:,.0f} rows/s" if speed else "", style="progress.data.speed")


class Bars:
    """Progress bars, by name."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def add(self, name: str, total: int) -> None:
        """A new bar; its time begins with the first `show`."""
        self._tasks[name] = self._progress.add_task(name, start=False, total=total, rows_per_s=0.0)

    def show(self, name: str, rows: int, rows_per_s: float = 0.0) -> None:
        """Move a bar; without a speed it is worked out from the movement."""
        self._progress.start_task(self._tasks[name])
        self._progress.update(self._tasks[name], completed=rows, rows_per_s=rows_per_s)


class Screen:
    """Prints the demo.

    Args:
        shown: where to.
    """

    def __init__(self, shown: TextIO | Output) -> None:
        self._shown = shown
        self._console = Console(file=cast("TextIO", shown), highlight=False)

    def say(self, text: str) -> None:
        """One line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def bars(self) -> Iterator[Bars]:
        """Progress bars while the block lasts."""
        columns = (TextColumn("{task.description}"), BarColumn(18), _RowsColumn(), _SpeedColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self._console) as progress:
            yield Bars(progress)

    @contextmanager
    def flows(self) -> Iterator[FlowBars]:
        """One line for each flow of the pipeline while the block lasts, as `kafkaraw pipelines run` has."""
        bars = FlowBars(self._shown)
        with bars:
            yield bars

    def worst_hours(self, hours: list[Hour], airlines: dict[str, str]) -> None:
        """The table of the worst hours."""
        table = _table("The worst hours, read back from Kafka (departure delay in minutes)")
        table.add_column("hour in New York", no_wrap=True)
        table.add_column("from")
        for name in ("flights", "left", "mean", "p95", "worst"):
            table.add_column(name, justify="right", no_wrap=True)
        # All columns together fit into 80 characters.
        table.add_column("carrier of the worst", no_wrap=True, overflow="ellipsis", max_width=22)
        for hour in hours:
            table.add_row(
                _local(hour.hour),
                hour.origin,
                str(hour.flights),
                str(hour.departed),
                f"{hour.mean_delay:.1f}",
                f"{hour.p95_delay:.0f}",
                str(hour.worst_delay),
                airlines.get(hour.worst_carrier or "", hour.worst_carrier),
            )
        self._console.print(table)

    def dead_letters(self, dead: DeadLetters) -> None:
        """Why records became dead letters."""
        if dead.letters:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dead.reasons.items()))
            self.say(f"Dead letters by reason: {reasons}")

    def balance_sheet(self, sheet: BalanceSheet) -> None:
        """The sheet, line by line, and the verdict."""
        table = _table("Balance sheet")
        table.show_header = False
        for justify in ("left", "right", "center", "right", "left"):
            table.add_column(justify=justify)
        for line in sheet.lines():
            sign = "[green]=[/green]" if line.balanced else "[bold red]≠[/bold red]"
            table.add_row(line.left_name, f"{line.left:,}", sign, f"{line.right:,}", line.right_name)
        self._console.print(table)
        if sheet.balanced:
            self._console.print("[green]The sheet balances:[/green] nothing was lost, nothing was counted twice.")
        else:
            self._console.print("[bold red]The sheet does not balance.[/bold red]")


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.collapse_padding = True
    return table


def _local(iso: str) -> str:
    return datetime.fromisoformat(iso).astimezone(NEW_YORK).strftime("%Y-%m-%d %H:%M")
