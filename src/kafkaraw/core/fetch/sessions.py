"""A fetch session with one broker: it remembers the partitions, so that a Fetch contains only changes. Pure.

The size of a request depends on the changes since the last one, not on the number of partitions. `targets` has the
wanted partitions, `_said` those that the broker has, and `_news` those in which the two may differ.

    id 0, epoch 0 -- response with an id --> id, epoch 1, 2, ... -- error or no response --> id, epoch 0

Epoch 0 opens a session with everything in it, and closes the one whose id is given; the broker may decline (id 0), then
the next Fetch is a full one again. A session goes by topic ids or by names, never both. Start at `FetchSession.ask`.
Source: KIP-227; Kafka's FetchSessionHandler.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.core.fetch.requests import NO_SESSION, FetchPlan, FetchTarget, SessionStep
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchResponse
from kafkaraw.records import TopicPartition

_NO_ID: Final = 0
_OPENING: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_NAMES_KEPT: Final = 16
"""So many names of topics that are not asked for any more may be kept, besides one for each partition that is."""

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of a whole response after which the next Fetch is a full one."""


class FetchSession:
    """The consumer's half of a session with one broker.

    Attributes:
        targets: what is to be asked for, in the order in which the broker should serve it.
    """

    def __init__(self) -> None:
        self.targets: dict[TopicPartition, FetchTarget] = {}
        self._id = _NO_ID
        self._epoch = _OPENING
        self._said: dict[TopicPartition, FetchTarget] = {}
        self._news: dict[TopicPartition, None] = {}
        self._is_under_way = False
        self._by_ids = True
        self._nameless: set[TopicPartition] = set()  # those whose topic has no id
        self._sizes: dict[TopicPartition, int] = {}  # of those that need a certain one
        self._names: dict[Uuid, str] = {}

    # -- what is wanted

    def want(self, target: FetchTarget) -> None:
        """Add or change a partition; a partition whose position has changed goes behind the others."""
        of = target.topic_partition
        before = self.targets.get(of)
        if before is not None and before.offset != target.offset:
            del self.targets[of]
        self.targets[of] = target
        self._news[of] = None
        if before is None or before.topic_id != target.topic_id:
            self._names[target.topic_id] = of.topic
            (self._nameless.add if target.topic_id == ZERO_UUID else self._nameless.discard)(of)
        if target.size_wanted_bytes:
            self._sizes[of] = target.size_wanted_bytes
        elif self._sizes:
            self._sizes.pop(of, None)

    def leave_out(self, of: TopicPartition) -> None:
        """Remove a partition."""
        del self.targets[of]
        self._news[of] = None
        self._nameless.discard(of)
        self._sizes.pop(of, None)

    # -- requests

    def plan(self, node_id: int) -> FetchPlan:
        """Return the next request."""
        if len(self._names) > _NAMES_KEPT + 2 * len(self.targets):  # an earlier request keeps those that it had
            self._names = {target.topic_id: of.topic for of, target in self.targets.items()}
        step = self.ask()
        asked = dict(self.targets) if step is NO_SESSION else self._said
        size = max(self._sizes.values(), default=0)
        return FetchPlan(node_id, asked, step, self._names, by_ids=not self._nameless, size_wanted_bytes=size)

    def ask(self) -> SessionStep:
        """Return the session part of the next request.

        One request at a time uses the session; another one meanwhile has no session.
        """
        if self._is_under_way:
            return NO_SESSION
        by_ids = not self._nameless
        # A partition that was removed and added again between two requests has not changed for the broker, but its log
        # start and end are unknown here. A new session returns them.
        again = any(
            of in self._said and (target := self.targets.get(of)) is not None and target.is_fresh for of in self._news
        )
        if again or by_ids != self._by_ids:
            self._by_ids = by_ids
            self._start_anew()
        self._is_under_way = True
        if self._epoch == _OPENING:
            self._said = dict(self.targets)
            self._news.clear()
            return SessionStep(self._id, _OPENING, tuple(self.targets.values()), ())
        changed, forgotten = self._take_news()
        return SessionStep(self._id, self._epoch, tuple(changed), tuple(forgotten))

    def _take_news(self) -> tuple[list[FetchTarget], list[FetchTarget]]:
        """Return the partitions to add or change, and those to forget, and note that the broker has them now."""
        changed, forgotten = [], []
        for of in self._news:
            old, new = self._said.get(of), self.targets.get(of)
            if old is not None and (new is None or new.topic_id != old.topic_id):
                forgotten.append(old)
                del self._said[of]
            if new is not None:
                if not _same(old, new):
                    changed.append(new)
                self._said[of] = new
        self._news.clear()
        return changed, forgotten

    def answered(self, response: FetchResponse) -> None:
        """Process the response to the last request."""
        self._is_under_way = False
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = _NO_ID
            self._start_anew()
        elif response.session_id == _NO_ID:
            self._id = _NO_ID
            self._start_anew()
        else:
            self._id = response.session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def failed(self) -> None:
        """Process a request without a response: it is unknown whether the broker has received it."""
        self._is_under_way = False
        self._start_anew()

    def _start_anew(self) -> None:
        self._epoch = _OPENING
        self._said = {}  # a new one: the request that has failed still has the old one


def _same(old: FetchTarget | None, new: FetchTarget) -> bool:
    """Whether the broker has this target already; a seek and a seek back between two requests need no change."""
    return old is not None and (
        (old.topic_id, old.offset, old.leader_epoch, old.last_epoch, old.size_wanted_bytes)
        == (new.topic_id, new.offset, new.leader_epoch, new.last_epoch, new.size_wanted_bytes)
    )
