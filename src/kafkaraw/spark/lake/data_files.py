"""The work of a task: rows into Parquet files, by partition, of about the target size.

A file grows by row groups; its size is known after each one, and another file is begun at the target size. Rows wait in
memory until a row group is worth writing: an eighth of the target, but at most 32 MiB a file and 128 MiB a task. A task
that fails deletes what it has written; the driver finds the files of a task that was killed by their names (`batches`).

Start at `write_files`.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafkaraw.errors import KafkaError
from kafkaraw.spark.errors import TableError, as_cause, in_one_line
from kafkaraw.spark.lake.batches import BatchId, file_name
from kafkaraw.spark.lake.layout import DataFile, Layout, PartitionKey
from kafkaraw.spark.lake.schemas import fitted
from kafkaraw.spark.options.lake import Compression

if TYPE_CHECKING:
    from kafkaraw.spark.options.lake import LakeOptions

_GROUP_BYTES_MAX: Final = 32 << 20
_GROUPS_PER_FILE: Final = 8
_WAITING_BYTES_MAX: Final = 128 << 20
_OPEN_MAX: Final = 64
_PLACE: Final = "__kafkaraw_place"


def write_files(
    batches: Iterable[pa.RecordBatch], layout: Layout, options: LakeOptions, batch: BatchId, task: int
) -> list[DataFile]:
    """Write the rows of a task; return its data files, which no reader of the table sees yet.

    Raises:
        TableSchemaError: a column that takes no null has one.
        TableError: a file cannot be written; all files of this task are deleted.
    """
    writer = _TaskFiles(layout, options, batch, task)
    try:
        for each in batches:
            if each.num_rows:
                writer.add(fitted(each, layout.schema, layout.table))
        return writer.close()
    except BaseException:
        writer.discard()
        raise


@dataclass
class _Waiting:
    """Rows of one partition that wait for their row group, and the file that gets it."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0
    file: _OpenFile | None = None


