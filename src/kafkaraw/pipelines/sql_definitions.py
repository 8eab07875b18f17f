"""The statements of SQL files: parsed by Spark, and registered as datasets and flows.

Spark's parser makes a plan of each statement. A query stays a plan until an evaluation analyzes it. Statements that
define nothing of a pipeline are errors. Start at `register_statements`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from kafkaraw.pipelines.evaluation import message_of, relations_of, rows_of_plan
from kafkaraw.pipelines.model import Changes, Dataset, DatasetKind, FlowDefinition, FlowKind, Location, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkaraw.pipelines.definitions import Registry

_STATEMENTS: Final = (
    "CREATE STREAMING TABLE, CREATE MATERIALIZED VIEW, CREATE TEMPORARY VIEW, CREATE VIEW, CREATE FLOW and SET"
)


def register_statements(text: str, file: str, registry: Registry) -> None:
    """Register what the statements of a SQL file define.

    Raises:
        PipelineError: a statement does not parse, or defines nothing of a pipeline.
    """
    conf = dict[str, str]()
    for plan, line in _parsed(text, file, registry):
        kind = str(plan.getClass().getSimpleName())
        register = _REGISTERED.get(kind)
        location = Location(file, line)
        if kind == "SetCommand" and plan.kv().isDefined():
            name, value = _pair(plan.kv().get())
            conf[str(name)] = _option(value) or ""
        elif register is None:
            raise PipelineError(
                f"a statement is none of {_STATEMENTS}, which define a pipeline: Spark calls it {kind}",
                location=location,
            )
        else:
            register(plan, location, dict(conf), registry)


def _parsed(text: str, file: str, registry: Registry) -> Iterator[tuple[Any, int]]:
    """The plans of statements in the JVM, and the lines where they begin."""
    context = registry.spark._jvm.org.apache.spark.sql.pipelines.graph.SqlGraphRegistrationContext  # type: ignore[union-attr]  # noqa: SLF001
    try:
        statements = context.splitSqlFileIntoQueries(registry.spark._jsparkSession, text, file)  # noqa: SLF001
    except PySparkException as error:
        raise PipelineError(message_of(error), location=Location(file, _line_of(error, text))) from error
    for index in range(statements.size()):
        statement = statements.apply(index)
        yield statement.plan(), int(statement.queryOrigin().line().get())


def _line_of(error: PySparkException, text: str) -> int:
    """The line in the file of an error whose statement Spark quotes below `== SQL ==`."""
    message = str(error)
    quoted = message.partition("== SQL ==\n")[2].splitlines()
    mark = next((number for number, line in enumerate(quoted) if line.strip("-^") == "" and "^" in line), 0)
    if not mark:
        return 0
    statement = "\n".join(quoted[:mark])
    at = text.find(statement)
    return text[: max(at, 0)].count("\n") + statement.count("\n") + 1


def _query(plan: Any, registry: Registry) -> Callable[[], DataFrame]:  # noqa: ANN401 -- a plan in the JVM
    spark = registry.spark

    def rows_of_query() -> DataFrame:
        return rows_of_plan(plan, spark)

    return rows_of_query


def _table(plan: Any, kind: DatasetKind, location: Location) -> Dataset:  # noqa: ANN401
    """The table of a CREATE statement.

    Raises:
        PipelineError: it has a location, or is partitioned by an expression.
    """
    name = _name_of(plan.name())
    partitions, clusters = list[str](), list[str]()
    for transform in _each(plan.partitioning()):
        columns = [str(reference.toString()) for reference in transform.references()]
        if transform.name() == "identity":
            partitions += columns
        elif transform.name() == "cluster_by":
            clusters += columns
        else:
            raise PipelineError(
                f"is partitioned by {transform.toString()}: a table can be partitioned by columns only; add a column",
                location=location,
                dataset=name,
            )
    given = plan.tableSpec()
    if given.location().isDefined():
        raise PipelineError("has a LOCATION: tables of a pipeline are in its storage", location=location, dataset=name)
    columns = [str(each.toV1Column().toDDL()) for each in _each(plan.columns())]
    return Dataset(
        name,
        kind,
        location,
        comment=_option(given.comment()),
        schema=", ".join(columns) or None,
        format=_option(given.provider()),
        partition_columns=tuple(partitions),
        cluster_columns=tuple(clusters),
        properties={str(name): str(value) for name, value in map(_pair, _each(given.properties().toSeq()))},
    )


def _streaming_table(plan: Any, location: Location, conf: dict[str, str], registry: Registry) -> None:  # noqa: ANN401
    registry.add_dataset(_table(plan, DatasetKind.STREAMING_TABLE, location))


def _streaming_table_as(plan: Any, location: Location, conf: dict[str, str], registry: Registry) -> None:  # noqa: ANN401
    _with_query(_table(plan, DatasetKind.STREAMING_TABLE, location), plan.query(), conf, registry)


def _materialized_view(plan: Any, location: Location, conf: dict[str, str], registry: Registry) -> None:  # noqa: ANN401
    _with_query(_table(plan, DatasetKind.MATERIALIZED_VIEW, location), plan.query(), conf, registry)


def _streaming_table_of_changes(
    plan: Any,  # noqa: ANN401
    location: Location,
    conf: dict[str, str],
    registry: Registry,
) -> None:
    table = _table(plan, DatasetKind.STREAMING_TABLE, location)
    registry.add_dataset(table)
    registry.add_changes(table.name, table.name, _changes(plan, location), location, conf)


def _temporary_view(plan: Any, location: Location, conf: dict[str, str], registry: Registry) -> None:  # noqa: ANN401
    name = str(plan.name().unquotedString())
    view = Dataset(name, DatasetKind.TEMPORARY_VIEW, location, comment=_option(plan.comment()))
    _with_query(view, plan.plan(), conf, registry)


def _view(plan: Any, location: Location, conf: dict[str, str], registry: Registry) -> None:  # noqa: ANN401
    view = Dataset(_name_of(plan.child()), DatasetKind.TEMPORARY_VIEW, location, comment=_option(plan.comment()))
    _with_query(view, plan.query(), conf, registry)


def _with_query(dataset: Dataset, query: Any, conf: dict[str, str], registry: Registry) -> None:  # noqa: ANN401
    registry.add_dataset(dataset)
    registry.add_flow(
        FlowDefinition(
            dataset.name, dataset.name, FlowKind.APPEND, dataset.location, _query(query, registry), spark_conf=conf
        )
    )


def _flow(plan: Any, location: Location, conf: dict[str, str], registry: Registry) -> None:  # noqa: ANN401
    name, operation = _name_of(plan.name()), plan.flowOperation()
    if operation.getClass().getSimpleName() == "AutoCdcInto":
        changes = _changes(operation, location)
        registry.add_changes(name, _name_of(operation.targetTable()), changes, location, conf)
        return
    if not operation.byName():
        raise PipelineError(
            f"flow {name!r}: write INSERT INTO ... BY NAME: columns of a pipeline are matched by name",
            location=location,
        )
    target = relations_of(operation.table().toString())[0][0]
    query = _query(operation.query(), registry)
    registry.add_flow(FlowDefinition(name, target, FlowKind.APPEND, location, query, spark_conf=conf))


def _changes(plan: Any, location: Location) -> Changes:  # noqa: ANN401
    sources = relations_of(plan.source().toString())
    if len(sources) != 1:
        raise PipelineError("the source of AUTO CDC must be one dataset: FROM STREAM name", location=location)
    delete = plan.deleteCondition()
    return Changes(
        sources[0][0],
        tuple(_attribute(each) for each in _each(plan.keys())),
        str(plan.sequenceByExpr().sql()),
        str(delete.get().sql()) if delete.isDefined() else None,
        _attributes(plan.includeColumns()),
        _attributes(plan.excludeColumns()) or (),
        int(plan.storedAsScdType()),
        _attributes(plan.trackHistoryColumns()),
        _attributes(plan.trackHistoryExceptColumns()) or (),
    )


_REGISTERED: Final[dict[str, Callable[[Any, Location, dict[str, str], Registry], None]]] = {
    "CreateStreamingTable": _streaming_table,
    "CreateStreamingTableAsSelect": _streaming_table_as,
    "CreateStreamingTableAutoCdc": _streaming_table_of_changes,
    "CreateMaterializedViewAsSelect": _materialized_view,
    "CreateViewCommand": _temporary_view,
    "CreateView": _view,
    "CreateFlowCommand": _flow,
}


# -- values of Scala


def _each(sequence: Any) -> Iterator[Any]:  # noqa: ANN401 -- a Seq
    return (sequence.apply(index) for index in range(sequence.size()))


def _option(value: Any) -> str | None:  # noqa: ANN401 -- an Option
    return str(value.get()) if value.isDefined() else None


def _pair(value: Any) -> tuple[Any, Any]:  # noqa: ANN401 -- a Tuple2
    return value.productElement(0), value.productElement(1)


def _name_of(identifier: Any) -> str:  # noqa: ANN401 -- an UnresolvedIdentifier
    return ".".join(str(part) for part in _each(identifier.nameParts()))


def _attribute(attribute: Any) -> str:  # noqa: ANN401 -- an UnresolvedAttribute
    return ".".join(str(part) for part in _each(attribute.nameParts()))


def _attributes(value: Any) -> tuple[str, ...] | None:  # noqa: ANN401 -- an Option of a Seq
    return tuple(_attribute(each) for each in _each(value.get())) if value.isDefined() else None
