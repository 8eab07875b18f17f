"""Delta tables, over the library deltalake: what the driver reads and commits, and where tasks write files.

The number of a batch is an application transaction of Delta's log (action `txn`), under the id of the query, as in
Delta's own sink for Spark: a query that changes from one to the other goes on. Two more, with the suffixes in `_ROWS`
and `_RUN`, keep the count of its rows and the run. Delta refuses concurrent commits with the same application id.

Source: PROTOCOL.md of Delta Lake (transaction identifiers, per-file statistics, partition value serialization).
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from kafkaraw.errors import ConfigError, KafkaError
from kafkaraw.spark.errors import TableError, TableSchemaError, as_cause, in_one_line
from kafkaraw.spark.lake.batches import CommittedBatch
from kafkaraw.spark.lake.layout import Commit, CommitConflictError, DataFile, Layout, PartitionKey
from kafkaraw.spark.lake.schemas import check_partition_columns, compare, described, nullable, plain
from kafkaraw.spark.options.lake import options_of_store

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from kafkaraw.spark.lake.batches import BatchId
    from kafkaraw.spark.options.lake import LakeOptions

try:
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.fs import DeltaStorageHandler
    from deltalake.schema import Schema as DeltaSchema
    from deltalake.transaction import AddAction
except ImportError as _missing:
    raise ConfigError(
        f'format kafkaraw.delta needs the package deltalake ({_missing}): pip install "kafkaraw[delta]", on the driver '
        f"and on all executors"
    ) from _missing

_ROWS: Final = ".kafkaraw-rows"
_RUN: Final = ".kafkaraw-run"
_CHECKED_BY_WRITERS: Final = (
    "delta.constraints.",
    "delta.columnMapping.mode",
    "delta.rowTracking.",
    "delta.icebergCompat",
)
_FIELD_RULES: Final = ("delta.generationExpression", "delta.invariants", "delta.identity.start")
_STATISTICS_MAX: Final = 32
_TEXT_MAX: Final = 32
_FOLDER_MAX: Final = 120
_PART_BYTES: Final = 4 << 20


def open_delta(options: LakeOptions) -> DeltaLakeTable | None:
    """Open a table; None if there is none.

    Raises:
        TableError: it cannot be read.
    """
    with told(options, "opening the table"):
        try:
            return DeltaLakeTable(options, DeltaTable(options.table, storage_options=dict(options.settings)))
        except TableNotFoundError:
            return None


def prepare_delta(options: LakeOptions, rows: pa.Schema) -> tuple[DeltaLakeTable, DeltaLayout]:
    """Open a table for rows of this schema; create it, or add columns, if needed.

    Raises:
        TableSchemaError: the rows do not fit.
        TableError: it cannot be opened, created or changed.
    """
    table = open_delta(options)
    if table is None:
        _check_new(options, rows)
        with told(options, "creating the table"):
            made = DeltaTable.create(
                options.table,
                pa.schema([nullable(each) for each in rows]),
                mode="ignore",
                partition_by=list(options.partition_by),
                storage_options=dict(options.settings),
            )
            table = DeltaLakeTable(options, made)
    table.check_writable()
    table.evolve(rows)
    return table, table.layout()


def _check_new(options: LakeOptions, rows: pa.Schema) -> None:
    unknown = [name for name in options.partition_by if rows.get_field_index(name) < 0]
    if unknown:
        raise ConfigError(f"partitionBy names {', '.join(unknown)}; the rows have the columns {', '.join(rows.names)}")
    if len(options.partition_by) == len(rows.names):
        raise ConfigError("partitionBy names all columns; a data file needs at least one other column")
    for name in options.partition_by:
        kind = rows.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind):
            raise ConfigError(f"partitionBy names {name}, of type {described(kind)}: Delta partitions by simple types")


@contextlib.contextmanager
def told(options: LakeOptions, doing: str) -> Iterator[None]:
    """Name stage and table in errors of the library."""
    try:
        yield
    except (KafkaError, CommitConflictError, TableNotFoundError, CommitFailedError):
        raise
    except (DeltaError, OSError, pa.ArrowException, ValueError, RuntimeError) as error:
        raise TableError(
            f"Delta table {options.hidden}: {doing} failed: {in_one_line(error)}. Check the path, and for an object "
            f"store its address and the credentials, which may have expired: options "
            f"{options_of_store(options.table, is_delta=True)}"
        ) from as_cause(error)


class DeltaLakeTable:
    """A Delta table as the driver sees it.

    Args:
        options: of the write.
        table: the open table.
    """

    def __init__(self, options: LakeOptions, table: DeltaTable) -> None:
        self._options = options
        self.inner = table
        self.name: str = f"Delta table {options.hidden}"

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return pa.schema(self.inner.schema())

    @property
    def partition_columns(self) -> list[str]:
        """Its partition columns."""
        return list(self.inner.metadata().partition_columns)

    @property
    def has_rows(self) -> bool:
        """Whether it has a data file."""
        return bool(self.inner.file_uris())

    def refresh(self) -> None:
        """Read the newest version of its log."""
        with told(self._options, "reading the log"):
            self.inner.update_incremental()

    def check_writable(self) -> None:
        """Check that appending files is all that a writer of this table must do.

        Raises:
            TableError: the table has a feature that writers must carry out.
        """
        properties = self.inner.metadata().configuration
        rules = [name for name in properties if name.startswith(_CHECKED_BY_WRITERS) and properties[name] != "none"]
        schema = json.loads(self.inner.schema().to_json())
        rules += [
            f"{rule} of column {each['name']}"
            for each in schema["fields"]
            for rule in _FIELD_RULES
            if rule in each.get("metadata", {})
        ]
        if rules:
            raise TableError(
                f"{self.name}: it has {', '.join(rules)}, which format kafkaraw.delta does not carry out. Write to "
                f"another table, or remove the property"
            )

    def evolve(self, rows: pa.Schema) -> None:
        """Add the columns that the table lacks, if the options say so.

        Raises:
            TableSchemaError: the rows do not fit.
        """
        check_partition_columns(self.name, self.partition_columns, self._options.partition_by)
        missing = compare(self.name, self.schema, rows, merge_schema=self._options.merge_schema).missing
        if missing:
            added = DeltaSchema.from_arrow(pa.schema([nullable(each) for each in missing]))
            with told(self._options, f"adding the columns {', '.join(each.name for each in missing)}"):
                try:
                    self.inner.alter.add_columns(list(added.fields))
                except CommitFailedError:  # another writer has changed the columns
                    self.refresh()
                    if compare(self.name, self.schema, rows, merge_schema=True).missing:
                        raise TableError(
                            f"{self.name}: another writer changed its columns at the same time: start the query again"
                        ) from None
            self.refresh()

    def layout(self) -> DeltaLayout:
        """Return what tasks must know."""
        return DeltaLayout(
            self._options.table,
            self.name,
            self.schema,
            tuple(self.partition_columns),
            str(self.inner.metadata().id),
            dict(self._options.settings),
        )

    def last_batch(self, query_id: str) -> CommittedBatch | None:
        """Return the last batch of a query that the table has; None if there is none."""
        number, rows, run = (self.inner.transaction_version(query_id + suffix) for suffix in ("", _ROWS, _RUN))
        return None if number is None else CommittedBatch(number, rows, run)

    def check_takes(self, layout: Layout) -> None:
        """Check that files of this layout still fit; see `LakeTable`."""
        assert isinstance(layout, DeltaLayout)
        if str(self.inner.metadata().id) != layout.table_id:
            raise TableError(
                f"{self.name}: another writer replaced the table while the batch was written; nothing of it is in the "
                f"new table. Start the query again"
            )
        if tuple(self.partition_columns) != layout.partition_columns:
            raise TableSchemaError(
                f"{self.name}: another writer changed the partition columns from {list(layout.partition_columns)} to "
                f"{self.partition_columns} while the batch was written. Start the query again"
            )
        now = {each.name: each.type for each in self.schema}
        for each in layout.schema:
            if each.name not in now or plain(now[each.name]) != plain(each.type):
                has = described(now[each.name]) if each.name in now else "gone"
                raise TableSchemaError(
                    f"{self.name}: another writer changed column {each.name!r} while the batch was written: it was "
                    f"{described(each.type)}, and is {has}. Start the query again"
                )

    def commit(self, commit: Commit, layout: Layout) -> None:
        """Put files into the table, and the number of the batch with them; see `LakeTable`."""
        assert isinstance(layout, DeltaLayout)
        batch = commit.batch
        now_ms = int(time.time() * 1000)
        with told(self._options, f"committing {batch}"):
            try:
                self.inner.create_write_transaction(
                    [layout.action(file, now_ms) for file in commit.files],
                    mode="overwrite" if commit.overwrite else "append",
                    schema=self.inner.schema(),
                    partition_by=list(layout.partition_columns),
                    commit_properties=_properties(batch, commit.rows_count),
                )
            except CommitFailedError as error:
                raise CommitConflictError(str(error)) from error

    def merge(self, rows: pa.Table, keys: Sequence[str], columns: Sequence[str], deleted: str, batch: BatchId) -> None:
        """Update, insert and delete rows by key, and commit the number of the batch with them.

        Args:
            rows: one of each key.
            keys: columns that identify a row.
            columns: those of the rows that the table has.
            deleted: the column that says whether a row deletes.
            batch: which batch.

        Raises:
            CommitConflictError: another writer was faster. Nothing was committed, as far as is known.
        """
        values = {_quoted(each): f"source.{_quoted(each)}" for each in columns}
        with told(self._options, f"merging {batch}"):
            try:
                (
                    self.inner.merge(
                        rows,
                        " AND ".join(f"target.{_quoted(key)} = source.{_quoted(key)}" for key in keys),
                        source_alias="source",
                        target_alias="target",
                        streamed_exec=False,  # so that partitions and files without the keys are not read
                        commit_properties=_properties(batch, rows.num_rows),
                    )
                    .when_matched_delete(f"source.{_quoted(deleted)}")
                    .when_matched_update(values)
                    .when_not_matched_insert(values, f"NOT source.{_quoted(deleted)}")
                    .execute()
                )
            except CommitFailedError as error:
                raise CommitConflictError(str(error)) from error

    def file_ages_s(self) -> Mapping[str, float]:
        """Return the files in the table's folder, without those of its log, and seconds since they were written."""
        now = time.time()
        with told(self._options, "listing the files"):
            found = file_system(self._options.table, self._options.settings).get_file_info(
                fs.FileSelector("", recursive=True, allow_not_found=True)
            )
        return {
            each.path: now - each.mtime.timestamp()
            for each in found
            if each.type == fs.FileType.File and not each.path.startswith("_")
        }

    def referenced(self) -> set[str]:
        """Return the data files of the newest version."""
        actions = pa.table(self.inner.get_add_actions(flatten=False))
        return {unquote(path) for path in actions.column("path").to_pylist()}


