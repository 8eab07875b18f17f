"""Maintenance of Delta tables, over what the library deltalake has.

`optimize` and `vacuum` are the library's, which follow Delta's protocol: the first conflicts with commits that change
the same files, the second keeps what the log names and what is younger than the retention. Start at `DeltaMaintenance`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from deltalake.exceptions import CommitFailedError
from pyarrow import fs

from kafkaraw.errors import UsageError
from kafkaraw.spark.errors import TableConflictError
from kafkaraw.spark.lake.batches import CommittedBatch
from kafkaraw.spark.lake.delta import DeltaLakeTable, file_system, told
from kafkaraw.spark.lake.maintenance import Description, OldVersion, Optimized, is_small
from kafkaraw.spark.options.lake import LakeOptions

_LOG: Final = "_delta_log"
_VERSION: Final = re.compile(r"(\d{20})\.json")
_RETENTION: Final = "delta.logRetentionDuration"
_RETENTION_DEFAULT: Final = "interval 30 days"
_INTERVAL: Final = re.compile(r"interval\s+(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_ATTEMPTS_MAX: Final = 10


class DeltaMaintenance:
    """Maintenance of one table; see `TableMaintenance`.

    Args:
        options: name the table.
        table: the open table.
    """

    def __init__(self, options: LakeOptions, table: DeltaLakeTable) -> None:
        self._options = options
        self._table = table

    def describe(self, target_file_size: int) -> Description:
        """Return what the table has. Queries are those of the commits that the log still has one by one."""
        inner = self._table.inner
        with told(self._options, "reading the log"):
            sizes: list[int] = self._actions("size_bytes")
            rows: list[int | None] = self._actions("num_records")
            commits = inner.history()
            versions = self._log_versions()
        queries = {str(each["kafkaraw.query"]) for each in commits if "kafkaraw.query" in each}
        counted = [each for each in rows if each is not None]
        return Description(
            self._table.name,
            inner.version(),
            len(versions),
            max((int(each["timestamp"]) for each in commits if "timestamp" in each), default=None),
            len(sizes),
            sum(sizes),
            sum(counted) if len(counted) == len(sizes) else None,
            sum(is_small(size, target_file_size) for size in sizes),
            self._table.partition_columns,
            self._table.schema,
            self._last_batches(sorted(queries)),
        )

    def _actions(self, column: str) -> list[int]:
        found = pa.table(self._table.inner.get_add_actions(flatten=False))
        values: list[int] = found.column(column).to_pylist() if column in found.column_names else []
        return values or [0] * found.num_rows

    def _last_batches(self, queries: Sequence[str]) -> Mapping[str, CommittedBatch]:
        found = ((query, self._table.last_batch(query)) for query in queries)
        return {query: batch for query, batch in found if batch is not None and batch.run_number is not None}

    def optimize(self, target_file_size: int) -> Optimized:
        """Replace small data files of each partition; the rows keep their order within a partition."""
        inner = self._table.inner
        for _ in range(_ATTEMPTS_MAX):
            self._table.refresh()
            before = self._files()
            with told(self._options, "replacing small files"):
                try:
                    inner.optimize.compact(target_size=target_file_size)
                except CommitFailedError:
                    continue
            return _compared(before, self._files())
        raise TableConflictError(
            f"{self._table.name}: small files were not replaced: other writers changed them during each of "
            f"{_ATTEMPTS_MAX} attempts. Nothing was changed; optimize when fewer writers overwrite or merge"
        )

    def _files(self) -> dict[str, int]:
        found = pa.table(self._table.inner.get_add_actions(flatten=False))
        return dict(zip(found.column("path").to_pylist(), found.column("size_bytes").to_pylist(), strict=True))

    def vacuum(self, retention_s: float, *, dry_run: bool) -> Sequence[str]:
        """Delete files that no version names any more, and those that none has ever named."""
        hours = -int(-retention_s // 3600)
        with told(self._options, "deleting files that no version names"):
            return self._table.inner.vacuum(hours, dry_run=dry_run, enforce_retention_duration=False, full=True)

    def expire(self, retention_s: float | None, *, dry_run: bool) -> Sequence[OldVersion]:
        """Forget old versions, as the table property `delta.logRetentionDuration` says, after a new checkpoint."""
        if retention_s is not None:
            raise UsageError(
                f"{self._table.name}: how long Delta keeps versions is the table property {_RETENTION}: leave "
                f"--older-than out, or set the property"
            )
        since = time.time() - self._retention_s()
        # The library deletes the log up to the newest checkpoint that all kept versions can start from.
        before = self._log_versions()
        if dry_run:
            newest = max(before, default=0)
            return [OldVersion(each, at) for each, at in sorted(before.items()) if at < since * 1000 and each < newest]
        with told(self._options, "forgetting old versions"):
            self._table.inner.create_checkpoint()
            self._table.inner.cleanup_metadata()
        after = self._log_versions()
        return [OldVersion(each, at) for each, at in sorted(before.items()) if each not in after]

    def _log_versions(self) -> dict[int, int]:
        """Return the versions that the log has one by one, and when they were committed."""
        files = file_system(self._options.table, self._options.settings)
        found = files.get_file_info(fs.FileSelector(_LOG, allow_not_found=True))
        named = ((_VERSION.fullmatch(each.base_name), each) for each in found)
        return {int(name[1]): int(each.mtime.timestamp() * 1000) for name, each in named if name}

    def _retention_s(self) -> float:
        text = self._table.inner.metadata().configuration.get(_RETENTION) or _RETENTION_DEFAULT
        found = _INTERVAL.fullmatch(text.strip())
        if found is None:
            raise UsageError(f"{self._table.name}: {_RETENTION}={text!r} is no interval such as 'interval 30 days'")
        return int(found[1]) * _SECONDS[found[2].lower()]


def _compared(before: Mapping[str, int], after: Mapping[str, int]) -> Optimized:
    """Return what changed; files of writers that appended meanwhile count as added."""
    removed = [size for path, size in before.items() if path not in after]
    added = [size for path, size in after.items() if path not in before]
    return Optimized(len(removed), sum(removed), len(added), sum(added))
