"""What a membership machine wants done, and what it hands over to its user. Pure values.

Both protocols speak this language, so that `client/groups/membership.py` need not know which one it drives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafkaraw.core.group.assignors import Assignor
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol import Uuid
from kafkaraw.records import TopicPartition

Partitions = frozenset[TopicPartition]
NONE: Partitions = frozenset()
HEARTBEATS: Final = frozenset({12, 68})
"""The APIs that keep a member in its group: Heartbeat, ConsumerGroupHeartbeat."""


@dataclass(frozen=True, slots=True)
class Send:
    """A request to the coordinator; the answer goes to `answered`, a failure to `unanswered`, both with `attempt`.

    Attributes:
        api_key: which API it is of.
        make: makes the request for the version that was negotiated.
        attempt: tells this request from earlier ones, whose answers come too late.
        wait_ms: how long an answer may take.
        held: the coordinator may keep it for long, so it must not stand in the way of others.
    """

    api_key: int
    make: Callable[[int], object]
    attempt: int
    wait_ms: int
    held: bool = False


@dataclass(frozen=True, slots=True)
class FindTopics:
    """The leader needs to know the partitions of these topics; the answer goes to `topics_found`."""

    topics: tuple[str, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class FindNames:
    """The member needs to know the names of these topics; the answer goes to `names_found`."""

    topic_ids: tuple[Uuid, ...]
    attempt: int


@dataclass(frozen=True, slots=True)
class Part:
    """Tell the coordinator that this member leaves; nobody waits for the answer.

    Attributes:
        api_key: of the request.
        make: makes the request for the version that was negotiated.
        reason: for the log.
    """

    api_key: int
    make: Callable[[int], object]
    reason: str


Action = Send | FindTopics | FindNames | Part


@dataclass(frozen=True, slots=True)
class Handover:
    """What the user must be told before the member goes on, in this order.

    Attributes:
        lost: partitions that others may have already: no more commits for them.
        revoked: partitions to give up.
        assigned: partitions that are new; None when nothing is said about that.
        after: what the member has when all is told.
    """

    lost: Partitions = NONE
    revoked: Partitions = NONE
    assigned: Partitions | None = None
    after: Partitions = NONE


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a member is subscribed to.

    Attributes:
        topics: names; of a pattern, those that match just now.
        pattern: a regular expression that the broker applies, of the protocol of KIP-848.
        may_grow: names come from a pattern of the client's, so the leader may know more of them.
    """

    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    may_grow: Callable[[str], bool] | None = field(default=None, compare=False)

    def covers(self, topic: str) -> bool:
        """Whether a partition of this topic may be assigned."""
        return topic in self.topics or (self.may_grow is not None and self.may_grow(topic))


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a member.

    Attributes:
        max_poll_interval_ms: how long the user may stay away; None for ever.
        assignors: what this member can do, the preferred one first.
        server_assignor: of the protocol of KIP-848; None for the broker's choice.
    """

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int | None = 300_000
    request_timeout_ms: int = 30_000
    rack_id: str | None = None
    assignors: Sequence[Assignor] = ()
    server_assignor: str | None = None

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the coordinator waits for this member in a rebalance: as long as its user may stay away."""
        return 2**31 - 1 if self.max_poll_interval_ms is None else self.max_poll_interval_ms
