"""Debezium's envelopes: `debezium()` reads changes as rows, `apply_debezium()` applies them to a table.

An envelope is `{"before": ROW, "after": ROW, "op": ..., "source": {...}}`, in JSON also within
`{"schema": ..., "payload": ENVELOPE}`. Tombstones, which Debezium writes behind deletes for compaction, are left out.
A record that is no change of a row is a dead letter. Must not keep state. Start at `debezium`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.light_classes import dataclass
from kafkaraw.pipelines.evaluation import Evaluation, current_evaluation, declared_columns
from kafkaraw.pipelines.expectations import active_registry, definition_location
from kafkaraw.pipelines.judging import observed
from kafkaraw.pipelines.letters import Reason, bad_rows
from kafkaraw.pipelines.model import (
    RECORD_COLUMN,
    TOMBSTONE_COLUMN,
    Changes,
    Dataset,
    DatasetKind,
    FlowDefinition,
    FlowKind,
    Location,
    PipelineError,
    TopicSource,
)
from kafkaraw.pipelines.subjects import add_bad_rows
from kafkaraw.pipelines.topics import RESERVED, schema_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

OP, SEQUENCE, BEFORE = "_op", "_sequence", "_before"
_OWN: Final = (OP, SEQUENCE, BEFORE)
_OF_ROWS: Final = ("c", "u", "r")
_DELETE: Final = "d"
_VALUES: Final = ("json", "avro", "protobuf", "json-schema")
_CHANGES_OF: Final = "changes_of_"


def debezium(
    topic: str,
    *,
    schema: str | StructType | None = None,
    value: str = "json",
    starting: str | Mapping[str, object] = "earliest",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the changes of a table, from a topic that Debezium writes, as a stream.

    The columns are `_op` ("c", "u", "r" or "d"), `_sequence` (orders the changes of a row: Debezium's `source.lsn` if
    there is one, then the record's offset), the columns of the row (of `after`, of `before` for deletes), `_before`,
    and those that `topic()` adds.

    Args:
        topic: name of the topic, of one table.
        schema: columns of the table's rows for JSON without a registry.
        value: format of values: "json", "avro", "protobuf" or "json-schema".
        starting: as for `topic()`.
        options: as for `topic()`.

    Raises:
        PipelineError: it is called outside of the function of a dataset, or an argument is wrong.
    """
    location = definition_location()
    source = _checked(topic, schema_text(schema), value, location)
    envelope = None if source.schema is None else _envelope_ddl(source.schema, topic, location)
    start = starting if isinstance(starting, str) else json.dumps(starting)
    read = TopicSource(topic, value, envelope, "bytes", start, dict(options or {}), location)
    evaluation = current_evaluation()
    return _changes(evaluation.read_topic(read, evaluation), read, evaluation)


