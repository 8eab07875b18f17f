"""Membership in a group of the classic protocol: join, sync, send heartbeats, rejoin when the group rebalances. Pure.

`states` says how a member moves, `error_tables` what an error code means. Two rules make this
member differ from Java's. It goes on without a call to poll wherever it can: only revoking partitions (REVOKING) and
taking an assignment over (RECONCILING) wait for the next call, because they call the rebalance listener, so a slow
application of a cooperative group delays no other member. And an assignment that was not taken over yet is dropped
when the group rebalances again. Start at `ClassicMember.receive`, then `_send_join` and `_joined`.
Source: KIP-62, KIP-345, KIP-394, KIP-429, KIP-559, KIP-792, KIP-800, KIP-814; Kafka's AbstractCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kafkaraw.core.group.assignor_calls import EncodedAssignments, assign_group, notify_assigned, user_data_of
from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.core.group.consumer_protocol import (
    PROTOCOL_TYPE,
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_subscription,
)
from kafkaraw.core.group.error_tables import CLASSIC, Meaning
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
from kafkaraw.core.group.states import CLASSIC_TRANSITIONS, ClassicState, ClassicTrigger
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import GroupError, KafkaError, ProtocolError, RetriableError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol.error_codes import ErrorCode, error_name
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkaraw.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest
from kafkaraw.protocol.messages.leave_group import MemberIdentity as LeavingMember
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafkaraw.protocol.printable import printable

log: logging.Logger = logging.getLogger(__name__)

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
JOIN_GROUP_LAPSE_MS: Final = 5_000
"""Added to the rebalance timeout when a JoinGroup response is awaited, as Java's JOIN_GROUP_TIMEOUT_LAPSE."""
_BATCH_LEAVE_SINCE_VERSION: Final = 3


_S, _T = ClassicState, ClassicTrigger
_REBALANCING: Final = frozenset({_S.PREPARING_REBALANCE, _S.ASSIGNING, _S.COMPLETING_REBALANCE})
_HEARTBEATING: Final = frozenset(
    {_S.ASSIGNING, _S.COMPLETING_REBALANCE, _S.RECONCILING, _S.SUPERSEDED, _S.STABLE, _S.REVOKING}
)
_JOINED_OR_JOINING: Final = _HEARTBEATING | {_S.UNJOINED, _S.PREPARING_REBALANCE, _S.FENCED}
_LEFT: Final = frozenset({_S.STALE, _S.FAILED})
_REJOINABLE: Final = _HEARTBEATING - {_S.REVOKING}


@dataclass(slots=True)
class _Rebalance:
    """The requests of one rebalance.

    Attributes:
        attempt: of the JoinGroup, SyncGroup or metadata request that is in flight; 0 for none.
        due_ms: when to send JoinGroup.
        reason: why the member rejoins, for the coordinator's log (KIP-800).
        subscription: what the last JoinGroup said.
        assignor: what the group has chosen.
        assigned_generation_id: the generation in which the member got the partitions that it owns.
        confirmed_ms: when the coordinator knew the member for certain.
    """

    attempt: int = 0
    due_ms: int = 0
    reason: str = ""
    subscription: Subscription | None = None
    assignor: Assignor | None = None
    assigned_generation_id: int = NO_GENERATION
    confirmed_ms: int = 0


