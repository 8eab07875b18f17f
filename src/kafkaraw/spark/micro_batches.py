"""Which query, micro-batch and run a task of Spark works for, by the local properties that Spark passes to tasks.

Start at `micro_batch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkaraw.errors import UsageError

if TYPE_CHECKING:
    from pyspark import TaskContext

QUERY_ID: Final = "sql.streaming.queryId"
RUN_ID: Final = "spark.jobGroup.id"
"""The job group that StreamExecution sets for its jobs."""
_BATCH_ID: Final = "streaming.sql.batchId"


def task_context(needed_by: str = "") -> TaskContext:
    """Return the context of the task that runs this.

    Args:
        needed_by: how the message of the error begins.

    Raises:
        UsageError: no task runs this.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise UsageError(f"{needed_by}this is not a task of Spark")
    return context


def micro_batch(context: TaskContext) -> tuple[str, int] | None:
    """Return the id of the query and the number of the micro-batch; None if Spark does not pass them."""
    query_id, number = context.getLocalProperty(QUERY_ID), context.getLocalProperty(_BATCH_ID)
    return None if query_id is None or number is None else (query_id, int(number))
