"""A record of what the members of a group observed, for `audit_groups`.

    ownerships          which member owned which partition, from when to when, and what it processed
    commits             offsets that members committed, by hand or automatically
    seeks               offsets to which a member sought
    observed_offsets    committed offsets as the group returned them to an observer
    absences            when a client had left its group

All times are in seconds on one clock. This module does not judge, and takes nothing from inside a broker, with one
exception: a group without members was deleted and another one began under its name, which members cannot know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafkaraw.records import TopicPartition


class End(StrEnum):
    """How an ownership ended."""

    REVOKED = "revoked"
    """`on_revoked`: the member was asked to release the partition."""
    LOST = "lost"
    """`on_lost`: other members may own the partition already."""
    CRASHED = "crashed"
    """The member ended without a callback."""


class KnownGeneration(NamedTuple):
    """The generation, or epoch, in which a member believed itself to be at some time; -1 for none.

    If a group begins anew, as an empty one does when its next member uses the other protocol, its generations start
    again: `life` is the number of times that this had happened before.
    """

    at_s: float
    generation: int
    life: int = 0


class Processed(NamedTuple):
    """A record that a member has processed."""

    at_s: float
    offset: int
    value: bytes


@dataclass(eq=False)
class Ownership:
    """The time between `on_assigned` and `on_revoked` or `on_lost` of a partition, or the end of the member.

    Attributes:
        member: the member.
        topic_partition: the partition that it owns.
        began_s: when the ownership began.
        generations: the generations in which the member believed itself to be.
        processed: the records that it processed.
        ended_s: when the ownership ended; None while it lasts.
        end: how the ownership ended; None while it lasts.
    """

    member: str
    topic_partition: TopicPartition
    began_s: float
    generations: list[KnownGeneration] = field(default_factory=list)
    processed: list[Processed] = field(default_factory=list)
    ended_s: float | None = None
    end: End | None = None

    def lasts_at(self, at_s: float) -> bool:
        """Return whether it had begun before, and had not ended."""
        return self.began_s <= at_s and (self.ended_s is None or at_s < self.ended_s)


@dataclass(eq=False)
class Commit:
    """Offsets that a member committed.

    Attributes:
        member: the member.
        positions: the offsets.
        began_s: when the member called commit.
        ended_s: when the commit completed or failed; None if it never did.
        acknowledged: whether the offsets were committed.
    """

    member: str
    positions: Mapping[TopicPartition, int]
    began_s: float
    ended_s: float | None = None
    acknowledged: bool = False


@dataclass(eq=False)
class Seek:
    """A seek of a member in a partition that it owns.

    Attributes:
        member: the member.
        topic_partition: the partition.
        at_s: when the member sought.
        offset: the offset to which it sought.
        delivered: the offset of the next record delivered; None if none was delivered before something else happened.
    """

    member: str
    topic_partition: TopicPartition
    at_s: float
    offset: int
    delivered: int | None = None


class ObservedOffsets(NamedTuple):
    """Committed offsets that an observer requested from the group; -1 where there was none."""

    asked_s: float
    answered_s: float
    positions: Mapping[TopicPartition, int]


class Absence(NamedTuple):
    """A period in which a client was in no group, and knew it."""

    client: str
    from_s: float
    until_s: float


@dataclass
class GroupHistory:
    """What the members of one group observed.

    Attributes:
        ownerships: in the order in which they began.
        commits: in the order of the calls.
        seeks: in the order of the calls.
        observed_offsets: in the order of the responses.
        absences: in any order.
        strays: records delivered to members that did not own their partition, or had paused it.
        life: how often the group has been deleted and begun anew so far.
        exact: no member crashed or was fenced, and all commit before they revoke: nothing is processed twice.
        partitions: the partitions that must have an owner in the end.
        calm_since_s: from then on there are no faults, joins and leaves; None if that was not reached.
        calm_until_s: the end of that period.
        bound_s: the time from then on within which every partition is owned and every record processed.
    """

    ownerships: list[Ownership] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    seeks: list[Seek] = field(default_factory=list)
    observed_offsets: list[ObservedOffsets] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    life: int = 0
    exact: bool = False
    partitions: list[TopicPartition] = field(default_factory=list)
    calm_since_s: float | None = None
    calm_until_s: float | None = None
    bound_s: float = 30.0

    def of(self, topic_partition: TopicPartition) -> list[Ownership]:
        """Return the ownerships of one partition, in the order in which they began."""
        return [ownership for ownership in self.ownerships if ownership.topic_partition == topic_partition]

    def was_sought(self, topic_partition: TopicPartition, offset: int, since_s: float, until_s: float) -> bool:
        """Return whether a member sought this offset, or one before it, between two times."""
        return any(
            seek.topic_partition == topic_partition and seek.offset <= offset and since_s <= seek.at_s <= until_s
            for seek in self.seeks
        )
