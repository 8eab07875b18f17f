"""`PipelineTest`: one pipeline under test, from what is given to what comes out."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kafkaraw.errors import UsageError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.pipelines.model import DatasetKind, FlowDefinition, Pipeline, did_you_mean
from kafkaraw.pipelines.testing.differences import Comparison, compare
from kafkaraw.pipelines.testing.flows import Row, TestedFlows
from kafkaraw.pipelines.testing.given import EPOCH, Record
from kafkaraw.pipelines.testing.topics import TopicsInMemory, TopicsOfBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkaraw.pipelines.judging import DatasetCounts


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record of the dead-letter topic.

    Args:
        key: of the original record.
        value: of the original record.
        headers: of the original record.
        timestamp: of the original record.
        about: the headers of kafkaraw without their prefix: dataset, reason, expectation, error, topic, partition,
            offset, ...
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: datetime | None
    about: Mapping[str, str]

    def as_row(self) -> Row:
        """Return it as one row, for comparisons; key and value as text if they are UTF-8."""
        return {**self.about, "key": _readable(self.key), "value": _readable(self.value)}


def _readable(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def session(**conf: str) -> SparkSession:
    """Return a Spark session for tests: one shuffle partition, times in UTC, no web interface.

    Expressions are interpreted, and the JVM does not optimize what it compiles: for the few rows of a test, both would
    take longer than the queries. The results are the same.

    Args:
        conf: further settings.
    """
    import kafkaraw.spark

    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    return kafkaraw.spark.session("kafkaraw pipeline tests", master="local[2]", conf=settings | conf)


class PipelineTest:
    """A pipeline under test.

        with PipelineTest("shop", spark) as shop:
            shop.send("orders", {"id": 1, "amount": 3.5}, b"no JSON")
            shop.run("clean")
            shop.expect("clean", [{"id": 1, "amount": 3.5}])
            shop.expect_dead_letters([{"reason": "decode", "value": "no JSON"}])

    Args:
        pipeline: the folder of the pipeline, or its `spark-pipeline.yml`, or a loaded pipeline.
        spark: the session; see `session`.
        broker: keep the topics in an embedded broker, which flows read with format "kafkaraw"; otherwise in files.
    """

    def __init__(self, pipeline: Pipeline | Path | str, spark: SparkSession, *, broker: bool = False) -> None:
        loaded = pipeline if isinstance(pipeline, Pipeline) else load(pipeline, spark)
        self._folder = Path(tempfile.mkdtemp(prefix="kafkaraw-pipeline-test-"))
        self._topics = TopicsOfBroker(loaded) if broker else TopicsInMemory(self._folder / "topics")
        loaded = replace(self._topics.of_pipeline(loaded), storage=str(self._folder / "storage"))
        self._flows = TestedFlows(loaded, spark, self._folder, self._topics)

    def __enter__(self) -> PipelineTest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the broker, and remove the files of the test."""
        self._topics.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- given ---------------------------------------------------------------------------------------------------------

    def send(self, topic: str, *values: object, key: object = None, timestamp: datetime | str = EPOCH) -> None:
        """Send records to a topic; the next run reads them.

        Args:
            topic: name of the topic.
            values: one for each record: bytes as they are, text as UTF-8, None for a tombstone, a `Record` for all
                there is, everything else as JSON.
            key: of the records that are no `Record`.
            timestamp: of the records that are no `Record`.
        """
        time = time_of(timestamp)
        self._topics.send(
            topic, [each if isinstance(each, Record) else Record(each, key, timestamp=time) for each in values]
        )

    def give(self, dataset: str, *rows: Mapping[str, object]) -> None:
        """Give rows to a view or table, in place of what its function returns."""
        self._flows.give(dataset, rows)

    def advance_watermark(self, time: datetime | str) -> None:
        """Advance the watermarks of all queries to a time, in the next run: it ends windows and drops late rows."""
        self._flows.markers.add(time_of(time))

    # -- runs ----------------------------------------------------------------------------------------------------------

    def run(self, *datasets: str) -> None:
        """Run flows until they have read all that is given: one micro-batch for what is new since the last run.

        Each run continues from checkpoints, as after a restart.

        Args:
            datasets: run the flows into these, and those that they read from; without any, all flows.

        Raises:
            FlowFailedError: a flow failed.
        """
        self._flows.run(self._flows_into(datasets))

    def crash(self) -> None:
        """Crash before the end of the last micro-batch was noted: the next run repeats it, then continues."""
        self._flows.crash()

    def _flows_into(self, datasets: Sequence[str]) -> tuple[FlowDefinition, ...]:
        pipeline = self._flows.pipeline
        if not datasets:
            return pipeline.flows
        return tuple(flow for name in datasets for flow in pipeline.flows_into(pipeline.dataset(name).name))

    # -- results -------------------------------------------------------------------------------------------------------

    def rows(self, dataset: str) -> list[Row]:
        """Return the rows of a table, topic or sink; of a topic in update mode, the newest row of each key."""
        return self._flows.rows(dataset)

    def late_rows(self, dataset: str) -> int:
        """Return how many rows watermarks have dropped in the flows into a dataset."""
        return sum(sum(self._flows.state(flow.name).late_rows.values()) for flow in self._flows_into((dataset,)))

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters of all records that were given."""
        from kafkaraw.pipelines.dead_letters.flows import dead_letter_flows

        flows = dead_letter_flows(self._flows.pipeline)
        self._flows.run(flows)
        return [_dead_letter(row) for flow in flows for row in self._flows.state(flow.name).rows]

    def counts(self, dataset: str) -> DatasetCounts:
        """Return what was counted in a dataset: rows, dropped, quarantined, and `unmet` by the name of the expectation.

        For a view they are those of the first flow that has read it.
        """
        from kafkaraw.pipelines.judging import DatasetCounts, counts

        found = self._flows.pipeline.dataset(dataset)
        is_view = found.kind is DatasetKind.TEMPORARY_VIEW
        total = DatasetCounts()
        for flow in self._flows.pipeline.flows if is_view else self._flows_into((found.name,)):
            for observed in self._flows.state(flow.name).observed.values():
                by_name = counts(observed)
                total += by_name.get(found.name if is_view else flow.name, DatasetCounts())
            if is_view and total != DatasetCounts():
                break
        return total

    # -- expected ------------------------------------------------------------------------------------------------------

    def expect(self, dataset: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Compare the rows of a dataset, in any order and in the columns that the expected rows name.

        Raises:
            AssertionError: they differ; the text is a table of the differences.
        """
        _check(compare(dataset, rows, self.rows(dataset)))

    def expect_dead_letters(self, letters: Iterable[Mapping[str, object]]) -> None:
        """Compare the dead letters, in any order.

        Columns: dataset, reason, expectation, error, topic, partition, offset, key and value.

        Raises:
            AssertionError: they differ.
        """
        _check(compare("dead letters", letters, [each.as_row() for each in self.dead_letters()]))

    def expect_counts(self, dataset: str, expected: Mapping[str, Any]) -> None:
        """Compare what was counted in a dataset, as in `{"rows": 3, "unmet": {"has a customer": 1}}`.

        Raises:
            AssertionError: a number differs.
            UsageError: there is no number of that name.
        """
        from kafkaraw.pipelines.judging import DatasetCounts

        counted = [name for name in DatasetCounts.__match_args__ if name not in ("unmet", "actions")]
        got = self.counts(dataset)
        wanted, there = [], []
        for name, number in expected.items():
            if name not in (*counted, "unmet"):
                raise UsageError(
                    f"unknown count {name!r}{did_you_mean(name, counted) or f': it is one of {counted} and unmet'}"
                )
            for label, one in number.items() if isinstance(number, Mapping) else [(name, number)]:
                if name == "unmet" and label not in got.unmet:
                    hint = did_you_mean(label, got.unmet) or f": it has {', '.join(got.unmet) or 'none'}"
                    raise UsageError(f"dataset {dataset!r} has counted no expectation {label!r}{hint}")
                wanted.append({"count": label, "number": one})
                there.append({"count": label, "number": got.unmet[label] if name == "unmet" else getattr(got, name)})
        _check(compare(f"counts of {dataset}", wanted, there))


