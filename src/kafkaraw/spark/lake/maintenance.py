"""Maintenance of lake tables, as `kafkaraw tables` shows it: what each step returns, and which files it may delete.

Writers and maintenance of one table may run at the same time. Three rules keep files from being lost:

- `optimize` replaces data files in one commit, which conflicts with every commit that changes the same files;
- `vacuum` deletes files that no kept version names, and only those older than the retention, since a younger file may
  belong to a micro-batch that is yet to be committed. `RETENTION_MIN_S` is the smallest one while writers run;
- a writer whose micro-batch has taken longer than half of that looks for its files before it commits them
  (`commits`).

Pure, except for what a `TableMaintenance` does. Start at `TableMaintenance`; `delta_maintenance` and
`iceberg_maintenance` are the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from kafkaraw.errors import UsageError
from kafkaraw.spark.lake.layout import RETENTION_MIN_S

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.spark.lake.batches import CommittedBatch

_SMALL: Final = 0.75


@dataclass(frozen=True)
class Description:
    """What a table has.

    Attributes:
        table: what it is called in messages.
        version: Delta's version, Iceberg's snapshot; None for an Iceberg table without one.
        versions_count: how many versions or snapshots can still be read.
        changed_ms: when it was changed, in milliseconds since 1970; None if it never was.
        files_count: its data files.
        size_bytes: their size.
        rows_count: its rows; None if the log does not say.
        small_files_count: files that `optimize` would replace.
        partition_columns: its partitioning, as the option `partitionBy` has it.
        schema: its columns.
        batches: the last micro-batch of each query.
    """

    table: str
    version: int | None
    versions_count: int
    changed_ms: int | None
    files_count: int
    size_bytes: int
    rows_count: int | None
    small_files_count: int
    partition_columns: Sequence[str]
    schema: pa.Schema
    batches: Mapping[str, CommittedBatch] = field(default_factory=dict)


@dataclass(frozen=True)
class Optimized:
    """How many data files became how many.

    Attributes:
        removed_count: files that were replaced.
        removed_bytes: their size.
        added_count: files that replaced them.
        added_bytes: their size.
    """

    removed_count: int = 0
    removed_bytes: int = 0
    added_count: int = 0
    added_bytes: int = 0


@dataclass(frozen=True)
class OldVersion:
    """A version of the table that `expire` forgets.

    Attributes:
        version: Delta's version, Iceberg's snapshot.
        committed_ms: when it was committed, in milliseconds since 1970.
    """

    version: int
    committed_ms: int


class TableMaintenance(Protocol):
    """Maintenance of one table."""

    def describe(self, target_file_size: int) -> Description:
        """Return what the table has.

        Args:
            target_file_size: in bytes; smaller files are counted as small.
        """

    def optimize(self, target_file_size: int) -> Optimized:
        """Replace small data files of each partition by fewer ones of about the target size.

        Raises:
            TableConflictError: other writers changed the same files each time.
        """

    def vacuum(self, retention_s: float, *, dry_run: bool) -> Sequence[str]:
        """Delete files that no kept version of the table names, and return them.

        Args:
            retention_s: younger files are kept; see `check_retention`.
            dry_run: only return them.
        """

    def expire(self, retention_s: float | None, *, dry_run: bool) -> Sequence[OldVersion]:
        """Forget old versions of the table, and return them. Data files stay until `vacuum`.

        Args:
            retention_s: versions younger than this are kept; None is what the table's properties say.
            dry_run: only return them.
        """


def check_retention(retention_s: float, *, has_writers: bool) -> None:
    """Check how long `vacuum` keeps files that no version names.

    Raises:
        UsageError: files of a micro-batch that is yet to be committed could be deleted.
    """
    if has_writers and retention_s < RETENTION_MIN_S:
        raise UsageError(
            f"a retention of {retention_s:g} seconds is less than {RETENTION_MIN_S} (1h): files that a running writer "
            f"has yet to commit could be deleted. Keep files longer; or, if no writer runs, say so with --no-writers"
        )


def is_small(size_bytes: int, target_file_size: int) -> bool:
    """Return whether `optimize` replaces a file of this size."""
    return size_bytes < target_file_size * _SMALL


def grouped(sizes_bytes: Sequence[int], target_file_size: int) -> list[list[int]]:
    """Return the places of files that become one file each; a file that would stay alone is in no group.

    Args:
        sizes_bytes: sizes of the small files of one partition, in the order in which their rows shall stay.
        target_file_size: in bytes.
    """
    groups: list[list[int]] = []
    size = target_file_size
    for place, each in enumerate(sizes_bytes):
        if size + each > target_file_size:
            groups.append([])
            size = 0
        groups[-1].append(place)
        size += each
    return [group for group in groups if len(group) > 1]
