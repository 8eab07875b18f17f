"""Which flows a run has, in which order they start, and what they read.

Every flow is evaluated once before the first query starts: only its definition, no data is read. If it reads a table,
the flows that write the table are evaluated first, so that its columns are known. Must not start queries. Start at
`Preparation.flows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.evaluation import Evaluation, Input, InputKind, Purpose, evaluate_flow
from kafkaraw.pipelines.model import Dataset, FlowDefinition, FlowKind, Pipeline, PipelineError
from kafkaraw.pipelines.running.storage import Storage
from kafkaraw.pipelines.running.targets import Targets, TopicFunctions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class PreparedFlow:
    """A flow that was evaluated.

    Args:
        flow: its definition.
        inputs: everything that it reads, also through views.
    """

    flow: FlowDefinition
    inputs: frozenset[Input]

    @property
    def topics(self) -> frozenset[str]:
        """Names of the topics that it reads."""
        return frozenset(each.name for each in self.inputs if each.kind is InputKind.TOPIC)

    @property
    def reads_others(self) -> bool:
        """Whether it reads tables that the pipeline does not define."""
        return any(each.kind is InputKind.OTHER for each in self.inputs)


def selected_flows(pipeline: Pipeline, names: tuple[str, ...]) -> list[FlowDefinition]:
    """Return the flows of these names, and those into datasets of these names; all flows for no names.

    Raises:
        PipelineError: there is no dataset of a name.
        ConfigError: no flow writes to the dataset.
    """
    if not names:
        return list(pipeline.flows)
    found = list[FlowDefinition]()
    for name in names:
        flows = [each for each in pipeline.flows if each.name.lower() == name.lower()]
        found += flows or pipeline.flows_into(pipeline.dataset(name).name)
    if not found:
        raise ConfigError(f"--select {' '.join(names)}: no flow writes to that; name a table, a topic or a flow")
    return found


class Preparation:
    """Evaluates flows.

    Args:
        pipeline: the pipeline.
        storage: its storage.
        spark: the session that its definitions were loaded with.
        targets: its tables.
        topics: how topics are read.
    """

    def __init__(
        self, pipeline: Pipeline, storage: Storage, spark: SparkSession, targets: Targets, topics: TopicFunctions
    ) -> None:
        self._pipeline = pipeline
        self._storage = storage
        self._spark = spark
        self._targets = targets
        self._topics = topics
        self._prepared: dict[str, PreparedFlow] = {}
        self._schemas: dict[str, StructType] = {}
        self._in_progress: list[str] = []

    def flows(self, select: Iterable[str] = ()) -> tuple[PreparedFlow, ...]:
        """Evaluate flows, those that others read first.

        Args:
            select: names of datasets or flows; what they read is added. None for all.

        Raises:
            PipelineError: a definition is wrong.
            ConfigError: there is nothing of a selected name, or a table has other columns.
        """
        names = tuple(select)
        for flow in selected_flows(self._pipeline, names):
            self._prepare(flow)
        used = {each.reader for prepared in self._prepared.values() for each in prepared.inputs}
        used |= {prepared.flow.target for prepared in self._prepared.values()}
        for flow in self._topics.dead_letter_flows(self._pipeline):
            evaluation = self._evaluation(flow, self._read_prepared)
            evaluate_flow(flow, evaluation)
            if not names or used & {each.reader for each in evaluation.inputs}:
                self._prepared[flow.name] = PreparedFlow(flow, frozenset(evaluation.inputs))
        return tuple(self._prepared.values())

    def upstream(self, prepared: PreparedFlow) -> tuple[str, ...]:
        """Return the names of the flows that write to tables that a flow reads."""
        read = {each.name for each in prepared.inputs if each.kind is InputKind.DATASET}
        found = (flow.name for name in sorted(read) for flow in self._pipeline.flows_into(name))
        return tuple(name for name in found if name in self._prepared and name != prepared.flow.name)

    def tables_joined(self, prepared: PreparedFlow) -> tuple[Dataset, ...]:
        """Return the pipeline's tables that a flow reads as batches: as they are when its query starts."""
        found = sorted({each.name for each in prepared.inputs if each.kind is InputKind.DATASET and not each.streaming})
        datasets = (self._pipeline.dataset(name) for name in found)
        return tuple(each for each in datasets if each.kind.is_table)

    def evaluate(self, flow: FlowDefinition) -> DataFrame:
        """Evaluate a flow for its query.

        Raises:
            PipelineError: its function raised, or reads a table that does not exist yet.
        """
        return evaluate_flow(flow, self._evaluation(flow, self._read))

    @contextmanager
    def settings_of(self, flow: FlowDefinition) -> Iterator[None]:
        """Set the Spark settings of a flow while its query is made; the query keeps them."""
        before = {name: self._spark.conf.get(name, None) for name in flow.spark_conf}
        for name, value in flow.spark_conf.items():
            self._spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, text in before.items():
                if text is None:
                    self._spark.conf.unset(name)
                else:
                    self._spark.conf.set(name, text)

    def _prepare(self, flow: FlowDefinition) -> None:
        if flow.name in self._prepared:
            return
        if flow.name in self._in_progress:
            cycle = " reads ".join([*self._in_progress[self._in_progress.index(flow.name) :], flow.name])
            raise PipelineError(f"is part of a cycle: {cycle}", location=flow.location, dataset=flow.target)
        self._in_progress.append(flow.name)
        try:
            evaluation = self._evaluation(flow, self._read_prepared)
            with self.settings_of(flow):
                frame = evaluate_flow(flow, evaluation)
            self._set_columns(flow, frame)
        finally:
            self._in_progress.pop()
        self._prepared[flow.name] = PreparedFlow(flow, frozenset(evaluation.inputs))

    def _set_columns(self, flow: FlowDefinition, frame: DataFrame) -> None:
        target = self._pipeline.dataset(flow.target)
        if not target.kind.is_table:
            return
        if flow.kind in (FlowKind.COMPLETE, FlowKind.CHANGES):
            self._schemas[target.name] = self._targets.snapshot_schema(flow, frame)
        else:
            self._targets.set_columns(target, frame)

    def _evaluation(self, flow: FlowDefinition, read: Callable[[Dataset, bool, Evaluation], DataFrame]) -> Evaluation:
        return Evaluation(
            self._spark,
            self._pipeline,
            flow.name,
            Purpose.DEAD_LETTERS if flow.kind is FlowKind.DEAD_LETTERS else Purpose.FLOW,
            self._topics.read_topic,
            self._topics.judge,
            read_records=self._topics.read_records,
            read_table=read,
            start_offsets=self._storage.flow(flow.name).start_offsets(),
        )

    def _read_prepared(self, dataset: Dataset, streaming: bool, evaluation: Evaluation) -> DataFrame:
        """Return the rows of a table, whose flows are prepared first."""
        for each in self._pipeline.flows_into(dataset.name):
            self._prepare(each)
        if dataset.name in self._schemas and not streaming:
            return self._spark.createDataFrame([], self._schemas[dataset.name])
        return self._read(dataset, streaming, evaluation)

    def _read(self, dataset: Dataset, streaming: bool, evaluation: Evaluation) -> DataFrame:
        return self._targets.read(dataset, streaming=streaming, flow=evaluation.flow)
