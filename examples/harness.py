"""What the five examples share: a broker, a Spark session, runs of the pipeline, comparisons, and the command line.

An example's `__main__.py` has a function `run(place, spark, size)` that returns its picture. Start at `command`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from kafkaraw import Admin, Consumer, NewTopic, Record
from kafkaraw.broker import EmbeddedBroker
from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.testing import compare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkaraw.pipelines.model import Pipeline
    from kafkaraw.pipelines.running.runner import Summary

Size = Literal["small", "whole"]
DEADLINE_S = 60
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
}


class ExampleFailedError(KafkaError):
    """The result of a pipeline is not what plain Python has computed."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an example runs.

    Args:
        servers: of the broker.
        definition: the folder of the pipeline.
        storage: the pipeline's storage.
        say: shows a line.
    """

    servers: str
    definition: Path
    storage: Path
    say: Callable[[str], None]

    def create_topics(self, *topics: NewTopic) -> None:
        """Create topics."""
        with Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics(list(topics), timeout=20)

    def records(self, topic: str) -> list[Record]:
        """Return the committed records of a topic.

        Raises:
            ExampleFailedError: the broker did not return them in time.
        """
        found = list[Record]()
        with Consumer(
            bootstrap_servers=self.servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            partitions = consumer.partitions_for(topic)
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            deadline = time.monotonic() + DEADLINE_S
            while any(consumer.position(each) < ends[each] for each in partitions):  # markers of transactions, too
                if time.monotonic() > deadline:
                    raise ExampleFailedError(f"topic {topic!r} was not read to its end within {DEADLINE_S} s")
                for batch in consumer.poll(0.2).values():
                    found.extend(batch)
        return found

    def run_pipeline(self, spark: SparkSession) -> Summary:
        """Run the pipeline until it has read everything, as `kafkaraw pipelines run --once` does.

        Raises:
            ExampleFailedError: a flow failed.
        """
        from kafkaraw.pipelines.running.kafka import KAFKA
        from kafkaraw.pipelines.running.runner import RunOptions, run

        summary = run(self._pipeline(spark), spark, RunOptions(once=True), topics=KAFKA)
        if summary.failed:
            raise ExampleFailedError("; ".join(f"flow {each.flow!r} failed: {each.failure}" for each in summary.failed))
        return summary

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
    """Compare rows with those that plain Python has computed.

    Raises:
        ExampleFailedError: they differ.
    """
    comparison = compare(name, expected, got)
    if not comparison:
        raise ExampleFailedError(str(comparison))


Run = Callable[[Place, "SparkSession", Size], str]


@contextmanager
def place_of(definition: Path, folder: Path, say: Callable[[str], None]) -> Iterator[Place]:
    """Start a broker that keeps records of any age."""
    with EmbeddedBroker(process=True, properties={"log.retention.ms": -1}) as broker:
        yield Place(broker.bootstrap_servers, definition, folder / "storage", say)


def command(name: str, run: Run) -> click.Command:
    """Return the command line of an example."""

    @click.command(name, help=f"Run the example {name}, and draw its result.")
    @click.option("--size", type=click.Choice(["small", "whole"]), default="whole", show_default=True)
    @click.option(
        "--picture", type=click.Path(dir_okay=False, path_type=Path), default=Path(f"build/examples/{name}.svg")
    )
    def main(size: Size, picture: Path) -> None:
        import kafkaraw.spark

        with tempfile.TemporaryDirectory(prefix=f"kafkaraw-{name}-") as folder:
            spark = kafkaraw.spark.session(name, master="local[2]", conf=SETTINGS)
            spark.sparkContext.setLogLevel("ERROR")
            try:
                with place_of(Path(__file__).parent / name, Path(folder), click.echo) as place:
                    drawn = run(place, spark, size)
            except KafkaError as error:
                raise click.ClickException(str(error)) from error
            finally:
                spark.stop()
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_text(drawn, encoding="utf-8")
        click.echo(f"The result is as expected. Picture: {picture}")

    return main