def _properties(batch: BatchId, rows_count: int) -> CommitProperties:
    """Return what a commit says of its batch."""
    numbers = {"": batch.number}
    if batch.run_id:
        numbers |= {_ROWS: rows_count, _RUN: batch.run_number}
    return CommitProperties(
        app_transactions=[Transaction(batch.query_id + suffix, number) for suffix, number in numbers.items()],
        custom_metadata={"kafkaraw.query": batch.query_id, "kafkaraw.batch": str(batch.number)},
    )


def _quoted(column: str) -> str:
    """Return a column as DataFusion's SQL has it."""
    return '"' + column.replace('"', '""') + '"'


@dataclass(frozen=True)
class DeltaLayout:
    """Where the files of a Delta table go; see `Layout`.

    Attributes:
        uri: path or URL of the table.
        table: what it is called in messages.
        schema: its columns.
        partition_columns: those that are in names of folders and in the log, not in files.
        table_id: another one if the table is made anew.
        settings: of the object store.
    """

    uri: str
    table: str
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    table_id: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)  # may have secrets

    @property
    def store_options(self) -> str:
        """The options with which tasks find the object store, for messages."""
        return options_of_store(self.uri, is_delta=True)

    @property
    def file_schema(self) -> pa.Schema:
        """The columns without the partition columns."""
        return pa.schema([each for each in self.schema if each.name not in self.partition_columns])

    def partition_values(self, batch: pa.RecordBatch) -> Sequence[pa.Array]:
        """Return the values of the partition columns; an empty text is null, as Delta's log cannot tell them apart."""
        columns = [batch.column(name) for name in self.partition_columns]
        return [
            pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            else column
            for column in columns
        ]

    def path(self, name: str, partition: PartitionKey) -> str:
        """Return the path below the table, with a folder `column=value` for each partition column."""
        folders = [
            _folder(column, serialized(value)) for column, value in zip(self.partition_columns, partition, strict=True)
        ]
        return "/".join([*folders, name])

    def create(self, path: str) -> pa.NativeFile:
        """Create a data file."""
        folder = _local_folder(self.uri)
        if folder is not None:
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            return pa.OSFile(str(file), "wb")
        store = fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.settings)))
        return pa.PythonFile(_Upload(store.open_output_stream(path, buffer_size=2 * _PART_BYTES)), "w")

    def delete(self, paths: Sequence[str]) -> None:
        """Delete data files; those that are not there are ignored."""
        files = file_system(self.uri, self.settings)
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                files.delete_file(path)

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Return those data files that are not there."""
        found = file_system(self.uri, self.settings).get_file_info(list(paths))
        return [path for path, info in zip(paths, found, strict=True) if info.type is fs.FileType.NotFound]

    def statistics(self, metadata: pq.FileMetaData) -> Mapping[str, object]:
        """Return the statistics of a file, of its first columns."""
        return _statistics(metadata)

    def action(self, file: DataFile, now_ms: int) -> AddAction:
        """Return the action of the log that adds a file."""
        values = {
            column: serialized(value) for column, value in zip(self.partition_columns, file.partition, strict=True)
        }
        return AddAction(
            file.path, file.size_bytes, values, now_ms, data_change=True, stats=json.dumps(file.statistics)
        )


class _Upload:
    """A file of an object store: deltalake's takes bytes only, and Arrow passes it buffers, unless it collects them.

    Args:
        file: deltalake's file, behind a buffer of twice the size of a part.
    """

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._position = 0

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return bool(self._file.closed)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._position

    def write(self, data: bytes | pa.Buffer) -> int:
        """Write bytes."""
        content = memoryview(data)
        for begin in range(0, len(content), _PART_BYTES):
            self._file.write(content[begin : begin + _PART_BYTES])
        self._position += len(content)
        return len(content)

    def flush(self) -> None:
        """Do nothing: parts are uploaded when they are large enough."""

    def close(self) -> None:
        """Complete the upload."""
        self._file.close()


def _local_folder(uri: str) -> Path | None:
    """Return the folder of a table on this machine's file system; None for an object store."""
    if uri.startswith("file://"):
        return Path(unquote(uri.removeprefix("file://")))
    return None if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", uri) else Path(uri)


