"""Tables that changes are applied to by key: Spark's auto CDC flows, SCD types 1 and 2.

The table is a `SnapshotTable` of two folders. The rows that readers see are one. The other has what later changes need,
since changes may come in any order: for type 1, keys that were deleted; for type 2, all changes so far. Each
micro-batch makes a new version, which says which micro-batch it has: a repetition changes nothing. The cost of a
micro-batch grows with the table. Must not know queries. Start at `ChangedTable.apply`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kafkaraw.pipelines.model import RECORD_COLUMN, TOMBSTONE_COLUMN, Changes
from kafkaraw.pipelines.snapshots import SnapshotTable, Version
from kafkaraw.pipelines.tables import BatchId, Metrics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

START_AT: Final = "__START_AT"
END_AT: Final = "__END_AT"
"""SCD type 2: the sequence of the change that made a row, and of the one that ended it; null if it is current."""

_VISIBLE: Final = "__visible"
LIVE: Final = f"{_VISIBLE}=true"
"""The folder of a version with the rows that readers see."""
_SEQUENCE: Final = "__sequence"
_DELETED: Final = "__deleted"
_NEW: Final = "__new"
_RUN: Final = "__run"
_NEXT: Final = "__next"


def changed_columns(changes: Changes, source: Iterable[str]) -> list[str]:
    """Return the names of the columns that a table has of its source, in the order of the source.

    The keys are always among them, even if `column_list` or `except_column_list` leaves them out: rows are found by
    them. The record as it was read is none, but the sequence and the condition of deletes may use it.
    """
    keys = {name.lower() for name in changes.keys}
    wanted = None if changes.columns is None else {name.lower() for name in changes.columns}
    left_out = {name.lower() for name in changes.except_columns} | {RECORD_COLUMN, TOMBSTONE_COLUMN}

    def is_chosen(name: str) -> bool:
        return name in keys or ((wanted is None or name in wanted) and name not in left_out)

    return [each for each in source if is_chosen(each.lower())]


def changed_schema(changes: Changes, frame: DataFrame) -> StructType:
    """Return the columns that readers see, given the rows of the source."""
    schema = _events(changes, frame)[0].schema
    return _visible_schema(changes, schema)


def _visible_schema(changes: Changes, events: StructType) -> StructType:
    from pyspark.sql.types import StructField, StructType

    hidden = (_SEQUENCE, _DELETED, _NEW)
    columns = [StructField(each.name, each.dataType, True) for each in events if each.name not in hidden]
    if changes.scd_type == 2:
        sequence = events[_SEQUENCE].dataType
        columns += [StructField(START_AT, sequence, True), StructField(END_AT, sequence, True)]
    return StructType(columns)


def _events(changes: Changes, frame: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return the changes as rows of the table, with sequence and whether they delete; and the names of the keys."""
    from pyspark.sql import functions as F

    names = changed_columns(changes, frame.columns)
    keys = [each for each in names if each.lower() in {key.lower() for key in changes.keys}]
    sequence = _expression(changes.sequence_by)
    given = F.when(sequence.isNotNull(), sequence).otherwise(
        F.raise_error(F.lit("sequence_by is NULL: changes cannot be ordered; leave such rows out before"))
    )
    deletes = F.lit(False) if changes.apply_as_deletes is None else _expression(changes.apply_as_deletes)
    columns = [F.col(f"`{name}`") for name in names]
    deleted = F.coalesce(deletes, F.lit(False)).alias(_DELETED)
    return frame.select(*columns, given.alias(_SEQUENCE), deleted, F.lit(True).alias(_NEW)), keys


def _expression(of: str | Column) -> Column:
    from pyspark.sql import functions as F

    return F.expr(of) if isinstance(of, str) else of


