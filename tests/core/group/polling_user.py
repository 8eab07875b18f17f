"""A member's user, who is told what there is to tell when they poll; for members of either protocol.

What they were being told when a call's time was up is gone on with by the next call; it is `half_told` until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kafkaraw.core.group.actions import Handover
from kafkaraw.core.group.member import GroupMember

MemberT = TypeVar("MemberT", bound=GroupMember)


class PolledMember(Generic[MemberT]):
    """A member and its user.

    Args:
        member: of the group.

    Attributes:
        told: what the user was told, in order.
        half_told: what they are being told; None between two handovers.
    """

    def __init__(self, member: MemberT) -> None:
        self.member = member
        self.now_ms = 0
        self.told: list[Handover] = []
        self.half_told: Handover | None = None

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.member.tick(self.now_ms)

    def poll(self, then: Callable[[], object] = lambda: None, *, in_time: bool = True) -> Handover | None:
        """A call of the user, who is told what there is to tell; if the time is up before, the next call goes on."""
        self.member.user_comes(self.now_ms)
        try:
            problem = self.member.take_problem(self.now_ms)
            if problem is not None:
                raise problem
            self.half_told = handover = self.half_told or self.member.begin_handover()
            if handover is not None and in_time:
                then()
                self.told.append(handover)
                self.half_told = None
                self.member.end_handover(self.now_ms)
            return handover
        finally:
            self.member.user_goes(self.now_ms)
