"""Upserts and deletes by key: a micro-batch merged into a Delta or Iceberg table, exactly once.

Theory of operation. Executors reduce the micro-batch to the last row of each key, and the driver passes these rows to
deltalake's MERGE, or to `iceberg_merges`; both commit the changes and the number of the micro-batch in one step. A
MERGE reads the table, so it conflicts with every commit that changes the files which it has read; then it is done
again, with the newest version.

The driver holds the rows of a micro-batch in memory: `maxOffsetsPerTrigger` bounds them. Start at `table_merger`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkaraw.errors import ConfigError
from kafkaraw.spark.errors import TableError, TableSchemaError, without_traceback
from kafkaraw.spark.foreach_batch import check_name, property_of, writer_id
from kafkaraw.spark.micro_batches import RUN_ID
from kafkaraw.spark.options.lake import parse_delta, parse_iceberg

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kafkaraw.spark.lake.batches import BatchId, CommittedBatch
    from kafkaraw.spark.lake.layout import LakeTable
    from kafkaraw.spark.options.lake import LakeOptions

DELTA: Final = "kafkaraw.delta"
_PARSERS: Final = {DELTA: parse_delta, "kafkaraw.iceberg": parse_iceberg}
_DELETED: Final = "__kafkaraw_deleted"
_PLACE: Final = "__kafkaraw_place"


def table_merger(  # one for each part of a MERGE
    options: Mapping[str, str],
    *,
    keys: Sequence[str],
    order_by: str | None = None,
    deleted: str | None = None,
    leave_out: Sequence[str] = (),
    name: str = "",
    format: str = DELTA,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that merges each micro-batch into a lake table by key, exactly once.

        query = changes.writeStream.foreachBatch(table_merger(
            {"path": "lake/status"}, keys=["flight"], order_by="offset", deleted="status IS NULL")).start()

    A row updates the row of the table that has its key, or is inserted. A new table has the columns of the rows.

    Args:
        options: options of the format.
        keys: columns that identify a row; a row without one of them is refused.
        order_by: SQL expression, such as `offset`: of the rows of a key in one micro-batch, the one with the largest
            value counts. Without it, a micro-batch with several rows of a key is refused.
        deleted: SQL condition, such as `value IS NULL`: the row deletes the row of its key.
        leave_out: columns of the rows that the table does not get; `order_by` and `deleted` may use them.
        name: distinguishes several writers within one query; letters, digits and `._-`. It must stay the same when the
            query is restarted.
        format: "kafkaraw.delta" or "kafkaraw.iceberg".

    Raises:
        ConfigError: an argument or option is wrong. The function raises `TableError` if the table cannot be changed,
            `TableSchemaError` if rows do not fit, `ChangedBatchError` if the table has the micro-batch with another
            number of rows, and `UsageError` if it is not called by `foreachBatch`.
    """
    if format not in _PARSERS:
        raise ConfigError(f"format={format!r}: table_merger writes {' and '.join(_PARSERS)}")
    checked = _PARSERS[format](options)
    check_name(name)
    if not keys:
        raise ConfigError("keys=[]: name at least one column that identifies a row")
    kept = set(keys) & set(leave_out)
    if kept:
        raise ConfigError(f"leave_out has {', '.join(sorted(kept))}, which keys have, too: the table needs its keys")

    @without_traceback()
    def merge(batch: DataFrame, batch_id: int) -> None:
        from kafkaraw.spark.lake.batches import BatchId

        unknown = [each for each in (*keys, *leave_out) if each not in batch.columns]
        if unknown:
            raise ConfigError(f"there is no column {', '.join(unknown)}; the rows have {', '.join(batch.columns)}")
        writer = writer_id(batch, name, batch_id, merge, needed_by="a MERGE")
        rows = _last_rows(batch, keys, order_by, deleted, leave_out).toArrow()
        number = BatchId(writer, batch_id, property_of(batch, RUN_ID) or writer)
        merge_rows(checked, rows, keys, number, is_ordered=order_by is not None, is_delta=format == DELTA)

    return merge