@dataclass(frozen=True, slots=True)
class _TopicWatch:
    """The topics whose partition changes make this member rejoin: of a leader, or of a member of a group without one.

    Attributes:
        members: the subscriptions that count, by member id.
        topics: the topics that the assignment was made of; None until they were seen.
        skip_assignment: the leader leaves the assignment as it is (KIP-814).
    """

    members: Mapping[str, MemberSubscription]
    topics: Topics | None = None
    skip_assignment: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the topics, in order."""
        return tuple(sorted({topic for member in self.members.values() for topic in member.topics}))

    def is_changed(self, seen: Topics) -> bool:
        """Return whether the assignment may change: partition counts matter, and racks if a member names its own."""
        before = self.topics or {}
        if any(member.rack_id for member in self.members.values()):
            return {name: list(racks) for name, racks in before.items()} != {n: list(r) for n, r in seen.items()}
        return {name: len(racks) for name, racks in before.items()} != {
            name: len(racks) for name, racks in seen.items()
        }


class ClassicMember:
    """A member of a group of the classic protocol; implements `GroupMember`.

    Args:
        settings: the member's settings.
        backoff: delays between retries.
        rng: jitter.

    Attributes:
        state: where the member is.
        subscription: what it is subscribed to; None if it is not.
    """

    def __init__(self, settings: GroupSettings, backoff: Backoff, rng: RandomSource) -> None:
        self.settings = settings
        self.state: ClassicState = ClassicState.UNSUBSCRIBED
        self.subscription: Subscription | None = None
        self.identity: MemberIdentity = MemberIdentity()
        self.reconciler: Reconciler = Reconciler()
        self.poll_timer: PollTimer = PollTimer(settings.max_poll_interval_ms)
        self.metrics: MemberMetrics = MemberMetrics()
        self._requests = Requests(backoff, rng)
        self._heartbeat = Heartbeat(settings.heartbeat_interval_ms)
        self._rebalance = _Rebalance()
        self._watch: _TopicWatch | None = None

    # -- the four verbs

    def receive(self, event: Event, now_ms: int) -> None:
        """Take note of something that happened."""
        match event:
            case ResponseReceived(attempt, response):
                self._on_response(attempt, response, now_ms)
            case RequestFailed(attempt, error):
                self._on_failure(attempt, error, now_ms)
            case TopicsFound(attempt, topics):
                self._on_topics_found(attempt, topics)
            case TopicsRefreshed(topics):
                self._on_topics_refreshed(topics, now_ms)
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
            case CommitRejected(error_code, generation_id):
                self._on_commit_rejected(error_code, generation_id, now_ms)
            case TopicNamesFound():
                pass  # the classic protocol knows topics by name

    def actions(self) -> list[Action]:
        """Return what to do now, in order; each action is returned once."""
        return self._requests.take()

    def deadline_ms(self) -> int | None:
        """Return when `tick` must be called; None while only an event can change anything."""
        times = [self._rebalance.due_ms] if self.state is _S.UNJOINED else []
        if self.state in _HEARTBEATING and not self._heartbeat.attempt:
            times.append(self._heartbeat.due_ms)
        if self.state in _JOINED_OR_JOINING and self.poll_timer.deadline_ms is not None:
            times.append(self.poll_timer.deadline_ms)
        return min(times, default=None)

    def tick(self, now_ms: int) -> None:
        """Take note that time has passed."""
        if self.state in _JOINED_OR_JOINING and self.poll_timer.is_expired(now_ms):
            self._on_poll_timeout(now_ms)
        elif self.state is _S.UNJOINED and now_ms >= self._rebalance.due_ms:
            if self.reconciler.owned and self._may_be_fenced(now_ms):
                log.warning(
                    "group %r: no response of the coordinator within the session timeout; rejoining without partitions",
                    self.settings.group_id,
                )
                self._fence(now_ms, keep_member_id=True)
            else:
                self._send_join()
        elif self.state in _HEARTBEATING and self._heartbeat.is_due(now_ms):
            self._send_heartbeat()

    # -- questions

    @property
    def description(self) -> str:
        """The state, as the end of a sentence that begins with "the consumer", for logs and errors."""
        return self.state.value

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance is under way in which no commit succeeds and which ends without a call to poll."""
        return self.state in _REBALANCING

    @property
    def watched_topics(self) -> tuple[str, ...]:
        """Topics whose partition changes make this member rejoin."""
        return () if self._watch is None else self._watch.names

    def awaits(self, attempt: int) -> bool:
        """Return whether the response to a request is still of use; otherwise it is not sent any more."""
        return attempt in (self._heartbeat.attempt, self._rebalance.attempt)

    def retries_commit(self, error_code: int, generation_id: int) -> bool:
        """Return whether a commit that was rejected with this code may succeed after the rebalance."""
        if generation_id != self.identity.generation_id or CLASSIC.meaning_of(error_code) is Meaning.RETRY:
            return False
        if error_code == ErrorCode.ILLEGAL_GENERATION:
            # In PREPARING_REBALANCE: the JoinGroup response will say whether there is a next generation.
            return self.state is _S.PREPARING_REBALANCE or self._is_generation_unassigned
        # The coordinator waits for the leader's assignment: the SyncGroup response will bring it.
        return error_code == ErrorCode.REBALANCE_IN_PROGRESS and self.state in _REBALANCING

    @property
    def _is_generation_unassigned(self) -> bool:
        """Whether the last JoinGroup led to a generation whose assignment did not arrive.

        The member owns what it got in an older generation. If the coordinator has changed meanwhile, the new one may
        still be in that older generation.
        """
        between = self.state in (_S.UNJOINED, _S.PREPARING_REBALANCE)
        return between and NO_GENERATION < self._rebalance.assigned_generation_id < self.identity.generation_id

    # -- subscription and poll

    def _on_subscription(self, subscription: Subscription, now_ms: int) -> None:
        self.subscription = subscription
        if self.state is _S.UNSUBSCRIBED:
            self._begin_join(now_ms)
            self.metrics.rebalance_begins(now_ms)
        elif subscription != self._rebalance.subscription and self.state not in _REBALANCING:
            self._rejoin("the subscription has changed", now_ms)  # in a rebalance: when the assignment is there

    def _on_unsubscribed(self, reason: str) -> None:
        self._send_leave(reason)
        self._reset_generation(keep_member_id=False)
        self._move(_T.LEAVE)
        self.subscription = self._rebalance.subscription = None
        self.reconciler.clear()
        self.poll_timer.disable()

    def _on_poll_timeout(self, now_ms: int) -> None:
        error = poll_timeout_error(self.settings, self.poll_timer.elapsed_ms(now_ms))
        self.reconciler.fail(error)
        log_error(self.settings, error)
        self._send_leave("the user has not polled in time")
        self._reset_generation(keep_member_id=self.settings.group_instance_id is not None)
        self._move(_T.POLL_TIMEOUT)

    # -- JoinGroup

    def _may_be_fenced(self, now_ms: int) -> bool:
        """Return whether the group may have gone on without this member, so that others may own its partitions.

        Not every coordinator says so. It keeps static members that have not rejoined in time, as they were when they
        joined last, perhaps without partitions. And it lets classic members into a group of the consumer protocol
        again, with any ids. A revocation callback would then overwrite offsets that the new owner has committed.
        """
        patience_ms = min(self.settings.session_timeout_ms, self.settings.rebalance_timeout_ms)
        return now_ms - self._rebalance.confirmed_ms > patience_ms

    def _send_join(self) -> None:
        assert self.subscription is not None
        self._rebalance.subscription = self.subscription
        self._watch = None
        settings = self.settings
        try:
            protocols = [self._offer(assignor, self.subscription) for assignor in settings.assignors]
        except GroupError as error:
            self._fail(error)
            return
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.identity.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=self._rebalance.reason or None,
        )
        self._rebalance.attempt = self._requests.send(JOIN_GROUP, request, self._rebalance_timeout_ms, blocks=True)
        self._move(_T.JOIN_GROUP_SENT)

    def _offer(self, assignor: Assignor, subscription: Subscription) -> JoinGroupRequestProtocol:
        topics = tuple(sorted(subscription.topics))
        mine = MemberSubscription(
            topics=topics,
            owned_partitions=tuple(sorted(self.reconciler.owned)),
            user_data=user_data_of(assignor, topics),
            generation_id=self.identity.generation_id,
            rack_id=self.settings.rack_id,
        )
        return JoinGroupRequestProtocol(name=assignor.name, metadata=encode_subscription(mine))

    @property
    def _rebalance_timeout_ms(self) -> int:
        return max(self.settings.request_timeout_ms, self.settings.rebalance_timeout_ms + JOIN_GROUP_LAPSE_MS)

    def _on_response(self, attempt: int, response: object, now_ms: int) -> None:
        if attempt == self._heartbeat.attempt:
            assert isinstance(response, HeartbeatResponse)
            self._on_heartbeat_response(response, now_ms)
        elif attempt == self._rebalance.attempt:
            may_be_fenced = self._may_be_fenced(now_ms)
            # With any response: a coordinator that shuts down may have delayed it for long.
            self._rebalance.confirmed_ms = now_ms
            if isinstance(response, JoinGroupResponse):
                self._joined(response, now_ms, may_be_fenced=may_be_fenced)
            elif isinstance(response, SyncGroupResponse):
                self._synced(response, now_ms)

    def _on_failure(self, attempt: int, error: KafkaError, now_ms: int) -> None:
        if attempt == self._heartbeat.attempt:
            log.info("group %r: no response to a heartbeat: %s", self.settings.group_id, error)
            self._heartbeat.attempt = 0
            self._retry_heartbeat(now_ms)
        elif attempt == self._rebalance.attempt and self.state in _REBALANCING:
            if isinstance(error, RetriableError):
                self._join_after_backoff(f"{self.state.name.lower()} failed: {error}", now_ms)
            else:
                self._fail(error)

    def _joined(self, response: JoinGroupResponse, now_ms: int, *, may_be_fenced: bool) -> None:
        group_id = self.settings.group_id
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.identity.member_id = response.member_id
            self._begin_join(now_ms)
            return
        if response.error_code:
            self._on_error_code(response.error_code, "joining", now_ms)
            return
        assignor = next((each for each in self.settings.assignors if each.name == response.protocol_name), None)
        if assignor is None or (response.protocol_type or PROTOCOL_TYPE) != PROTOCOL_TYPE:
            self._fail(GroupError(f"group {group_id!r} chose {response.protocol_name!r}, not ours"))
            return
        self.identity.member_id, self.identity.generation_id = response.member_id, response.generation_id
        self._rebalance.assignor = assignor
        self._requests.succeeded()
        self._heartbeat.attempt, self._heartbeat.due_ms = 0, now_ms + self._heartbeat.interval_ms
        is_leader = response.leader == response.member_id
        log.info(
            "group %r: joined generation %d as %r%s",
            *(group_id, response.generation_id, response.member_id, ", as the leader" if is_leader else ""),
        )
        if not response.leader and may_be_fenced and self.reconciler.owned:
            log.warning(
                "group %r: the JoinGroup response came after the session timeout: partitions are lost", group_id
            )
            self._fence(now_ms, keep_member_id=True)
        elif is_leader:
            self._lead(response)
        else:
            self._follow(has_leader=bool(response.leader))

    def _lead(self, response: JoinGroupResponse) -> None:
        try:
            members = {
                member.member_id: decode_subscription(bytes(member.metadata), member.group_instance_id)
                for member in response.members
            }
        except ProtocolError as error:
            self._fail(GroupError(f"group {self.settings.group_id!r}: a member's subscription is unreadable: {error}"))
            return
        self._watch = _TopicWatch(members, {}, skip_assignment=response.skip_assignment)
        self._move(_T.IS_LEADER)
        self._rebalance.attempt = self._requests.find_topics(self._watch.names)

    def _follow(self, *, has_leader: bool) -> None:
        """Wait for the assignment; in a group without a leader, watch the subscribed topics.

        Brokers assign in such a group (of the consumer protocol), and see when topics change. But when its last member
        of the consumer protocol is replaced by a static one of the classic protocol, the group becomes a classic one
        without a rebalance, so no member is elected that would watch the topics.
        """
        if not has_leader:
            assert self._rebalance.subscription is not None
            topics = tuple(sorted(self._rebalance.subscription.topics))
            mine = MemberSubscription(topics, rack_id=self.settings.rack_id)
            self._watch = _TopicWatch({self.identity.member_id: mine})
        self._move(_T.IS_FOLLOWER)
        self._send_sync({})

    # -- the leader's part

    def _on_topics_found(self, attempt: int, topics: Topics) -> None:
        if attempt != self._rebalance.attempt or self.state is not _S.ASSIGNING:
            return
        watch, assignor = self._watch, self._rebalance.assignor
        assert watch is not None
        assert assignor is not None
        try:
            # A static leader that has rejoined watches the topics, and leaves the assignment as it is (KIP-814).
            assignments = {} if watch.skip_assignment else assign_group(assignor, topics, watch.members)
        except GroupError as error:
            self._fail(error)
            return
        self._watch = replace(watch, topics=topics)
        self._move(_T.ASSIGNMENT_COMPUTED)
        self._send_sync(assignments)

    def _on_topics_refreshed(self, topics: Topics, now_ms: int) -> None:
        watch = self._watch
        if watch is None:
            return
        if watch.topics is None:
            self._watch = replace(watch, topics=topics)
        elif self.state is _S.STABLE and watch.is_changed(topics):
            self._rejoin("the topics' partitions have changed", now_ms)

    # -- SyncGroup

    def _send_sync(self, assignments: EncodedAssignments) -> None:
        assert self._rebalance.assignor is not None
        request = SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.identity.generation_id,
            member_id=self.identity.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._rebalance.assignor.name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )
        self._rebalance.attempt = self._requests.send(SYNC_GROUP, request, self._rebalance_timeout_ms, blocks=True)

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        group_id, rebalance = self.settings.group_id, self._rebalance
        if (
            response.error_code == ErrorCode.ILLEGAL_GENERATION
            and NO_GENERATION < rebalance.assigned_generation_id < self.identity.generation_id
        ):
            log.info("group %r: its coordinator does not know generation %d", group_id, self.identity.generation_id)
            self.identity.generation_id = rebalance.assigned_generation_id
            self._join_after_backoff("the assignment was lost with the coordinator", now_ms)
            return
        if response.error_code:
            self._on_error_code(response.error_code, "waiting for the assignment", now_ms)
            return
        assert rebalance.assignor is not None
        try:
            assigned = decode_assignment(bytes(response.assignment))
            notify_assigned(rebalance.assignor, assigned, self.identity.generation_id)
        except ProtocolError as error:
            self._fail(GroupError(f"group {group_id!r}: the leader's assignment is unreadable: {error}"))
            return
        except GroupError as error:
            self._fail(error)
            return
        after, owned = frozenset(assigned), self.reconciler.owned
        self._move(_T.ASSIGNMENT_RECEIVED)
        subscription = self.subscription
        if subscription is None or not all(subscription.covers(topic) for topic, _ in after):
            self._refuse_assignment(after, now_ms)
            return
        self.metrics.rebalance_ends(now_ms)
        self.reconciler.propose(AssignmentChange(revoked=owned - after, assigned=after - owned, after=after))

    def _refuse_assignment(self, assigned: Partitions, now_ms: int) -> None:
        """Rejoin: the assignment has partitions of a topic that the member is not subscribed to, or no longer."""
        subscription, rebalance = self.subscription, self._rebalance
        if subscription != rebalance.subscription:
            self._rejoin("the assignment does not match the changed subscription", now_ms)
            return
        unknown = sorted({topic for topic, _ in assigned if subscription is None or not subscription.covers(topic)})
        log.warning(
            "group %r: the leader gave this member partitions of %s, which it has not subscribed to: fix the leader's "
            "assignor %r",
            *(
                self.settings.group_id,
                printable(", ".join(unknown)),
                rebalance.assignor.name if rebalance.assignor else "",
            ),
        )
        # After a backoff: the next assignment may be the same.
        self._join_after_backoff("the assignment does not match the subscription", now_ms)

    # -- Heartbeat

    def _send_heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.identity.generation_id,
            member_id=self.identity.member_id,
            group_instance_id=self.settings.group_instance_id,
        )
        timeout_ms = min(self.settings.request_timeout_ms, self.settings.session_timeout_ms)
        self._heartbeat.attempt = self._requests.send(HEARTBEAT, request, timeout_ms)

    def _on_heartbeat_response(self, response: HeartbeatResponse, now_ms: int) -> None:
        self._heartbeat.attempt, self._heartbeat.due_ms = 0, now_ms + self._heartbeat.interval_ms
        if response.error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._rebalance.confirmed_ms = now_ms
        if response.error_code == ErrorCode.NONE:
            self._requests.succeeded()
            self.metrics.heartbeat_accepted(now_ms)
        elif self.state not in _HEARTBEATING:
            return
        elif CLASSIC.meaning_of(response.error_code) is Meaning.RETRY:
            self._retry_heartbeat(now_ms)
        elif CLASSIC.meaning_of(response.error_code) is Meaning.REJOIN:
            self._rejoin("the group is rebalancing", now_ms)
        else:
            self._on_error_code(response.error_code, "heartbeat", now_ms)

    def _retry_heartbeat(self, now_ms: int) -> None:
        self._heartbeat.due_ms = now_ms + min(self._requests.backoff_ms(), self._heartbeat.interval_ms)

    # -- errors

    def _on_commit_rejected(self, error_code: int, generation_id: int, now_ms: int) -> None:
        if generation_id != self.identity.generation_id or CLASSIC.meaning_of(error_code) is Meaning.RETRY:
            return
        if error_code == ErrorCode.ILLEGAL_GENERATION and self._is_generation_unassigned:
            log.info("group %r: its coordinator does not know generation %d", self.settings.group_id, generation_id)
            self.identity.generation_id = self._rebalance.assigned_generation_id
        elif self.state in _HEARTBEATING and not self.retries_commit(error_code, generation_id):
            if CLASSIC.meaning_of(error_code) is Meaning.REJOIN:
                self._rejoin("the group is rebalancing", now_ms)
            else:
                self._on_error_code(error_code, "commit", now_ms)

    def _on_error_code(self, code: int, doing: str, now_ms: int) -> None:
        meaning = CLASSIC.meaning_of(code)
        if meaning in (Meaning.RETRY, Meaning.REJOIN):
            self._join_after_backoff(f"{doing}: {error_name(code)}", now_ms)
        elif meaning in (Meaning.FENCED, Meaning.FENCED_GENERATION):
            log.warning("group %r: %s: %s; rejoining", self.settings.group_id, doing, error_name(code))
            self._fence(now_ms, keep_member_id=meaning is Meaning.FENCED_GENERATION)
        else:
            self._fail(CLASSIC.fatal_error(code, self.settings, doing))

    def _fence(self, now_ms: int, *, keep_member_id: bool) -> None:
        """The group goes on without this member, and others may own its partitions."""
        self.metrics.rebalance_begins(now_ms)
        self.metrics.losses += 1
        self._reset_generation(keep_member_id=keep_member_id)
        if self.reconciler.in_progress is not None:
            self._move(_T.FENCE)  # what is lost is known when the listener has returned
        else:
            self._report_lost_and_join(now_ms)

    def _fail(self, error: KafkaError) -> None:
        """Stop until a call of the application has raised the error."""
        log_error(self.settings, error)
        self._send_leave("it cannot go on")
        self.reconciler.fail(error)
        self._reset_generation(keep_member_id=True)
        self._move(_T.FAIL)

    def _on_error_reported(self, now_ms: int) -> None:
        error = self.reconciler.error
        if error is None or is_final(error):
            return
        self.reconciler.error = None
        self.metrics.rebalance_begins(now_ms)
        if self.reconciler.in_progress is None:
            self._report_lost_and_join(now_ms)

    # -- joining and rejoining

    def _begin_join(self, now_ms: int) -> None:
        self._rebalance.due_ms = now_ms
        self._rebalance.attempt = 0  # the response to what is in flight is of no use
        self._move(_T.JOIN)

    def _join_after_backoff(self, reason: str, now_ms: int) -> None:
        log.info("group %r: %s; retrying", self.settings.group_id, reason)
        self._rebalance.reason = reason[:200]
        self._begin_join(now_ms + self._requests.backoff_ms())

    def _rejoin(self, reason: str, now_ms: int) -> None:
        """Rejoin because the group or the subscription has changed, after partitions were revoked."""
        if self.state not in _REJOINABLE:
            return  # it joins anyway, or compares subscriptions when it has its assignment
        if self.reconciler.in_progress is not None:
            self._rebalance.reason = reason
            self._move(_T.REBALANCE_AGAIN)
            return
        log.info("group %r: rejoining: %s", self.settings.group_id, reason)
        self.metrics.rebalance_begins(now_ms)
        self._rebalance.reason = reason
        revoked = self._partitions_to_revoke()
        if revoked:
            self.reconciler.propose(AssignmentChange(revoked=revoked, after=self.reconciler.owned - revoked))
            self._rebalance.attempt = 0
            self._move(_T.REVOKE)
        else:
            self.reconciler.propose(None)
            self._begin_join(now_ms)

    def _partitions_to_revoke(self) -> Partitions:
        """Return what a member must not own while it joins: all; in a cooperative group, unsubscribed topics."""
        owned, subscription = self.reconciler.owned, self.subscription
        if subscription is None or not all(assignor.cooperative for assignor in self.settings.assignors):
            return owned
        return frozenset(partition for partition in owned if not subscription.covers(partition.topic))

    def _report_lost_and_join(self, now_ms: int) -> None:
        """Join, once the listener has been called with all partitions as lost."""
        if self.reconciler.propose_lost():
            self._rebalance.attempt = 0
            self._move(_T.FENCE)
        else:
            self._begin_join(now_ms)

    def _on_reconciled(self, now_ms: int) -> None:
        change = self.reconciler.complete()
        if change is None:
            return
        if self.state is _S.REVOKING:
            self._begin_join(now_ms)
        elif self.state is _S.FENCED or (self.state in _LEFT and self.reconciler.error is None):
            self._report_lost_and_join(now_ms)
        elif self.state in (_S.RECONCILING, _S.SUPERSEDED):
            self._on_assignment_taken_over(change, now_ms)

    def _on_assignment_taken_over(self, change: AssignmentChange, now_ms: int) -> None:
        is_superseded = self.state is _S.SUPERSEDED
        self._rebalance.assigned_generation_id = self.identity.generation_id
        self._move(_T.RECONCILED)
        if is_superseded:
            self._rejoin(self._rebalance.reason, now_ms)
        elif change.revoked:
            self._rejoin("partitions were revoked", now_ms)  # so that they can be assigned to other members
        elif self.subscription != self._rebalance.subscription:
            self._rejoin("the subscription has changed", now_ms)

    # -- inside

    def _move(self, trigger: ClassicTrigger) -> None:
        after = CLASSIC_TRANSITIONS[self.state, trigger]
        log.debug("group %r: %s -> %s", self.settings.group_id, self.state.name, after.name)
        self.state = after

    def _reset_generation(self, *, keep_member_id: bool) -> None:
        """Be no member any more; responses to what is in flight are of no use."""
        self.identity.generation_id = self._rebalance.assigned_generation_id = NO_GENERATION
        if not keep_member_id:
            self.identity.member_id = ""
        self._rebalance.attempt = self._heartbeat.attempt = 0
        self._watch = None

    def _send_leave(self, reason: str) -> None:
        """Leave the group, unless the member is static: the group keeps its partitions for it."""
        if not self.identity.member_id or self.settings.group_instance_id is not None:
            return
        group_id, member_id = self.settings.group_id, self.identity.member_id

        def make(version: int) -> LeaveGroupRequest:
            if version < _BATCH_LEAVE_SINCE_VERSION:
                return LeaveGroupRequest(group_id=group_id, member_id=member_id)
            return LeaveGroupRequest(group_id=group_id, members=[LeavingMember(member_id=member_id, reason=reason)])

        self._requests.leave(LEAVE_GROUP, make, reason)
