"""What the five examples share: a broker, a Spark session, runs of the pipeline, comparisons, and the command line.

An example's `__main__.py` has a function `run(place, spark, size)` that returns its picture. Start at `command`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from kafkaraw import Admin, NewTopic, Record
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.demo.readback import read_topic
from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.testing import compare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkaraw.pipelines.model import Pipeline
    from kafkaraw.pipelines.running.runner import Reporter, Summary

Size = Literal["small", "whole"]
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}


class ExampleFailedError(KafkaError):
    """The result of a pipeline is not the one that was computed without Spark."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an example runs.

    Args:
        servers: of the broker.
        definition: the folder of the pipeline.
        storage: the pipeline's storage.
        say: shows a line.
        terminal: shows the flows of a run; None for none.
    """

    servers: str
    definition: Path
    storage: Path
    say: Callable[[str], None]
    terminal: TextIO | None = None

    def create_topics(self, *topics: NewTopic) -> None:
        """Create topics."""
        with Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics(list(topics), timeout=20)

    def records(self, topic: str) -> list[Record]:
        """Return the committed records of a topic.

        Raises:
            KafkaTimeoutError: the broker did not return them in time.
        """
        return list(read_topic(self.servers, topic))

    def run_pipeline(self, spark: SparkSession) -> Summary:
        """Run the pipeline until it has read everything, as `kafkaraw pipelines run --once` does.

        Raises:
            ExampleFailedError: a flow failed.
        """
        from kafkaraw.pipelines.running.runner import RunOptions, run

        with self._reporter() as reporter:
            summary = run(self._pipeline(spark), spark, RunOptions(once=True), reporter=reporter)
        if summary.failed:
            raise ExampleFailedError("; ".join(f"flow {each.flow!r} failed: {each.failure}" for each in summary.failed))
        flows = summary.status.flows
        read, written = (sum(getattr(each, name) for each in flows) for name in ("rows_read", "rows_written"))
        self.say(f"pipeline: {len(flows)} flows, {read:,} rows read, {written:,} written, {summary.seconds:.0f} s")
        return summary

    @contextmanager
    def _reporter(self) -> Iterator[Reporter]:
        """Return what shows a run: one line for each flow in a terminal, nothing elsewhere."""
        from kafkaraw.pipelines.running.reports import Bars
        from kafkaraw.pipelines.running.runner import Silent

        if self.terminal is None:
            yield Silent()
            return
        with Bars(self.terminal) as bars:
            yield bars

    def _pipeline(self, spark: SparkSession) -> Pipeline:
        from kafkaraw.pipelines.definitions import load_pipeline
        from kafkaraw.pipelines.specification import read_specification

        environment = {"KAFKA": self.servers}
        return load_pipeline(read_specification(self.definition, storage=self.storage, environment=environment), spark)

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """Return the rows of one of the pipeline's tables."""
        from kafkaraw.pipelines.running.kafka import KAFKA
        from kafkaraw.pipelines.running.storage import Storage
        from kafkaraw.pipelines.running.targets import Targets

        pipeline = self._pipeline(spark)
        targets = Targets(pipeline, Storage.of(pipeline.storage, pipeline.name), spark, KAFKA)
        return targets.read(pipeline.dataset(name), streaming=False)


def check(name: str, expected: Iterable[Mapping[str, Any]], got: Iterable[Mapping[str, Any]]) -> None:
    """Compare rows with those that were computed without Spark.

    Raises:
        ExampleFailedError: they differ.
    """
    comparison = compare(name, expected, got)
    if not comparison:
        raise ExampleFailedError(str(comparison))


Run = Callable[[Place, "SparkSession", Size], str]


@contextmanager
def place_of(
    definition: Path, folder: Path, say: Callable[[str], None], terminal: TextIO | None = None
) -> Iterator[Place]:
    """Start a broker that keeps records of any age."""
    with EmbeddedBroker(process=True, properties={"log.retention.ms": -1}) as broker:
        yield Place(broker.bootstrap_servers, definition, folder / "storage", say, terminal)


def command(name: str, run: Run, definition: Path | None = None) -> click.Command:
    """Return the command line of an example.

    Args:
        name: of the example.
        run: runs it.
        definition: the folder of its pipeline; None for the example's own folder.
    """
    pipeline = definition or Path(__file__).parent / name

    @click.command(name, help=f"Run the example {name}, and draw its result.")
    @click.option("--size", type=click.Choice(["small", "whole"]), default="whole", show_default=True)
    @click.option(
        "--picture", type=click.Path(dir_okay=False, path_type=Path), default=Path(f"build/examples/{name}.svg")
    )
    def main(size: Size, picture: Path) -> None:
        began = time.monotonic()
        log = picture.with_suffix(".log")
        picture.parent.mkdir(parents=True, exist_ok=True)
        try:
            drawn = _run(run, pipeline, size, log)
        except KafkaError as error:
            raise click.ClickException(f"{error}\nLog: {log}") from error
        picture.write_text(drawn, encoding="utf-8")
        click.echo(f"The result is as expected, after {time.monotonic() - began:.0f} s. Picture: {picture}")

    return main


def _run(run: Run, pipeline: Path, size: Size, log: Path) -> str:
    """Run an example; what Spark and others print goes to the log."""
    import kafkaraw.spark
    from kafkaraw.pipelines.running.driver_session import output_in

    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="kafkaraw-example-") as folder, output_in(log) as shown:
        spark = kafkaraw.spark.session("kafkaraw example", master="local[2]", conf=SETTINGS)
        try:
            terminal = shown if shown.isatty() else None
            with place_of(pipeline, Path(folder), lambda line: print(line, file=shown), terminal) as place:
                return run(place, spark, size)
        finally:
            spark.stop()