def apply_debezium(
    target: str,
    topic: str,
    keys: Sequence[str],
    *,
    schema: str | StructType | None = None,
    value: str = "json",
    scd_type: int = 1,
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> None:
    """Define a table with the rows of another one, from the topic of its changes.

    The same as a view of `debezium(topic)`, `dp.create_streaming_table(target)` and a `dp.create_auto_cdc_flow` between
    them. The view has the name `changes_of_TARGET`.

    Args:
        target: name of the table.
        topic: name of the topic, with Debezium's envelopes.
        keys: columns of the primary key.
        schema: as for `debezium`.
        value: as for `debezium`.
        scd_type: 1 for the rows as they are, 2 for their history.
        options: as for `topic()`.
        comment: of the table.

    Raises:
        PipelineError: an argument is wrong, or no pipeline is being loaded.
    """
    location = definition_location()
    registry = active_registry()
    if not hasattr(registry, "add_changes"):
        raise PipelineError(
            f"apply_debezium({target!r}): tables of changes are defined while `kafkaraw pipelines` loads the files of "
            "a pipeline; Spark's own command does not know them",
            location=location,
        )
    _checked(topic, schema_text(schema), value, location)
    if isinstance(keys, str) or not keys:
        raise PipelineError(
            f'apply_debezium({target!r}): keys={keys!r}: give a list of columns, such as keys=["id"]', location=location
        )
    if scd_type not in (1, 2):
        raise PipelineError(f"apply_debezium({target!r}): scd_type={scd_type!r}: must be 1 or 2", location=location)
    view = f"{_CHANGES_OF}{target.replace('.', '_')}"

    def changes() -> DataFrame:
        return debezium(topic, schema=schema, value=value, options=options)

    registry.add_dataset(Dataset(view, DatasetKind.TEMPORARY_VIEW, location))
    registry.add_flow(FlowDefinition(view, view, FlowKind.APPEND, location, changes))
    registry.add_dataset(Dataset(target, DatasetKind.STREAMING_TABLE, location, comment=comment))
    described = Changes(
        view,
        tuple(keys),
        SEQUENCE,
        f"{OP} = '{_DELETE}'",
        except_columns=(*_OWN, *RESERVED),
        scd_type=scd_type,
    )
    registry.add_changes(target, target, described, location)


def _checked(topic: str, schema: str | None, value: str, location: Location) -> TopicSource:
    if value not in _VALUES:
        raise PipelineError(
            f"topic {topic!r}: value={value!r}: Debezium's envelopes are {', '.join(_VALUES)}", location=location
        )
    if (value == "json") != (schema is not None):
        remedy = (
            'value="json" needs the columns of the rows: schema="id LONG, name STRING"'
            if schema is None
            else f"value={value!r} takes no schema: that of the registry counts"
        )
        raise PipelineError(f"topic {topic!r}: {remedy}", location=location)
    return TopicSource(topic, value, schema, location=location)


def _envelope_ddl(schema: str, topic: str, location: Location) -> str:
    """Return the schema of JSON envelopes, given that of the rows.

    A `before` may have the key's columns only, so its columns may be null.
    """
    from pyspark.sql.types import StructField, StructType

    row = declared_columns(schema, f"topic {topic!r}: schema={schema!r}", location=location)
    taken = set(_OWN) & set(row.names)
    if taken:
        raise PipelineError(
            f"topic {topic!r}: the rows have the column {min(taken)!r}, a name that debezium() uses itself",
            location=location,
        )
    before = StructType([StructField(field.name, field.dataType) for field in row.fields])
    source = StructType().add("lsn", "long")
    envelope = StructType().add("before", before).add("after", row).add("op", "string").add("source", source)
    return str(StructType([*envelope.fields, StructField("payload", envelope)]).toDDL())


@dataclass(frozen=True, slots=True)
class _Envelope:
    """The parts of an envelope, as columns."""

    before: Column
    after: Column
    op: Column
    lsn: Column


def _changes(rows: DataFrame, source: TopicSource, evaluation: Evaluation) -> DataFrame:
    """Return the changes, and register the records that are none."""
    from pyspark.sql import functions as F

    envelope, names = _parts(rows, source)
    op = envelope.op
    known = (op.isin(*_OF_ROWS) & envelope.after.isNotNull()) | ((op == _DELETE) & envelope.before.isNotNull())
    bad = ~F.col(TOMBSTONE_COLUMN) & ~F.coalesce(known, F.lit(False))
    flagged = rows.select("*", bad.alias("_bad"))
    said = F.concat(
        F.lit("not a change of a row: op is "),
        F.coalesce(op, F.lit("null")),
        F.when(envelope.after.isNull() & envelope.before.isNull(), F.lit(", before and after are null"))
        .when(envelope.after.isNull(), F.lit(", after is null"))
        .when(envelope.before.isNull(), F.lit(", before is null"))
        .otherwise(F.lit("")),
    )
    add_bad_rows(evaluation, lambda: bad_rows(flagged.where("_bad"), Reason.DECODE, F.lit(""), said))
    counted = observed(flagged, "function", evaluation, undecodable="count_if(_bad)")
    is_delete = op == _DELETE
    return counted.where(~F.col("_bad") & ~F.col(TOMBSTONE_COLUMN)).select(
        op.alias(OP),
        F.struct(envelope.lsn.alias("lsn"), F.col(RECORD_COLUMN).getField("offset").alias("offset")).alias(SEQUENCE),
        *(
            F.when(is_delete, envelope.before.getField(name)).otherwise(envelope.after.getField(name)).alias(name)
            for name in names
        ),
        envelope.before.alias(BEFORE),
        *RESERVED,
    )


def _parts(rows: DataFrame, source: TopicSource) -> tuple[_Envelope, Sequence[str]]:
    """Return the parts of the envelopes, and the names of the row's columns."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    fields = {field.name: field.dataType for field in rows.schema.fields}
    row = fields.get("after")
    if not isinstance(row, StructType) or "op" not in fields or "before" not in fields:
        raise PipelineError(
            f"topic {source.name!r}: the values have the columns {', '.join(set(fields) - set(RESERVED))}, not before, "
            "after and op: they are no envelopes of Debezium. Read changes without envelopes with topic()",
            location=source.location,
        )
    in_payload = "payload" in fields and source.value == "json"

    def field(name: str) -> Column:
        direct = F.col(name)
        return F.coalesce(F.col("payload").getField(name), direct) if in_payload else direct

    kind = fields.get("source")
    has_lsn = isinstance(kind, StructType) and "lsn" in kind.names
    lsn = field("source").getField("lsn").cast("long") if has_lsn else F.lit(None).cast("long")
    return _Envelope(field("before"), field("after"), field("op"), lsn), row.names
