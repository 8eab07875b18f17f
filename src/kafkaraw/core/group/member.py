"""What the two membership state machines are composed of, and the interface that their driver uses. Pure.

`GroupMember` is the interface: `receive(event, now_ms)` takes an event, `actions()` returns what to do, `deadline_ms()`
says when to call `tick(now_ms)`. `ClassicMember` and `ConsumerMember` implement it. They share no base class, but these
parts: `MemberIdentity`, `Reconciler`, `PollTimer`, `Heartbeat`, `Requests`, `MemberMetrics`. No part calls a machine.
Source: Kafka's AbstractCoordinator, AbstractMembershipManager and AbstractHeartbeatRequestManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kafkaraw.core.group.events import (
    NONE,
    Action,
    AssignmentChange,
    Event,
    FindTopicNames,
    FindTopics,
    GroupSettings,
    LeaveGroup,
    Partitions,
    PollEnded,
    PollStarted,
    RecordsConsumed,
    Send,
)
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import FencedInstanceIdError, KafkaError, MaxPollExceededError
from kafkaraw.light_classes import dataclass
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.declare import Request, Response

log: logging.Logger = logging.getLogger(__name__)

NO_GENERATION: Final = -1


@dataclass(slots=True)
class MemberIdentity:
    """What the coordinator knows a member by.

    Attributes:
        member_id: empty while the member has none.
        generation_id: generation of the group (classic protocol) or epoch of the member (consumer protocol); -1 while
            it is not in the group.
    """

    member_id: str = ""
    generation_id: int = NO_GENERATION


class GroupMember(Protocol):
    """The membership state machine of one consumer, of either protocol.

    Attributes:
        settings: the member's settings.
        identity: what the coordinator knows it by.
        reconciler: the partitions that the application owns, and the pending listener calls and errors.
        poll_timer: enforces `max_poll_interval_ms`.
        metrics: counters.
    """

    settings: GroupSettings
    identity: MemberIdentity
    reconciler: Reconciler
    poll_timer: PollTimer
    metrics: MemberMetrics

    # -- the four verbs

    def receive(self, event: Event, now_ms: int) -> None:
        """Take note of something that happened."""

    def actions(self) -> list[Action]:
        """Return what to do now, in order; each action is returned once."""

    def deadline_ms(self) -> int | None:
        """Return when `tick` must be called; None while only an event can change anything."""

    def tick(self, now_ms: int) -> None:
        """Take note that time has passed."""

    # -- questions

    @property
    def description(self) -> str:
        """The state, as the end of a sentence that begins with "the consumer", for logs and errors."""

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance is under way in which no commit succeeds and which ends without a call to poll."""

    @property
    def watched_topics(self) -> Sequence[str]:
        """Topics whose partition changes make this member rejoin."""

    def awaits(self, attempt: int) -> bool:
        """Return whether the response to a request is still of use; otherwise it is not sent any more."""

    def retries_commit(self, error_code: int, generation_id: int) -> bool:
        """Return whether a commit that was rejected with this code may succeed after the rebalance.

        Ask before `CommitRejected` is received.
        """


class Reconciler:
    """Moves the application from the partitions that it owns to those that the group has assigned (KIP-848).

    The machine proposes a change; the next call to poll starts it, calls the rebalance listener, and completes it.

    Attributes:
        owned: partitions that the application may read and commit.
        in_progress: the change that the listener is being called with.
        error: what the next call of the application raises.
    """

    def __init__(self) -> None:
        self.owned: Partitions = NONE
        self.in_progress: AssignmentChange | None = None
        self.error: KafkaError | None = None
        self._pending: AssignmentChange | None = None

    @property
    def pending(self) -> AssignmentChange | None:
        """The change to start next; None while another one is in progress."""
        return self._pending if self.in_progress is None else None

    @property
    def needs_poll(self) -> bool:
        """Whether the next call of the application has to call the listener or to raise an error."""
        return self.pending is not None or self.error is not None

    def propose(self, change: AssignmentChange | None) -> None:
        """Replace the pending change, which has not been started yet."""
        self._pending = change

    def propose_lost(self) -> bool:
        """Propose that all owned partitions are lost; return False if the member owns none."""
        self._pending = AssignmentChange(lost=self.owned) if self.owned else None
        return self._pending is not None

    def fail(self, error: KafkaError) -> None:
        """Have the next call raise an error instead of calling the listener."""
        self.error, self._pending = error, None

    def start(self) -> None:
        """The listener is being called with the pending change."""
        self.in_progress = self.pending

    def complete(self) -> AssignmentChange | None:
        """The listener has returned; return the change, None if none was in progress."""
        change, self.in_progress, self._pending = self.in_progress, None, None
        if change is not None:
            self.owned = change.after
        return change

    def clear(self) -> None:
        """The member leaves the group, and owns nothing any more."""
        self.owned, self._pending, self.error = NONE, None, None


