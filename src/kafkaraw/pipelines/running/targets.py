"""Where flows write to, and how the datasets of a pipeline are read: tables in the storage, topics, and Spark's sinks.

Must not know states of flows. Start at `Targets.writer`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.changes import LIVE, ChangedTable, changed_schema
from kafkaraw.pipelines.evaluation import Judge, ReadRecords, ReadTopic, declared_columns
from kafkaraw.pipelines.model import (
    RECORD_COLUMN,
    TOMBSTONE_COLUMN,
    Changes,
    Dataset,
    DatasetKind,
    FlowDefinition,
    FlowKind,
    Pipeline,
    PipelineError,
    TopicTarget,
)
from kafkaraw.pipelines.running.flow_query import WriteBatch
from kafkaraw.pipelines.running.progress import ROWS, WRITTEN
from kafkaraw.pipelines.running.storage import FlowStorage, Storage
from kafkaraw.pipelines.snapshots import SnapshotTable
from kafkaraw.pipelines.tables import FILE_FORMATS, Metrics, StreamingTable
from kafkaraw.spark.foreach_batch import batch_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NEVER_WRITTEN: Final = (RECORD_COLUMN, TOMBSTONE_COLUMN)


@dataclass(frozen=True, slots=True)
class TopicFunctions:
    """What a run needs to know of topics, expectations and dead letters.

    Args:
        read_topic: returns the rows of `topic()`.
        judge: applies expectations.
        rows_of: returns rows with the columns key, value... of format "kafkaraw", for a topic as a table.
        sink_options: returns the options of that format for a topic, given the name of the flow; no target for the
            dead-letter topic.
        dead_letter_flows: returns the flows that write dead letters.
        create_topics: makes the topics that flows write to; gets whether flows read topics, and may have bad records.
        topic_ids: returns the ids of topics, by name; those that do not exist are left out.
        read_records: returns the records of topics from elsewhere than a broker; None for the broker.
    """

    read_topic: ReadTopic
    judge: Judge
    rows_of: Callable[[DataFrame, TopicTarget, Pipeline], DataFrame]
    sink_options: Callable[[Pipeline, str, str, TopicTarget | None], Mapping[str, str]]
    dead_letter_flows: Callable[[Pipeline], tuple[FlowDefinition, ...]]
    create_topics: Callable[[Pipeline, bool], object]
    topic_ids: Callable[[Pipeline, Iterable[str]], Mapping[str, str]]
    read_records: ReadRecords | None = None


class Targets:
    """The tables of a pipeline's storage, and what writes to them.

    Args:
        pipeline: the pipeline.
        storage: its storage.
        spark: the session.
        topics: see `TopicFunctions`.
    """

    def __init__(self, pipeline: Pipeline, storage: Storage, spark: SparkSession, topics: TopicFunctions) -> None:
        self._pipeline = pipeline
        self._storage = storage
        self._spark = spark
        self._topics = topics
        self._columns_lock = threading.Lock()
        self._versions_read: dict[tuple[str, str], int] = {}  # by table and flow

    def is_snapshot(self, dataset: Dataset) -> bool:
        """Return whether the contents of a table are replaced, instead of rows being added."""
        if dataset.kind is DatasetKind.MATERIALIZED_VIEW:
            return True
        return any(flow.kind is FlowKind.CHANGES for flow in self._pipeline.flows_into(dataset.name))

    def streaming_table(self, dataset: Dataset) -> StreamingTable:
        """Return a streaming table."""
        file_format = dataset.format or "parquet"
        if file_format not in FILE_FORMATS:
            raise PipelineError(
                f"format {file_format!r}: streaming tables can be {', '.join(FILE_FORMATS)}; write other formats "
                f'with dp.create_sink("{dataset.name}", "{file_format}", ...)',
                location=dataset.location,
                dataset=dataset.name,
            )
        return StreamingTable(
            self._storage.table(self._name(dataset)),
            file_format=file_format,
            partition_columns=dataset.partition_columns,
        )

    def snapshot_table(self, dataset: Dataset) -> SnapshotTable:
        """Return a table whose contents are replaced."""
        name = self._name(dataset)
        return SnapshotTable(
            self._storage.table(name),
            file_format=dataset.format or "parquet",
            partition_columns=dataset.partition_columns,
            in_use=lambda: {number for (table, _), number in self._versions_read.copy().items() if table == name},
        )

    def has_contents(self, dataset: Dataset) -> bool:
        """Return whether a table can be read as a batch."""
        return not self.is_snapshot(dataset) or self.snapshot_table(dataset).current() is not None

    def clear(self, dataset: Dataset) -> None:
        """Empty a table."""
        if self.is_snapshot(dataset):
            self.snapshot_table(dataset).clear()
        else:
            self.streaming_table(dataset).clear()

    def set_columns(self, dataset: Dataset, frame: DataFrame) -> StructType:
        """Make the columns of a flow's rows columns of the table it appends to.

        Raises:
            ConfigError: a column has another type than in the table.
        """
        table = self.streaming_table(dataset)
        with self._columns_lock:
            if dataset.schema is not None:
                table.evolve(declared_columns(dataset.schema, f"schema={dataset.schema!r}", dataset=dataset.name))
            return table.evolve(without_record(frame).schema)

    @contextmanager
    def columns_of_definition(self, datasets: Iterable[Dataset]) -> Iterator[None]:
        """Forget the columns of tables that are about to be emptied; if that fails, they get their columns back."""
        kept = [
            (table, table.forget_columns())
            for table in (self.streaming_table(each) for each in datasets if not self.is_snapshot(each))
        ]
        try:
            yield
        except BaseException:
            for table, columns in kept:
                table.forget_columns()
                if columns is not None:
                    table.evolve(columns)
            raise

    def snapshot_schema(self, flow: FlowDefinition, frame: DataFrame) -> StructType:
        """Return the columns of a table that a flow replaces."""
        if flow.changes is not None:
            return changed_schema(flow.changes, frame)
        return without_record(frame).schema

    def read(self, dataset: Dataset, *, streaming: bool, flow: str | None = None) -> DataFrame:
        """Return the rows of a table that has been prepared in this run, or written in an earlier one.

        Args:
            dataset: the table.
            streaming: whether as a stream.
            flow: name of the flow that reads it; until it reads the table again, the version that it reads now stays.
                None for other readers.

        Raises:
            PipelineError: a table whose contents are replaced was read as a stream, or the table does not exist yet.
        """
        from pyspark.sql.types import StructType

        if self.is_snapshot(dataset):
            snapshot = self.snapshot_table(dataset)
            version = snapshot.current()
            if streaming:
                raise PipelineError(
                    f"{dataset.name!r} is a {dataset.kind.value} whose contents are replaced, and was read as a "
                    f'stream: read it with spark.read.table("{dataset.name}"), or its topic or source as a stream'
                )
            if version is None:
                raise PipelineError(f"{dataset.name!r} has no contents yet: run the flow that computes it first")
            if flow is not None:
                self._versions_read[self._name(dataset), flow] = version.number
            within = LIVE if dataset.kind is not DatasetKind.MATERIALIZED_VIEW else ""
            return snapshot.read(self._spark, StructType.fromJson(json.loads(version.schema)), within=within)
        table = self.streaming_table(dataset)
        schema = table.schema()
        if schema is None:
            raise PipelineError(f"{dataset.name!r} has no columns yet: run the flows that write to it first")
        table.recover()
        if streaming:
            return self._spark.readStream.schema(schema).format(table.file_format).load(str(table.path))
        return self._spark.read.schema(schema).format(table.file_format).load(str(table.path))

    def writer(self, flow: FlowDefinition, storage: FlowStorage) -> WriteBatch:
        """Return what writes the micro-batches of a flow into a table or topic."""
        if flow.kind is FlowKind.DEAD_LETTERS:
            return self._into_topic(self._topics.sink_options(self._pipeline, flow.target, flow.name, None))
        target = self._pipeline.dataset(flow.target)
        if target.topic is not None:
            topic = target.topic
            return self._into_topic(self._topics.sink_options(self._pipeline, topic.name, flow.name, topic))
        if flow.changes is not None:
            return self._apply(flow.changes, target, storage)
        return self._into_table(target, storage)

    def _apply(self, changes: Changes, target: Dataset, storage: FlowStorage) -> WriteBatch:
        table = ChangedTable(self.snapshot_table(target), changes)

        def write(batch: DataFrame, number: int, metrics: Callable[[], Metrics]) -> Metrics:
            return table.apply(batch, storage.batch(number), metrics).metrics

        return write

    def _into_table(self, target: Dataset, storage: FlowStorage) -> WriteBatch:
        table = self.streaming_table(target)

        def write(batch: DataFrame, number: int, metrics: Callable[[], Metrics]) -> Metrics:
            manifest = table.append(batch, storage.batch(number), metrics)
            return manifest.metrics if manifest.rows is None else {**manifest.metrics, WRITTEN: {ROWS: manifest.rows}}

        return write

    def _into_topic(self, options: Mapping[str, str]) -> WriteBatch:
        into = batch_writer(options)

        def write(batch: DataFrame, number: int, metrics: Callable[[], Metrics]) -> Metrics:
            into(batch, number)
            return metrics()

        return write

    def rows_for(self, frame: DataFrame, target: Dataset) -> DataFrame:
        """Return the rows as a target takes them, with what counts them if the target cannot tell."""
        if target.topic is not None:
            return counted(self._topics.rows_of(frame, target.topic, self._pipeline))
        rows = without_record(frame)
        is_counted = target.kind is DatasetKind.STREAMING_TABLE and (target.format or "parquet") != "parquet"
        return counted(rows) if is_counted else rows

    def _name(self, dataset: Dataset) -> str:
        return self._pipeline.canonical_name(dataset.name)


def without_record(frame: DataFrame) -> DataFrame:
    """Return the rows without the columns that `topic()` adds for dead letters."""
    present = [name for name in _NEVER_WRITTEN if name in frame.columns]
    return frame.drop(*present) if present else frame


def counted(frame: DataFrame) -> DataFrame:
    """Return the same rows; a query that writes them counts them."""
    from pyspark.sql import functions as F

    return frame.observe(WRITTEN, F.count(F.lit(1)).alias(ROWS))
