"""Pipelines for tests of runs: made of functions, with topics of JSON numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaraw.pipelines.evaluation import InputKind, current_evaluation
from kafkaraw.pipelines.model import (
    Dataset,
    DatasetKind,
    FlowDefinition,
    FlowKind,
    Location,
    Pipeline,
    Settings,
    TopicSource,
    TopicTarget,
)
from kafkaraw.pipelines.running.targets import TopicFunctions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT = Location("transformations/flows.py", 1)
Function = Callable[[], "DataFrame"]


class Definition:
    """Collects datasets and flows, as the registry of definition files does."""

    def __init__(self, spark: SparkSession, storage: Path, servers: str = "", name: str = "numbers") -> None:
        self.spark = spark
        self._storage = storage
        self._servers = servers
        self._name = name
        self._datasets: list[Dataset] = []
        self._flows: list[FlowDefinition] = []

    def table(self, name: str, function: Function | None = None, **given: object) -> None:
        self._datasets.append(Dataset(name, DatasetKind.STREAMING_TABLE, AT, **given))
        if function is not None:
            self.flow(name, name, function)

    def flow(self, name: str, target: str, function: Function, **given: object) -> None:
        self._flows.append(
            FlowDefinition(name, target, **{"kind": FlowKind.APPEND} | given, location=AT, function=function)
        )

    def view(self, name: str, function: Function) -> None:
        self._datasets.append(Dataset(name, DatasetKind.TEMPORARY_VIEW, AT, function=function))

    def materialized_view(self, name: str, function: Function) -> None:
        self._datasets.append(Dataset(name, DatasetKind.MATERIALIZED_VIEW, AT))
        self._flows.append(FlowDefinition(name, name, FlowKind.COMPLETE, AT, function))

    def to_topic(self, name: str, function: Function, *, output_mode: str = "append") -> None:
        target = TopicTarget(name, output_mode=output_mode)
        self._datasets.append(Dataset(name, DatasetKind.TOPIC, AT, topic=target))
        self._flows.append(FlowDefinition(name, name, FlowKind.APPEND, AT, function, output_mode=output_mode))

    def pipeline(self, **settings: str) -> Pipeline:
        kafka = {"kafka.bootstrap.servers": self._servers}
        own = {"dead_letter_topic": "dead", "replay_topic": "replays", "group_prefix": self._name, "kafka": kafka}
        chosen = Settings(**own | {"trigger_interval": "100 milliseconds"} | settings)
        return Pipeline(
            self._name, self._storage, str(self._storage), tuple(self._datasets), tuple(self._flows), chosen
        )

    def numbers(self, topic: str, **options: str) -> DataFrame:
        """A topic whose values are numbers as text: columns n and at."""
        return topic_of(TopicSource(topic, options=options))


def topic_of(source: TopicSource) -> DataFrame:
    evaluation = current_evaluation()
    return evaluation.read_topic(source, evaluation)


def read_topic(source: TopicSource, evaluation) -> DataFrame:
    evaluation.note(source.name, InputKind.TOPIC, streaming=True)
    start = source.starting
    if evaluation.start_offsets is not None:
        start = json.dumps({topic: dict(offsets) for topic, offsets in evaluation.start_offsets.items()})
    reader = evaluation.spark.readStream.format("kafkaraw").options(**evaluation.pipeline.settings.kafka)
    frame = reader.options(subscribe=source.name, startingOffsets=start, **source.options).load()
    return frame.selectExpr("CAST(CAST(value AS STRING) AS LONG) AS n", "timestamp AS at")


def rows_of(frame: DataFrame, target: TopicTarget, pipeline: Pipeline) -> DataFrame:
    return frame.selectExpr(f"to_json(struct({', '.join(frame.columns)})) AS value")


def no_ids(pipeline: Pipeline, topics: Iterable[str]) -> Mapping[str, str]:
    return {}


def topic_functions(**changed: object) -> TopicFunctions:
    parts = {
        "read_topic": read_topic,
        "judge": lambda frame, dataset, evaluation: frame,
        "rows_of": rows_of,
        "sink_options": lambda pipeline, topic, flow, target: (
            dict(pipeline.settings.kafka) | {"topic": topic, "exactlyOnce": "true"}
        ),
        "create_topics": lambda pipeline, with_dead_letters: (),
        "dead_letter_flows": lambda pipeline: (),
        "topic_ids": no_ids,
    }
    return TopicFunctions(**parts | changed)
