"""Fetch sessions: the partitions of a client, kept between Fetch requests, so that both sides only send changes.

A full request opens a session in a cache with a limited number of slots. A new session evicts an idle one, or a smaller
one that is old enough. Unlike Kafka's, the cache also limits the number of partitions, and removes idle sessions even
if there are free slots, so that abandoned sessions use limited memory for a limited time. A client without a session
sends full requests.

This module does not read records: `in_session` converts a request to a full request, and the full response to an
incremental one. Start there.
Source: KIP-227, KIP-516; org.apache.kafka.server.{FetchManager, FetchSession, FetchSessionCache}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kafkaraw.broker.replies import Reply, after_response
from kafkaraw.light_classes import dataclass, field, replace
from kafkaraw.protocol import FileSlice, Uuid
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from kafkaraw.broker.ids import RandomBits

NO_SESSION: Final = 0
OPENING_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
"""The epoch of a request without a session, which also closes the session whose id it has."""
EVICTION_MS: Final = 120_000
"""Time for which a new session cannot be evicted, and after which an idle session can."""
SESSION_PARTITIONS_MAX: Final = 20_000
"""Maximum number of partitions in a session; a client that reads more gets no session."""
PARTITIONS_MAX: Final = 100_000
"""Partitions in all sessions of a node."""
_EPOCH_MAX: Final = 2**31 - 1
_TOPIC_ID_VERSION_MIN: Final = 13
_UNKNOWN: Final = -1

_Key = tuple[str | Uuid, int]


@dataclass(slots=True)
class _Kept:
    """One partition in a session: its last entry in a request, and in a response."""

    topic: str
    topic_id: Uuid
    asked: FetchPartition
    high_watermark: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN

    def has_news(self, data: PartitionData) -> bool:
        """Return whether a response entry is new to the client, and store it as the last one."""
        news = (
            bool(data.error_code)
            or _size(data) > 0
            or self.high_watermark != data.high_watermark
            or self.log_start_offset != data.log_start_offset
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.end_offset >= 0
        )
        # Behind an error comes news in any case.
        self.high_watermark = _UNKNOWN if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return news


@dataclass(slots=True)
class FetchSession:
    """What one client reads.

    Attributes:
        session_id: its number.
        by_ids: topics are known by their ids, else by their names; never both.
        created_ms: when it was opened.
        used_ms: when it was last used.
        epoch: which the next request must have.
    """

    session_id: int
    by_ids: bool
    created_ms: int
    used_ms: int
    epoch: int = 1
    _kept: dict[_Key, _Kept] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._kept)

    def update(self, request: FetchRequest) -> None:
        """Apply the partitions that a request adds, changes and forgets."""
        for topic in request.topics:
            for asked in topic.partitions:
                kept = self._kept.get(self._key(topic.topic, topic.topic_id, asked.partition))
                if kept is None:
                    key = self._key(topic.topic, topic.topic_id, asked.partition)
                    self._kept[key] = _Kept(topic.topic, topic.topic_id, asked)
                else:
                    kept.asked = asked
        for forgotten in request.forgotten_topics_data:
            for partition in forgotten.partitions:
                self._kept.pop(self._key(forgotten.topic, forgotten.topic_id, partition), None)

    def topics(self) -> list[FetchTopic]:
        """Everything that is read, in order; neighbours of a topic share an entry."""
        topics: list[FetchTopic] = []
        for kept in self._kept.values():
            if not topics or (topics[-1].topic, topics[-1].topic_id) != (kept.topic, kept.topic_id):
                topics.append(FetchTopic(topic=kept.topic, topic_id=kept.topic_id, partitions=[]))
            topics[-1].partitions.append(kept.asked)
        return topics

    def only_news(self, topics: Iterable[FetchableTopicResponse]) -> list[FetchableTopicResponse]:
        """Leave out unchanged partitions; move partitions with records to the end, so that the others come first."""
        left = []
        for topic in topics:
            partitions = []
            for data in topic.partitions:
                key = self._key(topic.topic, topic.topic_id, data.partition_index)
                kept = self._kept.get(key)
                if kept is None or not kept.has_news(data):
                    continue
                partitions.append(data)
                if _size(data):
                    self._kept[key] = self._kept.pop(key)
            if partitions:
                left.append(replace(topic, partitions=partitions))
        return left

    def note(self, topics: Iterable[FetchableTopicResponse]) -> None:
        """Note the state of each partition in a full response."""
        for topic in topics:
            for data in topic.partitions:
                kept = self._kept.get(self._key(topic.topic, topic.topic_id, data.partition_index))
                if kept is not None:
                    kept.has_news(data)

    def _key(self, topic: str, topic_id: Uuid, partition: int) -> _Key:
        return (topic_id if self.by_ids else topic), partition


class FetchSessions:
    """The sessions of one node.

    Args:
        places: how many there may be (max.incremental.fetch.session.cache.slots).
        rng: for their ids.
        now_ms: the time.
    """

    def __init__(self, places: int, rng: RandomBits, now_ms: Callable[[], int]) -> None:
        self._places = places
        self._rng = rng
        self._now_ms = now_ms
        self._sessions: dict[int, FetchSession] = {}  # the one used least recently comes first
        self._partitions_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def close(self, session_id: int) -> None:
        """Forget a session, if there is such a one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions_count -= len(session)

    def _close_idle(self) -> None:
        """Remove the sessions that have been idle for too long."""
        now_ms = self._now_ms()
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.used_ms <= EVICTION_MS:
                return
            self.close(oldest.session_id)

    def open(self, request: FetchRequest, *, by_ids: bool) -> FetchSession | None:
        """Create a session with the partitions of a full request; return None if the cache is full."""
        now_ms = self._now_ms()
        self._close_idle()
        session = FetchSession(NO_SESSION, by_ids, now_ms, now_ms)
        session.update(request)
        if len(session) > SESSION_PARTITIONS_MAX:
            return None
        while len(self._sessions) >= self._places or self._partitions_count + len(session) > PARTITIONS_MAX:
            if not self._evict(len(session), now_ms):
                return None
        while session.session_id == NO_SESSION or session.session_id in self._sessions:
            session.session_id = self._rng.getrandbits(31)
        self._sessions[session.session_id] = session
        self._partitions_count += len(session)
        return session

    def find(self, request: FetchRequest, *, by_ids: bool) -> FetchSession | ErrorCode:
        """The session of an incremental request, which counts as used and awaits the epoch after this; or the error."""
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_ids != by_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        before = len(session)
        session.update(request)
        self._partitions_count += len(session) - before
        if not len(session):
            self.close(session.session_id)
            return session
        if len(session) > before and (len(session) > SESSION_PARTITIONS_MAX or self._partitions_count > PARTITIONS_MAX):
            self.close(session.session_id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.used_ms = self._now_ms()
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        self._close_idle()
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        """Evict a smaller session that is not new, in favour of one with that number of partitions."""
        settled = [one for one in self._sessions.values() if now_ms - one.created_ms > EVICTION_MS]
        smallest = min(settled, key=lambda one: (len(one), one.session_id), default=None)
        if smallest is None or (size, NO_SESSION) < (len(smallest), smallest.session_id):
            return False
        self.close(smallest.session_id)
        return True


def in_session(
    sessions: FetchSessions,
    api_version: int,
    request: FetchRequest,
    answer: Callable[[FetchRequest], Reply[FetchResponse]],
) -> Reply[FetchResponse]:
    """Answer a request within its session.

    Args:
        sessions: those of this node.
        api_version: of the request.
        request: what the client said.
        answer: answers a request that names everything, at once or later.
    """
    by_ids = api_version >= _TOPIC_ID_VERSION_MIN
    if request.session_epoch in (OPENING_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.close(request.session_id)
        alone = _without_session(request, _each_once(request.topics, by_ids=by_ids))
        if request.session_epoch == FINAL_EPOCH:
            return answer(alone)
        return after_response(answer(alone), lambda response: _opened(sessions, request, response, by_ids=by_ids))
    session = sessions.find(request, by_ids=by_ids)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session, responses=[])
    awaited = session.epoch
    everything = _without_session(request, session.topics())
    if not len(session):
        return answer(everything)

    def finish(response: FetchResponse) -> FetchResponse:
        if response.error_code:
            return response
        if session.epoch != awaited:  # another request of the session came in between
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, responses=[])
        return replace(response, session_id=session.session_id, responses=session.only_news(response.responses))

    return after_response(answer(everything), finish)


