"""What a membership state machine and its driver exchange: events go in, actions come out. Plain values only.

Both group protocols use the same events and actions, so the driver (`client/groups/membership.py`) does not know which
protocol it drives. The machines are in `classic.py` and `consumer.py`. Events and actions are named tuples, because
each dataclass would add to the time that importing the package takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.errors import KafkaError
from kafkaraw.light_classes import NamedTuple, dataclass, field
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.declare import Request, Response
from kafkaraw.records import TopicPartition

Partitions: TypeAlias = frozenset[TopicPartition]
NONE: Final[Partitions] = frozenset()
HEARTBEATS: Final = frozenset({12, 68})
"""The APIs that keep a member in its group: Heartbeat, ConsumerGroupHeartbeat."""


# ---- values


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a member.

    Attributes:
        max_poll_interval_ms: maximum time between two calls to poll; None for no limit.
        assignors: the assignors that this member supports, in order of preference. Classic protocol only.
        server_assignor: the broker's assignor; None for the broker's choice. Consumer protocol only.
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
        """How long the coordinator waits for this member in a rebalance: `max_poll_interval_ms`, as in Java."""
        return 2**31 - 1 if self.max_poll_interval_ms is None else self.max_poll_interval_ms


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member is subscribed to.

    Attributes:
        topics: names of topics; of a regex that the client evaluates, the topics that match it now.
        pattern: a regex that the broker evaluates (RE2). Consumer protocol only.
        matches: the regex that the client evaluates: a leader may know more matching topics than this member.
    """

    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    matches: Callable[[str], bool] | None = field(default=None, compare=False)

    def covers(self, topic: str) -> bool:
        """Return whether partitions of this topic may be assigned to the member."""
        return topic in self.topics or (self.matches is not None and self.matches(topic))


@dataclass(frozen=True, slots=True)
class AssignmentChange:
    """What the rebalance listener must be called with before the member goes on, in this order.

    Attributes:
        lost: partitions that other members may own already: no more commits for them.
        revoked: partitions to revoke.
        assigned: new partitions; None if `on_assigned` is not called.
        after: the partitions that the member owns when the listener has returned.
    """

    lost: Partitions = NONE
    revoked: Partitions = NONE
    assigned: Partitions | None = None
    after: Partitions = NONE


# ---- events: what happened


class SubscriptionChanged(NamedTuple):
    """The consumer subscribes, or its regex matches other topics now. A member that is not in the group joins it."""

    subscription: Subscription


class Unsubscribed(NamedTuple):
    """The consumer unsubscribes or closes; the rebalance listener has been called for all its partitions."""

    reason: str


class PollStarted(NamedTuple):
    """The application calls a method that returns records."""


class PollEnded(NamedTuple):
    """That call ends."""


class RecordsConsumed(NamedTuple):
    """The application has taken records from the last batch without a call to poll."""


class ReconciliationStarted(NamedTuple):
    """The rebalance listener is being called with the pending change."""


class ReconciliationCompleted(NamedTuple):
    """The rebalance listener has returned: the member owns the partitions in `AssignmentChange.after`."""


class ErrorReported(NamedTuple):
    """A call of the application has raised the member's error."""


class ResponseReceived(NamedTuple):
    """The coordinator has answered the request of this attempt."""

    attempt: int
    response: object


class RequestFailed(NamedTuple):
    """The action of this attempt failed: no coordinator, no response, or no metadata."""

    attempt: int
    error: KafkaError


class TopicsFound(NamedTuple):
    """The result of `FindTopics`: the topics that exist."""

    attempt: int
    topics: Topics


class TopicsRefreshed(NamedTuple):
    """The metadata of the watched topics, as the client knows them now."""

    topics: Topics


class TopicNamesFound(NamedTuple):
    """`FindTopicNames` has ended: the names are known, except for topics that no broker knows."""

    attempt: int


class CommitRejected(NamedTuple):
    """The coordinator rejected a commit because of the member id or the generation that it was sent with."""

    error_code: int
    generation_id: int


Event: TypeAlias = (
    SubscriptionChanged
    | Unsubscribed
    | PollStarted
    | PollEnded
    | RecordsConsumed
    | ReconciliationStarted
    | ReconciliationCompleted
    | ErrorReported
    | ResponseReceived
    | RequestFailed
    | TopicsFound
    | TopicsRefreshed
    | TopicNamesFound
    | CommitRejected
)


# ---- actions: what to do


class Send(NamedTuple):
    """Send a request to the coordinator; answered by `ResponseReceived` or `RequestFailed` with `attempt`.

    Attributes:
        api_key: the API of the request.
        make: builds the request for the negotiated version.
        attempt: identifies this request; the member ignores responses to earlier ones.
        timeout_ms: how long to wait for the response.
        blocks: the coordinator may delay the response (JoinGroup, SyncGroup), so it needs a connection of its own.
    """

    api_key: int
    make: Callable[[int], Request[Response]]
    attempt: int
    timeout_ms: int
    blocks: bool = False


class FindTopics(NamedTuple):
    """Fetch the metadata of topics for the leader; answered by `TopicsFound` or `RequestFailed`."""

    topics: tuple[str, ...]
    attempt: int


class FindTopicNames(NamedTuple):
    """Fetch the names of topics that are known by id; answered by `TopicNamesFound` or `RequestFailed`."""

    topic_ids: tuple[Uuid, ...]
    attempt: int


class LeaveGroup(NamedTuple):
    """Send a leave request to the coordinator; the member does not wait for the response.

    Attributes:
        api_key: the API of the request.
        make: builds the request for the negotiated version.
        reason: for the log.
    """

    api_key: int
    make: Callable[[int], Request[Response]]
    reason: str


Action: TypeAlias = Send | FindTopics | FindTopicNames | LeaveGroup
