"""Membership in a classic group: join, get an assignment, send heartbeats, begin again when the group changes. Pure.

`Phase` and `TRANSITIONS` say where a member can go; `error_tables` what an error code means. Two points make it
differ from Java's. Whatever needs no user goes on without one: only giving partitions up (PARTING) and taking an
assignment over (TAKING) wait for the user's next call, so a slow user of a cooperative group holds nobody up. And an
assignment that was not taken over yet is dropped when the group has moved on. Start at `_join` and `_joined`.
Source: KIP-62, KIP-345, KIP-394, KIP-429, KIP-559, KIP-792, KIP-800, KIP-814; Kafka's AbstractCoordinator.
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import Final

from kafkaraw.core.group.actions import NONE, FindTopics, GroupSettings, Handover, Part, Partitions, Send, Wanted
from kafkaraw.core.group.asking_assignors import ask_user_data, tell_assigned
from kafkaraw.core.group.assignors import Assignor, Topics
from kafkaraw.core.group.error_tables import CLASSIC, Meaning
from kafkaraw.core.group.leading import Assigned, assign_group, read_members
from kafkaraw.core.group.member import NO_GENERATION, GroupMember, is_final
from kafkaraw.core.group.subscription import (
    PROTOCOL_TYPE,
    MemberSubscription,
    decode_assignment,
    encode_subscription,
)
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import GroupError, KafkaError, ProtocolError, RetriableError
from kafkaraw.protocol.error_codes import ErrorCode, error_name
from kafkaraw.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkaraw.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kafkaraw.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkaraw.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafkaraw.protocol.printable import printable

log = logging.getLogger(__name__)

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
JOIN_LAPSE_MS: Final = 5_000
"""How much longer than the group may take to rebalance an answer to JoinGroup is awaited."""
_MANY_LEAVE_FROM_VERSION: Final = 3


class Phase(Enum):
    """Where a member stands; the value ends the sentence "the consumer ..."."""

    OUT = "is in no group"
    PARTING = "has to give partitions up before it joins"
    WAITING = "is about to join"
    JOINING = "waits for the others to join"
    ASSIGNING = "makes the assignment"
    SYNCING = "waits for its assignment"
    TAKING = "has an assignment to take over"
    MEMBER = "is a member"
    AWAY = "has left because it was not asked for records"
    STUCK = "cannot be a member"


class Change(Enum):
    """What can happen to it."""

    PARTS = auto()
    JOINS = auto()
    ASKS = auto()
    LEADS = auto()
    FOLLOWS = auto()
    ASSIGNS = auto()
    IS_GIVEN = auto()
    TAKES = auto()
    LEAVES = auto()
    STAYS_AWAY = auto()
    BREAKS = auto()


_IN: Final = frozenset(Phase) - {Phase.OUT}
TRANSITIONS: Final = {
    **{(phase, Change.PARTS): Phase.PARTING for phase in _IN},
    **{(phase, Change.JOINS): Phase.WAITING for phase in Phase},
    (Phase.WAITING, Change.ASKS): Phase.JOINING,
    (Phase.JOINING, Change.LEADS): Phase.ASSIGNING,
    (Phase.JOINING, Change.FOLLOWS): Phase.SYNCING,
    (Phase.ASSIGNING, Change.ASSIGNS): Phase.SYNCING,
    (Phase.SYNCING, Change.IS_GIVEN): Phase.TAKING,
    (Phase.TAKING, Change.TAKES): Phase.MEMBER,
    **{(phase, Change.LEAVES): Phase.OUT for phase in Phase},
    **{(phase, Change.STAYS_AWAY): Phase.AWAY for phase in _IN - {Phase.STUCK}},
    **{(phase, Change.BREAKS): Phase.STUCK for phase in _IN},
}

_BEGINS_AGAIN: Final = frozenset({Change.JOINS, Change.PARTS})
_BETWEEN: Final = frozenset({Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING})
_BEATING: Final = _BETWEEN - {Phase.JOINING} | {Phase.PARTING, Phase.TAKING, Phase.MEMBER}
_RESTING: Final = frozenset({Phase.OUT, Phase.AWAY, Phase.STUCK, Phase.PARTING, Phase.WAITING, Phase.JOINING})


class ClassicMember(GroupMember):
    """A member of a classic group; see `GroupMember`."""

    def __init__(self, settings: GroupSettings, backoff: Backoff, rng: RandomSource) -> None:
        super().__init__(settings, backoff, rng)
        self.phase = Phase.OUT
        self._assignors: dict[str, Assignor] = {assignor.name: assignor for assignor in settings.assignors}
        self._cooperative = all(assignor.cooperative for assignor in settings.assignors)
        self._assignor: Assignor | None = None
        self._asked_for: Wanted | None = None
        self._attempt = 0
        self._beat = 0
        self._join_at_ms = 0
        self._beat_at_ms = 0
        self._known_at_ms = 0  # until when a coordinator cannot have forgotten this member
        self._again = ""
        self._lost_meanwhile = False
        self._taken_in = NO_GENERATION
        self._reason = ""
        self._members: dict[str, MemberSubscription] = {}
        self._led: Topics | None = None
        self._is_unled = False  # nobody leads: brokers assign, until the group goes back to this protocol unnoticed
        self._skips = False

    # -- what the driver asks

    @property
    def deadline_ms(self) -> int | None:
        """See `GroupMember`."""
        times = [self._join_at_ms] if self.phase is Phase.WAITING else []
        if self._beats and not self._beat:
            times.append(self._beat_at_ms)
        return min(times + self._user_deadlines, default=None)

    @property
    def state(self) -> str:
        """See `GroupMember`."""
        return self.phase.value

    @property
    def takes_part(self) -> bool:
        """See `GroupMember`."""
        return self.phase not in (Phase.OUT, Phase.AWAY, Phase.STUCK)

    @property
    def is_between(self) -> bool:
        """See `GroupMember`."""
        return self.phase in _BETWEEN

    @property
    def watched_topics(self) -> tuple[str, ...]:
        """See `GroupMember`."""
        wanted = {topic for member in self._members.values() for topic in member.topics}
        return tuple(sorted(wanted)) if self._led is not None or self._is_unled else ()

    # -- what the user wants

    def subscribe(self, wanted: Wanted, now_ms: int) -> None:
        """See `GroupMember`."""
        self.wanted = wanted
        if self.phase is Phase.OUT:
            self._change(Change.JOINS)
            self._join_at_ms = now_ms
            self._rebalance_begins(now_ms)
        elif wanted != self._asked_for and self.phase not in _BETWEEN:  # else it compares when it has its assignment
            self._rejoin("the subscription has changed", now_ms)

    def leave(self, reason: str) -> None:
        """See `GroupMember`."""
        self._part(reason)
        self._forget(member_id=True)
        self._change(Change.LEAVES)
        self.wanted = self._asked_for = self._handover = self._problem = None
        self.owned = NONE
        self.presence.wants_nothing()

    def tick(self, now_ms: int) -> None:
        """See `GroupMember`."""
        if self._user_stays_away(now_ms):
            self._part("the user has not polled in time")
            self._forget(member_id=self.settings.group_instance_id is None)
            self._change(Change.STAYS_AWAY)
        elif self.phase is Phase.WAITING and now_ms >= self._join_at_ms:
            if self.owned and self._may_be_forgotten(now_ms):
                log.warning("group %r: not heard of the coordinator for too long; joining anew", self.settings.group_id)
                self._lose(now_ms, member_id=False)
            else:
                self._join()
        elif self._beats and not self._beat and now_ms >= self._beat_at_ms:
            self._send_heartbeat()

    # -- joining

    def _may_be_forgotten(self, now_ms: int) -> bool:
        """Whether the group may have gone on without this member, so that what it has may belong to others.

        Not every coordinator says so: it keeps static members that have not joined in time, as they were when they
        joined last, perhaps with nothing; and lets classic members into a group of the new protocol again, whatever
        their ids. Who then gave partitions up in order would store positions behind the new owner's back.
        """
        patience_ms = min(self.settings.session_timeout_ms, self.settings.rebalance_timeout_ms)
        return now_ms - self._known_at_ms > patience_ms

    def _join(self) -> None:
        assert self.wanted is not None
        self._asked_for = self.wanted
        self._attempt = self._next_attempt()
        self._led, self._is_unled = None, False
        settings = self.settings
        try:
            offers = [self._offer(assignor, self.wanted) for assignor in settings.assignors]
        except GroupError as error:
            self._break(error)
            return
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=offers,
            reason=self._reason or None,
        )
        self._actions.append(Send(JOIN_GROUP, lambda _: request, self._attempt, self._patience_ms, held=True))
        self._change(Change.ASKS)

    def _offer(self, assignor: Assignor, wanted: Wanted) -> JoinGroupRequestProtocol:
        topics = tuple(sorted(wanted.topics))
        subscription = MemberSubscription(
            topics=topics,
            owned_partitions=tuple(sorted(self.owned)),
            user_data=ask_user_data(assignor, topics),
            generation_id=self.generation_id,
            rack_id=self.settings.rack_id,
        )
        return JoinGroupRequestProtocol(name=assignor.name, metadata=encode_subscription(subscription))

    @property
    def _patience_ms(self) -> int:
        return max(self.settings.request_timeout_ms, self.settings.rebalance_timeout_ms + JOIN_LAPSE_MS)

    def awaits(self, attempt: int) -> bool:
        """See `GroupMember`."""
        return attempt in (self._beat, self._attempt)

    def answered(self, attempt: int, response: object, now_ms: int) -> None:
        """See `GroupMember`."""
        if attempt == self._beat:
            assert isinstance(response, HeartbeatResponse)
            self._beaten(response, now_ms)
        elif attempt == self._attempt:
            was_forgotten = self._may_be_forgotten(now_ms)
            self._known_at_ms = now_ms  # whatever the answer: a coordinator that goes may have held it back for long
            if isinstance(response, JoinGroupResponse):
                self._joined(response, now_ms, was_forgotten=was_forgotten)
            elif isinstance(response, SyncGroupResponse):
                self._synced(response, now_ms)

    def unanswered(self, attempt: int, error: KafkaError, now_ms: int) -> None:
        """See `GroupMember`."""
        if attempt == self._beat:
            log.info("group %r: no answer to a heartbeat: %s", self.settings.group_id, error)
            self._beat = 0
            self._beat_at_ms = now_ms + min(self._pause_ms(), self.settings.heartbeat_interval_ms)
        elif attempt == self._attempt and self.phase in _BETWEEN:
            if isinstance(error, RetriableError):
                self._try_again(f"{self.phase.name.lower()} failed: {error}", now_ms)
            else:
                self._break(error)

    def _joined(self, response: JoinGroupResponse, now_ms: int, *, was_forgotten: bool) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self._change(Change.JOINS)
            self._join_at_ms = now_ms
            return
        if response.error_code:
            self._react(response.error_code, "joining", now_ms)
            return
        assignor = self._assignors.get(response.protocol_name or "")
        if assignor is None or (response.protocol_type or PROTOCOL_TYPE) != PROTOCOL_TYPE:
            self._break(GroupError(f"group {self.settings.group_id!r} chose {response.protocol_name!r}, not ours"))
            return
        self.member_id, self.generation_id = response.member_id, response.generation_id
        self._assignor = assignor
        self._failures = 0
        self._beat, self._beat_at_ms = 0, now_ms + self.settings.heartbeat_interval_ms
        log.info(
            "group %r: joined generation %d as %r%s",
            *(self.settings.group_id, self.generation_id, self.member_id),
            ", which leads" if response.leader == response.member_id else "",
        )
        if not response.leader and was_forgotten and self.owned:
            log.warning("group %r: the answer came too late to know whose the partitions are", self.settings.group_id)
            self._lose(now_ms, member_id=False)
            return
        if response.leader != response.member_id:
            self._follow(is_unled=not response.leader)
            return
        try:
            self._members = read_members(response.members)
        except ProtocolError as error:
            self._break(GroupError(f"group {self.settings.group_id!r}: a member's subscription is unreadable: {error}"))
            return
        self._led, self._skips = {}, response.skip_assignment
        self._change(Change.LEADS)
        self._attempt = self._next_attempt()
        self._actions.append(FindTopics(self.watched_topics, self._attempt))

    def _follow(self, *, is_unled: bool) -> None:
        """Be no leader; where nobody is one, a member watches the topics itself.

        Brokers assign there, and see topics grow. But when the last member of the new protocol is replaced by a static
        one of this, the group is back at this protocol, and nobody joins again who could be told to lead it.
        """
        assert self._asked_for is not None
        if is_unled:
            mine = MemberSubscription(tuple(sorted(self._asked_for.topics)), rack_id=self.settings.rack_id)
            self._members, self._is_unled = {self.member_id: mine}, True
        self._change(Change.FOLLOWS)
        self._sync({})

    def topics_found(self, attempt: int, topics: Topics, now_ms: int) -> None:
        """See `GroupMember`."""
        if attempt != self._attempt or self.phase is not Phase.ASSIGNING:
            return
        assert self._assignor is not None
        try:
            # A leader that has come back under its static name watches the topics, and leaves all as it is (KIP-814).
            assignments = {} if self._skips else assign_group(self._assignor, topics, self._members)
        except GroupError as error:
            self._break(error)
            return
        self._led = topics
        self._change(Change.ASSIGNS)
        self._sync(assignments)

    def topics_seen(self, topics: Topics, now_ms: int) -> None:
        """See `GroupMember`."""
        if self._is_unled and self._led is None:
            self._led = topics
        elif self.phase is Phase.MEMBER and self._led is not None and _differ(self._led, topics, self._members):
            self._rejoin("the topics' partitions have changed", now_ms)

    def _sync(self, assignments: Assigned) -> None:
        assert self._assignor is not None
        request = SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._assignor.name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )
        self._attempt = self._next_attempt()
        self._actions.append(Send(SYNC_GROUP, lambda _: request, self._attempt, self._patience_ms, held=True))

    def _synced(self, response: SyncGroupResponse, now_ms: int) -> None:
        if response.error_code == ErrorCode.ILLEGAL_GENERATION and NO_GENERATION < self._taken_in < self.generation_id:
            log.info("group %r: its coordinator does not know this generation", self.settings.group_id)
            self.generation_id = self._taken_in
            self._try_again("the assignment was lost with the coordinator", now_ms)
            return
        if response.error_code:
            self._react(response.error_code, "waiting for the assignment", now_ms)
            return
        assert self._assignor is not None
        assert self._asked_for is not None
        try:
            assigned = decode_assignment(bytes(response.assignment))
            tell_assigned(self._assignor, assigned, self.generation_id)
        except ProtocolError as error:
            self._break(GroupError(f"group {self.settings.group_id!r}: the leader's assignment is unreadable: {error}"))
            return
        except GroupError as error:
            self._break(error)
            return
        after = frozenset(assigned)
        self._change(Change.IS_GIVEN)
        wanted = self.wanted
        if wanted is None or not all(wanted.covers(topic) for topic, _ in after):
            self._refuse(after, now_ms)
            return
        self._rebalance_ends(now_ms)
        self._handover = Handover(revoked=self.owned - after, assigned=after - self.owned, after=after)

    def _refuse(self, assigned: Partitions, now_ms: int) -> None:
        """There is a topic among these that is not wanted, or not any more."""
        if self.wanted != self._asked_for:
            self._rejoin("the assignment does not fit the subscription any more", now_ms)
            return
        strange = sorted({topic for topic, _ in assigned if self.wanted is None or not self.wanted.covers(topic)})
        log.warning(
            "group %r: the leader gave this member partitions of %s, which it has not subscribed to: mend the leader's "
            "assignor %r",
            *(self.settings.group_id, printable(", ".join(strange)), self._assignor.name if self._assignor else ""),
        )
        self._try_again("the assignment does not fit the subscription", now_ms)  # after a pause: it may go on like this

    # -- heartbeats

    @property
    def _beats(self) -> bool:
        return self.phase in _BEATING and self.generation_id != NO_GENERATION

    def _send_heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
        )
        self._beat = self._next_attempt()
        wait_ms = min(self.settings.request_timeout_ms, self.settings.session_timeout_ms)
        self._actions.append(Send(HEARTBEAT, lambda _: request, self._beat, wait_ms))

    def _beaten(self, response: HeartbeatResponse, now_ms: int) -> None:
        self._beat, self._beat_at_ms = 0, now_ms + self.settings.heartbeat_interval_ms
        if response.error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._known_at_ms = now_ms
        if response.error_code == ErrorCode.NONE:
            self._heard(now_ms)
        elif not self._beats:
            return
        elif CLASSIC.meaning_of(response.error_code) is Meaning.AGAIN:
            self._beat_at_ms = now_ms + min(self._pause_ms(), self.settings.heartbeat_interval_ms)
        elif CLASSIC.meaning_of(response.error_code) is Meaning.REJOIN:
            self._rejoin("the group is rebalancing", now_ms)
        else:
            self._react(response.error_code, "heartbeat", now_ms)

    # -- what goes wrong

    def commit_refused(self, code: int, generation_id: int, now_ms: int) -> bool:
        """See `GroupMember`."""
        if generation_id != self.generation_id or CLASSIC.meaning_of(code) is Meaning.AGAIN:
            return False
        if self._was_joined_in_vain(code):
            log.info("group %r: its coordinator does not know generation %d", self.settings.group_id, generation_id)
            self.generation_id = self._taken_in
            return True
        if code == ErrorCode.ILLEGAL_GENERATION and self.phase is Phase.JOINING:
            return True  # the answer that tells of the next generation, or that there is none for it, is on its way
        if code == ErrorCode.REBALANCE_IN_PROGRESS and self.phase in _BETWEEN:
            return True  # the coordinator waits for the leader's assignment: the answer that brings it is on its way
        if self._beats:
            if CLASSIC.meaning_of(code) is Meaning.REJOIN:
                self._rejoin("the group is rebalancing", now_ms)
            else:
                self._react(code, "commit", now_ms)
        return False

    def _was_joined_in_vain(self, code: int) -> bool:
        """Whether this generation came to nothing: its assignment has not come, and another coordinator took over.

        What the member has is from an older generation, in which that coordinator believes the group to be.
        """
        between = self.phase in (Phase.WAITING, Phase.JOINING) and NO_GENERATION < self._taken_in < self.generation_id
        return between and code == ErrorCode.ILLEGAL_GENERATION

    def _react(self, code: int, doing: str, now_ms: int) -> None:
        meaning = CLASSIC.meaning_of(code)
        if meaning in (Meaning.AGAIN, Meaning.REJOIN):
            self._try_again(f"{doing}: {error_name(code)}", now_ms)
        elif meaning in (Meaning.LOST, Meaning.LOST_GENERATION):
            log.warning("group %r: %s: %s; joining again", self.settings.group_id, doing, error_name(code))
            self._lose(now_ms, member_id=meaning is Meaning.LOST)
        else:
            self._break(CLASSIC.stuck_error(code, self.settings, doing))

    def _try_again(self, why: str, now_ms: int) -> None:
        """Join again after a pause."""
        log.info("group %r: %s; trying again", self.settings.group_id, why)
        self._reason = why[:200]
        self._join_at_ms = now_ms + self._pause_ms()
        self._change(Change.JOINS)

    def _rejoin(self, reason: str, now_ms: int) -> None:
        """Join again, because the group or the subscription has changed; partitions are given up first."""
        if self.phase in _RESTING:
            return  # it joins anyway; or, having asked already, compares when it is in
        if self._telling is not None:
            self._again = reason
            return
        log.info("group %r: joining again: %s", self.settings.group_id, reason)
        self._rebalance_begins(now_ms)
        self._reason, self._again = reason, ""
        self._join_at_ms = now_ms
        leaving = self._to_give_up()
        self._handover = Handover(revoked=leaving, after=self.owned - leaving) if leaving else None
        self._change(Change.PARTS if leaving else Change.JOINS)

    def _to_give_up(self) -> Partitions:
        """What a member may not keep while it joins: everything, or in a cooperative group what it does not want."""
        wanted = self.wanted
        if not self._cooperative or wanted is None:
            return self.owned
        return frozenset(partition for partition in self.owned if not wanted.covers(partition.topic))

    def _lose(self, now_ms: int, *, member_id: bool) -> None:
        """The group goes on without this member, and what it has may belong to others."""
        self._rebalance_begins(now_ms)
        self.counts.losses += 1
        self._forget(member_id=member_id)
        self._join_at_ms = now_ms
        if self._telling is not None:
            self._lost_meanwhile = True
            return
        self._handover = Handover(lost=self.owned) if self.owned else None
        self._change(Change.PARTS if self.owned else Change.JOINS)

    def _break(self, error: KafkaError) -> None:
        """Nothing can be done before the user has heard of it."""
        self._log(error)
        self._part("it cannot go on")
        self._problem, self._handover = error, None
        self._forget(member_id=False)
        self._change(Change.BREAKS)

    # -- telling the user

    def _told(self, handover: Handover, now_ms: int) -> None:
        if self._lost_meanwhile:
            self._lost_meanwhile = False
            self._handover = Handover(lost=self.owned) if self.owned else None
            self._change(Change.PARTS if self.owned else Change.JOINS)
        elif self.phase is Phase.PARTING:
            self._change(Change.JOINS)
            self._join_at_ms = now_ms
        elif self.phase is Phase.TAKING:
            self._taken_in = self.generation_id
            self._change(Change.TAKES)
            again = self._again or ("partitions were given up" if handover.revoked else "")
            if again or self.wanted != self._asked_for:
                self._rejoin(again or "the subscription has changed", now_ms)

    def _problem_told(self, problem: KafkaError, now_ms: int) -> None:
        if is_final(problem):
            self._problem = problem
            return
        self._rebalance_begins(now_ms)
        self._join_at_ms = now_ms
        if self._telling is not None:
            self._lost_meanwhile = True  # what they are being told is theirs is lost, too
            return
        self._handover = Handover(lost=self.owned) if self.owned else None
        self._change(Change.PARTS if self.owned else Change.JOINS)

    # -- inside

    def _change(self, change: Change) -> None:
        after = TRANSITIONS[self.phase, change]
        log.debug("group %r: %s -> %s", self.settings.group_id, self.phase.name, after.name)
        self.phase = after
        if change in _BEGINS_AGAIN:
            self._attempt = 0  # what is still under way is of no use

    def _forget(self, *, member_id: bool) -> None:
        """Be no member any more; answers that are still on their way are of no use."""
        self.generation_id = self._taken_in = NO_GENERATION
        if member_id:
            self.member_id = ""
        self._attempt = self._beat = 0
        self._led = None
        self._again = ""

    def _part(self, reason: str) -> None:
        """Tell the coordinator, unless the name of a static member keeps its place."""
        if not self.member_id or self.settings.group_instance_id is not None:
            return
        group_id, member_id = self.settings.group_id, self.member_id

        def make(version: int) -> LeaveGroupRequest:
            if version < _MANY_LEAVE_FROM_VERSION:
                return LeaveGroupRequest(group_id=group_id, member_id=member_id)
            return LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id, reason=reason)])

        self._actions.append(Part(LEAVE_GROUP, make, reason))


def _differ(led: Topics, seen: Topics, members: dict[str, MemberSubscription]) -> bool:
    """Whether another assignment may come out of it: numbers count, and racks when members name theirs."""
    if any(member.rack_id for member in members.values()):
        return {topic: list(racks) for topic, racks in led.items()} != {t: list(racks) for t, racks in seen.items()}
    return {topic: len(racks) for topic, racks in led.items()} != {topic: len(racks) for topic, racks in seen.items()}