def _without_session(request: FetchRequest, topics: list[FetchTopic]) -> FetchRequest:
    """A request of its own for these topics."""
    if request.session_id == NO_SESSION and request.session_epoch == FINAL_EPOCH and topics is request.topics:
        return request  # it is one; a copy would cost as much as looking a partition up
    return replace(request, topics=topics, session_id=NO_SESSION, session_epoch=FINAL_EPOCH, forgotten_topics_data=[])


def _each_once(topics: list[FetchTopic], *, by_ids: bool) -> list[FetchTopic]:
    """Return each requested partition once; of duplicates, the last one counts, as in Apache Kafka."""
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        return topics
    names = {topic.topic_id if by_ids else topic.topic for topic in topics}
    if len(names) == len(topics) and all(
        len({each.partition for each in topic.partitions}) == len(topic.partitions) for topic in topics
    ):
        return topics
    named = FetchSession(NO_SESSION, by_ids, 0, 0)
    named.update(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics))
    return named.topics()


def _opened(sessions: FetchSessions, request: FetchRequest, response: FetchResponse, *, by_ids: bool) -> FetchResponse:
    session = None if response.error_code else sessions.open(request, by_ids=by_ids)
    if session is None:
        return response
    session.note(response.responses)
    return replace(response, session_id=session.session_id)


def _size(data: PartitionData) -> int:
    return data.records.size if isinstance(data.records, FileSlice) else len(data.records or b"")
