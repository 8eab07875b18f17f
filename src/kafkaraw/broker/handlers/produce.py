"""Produce: append record batches.

Each partition succeeds or fails independently. With acks=0 there is no response; an error closes the connection, which
is the only way to report it to such a producer. With acks=all the response is sent when all in-sync replicas have the
batches, or when the request times out.
Source: kafka.server.KafkaApis.handleProduceRequest, ReplicaManager.appendRecords, DelayedProduce; KIP-951.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from kafkaraw.broker.api_error import ApiError, CloseConnectionError, RecordError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import CurrentLeaders, led_partition
from kafkaraw.broker.handlers.produce_in_transaction import Codes, join_transaction
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.partitions.partition import ALL_IN_SYNC, Partition
from kafkaraw.broker.replies import NO_REPLY, Deferred, NoReply, Reply, after, after_response, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.turns import Steps, run_in_turns
from kafkaraw.broker.validation.frames import first_is_transactional, only_batch
from kafkaraw.broker.validation.record_checks import ERRORS_MAX
from kafkaraw.errors import BatchTooLargeError
from kafkaraw.light_classes import dataclass, replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkaraw.records import DECOMPRESSED_SIZE_MAX_BYTES, TopicPartition

TOPIC_ID_VERSION_MIN: Final = 13
LEADER_VERSION_MIN: Final = 10
ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may write to internal topics (Kafka's AdminUtils.ADMIN_CLIENT_ID)."""
ACKS: Final = (ALL_IN_SYNC, 0, 1)
NO_OFFSET: Final = -1
READ_FREELY_MAX_BYTES: Final = 4 << 20
"""Decompressed size up to which batches are read concurrently; larger ones are read one at a time, to limit memory."""
_EXPECTED: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors with which a response has no log start offset; with other errors, it has."""
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(call: Call[ProduceRequest, ProduceResponse], request: ProduceRequest) -> Reply[ProduceResponse]:
    """WRITE on each topic; for transactional records WRITE on the transactional id, for the whole request."""
    if _is_transactional(request) and not call.may_write_transactions(request.transactional_id):
        _close_without_acks(request)
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ProduceResponse(responses=[_not_produced(one, code) for one in request.topic_data])
    allowed, refused = call.divide(
        request.topic_data,
        AclOperation.WRITE,
        lambda topic: call.topic_name(topic.name, topic.topic_id, TOPIC_ID_VERSION_MIN),
    )
    if not refused:
        return call.go_on(request)
    denied = [_not_produced(topic, _TOPIC_DENIED) for topic in refused]
    answer = call.go_on(replace(request, topic_data=allowed)) if allowed else ProduceResponse(responses=[])
    _close_without_acks(request)

    def merge(response: ProduceResponse) -> ProduceResponse:
        response.responses.extend(denied)
        return response

    return after_response(answer, merge)


def _close_without_acks(request: ProduceRequest) -> None:
    if request.acks == 0:
        raise CloseConnectionError("produce with acks=0 is not authorized; such a producer gets no response")


def _is_transactional(request: ProduceRequest) -> bool:
    """Return whether the first batch of any partition is transactional, which is what Kafka checks."""
    try:
        return any(
            first_is_transactional(partition.records)
            for topic in request.topic_data
            for partition in topic.partition_data
            if isinstance(partition.records, memoryview)
        )
    except ApiError:
        return False  # the handler returns the error


def _not_produced(topic: TopicProduceData, code: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=data.index, error_code=code, base_offset=NO_OFFSET)
            for data in topic.partition_data
        ],
    )


@handles(
    ProduceRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.WRITE, ResourceType.TOPIC),
        Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional records"),
    ),
    note="with acks=0 an error closes the connection",
)
def handle(state: BrokerState, context: RequestContext, request: ProduceRequest) -> Reply[ProduceResponse]:
    """Append batches and return their offsets; add partitions of transactional batches to the transaction first."""
    error = _error_of_all(request)
    if error is not None:
        return _refused(request, error)
    if request.acks == 0 or request.transactional_id is None:
        return _append(state, context, request, {})
    joined: Codes | Deferred[Codes] = answered(partial(join_transaction, state, context, request))
    return after(joined, lambda codes: _append(state, context, request, codes))


def _error_of_all(request: ProduceRequest) -> ApiError | None:
    """Return why the complete request is refused: as in Kafka, all first batches are checked before the topics."""
    transactional = False
    try:
        for topic in request.topic_data:
            for data in topic.partition_data:
                if isinstance(data.records, memoryview) and first_is_transactional(data.records):
                    transactional = True
    except ApiError as error:
        return error
    if transactional and request.transactional_id is None:
        return ApiError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records without a transactional id"
        )
    return None


def _refused(request: ProduceRequest, error: ApiError) -> ProduceResponse | NoReply:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_failed(data.index, error) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == 0:
        _check_none_failed(response)
        return NO_REPLY
    return response


def _failed(
    index: int, error: ApiError, log_start_offset: int = NO_OFFSET, record_errors: Sequence[RecordError] = ()
) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=NO_OFFSET,
        log_start_offset=log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=one.batch_index, batch_index_error_message=one.message)
            for one in record_errors
        ],
        error_message=error.message,
    )


def _append(
    state: BrokerState, context: RequestContext, request: ProduceRequest, codes: Codes
) -> Reply[ProduceResponse]:
    produce = _Produce(state, context, request, codes)
    return after(produce.append(), produce.appended)


def _check_none_failed(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                name = ErrorCode(partition.error_code).name
                raise CloseConnectionError(f"produce with acks=0 failed with {name}: {partition.error_message}")


@dataclass(slots=True)
class _Waiting:
    """An appended batch that is acknowledged once all in-sync replicas have it."""

    state: BrokerState
    partition: Partition
    leader_epoch: int
    next_offset: int
    answer: PartitionProduceResponse

    def is_done(self) -> bool:
        """Return whether the result is known; sets the error code of the response if it is an error."""
        try:
            led = led_partition(self.state, self.partition.topic_partition)
        except ApiError as error:
            self.answer.error_code = error.code
            return True
        if led is not self.partition or led.leader_epoch != self.leader_epoch:
            self.answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        if led.high_watermark < self.next_offset:
            return False
        if not led.has_enough_in_sync:
            self.answer.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return True


class _Produce:
    """One Produce request and its progress."""

    def __init__(self, state: BrokerState, context: RequestContext, request: ProduceRequest, codes: Codes) -> None:
        self._codes = codes
        self.waiting: list[_Waiting] = []
        self._state = state
        self._context = context
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._by_id = context.api_version >= TOPIC_ID_VERSION_MIN
        self._response = ProduceResponse(
            responses=[
                TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=[])
                for asked in request.topic_data
            ]
        )
        self._left = deque(
            (asked, data, answer.partition_responses)
            for asked, answer in zip(request.topic_data, self._response.responses, strict=True)
            for data in asked.partition_data
        )
        self._record_errors_left = ERRORS_MAX

    def append(self) -> ProduceResponse | Deferred[ProduceResponse]:
        """Append to one partition after the other, in turns with other work; return the response so far."""
        return after(run_in_turns(self._append_rest(READ_FREELY_MAX_BYTES)), self._append_large)

    def _append_large(self, is_done: bool) -> ProduceResponse | Deferred[ProduceResponse]:
        """Continue with a batch that takes much memory, once no other large request of the node is in progress."""
        if is_done:
            return self._response
        entered: Deferred[None] | None = answered(
            lambda go_on: self._state.large_requests.enter(self, lambda: go_on(None))
        )
        return after(entered, lambda _: run_in_turns(self._append_as_large()))

    def _append_as_large(self) -> Steps[ProduceResponse]:
        try:
            yield from self._append_rest(DECOMPRESSED_SIZE_MAX_BYTES)
        finally:
            self._state.large_requests.leave(self)
        return self._response

    def _append_rest(self, size_max_bytes: int) -> Steps[bool]:
        """Append the remaining batches. Return False at a batch whose decompressed size exceeds the limit."""
        while self._left:
            asked, data, answers = self._left[0]
            try:
                answers.append((yield from self._try(asked, data, size_max_bytes)))
            except BatchTooLargeError as error:
                if size_max_bytes < DECOMPRESSED_SIZE_MAX_BYTES:
                    return False
                answers.append(_failed(data.index, ApiError(ErrorCode.INVALID_RECORD, error.message)))
            self._left.popleft()
            yield None
        return True

    def appended(self, response: ProduceResponse) -> Reply[ProduceResponse]:
        """Return the response, or a deferred one that is sent once the in-sync replicas have the batches."""
        if self._acks == 0:
            _check_none_failed(response)
            return NO_REPLY
        if self.waiting and self.is_waiting():
            return _WaitingProduce(self, response, self._timeout_ms).deferred
        return self.finished(response)

    def _find(self, asked: TopicProduceData) -> Topic | None:
        catalog = self._state.catalog
        return catalog.topic_by_id(asked.topic_id) if self._by_id else catalog.topic(asked.name)

    def _try(
        self, asked: TopicProduceData, data: PartitionProduceData, size_max_bytes: int
    ) -> Steps[PartitionProduceResponse]:
        topic = self._find(asked)
        try:
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID if self._by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise ApiError(code, f"this broker has no topic {str(asked.topic_id) if self._by_id else asked.name}")
            return (yield from self._append(topic, data, size_max_bytes))
        except ApiError as error:
            return _failed(data.index, error)

    def _append(self, topic: Topic, data: PartitionProduceData, size_max_bytes: int) -> Steps[PartitionProduceResponse]:
        key = TopicPartition(topic.name, data.index)
        if data.records is not None and not isinstance(data.records, memoryview):
            raise TypeError("records of a decoded request are a memoryview")
        partition = self._state.partition(key)
        if partition is None and self._state.catalog.state_of(key) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker has no partition {data.index} of it")
        batch = only_batch(data.records, self._context.api_version)
        if self._acks not in ACKS:
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is one of -1, 0 and 1, not {self._acks}")
        if topic.is_internal and self._context.client_id != ADMIN_CLIENT_ID:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
        if partition is None or not partition.is_leader:
            partition = led_partition(self._state, key)  # its error has the reason
        if self._codes.get(key):
            raise ApiError(self._codes[key], "the partition is not part of the transaction")
        try:
            checked = yield from partition.check(batch, acks=self._acks, size_max_bytes=size_max_bytes)
            if led_partition(self._state, key) is not partition:  # any longer: others may have had their turns
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{key} was created again")
            appended = partition.append(checked, acks=self._acks, in_transaction=key in self._codes)
        except ApiError as error:
            known = error.code in _EXPECTED
            shown = error.record_errors[: self._record_errors_left]
            self._record_errors_left -= len(shown)
            return _failed(data.index, error, NO_OFFSET if known else partition.log.log_start_offset, shown)
        answer = PartitionProduceResponse(
            index=data.index,
            error_code=ErrorCode.NONE,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=partition.log.log_start_offset,
        )
        if self._acks == ALL_IN_SYNC and not partition.has_acknowledged(appended.next_offset):
            self.waiting.append(_Waiting(self._state, partition, partition.leader_epoch, appended.next_offset, answer))
        return answer

    def is_waiting(self) -> bool:
        """Return whether in-sync replicas lack a batch; they may have fetched it during turns of other work."""
        self.waiting = [one for one in self.waiting if not one.is_done()]
        return bool(self.waiting)

    def finished(self, response: ProduceResponse) -> ProduceResponse:
        """Return the response, with the current leaders of partitions that this node does not lead."""
        if self._context.api_version < LEADER_VERSION_MIN:
            return response
        lost = [
            (self._name(topic), answer)
            for topic in response.responses
            for answer in topic.partition_responses
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        ]
        if not lost:
            return response
        current_leaders = CurrentLeaders(self._state, self._context.listener)
        for name, answer in lost:
            leader_id, leader_epoch = current_leaders.leader_of(TopicPartition(name, answer.index))
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        response.node_endpoints = [
            NodeEndpoint(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in current_leaders.endpoints()
        ]
        return response

    def _name(self, topic: TopicProduceResponse) -> str:
        if self._context.api_version < TOPIC_ID_VERSION_MIN:
            return topic.name
        found = self._state.catalog.topic_by_id(topic.topic_id)
        return "" if found is None else found.name


class _WaitingProduce:
    """A Produce request whose batches are appended, but not all in-sync replicas have them yet."""

    def __init__(self, produce: _Produce, response: ProduceResponse, timeout_ms: int) -> None:
        self.deferred: Deferred[ProduceResponse] = Deferred(self._leave)
        self._produce = produce
        self._response = response
        self._waiting = produce.waiting
        for one in self._waiting:
            one.partition.watch(self)
        self._timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._give_up)

    def readable(self, size_bytes: int) -> None:
        """Check all batches, because the high watermark of a partition has advanced."""
        self._look()

    def ended(self) -> None:
        """Check all batches, because the leader of a partition has changed or its topic is deleted."""
        self._look()

    def _look(self) -> None:
        still = []
        for one in self._waiting:
            if one.is_done():
                one.partition.unwatch(self)
            else:
                still.append(one)
        self._waiting = still
        if not still:
            self._timer.cancel()
            self.deferred.resolve(self._produce.finished(self._response))

    def _give_up(self) -> None:
        for one in self._waiting:
            one.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._leave()
        self.deferred.resolve(self._produce.finished(self._response))

    def _leave(self) -> None:
        self._timer.cancel()
        for one in self._waiting:
            one.partition.unwatch(self)
