"""What a run prints: progress bars in a terminal, one JSON object a line elsewhere; and the status file.

Must not change the run. Start at `report_for`.
"""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TextIO, cast

from kafkaraw.pipelines.running.flow_query import FlowState
from kafkaraw.pipelines.running.http import RunStatusServer
from kafkaraw.pipelines.running.output import Output
from kafkaraw.pipelines.running.progress import FlowProgress, RunStatus
from kafkaraw.pipelines.running.runner import Reporter, Summary
from kafkaraw.pipelines.running.supervision import Failure

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_JSON_EVERY_S: Final = 10.0


class Report(Reporter):
    """What the command shows of a run, beyond the status file and the HTTP endpoints.

    Args:
        shown: where it prints.
    """

    def __init__(self, shown: TextIO | Output) -> None:
        self._shown = shown

    @property
    def is_broken(self) -> bool:
        """Whether the reader of the pipe has closed it, so that no output is seen any more."""
        return isinstance(self._shown, Output) and self._shown.is_broken

    def _kept(self) -> AbstractContextManager[None]:
        """Within this context, nothing is left out because a reader is slow."""
        return self._shown.kept() if isinstance(self._shown, Output) else nullcontext()

    def started(self, **fields: object) -> None:
        """Show that the run begins."""

    def finished(self, summary: Summary) -> None:
        """Show how it has ended."""

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was."""


class JsonLines(Report):
    """One JSON object a line: events at once, the state of flows that have done something every 10 s."""

    def __init__(self, shown: TextIO | Output) -> None:
        super().__init__(shown)
        self._next = 0.0
        self._states: dict[str, tuple[str, int]] = {}

    def started(self, **fields: object) -> None:
        """Print the first line."""
        with self._kept():
            self._print("started", **fields)

    def status(self, status: RunStatus) -> None:
        """Print flows whose state has changed, and now and then those that have finished micro-batches."""
        now = time.monotonic()
        due = now >= self._next
        if due:
            self._next = now + _JSON_EVERY_S
        for flow in status.flows:
            state, batches = self._states.get(flow.flow, ("", 0))
            if flow.state != state or (due and flow.batches != batches):
                self._states[flow.flow] = flow.state, flow.batches
                self._print("flow", **flow.as_json())

    def failed(self, flow: str, failure: Failure, retry_in: float | None) -> None:
        """Print a failure."""
        rounded = None if retry_in is None else round(retry_in, 1)
        with self._kept():
            self._print("failed", flow=flow, remedy=failure.remedy.value, error=failure.text, retry_in_s=rounded)

    def finished(self, summary: Summary) -> None:
        """Print the last line."""
        with self._kept():
            self._print("finished", **summary_fields(summary))

    def _print(self, event: str, **fields: object) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._shown.write(json.dumps({"time": at, "event": event, **fields}, default=str) + "\n")
        self._shown.flush()


def summary_fields(summary: Summary) -> dict[str, object]:
    """Return the numbers of the last line."""
    flows = summary.status.flows
    return {
        "state": summary.status.state,
        "seconds": round(summary.seconds, 1),
        "exit_code": summary.exit_code,
        "flows": len(flows),
        "failed": [each.flow for each in summary.failed],
        "rows_read": sum(each.rows_read for each in flows),
        "rows_written": sum(each.rows_written for each in flows),
        "late_rows": sum(each.late_rows for each in flows),
        "restarts": sum(each.restarts for each in flows),
        "unbalanced": [str(each) for each in summary.status.unbalanced],
    }


class Bars(Report):
    """One line for each flow, which moves: state, rows, rows per second, lag, duration of a micro-batch."""

    def __init__(self, shown: TextIO | Output) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(shown)
        self._console: Console = Console(file=cast("IO[str]", shown), highlight=False)
        self._stack = ExitStack()
        self._live: Live = Live(console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Report:
        self._stack.enter_context(self._live)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def started(self, **fields: object) -> None:
        """Print where the log is."""
        self._live.console.print(f"Log: {fields.get('log')}", markup=False, soft_wrap=True)
        if fields.get("http"):
            self._live.console.print(f"Status: {fields['http']}/status", markup=False, soft_wrap=True)

    def status(self, status: RunStatus) -> None:
        """Move the lines."""
        self._live.update(flow_table(status))

    def failed(self, flow: str, failure: Failure, retry_in: float | None) -> None:
        """Print a failure above the lines."""
        then = "does not start again" if retry_in is None else f"starts again in {retry_in:.0f} s"
        with self._kept():
            self._live.console.print(f"{flow}: {failure}; {then}", markup=False, soft_wrap=True)

    def finished(self, summary: Summary) -> None:
        """Print the lines as they are at the end, and the sums."""
        self._stack.close()
        with self._kept():
            self._print_end(summary)

    def _print_end(self, summary: Summary) -> None:
        fields = summary_fields(summary)
        self._console.print(flow_table(summary.status))
        self._console.print(
            f"{fields['state']} after {fields['seconds']} s: {fields['rows_read']:,} rows read, "
            f"{fields['rows_written']:,} written, {fields['late_rows']:,} late, {fields['restarts']} restarts",
            markup=False,
        )
        for each in summary.status.balance:
            self._console.print(each.shown, markup=False)


def flow_table(status: RunStatus) -> Table:
    """Return what a terminal shows of all flows."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("flow")
    table.add_column("")
    table.add_column("state")
    for name in ("read", "written", "rows/s", "lag", "batch", "late"):
        table.add_column(name, justify="right")
    for flow in status.flows:
        ended = flow.state in (FlowState.COMPLETED.value, FlowState.STOPPED.value)
        total = flow.rows_read + (flow.lag or 0)
        bar = ProgressBar(total or 1, (flow.rows_read or 1) if ended or total else 0, width=16)
        lag = "" if flow.lag is None else f"{flow.lag:,}"
        numbers = (f"{flow.rows_read:,}", f"{flow.rows_written:,}", f"{flow.rows_per_second:,.0f}", lag)
        table.add_row(flow.flow, bar, _state(flow), *numbers, f"{flow.batch_ms / 1000:.2f} s", f"{flow.late_rows:,}")
    return table


def _state(flow: FlowProgress) -> str:
    return flow.state if flow.failure is None else f"{flow.state} ({flow.failure.remedy.value})"


class Reports(Reporter):
    """Passes the status of a run to the display, the status file and the HTTP endpoints.

    Args:
        report: the display.
        file: the status file.
        server: the endpoints; None for none.
    """

    def __init__(self, report: Report, file: Path, server: RunStatusServer | None) -> None:
        self._report = report
        self._file = file
        self._server = server
        self._written = ""

    def status(self, status: RunStatus) -> None:
        """Show, write and publish the status."""
        self._report.status(status)
        if self._server is not None:
            self._server.publish(status)
        values = status.as_json()
        text = json.dumps(values, default=str)
        same = json.dumps(values | {"at": None}, default=str)
        if same != self._written:
            self._written = same
            part = self._file.with_suffix(".part")
            part.write_text(text, encoding="utf-8")
            part.replace(self._file)

    def failed(self, flow: str, failure: Failure, retry_in: float | None) -> None:
        """Show a failure."""
        self._report.failed(flow, failure, retry_in)


def report_for(shown: TextIO | Output) -> Report:
    """Return bars for a terminal, JSON lines for anything else."""
    return Bars(shown) if shown.isatty() else JsonLines(shown)