class ChangedTable:
    """One table.

    Args:
        table: where it is stored.
        changes: what is applied.
    """

    def __init__(self, table: SnapshotTable, changes: Changes) -> None:
        self._table = table
        self._changes = changes

    def apply(self, batch: DataFrame, batch_id: BatchId, metrics: Callable[[], Metrics]) -> Version:
        """Apply a micro-batch, unless an earlier attempt has.

        Args:
            batch: the changes.
            batch_id: what identifies them.
            metrics: called after the version is written; its result becomes part of the decision.

        Returns:
            the version that has them.
        """
        before = self._table.current()
        mark = [batch_id.generation, batch_id.number]
        if before is not None and list(before.origin.get(batch_id.flow, ())) == mark:
            batch.write.format("noop").mode("overwrite").save()
            return before
        events, keys = _events(self._changes, batch)
        known = events.schema
        spark = batch.sparkSession
        is_history = self._changes.scd_type == 2
        if is_history:
            batch.persist()  # it is read twice, and counts its rows each time that it is computed
        merge = self._history if is_history else self._current_rows
        frame = merge(spark, events, keys)
        origin = {**(before.origin if before is not None else {}), batch_id.flow: mark}
        try:
            return self._table.replace(
                frame,
                schema=_visible_schema(self._changes, known),
                origin=origin,
                partition_columns=(_VISIBLE, *self._table.partition_columns),
                measure=lambda _: (None, metrics()),
            )
        finally:
            if is_history:
                batch.unpersist()

    def _current_rows(self, spark: SparkSession, events: DataFrame, keys: list[str]) -> DataFrame:
        """Return the last change of each key: visible unless it deletes."""
        from pyspark.sql import functions as F

        stored = self._stored(spark, events.drop(_DELETED, _NEW))
        if stored is not None:
            stored = stored.withColumn(_DELETED, ~F.col(_VISIBLE)).drop(_VISIBLE).withColumn(_NEW, F.lit(False))
            events = stored.unionByName(events, allowMissingColumns=True)
        return _last(events, keys).withColumn(_VISIBLE, ~F.col(_DELETED)).drop(_DELETED, _NEW)

    def _history(self, spark: SparkSession, events: DataFrame, keys: list[str]) -> DataFrame:
        """Return all changes, which are not visible, and the rows that they make."""
        from pyspark.sql import functions as F

        stored = self._stored(spark, events.drop(_NEW), within=LIVE.replace("true", "false"))
        if stored is not None:
            events = stored.withColumn(_NEW, F.lit(False)).unionByName(events, allowMissingColumns=True)
        events = _last(events, [*keys, _SEQUENCE]).drop(_NEW)
        rows = self._rows_of_history(events, keys)
        kept = events.withColumn(_VISIBLE, F.lit(False))
        return kept.unionByName(rows.withColumn(_VISIBLE, F.lit(True)), allowMissingColumns=True)

    def _rows_of_history(self, events: DataFrame, keys: list[str]) -> DataFrame:
        """Return one row for each run of changes of a key that have the same values in the tracked columns."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        names = [name for name in events.columns if name not in (_SEQUENCE, _DELETED)]
        in_order = Window.partitionBy(*_columns(keys)).orderBy(_SEQUENCE)
        tracked = F.struct(F.col(_DELETED), *_columns(self._tracked(names, keys)))
        begins = F.lag(tracked).over(in_order)
        is_new = (F.row_number().over(in_order) == 1) | ~tracked.eqNullSafe(begins)
        numbered = events.withColumn(_NEXT, F.lead(_SEQUENCE).over(in_order)).withColumn(_RUN, is_new.cast("int"))
        numbered = numbered.withColumn(_RUN, F.sum(_RUN).over(in_order))
        last = F.max_by(F.struct(*_columns(names), F.col(_NEXT)), F.col(_SEQUENCE)).alias("last")
        runs = numbered.where(~F.col(_DELETED)).groupBy(*_columns(keys), _RUN)
        found = runs.agg(F.min(_SEQUENCE).alias(START_AT), last)
        return found.select(
            *(F.col(f"last.`{name}`").alias(name) for name in names),
            START_AT,
            F.col(f"last.{_NEXT}").alias(END_AT),
        )

    def _tracked(self, names: Iterable[str], keys: Iterable[str]) -> list[str]:
        """Return the columns whose change begins a new row of history."""
        chosen = self._changes.track_history_columns
        if chosen is not None:
            wanted = {each.lower() for each in chosen}
            return [name for name in names if name.lower() in wanted]
        ignored = {each.lower() for each in self._changes.track_history_except_columns} | {
            each.lower() for each in keys
        }
        return [name for name in names if name.lower() not in ignored]

    def _stored(self, spark: SparkSession, like: DataFrame, *, within: str = "") -> DataFrame | None:
        """Return what the current version has; None if there is none. New columns are null, old ones stay."""
        from pyspark.sql.types import BooleanType, StructField, StructType

        version = self._table.current()
        if version is None:
            return None
        fields = {each.name: StructField(each.name, each.dataType, True) for each in like.schema}
        for each in StructType.fromJson(json.loads(version.schema)):
            if each.name not in (START_AT, END_AT):
                fields.setdefault(each.name, each)
        if not within:
            fields[_VISIBLE] = StructField(_VISIBLE, BooleanType())
        return self._table.read(spark, StructType(list(fields.values())), within=within)


def _last(events: DataFrame, keys: list[str]) -> DataFrame:
    """Return the last event of each key; of two with the same sequence, a new one."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy(*_columns(keys)).orderBy(F.col(_SEQUENCE).desc(), F.col(_NEW).desc())
    return events.withColumn(_RUN, F.row_number().over(order)).where(F.col(_RUN) == 1).drop(_RUN)


def _columns(names: Iterable[str]) -> list[Column]:
    from pyspark.sql import functions as F

    return [F.col(f"`{name}`") for name in names]
