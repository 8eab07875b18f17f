"""A fetch session with one broker: it remembers what is read, so that a Fetch says only what has changed. Pure.

    NONE (id 0, epoch 0) -- answer with an id --> KEPT (id, epoch 1, 2, ...) -- error or no answer --> id kept, epoch 0

Epoch 0 opens a session with everything in it, and closes the one whose id is given; the broker may decline (id 0), then
the next Fetch is a full one again. A session goes by topic ids or by names, never both. Start at `FetchSession.ask`.
Source: KIP-227; Kafka's FetchSessionHandler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaraw.core.fetch.plan import NO_SESSION, FetchTarget, SessionStep
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import FetchResponse
from kafkaraw.records import TopicPartition

_NO_ID: Final = 0
_OPENING: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors about a whole answer after which everything is said anew."""


class FetchSession:
    """The consumer's half of a session with one broker."""

    def __init__(self) -> None:
        self._id = _NO_ID
        self._epoch = _OPENING
        self._in_session: dict[TopicPartition, FetchTarget] = {}
        self._asked: dict[TopicPartition, FetchTarget] | None = None  # with the request that is under way
        self._by_ids = True

    def ask(self, targets: Sequence[FetchTarget]) -> SessionStep:
        """Say what a request about these has to tell.

        One request at a time goes through the session; another one meanwhile is without.
        """
        if self._asked is not None:
            return NO_SESSION
        by_ids = all(target.topic_id != ZERO_UUID for target in targets)
        # A partition that was given up and taken again between two requests is no news to the broker, but to us.
        again = any(target.is_fresh and target.topic_partition in self._in_session for target in targets)
        if again or by_ids != self._by_ids:
            self._by_ids = by_ids
            self._start_anew()
        self._asked = {target.topic_partition: target for target in targets}
        if self._epoch == _OPENING:
            return SessionStep(self._id, _OPENING, tuple(targets), ())
        known = self._in_session
        changed = tuple(target for target in targets if not _same(known.get(target.topic_partition), target))
        forgotten = tuple(
            old
            for topic_partition, old in known.items()
            if (now := self._asked.get(topic_partition)) is None or now.topic_id != old.topic_id
        )
        return SessionStep(self._id, self._epoch, changed, forgotten)

    def answered(self, response: FetchResponse) -> None:
        """Take note of the answer to what was asked last."""
        asked, self._asked = self._asked or {}, None
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
            self._in_session = asked

    def failed(self) -> None:
        """There was no answer: whether the broker has heard is not known."""
        self._asked = None
        self._start_anew()

    def _start_anew(self) -> None:
        self._epoch = _OPENING
        self._in_session = {}


def _same(old: FetchTarget | None, new: FetchTarget) -> bool:
    """Whether the broker would be told nothing new; a jump that came back to where it was is none of its business."""
    return old is not None and (
        (old.topic_id, old.offset, old.leader_epoch, old.last_epoch, old.size_wanted_bytes)
        == (new.topic_id, new.offset, new.leader_epoch, new.last_epoch, new.size_wanted_bytes)
    )
