"""Maintenance of Delta tables, over what the library deltalake has.

`optimize` and `vacuum` are the library's, which follow Delta's protocol: the first conflicts with commits that change
the same files, the second keeps what the log names and what is younger than the retention. Start at `DeltaMaintenance`.
"""

from __future__ import annotations

import json
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
            files = pa.table(inner.get_add_actions(flatten=False))
            commits = inner.history()
            versions = self._log_versions()
        queries = {str(each["kafkaraw.query"]) for each in commits if "kafkaraw.query" in each}
        sizes: list[int] = files.column("size_bytes").to_pylist()
        rows = files.column("num_records") if "num_records" in files.column_names else pa.nulls(len(sizes))
        return Description(
            self._table.name,
            inner.version(),
            len(versions),
            max((int(each["timestamp"]) for each in commits if "timestamp" in each), default=None),
            len(sizes),
            sum(sizes),
            None if rows.null_count else sum(rows.to_pylist()),
            sum(is_small(size, target_file_size) for size in sizes),
            self._table.partition_columns,
            self._table.schema,
            self._last_batches(sorted(queries)),
        )

    def _last_batches(self, queries: Sequence[str]) -> Mapping[str, CommittedBatch]:
        found = ((query, self._table.last_batch(query)) for query in queries)
        return {query: batch for query, batch in found if batch is not None and batch.run_number is not None}

    def optimize(self, target_file_size: int) -> Optimized:
        """Replace small data files of each partition; the rows keep their order within a partition."""
        inner = self._table.inner
        for _ in range(_ATTEMPTS_MAX):
            self._table.refresh()
            with told(self._options, "replacing small files"):
                try:
                    done = inner.optimize.compact(target_size=target_file_size)
                except CommitFailedError:
                    continue
            removed, added = (_total_bytes(done[name]) for name in ("filesRemoved", "filesAdded"))
            return Optimized(done["numFilesRemoved"], removed, done["numFilesAdded"], added)
        raise TableConflictError(
            f"{self._table.name}: small files were not replaced: other writers changed them during each of "
            f"{_ATTEMPTS_MAX} attempts. Nothing was changed; optimize when fewer writers overwrite or merge"
        )

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


def _total_bytes(statistics: str | Mapping[str, int]) -> int:
    """Return the size of the files that a statistic of deltalake counts, which it writes as JSON."""
    found = json.loads(statistics) if isinstance(statistics, str) else statistics
    return int(found["totalSize"])
