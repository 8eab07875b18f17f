"""Files of records: batches as they were in the log, or Parquet.

A file of the format `segments` is a sequence of record batches, as in a segment of Kafka's log, and can be read with
`kafkaraw log dump`. A Parquet file has the columns partition, offset, timestamp, key, value and headers. `RunWriter`
writes the files of a run, `arrow_batches` reads one. Start at `RunWriter`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from kafkaraw.core.fetch.failures import name_of
from kafkaraw.errors import ProtocolError, UsageError
from kafkaraw.mirror.backups.manifest import SUFFIXES, BackupError, DataFile, FileFormat
from kafkaraw.mirror.backups.store import BackupStore, HashedFile
from kafkaraw.mirror.slices import SourceBatch
from kafkaraw.records import Batch, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_ROW_GROUP_BYTES: Final = 16 << 20


class RunWriter:
    """Writes the files of a run; each partition has one that is open, and a new one when that is large.

    Args:
        store: where.
        folder: the folder of the run.
        file_format: how records are stored.
        size_max_bytes: size of batches after which a new file begins.
    """

    def __init__(self, store: BackupStore, folder: str, file_format: FileFormat, size_max_bytes: int) -> None:
        self._store = store
        self._folder = folder
        self._format = file_format
        self._size_max_bytes = size_max_bytes
        self._open: dict[TopicPartition, _OpenFile] = {}
        self.files: dict[TopicPartition, list[DataFile]] = {}

    def append(self, batch: SourceBatch, at: int) -> None:
        """Write batches.

        Args:
            batch: the batches.
            at: the offset at which the file begins, if there is none yet.

        Raises:
            BackupError: a file cannot be written.
        """
        file = self._open.get(batch.key)
        if file is None:
            path = f"{self._folder}/{batch.key.topic}/{batch.key.partition}/{at:020}{SUFFIXES[self._format]}"
            writing = self._store.writing(path)
            kind = _OpenSegment if self._format is FileFormat.SEGMENTS else _OpenParquet
            file = self._open[batch.key] = kind(writing, path, at)
        file.append(batch)
        if file.taken_bytes >= self._size_max_bytes:
            self.end(batch.key)

    def end(self, key: TopicPartition) -> None:
        """Complete the file of a partition.

        Raises:
            BackupError: it cannot be written.
        """
        file = self._open.pop(key, None)
        if file is not None:
            self.files.setdefault(key, []).append(file.close())

    def end_all(self) -> None:
        """Complete all files."""
        for key in list(self._open):
            self.end(key)

    def abandon(self) -> None:
        """Close the files; they are of no use."""
        opened, self._open = self._open, {}
        for file in opened.values():
            file.abandon()


class _OpenFile:
    """A file that is being written."""

    def __init__(self, writing: AbstractContextManager[HashedFile], path: str, first_offset: int) -> None:
        self._writing = writing
        self._path = path
        self._first_offset = first_offset
        self._next_offset = first_offset
        self._records_count = 0
        self.taken_bytes = 0
        self._file = writing.__enter__()

    def append(self, batch: SourceBatch) -> None:
        self._write(batch)
        self._next_offset = batch.wires[-1][0].next_offset
        self._records_count += batch.records_count
        self.taken_bytes += batch.size_bytes

    def _write(self, batch: SourceBatch) -> None:
        raise NotImplementedError

    def close(self) -> DataFile:
        self._finish()
        self._writing.__exit__(None, None, None)
        file = self._file
        return DataFile(
            self._path, self._first_offset, self._next_offset, self._records_count, file.size_bytes, file.sha256
        )

    def _finish(self) -> None:
        """Write what is left."""

    def abandon(self) -> None:
        error = BackupError(f"{self._path}: abandoned")
        try:
            self._writing.__exit__(type(error), error, None)
        except BackupError:
            return


class _OpenSegment(_OpenFile):
    def _write(self, batch: SourceBatch) -> None:
        self._file.write(b"".join(wire for _, wire in batch.wires))


class _OpenParquet(_OpenFile):
    def __init__(self, writing: AbstractContextManager[HashedFile], path: str, first_offset: int) -> None:
        super().__init__(writing, path, first_offset)
        self._writer: Any = None
        self._kept: list[pa.RecordBatch] = []
        self._kept_bytes = 0

    def _write(self, batch: SourceBatch) -> None:
        for rows in Batch(*batch.key, batch.wires, start_offset=batch.begin, check_crcs=False).arrow_batches(COLUMNS):
            self._kept.append(rows)
            self._kept_bytes += rows.nbytes
            if self._kept_bytes >= _ROW_GROUP_BYTES:
                self._write_row_group()

    def _write_row_group(self) -> None:
        pa, parquet = parquet_modules()
        if self._kept:
            if self._writer is None:
                self._writer = parquet.ParquetWriter(self._file, self._kept[0].schema, compression="zstd")
            self._writer.write_table(pa.Table.from_batches(self._kept))
        self._kept, self._kept_bytes = [], 0

    def _finish(self) -> None:
        self._write_row_group()
        if self._writer is not None:
            self._writer.close()


def parquet_modules() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet module.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise UsageError(f"this needs pyarrow: pip install 'kafkaraw[arrow]' ({error})") from error
    return pa, parquet


def format_of(file: DataFile) -> FileFormat:
    """Return the format of a file, by its name.

    Raises:
        BackupError: its name has no known ending.
    """
    for kind, suffix in SUFFIXES.items():
        if file.path.endswith(suffix):
            return kind
    raise BackupError(f"{file.path}: is no file of a known format; known are {', '.join(SUFFIXES.values())}")


def segment_of(key: TopicPartition, file: DataFile, data: bytes, where: str) -> Batch:
    """Return the batches of a file of the format `segments`.

    Args:
        key: the partition.
        file: the file.
        data: its content.
        where: its name, for errors.

    Raises:
        BackupError: a header is damaged, or the last batch is cut short.
    """
    try:
        batch = Batch(*key, memoryview(data), start_offset=file.first_offset)
    except ProtocolError as error:
        raise BackupError(f"{where}: {name_of(key)}: {error}") from error
    if batch.size_bytes != len(data):
        raise BackupError(f"{where}: the batch after offset {batch.next_offset - 1} is cut short")
    return batch


def arrow_batches(store: BackupStore, key: TopicPartition, file: DataFile) -> Iterator[pa.RecordBatch]:
    """Yield the records of a file, with `COLUMNS`; the checksum of the file is verified first.

    Args:
        store: where it is.
        key: its partition.
        file: the file.

    Raises:
        BackupError: it is missing or damaged.
        UsageError: pyarrow is not installed.
    """
    _, parquet = parquet_modules()
    data, where = store.read_checked(file), f"{store.url}/{file.path}"
    if format_of(file) is FileFormat.PARQUET:
        try:
            table = parquet.read_table(io.BytesIO(data), columns=list(COLUMNS))
        except (OSError, ValueError) as error:  # pyarrow's errors are such
            raise BackupError(f"{where}: is no Parquet file of a backup: {error}") from error
        yield from table.to_batches()
        return
    try:
        yield from segment_of(key, file, data, where).arrow_batches(COLUMNS)
    except ProtocolError as error:
        raise BackupError(f"{where}: {name_of(key)}: {error}") from error
