"""The page of SQL: DuckDB over topics, in memory, without files or the network, with limits of rows and seconds.

Start at `sql_page`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kafkaraw.client.admin.offsets import OffsetSpec
from kafkaraw.console.charts import KINDS, chart_of
from kafkaraw.console.clusters import ClusterConnection
from kafkaraw.console.shown import visible
from kafkaraw.console.site import Site
from kafkaraw.console.topics import ends_of, sizes_of
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.records import TopicPartition

if TYPE_CHECKING:
    from kafkaraw.datasets.sql import PlannedScan, SqlSession

ROWS_MAX: Final = 500
SECONDS_MAX: Final = 120.0
LARGE_OFFSETS: Final = 20_000_000
LARGE_BYTES: Final = 5_000_000_000
_OVER: Final = f"the query was ended after {SECONDS_MAX:.0f} s: filter by offset or timestamp"
_LOOK_S: Final = 0.2
_SIZES_S: Final = 20.0
_CELL_MAX: Final = 300
QUERY_MAX: Final = 20_000
_QUERY: Final = re.compile(
    r"[\s(]*(?:select|with|from|values|table|describe|desc|show|summarize|explain|pivot|unpivot)\b", re.IGNORECASE
)
_PATTERN: Final = re.compile(r"topics\s*\(\s*'((?:[^']|'')*)'", re.IGNORECASE)
_REPETITION: Final = re.compile(r"[*+?{]")
_GROUP_REPEATED: Final = re.compile(r"\)[*+?{]|\\[1-9]|\(\?P=")
_REPETITIONS_MAX: Final = 2
_LIMITS: Final = (
    "SET enable_external_access = false",
    "SET memory_limit = '512MB'",
    "SET max_temp_directory_size = '0MB'",
    "SET threads = 2",
    "SET lock_configuration = true",
)


@dataclass(frozen=True)
class Plan:
    """What a query would read.

    Attributes:
        scans: of each topic.
        offsets: the number of records, at most.
        bytes: about how many bytes they have in the logs; None if it is not known.
    """

    scans: Sequence[PlannedScan]
    offsets: int
    bytes: int | None

    @classmethod
    def of(cls, scans: Sequence[PlannedScan], sizes: Mapping[str, float]) -> Plan:
        """Return the sum of scans.

        Args:
            scans: of each topic.
            sizes: mean bytes of a record by topic, for scans that do not know it themselves.
        """
        parts = [
            int(each.offsets * sizes.get(each.topic, 0)) if each.size_bytes is None else each.size_bytes
            for each in scans
        ]
        is_known = all(each.size_bytes is not None or each.topic in sizes for each in scans)
        return cls(scans, sum(each.offsets for each in scans), sum(parts) if is_known else None)

    @property
    def is_large(self) -> bool:
        """Whether the reader is asked first."""
        return self.offsets > LARGE_OFFSETS or (self.bytes or 0) > LARGE_BYTES


@dataclass(frozen=True)
class Result:
    """The rows of a query.

    Attributes:
        columns: their names.
        rows: texts of cells.
        values: the cells as they are.
        is_cut: whether there are more rows.
        seconds: how long it took.
        read: offsets that were read.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    values: Sequence[Sequence[Any]]
    is_cut: bool
    seconds: float
    read: int


async def sql_page(request: Request, site: Site, cluster: ClusterConnection) -> Response:
    """Show the form of a query, what it would read, and its rows."""
    text = request.query_params.get("sql", "").strip().rstrip(";")
    context: dict[str, Any] = {"sql": text, "result": None, "plan": None, "is_large": False, "chart": None}
    context["is_off"] = bool(site.settings.masks)
    if text:
        if site.settings.masks:
            raise UsageError("fields are masked in this console, and SQL could show them")
        if len(text) > QUERY_MAX:
            raise UsageError(f"the query has {len(text):,} characters; at most {QUERY_MAX:,} are run")
        is_sure = request.query_params.get("sure") == "1"
        done = site.searches.take()
        work = asyncio.create_task(asyncio.to_thread(_run, cluster, text, asyncio.get_running_loop(), is_sure=is_sure))
        work.add_done_callback(lambda _: done())
        plan, result = await asyncio.shield(work)
        context |= {"plan": plan, "result": result, "is_large": result is None}
        if result is not None:
            context["chart"] = chart_of(result.columns, result.values, request.query_params.get("chart", "auto"))
    context["command"] = visible(" ".join(["kafkaraw sql", cluster.settings.option, shlex.quote(text)]))
    context |= {"kinds": KINDS, "chosen": request.query_params.get("chart", "auto")}
    return site.page(request, "sql.html", cluster, tab="sql", **context)