def _last_rows(
    batch: DataFrame, keys: Sequence[str], order_by: str | None, deleted: str | None, leave_out: Sequence[str]
) -> DataFrame:
    """Return the last row of each key, with a column that says whether it deletes."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    found = batch.withColumn(_DELETED, f.coalesce(f.expr(deleted or "false"), f.lit(False)))
    if order_by is not None:
        newest_first = Window.partitionBy(*(f.col(_quoted(key)) for key in keys)).orderBy(
            f.expr(order_by).desc_nulls_last()
        )
        found = found.withColumn(_PLACE, f.row_number().over(newest_first)).where(f.col(_PLACE) == 1).drop(_PLACE)
    return found.drop(*leave_out)


def merge_rows(
    options: LakeOptions,
    rows: pa.Table,
    keys: Sequence[str],
    batch: BatchId,
    *,
    is_ordered: bool = True,
    is_delta: bool = True,
) -> None:
    """Merge the rows of a micro-batch into a table, unless it has them.

    Args:
        options: name the table.
        rows: of each key, with the column that says whether a row deletes.
        keys: columns that identify a row.
        batch: which micro-batch.
        is_ordered: whether the rows of a key were reduced to one.
        is_delta: whether it is a Delta table, and no Iceberg table.

    Raises:
        TableError: as `table_merger` says.
    """
    from kafkaraw.spark.lake.commits import commit_once

    columns = rows.drop_columns([_DELETED])
    table, merge = _opened(options, columns.schema, keys, batch, is_delta=is_delta)
    _check_keys(table.name, rows, keys, is_ordered=is_ordered)

    def put(_last: CommittedBatch | None) -> None:
        if rows.num_rows:
            merge(_fitted(table, rows))

    commit_once(table, batch, rows.num_rows, options.on_changed_batch, put)


def _opened(
    options: LakeOptions, columns: pa.Schema, keys: Sequence[str], batch: BatchId, *, is_delta: bool
) -> tuple[LakeTable, Callable[[pa.Table], None]]:
    """Return the table, made or evolved for these columns, and what merges rows into it."""
    if is_delta:
        from kafkaraw.spark.lake.delta import prepare_delta

        delta, _ = prepare_delta(options, columns)
        return delta, lambda rows: delta.merge(rows, keys, columns.names, _DELETED, batch)
    from kafkaraw.spark.lake.iceberg import prepare_iceberg
    from kafkaraw.spark.lake.iceberg_merges import merge_into_iceberg

    iceberg, _ = prepare_iceberg(options, columns)
    return iceberg, lambda rows: merge_into_iceberg(iceberg, options, rows, keys, _DELETED, batch)


def _check_keys(table: str, rows: pa.Table, keys: Sequence[str], *, is_ordered: bool) -> None:
    """Check that each row has a key of its own: nulls equal nothing, and two rows of a key have no order."""
    for key in keys:
        nulls = rows.column(key).null_count
        if nulls:
            raise TableSchemaError(
                f"{table}: the key column {key!r} is null in {nulls} rows, which no row of the table can equal: leave "
                f"them out with where({key!r} IS NOT NULL), or choose other keys"
            )
    if not is_ordered:
        count = rows.group_by(list(keys)).aggregate([([], "count_all")]).num_rows
        if count != rows.num_rows:
            raise TableError(
                f"{table}: {rows.num_rows} rows of the micro-batch have {count} keys ({', '.join(keys)}): give "
                f"order_by, such as order_by='offset', to say which row of a key is the last one"
            )


def _fitted(table: LakeTable, rows: pa.Table) -> pa.Table:
    """Return the rows in the table's types."""
    import pyarrow as pa

    from kafkaraw.spark.lake.schemas import fitted

    schema = pa.schema([table.schema.field(name) for name in rows.column_names if name != _DELETED])
    schema = schema.append(rows.schema.field(_DELETED))
    batches = [fitted(each, schema, table.name) for each in rows.to_batches()]
    return pa.Table.from_batches(batches, schema)


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"
