"""The definition of a pipeline as data: datasets, flows, expectations, topics, settings, and the errors of definitions.

Every other module of this package reads these types. Must not import pyspark at run time, nor any other module of this
package. Start at `Pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError
from kafkaraw.light_classes import dataclass, field

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# Columns that `topic()` adds to a record's own. A table or topic never has the last two.
KEY_COLUMN: Final = "_key"
TIMESTAMP_COLUMN: Final = "_timestamp"
TOMBSTONE_COLUMN: Final = "_tombstone"
RECORD_COLUMN: Final = "_record"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a definition is.

    Args:
        file: path relative to the pipeline's folder.
        line: 0 for the whole file.
    """

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class PipelineError(ConfigError):
    """The definition of a pipeline is wrong; the text names file, line, dataset, and what to change.

    Args:
        what: what is wrong, with the value, and the remedy.
        location: of the definition.
        dataset: its name.
    """

    def __init__(self, what: str, *, location: Location | None = None, dataset: str | None = None) -> None:
        self.what = what
        self.location = location
        self.dataset = dataset
        place = "" if location is None else f"{location}: "
        name = "" if dataset is None else f"dataset {dataset!r}: "
        super().__init__(f"{place}{name}{what}")


class PipelineErrors(PipelineError):
    """Several definitions of a pipeline are wrong: one line for each.

    Args:
        pipeline: its name.
        errors: at least two, in the order in which they are shown.
    """

    def __init__(self, pipeline: str, errors: Iterable[PipelineError]) -> None:
        self.errors: tuple[PipelineError, ...] = tuple(errors)
        lines = "\n".join(f"  {error}" for error in self.errors)
        super().__init__(f"pipeline {pipeline!r} has {len(self.errors)} problems:\n{lines}")


def raise_errors(pipeline: str, errors: Iterable[PipelineError]) -> None:
    """Raise the only error as it is, several as one; do nothing without errors.

    Raises:
        PipelineError: there are errors.
    """
    found = tuple(errors)
    if len(found) == 1:
        raise found[0]
    if found:
        raise PipelineErrors(pipeline, found)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ", did you mean 'x'?" for the known name that is most similar, or nothing."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


