"""Loads the files of a pipeline: executes Python files, parses SQL files, and collects what they define.

Spark's decorators (`from pyspark import pipelines as dp`) pass each output and flow to the active
`GraphElementRegistry`, an abstract class of Spark. `Registry` is ours; the decorators of kafkaraw find it with
`active_registry`. Loading calls no function of a dataset, and needs a session only for what the files do themselves.

Python files are compiled from their text: a `__pycache__` may be stale. While the pipeline is used, their modules are
in `sys.modules` (dataclasses and type hints look there), under names that nothing else has. Functions are pickled by
value, because executors do not have these modules. Start at `load_pipeline`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark import cloudpickle
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    get_active_graph_element_registry,
    graph_element_registration_context,
)
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, Table, TemporaryView

from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import replace
from kafkaraw.pipelines.evaluation import message_of
from kafkaraw.pipelines.model import (
    Changes,
    Dataset,
    DatasetKind,
    Expectation,
    FlowDefinition,
    FlowKind,
    Location,
    Pipeline,
    PipelineError,
    TopicTarget,
    did_you_mean,
    raise_errors,
)
from kafkaraw.pipelines.specification import Specification
from kafkaraw.pipelines.sql_definitions import register_statements

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

EXPECTATIONS: Final = "__expectations__"
"""The attribute of a function that has its expectations, in the order in which they are written."""

_MODULES: Final = "kafkaraw_pipeline_definitions"


def load_pipeline(specification: Specification, spark: SparkSession) -> Pipeline:
    """Load a pipeline.

    Args:
        specification: names the files.
        spark: the variable `spark` of Python files, and the parser of SQL files.

    Raises:
        PipelineError: a file raises or does not parse, a name is defined twice, or a flow has no target; all problems
            of all files together.
    """
    registry = Registry(specification, spark)
    errors = list[PipelineError]()
    with (
        _working_directory(registry.root),
        _texts_instead_of_columns(),
        graph_element_registration_context(registry),
    ):
        for path in specification.files:
            try:
                if path.suffix == ".py":
                    _execute(path, registry)
                else:
                    registry.register_sql(path.read_text(encoding="utf-8"), path.relative_to(registry.root))
            except PipelineError as error:
                errors.append(error)
    pipeline, more = registry.pipeline(complete=not errors)
    raise_errors(specification.name, (*errors, *more))
    return pipeline


def active_registry() -> Registry:
    """Return the registry of the pipeline that is being loaded.

    Raises:
        PipelineError: no pipeline is being loaded, or it is loaded by Spark's own command.
    """
    from pyspark.errors import PySparkRuntimeError

    try:
        registry = get_active_graph_element_registry()
    except PySparkRuntimeError:
        registry = None
    if isinstance(registry, Registry):
        return registry
    raise PipelineError(
        "decorators of kafkaraw.pipelines define datasets of a pipeline: put them at the top level of a file that the "
        "libraries of spark-pipeline.yml name, and run it with `kafkaraw pipelines run`"
    )


def caller_location() -> Location:
    """Return the line of the innermost file of the pipeline that is being loaded that the current call comes from."""
    return active_registry().line_of(traceback.extract_stack())


class Registry(GraphElementRegistry):
    """Collects the datasets and flows of one pipeline.

    Args:
        specification: of the pipeline.
        spark: its session.
    """

    def __init__(self, specification: Specification, spark: SparkSession) -> None:
        self.specification = specification
        self.root: Path = specification.path.parent
        self.spark = spark
        self._datasets: list[Dataset] = []
        self._flows: list[FlowDefinition] = []

    # -- what Spark's decorators call

    def register_output(self, output: Output) -> None:
        """Add a table, view or sink."""
        location = self.location(output.source_code_location.filename, output.source_code_location.line_number)
        dataset = Dataset(output.name, _KINDS[type(output)], location, comment=output.comment)
        if isinstance(output, Table):
            dataset = replace(
                dataset,
                schema=_ddl(output.schema),
                format=output.format,
                partition_columns=tuple(output.partition_cols or ()),
                cluster_columns=tuple(output.cluster_by or ()),
                properties=dict(output.table_properties),
            )
        if isinstance(output, Sink):
            options = {name: str(value) for name, value in output.options.items()}
            dataset = replace(dataset, format=output.format, options=options)
        self.add_dataset(dataset)

    def register_flow(self, flow: Flow) -> None:
        """Add a flow; its kind is known when its target is, in `pipeline`."""
        location = self.location(flow.source_code_location.filename, flow.source_code_location.line_number)
        kind = FlowKind.ONCE if getattr(flow, "once", False) else FlowKind.APPEND  # no `once` in Spark 4.3
        self.add_flow(
            FlowDefinition(
                flow.name,
                flow.target,
                kind,
                location,
                flow.func,
                spark_conf=dict(flow.spark_conf),
                expectations=expectations_of(flow.func),
            )
        )

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        """Add a flow of changes."""
        location = self.location(flow.source_code_location.filename, flow.source_code_location.line_number)
        changes = Changes(
            flow.source,
            _names(flow.keys) or (),
            flow.sequence_by,
            flow.apply_as_deletes,
            _names(flow.column_list),
            _names(flow.except_column_list) or (),
            int(flow.stored_as_scd_type or 1),
            _names(flow.track_history_column_list),
            _names(flow.track_history_except_column_list) or (),
        )
        self.add_changes(flow.name or flow.target, flow.target, changes, location, flow.spark_conf)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Add what the statements of a SQL file define."""
        register_statements(sql_text, file_path.as_posix(), self)

    # -- what the decorators of kafkaraw call

    def register_topic(
        self,
        target: TopicTarget,
        location: Location,
        function: Callable[[], DataFrame] | None = None,
        comment: str | None = None,
    ) -> None:
        """Add a topic that flows write to, with its flow if there is a function."""
        self.add_dataset(Dataset(target.name, DatasetKind.TOPIC, location, comment=comment, topic=target))
        if function is not None:
            name = getattr(function, "__name__", target.name)
            expectations = expectations_of(function)
            self.add_flow(
                FlowDefinition(name, target.name, FlowKind.APPEND, location, function, expectations=expectations)
            )

    # -- what all of them call

    def add_dataset(self, dataset: Dataset) -> None:
        """Add a dataset."""
        self._datasets.append(dataset)

    def add_flow(self, flow: FlowDefinition) -> None:
        """Add a flow, or the function of a view."""
        self._flows.append(flow)

    def add_changes(
        self, name: str, target: str, changes: Changes, location: Location, spark_conf: dict[str, str] | None = None
    ) -> None:
        """Add a flow of changes, whose function reads the source."""
        spark = self.spark

        def changes_of_source() -> DataFrame:
            return spark.readStream.table(changes.source)

        self.add_flow(
            FlowDefinition(
                name,
                target,
                FlowKind.CHANGES,
                location,
                changes_of_source,
                spark_conf=dict(spark_conf or {}),
                changes=changes,
                output_mode="update",
            )
        )

    def line_of(self, frames: Sequence[traceback.FrameSummary]) -> Location:
        """Return the innermost of these frames that is in a file of the pipeline."""
        files = {str(path) for path in self.specification.files}
        found = next((frame for frame in reversed(frames) if frame.filename in files), None)
        if found is None:
            return Location(self.specification.path.name)
        return self.location(found.filename, found.lineno)

    def location(self, file: str, line: int | None) -> Location:
        """Return a line of a file, with the path relative to the pipeline's folder if it is in it."""
        path = Path(file)
        return Location(str(path.relative_to(self.root)) if path.is_relative_to(self.root) else file, line or 0)

    # -- what comes of it

    def pipeline(self, *, complete: bool) -> tuple[Pipeline, list[PipelineError]]:
        """Return the pipeline, and what is wrong with its names.

        Args:
            complete: whether all files were loaded; if not, a target may be in one of the others.
        """
        given = self.specification
        empty = Pipeline(
            given.name, self.root, given.storage, (), (), given.settings, catalog=given.catalog, database=given.database
        )
        datasets = replace(empty, datasets=tuple(self._datasets))
        errors = [*self._repeated_datasets(datasets)]
        if complete and not self._datasets:
            errors.append(
                PipelineError(
                    "the files of its libraries define no dataset: decorate a function with @dp.table or another "
                    "decorator of `from pyspark import pipelines as dp`",
                    location=Location(given.path.name),
                )
            )
        functions, flows = dict[str, FlowDefinition](), list[FlowDefinition]()
        for flow in self._flows:
            target = datasets.find(flow.target)
            if target is None:
                if complete:
                    errors.append(_without_target(flow, datasets))
            elif target.kind is not DatasetKind.TEMPORARY_VIEW:
                flows.append(_completed(flow, target))
            elif target.name in functions or flow.name != target.name:
                errors.append(_flow_into_view(flow, target))
            else:
                functions[target.name] = flow
        errors += _repeated_flows(flows, {each.dataset for each in errors})
        pipeline = replace(empty, datasets=tuple(self._completed(functions, flows, datasets)), flows=tuple(flows))
        return pipeline, errors or (_datasets_without_flows(pipeline) if complete else [])

    def _completed(
        self, functions: dict[str, FlowDefinition], flows: list[FlowDefinition], names: Pipeline
    ) -> Iterator[Dataset]:
        """The datasets with the functions of views, and with all expectations of the functions that produce them."""
        for dataset in self._datasets:
            if dataset.kind is DatasetKind.TEMPORARY_VIEW:
                flow = functions.get(dataset.name)
                if flow is not None:
                    yield replace(dataset, function=flow.function, expectations=flow.expectations)
            else:
                into = [flow for flow in flows if names.find(flow.target) is dataset]
                yield replace(dataset, expectations=tuple(each for flow in into for each in flow.expectations))

    def _repeated_datasets(self, names: Pipeline) -> Iterator[PipelineError]:
        first = dict[str, Dataset]()
        for dataset in self._datasets:
            other = first.setdefault(names.canonical_name(dataset.name), dataset)
            if other is not dataset:
                yield PipelineError(
                    f"a {dataset.kind.value} and the {other.kind.value} at {other.location} have the same name: "
                    "rename one of them",
                    location=dataset.location,
                    dataset=dataset.name,
                )


