"""Membership in a share group: heartbeats are all requests, and the coordinator assigns. Pure.

A share group has no rebalance: several members may read one partition, so an assignment replaces the last one at once,
and no partition has to be revoked first. It must not know of records or share sessions. Start at `ShareMember.receive`,
then `_on_accepted`.
Source: KIP-932; Kafka's ShareMembershipManager and ShareHeartbeatRequestManager.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum
from typing import Final

from kafkaraw.core.group.error_tables import ErrorTable, Meaning
from kafkaraw.core.group.events import (
    Action,
    ErrorReported,
    GroupSettings,
    PollEnded,
    PollStarted,
    RequestFailed,
    ResponseReceived,
    Subscription,
    SubscriptionChanged,
    Unsubscribed,
)
from kafkaraw.core.group.member import (
    NO_GENERATION,
    Heartbeat,
    MemberIdentity,
    MemberMetrics,
    PollTimer,
    Requests,
    log_error,
    poll_timeout_error,
)
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import KafkaError, RetriableError
from kafkaraw.protocol import Uuid
from kafkaraw.protocol.error_codes import ErrorCode, error_name
from kafkaraw.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

log: logging.Logger = logging.getLogger(__name__)

SHARE_GROUP_HEARTBEAT: Final = 76
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
FIRST_INTERVAL_MS: Final = 3_000
"""The heartbeat interval until the broker sets one."""

FIRST_ASSIGNMENT_INTERVAL_MS: Final = 500
"""Time between heartbeats until the first assignment, which Apache Kafka 4.3 computes after the join (KIP-1263)."""
_EARLY_HEARTBEATS_MAX: Final = 10

ShareEvent = (
    ResponseReceived | RequestFailed | SubscriptionChanged | Unsubscribed | PollStarted | PollEnded | ErrorReported
)

SHARE: Final = ErrorTable(
    meanings={
        ErrorCode.UNKNOWN_MEMBER_ID: Meaning.FENCED,
        ErrorCode.FENCED_MEMBER_EPOCH: Meaning.FENCED,
    },
    advice={
        ErrorCode.UNSUPPORTED_VERSION: (
            "the broker has no share groups; Apache Kafka has them from 4.2, unless its feature share.version is 0 "
            "(kafka-features.sh upgrade --feature share.version=1)"
        ),
        ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.share.max.size allows",
        ErrorCode.GROUP_ID_NOT_FOUND: (
            "a group of another type has this name; give the share group a name that no consumer group has"
        ),
    },
)
"""What the error codes of a group coordinator mean to a member of a share group."""


class ShareMemberState(Enum):
    """The state of a member of a share group; a value ends the sentence "the consumer ..."."""

    UNSUBSCRIBED = "is in no group"
    JOINING = "is about to join"
    STABLE = "is a member"
    STALE = "has left because it was not asked for records"
    FAILED = "cannot be a member"


class ShareMemberTrigger(Enum):
    """What moves a member of a share group from one state to the next."""

    JOIN = "joins or rejoins"
    JOINED = "heartbeat accepted"
    FENCE = "fenced"
    POLL_TIMEOUT = "max_poll_interval_ms expired"
    FAIL = "fatal error"
    LEAVE = "unsubscribes or closes"


def _transitions() -> dict[tuple[ShareMemberState, ShareMemberTrigger], ShareMemberState]:
    state, trigger = ShareMemberState, ShareMemberTrigger
    active = {state.JOINING, state.STABLE}
    return {
        (state.UNSUBSCRIBED, trigger.JOIN): state.JOINING,
        (state.STALE, trigger.JOIN): state.JOINING,
        (state.FAILED, trigger.JOIN): state.JOINING,
        (state.JOINING, trigger.JOINED): state.STABLE,
        (state.STABLE, trigger.FENCE): state.JOINING,
        (state.JOINING, trigger.FENCE): state.JOINING,
        **{(before, trigger.POLL_TIMEOUT): state.STALE for before in active},
        **{(before, trigger.FAIL): state.FAILED for before in active},
        **{(before, trigger.LEAVE): state.UNSUBSCRIBED for before in state},
    }


SHARE_TRANSITIONS: Final = _transitions()
_S, _T = ShareMemberState, ShareMemberTrigger
_HEARTBEATING: Final = frozenset({_S.JOINING, _S.STABLE})


class ShareMember:
    """A member of a share group.

    Args:
        settings: the member's settings.
        backoff: delays between retries.
        rng: jitter.
        member_id: made by the client, for the whole life of the consumer.

    Attributes:
        settings: as given.
        state: where the member is.
        identity: what the coordinator knows it by.
        subscription: what it is subscribed to; None if it is not.
        assignment: partitions by topic id that it reads now.
        error: what the next call of the application raises.
        poll_timer: enforces `max_poll_interval_ms`.
        metrics: counters.
    """

    def __init__(self, settings: GroupSettings, backoff: Backoff, rng: RandomSource, member_id: str) -> None:
        self.settings: GroupSettings = settings
        self.state: ShareMemberState = ShareMemberState.UNSUBSCRIBED
        self.identity: MemberIdentity = MemberIdentity(member_id)
        self.subscription: Subscription | None = None
        self.assignment: Mapping[Uuid, tuple[int, ...]] = {}
        self.error: KafkaError | None = None
        self.poll_timer: PollTimer = PollTimer(settings.max_poll_interval_ms)
        self.metrics: MemberMetrics = MemberMetrics()
        self._requests = Requests(backoff, rng)
        self._heartbeat = Heartbeat(FIRST_INTERVAL_MS)
        self._early_heartbeats = 0  # since the member joined
        self._sent: Subscription | None = None  # the subscription that the coordinator has got

    # -- the four verbs

    def receive(self, event: ShareEvent, now_ms: int) -> None:
        """Take note of something that happened."""
        match event:
            case ResponseReceived(attempt, response):
                self._on_response(attempt, response, now_ms)
            case RequestFailed(attempt, error):
                self._on_failure(attempt, error, now_ms)
            case SubscriptionChanged(subscription):
                self._on_subscription(subscription, now_ms)
            case Unsubscribed(reason):
                self._leave(reason)
                self._move(_T.LEAVE)
                self.subscription = self.error = None
                self.poll_timer.disable()
            case PollStarted() | PollEnded():
                self.poll_timer.receive(event, now_ms)
            case ErrorReported():
                self.error = None
                if self.state in (_S.STALE, _S.FAILED):
                    self._join(now_ms)

    def actions(self) -> list[Action]:
        """Return what to do now, in order; each action is returned once."""
        return self._requests.take()

    def deadline_ms(self) -> int | None:
        """Return when `tick` must be called; None while only an event can change anything."""
        if self.state not in _HEARTBEATING:
            return None
        times = [] if self._heartbeat.attempt else [self._heartbeat.due_ms]
        if self.poll_timer.deadline_ms is not None:
            times.append(self.poll_timer.deadline_ms)
        return min(times, default=None)

    def tick(self, now_ms: int) -> None:
        """Take note that time has passed."""
        if self.state not in _HEARTBEATING:
            return
        if self.poll_timer.is_expired(now_ms):
            self.error = poll_timeout_error(self.settings, self.poll_timer.elapsed_ms(now_ms))
            log_error(self.settings, self.error)
            self._leave("the user has not polled in time")
            self._move(_T.POLL_TIMEOUT)
        elif self._heartbeat.is_due(now_ms):
            self._send_heartbeat()

    def awaits(self, attempt: int) -> bool:
        """Return whether the response to a request is still of use; otherwise it is not sent any more."""
        return attempt == self._heartbeat.attempt

    # -- heartbeats

    def _on_subscription(self, subscription: Subscription, now_ms: int) -> None:
        is_changed = subscription != self.subscription
        self.subscription = subscription
        if self.state is _S.UNSUBSCRIBED:
            self._join(now_ms)
        elif is_changed:
            self._heartbeat.due_ms = now_ms

    def _join(self, now_ms: int) -> None:
        self._early_heartbeats = 0
        self.metrics.rebalance_begins(now_ms)
        self._reset()
        self._heartbeat.due_ms = now_ms
        self._move(_T.JOIN)

    def _send_heartbeat(self) -> None:
        assert self.subscription is not None
        joins = self.state is _S.JOINING
        request = self._request(JOIN_EPOCH if joins else self.identity.generation_id)
        if joins or self.subscription != self._sent:
            request.rack_id = self.settings.rack_id
            request.subscribed_topic_names = sorted(self.subscription.topics)
        self._sent = self.subscription
        self._heartbeat.attempt = self._requests.send(SHARE_GROUP_HEARTBEAT, request, self.settings.request_timeout_ms)

    def _request(self, epoch: int) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self.settings.group_id, member_id=self.identity.member_id, member_epoch=epoch
        )

    def _on_response(self, attempt: int, response: object, now_ms: int) -> None:
        if attempt != self._heartbeat.attempt or not isinstance(response, ShareGroupHeartbeatResponse):
            return
        self._heartbeat.attempt = 0
        if response.error_code:
            self._on_error_code(response, now_ms)
        else:
            self._on_accepted(response, now_ms)

    def _on_accepted(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        self._requests.succeeded()
        self.metrics.heartbeat_accepted(now_ms)
        heartbeat = self._heartbeat
        heartbeat.interval_ms = response.heartbeat_interval_ms or heartbeat.interval_ms
        heartbeat.due_ms = now_ms if self.subscription != self._sent else now_ms + heartbeat.interval_ms
        self.identity.generation_id = response.member_epoch
        if self.state is _S.JOINING:
            log.info("group %r: joined as %r", self.settings.group_id, self.identity.member_id)
            self._move(_T.JOINED)
        if response.assignment is not None:
            topics = response.assignment.topic_partitions
            self.assignment = {topic.topic_id: tuple(topic.partitions) for topic in topics}
            self.metrics.rebalance_begins(now_ms)
            self.metrics.rebalance_ends(now_ms)
        if not self.assignment and self._early_heartbeats < _EARLY_HEARTBEATS_MAX:
            self._early_heartbeats += 1
            heartbeat.due_ms = min(heartbeat.due_ms, now_ms + FIRST_ASSIGNMENT_INTERVAL_MS)

    def _on_failure(self, attempt: int, error: KafkaError, now_ms: int) -> None:
        if attempt != self._heartbeat.attempt:
            return
        self._heartbeat.attempt = 0
        if not isinstance(error, RetriableError):
            self._fail(error)
            return
        log.info("group %r: no response to a heartbeat: %s", self.settings.group_id, error)
        self._retry(now_ms)

    def _on_error_code(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> None:
        code, settings = response.error_code, self.settings
        meaning = SHARE.meaning_of(code)
        if meaning is Meaning.RETRY:
            self._retry(now_ms)
        elif meaning is Meaning.FENCED:
            log.info("group %r: %s; joining again", settings.group_id, error_name(code))
            self.metrics.losses += 1
            self._reset()
            self._heartbeat.due_ms = now_ms
            self._move(_T.FENCE)
        else:
            message = response.error_message or ""
            self._fail(SHARE.fatal_error(code, settings, "heartbeat", message=message, subscription=self.subscription))

    def _retry(self, now_ms: int) -> None:
        """Send the next heartbeat after a backoff, with everything: it is not certain what the coordinator knows."""
        self._sent = None
        self._heartbeat.due_ms = now_ms + min(self._requests.backoff_ms(), self._heartbeat.interval_ms)

    # -- inside

    def _fail(self, error: KafkaError) -> None:
        self.error = error
        log_error(self.settings, error)
        self._reset()
        self._move(_T.FAIL)

    def _leave(self, reason: str) -> None:
        if self.state is _S.STABLE or (self.state is _S.JOINING and self._heartbeat.attempt):
            request = self._request(LEAVE_EPOCH)
            self._requests.leave(SHARE_GROUP_HEARTBEAT, lambda _: request, reason)
        self._reset()

    def _reset(self) -> None:
        """Be no member any more; responses to what is in flight are of no use."""
        self.identity.generation_id = NO_GENERATION
        self._heartbeat.attempt = 0
        self._sent = None
        self.assignment = {}

    def _move(self, trigger: ShareMemberTrigger) -> None:
        after = SHARE_TRANSITIONS[self.state, trigger]
        log.debug("group %r: %s -> %s", self.settings.group_id, self.state.name, after.name)
        self.state = after
