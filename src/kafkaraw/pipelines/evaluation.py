"""Calls a pipeline's functions, and answers the reads within them: tables, temporary views and topics.

A flow's function reads other datasets by name, with `spark.readStream.table`, `spark.read.table`, `spark.table` or
`spark.sql`. While a function runs, these methods ask the `Evaluation` first. A temporary view is evaluated when it is
read: its own function is called, for this flow. A table is read by `Evaluation.read_table`, or, without one, by Spark
from its catalog. All other names are Spark's. A call that reads a
topic finds the evaluation with `current_evaluation`.

An evaluation belongs to one flow, and reads nothing: it makes a DataFrame. One evaluation runs at a time in a process,
since SQL texts need temporary views in the session. Must not import other modules of this package, except `model.py`:
they pass their functions to `Evaluation`. Start at `evaluate_flow`.
"""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.pipelines.model import (
    Dataset,
    DatasetKind,
    FlowDefinition,
    FlowKind,
    Location,
    Pipeline,
    PipelineError,
    TopicSource,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Purpose(Enum):
    """What an evaluation is for."""

    FLOW = "flow"  # the rows that go into the flow's target
    DEAD_LETTERS = "dead letters"  # the bad rows of one dataset, in `Evaluation.bad_rows`
    PLAN = "plan"  # types and inputs only: no broker, registry or storage is asked, no data is read


class InputKind(Enum):
    """What a function has read."""

    DATASET = "dataset"  # of this pipeline
    TOPIC = "topic"
    OTHER = "other"  # a table or view that this pipeline does not define


@dataclass(frozen=True, slots=True)
class Input:
    """One read.

    Args:
        reader: name of the dataset whose function has read it.
        name: of the dataset (as in its definition), the topic, or the table.
        kind: which of these.
        streaming: whether it was read as a stream.
    """

    reader: str
    name: str
    kind: InputKind
    streaming: bool


ReadTopic = Callable[[TopicSource, "Evaluation"], "DataFrame"]
ReadRecords = Callable[[TopicSource, "Evaluation", bool], "DataFrame"]
ReadTable = Callable[[Dataset, bool, "Evaluation"], "DataFrame"]
Judge = Callable[["DataFrame", Dataset, "Evaluation"], "DataFrame"]


@dataclass(frozen=True, slots=True)
class Undecoded:
    """The records of a topic with those that cannot be decoded, for who finds other bad rows in the same read.

    Args:
        good: the rows of `topic()`.
        every: rows of all records, with the columns of `good`, and those that the other fields need.
        is_bad: name of the column of `every` that tells which cannot be decoded.
        error: returns why, as a column of `every`.
    """

    good: DataFrame
    every: DataFrame
    is_bad: str
    error: Callable[[], Column]


@dataclass(slots=True)
class Evaluation:
    """What the functions that a flow needs are evaluated with.

    Args:
        spark: the session that the definitions were loaded with.
        pipeline: the pipeline.
        flow: name of the flow.
        purpose: what for.
        read_topic: returns the rows of `topic()`.
        judge: applies the expectations of a dataset to its rows.
        read_table: returns the rows of a table of the pipeline, as a stream or not; None for Spark's catalog.
        read_records: returns the records of a topic, as a stream or not, with the columns of format "kafkaraw" and
            headers; None for that format. Every function that reads a topic decodes these records.
        start_offsets: where a flow without a checkpoint starts, by topic and partition, instead of
            `TopicSource.starting`; a topic without partitions is read from its beginning.
        chain: names of the datasets that are being evaluated: the flow's target, the view that its function reads, the
            view that this one reads...; the last one is the dataset whose function is running.
        bad_rows: DEAD_LETTERS: frames of bad rows, added by `read_topic` and others for the first dataset of the chain.
        undecoded: DEAD_LETTERS: of the topic that the first dataset of the chain has read last.
        inputs: everything that was read.
        frames: of views that were evaluated, by the chain that leads to them. Replays go to chains, so a view has
            a frame for each; for PLAN it has only one.
    """

    spark: SparkSession
    pipeline: Pipeline
    flow: str
    purpose: Purpose
    read_topic: ReadTopic
    judge: Judge
    read_table: ReadTable | None = None
    read_records: ReadRecords | None = None
    start_offsets: Mapping[str, Mapping[int, int]] | None = None
    chain: tuple[str, ...] = ()
    bad_rows: list[DataFrame] = field(default_factory=list)
    undecoded: Undecoded | None = None
    inputs: set[Input] = field(default_factory=set)
    frames: dict[tuple[str, ...], DataFrame] = field(default_factory=dict)

    @property
    def dataset(self) -> Dataset:
        """The dataset whose function is running."""
        return self.pipeline.dataset(self.chain[-1])

    @property
    def subject(self) -> Dataset:
        """The first dataset of the chain: the flow's target, or the dataset whose dead letters are wanted."""
        return self.pipeline.dataset(self.chain[0])

    def note(self, name: str, kind: InputKind, *, streaming: bool) -> None:
        """Record that the running function has read something."""
        self.inputs.add(Input(self.chain[-1] if self.chain else "", name, kind, streaming))


_current: ContextVar[Evaluation | None] = ContextVar("kafkaraw_pipelines_evaluation", default=None)
_one_at_a_time: Final = threading.RLock()


def current_evaluation() -> Evaluation:
    """Return the evaluation that the calling function is part of.

    Raises:
        PipelineError: it is called outside of the function of a dataset or flow.
    """
    evaluation = _current.get()
    if evaluation is None:
        raise PipelineError(
            "kafkaraw.pipelines reads topics only within the function of a dataset or flow, while "
            "`kafkaraw pipelines` evaluates it: move the call into a function under @dp.table, @dp.temporary_view, "
            "@dp.append_flow or @kp.to_topic, and run the pipeline with `kafkaraw pipelines run`"
        )
    return evaluation


def evaluate_flow(flow: FlowDefinition, evaluation: Evaluation) -> DataFrame:
    """Call a flow's function, and apply its expectations.

    For a flow of dead letters, its function calls `evaluate_dataset` itself.

    Raises:
        PipelineError: the function raised, or what it returned is no DataFrame; with file and line.
    """
    pipeline = evaluation.pipeline
    with _active(evaluation):
        if flow.kind is FlowKind.DEAD_LETTERS:
            return _called(flow.function, flow.name, flow.location, pipeline)
        target = pipeline.dataset(flow.target)
        with _link(evaluation, target, flow.location):
            frame = _called(flow.function, target.name, flow.location, pipeline)
            return _judged(frame, replace(target, expectations=flow.expectations), flow.location, evaluation)


def evaluate_dataset(name: str, evaluation: Evaluation) -> DataFrame:
    """Evaluate a temporary view, or the only flow into a table, topic or sink.

    Raises:
        PipelineError: there is no dataset of that name, or several flows write to it; or as for `evaluate_flow`.
    """
    dataset = evaluation.pipeline.dataset(name)
    if dataset.kind is not DatasetKind.TEMPORARY_VIEW:
        flows = evaluation.pipeline.flows_into(name)
        if len(flows) != 1:
            raise PipelineError(
                f"has {len(flows)} flows and cannot be evaluated as one: evaluate each flow",
                location=dataset.location,
                dataset=dataset.name,
            )
        return evaluate_flow(flows[0], evaluation)
    with _active(evaluation):
        return _view(dataset, evaluation)


@contextmanager
def _active(evaluation: Evaluation) -> Iterator[None]:
    """Answer the reads of functions with an evaluation."""
    with nullcontext() if _current.get() is not None else _intercepted():
        token = _current.set(evaluation)
        try:
            yield
        finally:
            _current.reset(token)


@contextmanager
def _intercepted() -> Iterator[None]:
    with _one_at_a_time, _intercepted_reads(), _quiet_logger():
        yield


@contextmanager
def _quiet_logger() -> Iterator[None]:
    """Keep PySpark from logging errors that are raised: one error would be a page of JSON."""
    logger = logging.getLogger("DataFrameQueryContextLogger")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _link(evaluation: Evaluation, dataset: Dataset, location: Location) -> Iterator[None]:
    """Add a dataset to the chain.

    Raises:
        PipelineError: it is in the chain already.
    """
    before = evaluation.chain
    if dataset.name in before:
        cycle = " reads ".join(repr(each) for each in (*before[before.index(dataset.name) :], dataset.name))
        raise PipelineError(
            f"is part of a cycle: {cycle}. A dataset cannot be computed from itself: remove one of these reads",
            location=location,
            dataset=dataset.name,
        )
    evaluation.chain = (*before, dataset.name)
    try:
        yield
    finally:
        evaluation.chain = before


def _view(dataset: Dataset, evaluation: Evaluation) -> DataFrame:
    key = (dataset.name,) if evaluation.purpose is Purpose.PLAN else (*evaluation.chain, dataset.name)
    if key not in evaluation.frames:
        with _link(evaluation, dataset, dataset.location):
            assert dataset.function is not None, "a temporary view has a function"
            frame = _called(dataset.function, dataset.name, dataset.location, evaluation.pipeline)
            evaluation.frames[key] = _judged(frame, dataset, dataset.location, evaluation)
    return evaluation.frames[key]


def _judged(frame: DataFrame, dataset: Dataset, location: Location, evaluation: Evaluation) -> DataFrame:
    try:
        return evaluation.judge(frame, dataset, evaluation)
    except Exception as error:
        raise explained(error, dataset.name, location, evaluation.pipeline) from error


def _called(function: Callable[[], object], name: str, location: Location, pipeline: Pipeline) -> DataFrame:
    from pyspark.sql import DataFrame

    try:
        frame = function()
    except Exception as error:
        raise explained(error, name, location, pipeline) from error
    if not isinstance(frame, DataFrame):
        raise PipelineError(
            f"its function returned {type(frame).__name__}, not a DataFrame: return the rows of the dataset",
            location=location,
            dataset=name,
        )
    return frame


def explained(error: Exception, dataset: str, location: Location, pipeline: Pipeline) -> PipelineError:
    """Return the error of a function as a `PipelineError` at the line of the pipeline's files that raised it."""
    if isinstance(error, PipelineError):
        if error.location is None:
            return PipelineError(error.what, location=_line_of(error, pipeline) or location, dataset=dataset)
        at = _relative(error.location, pipeline)
        if at == error.location:
            return error
        return PipelineError(error.what, location=at, dataset=error.dataset or dataset)
    text = message_of(error)
    kind = "" if _is_spark_error(error) else f"{type(error).__name__}: "
    return PipelineError(f"{kind}{text}", location=_line_of(error, pipeline) or location, dataset=dataset)


def message_of(error: BaseException) -> str:
    """Return the message of an error in one line, without the plan and the stack that Spark adds."""
    lines = str(error).strip().splitlines()
    kept = list[str]()
    for line in lines:
        if line.startswith(("'", "+-", "JVM stacktrace", "== ", "\tat ")) or not line.strip():
            break
        kept.append(line.strip())
    return re.sub(r" SQLSTATE: \w{5}(; line \d+ pos \d+)?;?", "", " ".join(kept)) or type(error).__name__


def declared_columns(
    ddl: str, where: str, *, location: Location | None = None, dataset: str | None = None
) -> StructType:
    """Return the columns that a definition declares as DDL.

    Args:
        ddl: names and types.
        where: the argument or dataset with its value, for the error.
        location: of the definition.
        dataset: its name.

    Raises:
        PipelineError: Spark cannot parse it.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        columns = StructType.fromDDL(ddl)
    except PySparkException as error:
        raise PipelineError(f"{where}: {message_of(error)}", location=location, dataset=dataset) from error
    assert isinstance(columns, StructType), "columns are a struct"
    return columns


def _is_spark_error(error: BaseException) -> bool:
    return any(each.__name__ in ("PySparkException", "Py4JError") for each in type(error).__mro__)


def _relative(location: Location, pipeline: Pipeline) -> Location:
    """A location with the path as in other messages: relative to the pipeline's folder."""
    path, root = Path(location.file), pipeline.root.resolve()
    return Location(str(path.relative_to(root)), location.line) if path.is_relative_to(root) else location


def _line_of(error: BaseException, pipeline: Pipeline) -> Location | None:
    """The last line of the pipeline's own files that the error came through."""
    root = pipeline.root.resolve()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_absolute() and path.is_relative_to(root) and "site-packages" not in path.parts:
            return Location(str(path.relative_to(root)), frame.lineno or 0)
    return None


# -- what functions read


@contextmanager
def _intercepted_reads() -> Iterator[None]:
    """Replace the methods that read tables, for as long as functions are evaluated.

    Other threads call them meanwhile, for running queries: without an evaluation in their context, they are Spark's.
    """
    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

    originals: list[tuple[Any, str, Any]] = [
        (DataFrameReader, "table", DataFrameReader.table),
        (DataStreamReader, "table", DataStreamReader.table),
        (SparkSession, "table", SparkSession.table),
        (SparkSession, "sql", SparkSession.sql),
    ]
    replacements = [
        _reading(DataFrameReader.table, streaming=False),
        _reading(DataStreamReader.table, streaming=True),
        _reading(SparkSession.table, streaming=False),
        _querying(SparkSession.sql),
    ]
    for (owner, name, _), replacement in zip(originals, replacements, strict=True):
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _reading(original: Any, *, streaming: bool) -> Callable[..., DataFrame]:  # noqa: ANN401 -- a method of Spark
    def table(self: object, tableName: str) -> DataFrame:
        evaluation = _current.get()
        frame = None if evaluation is None else _rows_of(tableName, streaming, evaluation)
        if frame is None:
            frame = original(self, tableName)
        return frame

    return table


def _rows_of(name: str, streaming: bool, evaluation: Evaluation) -> DataFrame | None:
    """The rows of a dataset of the pipeline; None if Spark's catalog has them."""
    dataset = evaluation.pipeline.find(name)
    if dataset is None:
        evaluation.note(name, InputKind.OTHER, streaming=streaming)
        return None
    evaluation.note(dataset.name, InputKind.DATASET, streaming=streaming)
    if dataset.kind is DatasetKind.TEMPORARY_VIEW:
        frame = _view(dataset, evaluation)
        if frame.isStreaming != streaming:
            raise PipelineError(_wrong_read(dataset, frame.isStreaming))
        return frame
    if not dataset.kind.is_table:
        raise PipelineError(_unreadable(dataset))
    if dataset.name in evaluation.chain[:1] and streaming:
        raise PipelineError(f"{dataset.name!r} reads itself: a flow cannot read the table that it writes to")
    return None if evaluation.read_table is None else evaluation.read_table(dataset, streaming, evaluation)


def _wrong_read(dataset: Dataset, is_stream: bool) -> str:
    if is_stream:
        return (
            f"view {dataset.name!r} is a stream and was read as a batch: read it with "
            f'spark.readStream.table("{dataset.name}"), in SQL with STREAM {dataset.name}'
        )
    return (
        f"view {dataset.name!r} is a batch and was read as a stream: read it with "
        f'spark.read.table("{dataset.name}"), in SQL without STREAM'
    )


def _unreadable(dataset: Dataset) -> str:
    if dataset.kind is DatasetKind.TOPIC:
        return f'{dataset.name!r} is a topic: read it with kp.topic("{dataset.name}")'
    return (
        f"{dataset.name!r} is a sink, which cannot be read: read the dataset whose rows go into it, or what the sink "
        "has written"
    )


# A relation in the text of a parsed plan: its name, its options, and whether it is a stream; and names of WITH.
_RELATION: Final = re.compile(r"'UnresolvedRelation \[([^\]]*)\], \[[^\]]*\], (true|false)")
_WITH: Final = re.compile(r"CTE \[([^\]]*)\]")
_PLACE: Final = "_kafkaraw_place"


def _querying(original: Any) -> Callable[..., DataFrame]:  # noqa: ANN401 -- a method of Spark
    def sql(self: SparkSession, sqlQuery: str, *args: object, **kwargs: object) -> DataFrame:
        if _current.get() is None:
            rows: DataFrame = original(self, sqlQuery, *args, **kwargs)
            return rows
        text = sqlQuery
        for name in kwargs:  # DataFrames and values that `spark.sql` puts in place of {name}
            text = re.sub(r"\{" + re.escape(name) + r"[^}]*\}", _PLACE, text)
        parser = self._jsparkSession.sessionState().sqlParser()
        with _views_of(parser.parsePlan(text), self):
            rows = original(self, sqlQuery, *args, **kwargs)
        return rows

    return sql


def rows_of_plan(plan: Any, spark: SparkSession) -> DataFrame:  # noqa: ANN401 -- a LogicalPlan in the JVM
    """Return the rows of a parsed query, within an evaluation."""
    from pyspark.sql.classic.dataframe import DataFrame

    session = spark._jsparkSession  # noqa: SLF001 -- PySpark has no plans
    dataset = spark._jvm.org.apache.spark.sql.classic.Dataset  # type: ignore[union-attr]  # noqa: SLF001
    with _views_of(plan, spark):
        return DataFrame(dataset.ofRows(session, plan), spark)


@contextmanager
def _views_of(plan: Any, spark: SparkSession) -> Iterator[None]:  # noqa: ANN401 -- a LogicalPlan in the JVM
    """Create temporary views of the pipeline's datasets that a parsed query reads, until it is analyzed."""
    evaluation = _current.get()
    assert evaluation is not None, "queries are intercepted within an evaluation only"
    views: dict[str, DataFrame] = {}
    for name, streaming in relations_of(plan.toString()):
        frame = _rows_of(name, streaming, evaluation)
        if frame is not None:
            views[name] = frame
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    try:
        yield
    finally:
        for name in views:
            spark.catalog.dropTempView(name)


def relations_of(plan: str) -> list[tuple[str, bool]]:
    """Return the tables and views that a parsed query reads, and whether it reads them as streams.

    Args:
        plan: the text of the plan. To walk it in the JVM would take several calls for each node.
    """
    defined = {name for names in _WITH.findall(plan) for name in names.split(", ")} | {_PLACE}
    found = [(".".join(match[1].split(", ")), match[2] == "true") for match in _RELATION.finditer(plan)]
    return [each for each in dict.fromkeys(found) if each[0] not in defined]


def stand_in(
    spark: SparkSession, schema: StructType, evaluation: Evaluation, *, streaming: bool, name: str = ""
) -> DataFrame:
    """Return a DataFrame without rows, for evaluations with the purpose PLAN.

    Args:
        spark: the session.
        schema: of the rows.
        evaluation: that needs them.
        streaming: whether it is a stream.
        name: of the topic or table, which the plan then shows as the source of the stream.
    """
    if not streaming:
        return spark.createDataFrame([], schema)
    # Spark looks for the folder of a stream only if it is no pattern. It lists all files that match a pattern: none do.
    return spark.readStream.schema(schema).parquet(f"{evaluation.pipeline.root}/.no-files/*/{name}")
