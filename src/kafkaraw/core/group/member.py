"""What both membership protocols have in common: the user's side of a member. Pure.

A machine is told what happens (`subscribe`, `answered`, `tick` ...) and asked what to do (`take_actions`,
`deadline_ms`). What concerns the user waits until they call: `handover` says what to tell them, between
`begin_handover` and `end_handover` they are being told. `take_problem` gives what their next call must raise.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence

from kafkaraw.core.group.actions import NONE, Action, GroupSettings, Handover, Partitions, Wanted
from kafkaraw.core.group.assignors import Topics
from kafkaraw.core.group.presence import Presence
from kafkaraw.core.retry import Backoff, RandomSource
from kafkaraw.errors import KafkaError, MaxPollExceeded, MemberFenced
from kafkaraw.light_classes import dataclass

log = logging.getLogger(__name__)

NO_GENERATION = -1


@dataclass(slots=True)
class GroupCounts:
    """What a member has been through.

    Attributes:
        rebalances: assignments that were taken over.
        rebalance_ms: time from the first word of a rebalance to its assignment, all of them together.
        rebalance_ms_max: the longest of them.
        losses: how often membership was lost.
        rebalanced_at_ms: when the last assignment was taken over; None before the first.
        heartbeats: answered by the coordinator.
        heard_at_ms: when the last of them was; None before the first.
    """

    rebalances: int = 0
    rebalance_ms: int = 0
    rebalance_ms_max: int = 0
    losses: int = 0
    heartbeats: int = 0
    rebalanced_at_ms: int | None = None
    heard_at_ms: int | None = None


class GroupMember(ABC):
    """One member of a group.

    Args:
        settings: of the member.
        backoff: pauses after failures.
        rng: jitter.

    Attributes:
        member_id: empty while there is none.
        generation_id: of the group, or epoch of the member; -1 for one that is not in.
        owned: partitions that the user has.
        wanted: what is subscribed to; None for nothing.
        presence: of the user.
        counts: for metrics.
    """

    def __init__(self, settings: GroupSettings, backoff: Backoff, rng: RandomSource) -> None:
        self.settings = settings
        self.member_id = ""
        self.generation_id = NO_GENERATION
        self.owned: Partitions = NONE
        self.wanted: Wanted | None = None
        self.presence = Presence(settings.max_poll_interval_ms)
        self.counts = GroupCounts()
        self._backoff = backoff
        self._rng = rng
        self._failures = 0
        self._attempts = 0
        self._actions: list[Action] = []
        self._handover: Handover | None = None
        self._telling: Handover | None = None
        self._problem: KafkaError | None = None
        self._rebalance_since_ms: int | None = None

    # -- what the driver asks

    def take_actions(self) -> list[Action]:
        """What to do now; each is given once."""
        actions, self._actions = self._actions, []
        return actions

    @property
    @abstractmethod
    def deadline_ms(self) -> int | None:
        """When `tick` wants to be called; None for not at all."""

    @property
    @abstractmethod
    def state(self) -> str:
        """Where it stands, for logs and errors."""

    @property
    @abstractmethod
    def takes_part(self) -> bool:
        """Whether the group counts on it, so that its user must come back for more in time."""

    @property
    @abstractmethod
    def is_between(self) -> bool:
        """Whether a rebalance is going on in which a commit cannot succeed, and which ends without the user."""

    @property
    def handover(self) -> Handover | None:
        """What the user must be told; None when there is nothing, or they are being told."""
        return self._handover if self._telling is None else None

    @property
    def needs_user(self) -> bool:
        """Whether the user's call, also one that waits, has something to tell them or to raise."""
        return self.handover is not None or self._problem is not None

    @property
    def watched_topics(self) -> Sequence[str]:
        """Topics whose partitions matter to this member as the leader."""
        return ()

    # -- what happens

    @abstractmethod
    def subscribe(self, wanted: Wanted, now_ms: int) -> None:
        """The user wants to read these."""

    @abstractmethod
    def leave(self, reason: str) -> None:
        """The user wants nothing any more, and has been told that it has nothing."""

    @abstractmethod
    def tick(self, now_ms: int) -> None:
        """Time has passed."""

    @abstractmethod
    def awaits(self, attempt: int) -> bool:
        """Whether the answer to a request is still of use; else it need not be sent any more."""

    @abstractmethod
    def answered(self, attempt: int, response: object, now_ms: int) -> None:
        """A request was answered."""

    @abstractmethod
    def unanswered(self, attempt: int, error: KafkaError, now_ms: int) -> None:
        """A request was not."""

    @abstractmethod
    def commit_refused(self, code: int, generation_id: int, now_ms: int) -> bool:
        """A commit with this generation was refused, because of who made it.

        Returns:
            whether it may be taken once the rebalance is over, or in an older generation that this is again.
        """

    def topics_found(self, attempt: int, topics: Topics, now_ms: int) -> None:  # noqa: B027 - leaders only
        """The partitions that the leader asked for."""

    def topics_seen(self, topics: Topics, now_ms: int) -> None:  # noqa: B027 - leaders only
        """What the watched topics look like now."""

    def names_found(self, attempt: int, now_ms: int) -> None:  # noqa: B027 - where brokers assign
        """The names that were asked for are known, as far as they can be."""

    def user_comes(self, now_ms: int) -> None:
        """A call of the user begins."""
        self.presence.comes(now_ms)

    def user_goes(self, now_ms: int) -> None:
        """It ends."""
        self.presence.goes(now_ms)

    # -- telling the user

    def take_problem(self, now_ms: int) -> KafkaError | None:
        """What the user's call must raise; the member tries again after that, if there is any sense in it."""
        problem = self._problem
        if problem is not None:
            self._problem = None
            self._problem_told(problem, now_ms)
        return problem

    def begin_handover(self) -> Handover | None:
        """Begin to tell the user; until `end_handover` nothing else is handed over."""
        self._telling = self.handover
        return self._telling

    def end_handover(self, now_ms: int) -> None:
        """The user knows."""
        told, self._telling, self._handover = self._telling, None, None
        if told is not None:
            self.owned = told.after
            self._told(told, now_ms)

    @abstractmethod
    def _told(self, handover: Handover, now_ms: int) -> None:
        """The user knows."""

    @abstractmethod
    def _problem_told(self, problem: KafkaError, now_ms: int) -> None:
        """The user has heard of a problem."""

    # -- for both protocols

    def _next_attempt(self) -> int:
        self._attempts += 1
        return self._attempts

    def _pause_ms(self) -> int:
        """How long to wait after another failure in a row."""
        self._failures += 1
        return round(self._backoff.delay_ms(self._failures - 1, self._rng))

    def _heard(self, now_ms: int) -> None:
        """The coordinator has accepted a heartbeat."""
        self._failures = 0
        self.counts.heartbeats += 1
        self.counts.heard_at_ms = now_ms

    def _rebalance_begins(self, now_ms: int) -> None:
        if self._rebalance_since_ms is None:
            self._rebalance_since_ms = now_ms

    def _rebalance_ends(self, now_ms: int) -> None:
        if self._rebalance_since_ms is not None:
            took_ms = now_ms - self._rebalance_since_ms
            self.counts.rebalances += 1
            self.counts.rebalance_ms += took_ms
            self.counts.rebalance_ms_max = max(self.counts.rebalance_ms_max, took_ms)
            self.counts.rebalanced_at_ms = now_ms
            self._rebalance_since_ms = None

    @property
    def _user_deadlines(self) -> list[int]:
        """When the user will have been away for too long, if ever."""
        deadline_ms = self.presence.deadline_ms if self.takes_part else None
        return [] if deadline_ms is None else [deadline_ms]

    def _user_stays_away(self, now_ms: int) -> bool:
        """Whether the user has been away for too long; one line of the log says so, and what their next call raises."""
        if not self.takes_part or not self.presence.is_over(now_ms):
            return False
        self._handover = None
        self._problem = MaxPollExceeded(
            f"the consumer has left group {self.settings.group_id!r}: it was not asked for records for "
            f"{self.presence.away_ms(now_ms) / 1000:g} s, more than max_poll_interval_ms="
            f"{self.settings.max_poll_interval_ms}; call poll() more often, ask it for fewer records with "
            f"max_poll_records, or set max_poll_interval_ms higher (None for no limit); the next call joins again"
        )
        self._log(self._problem)
        return True

    def _log(self, problem: KafkaError) -> None:
        """One line about what the user's next call raises; most of it names the group itself."""
        said, group = str(problem), f"group {self.settings.group_id!r}"
        log.error("%s", said if group in said else f"{group}: {said}")


def is_final(problem: KafkaError) -> bool:
    """Whether joining again would only throw out the one that took over."""
    return isinstance(problem, MemberFenced)
