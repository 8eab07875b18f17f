"""Iceberg tables, over the library pyiceberg: what the driver reads and commits, and where tasks write files.

The last batch of each query is a property of the table, `kafkaraw.batch.QUERY`, which changes in the same commit as the
snapshot. The snapshot has it in its summary, too; but snapshots expire, and properties do not. A commit requires that
the current snapshot is the one in which the driver looked for the batch.

Files have Iceberg's field ids, so renamed columns are found. Source: the Iceberg specification (column projection,
partition transforms, snapshot summary).
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pyarrow import fs

from kafkaraw.errors import ConfigError, KafkaError
from kafkaraw.spark.errors import TableError, TableSchemaError, as_cause, in_one_line
from kafkaraw.spark.lake.batches import CommittedBatch
from kafkaraw.spark.lake.layout import Commit, CommitConflictError, DataFile, Layout, PartitionKey
from kafkaraw.spark.lake.schemas import check_partition_columns, compare, nullable
from kafkaraw.spark.options.lake import options_of_store

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from kafkaraw.spark.lake.batches import BatchId
    from kafkaraw.spark.options.lake import LakeOptions

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NamespaceAlreadyExistsError,
        NoSuchTableError,
        TableAlreadyExistsError,
        ValidationException,
    )
    from pyiceberg.io import PY_IO_IMPL
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
        schema_to_pyarrow,
    )
    from pyiceberg.manifest import DataFile as IcebergDataFile
    from pyiceberg.manifest import DataFileContent, FileFormat
    from pyiceberg.partitioning import PartitionFieldValue, PartitionSpec
    from pyiceberg.partitioning import PartitionKey as IcebergPartitionKey
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.locations import load_location_provider
    from pyiceberg.transforms import (
        DayTransform,
        HourTransform,
        IdentityTransform,
        MonthTransform,
        Transform,
        TruncateTransform,
        YearTransform,
    )
    from pyiceberg.typedef import Record

    from kafkaraw.spark.lake.iceberg_file_io import LakeFileIO
except ImportError as _missing:
    raise ConfigError(
        f'format kafkaraw.iceberg needs the package pyiceberg ({_missing}): pip install "kafkaraw[iceberg]", on the '
        f"driver and on all executors"
    ) from _missing

_BATCH: Final = "kafkaraw.batch."
_RETRIES: Final = "commit.retry.num-retries"
_TRANSFORM: Final = re.compile(r"(year|month|day|hour|truncate)\((?:(\d{1,9}),\s*)?([^()]+)\)")
_TIMES: Final = {"year": YearTransform, "month": MonthTransform, "day": DayTransform, "hour": HourTransform}
_FORMAT_VERSION_MAX: Final = 2


def open_iceberg(options: LakeOptions) -> IcebergLakeTable | None:
    """Open a table; None if there is none.

    Raises:
        TableError: the catalog cannot be reached, or the table cannot be read.
    """
    with told(options, "opening the table"):
        try:
            return IcebergLakeTable(options, _catalog(options).load_table(options.table))
        except NoSuchTableError:
            return None


def _catalog(options: LakeOptions) -> Catalog:
    with told(options, f"opening the catalog {options.catalog!r}"):
        catalog = load_catalog(options.catalog, **options.settings)
        catalog.properties.setdefault(PY_IO_IMPL, f"{LakeFileIO.__module__}.{LakeFileIO.__qualname__}")
        return catalog


def prepare_iceberg(options: LakeOptions, rows: pa.Schema) -> tuple[IcebergLakeTable, IcebergLayout]:
    """Open a table for rows of this schema; create it, or add columns, if needed.

    Raises:
        TableSchemaError: the rows do not fit.
        TableError: it cannot be opened, created or changed.
    """
    table = open_iceberg(options) or _created(options, rows)
    table.check_writable()
    table.evolve(rows)
    return table, table.layout()


def _created(options: LakeOptions, rows: pa.Schema) -> IcebergLakeTable:
    partitioned_by = [_transform_of(each, rows) for each in options.partition_by]
    catalog = _catalog(options)
    with told(options, "creating the table"):
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(options.table.rpartition(".")[0])
        columns = pa.schema([nullable(_storable(each)) for each in rows])
        try:
            with (
                catalog.create_table_transaction(options.table, columns) as transaction,
                transaction.update_spec() as spec,
            ):
                for column, transform in partitioned_by:
                    spec.add_field(column, transform, _partition_name(column, transform))
        except (TableAlreadyExistsError, CommitFailedException):  # another writer was faster
            pass
        return IcebergLakeTable(options, catalog.load_table(options.table))


def _storable(field: pa.Field) -> pa.Field:
    """Return the field as Iceberg has it: it has no integers below 32 bits."""
    return field.with_type(pa.int32()) if field.type in (pa.int8(), pa.int16()) else field


def _transform_of(text: str, rows: pa.Schema) -> tuple[str, Transform[Any, Any]]:
    """Return column and transform of a part of `partitionBy`, such as "day(ts)"."""
    found = _TRANSFORM.fullmatch(text)
    column = found[3].strip() if found else text
    if rows.get_field_index(column) < 0:
        raise ConfigError(
            f"partitionBy names {text!r}; the rows have the columns {', '.join(rows.names)}, and the transforms are "
            f"year, month, day and hour(column) and truncate(10,column)"
        )
    if found is None:
        return column, IdentityTransform()
    if (found[1] == "truncate") != (found[2] is not None):
        raise ConfigError(f"partitionBy names {text!r}: a width belongs to truncate only, as in truncate(10,{column})")
    return column, TruncateTransform(int(found[2])) if found[2] else _TIMES[found[1]]()


def _partition_name(column: str, transform: Transform[Any, Any]) -> str:
    """Return the name of a partition field, as Iceberg's own libraries name it."""
    if isinstance(transform, IdentityTransform):
        return column
    return f"{column}_{'trunc' if isinstance(transform, TruncateTransform) else str(transform)}"


