"""The plan of a pipeline as data, and what changed since the plan of the last run.

A run keeps its plan in the storage, as JSON. `changes` compares it with the plan of the definitions as they are now,
and says which change needs a new checkpoint or a new table, and why. The rules are Spark's ("Recovery semantics after
changes in a streaming query") and those of the pipeline's tables. A plan has no settings, so it has no secrets. Pure.
Start at `plan_of` and `changes`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import dataclass, fields
from kafkaraw.pipelines.analysis import Analysis, AnalyzedFlow
from kafkaraw.pipelines.dead_letters.flows import NAME_PREFIX
from kafkaraw.pipelines.graph import Edge, Graph, Node, NodeKind
from kafkaraw.pipelines.model import Dataset, Expectation, FlowDefinition

_VERSION: Final = 1
_SHUFFLE: Final = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class PlannedExpectation:
    """An expectation: its name, the text of its condition, and what happens to rows that do not meet it."""

    name: str
    condition: str
    action: str


@dataclass(frozen=True, slots=True)
class PlannedDataset:
    """A dataset.

    Args:
        kind: as in `NodeKind`.
        location: of its definition, FILE:LINE.
        schema: of its rows, as DDL.
        comment: None if there is none.
        partition_columns: of a table.
        topic: name of the topic it is; None for others.
        expectations: of the functions that produce its rows.
        format: of a table's files; None in plans of earlier versions, and for others.
    """

    name: str
    kind: str
    location: str
    schema: str
    comment: str | None
    partition_columns: tuple[str, ...]
    topic: str | None
    expectations: tuple[PlannedExpectation, ...]
    format: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """A flow.

    Args:
        target: name of its dataset.
        kind: as in `FlowKind`.
        output_mode: of its query.
        location: of its definition, FILE:LINE.
        sources: streams that it reads, in the order in which its checkpoint has their offsets.
        state: operators that keep state.
        schema: of the rows that it writes, as DDL.
        changes: for a flow of changes, its keys, sequence and SCD type, as text.
        shuffle_partitions: its own setting, None if it has none.
        reads: datasets of the pipeline that its function reads.
    """

    name: str
    target: str
    kind: str
    output_mode: str
    location: str
    sources: tuple[str, ...]
    state: tuple[str, ...]
    schema: str
    changes: str | None
    shuffle_partitions: str | None
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline: its datasets and flows in the order of their definition, and its graph.

    The flows of `dead_letters` write the dead letters of a view or flow, whose name is in `reads`. The graph leaves
    them out.
    """

    pipeline: str
    datasets: tuple[PlannedDataset, ...]
    flows: tuple[PlannedFlow, ...]
    graph: Graph
    dead_letters: tuple[PlannedFlow, ...] = ()

    def dataset(self, name: str) -> PlannedDataset | None:
        """Return a dataset, or None."""
        return next((each for each in self.datasets if each.name == name), None)

    def flow(self, name: str) -> PlannedFlow | None:
        """Return a flow, or None."""
        return next((each for each in self.flows if each.name == name), None)

    def dead_letters_flow(self, name: str) -> PlannedFlow | None:
        """Return a flow that writes dead letters, or None."""
        return next((each for each in self.dead_letters if each.name == name), None)

    def flows_into(self, dataset: str) -> tuple[PlannedFlow, ...]:
        """Return the flows that write to a dataset."""
        return tuple(each for each in self.flows if each.target == dataset)


def plan_of(analysis: Analysis) -> Plan:
    """Return the plan of an analyzed pipeline."""
    pipeline = analysis.pipeline
    flows = []
    for flow in pipeline.flows:
        found, given = analysis.flows[flow.name], flow.changes
        keys = (
            None
            if given is None
            else f"keys {', '.join(given.keys)}, sequence {given.sequence_by}, SCD {given.scd_type}"
        )
        flows.append(
            PlannedFlow(
                flow.name,
                pipeline.dataset(flow.target).name,
                flow.kind.value,
                flow.output_mode,
                str(flow.location),
                found.sources,
                found.state,
                found.schema,
                keys,
                flow.spark_conf.get(_SHUFFLE),
                found.reads,
            )
        )
    datasets = tuple(_dataset(each, analysis.schemas[each.name]) for each in pipeline.datasets)
    dead_letters = tuple(_dead_letters(flow, found) for flow, found in analysis.dead_letters)
    return Plan(pipeline.name, datasets, tuple(flows), analysis.graph, dead_letters)


def _dead_letters(flow: FlowDefinition, found: AnalyzedFlow) -> PlannedFlow:
    return PlannedFlow(
        flow.name,
        flow.target,
        flow.kind.value,
        flow.output_mode,
        str(flow.location),
        found.sources,
        found.state,
        found.schema,
        changes=None,
        shuffle_partitions=None,
        reads=(flow.name.removeprefix(NAME_PREFIX),),
    )


