"""A member and the application that polls, of either group protocol.

A call to poll whose time is up leaves the reconciliation in progress; the next call completes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kafkaraw.core.group.events import (
    AssignmentChange,
    CommitRejected,
    ErrorReported,
    Event,
    Partitions,
    PollEnded,
    PollStarted,
    ReconciliationCompleted,
    ReconciliationStarted,
)
from kafkaraw.core.group.member import GroupMember

MemberT = TypeVar("MemberT", bound=GroupMember)


class PolledMember(Generic[MemberT]):
    """A member and its application.

    Args:
        member: of the group.

    Attributes:
        reconciled: the changes that the rebalance listener was called with, in order.
        in_progress: the change of a call whose time was up; None between two changes.
    """

    def __init__(self, member: MemberT) -> None:
        self.member = member
        self.now_ms = 0
        self.reconciled: list[AssignmentChange] = []
        self.in_progress: AssignmentChange | None = None

    def receive(self, event: Event) -> None:
        self.member.receive(event, self.now_ms)

    @property
    def owned(self) -> Partitions:
        return self.member.reconciler.owned

    def reject_commit(self, error_code: int, generation_id: int) -> bool:
        """The coordinator rejects a commit; return whether it is tried again."""
        retries = self.member.retries_commit(error_code, generation_id)
        self.receive(CommitRejected(error_code, generation_id))
        return retries

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.member.tick(self.now_ms)

    def poll(self, then: Callable[[], object] = lambda: None, *, in_time: bool = True) -> AssignmentChange | None:
        """A call to poll, which calls the listener if a change is pending; `then` runs in the listener."""
        self.receive(PollStarted())
        try:
            error = self.member.reconciler.error
            if error is not None:
                self.receive(ErrorReported())
                raise error
            if self.in_progress is None and self.member.reconciler.pending is not None:
                self.in_progress = self.member.reconciler.pending
                self.receive(ReconciliationStarted())
            change = self.in_progress
            if change is not None and in_time:
                then()
                self.reconciled.append(change)
                self.in_progress = None
                self.receive(ReconciliationCompleted())
            return change
        finally:
            self.receive(PollEnded())
