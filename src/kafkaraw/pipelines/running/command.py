"""`kafkaraw pipelines run` without its options: from a folder to the exit code.

Starts Spark, loads the definitions, runs them, and shows what happens. Start at `run_place`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.pipelines.definitions import load_pipeline
from kafkaraw.pipelines.running.driver_session import output_in, started_session
from kafkaraw.pipelines.running.http import RunStatusServer
from kafkaraw.pipelines.running.kafka import KAFKA
from kafkaraw.pipelines.running.plans import planned
from kafkaraw.pipelines.running.reports import Report, Reports, report_for
from kafkaraw.pipelines.running.runner import JvmDiedError, RunOptions, Summary, jvm_has_died, raise_if_jvm_died, run
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.running.targets import TopicFunctions
from kafkaraw.pipelines.specification import Specification, read_specification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Place:
    """Where and with what a pipeline runs.

    Args:
        path: of the specification, or a folder with one.
        master: of Spark.
        conf: Spark settings that override those of the specification.
        address: host and port of the status endpoints; None for none.
    """

    path: Path
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    address: tuple[str, int] | None = None


Options = Callable[[], contextlib.AbstractContextManager[RunOptions]]
"""Returns the options of the run; within the context, signals are passed on to the run."""


def run_place(place: Place, options: Options, topics: TopicFunctions = KAFKA) -> Summary:
    """Run the pipeline of a folder. It is stopped, too, if the reader of its output closes the pipe.

    Args:
        place: where it is.
        options: entered after Spark has started, which sets signal handlers of its own.
        topics: how topics are read and written.

    Raises:
        PipelineError: a definition is wrong.
        KafkaError: the run could not begin, or Spark's JVM has ended.
    """
    specification = read_specification(place.path)
    storage = Storage.of(specification.storage, specification.name)
    with contextlib.ExitStack() as stack:
        server = None if place.address is None else RunStatusServer(place.address[1], place.address[0])
        if server is not None:
            stack.callback(server.close)
        log = storage.new_log()
        report = report_for(stack.enter_context(output_in(log)))
        url = None if server is None else server.address
        report.started(pipeline=specification.name, log=str(log), http=url)
        spark = started_session(specification.name, place.master, {**specification.settings.spark, **place.conf})
        stack.callback(_stop, spark)
        with options() as chosen:
            asked = chosen.should_stop
            chosen = replace(chosen, should_stop=lambda: asked() or report.is_broken)
            reports = Reports(report, storage.status_file, server)
            return _run(specification, spark, chosen, topics, report, reports)


def _run(
    specification: Specification,
    spark: SparkSession,
    options: RunOptions,
    topics: TopicFunctions,
    report: Report,
    reports: Reports,
) -> Summary:
    try:
        pipeline = load_pipeline(specification, spark)
        plan = planned(pipeline, spark)
        with report:
            summary = run(pipeline, spark, options, topics=topics, reporter=reports, plan=plan)
        report.finished(summary)
    except JvmDiedError:
        raise
    except Exception as error:
        raise_if_jvm_died(spark, error)
        raise
    return summary


def _stop(spark: SparkSession) -> None:
    if not jvm_has_died(spark):
        spark.stop()
