"""The judge of read tasks."""

from __future__ import annotations

from kafkaraw.testing.audit_reading import ReadTask, audit_tasks
from kafkaraw.testing.invariants import Invariant


def test_a_task_may_give_up_when_its_position_has_stood_still_for_its_patience() -> None:
    assert audit_tasks([ReadTask("task", 30, advanced_s=[1, 20], gave_up_s=50)]) == []
    assert audit_tasks([ReadTask("task", 30, gave_up_s=30)]) == []


def test_a_task_that_gives_up_while_its_position_advances_is_found() -> None:
    (violation,) = audit_tasks([ReadTask("task", 30, advanced_s=[1, 20], gave_up_s=49)])
    assert violation.invariant is Invariant.GAVE_UP_WHILE_ADVANCING
    assert violation.what == "task gave up at 49.000 s, its position had advanced at 20.000 s, its patience is 30 s"


def test_a_task_that_never_ends_is_found() -> None:
    (violation,) = audit_tasks([ReadTask("task", 30, deadline_s=100)])
    assert violation.invariant is Invariant.OVERDUE
