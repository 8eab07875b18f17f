"""Runs the pipeline in a Spark session of its own, reports progress, and keeps Spark's output off the screen.

`SparkRun` starts Spark in the background, because that takes as long as the whole replay. The output of the JVM and its
Python workers goes to a log file. pyspark is imported inside the functions only.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kafkaraw.errors import KafkaError
from kafkaraw.net.threads import wait_interruptibly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafkaraw.demo.pipeline import Places

T = TypeVar("T")

SPARK_TEMPORARY = "spark-temporary"
"""Spark's scratch folder, inside the folder of a run."""

# For a run of a minute the fast compiler is enough: the full one took a third of the run's processor time for itself.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

_POLL_S = 0.2
_STDERR = 2


# The unindented line behind the indented ones of a traceback, as in `kafkaraw.errors.NetworkError: cannot connect`.
_END_OF_TRACEBACK = re.compile(r"^ +\S.*\n([A-Za-z_][\w.]*): (.+?)(?: SQLSTATE: .*)?$", re.MULTILINE)


class DemoFailedError(KafkaError):
    """Spark did not start, or one of the queries failed; the message says which and why, in one line."""


@dataclass(slots=True)
class QueryMeter:
    """What one query has done so far, from its progress reports.

    Attributes:
        name: name of the query.
        rows: number of records read.
        rows_per_s: rate of the micro-batch reported last.
        late_rows: aggregated rows that were too late to be counted.
        state_rows_max: the highest number of rows that the query kept in memory between micro-batches.
        ended: whether the query has ended.
    """

    name: str
    rows: int = 0
    rows_per_s: float = 0.0
    late_rows: int = 0
    state_rows_max: int = 0
    ended: bool = False
    _batches_seen: set[int] = field(default_factory=set)

    def update(self, query: StreamingQuery) -> None:
        """Take in the micro-batches reported since the last call."""
        for progress in query.recentProgress:
            if progress.batchId in self._batches_seen or progress.numInputRows == 0:
                continue
            self._batches_seen.add(progress.batchId)
            self.rows += progress.numInputRows
            self.rows_per_s = progress.processedRowsPerSecond
            for operator in progress.stateOperators:
                self.late_rows += operator.numRowsDroppedByWatermark
                self.state_rows_max = max(self.state_rows_max, operator.numRowsTotal)


class SparkRun:
    """One Spark session for one run of the demo.

    A separate thread makes all calls to Spark: Spark keeps the session in use per thread, and Ctrl-C, which
    interrupts the main thread, must not interrupt an answer of the JVM.

    Args:
        folder: for Spark's temporary files and its log, `spark.log`.
        log_kept: whether the log will still be there when an error is read that points to it.
    """

    def __init__(self, folder: Path, *, log_kept: bool) -> None:
        self._log_kept = log_kept
        self.log_file = folder / "spark.log"
        self._temporary = folder / SPARK_TEMPORARY
        self._thread = ThreadPoolExecutor(1, "spark")
        self._starting: Future[SparkSession] | None = None
        self._queries: dict[str, StreamingQuery] = {}
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin to start Spark; `wait_until_started` waits for it."""
        self._temporary.mkdir()
        self._starting = self._thread.submit(self._start)

    def wait_until_started(self) -> None:
        """Wait for the session.

        Raises:
            DemoFailedError: Spark did not start.
        """
        self._session()

    def run(self, places: Places, offsets_per_trigger: int, watch: Callable[[QueryMeter], None]) -> list[QueryMeter]:
        """Run the three queries side by side to their end.

        Args:
            places: where they read and write.
            offsets_per_trigger: how many records a micro-batch takes at most.
            watch: called, on another thread, when there may be progress.

        Raises:
            DemoFailedError: one of them failed.
        """
        return _outcome(self._thread.submit(self._run, places, offsets_per_trigger, watch))

    def parquet_rows(self, places: Places) -> int:
        """The number of rows in the Parquet files, read back.

        Raises:
            DemoFailedError: they cannot be read.
        """

        def count() -> int:
            with self._spark_errors("the Parquet files cannot be read"):
                return self._session().read.parquet(places.parquet).count()

        return _outcome(self._thread.submit(count))

    def stop(self) -> None:
        """Stop the queries and Spark, in any state; wait until Spark has ended."""
        self._stopping.set()
        _outcome(self._thread.submit(self._stop))
        self._thread.shutdown()

    def _session(self) -> SparkSession:
        assert self._starting is not None, "start() comes first"
        return _outcome(self._starting)

    def _start(self) -> SparkSession:
        from kafkaraw.demo.pipeline import SESSION_SETTINGS
        from kafkaraw.spark import session

        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(self._temporary),
            "spark.sql.warehouse.dir": str(self._temporary / "warehouse"),
            "spark.driver.extraJavaOptions": _QUICK_JVM,
            **SESSION_SETTINGS,
        }
        with _stderr_to(self.log_file), self._spark_errors("Spark did not start"):
            return session(app_name="kafkaraw flights", master="local[2]", conf=settings)

    def _run(self, places: Places, offsets_per_trigger: int, watch: Callable[[QueryMeter], None]) -> list[QueryMeter]:
        from kafkaraw.demo.pipeline import start_queries

        with self._spark_errors("the queries did not start"):
            self._queries = start_queries(self._session(), places, offsets_per_trigger)
        meters = {name: QueryMeter(name) for name in self._queries}
        while not self._stopping.is_set() and not all(meter.ended for meter in meters.values()):
            for name, query in self._queries.items():
                meter = meters[name]
                if meter.ended:
                    continue
                with self._spark_errors(f"the query '{name}' failed"):
                    meter.ended = bool(query.awaitTermination(_POLL_S))  # type: ignore[arg-type]  # takes fractions
                    meter.update(query)
                watch(meter)
        return list(meters.values())

    def _stop(self) -> None:
        if self._starting is None or self._starting.exception() is not None:
            return
        for query in self._queries.values():
            if query.isActive:
                query.stop()
        self._session().stop()

    @contextmanager
    def _spark_errors(self, what: str) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            raise DemoFailedError(f"{what}: {reason_of(error)}; {self._log_hint()}") from error

    def _log_hint(self) -> str:
        return f"Spark's log: {self.log_file}" if self._log_kept else "--keep DIR keeps Spark's log"


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Send this process's standard error to a file; a child started meanwhile keeps it for its whole life.

    Spark's launcher and JVM write their first warnings before any logging can be configured: this is the only place
    to catch them.
    """
    saved = os.dup(_STDERR)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), _STDERR)
        yield
    finally:
        os.dup2(saved, _STDERR)
        os.close(saved)


def reason_of(error: BaseException) -> str:
    """Return the cause of an exception of Spark, in one line.

    An exception in a Python worker is a traceback inside Spark's message: only its last line is of use.
    """
    # py4j's own text says only which Java method was called; what went wrong is in the Java exception.
    text = str(getattr(error, "java_exception", None) or error).strip()
    raised = _END_OF_TRACEBACK.findall(text)
    if raised:
        name, said = raised[-1]
        return said if name.startswith("kafkaraw.") else f"{name}: {said}"
    return text.splitlines()[0] if text else type(error).__name__


def _outcome(work: Future[T]) -> T:
    """Return the result, without a timeout; Ctrl-C ends the wait."""
    wait_interruptibly(lambda seconds: bool(wait([work], seconds).done), None)
    return work.result()
