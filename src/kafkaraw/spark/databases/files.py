"""Staging for databases that are files: each attempt of a task writes an Arrow file into a folder beside the database.

Driver and executors share the folder. Start at `StagingFolder`; `FileSession` and `FileDatabase` are what
SQLite and DuckDB have in common.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkaraw.spark.errors import TableError

if TYPE_CHECKING:
    from kafkaraw.spark.databases.staging import Staged
    from kafkaraw.spark.options.databases import DatabaseOptions

_SUFFIX: Final = ".arrow"


@dataclass(frozen=True)
class StagingFolder:
    """The folder with the staged rows of all tables of a database.

    Attributes:
        database: path of the database's file.
        table: the table that messages name.
    """

    database: str
    table: str

    @classmethod
    def of(cls, options: DatabaseOptions) -> StagingFolder:
        """Return the folder of a write."""
        return cls(options.database, options.table)

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.database + ".kafkaraw-staging")

    def write(self, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
        """Write rows into a file; return their number. Without rows there is no file.

        Raises:
            TableError: the file cannot be written.
        """
        rows_count = 0
        path = self.path / (name + _SUFFIX)
        with self._told(f"writing the staging file {path}"), contextlib.ExitStack() as stack:
            writer = None
            try:
                for batch in batches:
                    if not batch.num_rows:
                        continue
                    if writer is None:
                        self.path.mkdir(parents=True, exist_ok=True)
                        sink = stack.enter_context(pa.OSFile(str(path), "wb"))
                        writer = stack.enter_context(pa.ipc.new_file(sink, schema))
                    writer.write_batch(batch if batch.schema == schema else batch.cast(schema))
                    rows_count += batch.num_rows
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        return rows_count

    def read(self, staged: Sequence[Staged]) -> Iterator[pa.RecordBatch]:
        """Read the rows of these files.

        Raises:
            TableError: a file is missing or incomplete.
        """
        for each in staged:
            path = self.path / (each.name + _SUFFIX)
            with self._told(f"reading the staging file {path}"):
                if not path.exists():
                    raise TableError(
                        f"{self.table}: the staging file {path} that a task has written is not on the driver's "
                        f"machine: the option path must be in a folder that driver and executors share"
                    )
                with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
                    for number in range(reader.num_record_batches):
                        yield reader.get_batch(number)

    def names(self) -> list[str]:
        """Return what is staged."""
        with contextlib.suppress(OSError):
            return [path.stem for path in self.path.iterdir() if path.suffix == _SUFFIX]
        return []

    def delete(self, names: Sequence[str]) -> None:
        """Delete files; an error harms no reader. The folder stays, since other tasks may be about to write."""
        for name in names:
            with contextlib.suppress(OSError):
                (self.path / (name + _SUFFIX)).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _told(self, stage: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise TableError(
                f"{self.table}: {stage} failed: {error}. Nothing of this batch is in the table; check space and "
                f"permissions of the folder in the option path, and start the query again"
            ) from error


class FileSession:
    """The part of a `Session` that is about staged files.

    Args:
        options: of the write.
    """

    def __init__(self, options: DatabaseOptions) -> None:
        self._options = options
        self._folder = StagingFolder.of(options)
        self._dropped: list[str] = []

    def staged_names(self) -> list[str]:
        """Return what is in the staging folder."""
        return self._folder.names()

    def drop_staged(self, names: Sequence[str]) -> None:
        """Delete files once the transaction is committed."""
        self._dropped = list(names)

    def _delete_dropped(self) -> None:
        """Delete the files: the transaction is committed."""
        self._folder.delete(self._dropped)
        self._dropped = []


class FileDatabase:
    """The part of a `Database` that is about staged files."""

    def stage(self, options: DatabaseOptions, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> int:
        """Write the rows into an Arrow file."""
        return StagingFolder.of(options).write(name, schema, batches)