@contextlib.contextmanager
def told(options: LakeOptions, doing: str) -> Iterator[None]:
    """Name stage and table in errors of the library."""
    try:
        yield
    except (KafkaError, CommitConflictError, NoSuchTableError, CommitFailedException):
        raise
    except Exception as error:  # noqa: BLE001 - there is no common base class; catalogs raise those of other libraries
        store = options_of_store(options.settings.get("warehouse", ""), is_delta=False)
        raise TableError(
            f"Iceberg table {options.table}: {doing} failed: {type(error).__name__}: {in_one_line(error)}. Check the "
            f"options catalog, catalog.type, catalog.uri and catalog.warehouse, and for an object store the "
            f"credentials, which may have expired: options {store}"
        ) from as_cause(error)


class IcebergLakeTable:
    """An Iceberg table as the driver sees it.

    Args:
        options: of the write.
        table: the open table.
    """

    def __init__(self, options: LakeOptions, table: Table) -> None:
        self._options = options
        self.inner = table
        self.name: str = f"Iceberg table {options.table}"

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return schema_to_pyarrow(self.inner.schema())

    @property
    def partition_columns(self) -> list[str]:
        """Its partitioning, as the option `partitionBy` has it."""
        schema = self.inner.schema()
        found = []
        for each in self.inner.spec().fields:
            column = schema.find_column_name(each.source_id) or "?"
            width = re.fullmatch(r"truncate\[(\d+)\]", str(each.transform))
            is_plain = isinstance(each.transform, IdentityTransform)
            found.append(
                column if is_plain else f"truncate({width[1]},{column})" if width else f"{each.transform}({column})"
            )
        return found

    @property
    def has_rows(self) -> bool:
        """Whether its current snapshot has a data file."""
        snapshot = self.inner.current_snapshot()
        return snapshot is not None and snapshot.summary is not None and snapshot.summary["total-data-files"] != "0"

    def refresh(self) -> None:
        """Read the newest metadata."""
        with told(self._options, "reading the metadata"):
            self.inner.refresh()

    def check_writable(self) -> None:
        """Check that appending files is all that a writer of this table must do.

        Raises:
            TableError: the table has a newer version of the format.
        """
        version = self.inner.metadata.format_version
        if version > _FORMAT_VERSION_MAX:
            raise TableError(
                f"{self.name}: it has version {version} of Iceberg's format; format kafkaraw.iceberg writes versions "
                f"1 and 2. Write to another table"
            )

    def evolve(self, rows: pa.Schema) -> None:
        """Add the columns that the table lacks, if the options say so.

        Raises:
            TableSchemaError: the rows do not fit.
        """
        asked = [re.sub(r",\s+", ",", each) for each in self._options.partition_by]
        check_partition_columns(self.name, self.partition_columns, asked)
        storable = pa.schema([_storable(each) for each in rows])
        missing = compare(self.name, self.schema, storable, merge_schema=self._options.merge_schema).missing
        if not missing:
            return
        with told(self._options, f"adding the columns {', '.join(each.name for each in missing)}"):
            try:
                with self.inner.update_schema() as update:
                    update.union_by_name(pa.schema([nullable(each) for each in missing]))
            except CommitFailedException:
                pass
            self.inner.refresh()
        if compare(self.name, self.schema, storable, merge_schema=True).missing:
            raise TableError(f"{self.name}: another writer changed its columns at the same time: start the query again")

    def layout(self) -> IcebergLayout:
        """Return what tasks must know."""
        metadata = self.inner.metadata
        return IcebergLayout(
            self.name,
            self.inner.schema(),
            self.inner.spec(),
            metadata.location,
            dict(metadata.properties),
            str(metadata.table_uuid),
            dict(self.inner.io.properties),
        )

    @property
    def queries(self) -> list[str]:
        """The queries of which the table has a micro-batch."""
        return sorted(name.removeprefix(_BATCH) for name in self.inner.properties if name.startswith(_BATCH))

    def last_batch(self, query_id: str) -> CommittedBatch | None:
        """Return the last batch of a query that the table has; None if there is none."""
        text = self.inner.properties.get(_BATCH + query_id)
        if text is None:
            return None
        found = json.loads(text)
        return CommittedBatch(found["batch"], found["rows"], found["run"])

    def check_takes(self, layout: Layout) -> None:
        """Check that files of this layout still fit; see `LakeTable`."""
        assert isinstance(layout, IcebergLayout)
        if str(self.inner.metadata.table_uuid) != layout.table_uuid:
            raise TableError(
                f"{self.name}: another writer replaced the table while the batch was written; nothing of it is in the "
                f"new table. Start the query again"
            )
        if self.inner.spec() != layout.spec:
            raise TableSchemaError(
                f"{self.name}: another writer changed the partitioning while the batch was written. Start the query "
                f"again"
            )
        now = {each.field_id: each for each in self.inner.schema().fields}
        given = {each.field_id for each in layout.iceberg_schema.fields}
        for each in layout.iceberg_schema.fields:
            if each.field_id not in now:
                raise TableSchemaError(
                    f"{self.name}: another writer dropped column {each.name!r} ({each.field_type}) while the batch was "
                    f"written. Start the query again"
                )
        required = [each.name for each in now.values() if each.required and each.field_id not in given]
        if required:
            raise TableSchemaError(
                f"{self.name}: another writer added the columns {', '.join(required)}, which take no null, while the "
                f"batch was written. Start the query again"
            )

    def commit(self, commit: Commit, layout: Layout) -> None:
        """Put files into the table, and the number of the batch with them; see `LakeTable`."""
        assert isinstance(layout, IcebergLayout)
        removed = None
        if commit.overwrite:
            with told(self._options, "planning which files to replace"):
                removed = [task.file for task in self.inner.scan().plan_files()]
        self.replace(removed, commit.files, layout, commit.batch, commit.rows_count)

    def replace(
        self,
        removed: Sequence[IcebergDataFile] | None,
        added: Sequence[DataFile],
        layout: IcebergLayout,
        batch: BatchId,
        rows_count: int,
    ) -> None:
        """Replace files by others, and commit the number of the batch with them.

        Args:
            removed: files of the current snapshot; None if files are added only.
            added: the new ones.
            layout: with which they were written.
            batch: which batch.
            rows_count: how many rows the batch has.

        Raises:
            CommitConflictError: another writer was faster. Nothing was committed, as far as is known.
        """
        record = {"batch": batch.number, "rows": rows_count, "run": batch.run_number}
        summary = {"kafkaraw.query": batch.query_id, "kafkaraw.batch": str(batch.number)}
        with told(self._options, f"committing {batch}"):
            try:
                with self.without_retries().transaction() as transaction:
                    if batch.run_id:
                        transaction.set_properties({_BATCH + batch.query_id: json.dumps(record)})
                    update = transaction.update_snapshot(snapshot_properties=summary)
                    with update.fast_append() if removed is None else update.overwrite() as producer:
                        for old in removed or ():
                            producer.delete_data_file(old)
                        for new in added:
                            producer.append_data_file(layout.data_file(new))
            except (CommitFailedException, ValidationException) as error:
                raise CommitConflictError(str(error)) from error

    def without_retries(self) -> Table:
        """Return the table, whose commits the library does not repeat by itself.

        It would add the files again without looking for the batch.
        """
        metadata = self.inner.metadata
        unrepeated = metadata.model_copy(update={"properties": {**metadata.properties, _RETRIES: "0"}})
        table = self.inner
        return Table(table.name(), unrepeated, table.metadata_location, table.io, table.catalog, table.config)

    def file_ages_s(self) -> Mapping[str, float]:
        """Return the data files in the table's folder, and seconds since they were written."""
        now = time.time()
        root = self.layout().data_root
        with told(self._options, "listing the files"):
            files, path = file_system(self.inner.io, root)
            found = files.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
        return {
            root + each.path.removeprefix(path): now - each.mtime.timestamp()
            for each in found
            if each.type == fs.FileType.File
        }

    def referenced(self) -> set[str]:
        """Return the data files of all snapshots."""
        with told(self._options, "reading the snapshots"):
            return set(self.inner.inspect.all_files().column("file_path").to_pylist())