async def record_sizes(cluster: ClusterConnection, topics: Iterable[str]) -> dict[str, float]:
    """Return the mean bytes of a record in all replicas by topic, as far as the cluster tells them."""
    sizes = await sizes_of(cluster)
    found = {}
    for topic in {*topics} & {*sizes}:
        with contextlib.suppress(KafkaError):
            described = (await cluster.admin.describe_topics([topic]))[topic]
            keys = [TopicPartition(topic, each.partition) for each in described.partitions]
            starts, ends = await asyncio.gather(ends_of(cluster, keys, OffsetSpec.EARLIEST), ends_of(cluster, keys))
            count = sum(ends.get(key, 0) - starts.get(key, 0) for key in keys)
            if count > 0:
                found[topic] = sizes[topic] / count
    return found


@contextlib.contextmanager
def limited(cluster: ClusterConnection) -> Iterator[SqlSession]:
    """A session over the cluster's topics that reaches no files and no network, limited in memory and time.

    Raises:
        UsageError: DuckDB is missing, or the time is over.
    """
    try:
        from kafkaraw.datasets.sql import SqlSession
    except ImportError:
        raise UsageError("SQL needs DuckDB: pip install 'kafkaraw[sql]'") from None

    is_over, has_ended = threading.Event(), threading.Event()
    with SqlSession(registry=cluster.settings.registry, **cluster.settings.consumer) as session:

        def watch() -> None:  # also statements that read no topic, such as a product of ranges
            if not has_ended.wait(SECONDS_MAX):
                is_over.set()
            while not has_ended.wait(_LOOK_S):
                session.interrupt()

        for limit in _LIMITS:
            session.query(limit).read_all()
        watcher = threading.Thread(target=watch, name="kafkaraw-console-query", daemon=True)
        watcher.start()
        try:
            yield session
        except KafkaError as error:
            if is_over.is_set():
                raise UsageError(_OVER) from error
            raise
        finally:
            has_ended.set()
            watcher.join()


def check_reads(text: str) -> None:
    """Check that a statement only reads: `COPY ... TO TOPIC` would write.

    Raises:
        UsageError: it does not begin as a query does.
    """
    if not _QUERY.match(text):
        raise UsageError("only queries are run here: SELECT, WITH, FROM, DESCRIBE, SUMMARIZE, SHOW, ...")


def check_patterns(text: str) -> None:
    """Check that patterns of topics are matched in little time: others could hold the whole console.

    Raises:
        UsageError: a pattern repeats a group, or has more than two repetitions.
    """
    for found in _PATTERN.finditer(text):
        if len(_REPETITION.findall(found[1])) > _REPETITIONS_MAX or _GROUP_REPEATED.search(found[1]):
            raise UsageError(
                f"topics({found[1][:60]!r}): a pattern has at most {_REPETITIONS_MAX} repetitions here, and no "
                "repeated group"
            )


def _run(
    cluster: ClusterConnection, text: str, loop: asyncio.AbstractEventLoop, *, is_sure: bool
) -> tuple[Plan, Result | None]:
    """Return what a query reads, and its rows unless it would read very much."""
    check_reads(text)
    check_patterns(text)
    with limited(cluster) as session:
        scans = session.explain(text)
        unknown = [each.topic for each in scans if each.size_bytes is None]
        asked = asyncio.run_coroutine_threadsafe(record_sizes(cluster, unknown), loop)
        plan = Plan.of(scans, asked.result(_SIZES_S))
        if plan.is_large and not is_sure:
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
                raise UsageError(_OVER)

        return counted

    reader = session.query(text, on_scan=on_scan)
    values: list[list[Any]] = []
    for batch in reader:
        for row in batch.slice(0, ROWS_MAX + 1 - len(values)).to_pylist():
            values.append([row[name] for name in batch.schema.names])  # noqa: PERF401
        if len(values) > ROWS_MAX:
            break
    is_cut, values = len(values) > ROWS_MAX, values[:ROWS_MAX]
    rows = [[_cell(each) for each in row] for row in values]
    return Result(reader.schema.names, rows, values, is_cut, time.monotonic() - began, read[0])


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    text = value[:_CELL_MAX].hex(" ") if isinstance(value, bytes) else str(value)
    return visible(text[:_CELL_MAX]) + ("…" if len(text) > _CELL_MAX else "")
