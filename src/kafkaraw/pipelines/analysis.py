"""Checks a pipeline without running it: evaluates every function on data without rows, and looks at types and plans.

Tables and topics are replaced by stand-ins that have a schema and no rows, so neither a broker, a schema registry nor
the storage is needed, and nothing is written. A table's schema is the declared one, or that of its flows, which are
then analyzed first. All problems of a pipeline are reported together; a dataset whose source has a problem is left out.

Calls into the JVM cost about a millisecond each: a plan is read once, as text, where streaming operators begin with
`~`. Start at `analyze`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.changes import changed_columns
from kafkaraw.pipelines.evaluation import (
    Evaluation,
    Input,
    InputKind,
    Judge,
    Purpose,
    ReadTopic,
    declared_columns,
    evaluate_dataset,
    evaluate_flow,
    explained,
    message_of,
    stand_in,
)
from kafkaraw.pipelines.graph import Edge, Graph, Node, NodeKind, build_graph, node_of
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
    did_you_mean,
    raise_errors,
)
from kafkaraw.pipelines.topics import check_options, planned_records
from kafkaraw.spark.options.parsing import parse_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

HISTORY_COLUMNS: Final = ("__START_AT", "__END_AT")
"""Columns that a table of changes with SCD type 2 has in addition, with the type of its sequence."""

_HIDDEN: Final = (RECORD_COLUMN, TOMBSTONE_COLUMN)
_BATCH_KINDS: Final = (FlowKind.COMPLETE, FlowKind.ONCE)
_NOT_FOUND: Final = re.compile(r"\[TABLE_OR_VIEW_NOT_FOUND\S*\] The table or view (\S+) cannot be found")
_JVM_SINKS: Final = ("memory", "console", "foreach")  # without a class that can be looked up


@dataclass(frozen=True, slots=True)
class AnalyzedFlow:
    """What a flow's query is.

    Args:
        schema: of the rows that it writes, as DDL.
        sources: topics and tables that it reads as streams, in the order in which its checkpoint has their offsets.
        state: operators that keep state, as text, in the order of the plan.
        reads: datasets of the pipeline that its function reads, as streams or not.
    """

    schema: str
    sources: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is known about a pipeline that has no problems.

    Args:
        pipeline: that was analyzed.
        graph: of its datasets.
        flows: by name.
        schemas: of datasets as DDL, by name; those of views include the columns of `topic()`.
        dead_letters: the flows that write dead letters, with what their queries are.
    """

    pipeline: Pipeline
    graph: Graph
    flows: Mapping[str, AnalyzedFlow]
    schemas: Mapping[str, str]
    dead_letters: tuple[tuple[FlowDefinition, AnalyzedFlow], ...] = ()


DeadLetterFlows = Callable[[Pipeline], tuple[FlowDefinition, ...]]


def analyze(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    read_topic: ReadTopic,
    judge: Judge,
    dead_letter_flows: DeadLetterFlows = lambda _: (),
) -> Analysis:
    """Check a pipeline.

    Args:
        pipeline: to check.
        spark: the session that its definitions were loaded with.
        read_topic: returns the rows of `topic()`.
        judge: applies expectations.
        dead_letter_flows: returns the flows that write dead letters.

    Raises:
        PipelineError: there are problems; all of them together.
    """
    return _Analyzer(pipeline, spark, read_topic, judge).analysis(dead_letter_flows)


class _SourceError(PipelineError):
    """The flow reads a dataset that has a problem, which is reported there."""


