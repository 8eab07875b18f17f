"""Membership in a group of the consumer protocol (KIP-848): the broker assigns, and heartbeats are all requests. Pure.

A heartbeat says what has changed since the last one, and its response may bring a new target assignment. The next call
to poll reconciles: it calls the rebalance listener; then a heartbeat says what the member owns, and the broker goes on.
After an error the member does not know what the broker knows of it, so the next heartbeat says everything.
Start at `ConsumerMember.receive`, then `_send_heartbeat` and `_on_target`.
Source: KIP-848, KIP-1082; Kafka's ConsumerMembershipManager and ConsumerHeartbeatRequestManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from kafkaraw.core.group.error_tables import CONSUMER, Meaning
from kafkaraw.core.group.events import (
    Action,
    AssignmentChange,
    CommitRejected,
    ErrorReported,
    Event,
    GroupSettings,
    Partitions,
    PollEnded,
    PollStarted,
    ReconciliationCompleted,
    ReconciliationStarted,
    RecordsConsumed,
    RequestFailed,
    ResponseReceived,
    Subscription,
    SubscriptionChanged,
    TopicNamesFound,
    TopicsFound,
    TopicsRefreshed,
    Unsubscribed,
)
from kafkaraw.core.group.member import (
    NO_GENERATION,
    Heartbeat,
    MemberIdentity,
    MemberMetrics,
    PollTimer,
    Reconciler,
    Requests,
    is_final,
    log_error,
    poll_timeout_error,
)
from kafkaraw.core.group.states import CONSUMER_TRANSITIONS, ConsumerState, ConsumerTrigger
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import KafkaError, RetriableError
from kafkaraw.light_classes import dataclass, field
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode, error_name
from kafkaraw.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafkaraw.protocol.printable import printable
from kafkaraw.records import TopicPartition

log: logging.Logger = logging.getLogger(__name__)

CONSUMER_GROUP_HEARTBEAT: Final = 68
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
FIRST_INTERVAL_MS: Final = 3_000
"""The heartbeat interval until the broker sets one."""
_NAMES_RETRY_MS: Final = 1_000

PartitionIds: TypeAlias = frozenset[tuple[Uuid, int]]
"""Partitions, by the ids of their topics."""


_S, _T = ConsumerState, ConsumerTrigger
_JOINING: Final = frozenset({_S.JOINING, _S.JOIN_UNCONFIRMED, _S.RELEASING})
_JOINED: Final = frozenset({_S.STABLE, _S.RECONCILING})
_HEARTBEATING: Final = _JOINING | _JOINED
_JOINED_OR_JOINING: Final = _HEARTBEATING | {_S.FENCED}
_LEFT: Final = frozenset({_S.STALE, _S.FAILED})


@dataclass(slots=True)
class _SentFields:
    """What the last heartbeat said (Kafka's HeartbeatState.SentFields).

    Attributes:
        subscription: the topics or the pattern.
        partitions: the partitions that the member owns.
        is_certain: whether the broker is known to have got it; otherwise the next heartbeat says everything.
    """

    subscription: Subscription | None = None
    partitions: PartitionIds | None = None
    is_certain: bool = False


@dataclass(slots=True)
class _Target:
    """The target assignment, and the names of its topics, which are assigned by id.

    Attributes:
        name_of: returns the name of a topic, if the client's metadata has it.
        partitions: partitions by topic id; None before the first assignment.
        topic_ids: ids of the topics that were assigned, by name; kept when the metadata forget them.
        names_attempt: of the look-up of names that is in flight; 0 for none.
        names_due_ms: when to look names up again; None if all are known.
    """

    name_of: Callable[[Uuid], str | None]
    partitions: Mapping[Uuid, tuple[int, ...]] | None = None
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    names_attempt: int = 0
    names_due_ms: int | None = None

    def reset(self) -> None:
        """Forget the assignment."""
        self.partitions, self.names_attempt, self.names_due_ms = None, 0, None

    @property
    def named(self) -> dict[str, Uuid]:
        """Topics of the assignment whose names are known, or were when they were assigned.

        A topic that the metadata forget keeps its name: its partitions stay with this member until the broker assigns
        them to another one (assignedTopicNamesCache of Kafka's AbstractMembershipManager).
        """
        target = self.partitions or {}
        assigned = {name: topic_id for name, topic_id in self.topic_ids.items() if topic_id in target}
        return assigned | {name: topic_id for topic_id in target if (name := self.name_of(topic_id)) is not None}

    @property
    def nameless(self) -> tuple[Uuid, ...]:
        """Topics of the assignment whose names are unknown."""
        known = set(self.named.values())
        return tuple(topic_id for topic_id in self.partitions or () if topic_id not in known)

    def resolve(self) -> Partitions:
        """Return the partitions of the topics whose names are known, and remember these names."""
        named, target = self.named, self.partitions or {}
        self.topic_ids.update(named)
        return frozenset(
            TopicPartition(name, number) for name, topic_id in named.items() for number in target[topic_id]
        )


class ConsumerMember:
    """A member of a group of the consumer protocol; implements `GroupMember`.

    Args:
        settings: the member's settings.
        backoff: delays between retries.
        rng: jitter.
        member_id: made by the client, for the whole life of the consumer (KIP-1082).
        name_of: returns the name of a topic, if the client's metadata has it.

    Attributes:
        state: where the member is.
        subscription: what it is subscribed to; None if it is not.
    """

    def __init__(
        self,
        settings: GroupSettings,
        backoff: Backoff,
        rng: RandomSource,
        member_id: str,
        name_of: Callable[[Uuid], str | None],
    ) -> None:
        self.settings = settings
        self.state: ConsumerState = ConsumerState.UNSUBSCRIBED
        self.subscription: Subscription | None = None
        self.identity: MemberIdentity = MemberIdentity(member_id)
        self.reconciler: Reconciler = Reconciler()
        self.poll_timer: PollTimer = PollTimer(settings.max_poll_interval_ms)
        self.metrics: MemberMetrics = MemberMetrics()
        self._requests = Requests(backoff, rng)
        self._heartbeat = Heartbeat(FIRST_INTERVAL_MS)
        self._sent = _SentFields()
        self._target = _Target(name_of)

    # -- the four verbs

    def receive(self, event: Event, now_ms: int) -> None:
        """Take note of something that happened."""
        match event:
            case ResponseReceived(attempt, response):
                self._on_response(attempt, response, now_ms)
            case RequestFailed(attempt, error):
                self._on_failure(attempt, error, now_ms)
            case TopicNamesFound(attempt):
                self._on_topic_names_found(attempt, now_ms)
            case SubscriptionChanged(subscription):
                self._on_subscription(subscription, now_ms)
            case Unsubscribed(reason):
                self._on_unsubscribed(reason)
            case PollStarted() | PollEnded() | RecordsConsumed():
                self.poll_timer.receive(event, now_ms)
            case ReconciliationStarted():
                self.reconciler.start()
            case ReconciliationCompleted():
                self._on_reconciled(now_ms)
            case ErrorReported():
                self._on_error_reported(now_ms)
            case CommitRejected(_, generation_id):
                self._on_commit_rejected(generation_id, now_ms)
            case TopicsFound() | TopicsRefreshed():
                pass  # the broker assigns

    def actions(self) -> list[Action]:
        """Return what to do now, in order; each action is returned once."""
        return self._requests.take()

    def deadline_ms(self) -> int | None:
        """Return when `tick` must be called; None while only an event can change anything."""
        times: list[int] = []
        if self.state in _HEARTBEATING:
            if not self._heartbeat.attempt:
                times.append(self._heartbeat.due_ms)
            if self._target.names_due_ms is not None:
                times.append(self._target.names_due_ms)
        if self.state in _JOINED_OR_JOINING and self.poll_timer.deadline_ms is not None:
            times.append(self.poll_timer.deadline_ms)
        return min(times, default=None)

    def tick(self, now_ms: int) -> None:
        """Take note that time has passed."""
        if self.state in _JOINED_OR_JOINING and self.poll_timer.is_expired(now_ms):
            self._on_poll_timeout(now_ms)
        if self.state not in _HEARTBEATING:
            return
        if self._target.names_due_ms is not None and now_ms >= self._target.names_due_ms:
            self._find_topic_names()
            self._reconcile(now_ms)  # names may be known by now, as after a change of the subscription
        if self._heartbeat.is_due(now_ms):
            self._send_heartbeat()

    # -- questions

    @property
    def description(self) -> str:
        """The state, as the end of a sentence that begins with "the consumer", for logs and errors."""
        return self.state.value

    @property
    def is_rebalancing(self) -> bool:
        """See `GroupMember.is_rebalancing`: the consumer protocol accepts commits at any time."""
        return False

    @property
    def watched_topics(self) -> tuple[str, ...]:
        """See `GroupMember.watched_topics`: the broker watches them."""
        return ()

    def awaits(self, attempt: int) -> bool:
        """Return whether the response to a request is still of use; otherwise it is not sent any more."""
        return attempt == self._heartbeat.attempt

    def retries_commit(self, error_code: int, generation_id: int) -> bool:
        """See `GroupMember.retries_commit`: no rebalance delays commits."""
        return False

    # -- subscription and poll

    def _on_subscription(self, subscription: Subscription, now_ms: int) -> None:
        is_changed = subscription != self.subscription
        self.subscription = subscription
        if self.state is _S.UNSUBSCRIBED:
            self._join(now_ms)
        elif is_changed:
            self._heartbeat.due_ms = now_ms

    def _on_unsubscribed(self, reason: str) -> None:
        self._send_leave(reason)
        self._reset_membership()
        self._move(_T.LEAVE)
        self.subscription = None
        self.reconciler.clear()
        self.poll_timer.disable()

    def _on_poll_timeout(self, now_ms: int) -> None:
        error = poll_timeout_error(self.settings, self.poll_timer.elapsed_ms(now_ms))
        self.reconciler.fail(error)
        log_error(self.settings, error)
        self._send_leave("the user has not polled in time")
        self._reset_membership()
        self._move(_T.POLL_TIMEOUT)

    # -- heartbeats

    def _join(self, now_ms: int) -> None:
        self.metrics.rebalance_begins(now_ms)
        self._reset_membership()
        self._heartbeat.due_ms = now_ms
        self._move(_T.JOIN)

    def _send_heartbeat(self) -> None:
        if self.state is _S.RELEASING:
            self._send(self._request(LEAVE_STATIC_EPOCH))
            return
        assert self.subscription is not None
        joins = self.state in _JOINING
        is_full = joins or not self._sent.is_certain
        settings, subscription, sent = self.settings, self.subscription, self._sent
        request = self._request(JOIN_EPOCH if joins else self.identity.generation_id)
        if is_full:
            request.rebalance_timeout_ms = settings.rebalance_timeout_ms
            request.server_assignor = settings.server_assignor
            request.rack_id = settings.rack_id
        if is_full or subscription != sent.subscription:
            request.subscribed_topic_names = sorted(subscription.topics)
            had_pattern = sent.subscription is not None and sent.subscription.pattern is not None
            if subscription.pattern is not None or had_pattern:
                request.subscribed_topic_regex = subscription.pattern or ""
        partitions = self._owned_partition_ids
        if is_full or partitions != sent.partitions:
            request.topic_partitions = [] if joins else _by_topic_id(partitions)
        self._sent = _SentFields(subscription, partitions, is_certain=True)
        self._send(request)

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        settings = self.settings
        return ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.identity.member_id,
            member_epoch=epoch,
            instance_id=settings.group_instance_id,
        )

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        timeout_ms = self.settings.request_timeout_ms
        self._heartbeat.attempt = self._requests.send(CONSUMER_GROUP_HEARTBEAT, request, timeout_ms)

    @property
    def _owned_partition_ids(self) -> PartitionIds:
        """The partitions that the broker must not assign to others.

        Those that the application owns, those of a change in progress, and those of the target. If a heartbeat left
        the latter two out, the broker could assign them to another member as soon as the target changes, while this
        member's listener is being called with them as assigned.
        """
        reconciler, target = self.reconciler, self._target
        after = frozenset() if reconciler.in_progress is None else reconciler.in_progress.after
        owned = {(target.topic_ids.get(topic, ZERO_UUID), number) for topic, number in reconciler.owned | after}
        given = {(topic_id, number) for topic_id, numbers in (target.partitions or {}).items() for number in numbers}
        return frozenset(owned | given)

    def _on_response(self, attempt: int, response: object, now_ms: int) -> None:
        if attempt != self._heartbeat.attempt or not isinstance(response, ConsumerGroupHeartbeatResponse):
            return
        self._heartbeat.attempt = 0
        if self.state is _S.RELEASING:
            self._on_release_response(response, now_ms)
        elif response.error_code:
            self._on_error_code(response, now_ms)
        else:
            self._on_heartbeat_accepted(response, now_ms)

    def _on_heartbeat_accepted(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        self._requests.succeeded()
        self.metrics.heartbeat_accepted(now_ms)
        heartbeat, identity = self._heartbeat, self.identity
        heartbeat.interval_ms = response.heartbeat_interval_ms or heartbeat.interval_ms
        heartbeat.due_ms = now_ms + heartbeat.interval_ms
        identity.member_id = response.member_id or identity.member_id
        if self.state in _JOINING:
            log.info(
                "group %r: joined as %r, epoch %d",
                *(self.settings.group_id, identity.member_id, response.member_epoch),
            )
            self._move(_T.JOINED)
        identity.generation_id = response.member_epoch
        if response.assignment is not None:
            self._on_target(response.assignment, now_ms)
        elif self.subscription != self._sent.subscription or (
            self.state is _S.STABLE and self._owned_partition_ids != self._sent.partitions
        ):
            heartbeat.due_ms = now_ms

    def _on_failure(self, attempt: int, error: KafkaError, now_ms: int) -> None:
        if attempt == self._target.names_attempt:
            self._target.names_attempt, self._target.names_due_ms = 0, now_ms + _NAMES_RETRY_MS
        elif attempt == self._heartbeat.attempt:
            self._heartbeat.attempt = 0
            if not isinstance(error, RetriableError):
                self._fail(error)
                return
            log.info("group %r: no response to a heartbeat: %s", self.settings.group_id, error)
            if self.state in (_S.JOINING, _S.JOIN_UNCONFIRMED):
                self._move(_T.NO_RESPONSE)
            self._retry_heartbeat(now_ms)

    def _retry_heartbeat(self, now_ms: int) -> None:
        """Send the next heartbeat after a backoff, with everything: it is not certain what the coordinator knows."""
        self._sent.is_certain = False
        self._heartbeat.due_ms = now_ms + min(self._requests.backoff_ms(), self._heartbeat.interval_ms)

    # -- the target assignment

    def _on_target(self, assignment: Assignment, now_ms: int) -> None:
        """The broker has assigned these partitions, and waits for a heartbeat that says that the member owns them."""
        self._target.partitions = {entry.topic_id: tuple(entry.partitions) for entry in assignment.topic_partitions}
        self._sent.partitions = None
        self._find_topic_names()
        self._reconcile(now_ms)

    def _find_topic_names(self) -> None:
        target = self._target
        target.names_due_ms = None
        if target.nameless:
            target.names_attempt = self._requests.find_topic_names(target.nameless)

    def _on_topic_names_found(self, attempt: int, now_ms: int) -> None:
        target = self._target
        if attempt == target.names_attempt:
            target.names_attempt = 0
            if target.nameless:
                target.names_due_ms = now_ms + _NAMES_RETRY_MS
            self._reconcile(now_ms)

    def _reconcile(self, now_ms: int) -> None:
        """Propose the change from the owned partitions to the target, as far as names of topics are known."""
        reconciler = self.reconciler
        if self._target.partitions is None or reconciler.in_progress is not None:
            return
        after, owned = self._target.resolve(), reconciler.owned
        if after != owned:
            self.metrics.rebalance_begins(now_ms)
            reconciler.propose(AssignmentChange(revoked=owned - after, assigned=(after - owned) or None, after=after))
            self._move(_T.TARGET_DIFFERS)
        else:
            reconciler.propose(None)
            self._move(_T.TARGET_REACHED)
            if not self._target.nameless:
                self._acknowledge(now_ms)

    def _acknowledge(self, now_ms: int) -> None:
        """The member owns its target: the broker waits for a heartbeat that says so."""
        self.metrics.rebalance_ends(now_ms)
        if self._sent.partitions != self._owned_partition_ids:
            self._heartbeat.due_ms = now_ms

    def _on_reconciled(self, now_ms: int) -> None:
        if self.reconciler.complete() is None:
            return
        if self.state is _S.FENCED or (self.state in _LEFT and self.reconciler.error is None):
            self._report_lost_and_join(now_ms)
        elif self.state in _HEARTBEATING:
            self._acknowledge(now_ms)
            self._reconcile(now_ms)

    # -- errors

    def _on_commit_rejected(self, generation_id: int, now_ms: int) -> None:
        if self.state in _HEARTBEATING and generation_id == self.identity.generation_id:
            self._sent.is_certain = False
            self._heartbeat.due_ms = now_ms  # the response says whether this is still a member

    def _on_error_code(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        group_id = self.settings.group_id
        meaning = CONSUMER.meaning_of(response.error_code)
        why = f"{error_name(response.error_code)}: {printable(response.error_message or '')}"
        if response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID and self.state is _S.JOIN_UNCONFIRMED:
            log.info("group %r: heartbeat: %s; this member may have it: releasing group_instance_id", group_id, why)
            self._move(_T.INSTANCE_ID_IN_USE)
            self._heartbeat.due_ms = now_ms
        elif meaning is Meaning.RETRY:
            log.info("group %r: heartbeat: %s; retrying", group_id, why)
            self._retry_heartbeat(now_ms)
        elif meaning is Meaning.FENCED:
            log.warning("group %r: heartbeat: %s; rejoining", group_id, why)
            self._fence(now_ms)
        else:
            self._fail_with(response.error_code, response)

    def _on_release_response(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        """The group_instance_id is free now, or belongs to another member, which keeps it.

        A broker refuses every join under an instance id in use, even that of the member that uses it.
        """
        meaning = CONSUMER.meaning_of(response.error_code) if response.error_code else Meaning.FENCED
        if response.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self._fail_with(ErrorCode.UNRELEASED_INSTANCE_ID, response)
        elif meaning is Meaning.RETRY:
            self._retry_heartbeat(now_ms)
        elif meaning is not Meaning.FENCED:
            self._fail_with(response.error_code, response)
        else:
            self._move(_T.INSTANCE_ID_RELEASED)
            self._heartbeat.due_ms = now_ms

    def _fail_with(self, code: int, response: ConsumerGroupHeartbeatResponse) -> None:
        message = response.error_message or ""
        error = CONSUMER.fatal_error(code, self.settings, "heartbeat", message=message, subscription=self.subscription)
        self._fail(error)

    def _fence(self, now_ms: int) -> None:
        """The group goes on without this member, and others may own its partitions."""
        self.metrics.losses += 1
        if self.reconciler.in_progress is not None:
            self._reset_membership()
            self._move(_T.FENCE)  # what is lost is known when the listener has returned
        elif self.reconciler.owned:
            self.metrics.rebalance_begins(now_ms)
            self._reset_membership()
            self._report_lost_and_join(now_ms)
        else:
            # The broker may take a member that is not let in for an earlier one, until that one's session times out.
            due_ms = now_ms + self._requests.backoff_ms() if self.state in _JOINING else now_ms
            self.reconciler.propose(None)
            self._join(now_ms)
            self._heartbeat.due_ms = due_ms

    def _fail(self, error: KafkaError) -> None:
        """Stop until a call of the application has raised the error."""
        log_error(self.settings, error)
        self.reconciler.fail(error)
        self._reset_membership()
        self._move(_T.FAIL)

    def _on_error_reported(self, now_ms: int) -> None:
        error = self.reconciler.error
        if error is None or is_final(error):
            return
        self.reconciler.error = None
        if self.reconciler.in_progress is None:
            self._report_lost_and_join(now_ms)

    def _report_lost_and_join(self, now_ms: int) -> None:
        """Join, once the listener has been called with all partitions as lost."""
        if self.reconciler.propose_lost():
            self._move(_T.FENCE)
        else:
            self._join(now_ms)

    # -- inside

    def _move(self, trigger: ConsumerTrigger) -> None:
        after = CONSUMER_TRANSITIONS[self.state, trigger]
        log.debug("group %r: %s -> %s", self.settings.group_id, self.state.name, after.name)
        self.state = after

    def _reset_membership(self) -> None:
        """Be no member any more; responses to what is in flight are of no use."""
        self.identity.generation_id = NO_GENERATION
        self._heartbeat.attempt = 0
        self._target.reset()
        self._sent = _SentFields()

    def _send_leave(self, reason: str) -> None:
        is_join_in_flight = self.state is _S.JOINING and self._heartbeat.attempt
        if self.state in _JOINED or self.state in (_S.JOIN_UNCONFIRMED, _S.RELEASING) or is_join_in_flight:
            request = self._request(LEAVE_EPOCH if self.settings.group_instance_id is None else LEAVE_STATIC_EPOCH)
            self._requests.leave(CONSUMER_GROUP_HEARTBEAT, lambda _: request, reason)


def _by_topic_id(partitions: PartitionIds) -> list[TopicPartitions]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]
