"""ShareFetch: lock records for a member of a share group and read them; acknowledgements may come with it.

A request first applies its acknowledgements. The fetch waits (long poll) until the available records have `min_bytes`,
some partition has an error, or `max_wait_ms` is over. A response has whole batches of the log; only the acquired
offsets in them are for the member.
Source: kafka.server.KafkaApis.handleShareFetchRequest, kafka.server.share.{DelayedShareFetch, ShareFetchUtils};
KIP-932, KIP-1206, KIP-1222.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.coordinator_runtime.hosting import loop_ms
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.fetch import LEADER_IS_ELSEWHERE
from kafkaraw.broker.handlers.leadership import CurrentLeaders, led_partition
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.handlers.share_acknowledgements import RENEW_SINCE, Outcomes, acknowledge
from kafkaraw.broker.handlers.share_requests import NOT_ENABLED, authorize_reading, is_member_id, unreadable_topics
from kafkaraw.broker.log.storage import Content
from kafkaraw.broker.partitions.partition import Partition
from kafkaraw.broker.replies import Deferred, Reply
from kafkaraw.broker.shares.partitions import LedShare
from kafkaraw.broker.shares.sessions import FINAL_EPOCH, Part, SessionKey, ShareSession
from kafkaraw.broker.shares.state import ShareKey
from kafkaraw.broker.state import BrokerState
from kafkaraw.core.log.indexes import AbortedTransaction
from kafkaraw.core.share.record_states import AcquireMode
from kafkaraw.core.share.share_partition import Acquired, LogBatch, Request
from kafkaraw.light_classes import NamedTuple
from kafkaraw.protocol import FileSlice, Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafkaraw.records import BatchHeader, ControlType, TopicPartition, control_type_of, iter_headers

_API: Final = "ShareFetch"
_MODES: Final = frozenset(int(mode) for mode in AcquireMode)
_Done = Callable[[dict[Part, PartitionData]], None]


def authorize(
    call: Call[ShareFetchRequest, ShareFetchResponse], request: ShareFetchRequest
) -> Reply[ShareFetchResponse]:
    """READ on the group; each request checks READ on all topics of the session."""
    return authorize_reading(call, request, _refused)


@handles(
    ShareFetchRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.READ, ResourceType.GROUP),
        Permission(AclOperation.READ, ResourceType.TOPIC),
    ),
)
def handle(state: BrokerState, context: RequestContext, request: ShareFetchRequest) -> Reply[ShareFetchResponse]:
    """Apply the acknowledgements, then fetch."""
    if not state.controller.features.has_share_groups:
        return _refused(NOT_ENABLED)
    renews = context.api_version >= RENEW_SINCE and request.is_renew_ack
    limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if request.group_id is None or request.member_id is None or not is_member_id(request.member_id):
        return _refused(ErrorCode.INVALID_REQUEST)
    if (renews and any(limits)) or request.share_acquire_mode not in _MODES:
        return _refused(ErrorCode.INVALID_REQUEST)
    member = SessionKey(request.group_id, request.member_id)
    sent: dict[Part, list[AcknowledgementBatch]] = {
        (Uuid(topic.topic_id), each.partition_index): each.acknowledgement_batches
        for topic in request.topics
        for each in topic.partitions
    }
    has_acks = any(sent.values())
    forgotten = [(Uuid(topic.topic_id), each) for topic in request.forgotten_topics_data for each in topic.partitions]
    try:
        session = state.share_partitions.sessions.fetch(
            member, request.share_session_epoch, context.peer, sent, forgotten, acks=has_acks
        )
    except ApiError as error:
        if error.code == ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return _refused_later(error.code, request.max_wait_ms)
        return _refused(error.code)
    exchange = _Exchange(state, context, request, member, session)
    return exchange.begin(sent if has_acks else {}, renews=renews)


class _Exchange:
    """One request: waits for its acknowledgements and for its fetch, and combines them."""

    def __init__(
        self,
        state: BrokerState,
        context: RequestContext,
        request: ShareFetchRequest,
        member: SessionKey,
        session: ShareSession | None,
    ) -> None:
        self._deferred: Deferred[ShareFetchResponse] = Deferred(self._cancel)
        self._answer: ShareFetchResponse | None = None
        self._state = state
        self._context = context
        self._request = request
        self._member = member
        self._session = session
        self._epoch = 0 if session is None else session.epoch
        self._acknowledged: Outcomes | None = None
        self._fetched: dict[Part, PartitionData] | None = None
        self._fetch: _Fetch | None = None
        self._denied: list[Part] = []

    def begin(
        self, sent: dict[Part, list[AcknowledgementBatch]], *, renews: bool
    ) -> ShareFetchResponse | Deferred[ShareFetchResponse]:
        """Begin both; return the response if it is there already."""

        def acknowledged(outcomes: Outcomes) -> None:
            self._acknowledged = outcomes
            self._finish()

        def fetched(found: dict[Part, PartitionData]) -> None:
            denied = {part: _data(part[1], ErrorCode.TOPIC_AUTHORIZATION_FAILED) for part in self._denied}
            self._fetched = found | denied
            self._finish()

        parts = [] if self._session is None or renews else list(self._session.partitions)
        topic_ids = (topic_id for topic_id, _ in (*sent, *parts))
        unreadable = unreadable_topics(self._state, self._context, _API, topic_ids)
        self._denied = [part for part in parts if part[0] in unreadable]
        acknowledge(self._state, self._member, sent, acknowledged, unreadable=unreadable, renews=renews)
        self._fetch = _Fetch(self._state, self._context, self._request, self._member, fetched)
        self._fetch.begin([part for part in parts if part[0] not in unreadable])
        return self._deferred if self._answer is None else self._answer

    def _cancel(self) -> None:
        if self._fetch is not None:
            self._fetch.cancel()

    def _finish(self) -> None:
        if self._acknowledged is None or self._fetched is None:
            return
        response = self._answer = self._response(self._acknowledged, self._fetched)
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._state.share_partitions.close_session(self._member)
        self._deferred.resolve(response)

    def _response(self, acknowledged: Outcomes, fetched: dict[Part, PartitionData]) -> ShareFetchResponse:
        session = self._session
        if session is not None and session.epoch != self._epoch:
            return _refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if session is not None and self._request.share_session_epoch:
            fetched = {
                part: data
                for part, data in fetched.items()
                if session.must_respond(part, has_records=bool(data.records), has_error=bool(data.error_code))
            }
        for part, error in acknowledged.items():
            data = fetched.setdefault(part, _data(part[1]))
            data.acknowledge_error_code = ErrorCode.NONE if error is None else error.code
            data.acknowledge_error_message = None if error is None else error.message or None
        leaders = CurrentLeaders(self._state, self._context.listener)
        topics: dict[Uuid, list[PartitionData]] = {}
        for part, data in fetched.items():
            topic = self._state.catalog.topic_by_id(part[0])
            if data.error_code in LEADER_IS_ELSEWHERE and topic is not None:
                leader_id, leader_epoch = leaders.leader_of(TopicPartition(topic.name, part[1]))
                data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            topics.setdefault(part[0], []).append(data)
        return ShareFetchResponse(
            error_code=ErrorCode.NONE,
            acquisition_lock_timeout_ms=self._state.groups.share_limits_of(self._member.group_id).lock_duration_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=parts) for topic_id, parts in topics.items()
            ],
            node_endpoints=[
                NodeEndpoint(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
                for broker, endpoint in leaders.endpoints()
            ],
        )


class _Fetch:
    """The fetch of one request; watches its partitions and share partitions until there is enough to read."""

    def __init__(
        self, state: BrokerState, context: RequestContext, request: ShareFetchRequest, member: SessionKey, done: _Done
    ) -> None:
        self._state = state
        self._request = request
        self._member = member
        self._done = done
        limits = state.groups.share_limits_of(member.group_id)
        self._committed_only = limits.reads_committed
        largest = state.throttling.largest_fetch_bytes(context.client)
        self._max_bytes = int(min(request.max_bytes, state.config.fetch_max_bytes, largest))
        self._errors: dict[Part, ApiError] = {}
        self._led: dict[Part, LedShare] = {}
        self._loading: set[Part] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def begin(self, parts: Sequence[Part]) -> None:
        """Load the share partitions, then fetch; the first partition is another one in each request."""
        if not parts or not self._request.max_records or not self._max_bytes:
            self._end({})
            return
        turn = self._request.share_session_epoch % len(parts)
        rotated = [*parts[turn:], *parts[:turn]]
        self._loading.update(rotated)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0, self._request.max_wait_ms) / 1000, self._complete)
        for part in rotated:
            try:
                partition = self._partition(part)
            except ApiError as error:
                self._loaded(part, error)
            else:
                key = ShareKey(self._member.group_id, *part)
                self._state.share_partitions.load(key, partition, partial(self._loaded, part))

    def _partition(self, part: Part) -> Partition:
        topic = self._state.catalog.topic_by_id(part[0])
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "")
        return led_partition(self._state, TopicPartition(topic.name, part[1]))

    def _loaded(self, part: Part, found: LedShare | ApiError) -> None:
        if self._is_over:
            return
        self._loading.discard(part)
        if isinstance(found, ApiError):
            self._errors[part] = found
        else:
            self._led[part] = found
            found.partition.watch(self)
            found.watchers[self._look] = None
        if not self._loading:
            self._look()

    # ---- what may change while it waits

    def readable(self, size_bytes: int) -> None:
        """Look whether new records are enough."""
        self._look()

    def ended(self) -> None:
        """Answer, because the leader of a partition has changed."""
        self._complete()

    def cancel(self) -> None:
        """Stop waiting: the connection is lost."""
        self._leave()

    def _look(self) -> None:
        if self._is_over or self._loading:
            return
        available = 0
        for led in self._led.values():
            machine = led.machine
            if machine is None:
                self._complete()
                return
            machine.move_start(led.partition.log.log_start_offset)
            if machine.can_acquire:
                at = machine.next_fetch_offset()
                available += led.partition.readable_bytes(at, committed_only=self._committed_only)
        if self._errors or (available and available >= self._request.min_bytes) or self._request.max_wait_ms <= 0:
            self._complete()

    def _complete(self) -> None:
        if self._is_over:
            return
        left = self._request.max_records
        acquirable = [part for part, led in self._led.items() if led.machine is not None and led.machine.can_acquire]
        each_bytes = self._max_bytes // max(1, len(acquirable))
        found: dict[Part, PartitionData] = {}
        self._leave()
        for part in acquirable:
            led = self._led[part]
            try:
                data, count = self._read(part, led, each_bytes, left)
            except ApiError as error:
                self._errors[part] = error
                continue
            found[part] = data
            left -= count
        for part, led in self._led.items():
            if not led.partition.is_leader:
                self._errors[part] = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        for part, failure in self._errors.items():
            found[part] = _data(part[1], failure.code)
        self._done(found)

    def _end(self, found: dict[Part, PartitionData]) -> None:
        self._leave()
        self._done(found)

    def _leave(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for led in self._led.values():
            led.partition.unwatch(self)
            led.watchers.pop(self._look, None)

    # ---- reading

    def _read(self, part: Part, led: LedShare, size_max: int, records_max: int) -> tuple[PartitionData, int]:
        """Read from the first available record on, and acquire what was read.

        Raises:
            ApiError: the log cannot be read.
        """
        machine, partition = led.machine, led.partition
        assert machine is not None
        machine.move_start(partition.log.log_start_offset)
        at = machine.next_fetch_offset()
        content = partition.read(at, size_max, at_least_one=True, committed_only=self._committed_only)
        batches = _batches(content)
        request = Request(
            self._member.member_id,
            AcquireMode(self._request.share_acquire_mode),
            self._request.batch_size,
            records_max,
        )
        spans = [LogBatch(each.header.base_offset, each.header.next_offset - 1) for each in batches]
        acquired = machine.acquire(request, at, spans, loop_ms())
        if self._committed_only and content is not None and acquired:
            size = content.size if isinstance(content, FileSlice) else len(content)
            aborted = _aborted(batches, partition.aborted_transactions(at, size))
            acquired = machine.archive_aborted(acquired, aborted)
        self._state.share_partitions.watch_locks(led)
        data = _data(part[1])
        data.records = b"".join(each.wire for each in _overlapping(batches, acquired))
        data.acquired_records = [
            AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.delivery_count)
            for each in acquired
        ]
        return data, sum(each.last - each.first + 1 for each in acquired)


class _Batch(NamedTuple):
    header: BatchHeader
    wire: memoryview


def _batches(content: Content | None) -> list[_Batch]:
    if content is None:
        return []
    if isinstance(content, FileSlice):
        content = memoryview(os.pread(content.fd, content.size, content.offset))
    return [_Batch(header, wire) for header, wire in iter_headers(content)]


def _overlapping(batches: Sequence[_Batch], acquired: Sequence[Acquired]) -> list[_Batch]:
    """Return the batches from the first to the last acquired record."""
    if not acquired:
        return []
    first, last = acquired[0].first, acquired[-1].last
    return [each for each in batches if each.header.next_offset > first and each.header.base_offset <= last]


def _aborted(batches: Sequence[_Batch], transactions: Sequence[AbortedTransaction]) -> list[LogBatch]:
    """Return the batches of aborted transactions."""
    waiting = sorted(transactions, key=lambda each: each.first_offset, reverse=True)
    producers: set[int] = set()
    found = []
    for header, wire in batches:
        last = header.next_offset - 1
        while waiting and waiting[-1].first_offset <= last:
            producers.add(waiting.pop().producer_id)
        if header.is_control:
            if control_type_of(wire) is ControlType.ABORT:
                producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in producers:
            found.append(LogBatch(header.base_offset, last))
    return found


def _data(partition: int, code: ErrorCode = ErrorCode.NONE) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=code,
        acknowledge_error_code=ErrorCode.NONE,
        current_leader=LeaderIdAndEpoch(),
        records=b"",
        acquired_records=[],
    )


def _refused(code: ErrorCode) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=code, responses=[], node_endpoints=[])


def _refused_later(code: ErrorCode, delay_ms: int) -> Deferred[ShareFetchResponse]:
    """Refuse a request after its waiting time, so that the client does not ask again at once."""
    deferred: Deferred[ShareFetchResponse] = Deferred(lambda: timer.cancel())
    timer = asyncio.get_running_loop().call_later(max(0, delay_ms) / 1000, deferred.resolve, _refused(code))
    return deferred
