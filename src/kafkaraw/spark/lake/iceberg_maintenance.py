"""Maintenance of Iceberg tables: pyiceberg expires snapshots; it replaces no small files, and finds no files left over.

`optimize` reads the files of a group and replaces them in a commit that requires the snapshot which it has read. If
another commit was faster, it looks whether its files are still there, without deletes, and commits again. It does not
read through pyiceberg's scan, whose version 0.12 returns an empty list for a null list of structs. So files with
deletes stay as they are, and so do files whose nested columns have other fields than the table by now.

`vacuum` compares the folder with what all snapshots name.

Source: the Iceberg specification (snapshots, table metadata, orphan files). Start at `IcebergMaintenance`.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.manifest import FileFormat
from pyiceberg.table import FileScanTask

from kafkaraw.errors import ConfigError
from kafkaraw.spark.errors import TableConflictError, TableError
from kafkaraw.spark.lake.batches import BatchId, CommittedBatch
from kafkaraw.spark.lake.data_files import write_files
from kafkaraw.spark.lake.iceberg import IcebergLakeTable, IcebergLayout, file_system, told
from kafkaraw.spark.lake.iceberg_files import columns_by_id
from kafkaraw.spark.lake.layout import CommitConflictError, DataFile
from kafkaraw.spark.lake.maintenance import Description, OldVersion, Optimized, grouped, is_small

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergDataFile

    from kafkaraw.spark.options.lake import LakeOptions

_AGE_MAX: Final = "history.expire.max-snapshot-age-ms"
_AGE_MAX_DEFAULT: Final = 5 * 24 * 3600 * 1000
_KEPT_MIN: Final = "history.expire.min-snapshots-to-keep"
_OURS: Final = (".parquet", ".orc", ".avro", ".metadata.json", ".puffin", ".stats")
_ATTEMPTS_MAX: Final = 10
_PAUSE_S: Final = 0.1


class IcebergMaintenance:
    """Maintenance of one table; see `TableMaintenance`.

    Args:
        options: name the table.
        table: the open table.
    """

    def __init__(self, options: LakeOptions, table: IcebergLakeTable) -> None:
        self._options = options
        self._table = table

    def describe(self, target_file_size: int) -> Description:
        """Return what the current snapshot has."""
        inner = self._table.inner
        snapshot = inner.current_snapshot()
        with told(self._options, "reading the snapshot"):
            files = [task.file for task in inner.scan().plan_files()] if snapshot else []
        return Description(
            self._table.name,
            snapshot.snapshot_id if snapshot else None,
            len(inner.metadata.snapshots),
            inner.metadata.last_updated_ms,
            len(files),
            sum(file.file_size_in_bytes for file in files),
            sum(file.record_count for file in files),
            sum(is_small(file.file_size_in_bytes, target_file_size) for file in files),
            self._table.partition_columns,
            self._table.schema,
            self._last_batches(),
        )

    def _last_batches(self) -> Mapping[str, CommittedBatch]:
        return {query: batch for query in self._table.queries if (batch := self._table.last_batch(query)) is not None}

    def optimize(self, target_file_size: int) -> Optimized:
        """Replace small data files of each partition, one commit for each file that comes out of it."""
        self._table.check_writable()
        done = Optimized()
        for group in self._small_groups(target_file_size):
            written = self._rewritten(group)
            if not self._replaced(group, written):
                continue
            done = Optimized(
                done.removed_count + len(group),
                done.removed_bytes + sum(task.file.file_size_in_bytes for task in group),
                done.added_count + len(written),
                done.added_bytes + sum(file.size_bytes for file in written),
            )
        return done

    def _small_groups(self, target_file_size: int) -> Iterator[list[FileScanTask]]:
        inner = self._table.inner
        with told(self._options, "planning which files to replace"):
            tasks = list(inner.scan().plan_files()) if inner.current_snapshot() else []
        by_partition: dict[Any, list[FileScanTask]] = defaultdict(list)
        for task in tasks:
            file = task.file
            if is_small(file.file_size_in_bytes, target_file_size) and file.spec_id == inner.spec().spec_id:
                by_partition[file.partition].append(task)
        schema = self._table.schema
        for candidates in by_partition.values():
            if len(candidates) == 1:
                continue
            with told(self._options, "reading the schemas of small files"):
                small = [task for task in candidates if self._is_plain(task, schema)]
            small.sort(key=lambda task: task.file.file_path)
            sizes = [task.file.file_size_in_bytes for task in small]
            for group in grouped(sizes, target_file_size):
                yield [small[place] for place in group]

    def _rewritten(self, group: Sequence[FileScanTask]) -> list[DataFile]:
        """Write the rows of a group into new data files."""
        layout = self._table.layout()
        batch = BatchId(f"optimize-{uuid.uuid4().hex}", 0)
        options = replace(self._options, target_file_size=2 * self._options.target_file_size)  # one file comes out
        with told(self._options, "reading small files"):
            return write_files(self._rows_of(group, layout.schema), layout, options, batch, 0)

    def _rows_of(self, group: Sequence[FileScanTask], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for task in group:
            with self._table.inner.io.new_input(task.file.file_path).open() as source:
                file = pq.ParquetFile(source)
                places = columns_by_id(file.schema_arrow, schema)
                if places is None:
                    raise TableError(f"{self._table.name}: another writer changed its columns; run the command again")
                names = [schema.field(number).name for number in places.values()]
                for batch in file.iter_batches():
                    columns = [batch.column(place) for place in places]
                    yield pa.RecordBatch.from_arrays(columns, names=names)

    def _is_plain(self, task: FileScanTask, schema: pa.Schema) -> bool:
        """Return whether the rows of a file can be read without pyiceberg's scan."""
        if task.delete_files or task.file.file_format != FileFormat.PARQUET:
            return False
        with self._table.inner.io.new_input(task.file.file_path).open() as source:
            places = columns_by_id(pq.read_schema(source), schema)
        # Other engines may leave partition columns out of files.
        return places is not None and self._partition_places(schema) <= set(places.values())

    def _partition_places(self, schema: pa.Schema) -> set[int]:
        names = (
            self._table.inner.schema().find_column_name(each.source_id) for each in self._table.inner.spec().fields
        )
        return {schema.get_field_index(name.split(".")[0]) for name in names if name}

    def _replaced(self, group: Sequence[FileScanTask], written: Sequence[DataFile]) -> bool:
        """Commit the replacement; return whether it was done. If the old files have changed, it is not."""
        layout = self._table.layout()
        try:
            for attempt in range(_ATTEMPTS_MAX):
                if attempt:
                    time.sleep(_PAUSE_S * attempt)
                    self._table.refresh()
                    if not self._still_has(group) or self._table.layout().spec != layout.spec:
                        break
                try:
                    self._commit(layout, [task.file for task in group], written)
                    self._table.refresh()
                    return True
                except CommitConflictError:
                    continue
            else:
                raise TableConflictError(
                    f"{self._table.name}: small files were not replaced: other writers changed the table during each "
                    f"of {_ATTEMPTS_MAX} attempts. What was replaced before stays; run the command again"
                )
        except TableConflictError:
            layout.delete([file.path for file in written])
            raise
        layout.delete([file.path for file in written])
        return False

    def _commit(self, layout: IcebergLayout, old: Iterable[IcebergDataFile], written: Iterable[DataFile]) -> None:
        summary = {"kafkaraw.operation": "optimize"}
        with told(self._options, "replacing small files"):
            try:
                with (
                    self._table.without_retries().transaction() as transaction,
                    transaction.update_snapshot(snapshot_properties=summary).overwrite() as producer,
                ):
                    for file in old:
                        producer.delete_data_file(file)
                    for new in written:
                        producer.append_data_file(layout.data_file(new))
            except (CommitFailedException, ValidationException) as error:
                raise CommitConflictError(str(error)) from error

    def _still_has(self, group: Sequence[FileScanTask]) -> bool:
        """Return whether the newest snapshot has these files, without deletes."""
        with told(self._options, "planning again which files to replace"):
            now = {task.file.file_path for task in self._table.inner.scan().plan_files() if not task.delete_files}
        return all(task.file.file_path in now for task in group)

    def vacuum(self, retention_s: float, *, dry_run: bool) -> Sequence[str]:
        """Delete files below the table's folders that no snapshot names.

        Raises:
            TableError: the listing lacks files of the table, so the names of both cannot be compared.
        """
        with told(self._options, "listing the files"):
            needed, before = self._read(), self._named()
            listed = dict(self._listed())
        keys = {_key(path) for path in listed}
        roots = tuple(_key(root) + "/" for root in self._roots())
        missing = sorted(key for key in needed if key.startswith(roots) and key not in keys)
        if missing or not keys:
            raise TableError(
                f"{self._table.name}: {len(missing)} files that snapshots name are not among the {len(keys)} files of "
                f"its folders, the first of them {missing[0] if missing else '-'}. Nothing was deleted: either the "
                f"table is damaged, or its catalog names another folder"
            )
        self._table.refresh()
        with told(self._options, "reading what snapshots name"):
            named = before | self._named()
        until = time.time() - retention_s
        left = sorted(path for path, at in listed.items() if at <= until and _key(path) not in named)
        if not dry_run:
            with told(self._options, "deleting files that no snapshot names"):
                self._table.layout().delete(left)
        return left

    def _roots(self) -> list[str]:
        layout = self._table.layout()
        roots = [layout.location.rstrip("/"), layout.data_root]
        metadata = layout.properties.get("write.metadata.path")
        return roots + ([str(metadata).rstrip("/")] if metadata else [])

    def _listed(self) -> Iterator[tuple[str, float]]:
        """Return the files below the table's folders, and when they were written, in seconds since 1970."""
        for root in self._roots():
            files, path = file_system(self._table.inner.io, root)
            found = files.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
            for each in found:
                if each.type == fs.FileType.File and each.path.endswith(_OURS):
                    yield root + each.path.removeprefix(path), each.mtime.timestamp()

    def _named(self) -> set[str]:
        """Return the files that snapshots and metadata name, as keys."""
        metadata = self._table.inner.metadata
        files = {each.metadata_file for each in metadata.metadata_log}
        files |= {each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)}
        return {_key(file) for file in files} | self._read()

    def _read(self) -> set[str]:
        """Return the files that are there if the table can be read, as keys: others may be named, but gone."""
        inner = self._table.inner
        files = {inner.metadata_location, *(each.manifest_list for each in inner.metadata.snapshots)}
        if inner.metadata.snapshots:
            manifests: pa.Table = inner.inspect.all_manifests()
            files |= set(manifests.column("path").to_pylist())
            files |= self._table.referenced()
        return {_key(file) for file in files if file}

    def expire(self, retention_s: float | None, *, dry_run: bool) -> Sequence[OldVersion]:
        """Forget old snapshots. Branches, tags and as many snapshots as the table's properties say stay."""
        for _ in range(_ATTEMPTS_MAX):
            old = self._expired(retention_s)
            if dry_run or not old:
                return old
            with told(self._options, "forgetting old snapshots"):
                try:
                    self._table.inner.maintenance.expire_snapshots().by_ids([each.version for each in old]).commit()
                except CommitFailedException:
                    self._table.refresh()
                    continue
            return old
        raise TableConflictError(
            f"{self._table.name}: old snapshots were not forgotten: other writers changed the table during each of "
            f"{_ATTEMPTS_MAX} attempts. Run the command again"
        )

    def _expired(self, retention_s: float | None) -> list[OldVersion]:
        metadata = self._table.inner.metadata
        age_max_ms = self._number(_AGE_MAX, _AGE_MAX_DEFAULT) if retention_s is None else retention_s * 1000
        kept_min = self._number(_KEPT_MIN, 1)
        until_ms = datetime.now(UTC).timestamp() * 1000 - age_max_ms
        heads = {ref.snapshot_id for ref in metadata.refs.values()}
        newest_first = sorted(metadata.snapshots, key=lambda each: each.timestamp_ms, reverse=True)
        return [
            OldVersion(each.snapshot_id, each.timestamp_ms)
            for each in reversed(newest_first[max(1, kept_min) :])
            if each.timestamp_ms <= until_ms and each.snapshot_id not in heads
        ]

    def _number(self, name: str, default: int) -> int:
        text = self._table.inner.properties.get(name, str(default))
        if not text.isdecimal():
            raise ConfigError(f"{self._table.name}: the table property {name}={text!r} must be a number")
        return int(text)


def _key(location: str) -> str:
    """Return a location without its scheme, since engines write `s3://` and `s3a://`, `file:/` and `file:///`."""
    scheme, separator, path = location.partition(":")
    return f"/{path.lstrip('/')}" if separator and "/" not in scheme else f"/{location.lstrip('/')}"
