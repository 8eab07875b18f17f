"""What a task must know about a table, and what it reports: the interface of the two formats.

A `Layout` is pickled to the tasks; a `LakeTable` stays on the driver. Start at `Layout`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kafkaraw.spark.lake.batches import BatchId, CommittedBatch

PartitionKey = tuple[object, ...]
"""The values of the partition columns; for Iceberg after their transforms."""

RETENTION_MIN_S: Final = 3600
"""Maintenance keeps files that no version of the table names for at least this long while writers run."""


@dataclass(frozen=True)
class DataFile:
    """A data file that a task has written.

    Attributes:
        path: as the table's log will have it, not URL-encoded.
        size_bytes: its size.
        rows_count: its rows.
        partition: the values of the partition columns.
        statistics: of its columns, as the format's log has them.
        begun_s: when it was created, in seconds since 1970.
    """

    path: str
    size_bytes: int
    rows_count: int
    partition: PartitionKey = ()
    statistics: Mapping[str, object] = field(default_factory=dict)
    begun_s: float = field(default_factory=time.time)


class Layout(Protocol):
    """Where the files of a table go, and what is in them. Pickled to the tasks."""

    @property
    def table(self) -> str:
        """What the table is called in messages."""

    @property
    def store_options(self) -> str:
        """The options with which tasks find the object store, for messages."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of its data files."""

    def partition_values(self, batch: pa.RecordBatch) -> Sequence[pa.Array]:
        """Return, for each partition column, its values for these rows; empty for a table without any."""

    def path(self, name: str, partition: PartitionKey) -> str:
        """Return where a data file of this name is."""

    def create(self, path: str) -> pa.NativeFile:
        """Create a data file, and return it to be written."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete data files that are no part of the table."""

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Return those data files that are not there."""

    def statistics(self, metadata: pq.FileMetaData) -> Mapping[str, object]:
        """Return the statistics of a file as the log has them."""


@dataclass(frozen=True)
class Commit:
    """What one commit puts into a table.

    Attributes:
        batch: which batch.
        files: its data files.
        overwrite: whether they replace all rows.
    """

    batch: BatchId
    files: Sequence[DataFile]
    overwrite: bool = False

    @property
    def rows_count(self) -> int:
        """The number of all rows."""
        return sum(file.rows_count for file in self.files)


class CommitConflictError(Exception):
    """Another writer has committed in between: look at the table again."""


class LakeTable(Protocol):
    """A table as the driver sees it."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""

    @property
    def has_rows(self) -> bool:
        """Whether it has a data file."""

    def refresh(self) -> None:
        """Read the newest version of its log."""

    def last_batch(self, query_id: str) -> CommittedBatch | None:
        """Return the last batch of a query that the table has; None if there is none."""

    def check_takes(self, layout: Layout) -> None:
        """Check that files of this layout still fit.

        Raises:
            TableError: the table was replaced, or its columns have changed.
        """

    def commit(self, commit: Commit, layout: Layout) -> None:
        """Put files into the table, and the number of the batch with them, in one step.

        Raises:
            CommitConflictError: another writer was faster. Nothing was committed, as far as is known.
        """

    def file_ages_s(self) -> Mapping[str, float]:
        """Return the files in the table's folder, and seconds since they were written."""