def _dataset(dataset: Dataset, schema: str) -> PlannedDataset:
    return PlannedDataset(
        dataset.name,
        dataset.kind.value,
        str(dataset.location),
        schema,
        dataset.comment,
        dataset.partition_columns,
        None if dataset.topic is None else dataset.topic.name,
        tuple(_expectation(each) for each in dataset.expectations),
        (dataset.format or "parquet") if dataset.kind.is_table else None,
    )


def _expectation(expectation: Expectation) -> PlannedExpectation:
    unique = expectation.unique_by
    condition = str(expectation.condition) if unique is None else f"unique by {', '.join(unique)}"
    return PlannedExpectation(expectation.name, condition, expectation.action.value)


def flows_of_run(plan: Plan, flows: Iterable[str]) -> set[str]:
    """Return the flows that a run of some has: these, those that write to the tables that they read, and dead letters.

    A topic is read as it is: the flows that write to it do not run with those that read it.
    """
    readers = {each.name for each in plan.datasets if not plan.flows_into(each.name)}  # views
    read_by_views = dict[str, list[str]]()
    for edge in plan.graph.edges:
        if edge.reader.name in readers and edge.source.kind not in (NodeKind.TOPIC, NodeKind.OTHER):
            read_by_views.setdefault(edge.reader.name, []).append(edge.source.name)
    chosen, waiting, read = set[str](), list(flows), set[str]()
    while waiting:
        flow = plan.flow(waiting.pop())
        if flow is None or flow.name in chosen:
            continue
        chosen.add(flow.name)
        seen, names = set[str](), list(flow.reads)
        while names:
            name = names.pop()
            if name not in seen:
                seen.add(name)
                names += read_by_views.get(name, ())
                waiting += (each.name for each in plan.flows_into(name))
        read |= seen
    return chosen | {each.name for each in plan.dead_letters if (chosen | read).intersection(each.reads)}


def merged(before: Plan | None, after: Plan, flows: Collection[str]) -> Plan:
    """Return the plan of a run of some flows: theirs and their targets of `after`, all others of `before`.

    Args:
        before: of the last run; None if there was none.
        after: of the definitions as they are now.
        flows: names of the flows that run.
    """
    old_flows = () if before is None else before.flows
    old_datasets = () if before is None else before.datasets
    now = [each for each in after.flows if each.name in flows]
    changed = {each.target for each in now}
    views = {each.name for each in after.datasets if not after.flows_into(each.name)}
    datasets = {each.name: each for each in after.datasets if each.name in changed | views}
    datasets |= {each.name: each for each in old_datasets if each.name not in datasets}
    kept = (each for each in old_flows if each.name not in flows)
    dead_letters = [each for each in after.dead_letters if each.name in flows]
    if before is not None:
        dead_letters += (each for each in before.dead_letters if each.name not in flows)
    nodes = (Node(NodeKind(each.kind), each.name) for each in datasets.values())
    graph = Graph(tuple(dict.fromkeys((*after.graph.nodes, *nodes))), after.graph.edges, after.graph.flows)
    return Plan(after.pipeline, tuple(datasets.values()), (*now, *kept), graph, tuple(dead_letters))


# -- JSON


def to_json(plan: Plan, changed: Iterable[Change] | None = None) -> str:
    """Return a plan as JSON.

    Args:
        plan: the plan.
        changed: since the last run; added to the document if given.
    """
    nodes = [{"kind": each.kind.value, "name": each.name} for each in plan.graph.nodes]
    position = {each: number for number, each in enumerate(plan.graph.nodes)}
    edges = [
        {"source": position[each.source], "reader": position[each.reader], "streaming": each.streaming}
        for each in plan.graph.edges
    ]
    document: dict[str, Any] = {
        "version": _VERSION,
        "pipeline": plan.pipeline,
        "datasets": [_object(each) for each in plan.datasets],
        "flows": [_object(each) for each in plan.flows],
        "nodes": nodes,
        "edges": edges,
        "dead_letters": [_object(each) for each in plan.dead_letters],
    }
    if changed is not None:
        document["changes"] = [
            {
                "name": each.name,
                "what": each.what,
                "effect": each.effect.value,
                "why": each.why,
                "remedy": each.remedy,
            }
            for each in changed
        ]
    return json.dumps(document, indent=2, ensure_ascii=False)


