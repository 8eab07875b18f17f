"""The driver's part: put the files of a batch into the table, once.

Theory of operation. A commit puts data files and the number of the batch into the table's log in one step. So the log
says of every batch whether it is in the table, whichever process is killed: before a commit the driver looks for the
number, and a batch that is found is not committed again. Two drivers that commit the same batch at once conflict: one
of them loses, looks again, and finds it.

A batch that is found is not compared row by row, but its rows are counted: if Spark plans a micro-batch anew, because
its checkpoint was restored from a backup, skipping it would lose rows silently. So another count is refused, and so is
a batch that is older than the last one of its query.

Conflicts with other writers are harmless as long as the table still takes the files; then the commit is repeated.

Start at `commit_batch`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from kafkaraw.spark.errors import ChangedBatchError, TableConflictError, TableError, as_cause, in_one_line
from kafkaraw.spark.lake.batches import BatchId, CommittedBatch, of_batch
from kafkaraw.spark.lake.layout import RETENTION_MIN_S, Commit, CommitConflictError, LakeTable, Layout
from kafkaraw.spark.options.lake import OnChangedBatch

_log = logging.getLogger(__name__)

_ATTEMPTS_MAX: Final = 20
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 2.0


class Verdict(Enum):
    """What to do with a batch."""

    COMMIT = auto()
    REPEATED = auto()


def judge(batch: BatchId, rows_count: int, last: CommittedBatch | None, on_changed: OnChangedBatch) -> Verdict:
    """Compare a batch with the last one of its query that the table has.

    Raises:
        ChangedBatchError: the table has a batch of this number or a later one, with other rows.
    """
    if last is None or last.number < batch.number:
        return Verdict.COMMIT
    is_same = last.number == batch.number and last.rows_count in (None, rows_count)
    if is_same or on_changed is OnChangedBatch.SKIP or (last.number > batch.number and not rows_count):
        return Verdict.REPEATED
    raise ChangedBatchError(
        f"{batch} has {rows_count} rows, and the table has batch {last.number} of this query already, with "
        f"{last.rows_count} rows: its checkpoint is older than the table, or its rows change when they are read again. "
        f"Restore the newest checkpoint; or start with a new checkpoint, which writes all rows that the source has; or "
        f"set the option onChangedBatch to skip, which leaves out the rows of batches that the table has"
    )


def commit_batch(
    table: LakeTable,
    commit: Commit,
    layout: Layout,
    on_changed: OnChangedBatch = OnChangedBatch.FAIL,
    *,
    retried: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Verdict:
    """Put the files of a batch into the table, unless they are there.

    Args:
        table: the table.
        commit: the batch and its files.
        layout: with which the tasks wrote them.
        on_changed: what to do if the table has other rows of this batch.
        retried: whether a task was tried more than once, so that there may be files of failed attempts.
        sleep: waits for a number of seconds.

    Raises:
        TableConflictError: other writers were faster, too often.
        TableError: the table does not take the files any more, or cannot be written.
    """

    def put(last: CommittedBatch | None) -> None:
        if not commit.files and not commit.overwrite:
            return
        table.check_takes(layout)
        _check_files(table, commit, layout)
        table.commit(commit, layout)
        is_first_of_run = bool(commit.batch.run_id) and (last is None or last.run_number != commit.batch.run_number)
        if retried or is_first_of_run:
            _delete_failed_attempts(table, commit, layout)

    verdict = commit_once(table, commit.batch, commit.rows_count, on_changed, put, sleep=sleep)
    if verdict is Verdict.REPEATED:
        layout.delete([file.path for file in commit.files])
    return verdict


def commit_once(
    table: LakeTable,
    batch: BatchId,
    rows_count: int,
    on_changed: OnChangedBatch,
    put: Callable[[CommittedBatch | None], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Verdict:
    """Commit a batch unless the table has it, and again after a conflict.

    Args:
        table: the table.
        batch: which batch.
        rows_count: how many rows it has.
        on_changed: what to do if the table has other rows of this batch.
        put: commits the rows and the number of the batch in one step, in the newest version of the table; it gets the
            last batch of the query, and raises `CommitConflictError` if another writer was faster.
        sleep: waits for a number of seconds.

    Raises:
        ChangedBatchError: see `judge`.
        TableConflictError: other writers were faster, too often.
    """
    for attempt in range(_ATTEMPTS_MAX):
        if attempt:
            sleep(min(_PAUSE_MAX_S, _PAUSE_S * 2**attempt))
        table.refresh()
        last = table.last_batch(batch.query_id)
        if judge(batch, rows_count, last, on_changed) is Verdict.REPEATED:
            _log.info("%s: %s is in the table already", table.name, batch)
            return Verdict.REPEATED
        try:
            put(last)
        except CommitConflictError as conflict:
            _log.info("%s: %s is committed again after a conflict: %s", table.name, batch, conflict)
            continue
        return Verdict.COMMIT
    raise TableConflictError(
        f"{table.name}: {batch} was not committed: other writers changed the table during each of {_ATTEMPTS_MAX} "
        f"attempts. Start the query again; have fewer writers, or let them write less often"
    )


def _check_files(table: LakeTable, commit: Commit, layout: Layout) -> None:
    """Look for files that are old enough to be deleted by maintenance before they are committed.

    Raises:
        TableError: one was deleted. A table that named it could not be read.
    """
    since = time.time() - RETENTION_MIN_S / 2
    old = [file.path for file in commit.files if file.begun_s < since]
    try:
        missing = layout.missing(old) if old else []
    except OSError as error:
        raise TableError(
            f"{table.name}: looking for {len(old)} data files of {commit.batch} before the commit failed: "
            f"{in_one_line(error)}. Check the credentials of the object store (options {layout.store_options}), and "
            f"start the query again"
        ) from as_cause(error)
    if missing:
        raise TableError(
            f"{table.name}: {len(missing)} data files of {commit.batch} were deleted before they were committed, among "
            f"them {missing[0]}. Run vacuum with a retention longer than the longest micro-batch, and start the query "
            f"again"
        )


def _delete_failed_attempts(table: LakeTable, commit: Commit, layout: Layout) -> None:
    """Delete files of this batch that attempts of tasks and drivers have left; the batch is committed without them.

    They harm no reader, so an error is only logged.
    """
    kept = {file.path for file in commit.files}
    try:
        left = [path for path in of_batch(table.file_ages_s(), commit.batch) if path not in kept]
        if left:
            layout.delete(left)
            _log.info("%s: deleted %d files of failed attempts of %s", table.name, len(left), commit.batch)
    except Exception as error:  # noqa: BLE001 - of a file system, of any class
        _log.warning(
            "%s: files of failed attempts could not be deleted, and no reader sees them: %s",
            table.name,
            error,
        )