class Action(Enum):
    """What happens to a row for which an expectation is false or NULL. It is counted in each case."""

    WARN = "warn"  # expect: the row stays
    DROP = "drop"  # expect_or_drop
    FAIL = "fail"  # expect_or_fail: the flow fails
    QUARANTINE = "quarantine"  # expect_or_quarantine: the row becomes a dead letter


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition on the rows of a dataset.

    Args:
        name: shown in metrics, errors and dead letters; unique in its dataset.
        condition: a boolean SQL expression, or a Column; for `unique_by`, not used.
        action: what happens to rows that do not meet it.
        unique_by: the columns that no two rows may have in common; None for a condition.
        location: of the decorator.
    """

    name: str
    condition: str | Column
    action: Action
    unique_by: tuple[str, ...] | None = None
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class TopicSource:
    """The arguments of `topic()`, which reads a topic.

    Args:
        name: of the topic.
        value: format of values: "bytes", "string", "json", "avro", "protobuf" or "json-schema".
        schema: of values as Spark DDL; None for formats whose schema is in the registry.
        key: format of keys.
        starting: where a flow without a checkpoint starts: "earliest", "latest", or JSON of offsets.
        options: further options of format "kafkaraw".
        location: of the call.
    """

    name: str
    value: str = "bytes"
    schema: str | None = None
    key: str = "string"
    starting: str = "earliest"
    options: Mapping[str, str] = field(default_factory=dict)
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class TopicTarget:
    """The arguments of `to_topic()` and `create_topic()`: a topic that flows write to.

    Args:
        name: of the topic.
        key: the column that is the key, or several; None for records without a key.
        value: format of values, as in `TopicSource`.
        output_mode: "append", "update" or "complete".
        partitions: number of partitions if the topic has to be created; None for the broker's default.
        config: configuration of a topic that has to be created; checked if it exists.
        subject: of the schema in the registry; None for the topic's default name.
        options: further options of format "kafkaraw".
    """

    name: str
    key: str | tuple[str, ...] | None = None
    value: str = "json"
    output_mode: str = "append"
    partitions: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    subject: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class DatasetKind(Enum):
    """What a dataset is."""

    STREAMING_TABLE = "streaming table"
    MATERIALIZED_VIEW = "materialized view"
    TEMPORARY_VIEW = "temporary view"
    SINK = "sink"
    TOPIC = "topic"

    @property
    def is_table(self) -> bool:
        """Whether it is stored in the pipeline's storage and known to the catalog."""
        return self in (DatasetKind.STREAMING_TABLE, DatasetKind.MATERIALIZED_VIEW)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Something that the pipeline's functions can read or write by name.

    Args:
        name: as in the definition; may have several parts, `db.name`.
        kind: what it is.
        location: of the definition.
        comment: None if there is none.
        schema: declared, as DDL; None if it is that of the flows.
        format: of a table's files (None for parquet) or of a sink.
        partition_columns: of a table.
        cluster_columns: of a table.
        properties: of a table.
        options: of a sink.
        expectations: of all functions that produce its rows.
        topic: for TOPIC only.
        function: for TEMPORARY_VIEW only; the functions of other datasets are those of their flows.
    """

    name: str
    kind: DatasetKind
    location: Location
    comment: str | None = None
    schema: str | None = None
    format: str | None = None
    partition_columns: tuple[str, ...] = ()
    cluster_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()
    topic: TopicTarget | None = None
    function: Callable[[], DataFrame] | None = None


class FlowKind(Enum):
    """How a flow's rows get into its target."""

    APPEND = "append"  # a streaming query; rows are added (or updated, as the flow's output mode says)
    ONCE = "once"  # a batch query that runs once in the life of the flow's generation
    COMPLETE = "complete"  # a batch query; each refresh replaces the target, a materialized view
    CHANGES = "changes"  # a streaming query; rows are changes that are applied to the target by key
    DEAD_LETTERS = "dead letters"  # a streaming query; rows are records of the dead-letter topic


