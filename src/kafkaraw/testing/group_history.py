"""What the members of a group saw, written down for `audit_groups`.

    tenures      who had which partition, from when to when, and what was done with it
    commits      positions that members asked to store, by hand or automatically
    seeks        where a member wanted to go on
    sightings    positions as the group showed them to an onlooker
    silences     when a client had left its group

All times are in seconds on one clock. Nothing here judges; nothing here comes from inside a broker, but when a group
without members went and another one began under its name, which members cannot know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafkaraw.records import TopicPartition


class End(StrEnum):
    """How a tenure ended."""

    REVOKED = "revoked"
    """The member was asked to give the partition up."""
    LOST = "lost"
    """It was told that others may have it."""
    CRASHED = "crashed"
    """It was gone from one moment to the next."""


class Standing(NamedTuple):
    """The generation, or epoch, in which a member believed itself to be at some time; -1 for none.

    A group that begins anew, as one that is empty does when its next member takes the other protocol, counts from the
    start again: `life` says how often that had happened before.
    """

    at_s: float
    generation: int
    life: int = 0


class Processed(NamedTuple):
    """A record that a member is done with."""

    at_s: float
    offset: int
    value: bytes


@dataclass(eq=False)
class Tenure:
    """The time between the callback that gives a partition and the one that takes it, or the end of the member.

    Attributes:
        member: who has it.
        topic_partition: what it has.
        began_s: when.
        standings: what it believed meanwhile.
        processed: what it did meanwhile.
        ended_s: when; None while it lasts.
        end: how; None while it lasts.
    """

    member: str
    topic_partition: TopicPartition
    began_s: float
    standings: list[Standing] = field(default_factory=list)
    processed: list[Processed] = field(default_factory=list)
    ended_s: float | None = None
    end: End | None = None

    def lasts_at(self, at_s: float) -> bool:
        """Whether it had begun before, and had not ended."""
        return self.began_s <= at_s and (self.ended_s is None or at_s < self.ended_s)


@dataclass(eq=False)
class Commit:
    """Positions that a member asked to store.

    Attributes:
        member: who.
        positions: what.
        began_s: when.
        ended_s: when it was told of the end; None when it never was.
        acknowledged: whether they were stored.
    """

    member: str
    positions: Mapping[TopicPartition, int]
    began_s: float
    ended_s: float | None = None
    acknowledged: bool = False


@dataclass(eq=False)
class Seek:
    """A member that wanted to go on somewhere else in a partition of its own.

    Attributes:
        member: who.
        topic_partition: where.
        at_s: when.
        offset: of the record that it wanted next.
        given: the offset that it was given next; None when it was given nothing before something else happened.
    """

    member: str
    topic_partition: TopicPartition
    at_s: float
    offset: int
    given: int | None = None


class Sighting(NamedTuple):
    """Positions that somebody asked the group for; -1 where it had none."""

    asked_s: float
    answered_s: float
    positions: Mapping[TopicPartition, int]


class Silence(NamedTuple):
    """A client that was in no group between two times, and knew it."""

    client: str
    from_s: float
    until_s: float


@dataclass
class GroupHistory:
    """What the members of one group saw.

    Attributes:
        tenures: in the order in which they began.
        commits: in the order in which they were asked for.
        seeks: in the order in which they were made.
        sightings: in the order in which they were answered.
        silences: in any order.
        strays: records that were handed out to members which had not got, or had given up or paused, their partition.
        life: how often the group has gone and begun anew by now.
        exact: nobody crashed or was thrown out, and all commit what they give up: nothing is processed twice.
        partitions: what somebody should have in the end.
        calm_since_s: nothing goes wrong any more, and nobody comes or goes; None when that was not reached.
        calm_until_s: until then.
        bound_s: how long it may take from then on until every partition is owned and every record processed.
    """

    tenures: list[Tenure] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    seeks: list[Seek] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    life: int = 0
    exact: bool = False
    partitions: list[TopicPartition] = field(default_factory=list)
    calm_since_s: float | None = None
    calm_until_s: float | None = None
    bound_s: float = 30.0

    def of(self, topic_partition: TopicPartition) -> list[Tenure]:
        """The tenures of one partition, in the order in which they began."""
        return [tenure for tenure in self.tenures if tenure.topic_partition == topic_partition]

    def was_sought(self, topic_partition: TopicPartition, offset: int, since_s: float, until_s: float) -> bool:
        """Whether somebody wanted to go on at this offset, or before it, between two times."""
        return any(
            seek.topic_partition == topic_partition and seek.offset <= offset and since_s <= seek.at_s <= until_s
            for seek in self.seeks
        )