class _Analyzer:
    """Analyzes one pipeline, and collects its problems."""

    def __init__(self, pipeline: Pipeline, spark: SparkSession, read_topic: ReadTopic, judge: Judge) -> None:
        self.pipeline = pipeline
        self.spark = spark
        self.read_topic = read_topic
        self.judge = judge
        self.errors: dict[str, PipelineError] = {}
        self.frames: dict[tuple[str, ...], DataFrame] = {}
        self.inputs: set[Input] = set()
        self.schemas: dict[str, StructType | None] = {}  # of tables; None while they are analyzed, or with a problem
        self.analyzed: dict[str, tuple[AnalyzedFlow, StructType] | None] = {}  # flows, as above

    def analysis(self, dead_letter_flows: DeadLetterFlows) -> Analysis:
        for flow in self.pipeline.flows:
            self._flow(flow)
        for dataset in self.pipeline.datasets:
            if dataset.kind.is_table:
                self._schema(dataset)
            elif dataset.kind is DatasetKind.TEMPORARY_VIEW and (dataset.name,) not in self.frames:
                self._unread_view(dataset)
            if dataset.kind.is_table or dataset.kind is DatasetKind.SINK:
                self._check_format(dataset)
            elif dataset.topic is not None:
                self._check_topic(dataset, dataset.topic)
        graph = self._graph()
        raise_errors(self.pipeline.name, self.errors.values())
        assert graph is not None, "without errors there is a graph"
        flows = {name: found[0] for name, found in self.analyzed.items() if found is not None}
        dead_letters = tuple((each, self._dead_letters(each)) for each in dead_letter_flows(self.pipeline))
        return Analysis(self.pipeline, graph, flows, dict(self._ddl_of_datasets(flows)), dead_letters)

    def _evaluation(self, flow: str) -> Evaluation:
        return Evaluation(
            self.spark,
            self.pipeline,
            flow,
            Purpose.PLAN,
            self.read_topic,
            self.judge,
            read_table=self._table,
            inputs=self.inputs,
            frames=self.frames,
        )

    def _dead_letters(self, flow: FlowDefinition) -> AnalyzedFlow:
        """What the query of dead letters is: it may read its topics in another order, or more often, than the flow."""
        evaluation = Evaluation(
            self.spark,
            self.pipeline,
            flow.name,
            Purpose.DEAD_LETTERS,
            self.read_topic,
            self.judge,
            read_table=self._table,
            read_records=planned_records,
        )
        text = str(evaluate_flow(flow, evaluation)._jdf.queryExecution().analyzed().toString())  # noqa: SLF001
        return AnalyzedFlow("", tuple(_sources(text)), tuple(_state(text)))

    def _report(self, error: PipelineError) -> None:
        if not isinstance(error, _SourceError):
            self.errors.setdefault(_same_cycle(error) or str(error), error)

    # -- flows

    def _flow(self, flow: FlowDefinition) -> StructType | None:
        """The columns that a flow writes; None if it has a problem, which is reported."""
        if flow.name not in self.analyzed:
            self.analyzed[flow.name] = None
            target = self.pipeline.dataset(flow.target)
            of_others = {each for each in self.inputs if each.reader == target.name}  # of other flows into the target
            self.inputs -= of_others
            try:
                frame = evaluate_flow(flow, self._evaluation(flow.name))
                self._check_kind(flow, target, frame)
                plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 -- PySpark has no plans
                self._check_output_mode(flow, target, plan)
                columns = self._checked_columns(flow, target, frame.schema)
                text = str(plan.toString()) if frame.isStreaming else ""
            except PipelineError as error:
                self._report(self._with_hint(error, flow.target))
            else:
                own = (each for each in self.inputs if each.reader == target.name)
                reads = sorted({each.name for each in own if each.kind is InputKind.DATASET})
                sources, state = tuple(_sources(text)), tuple(_state(text))
                found = AnalyzedFlow(_ddl(columns, self.spark), sources, state, tuple(reads))
                self.analyzed[flow.name] = found, columns
            finally:
                self.inputs |= of_others
        known = self.analyzed[flow.name]
        return None if known is None else known[1]

    def _unread_view(self, view: Dataset) -> None:
        try:
            evaluate_dataset(view.name, self._evaluation(view.name))
        except PipelineError as error:
            self._report(self._with_hint(error, view.name))

    def _with_hint(self, error: PipelineError, reader: str) -> PipelineError:
        """Name the dataset that was probably meant, if a table or view is unknown."""
        unknown = _NOT_FOUND.search(error.what)
        if unknown is None:
            return error
        name = unknown[1].replace("`", "")
        known = [each.name for each in self.pipeline.datasets if each.name != reader]
        hint = did_you_mean(name, known) or (f"; the pipeline has {', '.join(known)}" if known else "")
        return PipelineError(
            f"reads {name!r}, which neither the pipeline nor the catalog has{hint}",
            location=error.location,
            dataset=error.dataset,
        )

    def _check_kind(self, flow: FlowDefinition, target: Dataset, frame: DataFrame) -> None:
        batch = flow.kind in _BATCH_KINDS
        if frame.isStreaming and batch:
            what = (
                "its query is a stream, but a materialized view is computed from batches: make it a table with "
                "@dp.table, or read with spark.read.table in place of spark.readStream.table"
            )
        elif not frame.isStreaming and not batch:
            article = {DatasetKind.STREAMING_TABLE: "a streaming table", DatasetKind.TOPIC: "a topic"}
            what = (
                f"its query is a batch, but {article.get(target.kind, 'a sink')} is written by streams: read with "
                "spark.readStream.table (in SQL: FROM STREAM name) or kp.topic, or make it a view with "
                "@dp.materialized_view"
            )
        else:
            return
        raise PipelineError(what, location=flow.location, dataset=target.name)

    def _check_output_mode(self, flow: FlowDefinition, target: Dataset, plan: Any) -> None:  # noqa: ANN401
        """Let Spark check whether it can run the query in its output mode.

        Raises:
            PipelineError: it cannot.
        """
        from pyspark.errors import PySparkException

        if flow.kind in _BATCH_KINDS:
            return
        jvm: Any = self.spark._jvm  # noqa: SLF001 -- PySpark has no such check
        mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, flow.output_mode.capitalize())()
        try:
            jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
        except PySparkException as error:
            what = f"{message_of(error)}{_remedy_of(str(error), flow, target)}"
            raise PipelineError(what, location=flow.location, dataset=target.name) from error

    def _check_format(self, dataset: Dataset) -> None:
        """Report a format that Spark does not find."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        name = dataset.format or "parquet"
        if name in _JVM_SINKS:
            return
        jvm: Any = self.spark._jvm  # noqa: SLF001 -- PySpark cannot look up formats
        conf = self.spark._jsparkSession.sessionState().conf()  # noqa: SLF001
        try:
            jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, conf)
            if dataset.kind is DatasetKind.SINK and name == "kafkaraw":
                parse_options(dataset.options)
        except ConfigError as error:
            what = str(error)
        except (Py4JError, PySparkException):
            what = f"format {name!r} is no data source that Spark can find: correct its name, or install it"
            if name == "kafka":
                what = (
                    "format 'kafka' is Spark's own connector, which is not installed: use format 'kafkaraw', whose "
                    "options are the same"
                )
        else:
            return
        self._report(PipelineError(what, location=dataset.location, dataset=dataset.name))

    def _check_topic(self, dataset: Dataset, target: TopicTarget) -> None:
        """Report wrong options of a topic that flows write to."""
        try:
            given = dict(self.pipeline.settings.kafka) | {"topic": target.name} | dict(target.options)
            check_options(given, target.name, dataset.location)
        except PipelineError as error:
            self._report(PipelineError(error.what, location=dataset.location, dataset=dataset.name))

    # -- columns

    def _checked_columns(self, flow: FlowDefinition, target: Dataset, schema: StructType) -> StructType:
        """The columns that a flow writes into its target.

        Raises:
            PipelineError: the target cannot have these columns.
        """
        if flow.changes is not None:
            schema = self._columns_of_changes(flow, flow.changes, target, schema)
        columns = _without(schema, _HIDDEN)
        for problem in _problems_of_columns(columns, target):
            raise PipelineError(problem, location=flow.location, dataset=target.name)
        if target.schema is not None:
            self._check_declared(flow, target, columns)
        return columns

    def _check_declared(self, flow: FlowDefinition, target: Dataset, columns: StructType) -> None:
        declared = self._declared(target)
        given = {each.name.lower(): each for each in columns}
        for field in declared:
            other = given.pop(field.name.lower(), None)
            if other is None:
                what = f"its schema has the column {field.name!r}, which the query does not return"
            elif other.dataType != field.dataType and not _same_but_nulls(other.dataType, field.dataType):
                what = (
                    f"its schema has the column {field.name!r} as {_type(field.dataType)}, and the query returns it as "
                    f"{_type(other.dataType)}"
                )
            else:
                continue
            raise PipelineError(f"{what}: change one of them", location=flow.location, dataset=target.name)
        for name in given:
            raise PipelineError(
                f"the query returns the column {name!r}, which its schema does not have: change one of them",
                location=flow.location,
                dataset=target.name,
            )

    def _declared(self, dataset: Dataset) -> StructType:
        what = f"schema={dataset.schema!r} is no list of columns with types"
        return declared_columns(dataset.schema or "", what, location=dataset.location, dataset=dataset.name)

    def _columns_of_changes(
        self, flow: FlowDefinition, changes: Changes, target: Dataset, schema: StructType
    ) -> StructType:
        """The columns of a table of changes, from those of its source.

        Raises:
            PipelineError: a column does not exist, or an expression is wrong.
        """
        from pyspark.sql import functions as F

        known = {each.name.lower(): each.name for each in schema}
        given = (
            ("keys", changes.keys),
            ("column_list", changes.columns or ()),
            ("except_column_list", changes.except_columns),
            ("track_history_column_list", changes.track_history_columns or ()),
            ("track_history_except_column_list", changes.track_history_except_columns),
        )
        for argument, names in given:
            for name in names:
                if name.lower() not in known:
                    raise PipelineError(
                        f"{argument}: {changes.source!r} has no column {name!r}{did_you_mean(name, known.values())}",
                        location=flow.location,
                        dataset=target.name,
                    )
        frame = stand_in(self.spark, schema, self._evaluation(flow.name), streaming=False)
        try:
            rows = frame.select(
                F.expr(changes.sequence_by) if isinstance(changes.sequence_by, str) else changes.sequence_by
            )
            if changes.apply_as_deletes is not None:
                frame.where(changes.apply_as_deletes)
        except Exception as error:
            raise explained(error, target.name, flow.location, self.pipeline) from error
        chosen = changed_columns(changes, schema.names)
        columns = _without(schema, [name for name in schema.names if name not in chosen])
        if changes.scd_type == 2:
            for name in HISTORY_COLUMNS:
                columns = columns.add(name, rows.schema[0].dataType)
        return columns

    # -- tables

    def _table(self, dataset: Dataset, streaming: bool, evaluation: Evaluation) -> DataFrame:
        """Stands in for a table that a function reads.

        Raises:
            PipelineError: it cannot be read as a stream.
        """
        if streaming and self._is_replaced(dataset):
            raise PipelineError(
                f"{dataset.name!r} is read as a stream, but its rows are replaced when they change: read it with "
                f'spark.read.table("{dataset.name}"), in SQL without STREAM'
            )
        schema = self._schema(dataset)
        if schema is None:
            raise _SourceError(f"{dataset.name!r} has a problem", location=dataset.location, dataset=dataset.name)
        return stand_in(self.spark, schema, evaluation, streaming=streaming, name=dataset.name)

    def _is_replaced(self, dataset: Dataset) -> bool:
        flows = self.pipeline.flows_into(dataset.name)
        return any(flow.kind in (FlowKind.COMPLETE, FlowKind.CHANGES) for flow in flows)

    def _schema(self, dataset: Dataset) -> StructType | None:
        """The columns of a table; None if its flows have a problem, which is reported, or if they read it."""
        if dataset.name not in self.schemas:
            self.schemas[dataset.name] = None
            try:
                self.schemas[dataset.name] = self._schema_of_flows(dataset)
            except PipelineError as error:
                self._report(error)
        return self.schemas[dataset.name]

    def _schema_of_flows(self, dataset: Dataset) -> StructType | None:
        if dataset.schema is not None:
            return self._declared(dataset)
        merged: StructType | None = None
        for flow in self.pipeline.flows_into(dataset.name):
            columns = self._flow(flow)
            if columns is None:
                return None
            merged = columns if merged is None else _merged(merged, columns, flow, dataset)
        return merged

    # -- the result

    def _graph(self) -> Graph | None:
        """The graph; None if it has a cycle, which is reported."""
        try:
            return build_graph(self.pipeline, [self._edge(each) for each in sorted(self.inputs, key=repr)])
        except PipelineError as error:
            self._report(error)
            return None

    def _edge(self, read: Input) -> Edge:
        reader = node_of(read.reader, self.pipeline)
        if read.kind is InputKind.DATASET:
            return Edge(node_of(read.name, self.pipeline), reader, read.streaming)
        kind = NodeKind.TOPIC if read.kind is InputKind.TOPIC else NodeKind.OTHER
        return Edge(Node(kind, read.name), reader, read.streaming)

    def _ddl_of_datasets(self, flows: Mapping[str, AnalyzedFlow]) -> Iterator[tuple[str, str]]:
        for dataset in self.pipeline.datasets:
            schema = self.schemas.get(dataset.name)
            if dataset.kind is DatasetKind.TEMPORARY_VIEW:
                yield dataset.name, _ddl(self.frames[(dataset.name,)].schema, self.spark)
            elif schema is not None:
                yield dataset.name, _ddl(schema, self.spark)
            else:
                into = self.pipeline.flows_into(dataset.name)
                yield dataset.name, flows[into[0].name].schema


# -- columns and types


def _same_cycle(error: PipelineError) -> str | None:
    """What all errors of one cycle have in common, wherever it was entered; None for other errors."""
    found = re.match(r"is part of a cycle: ([^.]*)\.", error.what)
    return None if found is None else f"cycle {sorted(set(found[1].split(' reads ')))}"


def _problems_of_columns(columns: StructType, target: Dataset) -> Iterator[str]:
    names = [name.lower() for name in columns.names]
    if not names:
        yield "its query returns no columns that can be stored: select some"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"its query returns the column {name!r} twice: rename or drop one of them"
    if target.kind.is_table:
        for field in columns:
            if "void" in field.dataType.simpleString():
                yield f"its column {field.name!r} has no type: cast it, for example CAST(NULL AS STRING)"
        for name in (*target.partition_columns, *target.cluster_columns):
            if name.lower() not in names:
                hint = did_you_mean(name, columns.names)
                yield f"it is partitioned by {name!r}, which its query does not return{hint}"
    keys = () if target.topic is None else target.topic.key
    for name in (keys,) if isinstance(keys, str) else keys or ():
        if name.lower() not in names:
            hint = did_you_mean(name, columns.names)
            yield f"the key of its records is {name!r}, which its query does not return{hint}"


def _without(schema: StructType, names: Any) -> StructType:  # noqa: ANN401 -- a container
    from pyspark.sql.types import StructType

    return StructType([field for field in schema if field.name not in names])


def _merged(one: StructType, other: StructType, flow: FlowDefinition, target: Dataset) -> StructType:
    """The columns of two flows into one table."""
    from pyspark.sql.types import StructType

    known = {field.name.lower(): field for field in one}
    for field in other:
        before = known.setdefault(field.name.lower(), field)
        if not _same_but_nulls(before.dataType, field.dataType):
            raise PipelineError(
                f"flow {flow.name!r} returns the column {field.name!r} as {_type(field.dataType)}, and another flow as "
                f"{_type(before.dataType)}: cast one of them",
                location=flow.location,
                dataset=target.name,
            )
    return StructType(list(known.values()))


def _type(of: Any) -> str:  # noqa: ANN401 -- a DataType
    return str(of.simpleString()).upper()


def _same_but_nulls(one: Any, other: Any) -> bool:  # noqa: ANN401 -- DataTypes
    return _type(one) == _type(other)


def _ddl(schema: StructType, spark: SparkSession) -> str:
    jvm: Any = spark._jvm  # noqa: SLF001 -- PySpark has no DDL of a schema
    return str(jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json()).toDDL())


# -- plans


_NODE: Final = re.compile(r"^((?:[ :]  )*(?:[:+]- )?)(~?)(\w+)(.*)$")
_ALWAYS_STATEFUL: Final = (
    "Aggregate",
    "Distinct",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "FlatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState",
    "TransformWithState",
    "TransformWithStateInPySpark",
    "TransformWithStateInPandas",
    "GlobalLimit",
)
_IDENTIFIER: Final = re.compile(r"#\d+L?(-T\d+ms)?")
_ALIAS: Final = re.compile(r" AS (`[^`]*`|[^,\]]*)")


def _lines(plan: str) -> list[tuple[int, bool, str, str]]:
    """The nodes of a plan: depth, whether it is a stream, operator, and arguments."""
    found = (_NODE.match(line) for line in plan.splitlines())
    return [(len(each[1]) // 3, each[2] == "~", each[3], each[4]) for each in found if each]


def _sources(plan: str) -> Iterator[str]:
    """The streams that a query reads, in the order of its plan."""
    for _, _, operator, rest in _lines(plan):
        if operator.startswith("StreamingRelation"):
            path = re.search(r"FileSource\[([^\]]*)\]", rest)
            yield path[1].rpartition("/*/")[2] if path and "/*/" in path[1] else operator


def _state(plan: str) -> Iterator[str]:
    """The operators of a query that keep state, without what may change: names of columns, and ids."""
    lines = _lines(plan)
    for number, (depth, streaming, operator, rest) in enumerate(lines):
        stateful = operator in _ALWAYS_STATEFUL
        if operator == "Join":
            inputs = [line for line in lines[number + 1 :] if line[0] == depth + 1]
            stateful = all(line[1] or line[2].startswith("StreamingRelation") for line in inputs[:2])
        if streaming and stateful:
            yield f"{operator}{_ALIAS.sub('', _IDENTIFIER.sub('', rest))}"


def _remedy_of(message: str, flow: FlowDefinition, target: Dataset) -> str:
    if "atermark" in message and "join" not in message.lower():
        topic = target.kind is DatasetKind.TOPIC
        other = 'write with output_mode="update"' if topic else "make it a @dp.materialized_view"
        return (
            f' Call withWatermark("COLUMN", "1 hour") in front of the aggregation and group by this column, or {other}'
        )
    if "atermark" in message:
        return ' Call withWatermark("COLUMN", "1 hour") on both sides, and join with a condition on these columns'
    if flow.output_mode == "complete":
        return ' Write with output_mode="append", or aggregate the rows'
    return ""
