"""MERGE for Iceberg tables: data files with keys of a micro-batch are written again, with the changes in them.

Theory of operation. The driver plans the files that may have the keys, by partitions and by statistics. It reads one
after the other, and leaves files without a key as they are. One commit replaces the others by new files with the rows
that stay, the updated ones and the inserted ones (copy on write), and has the number of the micro-batch; it requires
the snapshot that was planned. After a conflict, the new files are deleted, and the caller merges again.

Files with deletes of other engines are refused, since their rows are not read through pyiceberg's scan (see
`iceberg_files`). Start at `merge_into_iceberg`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, In, LessThanOrEqual
from pyiceberg.manifest import FileFormat

from kafkaraw.spark.errors import TableError
from kafkaraw.spark.lake.data_files import write_files
from kafkaraw.spark.lake.iceberg import IcebergLakeTable, IcebergLayout, told
from kafkaraw.spark.lake.iceberg_files import columns_by_id
from kafkaraw.spark.lake.schemas import fitted

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergDataFile
    from pyiceberg.table import FileScanTask

    from kafkaraw.spark.lake.batches import BatchId
    from kafkaraw.spark.options.lake import LakeOptions

_LISTED_MAX: Final = 200
"""The merge compares each key with the statistics of files, as pyiceberg does; of more keys, only the range."""
# Their arguments are positional at run time, and other ones to type checkers.
_in: Final = cast("Callable[..., BooleanExpression]", In)
_at_least: Final = cast("Callable[..., BooleanExpression]", GreaterThanOrEqual)
_at_most: Final = cast("Callable[..., BooleanExpression]", LessThanOrEqual)
_OLD: Final = "__kafkaraw_old"
_NEW: Final = "__kafkaraw_new"


def merge_into_iceberg(
    table: IcebergLakeTable, options: LakeOptions, rows: pa.Table, keys: Sequence[str], deleted: str, batch: BatchId
) -> None:
    """Update, insert and delete rows by key, and commit the number of the batch with them.

    Args:
        table: the table, as it was read just now.
        options: of the write.
        rows: one of each key, in the table's types.
        keys: columns that identify a row.
        deleted: the column that says whether a row deletes.
        batch: which batch.

    Raises:
        CommitConflictError: another writer was faster. Nothing was committed, as far as is known.
        TableError: the table has files that cannot be read here.
    """
    layout = table.layout()
    changes = _Changes(rows, keys, deleted, layout.schema)
    replaced: list[IcebergDataFile] = []

    def merged() -> Iterator[pa.RecordBatch]:
        for task in _planned(table, rows, keys):
            found = changes.applied_to(_rows_of(table, task, layout))
            if found is not None:
                replaced.append(task.file)
                yield from found.to_batches()
        yield from changes.inserted().to_batches()

    with told(options, f"merging {batch}"):
        written = write_files(merged(), layout, options, batch, 0)
    try:
        table.replace(replaced, written, layout, batch, rows.num_rows)
    except BaseException:
        layout.delete([file.path for file in written])
        raise


def _planned(table: IcebergLakeTable, rows: pa.Table, keys: Sequence[str]) -> list[FileScanTask]:
    """Return the files that may have one of the keys."""
    if table.inner.current_snapshot() is None:
        return []
    condition: BooleanExpression = AlwaysTrue()
    for key in keys:
        condition = And(condition, _may_have(key, rows.column(key)))
    return list(table.inner.scan(row_filter=condition).plan_files())


def _may_have(key: str, values: pa.ChunkedArray) -> BooleanExpression:
    """Return a condition that statistics of files are compared with; always true for types of which it is not made."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_large_string(kind) or pa.types.is_date(kind)):
        return AlwaysTrue()
    found = pc.unique(values)
    if len(found) <= _LISTED_MAX:
        return _in(key, [_literal(each) for each in found.to_pylist()])
    ends = pc.min_max(found).as_py()
    return And(_at_least(key, _literal(ends["min"])), _at_most(key, _literal(ends["max"])))


def _literal(value: object) -> str | int:
    if isinstance(value, datetime.date):
        return value.isoformat()
    assert isinstance(value, str | int)
    return value


def _rows_of(table: IcebergLakeTable, task: FileScanTask, layout: IcebergLayout) -> pa.Table:
    """Return the rows of a file in the columns of the table."""
    file, schema = task.file, layout.schema
    if task.delete_files or file.file_format != FileFormat.PARQUET:
        raise TableError(
            f"{table.name}: the data file {file.file_path} has deletes of another engine, or is no Parquet file, which "
            f"table_merger does not read. Rewrite the table's data files with that engine, and start the query again"
        )
    with table.inner.io.new_input(file.file_path).open() as source:
        parquet = pq.ParquetFile(source)
        places = columns_by_id(parquet.schema_arrow, schema)
        partitioned_by = {
            schema.get_field_index((layout.iceberg_schema.find_column_name(each.source_id) or "").split(".")[0])
            for each in layout.spec.fields
        }
        if places is None or not partitioned_by <= set(places.values()):
            raise TableError(
                f"{table.name}: the data file {file.file_path} lacks partition columns or Iceberg's field ids, or has "
                f"nested columns with other fields than the table. Rewrite the table's data files with the engine that "
                f"wrote it, and start the query again"
            )
        names = [schema.field(place).name for place in places.values()]
        batches = [
            fitted(pa.RecordBatch.from_arrays([each.column(n) for n in places], names=names), schema, table.name)
            for each in parquet.iter_batches()
        ]
    return pa.Table.from_batches(batches, schema)


class _Changes:
    """The rows of a micro-batch, and which of them were found in the table.

    Args:
        rows: one of each key.
        keys: columns that identify a row.
        deleted: the column that says whether a row deletes.
        schema: of the table.
    """

    def __init__(self, rows: pa.Table, keys: Sequence[str], deleted: str, schema: pa.Schema) -> None:
        self._rows = rows.drop_columns([deleted])
        self._deletes = rows.column(deleted).combine_chunks()
        self._keys = list(keys)
        self._schema = schema
        self._numbered = rows.select(self._keys).append_column(_NEW, pa.array(range(rows.num_rows), pa.int64()))
        self._matched: list[pa.ChunkedArray] = []

    def applied_to(self, found: pa.Table) -> pa.Table | None:
        """Return the rows of a file with the changes; None if it has none of the keys."""
        numbered = found.select(self._keys).append_column(_OLD, pa.array(range(found.num_rows), pa.int64()))
        pairs = numbered.join(self._numbered, self._keys, join_type="inner")
        if not pairs.num_rows:
            return None
        old, new = pairs.column(_OLD), pairs.column(_NEW)
        self._matched.append(new)
        kept = found.filter(pc.invert(pc.is_in(numbered.column(_OLD), value_set=old.combine_chunks())))
        stays = pc.invert(self._deletes.take(new.combine_chunks()))
        old, new = old.filter(stays), new.filter(stays)
        columns = [
            self._rows.column(name).take(new) if name in self._rows.column_names else found.column(name).take(old)
            for name in self._schema.names
        ]
        return pa.concat_tables([kept, pa.Table.from_arrays(columns, schema=self._schema)])

    def inserted(self) -> pa.Table:
        """Return the rows whose key no file has, apart from those that delete; the other columns are null."""
        matched = pa.concat_arrays([chunk for each in self._matched for chunk in each.chunks]) if self._matched else []
        is_new = pc.invert(pc.is_in(self._numbered.column(_NEW), value_set=pa.array(matched, pa.int64())))
        return self._rows.filter(pc.and_(is_new, pc.invert(self._deletes)))