def from_json(text: str) -> Plan:
    """Return the plan of a JSON text.

    Raises:
        PlanFormatError: it is no plan, or that of a newer version.
    """
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise PlanFormatError(f"version {document['version']} of a plan: this kafkaraw knows version {_VERSION}")
        nodes = tuple(Node(NodeKind(each["kind"]), each["name"]) for each in document["nodes"])
        edges = tuple(
            Edge(nodes[each["source"]], nodes[each["reader"]], each["streaming"]) for each in document["edges"]
        )
        datasets = tuple(_planned_dataset(each) for each in document["datasets"])
        planned = tuple(_planned_flow(each) for each in document["flows"])
        kinds = {(each.kind.value, each.name): each for each in nodes}
        flows = {
            kinds[each.kind, each.name]: tuple(flow.name for flow in planned if flow.target == each.name)
            for each in datasets
            if each.kind != NodeKind.TEMPORARY_VIEW.value
        }
        letters = tuple(_planned_flow(each) for each in document.get("dead_letters", ()))  # absent in earlier plans
        return Plan(document["pipeline"], datasets, planned, Graph(nodes, edges, flows), letters)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise PlanFormatError(f"this is no plan of a pipeline: {error}") from error


class PlanFormatError(KafkaError):
    """A text is no plan."""


def _planned_dataset(given: Mapping[str, Any]) -> PlannedDataset:
    expectations = tuple(PlannedExpectation(**each) for each in given["expectations"])
    columns = tuple(given["partition_columns"])
    return PlannedDataset(**{**given, "partition_columns": columns, "expectations": expectations})


def _planned_flow(given: Mapping[str, Any]) -> PlannedFlow:
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return PlannedFlow(**{**given, **lists})