def file_system(io: Any, location: str) -> tuple[fs.FileSystem, str]:  # noqa: ANN401 - pyiceberg has several classes
    """Return the file system of a location, and the path there."""
    if not isinstance(io, LakeFileIO):
        io = LakeFileIO(io.properties)
    scheme, netloc, path = LakeFileIO.parse_location(location, io.properties)
    return io.fs_by_scheme(scheme, netloc), path


@dataclass(frozen=True)
class IcebergLayout:
    """Where the files of an Iceberg table go; see `Layout`.

    Attributes:
        table: what it is called in messages.
        iceberg_schema: its columns.
        spec: its partitioning.
        location: its folder.
        properties: of the table.
        table_uuid: another one if the table is made anew.
        io_properties: of its file system.
    """

    table: str
    iceberg_schema: Schema
    spec: PartitionSpec
    location: str
    properties: Mapping[str, str]
    table_uuid: str
    io_properties: Mapping[str, Any] = field(repr=False)  # may have secrets

    @property
    def store_options(self) -> str:
        """The options with which tasks find the object store, for messages."""
        return options_of_store(self.location, is_delta=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns, with Iceberg's field ids."""
        return schema_to_pyarrow(self.iceberg_schema)

    @property
    def file_schema(self) -> pa.Schema:
        """The same: files have all columns."""
        return self.schema

    @property
    def data_root(self) -> str:
        """The folder of the data files."""
        return str(self.properties.get("write.data.path", f"{self.location.rstrip('/')}/data")).rstrip("/")

    def partition_values(self, batch: pa.RecordBatch) -> Sequence[pa.Array]:
        """Return the values of the partition fields, after their transforms."""
        found = []
        for each in self.spec.fields:
            source = self.iceberg_schema.find_field(each.source_id)
            path = (self.iceberg_schema.find_column_name(each.source_id) or "").split(".")
            column = batch.column(path[0])
            for name in path[1:]:
                column = column.field(name)
            found.append(each.transform.pyarrow_transform(source.field_type)(column))
        return found

    def _key(self, partition: PartitionKey) -> IcebergPartitionKey:
        values = [PartitionFieldValue(each, value) for each, value in zip(self.spec.fields, partition, strict=True)]
        return IcebergPartitionKey(values, self.spec, self.iceberg_schema)

    def path(self, name: str, partition: PartitionKey) -> str:
        """Return the location of a data file, as the table's location provider has it."""
        provider = load_location_provider(self.location, dict(self.properties))
        return provider.new_data_location(name, self._key(partition) if partition else None)

    def _io(self) -> LakeFileIO:
        return LakeFileIO(self.io_properties)

    def create(self, path: str) -> pa.NativeFile:
        """Create a data file."""
        return self._io().new_output(path).create(overwrite=False)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete data files; those that are not there are ignored."""
        io = self._io()
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                io.delete(path)

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Return those data files that are not there."""
        io = self._io()
        return [path for path in paths if not io.new_input(path).exists()]

    def statistics(self, metadata: pq.FileMetaData) -> Mapping[str, object]:
        """Return the statistics of a file, as a manifest has them."""
        found = data_file_statistics_from_parquet_metadata(
            parquet_metadata=metadata,
            stats_columns=compute_statistics_plan(self.iceberg_schema, dict(self.properties)),
            parquet_column_mapping=parquet_path_to_id_mapping(self.iceberg_schema),
        )
        return dict(found.to_serialized_dict())

    def data_file(self, file: DataFile) -> IcebergDataFile:
        """Return the entry of a manifest that adds a file."""
        return IcebergDataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.path,
            file_format=FileFormat.PARQUET,
            partition=self._key(file.partition).partition if file.partition else Record(),
            file_size_in_bytes=file.size_bytes,
            sort_order_id=None,
            spec_id=self.spec.spec_id,
            equality_ids=None,
            key_metadata=None,
            **cast(Any, file.statistics),
        )
