"""A change to a consumer group: decided on a copy, as records, which takes the group's place once they are written.

Source: the timeline of org.apache.kafka.coordinator.common.runtime.SnapshottableCoordinator, put another way.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkaraw.broker.groups.classic_group import ClassicGroup
from kafkaraw.broker.groups.consumer_group import ConsumerGroup
from kafkaraw.broker.groups.means import Done
from kafkaraw.broker.groups.records import GroupRecord
from kafkaraw.light_classes import dataclass, field


@dataclass(slots=True)
class Change:
    """What is decided for a group.

    Attributes:
        group: as it is then.
        records: what makes it so.
        after: what is to be done when these are in the log.
        becomes: the classic group that takes its place, when the last member of the new protocol has gone.
    """

    group: ConsumerGroup
    records: list[GroupRecord] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    becomes: ClassicGroup | None = None

    def add(self, *records: GroupRecord) -> None:
        """Have something else be so."""
        for record in records:
            self.records.append(record)
            self.group.replay(record)


Begin = Callable[[str, bool], Change]
"""Gives the change that a request is to make; told the group's id, and whether to found it."""
CarryOut = Callable[[Change, Done], None]
"""Writes a change down, and calls back once it cannot be lost."""