class _TaskFiles:
    """The files of one task.

    Args:
        layout: of the table.
        options: of the write.
        batch: what is written.
        task: the task's partition.
    """

    def __init__(self, layout: Layout, options: LakeOptions, batch: BatchId, task: int) -> None:
        self._layout = layout
        self._options = options
        self._batch = batch
        self._task = task
        self._attempt = uuid.uuid4().hex
        self._waiting: dict[PartitionKey, _Waiting] = {}  # in the order of use
        self._waiting_bytes = 0
        self._begun: list[str] = []
        self._done: list[DataFile] = []
        self._group_bytes = min(_GROUP_BYTES_MAX, max(1, options.target_file_size // _GROUPS_PER_FILE))

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        for key, some in self._by_partition(rows):
            waiting = self._waiting.pop(key, None) or _Waiting()
            self._waiting[key] = waiting
            waiting.batches.append(some)
            waiting.size_bytes += some.nbytes
            self._waiting_bytes += some.nbytes
            if waiting.size_bytes >= self._group_bytes:
                self._write_group(key, waiting)
        while self._waiting_bytes > _WAITING_BYTES_MAX:
            key, waiting = max(self._waiting.items(), key=lambda each: each[1].size_bytes)
            self._write_group(key, waiting)
        self._close_least_used()

    def _by_partition(self, rows: pa.RecordBatch) -> Iterator[tuple[PartitionKey, pa.RecordBatch]]:
        keys = self._layout.partition_values(rows)
        data = rows.select(self._layout.file_schema.names)
        if not keys:
            yield (), data
            return
        names = [str(number) for number in range(len(keys))]
        table = pa.table([*keys, pa.array(range(rows.num_rows), pa.int64())], names=[*names, _PLACE])
        groups = table.group_by(names, use_threads=False).aggregate([(_PLACE, "list")])
        places = groups.column(f"{_PLACE}_list").combine_chunks()
        values = [groups.column(name).to_pylist() for name in names]
        if len(places) == 1:
            yield tuple(each[0] for each in values), data
            return
        for number, key in enumerate(zip(*values, strict=True)):
            yield key, data.take(places[number].values)

    def _write_group(self, key: PartitionKey, waiting: _Waiting) -> None:
        path = self._next_path(key) if waiting.file is None else waiting.file.path
        with _told(self._layout, f"writing the data file {path}"):
            if waiting.file is None:
                waiting.file = _OpenFile(path, key, self._layout, self._options.compression)
            waiting.file.write(waiting.batches)
        self._waiting_bytes -= waiting.size_bytes
        waiting.batches, waiting.size_bytes = [], 0
        if waiting.file.is_full(self._options.target_file_size):
            self._close_file(waiting)

    def _next_path(self, key: PartitionKey) -> str:
        name = file_name(self._batch, self._task, self._attempt, len(self._begun))
        path = self._layout.path(name, key)
        self._begun.append(path)
        return path

    def _close_file(self, waiting: _Waiting) -> None:
        assert waiting.file is not None
        with _told(self._layout, f"completing the data file {waiting.file.path}"):
            self._done.append(waiting.file.close())
        waiting.file = None

    def _close_least_used(self) -> None:
        """Bound the number of open files: many partitions get more, smaller files."""
        while len(self._waiting) > _OPEN_MAX:
            key = next(iter(self._waiting))
            self._finish(key)

    def _finish(self, key: PartitionKey) -> None:
        waiting = self._waiting[key]
        if waiting.batches:
            self._write_group(key, waiting)
        if waiting.file is not None:
            self._close_file(waiting)
        del self._waiting[key]

    def close(self) -> list[DataFile]:
        """Complete all files."""
        for key in list(self._waiting):
            self._finish(key)
        return self._done

    def discard(self) -> None:
        """Delete all files after an error, as far as that is possible."""
        for waiting in self._waiting.values():
            if waiting.file is not None:
                waiting.file.abandon()
        with contextlib.suppress(Exception):
            self._layout.delete(self._begun)


class _OpenFile:
    """One data file that is being written.

    Args:
        path: where.
        partition: the partition of its rows.
        layout: of the table.
        compression: the codec.
    """

    def __init__(self, path: str, partition: PartitionKey, layout: Layout, compression: Compression) -> None:
        self.path = path
        self._partition = partition
        self._layout = layout
        self._begun_s = time.time()
        self._sink = layout.create(path)
        self._rows_count = 0
        self._group_size = 0
        self._writer = pq.ParquetWriter(
            self._sink, layout.file_schema, compression=compression.value, store_schema=False, write_statistics=True
        )

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """Write rows as a row group."""
        before = self._sink.tell()
        table = pa.Table.from_batches(batches, self._layout.file_schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._rows_count += table.num_rows
        self._group_size = self._sink.tell() - before

    def is_full(self, target_size: int) -> bool:
        """Return whether the file is nearer to its target size now than after another row group."""
        return bool(self._sink.tell() + self._group_size // 2 >= target_size)

    def close(self) -> DataFile:
        """Write the footer."""
        self._writer.close()
        size_bytes = self._sink.tell()
        self._sink.close()
        statistics = self._layout.statistics(self._writer.writer.metadata)
        return DataFile(self.path, size_bytes, self._rows_count, self._partition, statistics, self._begun_s)

    def abandon(self) -> None:
        """Close the file as it is."""
        for each in (self._writer, self._sink):
            with contextlib.suppress(Exception):
                each.close()


@contextlib.contextmanager
def _told(layout: Layout, doing: str) -> Iterator[None]:
    """Name the stage and the table in errors of the file system."""
    try:
        yield
    except KafkaError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise TableError(
            f"{layout.table}: {doing} failed: {in_one_line(error)}. Nothing of this batch is in the table; check "
            f"space, permissions, and for an object store the credentials (options {layout.store_options}), and start "
            f"the query again"
        ) from as_cause(error)
