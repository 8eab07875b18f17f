"""When a group goes that nobody is in, and another one begins under its name: its generations count from the start.

That happens inside of brokers, when the next member takes the other protocol; members cannot know it. Nothing else of
brokers is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafkaraw.broker.groups.classic_group import ClassicGroup
from kafkaraw.broker.groups.consumer_group import ConsumerGroup
from kafkaraw.broker.groups.coordinator import GroupCoordinator


@contextmanager
def told_of_beginnings(begins_anew: Callable[[], None]) -> Iterator[None]:
    """While this lasts, have a function called whenever a group begins anew."""
    carry_out, found = GroupCoordinator._commit_change, GroupCoordinator._create_group

    def carry_out_and_tell(self, change, done):
        before = self._groups.get(change.group.group_id)
        if isinstance(before, ClassicGroup) and before.is_empty and isinstance(change.group, ConsumerGroup):
            begins_anew()
        carry_out(self, change, done)

    def found_and_tell(self, request, caller, answer, *, instead_of):
        if instead_of is not None:
            begins_anew()
        found(self, request, caller, answer, instead_of=instead_of)

    GroupCoordinator._commit_change, GroupCoordinator._create_group = carry_out_and_tell, found_and_tell
    try:
        yield
    finally:
        GroupCoordinator._commit_change, GroupCoordinator._create_group = carry_out, found