class _Environment(Mapping[str, str]):
    """The environment's variables; one that is not set has a value too: a test asks no broker that one names."""

    def __getitem__(self, name: str) -> str:
        return os.environ.get(name, "not-set-in-tests:1")

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def load(place: Path | str, spark: SparkSession) -> Pipeline:
    """Return the pipeline of a folder or `spark-pipeline.yml`; variables of the environment need not be set.

    Raises:
        PipelineError: a definition is wrong.
    """
    from kafkaraw.pipelines.definitions import load_pipeline
    from kafkaraw.pipelines.specification import read_specification

    return load_pipeline(read_specification(Path(place), environment=_Environment()), spark)


def _check(comparison: Comparison) -> None:
    if not comparison:
        raise AssertionError(str(comparison))


def _dead_letter(row: Row) -> DeadLetter:
    from kafkaraw.pipelines.letters import HEADERS, PREFIX

    headers = [(each["key"], _bytes(each["value"])) for each in row.get("headers") or ()]
    about = {
        name.removeprefix(PREFIX): (value or b"").decode(errors="replace") for name, value in headers[: len(HEADERS)]
    }
    return DeadLetter(
        _bytes(row.get("key")), _bytes(row.get("value")), tuple(headers[len(HEADERS) :]), row.get("timestamp"), about
    )


def _bytes(value: Any) -> bytes | None:  # noqa: ANN401 -- bytes or a bytearray of Spark
    return None if value is None else bytes(value)


def time_of(time: datetime | str) -> datetime:
    """Return a time; text is ISO 8601, without a zone in UTC.

    Raises:
        UsageError: the text is no time.
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise UsageError(f"{time!r} is no time: write it as in 2026-01-01 12:00") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)
