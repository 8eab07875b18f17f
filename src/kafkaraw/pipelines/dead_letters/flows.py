"""The flows that write dead letters: one streaming query for each view or flow that may have bad rows.

Such a query evaluates the view or flow again, and keeps what the flow itself leaves out: the same expressions decide in
both. It reads the topics once more; good rows end at a filter. Start at `dead_letter_flows`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Final

from kafkaraw.pipelines.evaluation import (
    Evaluation,
    InputKind,
    Purpose,
    current_evaluation,
    declared_columns,
    evaluate_dataset,
    evaluate_flow,
    stand_in,
)
from kafkaraw.pipelines.judging import judged
from kafkaraw.pipelines.letters import letter_columns
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
from kafkaraw.pipelines.subjects import Subject, collecting, finding
from kafkaraw.pipelines.topics import read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NAME_PREFIX: Final = "dead_letters_of_"


def dead_letter_flows(pipeline: Pipeline) -> tuple[FlowDefinition, ...]:
    """Return the flows that write the dead letters of a pipeline; it must have an active Spark session.

    The functions of the pipeline are evaluated, without reading data, to see which views and flows read topics or
    quarantine rows.

    Raises:
        PipelineError: a function raises; or rows are quarantined whose judgement depends on a table.
    """
    from pyspark.sql import SparkSession

    survey = _Survey(pipeline, SparkSession.active())
    return tuple(_flow(pipeline, name, survey) for name in survey.subjects)


class _Survey:
    """What the functions of a pipeline read, and which of them may have bad rows."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._schemas: dict[str, StructType] = {}
        self._reads: dict[str, set[str]] = {}  # view or flow -> views that it reads
        found: set[str] = set()
        for flow in pipeline.flows:
            with collecting(found):
                self._evaluate(flow)
        self.subjects = sorted(found)

    def readers(self, name: str) -> tuple[str, ...]:
        """Return the views and flows that read a view, directly or through other views."""
        found: set[str] = set()
        new = {name}
        while new:
            new = {reader for reader, read in self._reads.items() if read & new} - found
            found |= new
        return tuple(sorted(found))

    def _evaluate(self, flow: FlowDefinition) -> DataFrame:
        evaluation = Evaluation(
            self._spark,
            self._pipeline,
            flow.name,
            Purpose.PLAN,
            read_topic=read_topic,
            judge=judged,
            read_table=self._read_table,
        )
        frame = evaluate_flow(flow, evaluation)
        target = self._pipeline.dataset(flow.target).name
        for each in evaluation.inputs:
            read = self._pipeline.find(each.name) if each.kind is InputKind.DATASET else None
            if read is not None and read.kind is DatasetKind.TEMPORARY_VIEW:
                reader = flow.name if each.reader == target else each.reader
                self._reads.setdefault(reader, set()).add(read.name)
        return frame

    def _read_table(self, dataset: Dataset, streaming: bool, evaluation: Evaluation) -> DataFrame:
        if dataset.name not in self._schemas:
            self._schemas[dataset.name] = self._schema(dataset)
        return stand_in(self._spark, self._schemas[dataset.name], evaluation, streaming=streaming)

    def _schema(self, dataset: Dataset) -> StructType:
        if dataset.schema is not None:
            return declared_columns(dataset.schema, f"schema={dataset.schema!r}", dataset=dataset.name)
        flow = self._pipeline.flows_into(dataset.name)[0]
        return self._evaluate(flow).drop(RECORD_COLUMN, TOMBSTONE_COLUMN).schema


def _flow(pipeline: Pipeline, name: str, survey: _Survey) -> FlowDefinition:
    subject = Subject(name, survey.readers(name))
    flows = {flow.name: flow for flow in pipeline.flows}
    location = flows[name].location if name in flows else pipeline.dataset(name).location

    def find() -> DataFrame:
        evaluation = current_evaluation()
        with finding(subject):
            if name in flows:
                evaluate_flow(flows[name], evaluation)
            else:
                evaluate_dataset(name, evaluation)
        frames = evaluation.bad_rows
        if not frames:
            raise PipelineError(f"{name!r} has had bad rows when the pipeline was checked, and has none now")
        return letter_columns(_union(frames), pipeline.name, name, subject.readers)

    return FlowDefinition(
        f"{NAME_PREFIX}{name}", pipeline.settings.dead_letter_topic, FlowKind.DEAD_LETTERS, location, find
    )


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)
