"""Runs the flows of a pipeline on what a test has given: one streaming query for each, to its end.

Each run continues from the checkpoint of the run before it, as after a restart. Streaming tables are written by the
same code as in production; rows for topics and sinks are kept here. Start at `TestedFlows.run`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import KafkaError, UsageError
from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.pipelines.changes import LIVE, ChangedTable, changed_schema
from kafkaraw.pipelines.evaluation import Evaluation, Purpose, evaluate_dataset, evaluate_flow, message_of, stand_in
from kafkaraw.pipelines.model import (
    RECORD_COLUMN,
    TOMBSTONE_COLUMN,
    Dataset,
    DatasetKind,
    FlowDefinition,
    FlowKind,
    Pipeline,
    PipelineError,
)
from kafkaraw.pipelines.snapshots import SnapshotTable
from kafkaraw.pipelines.tables import BatchId, StreamingTable, file_name_of
from kafkaraw.pipelines.testing.given import GivenRows
from kafkaraw.pipelines.testing.topics import TopicsInMemory, TopicsOfBroker
from kafkaraw.pipelines.testing.watermarks import Markers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Row = dict[str, Any]

DEADLINE_S: Final = 120


class FlowFailedError(KafkaError):
    """A flow of the tested pipeline failed."""


@dataclass(slots=True)
class FlowState:
    """What a flow has done.

    Args:
        batches: its rows by micro-batch; a repeated micro-batch replaces its rows.
        late_rows: rows that watermarks have dropped.
        observed: what `observe()` counted, by micro-batch.
    """

    batches: dict[int, list[Row]] = field(default_factory=dict)
    late_rows: dict[int, int] = field(default_factory=dict)
    observed: dict[int, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """The rows of all micro-batches, in their order."""
        return [row for _, rows in sorted(self.batches.items()) for row in rows]


class TestedFlows:
    """The flows of a pipeline under test.

    Args:
        pipeline: the pipeline.
        spark: the session.
        folder: an empty folder for given rows, checkpoints and tables.
        topics: the given records.
    """

    def __init__(
        self, pipeline: Pipeline, spark: SparkSession, folder: Path, topics: TopicsInMemory | TopicsOfBroker
    ) -> None:
        self.pipeline: Pipeline = pipeline
        self.spark = spark
        self.markers: Markers = Markers(spark, folder / "markers")
        self._folder = folder
        self._topics = topics
        self._given: dict[str, GivenRows] = {}
        self._states: dict[str, FlowState] = {}
        self._done: set[str] = set()  # flows of this run
        self._schemas: dict[str, StructType] = {}
        self._tables: dict[str, StreamingTable | SnapshotTable] = {}

    # -- what is given -------------------------------------------------------------------------------------------------

    def give(self, name: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows to a dataset, which from now on has given rows only."""
        dataset = self.pipeline.dataset(name)
        if dataset.name not in self._given:
            if self._states:
                raise UsageError(
                    f"give rows to {name!r} before the first run, if need be none: flows have read it already"
                )
            folder = self._folder / "given" / file_name_of(dataset.name)
            self._given[dataset.name] = GivenRows(folder, dataset.name, self.schema_of(dataset.name))
            if dataset.kind is DatasetKind.TEMPORARY_VIEW:
                self._replace_function(dataset)
        self._given[dataset.name].add(rows)

    def _replace_function(self, dataset: Dataset) -> None:
        streaming = self._planned(dataset.name).isStreaming
        read = partial(self._given[dataset.name].read, self.spark, streaming=streaming)
        datasets = tuple(
            replace(each, function=read, expectations=()) if each is dataset else each
            for each in self.pipeline.datasets
        )
        self.pipeline = replace(self.pipeline, datasets=datasets)

    # -- evaluation ----------------------------------------------------------------------------------------------------

    def schema_of(self, name: str) -> StructType:
        """Return the columns that the functions of a dataset return, without reading any input."""
        if name not in self._schemas:
            frame = self._planned(name)
            is_view = self.pipeline.dataset(name).kind is DatasetKind.TEMPORARY_VIEW
            rows = frame if is_view else frame.drop(RECORD_COLUMN, TOMBSTONE_COLUMN)
            flow = next(iter(self.pipeline.flows_into(name)), None)
            applied = None if flow is None else flow.changes
            self._schemas[name] = rows.schema if applied is None else changed_schema(applied, frame)
        return self._schemas[name]

    def _planned(self, name: str) -> DataFrame:
        flows = self.pipeline.flows_into(name)

        def read_table(dataset: Dataset, streaming: bool, evaluation: Evaluation) -> DataFrame:
            return stand_in(self.spark, self.schema_of(dataset.name), evaluation, streaming=streaming)

        plan = self._evaluation(name, Purpose.PLAN, read_table=read_table)
        return evaluate_flow(flows[0], plan) if flows else evaluate_dataset(name, plan)

    def _evaluation(
        self, flow: str, purpose: Purpose, read_table: Callable[[Dataset, bool, Evaluation], DataFrame]
    ) -> Evaluation:
        from kafkaraw.pipelines.judging import judged

        return Evaluation(
            self.spark,
            self.pipeline,
            flow,
            purpose,
            read_topic=self._topics.read_topic,
            judge=judged,
            read_table=read_table,
            read_records=self._topics.read_records,
        )

    def _read_table(self, dataset: Dataset, streaming: bool, evaluation: Evaluation) -> DataFrame:
        if dataset.name in self._given:
            return self._given[dataset.name].read(self.spark, streaming=streaming)
        for flow in self.pipeline.flows_into(dataset.name):
            self._run_flow(flow)
        return self._read_written(dataset, streaming=streaming)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def run(self, flows: Iterable[FlowDefinition]) -> None:
        """Run flows, and those that they read from, until they have read everything that is given.

        Raises:
            FlowFailedError: a flow failed.
            PipelineError: a definition is wrong.
        """
        self._done = set()
        for flow in flows:
            self._run_flow(flow)

    def state(self, flow: str) -> FlowState:
        """Return what a flow has done."""
        return self._states.setdefault(flow, FlowState())

    def crash(self) -> None:
        """Make each flow repeat its last micro-batch, as after a crash before the end of that batch was noted."""
        for commits in self._folder.glob("checkpoints/*/commits"):
            numbers = sorted((int(file.name) for file in commits.iterdir() if file.name.isdigit()), reverse=True)
            if numbers:
                (commits / str(numbers[0])).unlink()
                (commits / f".{numbers[0]}.crc").unlink(missing_ok=True)

    def _run_flow(self, flow: FlowDefinition) -> None:
        if flow.name in self._done:
            return
        self._done.add(flow.name)
        purpose = Purpose.DEAD_LETTERS if flow.kind is FlowKind.DEAD_LETTERS else Purpose.FLOW
        with self.markers.intercepted():
            frame = evaluate_flow(flow, self._evaluation(flow.name, purpose, self._read_table))
        if flow.changes is None:  # a sequence may be that of the record
            frame = frame.drop(RECORD_COLUMN, TOMBSTONE_COLUMN)
        write = self._writer(flow)
        if frame.isStreaming:
            self._run_stream(flow, frame, write)
        else:
            write(frame, 0)

    def _writer(self, flow: FlowDefinition) -> Callable[[DataFrame, int], None]:
        """Return what writes a micro-batch of a flow, given the rows and their number."""
        state = self.state(flow.name)
        dataset = self.pipeline.find(flow.target)

        def keep(batch: DataFrame, number: int) -> None:
            state.batches[number] = [row.asDict() for row in batch.collect()]

        if dataset is None or not dataset.kind.is_table:
            return keep
        if flow.changes is not None:
            snapshots = SnapshotTable(self._folder / "tables" / file_name_of(dataset.name))
            self._tables[dataset.name] = snapshots
            changed = ChangedTable(snapshots, flow.changes)

            def apply(batch: DataFrame, number: int) -> None:
                changed.apply(batch, BatchId(flow.name, 0, number), dict)

            return apply
        table = StreamingTable(
            self._folder / "tables" / file_name_of(dataset.name),
            file_format=dataset.format or "parquet",
            partition_columns=dataset.partition_columns,
        )
        self._tables[dataset.name] = table

        def append(batch: DataFrame, number: int) -> None:
            table.append(batch, BatchId(flow.name, 0, number))

        def refresh(batch: DataFrame, number: int) -> None:
            table.clear()
            append(batch, number)

        return refresh if flow.kind is FlowKind.COMPLETE else append

    def _run_stream(self, flow: FlowDefinition, frame: DataFrame, write: Callable[[DataFrame, int], None]) -> None:
        state = self.state(flow.name)
        writer = frame.writeStream.foreachBatch(write).outputMode(flow.output_mode)
        query = (
            writer.option("checkpointLocation", str(self._folder / "checkpoints" / file_name_of(flow.name)))
            .trigger(availableNow=True)
            .start()
        )
        try:
            ended = query.awaitTermination(DEADLINE_S)
        except Exception as error:
            raise FlowFailedError(f"flow {flow.name!r} failed: {message_of(error)}") from error
        finally:
            self._note(state, query)
            query.stop()
        if not ended:
            raise FlowFailedError(f"flow {flow.name!r} has not ended after {DEADLINE_S} s")

    def _note(self, state: FlowState, query: Any) -> None:  # noqa: ANN401 -- a StreamingQuery
        for progress in query.recentProgress:
            state.late_rows[progress.batchId] = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
            metrics = {name: row.asDict() for name, row in progress.observedMetrics.items()}
            if metrics:
                state.observed[progress.batchId] = metrics

    # -- results -------------------------------------------------------------------------------------------------------

    def rows(self, name: str) -> list[Row]:
        """Return the rows of a table, topic or sink; of a topic in update mode, the newest row of each key."""
        dataset = self.pipeline.dataset(name)
        if dataset.name in self._tables:
            return [row.asDict() for row in self._read_written(dataset, streaming=False).collect()]
        rows = [row for flow in self.pipeline.flows_into(dataset.name) for row in self.state(flow.name).rows]
        target = dataset.topic
        if target is None or target.output_mode == "append" or target.key is None:
            return rows
        key = (target.key,) if isinstance(target.key, str) else target.key
        return list({tuple(as_json(row.get(column)) for column in key): row for row in rows}.values())

    def _read_written(self, dataset: Dataset, *, streaming: bool) -> DataFrame:
        table = self._tables[dataset.name]
        schema = self.schema_of(dataset.name)
        if isinstance(table, SnapshotTable):
            if streaming:
                raise PipelineError(f"{dataset.name!r} has changes applied to it, and cannot be read as a stream")
            return table.read(self.spark, schema, within=LIVE)
        reader: Any = self.spark.readStream if streaming else self.spark.read
        frame: DataFrame = reader.schema(schema).format(table.file_format).load(str(table.path))
        return frame


def as_json(value: object) -> str:
    """Return a value as JSON, for messages."""
    return json.dumps(value, default=str, ensure_ascii=False)