def file_system(uri: str, settings: Mapping[str, str]) -> fs.FileSystem:
    """Return the file system of a table, whose paths are those below the table."""
    folder = _local_folder(uri)
    if folder is not None:
        return fs.SubTreeFileSystem(os.fspath(folder.absolute()), fs.LocalFileSystem())
    return fs.PyFileSystem(DeltaStorageHandler(uri, dict(settings)))


def serialized(value: object) -> str | None:
    """Return a partition value as Delta's log has it."""
    match value:
        case None | "":
            return None
        case bool():
            return "true" if value else "false"
        case datetime.datetime():
            naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
            return naive.isoformat(" ", timespec="microseconds")
        case datetime.date():
            return value.isoformat()
        case decimal.Decimal():
            return format(value, "f")
        case _:
            return str(value)


def _folder(column: str, text: str | None) -> str:
    value = "__HIVE_DEFAULT_PARTITION__" if text is None else quote(text, safe=" ")[:_FOLDER_MAX].replace(" ", "%20")
    return f"{quote(column, safe='')}={value}"


def _statistics(metadata: pq.FileMetaData) -> dict[str, object]:
    """Return what Delta's log keeps of a file: counts, and the smallest and largest values of simple columns."""
    smallest: dict[str, object] = {}
    largest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    for place in range(min(metadata.num_columns, _STATISTICS_MAX)):
        groups = [metadata.row_group(number).column(place) for number in range(metadata.num_row_groups)]
        if not groups or "." in groups[0].path_in_schema or metadata.schema.column(place).max_repetition_level:
            continue
        name, found = groups[0].path_in_schema, [each.statistics for each in groups]
        if any(each is None or not each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        bounded = [each for each in found if each.has_min_max]
        # A row group without bounds either has nulls only, or values that have no order.
        if not bounded or any(not each.has_min_max and each.num_values for each in found):
            continue
        low = _bound(min(each.min for each in bounded), is_upper=False)
        high = _bound(max(each.max for each in bounded), is_upper=True)
        if low is not None:
            smallest[name] = low
        if high is not None:
            largest[name] = high
    return {"numRecords": metadata.num_rows, "minValues": smallest, "maxValues": largest, "nullCount": nulls}


def _bound(value: object, *, is_upper: bool) -> int | str | None:
    """Return a bound as JSON; None for types whose bounds are not kept.

    Floats have none, as Parquet ignores NaN and Delta does not.
    """
    match value:
        case bool():
            return None
        case int():
            return value
        case str():
            if len(value) <= _TEXT_MAX:
                return value
            return None if is_upper else value[:_TEXT_MAX]
        case datetime.datetime():
            naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
            return naive.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
        case datetime.date():
            return value.isoformat()
        case _:
            return None
