"""Runs the pipeline of the flights on a Spark of its own, in a thread of its own.

Starting Spark takes as long as sending the flights, so both happen at the same time. One thread makes all calls to
Spark: Spark keeps the session in use per thread, and Ctrl-C, which interrupts the main thread, must not interrupt an
answer of the JVM. The definition is in the folder `pipeline` beside this file. pyspark is imported inside functions
only. Start at `PipelineRun`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from kafkaraw.demo.topics import Topics
from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.net.threads import wait_interruptibly
from kafkaraw.pipelines.specification import Specification, read_specification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkaraw.pipelines.running.runner import Reporter, Summary

T = TypeVar("T")

DEFINITION: Final = Path(__file__).parent / "pipeline"
"""The folder of the pipeline: `spark-pipeline.yml`, definitions and tests."""
DEPARTURES: Final = "departures"
"""The table with all flights."""
SPARK_TEMPORARY: Final = "spark-temporary"
"""Spark's scratch folder, inside the folder of a run."""

_PATIENCE: Final = {"kafkaraw.kafka.default.api.timeout.ms": "30000"}  # a broker failure is reported in half the time
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # For a run of a minute the fast compiler is enough: the full one took a third of the processor time for itself.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class DemoFailedError(KafkaError):
    """Spark did not start, or a flow of the pipeline failed; the message says which and why, in one line."""


def specification_of(bootstrap_servers: str, topics: Topics, storage: Path) -> Specification:
    """Return the specification of the pipeline, for these topics.

    Raises:
        UsageError: Spark is not installed, or one that is too old.
        ConfigError: another package is missing.
    """
    settings = {
        "flights.topic.prefix": topics.prefix,
        "kafkaraw.dead.letter.topic": topics.dead_letters,
        "kafkaraw.replay.topic": topics.replays,
        "kafkaraw.group.prefix": f"{topics.prefix}flights",
    }
    return read_specification(
        DEFINITION, storage=storage, configuration=_PATIENCE | settings, environment={"KAFKA": bootstrap_servers}
    )


class PipelineRun:
    """One run of the pipeline.

    Args:
        specification: of the pipeline.
        folder: for Spark's temporary files.
        log_hint: where Spark's log is, for messages.
    """

    def __init__(self, specification: Specification, folder: Path, log_hint: str) -> None:
        self._specification = specification
        self._temporary = folder / SPARK_TEMPORARY
        self._log_hint = log_hint
        self._thread = ThreadPoolExecutor(1, "spark")
        self._starting: Future[SparkSession] | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin to start Spark."""
        self._temporary.mkdir()
        self._starting = self._thread.submit(self._start)

    def wait_until_started(self) -> None:
        """Wait for Spark.

        Raises:
            DemoFailedError: it did not start.
        """
        assert self._starting is not None, "start() comes first"
        _outcome(self._starting)

    def run(self, reporter: Reporter) -> Summary:
        """Run the pipeline until it has read everything.

        Args:
            reporter: shows what happens; called on another thread.

        Raises:
            DemoFailedError: a flow failed.
        """
        summary = _outcome(self._thread.submit(self._run, reporter))
        for flow in summary.failed:
            raise DemoFailedError(f"flow {flow.flow!r} failed: {flow.failure}; {self._log_hint}")
        return summary

    def stop(self) -> None:
        """Stop the flows and Spark, in any state; wait until Spark has ended."""
        self._stopping.set()
        _outcome(self._thread.submit(self._stop))
        self._thread.shutdown()

    def _start(self) -> SparkSession:
        from kafkaraw.pipelines.running.driver_session import started_session

        places = {
            "spark.local.dir": str(self._temporary),
            "spark.sql.warehouse.dir": str(self._temporary / "warehouse"),
        }
        with self._spark_errors("Spark did not start"):
            settings = _SETTINGS | places | dict(self._specification.settings.spark)
            return started_session("kafkaraw flights", "local[2]", settings)

    def _run(self, reporter: Reporter) -> Summary:
        from kafkaraw.pipelines.definitions import load_pipeline
        from kafkaraw.pipelines.running.runner import RunOptions, run

        assert self._starting is not None, "start() comes first"
        spark = self._starting.result()
        stopping = self._stopping.is_set
        with self._spark_errors("the pipeline did not start"):
            pipeline = load_pipeline(self._specification, spark)
            options = RunOptions(once=True, should_stop=stopping, should_kill=stopping)
            return run(pipeline, spark, options, reporter=reporter)

    def _stop(self) -> None:
        if self._starting is not None and self._starting.exception() is None:
            self._starting.result().stop()

    @contextmanager
    def _spark_errors(self, what: str) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            text = str(error).strip().splitlines() or [type(error).__name__]
            raise DemoFailedError(f"{what}: {text[0]}; {self._log_hint}") from error


def check_spark() -> None:
    """Check that there is a Spark with pipelines.

    Raises:
        UsageError: there is none.
    """
    from kafkaraw.spark.versions import features, running

    if not features().pipelines:
        version = ".".join(map(str, running()))
        raise UsageError(
            f"pyspark is {version}, and pipelines need 4.2: run `make setup`, or install kafkaraw[pipelines]"
        )


def _outcome(work: Future[T]) -> T:
    """Return the result, without a timeout; Ctrl-C ends the wait."""
    wait_interruptibly(lambda seconds: bool(wait([work], seconds).done), None)
    return work.result()