@dataclass(frozen=True, slots=True)
class Changes:
    """The arguments of Spark's auto CDC flows. Texts are SQL expressions.

    Args:
        source: name of the dataset with the changes, which is read as a stream.
        keys: columns that identify a row.
        sequence_by: orders the changes of a key.
        apply_as_deletes: true for changes that delete the row; None if there are none.
        columns: of the target; None for all.
        except_columns: columns of the source that the target does not have.
        scd_type: 1 to keep the last row of each key, 2 to keep the history.
        track_history_columns: SCD 2: columns whose change opens a new row of history; None for all.
        track_history_except_columns: SCD 2: columns whose change opens none.
    """

    source: str
    keys: tuple[str, ...]
    sequence_by: str | Column
    apply_as_deletes: str | Column | None = None
    columns: tuple[str, ...] | None = None
    except_columns: tuple[str, ...] = ()
    scd_type: int = 1
    track_history_columns: tuple[str, ...] | None = None
    track_history_except_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """One query: a function whose rows go into a target.

    Args:
        name: unique in the pipeline.
        target: name of the dataset it writes to; for DEAD_LETTERS, the dead-letter topic.
        kind: how the rows get there.
        location: of the definition.
        function: returns the rows; for CHANGES it reads the source.
        spark_conf: Spark settings of this flow.
        changes: for CHANGES only.
        output_mode: of a streaming query: "append", "update" or "complete".
        expectations: of the function.
    """

    name: str
    target: str
    kind: FlowKind
    location: Location
    function: Callable[[], DataFrame]
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    changes: Changes | None = None
    output_mode: str = "append"
    expectations: tuple[Expectation, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """The `configuration` of a specification, parsed.

    Args:
        kafka: `kafkaraw.kafka.*`, by the options of format "kafkaraw": `kafka.bootstrap.servers`.
        registry: `kafkaraw.schema.registry.*`, by the options of format "kafkaraw": `schema.registry.url`.
        dead_letter_topic: name of the topic.
        replay_topic: name of the topic.
        trigger_interval: of streaming queries in continuous runs, as in Spark: "1 second".
        group_prefix: of the groups that offsets are committed to; a flow's group is PREFIX.FLOW.
        materialized_view_interval: time between refreshes in continuous runs, as in Spark.
        spark: all entries that are no settings of kafkaraw.
    """

    dead_letter_topic: str
    replay_topic: str
    group_prefix: str
    kafka: Mapping[str, str] = field(default_factory=dict)
    registry: Mapping[str, str] = field(default_factory=dict)
    trigger_interval: str = "1 second"
    materialized_view_interval: str = "1 minute"
    spark: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline: what its files define.

    Args:
        name: of the specification.
        root: folder of the specification; relative paths in definitions are relative to it.
        storage: root of the pipeline's storage: an absolute path or a URI.
        datasets: in the order of their definition.
        flows: all that a run starts, except those for dead letters; in the order of their definition.
        settings: the specification's configuration.
        catalog: of tables with less than three parts in their names; None for the session's.
        database: of tables with one part in their names; None for the session's.
    """

    name: str
    root: Path
    storage: str
    datasets: tuple[Dataset, ...]
    flows: tuple[FlowDefinition, ...]
    settings: Settings
    catalog: str | None = None
    database: str | None = None

    def find(self, name: str) -> Dataset | None:
        """Return the dataset that a name in a query means, or None. Case and default qualifiers do not count."""
        wanted = self.canonical_name(name)
        return next((each for each in self.datasets if self.canonical_name(each.name) == wanted), None)

    def dataset(self, name: str) -> Dataset:
        """Return a dataset.

        Raises:
            PipelineError: there is none of that name.
        """
        found = self.find(name)
        if found is None:
            known = [each.name for each in self.datasets]
            hint = did_you_mean(name, known) or f": it has {', '.join(known) or 'none'}"
            raise PipelineError(f"pipeline {self.name!r} has no dataset {name!r}{hint}")
        return found

    def flow(self, name: str) -> FlowDefinition:
        """Return a flow.

        Raises:
            PipelineError: there is none of that name.
        """
        found = next((each for each in self.flows if each.name.lower() == name.lower()), None)
        if found is None:
            known = [each.name for each in self.flows]
            hint = did_you_mean(name, known) or f": it has {', '.join(known) or 'none'}"
            raise PipelineError(f"pipeline {self.name!r} has no flow {name!r}{hint}")
        return found

    def flows_into(self, dataset: str) -> tuple[FlowDefinition, ...]:
        """Return the flows that write to a dataset."""
        wanted = self.canonical_name(dataset)
        return tuple(each for each in self.flows if self.canonical_name(each.target) == wanted)

    def canonical_name(self, name: str) -> str:
        """Return a name in lower case, without backticks and without the pipeline's own catalog and database."""
        parts = name_parts(name)
        if len(parts) == 3 and parts[0] == (self.catalog or "spark_catalog").lower():
            parts = parts[1:]
        if len(parts) == 2 and parts[0] == (self.database or "default").lower():
            parts = parts[1:]
        return ".".join(parts)


def name_parts(name: str) -> tuple[str, ...]:
    """Split a name at its dots, except within backticks, and make it lower case."""
    parts, part, quoted = list[str](), "", False
    for character in name.lower():
        if character == "`":
            quoted = not quoted
        elif character == "." and not quoted:
            parts.append(part)
            part = ""
        else:
            part += character
    return (*parts, part)