_KINDS: Final = {
    StreamingTable: DatasetKind.STREAMING_TABLE,
    MaterializedView: DatasetKind.MATERIALIZED_VIEW,
    TemporaryView: DatasetKind.TEMPORARY_VIEW,
    Sink: DatasetKind.SINK,
}


def expectations_of(function: Callable[..., object]) -> tuple[Expectation, ...]:
    """Return the expectations that decorators have attached to a function."""
    return tuple(getattr(function, EXPECTATIONS, ()))


def _completed(flow: FlowDefinition, target: Dataset) -> FlowDefinition:
    """A flow with the kind and output mode that its target decides."""
    if target.kind is DatasetKind.MATERIALIZED_VIEW:
        return replace(flow, kind=FlowKind.COMPLETE, output_mode="complete")
    if target.topic is not None:
        return replace(flow, output_mode=target.topic.output_mode)
    return flow


def _without_target(flow: FlowDefinition, names: Pipeline) -> PipelineError:
    known = [each.name for each in names.datasets if each.kind is not DatasetKind.TEMPORARY_VIEW]
    hint = did_you_mean(flow.target, known) or (f": the pipeline has {', '.join(known)}" if known else "")
    return PipelineError(
        f"flow {flow.name!r} writes to {flow.target!r}, which no file defines{hint}{'' if hint.endswith('?') else '.'} "
        f'Define it with dp.create_streaming_table("{flow.target}"), dp.create_sink or kp.create_topic',
        location=flow.location,
    )


