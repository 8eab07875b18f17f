"""The driver's part: move the staged rows of a batch into the table, once.

Theory of operation. One transaction moves the rows, and writes the number of the batch into the table
`kafkaraw_batches`. It first locks the row of the query, so of two drivers with the same batch the second one waits,
finds the number and moves nothing (`judge` decides). Whichever process is killed, the database rolls the transaction
back or has all of it.

What is staged is dropped in the same transaction (tables) or after it (files); what failed attempts have left, too.

Start at `prepare` and `commit_batch`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from kafkaraw.spark.databases import statements
from kafkaraw.spark.databases.columns import Target, check_options, compare, new_columns
from kafkaraw.spark.databases.staging import leftovers
from kafkaraw.spark.errors import TableConflictError, TableError, TableSchemaError
from kafkaraw.spark.lake.batches import BatchId, CommittedBatch
from kafkaraw.spark.lake.commits import Verdict, judge

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaraw.spark.databases.session import Session
    from kafkaraw.spark.databases.staging import Staged
    from kafkaraw.spark.options.databases import DatabaseOptions

T = TypeVar("T")

_log = logging.getLogger(__name__)

_ATTEMPTS_MAX: Final = 5
_PAUSE_S: Final = 0.1


def prepare(
    session: Session, options: DatabaseOptions, rows: pa.Schema, *, sleep: Callable[[float], None] = time.sleep
) -> Target:
    """Create the table or add columns, if necessary, and return how rows go into it.

    Args:
        session: a connection.
        options: of the write.
        rows: the columns of the rows.
        sleep: waits for a number of seconds.

    Raises:
        TableSchemaError: the rows do not fit into the table.
        TableConflictError: other processes created or altered the table at the same time, too often.
        TableError: the database refuses.
    """
    check_options(options, rows)

    def attempt() -> Target:
        try:
            return _prepare(session, options, rows)
        finally:
            session.rollback()

    return _retried(f"{options.table}: preparing the table", attempt, sleep)


def _prepare(session: Session, options: DatabaseOptions, rows: pa.Schema) -> Target:
    with session.told("preparing the table"):
        session.begin()
        known = session.columns()
        if known is None:
            fields = [field for field in rows if field.name != options.delete_column]
            created = new_columns(options.table, fields, session.dialect)
            session.execute(statements.create_table(options.table, created, options.key))
            session.commit()
            session.begin()
            known = session.columns() or []
        target, missing = compare(options, known, rows, session.dialect)
        for column in missing:
            session.execute(statements.add_column(options.table, column))
        if options.key and frozenset(options.key) not in session.unique_keys():
            names = ", ".join(statements.quoted(name) for name in options.key)
            raise TableSchemaError(
                f"{options.table}: key={','.join(options.key)!r} needs a primary key or a unique index on exactly "
                f"these columns: CREATE UNIQUE INDEX ON {statements.qualified(options.table)} ({names})"
            )
        session.execute(statements.create_batches(options.table))
        session.commit()
    return target


def _retried(what: str, attempt: Callable[[], T], sleep: Callable[[float], None]) -> T:
    """Repeat attempts that other transactions have got in the way of; nothing of such an attempt is left."""
    for number in range(1, _ATTEMPTS_MAX):
        try:
            return attempt()
        except TableConflictError as conflict:
            _log.info("%s is tried again after a conflict: %s", what, conflict)
        sleep(_PAUSE_S * 2**number)
    return attempt()


def has_rows(session: Session, table: str) -> bool:
    """Return whether the table exists and has a row."""
    with session.told("reading the table"):
        return session.columns() is not None and bool(
            session.rows(f"SELECT 1 FROM {statements.qualified(table)} LIMIT 1")
        )


def commit_batch(
    connect: Callable[[], Session],
    options: DatabaseOptions,
    target: Target,
    batch: BatchId,
    staged: Sequence[Staged],
    *,
    overwrite: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Verdict:
    """Move the rows of a batch into the table, unless they are there.

    Args:
        connect: opens a connection.
        options: of the write.
        target: how rows go into the table.
        batch: what was written.
        staged: what the tasks have staged.
        overwrite: whether the rows replace all others.
        sleep: waits for a number of seconds.

    Raises:
        ChangedBatchError: the database has this batch, or a later one, with other rows.
        TableConflictError: other transactions got in the way, too often.
        TableError: the database refuses, or the connection is lost.
    """

    def attempt() -> Verdict:
        session = connect()
        try:
            return _commit(session, options, target, batch, staged, overwrite)
        finally:
            session.rollback()
            session.close()

    return _retried(f"{options.table}: committing {batch}", attempt, sleep)


def discard_batch(connect: Callable[[], Session], table: str, batch: BatchId) -> None:
    """Drop what the tasks of a batch have staged, after a write that failed.

    Raises:
        TableError: the database refuses, or the connection is lost.
    """
    session = connect()
    try:
        with session.told(f"dropping what {batch} has staged"):
            session.begin()
            session.drop_staged(leftovers(session.staged_names(), batch, table, (), time.time()))
            session.commit()
    finally:
        session.rollback()
        session.close()


def _commit(
    session: Session,
    options: DatabaseOptions,
    target: Target,
    batch: BatchId,
    staged: Sequence[Staged],
    overwrite: bool,
) -> Verdict:
    rows_count = sum(each.rows_count for each in staged)
    with session.told(f"moving the rows of {batch} into the table"):
        session.begin()
        last = _locked_batch(session, target.table, batch) if batch.run_id else None
        verdict = judge(batch, rows_count, last, options.on_changed_batch)
        if verdict is Verdict.COMMIT:
            _check_unchanged(session, target)
            if overwrite:
                session.execute(f"DELETE FROM {statements.qualified(target.table)}")
            if rows_count:
                _move(session, target, staged)
            if batch.run_id:
                session.execute(
                    f"UPDATE {statements.beside(target.table, statements.BATCHES)} SET number = $1, rows_count = $2, "
                    f"run_number = $3 WHERE query_id = $4 AND table_name = $5",
                    (batch.number, rows_count, batch.run_number, batch.query_id, target.table),
                )
        mine = [each.name for each in staged]
        left = leftovers(session.staged_names(), batch, target.table, mine, time.time())
        session.drop_staged([*mine, *left])
    with session.told(f"committing {batch}"):
        session.commit()
    if verdict is Verdict.REPEATED:
        _log.info("%s: %s is in the table already", target.table, batch)
    return verdict


def _locked_batch(session: Session, table: str, batch: BatchId) -> CommittedBatch | None:
    """Return the last batch of the query that the database has; lock it until the transaction ends."""
    batches = statements.beside(table, statements.BATCHES)
    session.execute(
        f"INSERT INTO {batches} (query_id, table_name, number) VALUES ($1, $2, -1) ON CONFLICT DO NOTHING",
        (batch.query_id, table),
    )
    found = session.rows(
        f"SELECT number, rows_count, run_number FROM {batches} WHERE query_id = $1 AND table_name = $2"
        + session.lock_clause,
        (batch.query_id, table),
    )
    number, rows_count, run_number = found[0]
    assert isinstance(number, int)
    if number < 0:
        return None
    return CommittedBatch(
        number,
        rows_count if isinstance(rows_count, int) else None,
        run_number if isinstance(run_number, int) else None,
    )


def _check_unchanged(session: Session, target: Target) -> None:
    known = session.columns()
    if known is None:
        raise TableError(f"{target.table}: the table was dropped while the batch was written")
    types = {column.name: column.type for column in known}
    for column in target.stored:
        if types.get(column.name) != column.type:
            raise TableSchemaError(
                f"{target.table}: column {column.name!r} had type {column.type} when the batch began, and has "
                f"{types.get(column.name, 'been dropped')} now: start the query again"
            )


def _move(session: Session, target: Target, staged: Sequence[Staged]) -> None:
    relation = session.load([each for each in staged if each.rows_count], target)
    _check_complete(session, target, staged, relation)
    if not target.key:
        session.execute(statements.insert(target, relation, session.dialect))
        return
    session.execute(statements.latest(target, relation))
    key = ",".join(target.key)
    for values in session.rows(statements.null_key(target)):
        raise TableSchemaError(f"{target.table}: a row has a null in its key: {key} = {_shown(values)}")
    for values in session.rows(statements.ambiguous_key(target)):
        why = (
            f"with the same {target.order_column}"
            if target.order_column
            else "and no option orderColumn says which of them is the newest"
        )
        raise TableSchemaError(
            f"{target.table}: the batch has two rows of the key {key} = {_shown(values)} {why}: set orderColumn to a "
            f"column that increases with each change of a key, such as offset"
        )
    if target.delete_column:
        session.execute(statements.delete(target))
    session.execute(statements.upsert(target, session.dialect))
    session.execute(f"DROP TABLE {statements.LATEST}")


def _check_complete(session: Session, target: Target, staged: Sequence[Staged], relation: str) -> None:
    """Check that all rows are there: PostgreSQL empties unlogged tables after a crash."""
    expected = sum(each.rows_count for each in staged)
    found = session.rows(f"SELECT count(*) FROM {relation}")[0][0]
    if found != expected:
        raise TableError(
            f"{target.table}: the tasks have staged {expected} rows, and {found} are left: the server has crashed, "
            f"or the staging folder was changed. Nothing of this batch is in the table; start the query again"
        )


def _shown(values: Sequence[object]) -> str:
    return ", ".join(repr(value) if value is not None else "null" for value in values)