def _object(value: Any) -> Any:  # noqa: ANN401 -- a dataclass or a value of JSON
    if isinstance(value, tuple):
        return [_object(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {each.name: _object(getattr(value, each.name)) for each in fields(value)}
    return value


# -- comparison


class Effect(Enum):
    """What a change needs."""

    NOTHING = "nothing"  # the next run continues
    CHECKPOINT = "new checkpoint"  # of a flow
    REFRESH = "full refresh"  # of a table and the flows into it


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between two plans.

    Args:
        name: of the flow (CHECKPOINT) or dataset.
        what: what changed.
        effect: what it needs.
        why: the reason; empty for NOTHING, unless there is something to know.
    """

    name: str
    what: str
    effect: Effect = Effect.NOTHING
    why: str = ""

    @property
    def remedy(self) -> str:
        """The command that the change needs; empty if it needs none."""
        if self.effect is Effect.CHECKPOINT:
            return f"kafkaraw pipelines checkpoint fork {self.name}"
        return f"kafkaraw pipelines run --full-refresh {self.name}" if self.effect is Effect.REFRESH else ""

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{self.name}: {self.what}{why}{f'. Run `{self.remedy}`' if self.remedy else ''}"


def changes(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Return what changed between the plan of the last run and the present one."""
    of_datasets, of_flows = _changes_of_datasets(before, after), _changes_of_flows(before, after)
    return (*of_datasets, *of_flows, *_changes_of_dead_letters(before, after))


def _changes_of_datasets(before: Plan, after: Plan) -> Iterator[Change]:
    for dataset in after.datasets:
        known = before.dataset(dataset.name)
        if known is None:
            yield Change(dataset.name, f"new {dataset.kind}")
        elif known.kind != dataset.kind:
            yield _other_kind(known, dataset)
        else:
            if dataset.kind == NodeKind.STREAMING_TABLE.value:
                yield from _changes_of_table(known, dataset)
            yield from _changes_of_expectations(known.expectations, dataset)
    for dataset in before.datasets:
        if after.dataset(dataset.name) is None:
            stored = dataset.kind in (NodeKind.STREAMING_TABLE.value, NodeKind.MATERIALIZED_VIEW.value)
            why = "its files stay in the storage" if stored else ""
            yield Change(dataset.name, f"{dataset.kind} is no longer defined", why=why)


def _other_kind(before: PlannedDataset, after: PlannedDataset) -> Change:
    what = f"was a {before.kind} and is a {after.kind}"
    tables = (NodeKind.STREAMING_TABLE.value, NodeKind.MATERIALIZED_VIEW.value)
    if before.kind in tables and after.kind in tables:
        return Change(after.name, what, Effect.REFRESH, "their files are stored in different ways")
    return Change(after.name, what)


def _changes_of_table(before: PlannedDataset, after: PlannedDataset) -> Iterator[Change]:
    old, new = dict(columns_of(before.schema)), dict(columns_of(after.schema))
    for name, kind in new.items():
        if name not in old:
            yield Change(after.name, f"new column {name} {kind}", why="it is NULL in the rows that the table has")
        elif old[name] != kind:
            yield Change(
                after.name,
                f"column {name} was {old[name]} and is {kind}",
                Effect.REFRESH,
                "the files of the table have the old type",
            )
    for name in old:
        if name not in new:
            yield Change(after.name, f"column {name} is no longer there", why="the files of the table keep it")
    if before.format is not None and before.format != after.format:
        what = f"files were {before.format} and are {after.format}"
        yield Change(after.name, what, Effect.REFRESH, "a table has files of one format")
    if before.partition_columns != after.partition_columns:
        yield Change(
            after.name,
            f"was partitioned by {_list(before.partition_columns)} and is by {_list(after.partition_columns)}",
            Effect.REFRESH,
            "the folders of the table have the old columns",
        )


def _changes_of_expectations(before: Iterable[PlannedExpectation], after: PlannedDataset) -> Iterator[Change]:
    old = {each.name: each for each in before}
    new = {each.name: each for each in after.expectations}
    for name, expectation in new.items():
        if name not in old:
            yield Change(after.name, f"new expectation {name!r}", why="it applies to new rows")
        elif old[name] != expectation:
            yield Change(after.name, f"expectation {name!r} changed", why="it applies to new rows")
    for name in old.keys() - new.keys():
        yield Change(after.name, f"expectation {name!r} is no longer there")


def _changes_of_flows(before: Plan, after: Plan) -> Iterator[Change]:
    for flow in after.flows:
        known = before.flow(flow.name)
        if known is None:
            if before.dataset(flow.target) is not None:
                yield Change(flow.name, f"new flow into {flow.target}")
        else:
            yield from _changes_of_flow(known, flow)
    for flow in before.flows:
        if after.flow(flow.name) is None and after.dataset(flow.target) is not None:
            yield Change(
                flow.name, f"flow into {flow.target} is no longer defined", why="its checkpoint stays in the storage"
            )


def _changes_of_dead_letters(before: Plan, after: Plan) -> Iterator[Change]:
    for flow in after.dead_letters:
        known = before.dead_letters_flow(flow.name)
        if known is not None:
            yield from _changes_of_query(known, flow)


def _changes_of_flow(before: PlannedFlow, after: PlannedFlow) -> Iterator[Change]:
    if before.target != after.target:
        yield Change(
            after.name,
            f"wrote to {before.target} and writes to {after.target}",
            Effect.CHECKPOINT,
            f"with its checkpoint, {after.target} would get new rows only",
        )
        return
    if before.kind != after.kind:
        yield Change(
            after.target,
            f"flow {after.name} was of kind {before.kind!r} and is of {after.kind!r}",
            Effect.REFRESH,
            "what the two have written cannot be continued",
        )
        return
    if before.changes != after.changes:
        why = "the rows of the table were found by the old ones"
        yield Change(
            after.target, f"applied changes with {before.changes} and does with {after.changes}", Effect.REFRESH, why
        )
    yield from _changes_of_query(before, after)


def _changes_of_query(before: PlannedFlow, after: PlannedFlow) -> Iterator[Change]:
    if before.sources != after.sources:
        yield Change(
            after.name,
            f"read {_list(before.sources)} and reads {_list(after.sources)}",
            Effect.CHECKPOINT,
            "a checkpoint has the offsets of its sources by their position in the query",
        )
    if before.state != after.state:
        yield Change(
            after.name,
            f"kept {_states(before.state)} and keeps {_states(after.state)}",
            Effect.CHECKPOINT,
            "the state in its checkpoint belongs to the old operators",
        )
    elif after.state and _types_differ(before.schema, after.schema):
        yield Change(
            after.name,
            f"returned {before.schema} and returns {after.schema}",
            Effect.CHECKPOINT,
            "the state in its checkpoint has the old types",
        )
    if after.state and before.shuffle_partitions != after.shuffle_partitions:
        yield Change(
            after.name,
            f"{_SHUFFLE} was {before.shuffle_partitions} and is {after.shuffle_partitions}",
            why="it counts from the next new checkpoint; until then Spark keeps the number of the first run",
        )
    if before.output_mode != after.output_mode:
        yield Change(after.name, f"output mode was {before.output_mode} and is {after.output_mode}")


def _types_differ(before: str, after: str) -> bool:
    old, new = dict(columns_of(before)), dict(columns_of(after))
    return any(old[name] != new[name] for name in old.keys() & new.keys())


def _states(state: tuple[str, ...]) -> str:
    return "; ".join(state) if state else "no state"


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "nothing"


def columns_of(schema: str) -> Iterator[tuple[str, str]]:
    """Yield the names and types of a schema's columns; types without NOT NULL and comments."""
    for column in _split(schema):
        name, _, kind = column.partition("` ") if column.startswith("`") else column.partition(" ")
        yield name.strip("`"), kind.partition(" COMMENT ")[0].removesuffix(" NOT NULL")


def _split(schema: str) -> Iterator[str]:
    """Split the DDL of a schema at commas between columns."""
    depth, quote, column = 0, "", ""
    for character in schema:
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'":
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        if character == "," and depth == 0 and not quote:
            yield column.strip()
            column = ""
        else:
            column += character
    if column.strip():
        yield column.strip()