def _flow_into_view(flow: FlowDefinition, view: Dataset) -> PipelineError:
    return PipelineError(
        f"flow {flow.name!r} cannot write to a temporary view, which is not stored: make it a table, with "
        f"dp.create_streaming_table, in place of the view at {view.location}",
        location=flow.location,
        dataset=view.name,
    )


def _repeated_flows(flows: Sequence[FlowDefinition], reported: Collection[str | None]) -> Iterator[PipelineError]:
    first = dict[str, FlowDefinition]()
    for flow in flows:
        other = first.setdefault(flow.name.lower(), flow)
        if other is not flow and flow.name not in reported:
            yield PipelineError(
                f"flow {flow.name!r} and the flow at {other.location} have the same name: rename one of them; the name "
                "of a flow is that of its function, if the decorator has no `name`",
                location=flow.location,
            )


def _datasets_without_flows(pipeline: Pipeline) -> list[PipelineError]:
    errors = list[PipelineError]()
    for dataset in pipeline.datasets:
        flows = pipeline.flows_into(dataset.name)
        if dataset.kind is DatasetKind.MATERIALIZED_VIEW and len(flows) > 1:
            what = f"a materialized view has one query, and {len(flows)} flows write to it: make it a streaming table"
        elif any(each.kind is FlowKind.CHANGES for each in flows) and len(flows) > 1:
            what = f"the target of a flow of changes has no other flow, and {len(flows)} flows write to it"
        elif dataset.kind is not DatasetKind.TEMPORARY_VIEW and not flows:
            what = f"no flow writes to it: add a function with @dp.append_flow(target={dataset.name!r}), or remove it"
        else:
            continue
        errors.append(PipelineError(what, location=dataset.location, dataset=dataset.name))
    return errors


