"""The page of SQL: DuckDB over topics, in memory, without files or the network, with limits of rows and seconds.

Start at `sql_page`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import visible
from kafkaraw.console.site import Site
from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from kafkaraw.datasets.sql import PlannedScan, SqlSession

ROWS_MAX: Final = 500
SECONDS_MAX: Final = 120.0
LARGE_OFFSETS: Final = 20_000_000
_CELL_MAX: Final = 300
_QUERY_MAX: Final = 20_000
_BARS_MAX: Final = 40
_BAR_WIDTH: Final = 360
_LIMITS: Final = (
    "SET enable_external_access = false",
    "SET memory_limit = '512MB'",
    "SET max_temp_directory_size = '0MB'",
    "SET threads = 2",
    "SET lock_configuration = true",
)


@dataclass(frozen=True)
class Result:
    """The rows of a query.

    Attributes:
        columns: their names.
        rows: texts of cells; numbers as they are.
        is_cut: whether there are more rows.
        seconds: how long it took.
        read: offsets that were read.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_cut: bool
    seconds: float
    read: int


async def sql_page(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the form of a query, what it would read, and its rows."""
    text = request.query_params.get("sql", "").strip().rstrip(";")
    context: dict[str, Any] = {"sql": text, "result": None, "plan": [], "is_large": False, "bars": []}
    context["is_off"] = bool(site.settings.masks)
    if text:
        if site.settings.masks:
            raise UsageError("fields are masked in this console, and SQL could show them")
        if len(text) > _QUERY_MAX:
            raise UsageError(f"the query has {len(text):,} characters; at most {_QUERY_MAX:,} are run")
        is_sure = request.query_params.get("sure") == "1"
        done = site.searches.take()
        work = asyncio.create_task(asyncio.to_thread(_run, cluster, text, is_sure=is_sure))
        work.add_done_callback(lambda _: done())
        plan, result = await asyncio.shield(work)
        context |= {"plan": plan, "result": result, "is_large": result is None}
        context["bars"] = [] if result is None else bars(result)
    return site.page(request, "sql.html", cluster, tab="sql", **context)


def _run(cluster: ClusterConnection, text: str, *, is_sure: bool) -> tuple[list[PlannedScan], Result | None]:
    """Return what a query reads, and its rows unless it would read very much."""
    try:
        from kafkaraw.datasets.sql import SqlSession
    except ImportError:
        raise UsageError("SQL needs DuckDB: pip install 'kafkaraw[sql]'") from None

    with SqlSession(registry=cluster.settings.registry, **cluster.settings.consumer) as session:
        for limit in _LIMITS:
            session.query(limit).read_all()
        plan = session.explain(text)
        if sum(each.offsets for each in plan) > LARGE_OFFSETS and not is_sure:
            return plan, None
        return plan, _rows(session, text)


def _rows(session: SqlSession, text: str) -> Result:
    began = time.monotonic()
    lock = threading.Lock()
    read = [0]

    def on_scan(scan: PlannedScan) -> Callable[[int], None]:
        def counted(offsets: int) -> None:
            with lock:
                read[0] += offsets
            if time.monotonic() - began > SECONDS_MAX:
                raise UsageError(f"the query was ended after {SECONDS_MAX:.0f} s: filter by offset or timestamp")

        return counted

    reader = session.query(text, on_scan=on_scan)
    rows: list[list[str]] = []
    for batch in reader:
        for row in batch.slice(0, ROWS_MAX + 1 - len(rows)).to_pylist():
            rows.append([_cell(row[name]) for name in batch.schema.names])  # noqa: PERF401
        if len(rows) > ROWS_MAX:
            break
    return Result(reader.schema.names, rows[:ROWS_MAX], len(rows) > ROWS_MAX, time.monotonic() - began, read[0])


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    text = value[:_CELL_MAX].hex(" ") if isinstance(value, bytes) else str(value)
    return visible(text[:_CELL_MAX]) + ("…" if len(text) > _CELL_MAX else "")


def bars(result: Result) -> list[tuple[str, float, str]]:
    """Return name, width and number of the bars of a chart, if the result is names and one number for each."""
    if not 2 <= len(result.rows) <= _BARS_MAX or len(result.columns) != 2:
        return []
    try:
        numbers = [float(row[1]) for row in result.rows]
    except ValueError:
        return []
    most = max(numbers)
    if most <= 0 or min(numbers) < 0 or most == float("inf"):
        return []
    return [(row[0], _BAR_WIDTH * number / most, row[1]) for row, number in zip(result.rows, numbers, strict=True)]