class PollTimer:
    """Enforces `max_poll_interval_ms`: a member whose application is stuck must free its partitions for others.

    It does not run while a call to poll is under way.

    Args:
        interval_ms: maximum time between two calls; None for no limit.

    Attributes:
        is_enabled: whether the application has polled since it subscribed: before that it may take its time.
    """

    def __init__(self, interval_ms: int | None) -> None:
        self._interval_ms = interval_ms
        self.is_enabled: bool = False
        self._calls = 0
        self._reset_ms: int | None = None

    def receive(self, event: PollStarted | PollEnded | RecordsConsumed, now_ms: int) -> None:
        """Restart the interval; a call stops the timer until it ends."""
        match event:
            case PollStarted():
                self.is_enabled = True
                self._calls += 1
            case PollEnded():
                self._calls -= 1
            case RecordsConsumed():
                if self._reset_ms is None:
                    return
        self._reset_ms = now_ms

    def disable(self) -> None:
        """The application has unsubscribed: it does not have to poll."""
        self.is_enabled = False

    def elapsed_ms(self, now_ms: int) -> int:
        """Return the time since the last call; 0 while a call is under way, or before the first."""
        return 0 if self._calls or self._reset_ms is None else now_ms - self._reset_ms

    @property
    def deadline_ms(self) -> int | None:
        """When the interval expires; None for never."""
        if self._calls or self._reset_ms is None or self._interval_ms is None or not self.is_enabled:
            return None
        return self._reset_ms + self._interval_ms

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the interval has expired."""
        deadline_ms = self.deadline_ms
        return deadline_ms is not None and now_ms >= deadline_ms


@dataclass(slots=True)
class Heartbeat:
    """When heartbeats are sent.

    Attributes:
        interval_ms: time between two heartbeats.
        attempt: of the heartbeat that is in flight; 0 for none.
        due_ms: when to send the next one.
    """

    interval_ms: int
    attempt: int = 0
    due_ms: int = 0

    def is_due(self, now_ms: int) -> bool:
        """Return whether to send one now."""
        return not self.attempt and now_ms >= self.due_ms


class Requests:
    """The actions of a member: numbers its requests, and says how long to back off after failures.

    Args:
        backoff: delays between retries.
        rng: jitter.
    """

    def __init__(self, backoff: Backoff, rng: RandomSource) -> None:
        self._backoff = backoff
        self._rng = rng
        self._failures = 0
        self._attempts = 0
        self._actions: list[Action] = []

    def take(self) -> list[Action]:
        """Return the actions since the last call."""
        actions, self._actions = self._actions, []
        return actions

    def send(self, api_key: int, request: Request[Response], timeout_ms: int, *, blocks: bool = False) -> int:
        """Send a request to the coordinator; return its attempt."""
        self._attempts += 1
        self._actions.append(Send(api_key, lambda _: request, self._attempts, timeout_ms, blocks))
        return self._attempts

    def find_topics(self, topics: tuple[str, ...]) -> int:
        """Fetch metadata; return the attempt."""
        self._attempts += 1
        self._actions.append(FindTopics(topics, self._attempts))
        return self._attempts

    def find_topic_names(self, topic_ids: tuple[Uuid, ...]) -> int:
        """Fetch names of topics; return the attempt."""
        self._attempts += 1
        self._actions.append(FindTopicNames(topic_ids, self._attempts))
        return self._attempts

    def leave(self, api_key: int, make: Callable[[int], Request[Response]], reason: str) -> None:
        """Send a leave request."""
        self._actions.append(LeaveGroup(api_key, make, reason))

    def backoff_ms(self) -> int:
        """Count another failure in a row, and return how long to wait after it."""
        self._failures += 1
        return round(self._backoff.delay_ms(self._failures - 1, self._rng))

    def succeeded(self) -> None:
        """The coordinator has accepted a request: the next failure is the first one again."""
        self._failures = 0


@dataclass(slots=True)
class MemberMetrics:
    """Counters of a member.

    Attributes:
        rebalances: rebalances that ended with an assignment.
        rebalance_ms: total time from the start of a rebalance to its assignment.
        rebalance_ms_max: the longest of them.
        losses: how often the member was fenced, or was too late to know that it was not.
        heartbeats: heartbeats that the coordinator accepted.
        rebalanced_at_ms: when the last rebalance ended; None before the first.
        heartbeat_at_ms: when the last heartbeat was accepted; None before the first.
        rebalance_began_ms: when the rebalance under way began; None if none is.
    """

    rebalances: int = 0
    rebalance_ms: int = 0
    rebalance_ms_max: int = 0
    losses: int = 0
    heartbeats: int = 0
    rebalanced_at_ms: int | None = None
    heartbeat_at_ms: int | None = None
    rebalance_began_ms: int | None = None

    def heartbeat_accepted(self, now_ms: int) -> None:
        """The coordinator has accepted a heartbeat."""
        self.heartbeats += 1
        self.heartbeat_at_ms = now_ms

    def rebalance_begins(self, now_ms: int) -> None:
        """A rebalance begins, unless one is under way."""
        if self.rebalance_began_ms is None:
            self.rebalance_began_ms = now_ms

    def rebalance_ends(self, now_ms: int) -> None:
        """The rebalance under way has ended with an assignment."""
        if self.rebalance_began_ms is not None:
            took_ms = now_ms - self.rebalance_began_ms
            self.rebalances += 1
            self.rebalance_ms += took_ms
            self.rebalance_ms_max = max(self.rebalance_ms_max, took_ms)
            self.rebalanced_at_ms = now_ms
            self.rebalance_began_ms = None


def poll_timeout_error(settings: GroupSettings, elapsed_ms: int) -> MaxPollExceededError:
    """Return the error of a member that left the group because the application did not poll in time."""
    return MaxPollExceededError(
        f"the consumer has left group {settings.group_id!r}: the application did not poll for "
        f"{elapsed_ms / 1000:g} s, more than max_poll_interval_ms={settings.max_poll_interval_ms}; call poll() more "
        f"often, ask it for fewer records with max_poll_records, or set max_poll_interval_ms higher (None for no "
        f"limit); the next call joins again"
    )


def log_error(settings: GroupSettings, error: KafkaError) -> None:
    """Log one line about an error that the next call raises; most of them name the group themselves."""
    text, group = str(error), f"group {settings.group_id!r}"
    log.error("%s", text if group in text else f"{group}: {text}")


def is_final(error: KafkaError) -> bool:
    """Return whether the member must not rejoin: it would fence the member that has taken its instance id over."""
    return isinstance(error, FencedInstanceIdError)
