"""What to do with a micro-batch, by the query's newest decision: write it, repeat it, skip it, or refuse. Pure.

Spark repeats only the last micro-batch of a query, the one that its checkpoint does not have as committed, and it
writes every batch, an empty one by one task (SPARK-23271). So a query's newest decision is about the batch that is
being written, or about the one before it. Everything else means that checkpoint and topic do not belong together, and
is refused: to continue would lose rows or write them twice. The option `resolveBatches` overrides a refusal.

Start at `judge`.
"""

from __future__ import annotations

from enum import Enum

from kafkaraw.errors import UsageError
from kafkaraw.spark.options.resolutions import Resolution
from kafkaraw.spark.writing.decision import Decision


class Verdict(Enum):
    """What to do with a micro-batch."""

    WRITE = "write it: it is not decided"
    REPEAT = "bring its transactions to their end, and write only those that are aborted"
    SKIP = "take it as written"


def judge(
    query_id: str,
    batch_id: int,
    last: Decision | None,
    lost: Decision | None,
    resolutions: tuple[Resolution, ...],
) -> Verdict:
    """Decide what to do with a batch.

    Args:
        query_id: the query.
        batch_id: the micro-batch.
        last: the query's newest decision.
        lost: a later decision that was in the topic before.
        resolutions: values of the option `resolveBatches`.

    Raises:
        UsageError: checkpoint and decisions do not belong together; the message says what to do.
    """
    resolution = resolution_of(batch_id, last, resolutions)
    if resolution is not None:
        return Verdict.WRITE if resolution.write else Verdict.SKIP
    if lost is not None:
        raise _error(
            f"batch {batch_id} of query {query_id}: batch {lost.batch_id} was decided before, and the topic of "
            f"decisions {_has(last)}: the topic was deleted, created again or truncated, so that it is not known "
            f"which rows are written already",
            batch_id,
            batch_id,
            last,
        )
    if last is None:
        if batch_id == 0:
            return Verdict.WRITE
        raise _error(
            f"batch {batch_id} of query {query_id}: the topic of decisions has no decision about this query, and "
            f"should have one about batch {batch_id - 1}: the topic was deleted, or the option decisionsTopic has "
            f"changed, or the query did not write with exactlyOnce=true before",
            batch_id,
            batch_id,
            last,
        )
    if last.batch_id > batch_id:
        raise _error(
            f"batch {batch_id} of query {query_id}: a later one, batch {last.batch_id}, is decided: the "
            f"checkpoint is an "
            f"older one that was restored, or a copy of a checkpoint that another query uses. Rows that are planned "
            f"for this batch now may be written already, or not",
            batch_id,
            last.batch_id,
            last,
        )
    if last.batch_id == batch_id:
        return Verdict.SKIP if last.skipped else Verdict.REPEAT
    if last.batch_id < batch_id - 1:
        raise _error(
            f"batch {batch_id} of query {query_id}: the newest decision is about batch {last.batch_id} and should be "
            f"about batch {batch_id - 1}: decisions are gone, or the query wrote without exactlyOnce=true or with "
            f"another decisionsTopic meanwhile",
            batch_id,
            batch_id,
            last,
        )
    return Verdict.WRITE


def resolution_of(batch_id: int, last: Decision | None, resolutions: tuple[Resolution, ...]) -> Resolution | None:
    """Return the resolution for a batch: it names the newest decision, or that there is none."""
    offset = None if last is None else last.offset
    for resolution in resolutions:
        if resolution.first <= batch_id <= resolution.last and resolution.decision_offset == offset:
            return resolution
    return None


def changed_plan(decided: Decision, now: str) -> UsageError:
    """Return the error for another number of tasks."""
    return _error(
        f"batch {decided.batch_id} of query {decided.query_id} was written by {len(decided.slots)} tasks "
        f"before and has "
        f"{now} now: the plan has changed, so that it is not known which rows are written already. Run this one batch "
        f"with the plan, the number of partitions and the options that it had at first",
        decided.batch_id,
        decided.batch_id,
        decided,
    )


def lost_decision(query_id: str, batch_id: int) -> UsageError:
    """Return the error for a query without decisions, although its driver has committed one."""
    return _error(
        f"batch {batch_id} of query {query_id}: the topic of decisions has no decision about this query, and its "
        f"driver has committed one: the topic was deleted, created again or truncated, so that it is not known which "
        f"rows are written already",
        batch_id,
        batch_id,
        None,
    )


def unknown_outcome(decided: Decision, slot: str, log_start_offset: int) -> UsageError:
    """Return the error for a decided transaction if the topic does not show how it ended."""
    return _error(
        f"it is not known whether slot {slot} of batch {decided.batch_id} is committed: its marker is gone, and the "
        f"topic of decisions begins at offset {log_start_offset} now. Records of the topic were deleted",
        decided.batch_id,
        decided.batch_id,
        decided,
    )


def other_rows(decided: Decision, before: object, now: object) -> UsageError:
    """Return the error for rows that differ from those that were written."""
    return _error(
        f"batch {decided.batch_id} of query {decided.query_id} has other rows than when it was written: then {before}, "
        f"now {now}. Either the checkpoint is an older one that was restored, or a copy, and the batch was planned "
        f"again; or the query does not give the same rows again (such as with rand() or uuid())",
        decided.batch_id,
        decided.batch_id,
        decided,
    )


def _has(last: Decision | None) -> str:
    return "has none about this query now" if last is None else f"ends with batch {last.batch_id} now"


def _error(what: str, batch_id: int, last_batch_id: int, last: Decision | None) -> UsageError:
    """Return the error, with a hint what to do."""
    write = Resolution(batch_id, batch_id, None if last is None else last.offset, write=True)
    skip = Resolution(batch_id, last_batch_id, write.decision_offset, write=False)
    return UsageError(
        f"{what}. Nothing was written. Use the checkpoint that belongs to these decisions, or start the query with a "
        f"new checkpoint; or find out what the topic has, and set the option resolveBatches to {write} to write the "
        f"batch as it is planned now, although rows may then be there twice, or to {skip} to take "
        f"{'it' if skip.first == skip.last else f'batches {skip.first} to {skip.last}'} as written"
    )