# -- Python files


def _execute(path: Path, registry: Registry) -> None:
    """Execute a Python file as a module.

    Raises:
        PipelineError: it does not compile, or raises; with the line.
    """
    module = _module(path, registry)
    try:
        code = compile(path.read_bytes(), str(path), "exec")
        exec(code, module.__dict__)
    except SyntaxError as error:
        at = Location(str(path.relative_to(registry.root)), error.lineno or 0)
        raise PipelineError(f"{type(error).__name__}: {error.msg}", location=at) from error
    except PipelineError as error:
        at = registry.line_of(traceback.extract_tb(error.__traceback__)) if error.location is None else error.location
        at = registry.location(at.file, at.line)
        raise PipelineError(error.what, location=at, dataset=error.dataset) from error
    except Exception as error:
        at = registry.line_of(traceback.extract_tb(error.__traceback__))
        raise PipelineError(_told(error), location=at) from error


def _told(error: Exception) -> str:
    if isinstance(error, KafkaError):
        return str(error)
    return f"the file raised {type(error).__name__}: {message_of(error)}"


def _module(path: Path, registry: Registry) -> ModuleType:
    """A new module for a file, in place of the one of an earlier load."""
    parts = path.relative_to(registry.root).with_suffix("").parts
    name = ".".join((_MODULES, registry.specification.name.replace(".", "_"), *parts))
    earlier = sys.modules.get(name)
    if earlier is not None:
        cloudpickle.unregister_pickle_by_value(earlier)  # type: ignore[no-untyped-call]
    module = ModuleType(name)
    module.__file__ = str(path)
    module.__dict__["spark"] = registry.spark  # as in Spark's own command
    sys.modules[name] = module
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


@contextmanager
def _working_directory(path: Path) -> Iterator[None]:
    """Files may open others relative to the pipeline's folder while they are loaded, as in Spark's own command."""
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


# -- columns and types


def _ddl(schema: StructType | str | None) -> str | None:
    if schema is None or isinstance(schema, str):
        return schema
    return schema_ddl(schema)


def schema_ddl(schema: StructType) -> str:
    """Return a schema as DDL."""
    from pyspark.sql import SparkSession

    session = SparkSession.active()
    jvm: Any = session._jvm  # noqa: SLF001 -- PySpark has no DDL of a schema
    return str(jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json()).toDDL())


_CONNECT: Final = "pyspark.sql.connect"


@contextmanager
def _texts_instead_of_columns() -> Iterator[None]:
    """Let Spark's auto CDC flows keep the texts of columns and expressions.

    Spark makes columns of Spark Connect of them, which need packages that nothing else here needs, a second to import,
    and a session that this one is not.
    """
    folder = Path(pyspark.__file__).parent / "sql" / "connect"
    builtin = ModuleType(f"{_CONNECT}.functions.builtin")
    builtin.__dict__.update(col=str, expr=str)
    stand_ins = {builtin.__name__: builtin}
    for name, path in ((_CONNECT, folder), (f"{_CONNECT}.functions", folder / "functions")):
        if name not in sys.modules:
            stand_ins[name] = ModuleType(name)
            stand_ins[name].__path__ = [str(path)]
    before = {name: sys.modules.get(name) for name in stand_ins}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _names(columns: Sequence[Column | str] | None) -> tuple[str, ...] | None:
    """The names of columns that were given as texts or as columns."""
    return tuple(_text(each).replace("`", "") for each in columns) if columns else None


def _text(column: Any) -> str:  # noqa: ANN401 -- a text, or a Column, whose text only the JVM has
    return column if isinstance(column, str) else str(column._jc.toString())  # noqa: SLF001
