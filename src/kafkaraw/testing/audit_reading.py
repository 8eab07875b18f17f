"""The auditor of the tasks that read ranges of offsets for Spark: a task ends if its position advances.

A task waits for its leader, but not without limit: it fails if its position does not change for `patience_s`. Ranges
without records, of aborted transactions or emptied by compaction, are progress. Fill in `ReadTask` from what a consumer
was asked, on any clock, and pass it to `audit_tasks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkaraw.testing.invariants import Invariant, Violation


@dataclass
class ReadTask:
    """One task, in seconds on one clock.

    Attributes:
        name: name of the task.
        patience_s: the longest time without a change of its position.
        began_s: when it began.
        advanced_s: when its position advanced, in order.
        gave_up_s: when it ended with a timeout; None if it did not.
        ended_s: when it ended otherwise; None if it did not.
        deadline_s: by when it must have ended, in either way.
    """

    name: str
    patience_s: float
    began_s: float = 0.0
    advanced_s: list[float] = field(default_factory=list)
    gave_up_s: float | None = None
    ended_s: float | None = None
    deadline_s: float = float("inf")


def audit_tasks(tasks: Iterable[ReadTask]) -> list[Violation]:
    """Return all violations; an empty list if there are none.

    Args:
        tasks: the tasks of one run.
    """
    return [violation for task in tasks for violation in _violations(task)]


def _violations(task: ReadTask) -> list[Violation]:
    last_s = max([task.began_s, *task.advanced_s])
    if task.gave_up_s is not None and task.gave_up_s - last_s < task.patience_s:
        what = f"{task.name} gave up at {task.gave_up_s:.3f} s, its position had advanced at {last_s:.3f} s"
        return [Violation(Invariant.GAVE_UP_WHILE_ADVANCING, f"{what}, its patience is {task.patience_s:g} s")]
    end_s = task.ended_s if task.gave_up_s is None else task.gave_up_s
    if end_s is None or end_s > task.deadline_s:
        return [Violation(Invariant.OVERDUE, f"{task.name} had not ended at {task.deadline_s:.3f} s")]
    return []
