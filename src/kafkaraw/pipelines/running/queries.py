"""Starts the query of a flow: evaluates it, checks its topics, and gives Spark what writes its rows.

Must not know the order of flows, nor errors. Start at `Queries.start`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from kafkaraw.errors import ConfigError
from kafkaraw.pipelines.model import DatasetKind, FlowKind, Pipeline
from kafkaraw.pipelines.running.batch_job import BatchJob
from kafkaraw.pipelines.running.flow_query import BatchGate, FlowQuery, Started
from kafkaraw.pipelines.running.preparation import Preparation, PreparedFlow
from kafkaraw.pipelines.running.progress import ROWS, WRITTEN
from kafkaraw.pipelines.running.storage import FlowStorage
from kafkaraw.pipelines.running.targets import Targets, TopicFunctions, counted, without_record
from kafkaraw.pipelines.tables import write_atomically

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Queries:
    """Starts queries.

    Args:
        pipeline: the pipeline.
        spark: the session.
        targets: what flows write to.
        preparation: what evaluates them.
        topics: how topics are read and written.
        once: whether queries end when they have read what is there.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        targets: Targets,
        preparation: Preparation,
        topics: TopicFunctions,
        *,
        once: bool,
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._targets = targets
        self._preparation = preparation
        self.topics = topics
        self._once = once

    def start(self, query: FlowQuery, prepared: PreparedFlow) -> Started:
        """Start the query of a flow, from its checkpoint if it has one.

        Raises:
            ConfigError: a topic was made anew, or the definition is wrong.
        """
        flow = query.flow
        if flow.kind in (FlowKind.COMPLETE, FlowKind.ONCE):
            work = self._compute if flow.kind is FlowKind.COMPLETE else self._append_once
            job = BatchJob(self._spark, lambda: work(query), flow.name)
            return Started(cast("StreamingQuery", job), None)
        self._check_topics(query.storage, prepared)
        with self._preparation.settings_of(flow):
            frame = self._preparation.evaluate(flow)
            if flow.kind is FlowKind.DEAD_LETTERS:
                return self._gated(query, counted(frame))
            if flow.kind is FlowKind.CHANGES:
                return self._gated(query, counted(frame))
            target = self._pipeline.dataset(flow.target)
            if target.kind is DatasetKind.SINK:
                writer = self._writer(query, without_record(frame))
                return Started(writer.format(target.format or "parquet").options(**target.options).start(), None)
            return self._gated(query, self._targets.rows_for(frame, target))

    def _gated(self, query: FlowQuery, frame: DataFrame) -> Started:
        gate = BatchGate(query.storage, self._targets.writer(query.flow, query.storage), query.progress)
        started = self._writer(query, frame).foreachBatch(gate).start()
        gate.follow(started)
        return Started(started, gate)

    def _writer(self, query: FlowQuery, frame: DataFrame) -> DataStreamWriter:
        flow = query.flow
        writer = frame.writeStream.queryName(flow.name).outputMode(flow.output_mode)
        writer = writer.option("checkpointLocation", str(query.storage.checkpoint))
        if self._once:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=self._pipeline.settings.trigger_interval)

    def _compute(self, query: FlowQuery) -> None:
        """Replace the contents of a materialized view."""
        flow = query.flow
        table = self._targets.snapshot_table(self._pipeline.dataset(flow.target))
        with self._preparation.settings_of(flow):
            frame = without_record(self._preparation.evaluate(flow))
        version = table.replace(frame, measure=lambda folder: (rows_in(folder), {}))
        query.progress.batches += 1
        query.progress.rows_written += version.rows or 0
        query.progress.totals = {WRITTEN: {ROWS: version.rows or 0}}

    def _append_once(self, query: FlowQuery) -> None:
        """Add the rows of a flow that runs once."""
        flow, done = query.flow, query.storage.folder() / "done.json"
        if done.exists():
            return
        with self._preparation.settings_of(flow):
            frame = self._preparation.evaluate(flow)
        target = self._pipeline.dataset(flow.target)
        if target.kind is DatasetKind.STREAMING_TABLE:
            table = self._targets.streaming_table(target)
            manifest = table.append(without_record(frame), query.storage.batch(0))
            query.progress.rows_written += manifest.rows or 0
        else:
            options, file_format = dict(target.options), target.format or "parquet"
            if target.topic is not None:
                file_format, topic = "kafkaraw", target.topic
                options = dict(self.topics.sink_options(self._pipeline, topic.name, flow.name, topic))
            self._targets.rows_for(frame, target).write.format(file_format).options(**options).mode("append").save()
        query.progress.batches += 1
        write_atomically(done, "{}")

    def _check_topics(self, storage: FlowStorage, prepared: PreparedFlow) -> None:
        """Compare the ids of topics with those that the checkpoint belongs to.

        Raises:
            ConfigError: a topic was deleted and made anew.
        """
        replays = {self._pipeline.settings.replay_topic} if prepared.topics else set()
        ids: Mapping[str, str] = self.topics.topic_ids(self._pipeline, sorted(prepared.topics | replays))
        known = storage.topic_ids()
        for topic, topic_id in ids.items():
            if known.get(topic, topic_id) != topic_id:
                raise ConfigError(
                    f"topic {topic!r} was deleted and made anew since the last run (its id was {known[topic]} and is "
                    f"{topic_id}): the offsets of flow {storage.name!r} mean other records now. To read the new topic "
                    f"from its beginning, run `kafkaraw pipelines checkpoint fork {storage.name} --anew {topic}`"
                )
        if {**known, **ids} != known:
            storage.keep_topic_ids({**known, **ids})


def rows_in(folder: Path) -> int | None:
    """Return the number of rows in the Parquet files of a directory; None if there are other files."""
    import pyarrow.parquet as pq

    files = [each for each in folder.rglob("*.parquet") if not each.name.startswith((".", "_"))]
    return sum(int(pq.read_metadata(each).num_rows) for each in files) if files else None
