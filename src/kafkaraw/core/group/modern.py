"""Membership in a group of the protocol of KIP-848: the broker assigns, and a heartbeat is all there is to send. Pure.

A heartbeat tells what has changed, and its answer may bring a new assignment. The user is told of the difference in
their next call; then the member says what it owns, which lets the broker go on. What the broker knows of a member is
not certain after an error, so the next heartbeat tells everything. Start at `_heartbeat` and `_given`.
Source: KIP-848, KIP-1082; Kafka's ConsumerMembershipManager and ConsumerHeartbeatRequestManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from kafkaraw.core.group.actions import NONE, FindNames, GroupSettings, Handover, Part, Send, Wanted
from kafkaraw.core.group.error_tables import MODERN, Meaning
from kafkaraw.core.group.member import NO_GENERATION, GroupMember, is_final
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import KafkaError, RetriableError
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

log = logging.getLogger(__name__)

CONSUMER_GROUP_HEARTBEAT: Final = 68
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
FIRST_INTERVAL_MS: Final = 3_000
"""How often to send heartbeats until the broker says how often."""
_FIND_AGAIN_MS: Final = 1_000


class Phase(Enum):
    """Where a member stands; the value ends the sentence "the consumer ..."."""

    OUT = "is in no group"
    LOSING = "was thrown out and has to tell so before it joins again"
    JOINING = "is about to join"
    MEMBER = "is a member"
    GIVING = "has a new assignment to take over"
    AWAY = "has left because it was not asked for records"
    STUCK = "cannot be a member"


class Change(Enum):
    """What can happen to it."""

    JOINS = auto()
    IS_IN = auto()
    IS_GIVEN = auto()
    IS_LOST = auto()
    LEAVES = auto()
    STAYS_AWAY = auto()
    BREAKS = auto()


_IN: Final = frozenset(Phase) - {Phase.OUT}
TRANSITIONS: Final = {
    **{(phase, Change.JOINS): Phase.JOINING for phase in Phase},
    **{(phase, Change.IS_IN): Phase.MEMBER for phase in (Phase.JOINING, Phase.MEMBER, Phase.GIVING)},
    **{(phase, Change.IS_GIVEN): Phase.GIVING for phase in (Phase.JOINING, Phase.MEMBER, Phase.GIVING)},
    **{(phase, Change.IS_LOST): Phase.LOSING for phase in _IN},
    **{(phase, Change.LEAVES): Phase.OUT for phase in Phase},
    **{(phase, Change.STAYS_AWAY): Phase.AWAY for phase in _IN - {Phase.STUCK}},
    **{(phase, Change.BREAKS): Phase.STUCK for phase in _IN},
}
_BEATING: Final = frozenset({Phase.JOINING, Phase.MEMBER, Phase.GIVING})

Claims = frozenset[tuple[Uuid, int]]
"""Partitions, by the ids of their topics."""


class ModernMember(GroupMember):
    """A member of a group in which the broker assigns; see `GroupMember`.

    Args:
        settings: of the member.
        backoff: pauses after failures.
        rng: jitter.
        member_id: made by the client, for the whole life of the consumer.
        name_of: the topic that has an id, as far as it is known.
    """

    def __init__(
        self,
        settings: GroupSettings,
        backoff: Backoff,
        rng: RandomSource,
        member_id: str,
        name_of: Callable[[Uuid], str | None],
    ) -> None:
        super().__init__(settings, backoff, rng)
        self.member_id = member_id
        self.phase = Phase.OUT
        self._name_of = name_of
        self._ids: dict[str, Uuid] = {}
        self._target: dict[Uuid, tuple[int, ...]] | None = None
        self._interval_ms = FIRST_INTERVAL_MS
        self._beat = 0
        self._beat_at_ms = 0
        self._tell_all = True
        self._in_doubt = False  # a request to join got no answer: the broker may have let this member in
        self._releasing = False  # and this takes its name back from it
        self._told_wanted: Wanted | None = None
        self._told_claims: Claims | None = None
        self._finding = 0
        self._find_at_ms: int | None = None
        self._lost_meanwhile = False

    # -- what the driver asks

    @property
    def deadline_ms(self) -> int | None:
        """See `GroupMember`."""
        times = [self._beat_at_ms] if self.phase in _BEATING and not self._beat else []
        if self._find_at_ms is not None and self.phase in _BEATING:
            times.append(self._find_at_ms)
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
        """See `GroupMember`: here a commit is possible at any time."""
        return False

    # -- what the user wants

    def subscribe(self, wanted: Wanted, now_ms: int) -> None:
        """See `GroupMember`."""
        changed = wanted != self.wanted
        self.wanted = wanted
        if self.phase is Phase.OUT:
            self._join(now_ms)
        elif changed:
            self._beat_at_ms = now_ms

    def leave(self, reason: str) -> None:
        """See `GroupMember`."""
        self._part(reason)
        self._forget()
        self._change(Change.LEAVES)
        self.wanted = self._handover = self._problem = None
        self.owned = NONE
        self.presence.wants_nothing()

    def tick(self, now_ms: int) -> None:
        """See `GroupMember`."""
        if self._user_stays_away(now_ms):
            self._part("the user has not polled in time")
            self._forget()
            self._change(Change.STAYS_AWAY)
            return
        if self._find_at_ms is not None and now_ms >= self._find_at_ms and self.phase in _BEATING:
            self._find_names()
            self._reconcile(now_ms)  # names may have become known meanwhile, as by a change of the subscription
        if self.phase in _BEATING and not self._beat and now_ms >= self._beat_at_ms:
            self._heartbeat()

    # -- heartbeats

    def _join(self, now_ms: int) -> None:
        self._rebalance_begins(now_ms)
        self._forget()
        self._beat_at_ms = now_ms
        self._change(Change.JOINS)

    def _heartbeat(self) -> None:
        if self._releasing:
            self._send(self._request(LEAVE_STATIC_EPOCH))
            return
        assert self.wanted is not None
        joins = self._joins
        whole = joins or self._tell_all
        settings, wanted = self.settings, self.wanted
        request = self._request(JOIN_EPOCH if joins else self.generation_id)
        if whole:
            request.rebalance_timeout_ms = settings.rebalance_timeout_ms
            request.server_assignor = settings.server_assignor
            request.rack_id = settings.rack_id
        if whole or wanted != self._told_wanted:
            request.subscribed_topic_names = sorted(wanted.topics)
            told = self._told_wanted
            if wanted.pattern is not None or (told is not None and told.pattern is not None):
                request.subscribed_topic_regex = wanted.pattern or ""
        claims = self._claims
        if whole or claims != self._told_claims:
            request.topic_partitions = [] if joins else _by_id(claims)
        self._told_wanted, self._told_claims, self._tell_all = wanted, claims, False
        self._send(request)

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        settings = self.settings
        return ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=settings.group_instance_id,
        )

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        self._beat = self._next_attempt()
        timeout_ms = self.settings.request_timeout_ms
        self._actions.append(Send(CONSUMER_GROUP_HEARTBEAT, lambda _: request, self._beat, timeout_ms))

    @property
    def _joins(self) -> bool:
        """Whether the broker has not said yet that this is a member."""
        return self.phase is Phase.JOINING and self.generation_id == NO_GENERATION

    @property
    def _claims(self) -> Claims:
        """What nobody else may have: what the user has, is being told of, and may be given at any moment.

        A member that did not mention the latter two would see them given to somebody else as soon as the broker has
        changed its mind, while its user is being told that they are theirs.
        """
        users = self.owned if self._telling is None else self.owned | self._telling.after
        owned = {(self._ids.get(topic, ZERO_UUID), number) for topic, number in users}
        given = {(topic_id, number) for topic_id, numbers in (self._target or {}).items() for number in numbers}
        return frozenset(owned | given)

    def awaits(self, attempt: int) -> bool:
        """See `GroupMember`."""
        return attempt == self._beat

    def answered(self, attempt: int, response: object, now_ms: int) -> None:
        """See `GroupMember`."""
        if attempt != self._beat or not isinstance(response, ConsumerGroupHeartbeatResponse):
            return
        self._beat = 0
        if self._releasing:
            self._released(response, now_ms)
            return
        if response.error_code:
            self._react(response, now_ms)
            return
        self._in_doubt = False
        self._heard(now_ms)
        self._interval_ms = response.heartbeat_interval_ms or self._interval_ms
        self._beat_at_ms = now_ms + self._interval_ms
        self.member_id = response.member_id or self.member_id
        if self.phase is Phase.JOINING:
            log.info("group %r: joined as %r, epoch %d", self.settings.group_id, self.member_id, response.member_epoch)
            self._change(Change.IS_IN)
        self.generation_id = response.member_epoch
        if response.assignment is not None:
            self._given(response.assignment, now_ms)
        elif self.wanted != self._told_wanted or (self.phase is Phase.MEMBER and self._claims != self._told_claims):
            self._beat_at_ms = now_ms

    def unanswered(self, attempt: int, error: KafkaError, now_ms: int) -> None:
        """See `GroupMember`."""
        if attempt == self._finding:
            self._finding, self._find_at_ms = 0, now_ms + _FIND_AGAIN_MS
        elif attempt == self._beat:
            self._beat = 0
            if isinstance(error, RetriableError):
                log.info("group %r: no answer to a heartbeat: %s", self.settings.group_id, error)
                self._in_doubt |= self._joins
                self._again(now_ms)
            else:
                self._break(error)

    def _again(self, now_ms: int) -> None:
        """Send the next heartbeat after a pause, and tell everything: what the coordinator knows is not certain."""
        self._tell_all = True
        self._beat_at_ms = now_ms + min(self._pause_ms(), self._interval_ms)

    # -- assignments

    def _given(self, assignment: Assignment, now_ms: int) -> None:
        """The broker wants this member to own these, and to hear when it does."""
        self._target = {entry.topic_id: tuple(entry.partitions) for entry in assignment.topic_partitions}
        self._told_claims = None
        self._find_names()
        self._reconcile(now_ms)

    @property
    def _named(self) -> dict[str, Uuid]:
        """Topics of the assignment whose names are known, or were when they were assigned.

        A topic that the metadata has forgotten meanwhile keeps its name: its partitions stay with this member until the
        broker takes them (as assignedTopicNamesCache of Kafka's AbstractMembershipManager).
        """
        target = self._target or {}
        assigned = {name: topic_id for name, topic_id in self._ids.items() if topic_id in target}
        return assigned | {name: topic_id for topic_id in target if (name := self._name_of(topic_id)) is not None}

    @property
    def _nameless(self) -> tuple[Uuid, ...]:
        """Topics of the assignment whose names are not known."""
        known = set(self._named.values())
        return tuple(topic_id for topic_id in self._target or () if topic_id not in known)

    def _find_names(self) -> None:
        self._find_at_ms = None
        if self._nameless:
            self._finding = self._next_attempt()
            self._actions.append(FindNames(self._nameless, self._finding))

    def names_found(self, attempt: int, now_ms: int) -> None:
        """See `GroupMember`."""
        if attempt == self._finding:
            self._finding = 0
            if self._nameless:
                self._find_at_ms = now_ms + _FIND_AGAIN_MS
            self._reconcile(now_ms)

    def _reconcile(self, now_ms: int) -> None:
        """Hand over what differs between what the user has and what they shall have, as far as names are known."""
        if self._target is None or self._telling is not None:
            return
        named = self._named
        self._ids.update(named)
        after = frozenset(
            TopicPartition(name, number) for name, topic_id in named.items() for number in self._target[topic_id]
        )
        if after != self.owned:
            self._rebalance_begins(now_ms)
            added = after - self.owned
            self._handover = Handover(revoked=self.owned - after, assigned=added or None, after=after)
            self._change(Change.IS_GIVEN)
        else:
            self._handover = None
            self._change(Change.IS_IN)
            if not self._nameless:
                self._settled(now_ms)

    def _settled(self, now_ms: int) -> None:
        """The user has what the broker wants them to have: the broker waits for the word."""
        self._rebalance_ends(now_ms)
        if self._told_claims != self._claims:
            self._beat_at_ms = now_ms

    # -- what goes wrong

    def commit_refused(self, code: int, generation_id: int, now_ms: int) -> bool:
        """See `GroupMember`."""
        if self.phase in _BEATING and generation_id == self.generation_id:
            self._tell_all = True
            self._beat_at_ms = now_ms  # the answer says what this member is
        return False

    def _react(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        meaning = MODERN.meaning_of(response.error_code)
        why = f"{error_name(response.error_code)}: {printable(response.error_message or '')}"
        if response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID and self._in_doubt:
            log.info("group %r: heartbeat: %s; that may be this one: taking the name back", self.settings.group_id, why)
            self._releasing = True
            self._beat_at_ms = now_ms
        elif meaning is Meaning.AGAIN:
            log.info("group %r: heartbeat: %s; trying again", self.settings.group_id, why)
            self._again(now_ms)
        elif meaning is Meaning.LOST:
            log.warning("group %r: heartbeat: %s; joining again", self.settings.group_id, why)
            self._lose(now_ms)
        else:
            self._refused(response.error_code, response)

    def _released(self, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> None:
        """The name of a static member is free now, or is another member's, who has to keep it.

        A broker lets nobody join under a name in use, not even the member that has it.
        """
        if response.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self._refused(ErrorCode.UNRELEASED_INSTANCE_ID, response)
        elif response.error_code and MODERN.meaning_of(response.error_code) is Meaning.AGAIN:
            self._again(now_ms)
        elif response.error_code and MODERN.meaning_of(response.error_code) is not Meaning.LOST:
            self._refused(response.error_code, response)
        else:
            self._in_doubt = self._releasing = False
            self._beat_at_ms = now_ms

    def _refused(self, code: int, response: ConsumerGroupHeartbeatResponse) -> None:
        message = response.error_message or ""
        self._break(MODERN.stuck_error(code, self.settings, "heartbeat", message=message, wanted=self.wanted))

    def _lose(self, now_ms: int) -> None:
        self.counts.losses += 1
        if self._telling is not None:
            self._forget()
            self._lost_meanwhile = True
            self._change(Change.IS_LOST)
        elif self.owned:
            self._rebalance_begins(now_ms)
            self._forget()
            self._handover = Handover(lost=self.owned)
            self._change(Change.IS_LOST)
        else:
            at_ms = now_ms + self._pause_ms() if self.phase is Phase.JOINING else now_ms
            self._handover = None
            self._join(now_ms)
            self._beat_at_ms = at_ms  # who is not let in may be taken for one who is in, until that one's time is up

    def _break(self, error: KafkaError) -> None:
        """Nothing can be done before the user has heard of it."""
        self._log(error)
        self._problem, self._handover = error, None
        self._forget()
        self._change(Change.BREAKS)

    # -- telling the user

    def _told(self, handover: Handover, now_ms: int) -> None:
        if self._lost_meanwhile:
            self._lost_meanwhile = False
            self._lose_what_is_owned(now_ms)
        elif self.phase is Phase.LOSING:
            self._join(now_ms)
        elif self.phase in _BEATING:
            self._settled(now_ms)
            self._reconcile(now_ms)

    def _problem_told(self, problem: KafkaError, now_ms: int) -> None:
        if is_final(problem):
            self._problem = problem
        elif self._telling is not None:
            self._lost_meanwhile = True  # what they are being told is theirs is lost, too
        else:
            self._lose_what_is_owned(now_ms)

    def _lose_what_is_owned(self, now_ms: int) -> None:
        """Join again, once the user knows that nothing is theirs any more."""
        if self.owned:
            self._handover = Handover(lost=self.owned)
            self._change(Change.IS_LOST)
        else:
            self._join(now_ms)

    # -- inside

    def _change(self, change: Change) -> None:
        after = TRANSITIONS[self.phase, change]
        log.debug("group %r: %s -> %s", self.settings.group_id, self.phase.name, after.name)
        self.phase = after

    def _forget(self) -> None:
        """Be no member any more; answers that are still on their way are of no use."""
        self.generation_id = NO_GENERATION
        self._beat = self._finding = 0
        self._find_at_ms = None
        self._target = None
        self._tell_all = True
        self._in_doubt = self._releasing = False
        self._told_claims = self._told_wanted = None

    def _part(self, reason: str) -> None:
        may_be_in = self._in_doubt or (self._joins and self._beat)
        if self.generation_id == NO_GENERATION and not may_be_in:
            return
        request = self._request(LEAVE_EPOCH if self.settings.group_instance_id is None else LEAVE_STATIC_EPOCH)
        self._actions.append(Part(CONSUMER_GROUP_HEARTBEAT, lambda _: request, reason))


def _by_id(claims: Claims) -> list[TopicPartitions]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, number in sorted(claims):
        topics.setdefault(topic_id, []).append(number)
    return [TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]
