"""What `kafkaraw pipelines status` shows: the status file of a storage, and whether a run has the storage.

Must not start Spark, nor change the storage. Start at `last_status`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.pipelines.balance import FlowBalance, rows_of
from kafkaraw.pipelines.running.storage import Storage, local_path
from kafkaraw.pipelines.specification import read_specification

if TYPE_CHECKING:
    from rich.table import Table

_GOING_ON: Final = ("starting", "running", "stopping")
_KILLED: Final = "killed"
_WIDTH: Final = 200


@dataclass(frozen=True, slots=True)
class LastStatus:
    """The status of a pipeline.

    Args:
        values: as of the file; its "state" is "killed" if the run did not note its end.
        running: whether a run has the storage.
    """

    values: Mapping[str, Any]
    running: bool

    @property
    def well(self) -> bool:
        """Whether the pipeline runs without failures, or has ended so."""
        return bool(self.values["healthy"]) and self.values["state"] not in (_KILLED, "failed")


def last_status(place: Path) -> LastStatus:
    """Return the status of the pipeline in a folder.

    Raises:
        ConfigError: it has not run yet, or the storage is another pipeline's.
    """
    specification = read_specification(place)
    storage = Storage(local_path(specification.storage))
    if storage.owner() is None or not storage.status_file.exists():
        raise ConfigError(
            f"pipeline {specification.name!r} has not run yet: there is no status in its storage {storage.root}; start "
            f"it with `kafkaraw pipelines run {place}`"
        )
    storage.claim(specification.name)
    running = storage.is_locked()
    values = json.loads(storage.status_file.read_text(encoding="utf-8"))
    if not running and values["state"] in _GOING_ON:
        values["state"] = _KILLED
    return LastStatus(values, running)


@dataclass(frozen=True, slots=True)
class _Counted:
    """The numbers of a flow in the status file."""

    flow: str
    totals: Mapping[str, Mapping[str, int]]
    positions: Mapping[tuple[str, str], int] = field(default_factory=dict)


def _expectations(flows: Iterable[Mapping[str, Any]]) -> Table | None:
    """Return the counts of all expectations; None if there are none."""
    from rich.table import Table

    rows = [row for each in flows for row in rows_of(_Counted(each["flow"], each["totals"]))]
    if not rows:
        return None
    table = Table(box=None, pad_edge=False, header_style="")
    for column in rows[0]:
        table.add_column(column.upper(), justify="right" if column in ("rows", "unmet") else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(str, row.values()))
    return table


def printed(status: LastStatus) -> str:
    """Return the status as a table."""
    from rich.console import Console
    from rich.table import Table

    values = status.values
    since = datetime.fromtimestamp(values["since"], UTC)
    table = Table(box=None, pad_edge=False, header_style="")
    columns = ("FLOW", "STATE", "BATCH", "READ", "WRITTEN", "LATE", "LAG", "BATCH-MS", "RESTARTS", "ERROR")
    for column in columns:
        table.add_column(column, justify="left" if column in ("FLOW", "STATE", "ERROR") else "right", no_wrap=True)
    for flow in values["flows"]:
        names = ("batch", "rows_read", "rows_written", "late_rows", "lag", "batch_ms", "restarts")
        numbers = ("-" if flow[name] is None else str(flow[name]) for name in names)
        failure = flow["failure"]
        error = "" if failure is None else f"[{failure['remedy']}] {failure['error']}"
        table.add_row(flow["flow"], flow["state"], *numbers, error)
    out = io.StringIO()
    console = Console(file=out, width=_WIDTH, highlight=False, markup=False)
    verb = "runs" if status.running else "ran"
    console.print(f"{values['pipeline']}: {values['state']}; {verb} {values['mode']} since {since:%Y-%m-%dT%H:%M:%SZ}")
    console.print(table)
    expectations = _expectations(values["flows"])
    if expectations is not None:
        console.print()
        console.print(expectations)
    for each in values.get("balance", ()):
        console.print(FlowBalance(**each).shown)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
