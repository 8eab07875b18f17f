"""Produce: append record batches.

Each partition succeeds or fails by itself. With acks=0 nobody waits for an answer: there is none, and an error closes
the connection, which is the only sign that such a producer understands. With acks=all the answer comes when all
replicas in sync have the batches, or when the request's time is up.
Source: kafka.server.KafkaApis.handleProduceRequest, ReplicaManager.appendRecords, DelayedProduce; KIP-951.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from kafkaraw.broker.deferred import Deferred, after, answered
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.leadership import Elsewhere, led_partition
from kafkaraw.broker.handlers.produce_in_transaction import Codes, join_transaction
from kafkaraw.broker.partitions.partition import ALL_IN_SYNC, Partition
from kafkaraw.broker.refusal import CloseConnection, Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.turns import Steps, run_in_turns
from kafkaraw.broker.validation.frames import first_is_transactional, only_batch
from kafkaraw.light_classes import dataclass
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
from kafkaraw.records import TopicPartition

TOPIC_ID_VERSION_MIN: Final = 13
LEADER_VERSION_MIN: Final = 10
ADMIN_CLIENT_ID: Final = "__admin_client"
"""The client id that may write to internal topics (Kafka's AdminUtils.ADMIN_CLIENT_ID)."""
ACKS: Final = (ALL_IN_SYNC, 0, 1)
NO_OFFSET: Final = -1
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
"""After these, an answer does not tell where the log starts; after any other, it does."""


def handle(state: BrokerState, context: RequestContext, request: ProduceRequest) -> object:
    """Append, and say where; records of a transaction after their partitions have become part of it."""
    refusal = _refusal_of_all(request)
    if refusal is not None:
        return _refused(request, refusal)
    if request.acks == 0 or request.transactional_id is None:
        return _append(state, context, request, {})
    joined: Codes | Deferred[Codes] = answered(partial(join_transaction, state, context, request))
    return after(joined, lambda codes: _append(state, context, request, codes))


def _refusal_of_all(request: ProduceRequest) -> Refusal | None:
    """Why nothing of a request is appended: Kafka looks at every first batch before it looks at topics."""
    transactional = False
    try:
        for topic in request.topic_data:
            for data in topic.partition_data:
                if isinstance(data.records, memoryview) and first_is_transactional(data.records):
                    transactional = True
    except Refusal as refusal:
        return refusal
    if transactional and request.transactional_id is None:
        return Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transaction without a transactional id")
    return None


def _refused(request: ProduceRequest, refusal: Refusal) -> ProduceResponse | None:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_turned_away(data.index, refusal) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
    )
    if request.acks == 0:
        _check_none_failed(response)
        return None
    return response


def _turned_away(index: int, refusal: Refusal, log_start_offset: int = NO_OFFSET) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=refusal.code,
        base_offset=NO_OFFSET,
        log_start_offset=log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
            for error in refusal.record_errors
        ],
        error_message=refusal.message,
    )


def _append(state: BrokerState, context: RequestContext, request: ProduceRequest, codes: Codes) -> object:
    produce = _Produce(state, context, request, codes)
    if len(request.topic_data) == 1 and len(request.topic_data[0].partition_data) == 1:
        produce.append_to_one(request.topic_data[0])  # most requests: nothing to take turns for
        return produce.appended(produce.response())
    return after(run_in_turns(produce.append_to_all(request)), produce.appended)


def _check_none_failed(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NONE:
                name = ErrorCode(partition.error_code).name
                raise CloseConnection(f"produce with acks=0 failed with {name}: {partition.error_message}")


@dataclass(slots=True)
class _Waiting:
    """A batch that was appended and that the other replicas in sync must have before its producer is told."""

    state: BrokerState
    partition: Partition
    leader_epoch: int
    next_offset: int
    answer: PartitionProduceResponse

    def is_done(self) -> bool:
        """Whether it is decided how it ends; the answer says how."""
        try:
            led = led_partition(self.state, self.partition.topic_partition)
        except Refusal as refusal:
            self.answer.error_code = refusal.code
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
    """One request with what it works on."""

    def __init__(self, state: BrokerState, context: RequestContext, request: ProduceRequest, codes: Codes) -> None:
        self._codes = codes
        self.waiting: list[_Waiting] = []
        self._state = state
        self._context = context
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._by_id = context.api_version >= TOPIC_ID_VERSION_MIN
        self._answers: list[TopicProduceResponse] = []

    def append_to_one(self, asked: TopicProduceData) -> None:
        """Append to the only partition of a request."""
        self._answers.append(self._answer_of(asked, [self._try(self._find(asked), asked, asked.partition_data[0])]))

    def response(self) -> ProduceResponse:
        """What is known when all is appended."""
        return ProduceResponse(responses=self._answers)

    def appended(self, response: ProduceResponse) -> object:
        """The answer, or one that comes when the replicas have what was appended."""
        if self._acks == 0:
            _check_none_failed(response)
            return None
        if self.waiting and self.is_waiting():
            return _WaitingProduce(self, response, self._timeout_ms).deferred
        return self.finished(response)

    def append_to_all(self, request: ProduceRequest) -> Steps[ProduceResponse]:
        """Append to one partition after the other, and say what is known then; stops behind each."""
        for asked in request.topic_data:
            answers: list[PartitionProduceResponse] = []
            self._answers.append(self._answer_of(asked, answers))
            topic = self._find(asked)
            for data in asked.partition_data:
                answers.append(self._try(topic, asked, data))
                yield None
        return self.response()

    @staticmethod
    def _answer_of(asked: TopicProduceData, answers: list[PartitionProduceResponse]) -> TopicProduceResponse:
        return TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=answers)

    def _find(self, asked: TopicProduceData) -> Topic | None:
        catalog = self._state.catalog
        return catalog.topic_by_id(asked.topic_id) if self._by_id else catalog.topic(asked.name)

    def _try(
        self, topic: Topic | None, asked: TopicProduceData, data: PartitionProduceData
    ) -> PartitionProduceResponse:
        try:
            if topic is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID if self._by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise Refusal(code, f"this broker has no topic {str(asked.topic_id) if self._by_id else asked.name}")
            return self._append(topic, data)
        except Refusal as refusal:
            return _turned_away(data.index, refusal)

    def _append(self, topic: Topic, data: PartitionProduceData) -> PartitionProduceResponse:
        key = TopicPartition(topic.name, data.index)
        if data.records is not None and not isinstance(data.records, memoryview):
            raise TypeError("records of a decoded request are a memoryview")
        partition = self._state.partition(key)
        if partition is None and self._state.catalog.state_of(key) is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker has no partition {data.index} of it")
        batch = only_batch(data.records, self._context.api_version)
        if self._acks not in ACKS:
            raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is one of -1, 0 and 1, not {self._acks}")
        if topic.is_internal and self._context.client_id != ADMIN_CLIENT_ID:
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
        if partition is None or not partition.is_leader:
            partition = led_partition(self._state, key)  # which says why not
        if self._codes.get(key):
            raise Refusal(self._codes[key], "the partition is not part of the transaction")
        leader_epoch = partition.leader_epoch
        try:
            appended = partition.append(batch, acks=self._acks, in_transaction=key in self._codes)
        except Refusal as refusal:
            known = refusal.code in _EXPECTED
            return _turned_away(data.index, refusal, NO_OFFSET if known else partition.log.log_start_offset)
        answer = PartitionProduceResponse(
            index=data.index,
            error_code=ErrorCode.NONE,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=partition.log.log_start_offset,
        )
        if self._acks == ALL_IN_SYNC and not partition.has_acknowledged(appended.next_offset):
            self.waiting.append(_Waiting(self._state, partition, leader_epoch, appended.next_offset, answer))
        return answer

    def is_waiting(self) -> bool:
        """Whether other replicas lack any of it; they may have come while other clients had their turn."""
        self.waiting = [one for one in self.waiting if not one.is_done()]
        return bool(self.waiting)

    def finished(self, response: ProduceResponse) -> ProduceResponse:
        """The response, with the leaders of what this node does not lead."""
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
        elsewhere = Elsewhere(self._state, self._context.listener)
        for name, answer in lost:
            leader_id, leader_epoch = elsewhere.leader_of(TopicPartition(name, answer.index))
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        response.node_endpoints = [
            NodeEndpoint(node_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in elsewhere.endpoints()
        ]
        return response

    def _name(self, topic: TopicProduceResponse) -> str:
        if self._context.api_version < TOPIC_ID_VERSION_MIN:
            return topic.name
        found = self._state.catalog.topic_by_id(topic.topic_id)
        return "" if found is None else found.name


class _WaitingProduce:
    """A produce request whose batches are appended, and not yet with all replicas in sync."""

    def __init__(self, produce: _Produce, response: ProduceResponse, timeout_ms: int) -> None:
        self.deferred: Deferred[ProduceResponse] = Deferred(self._leave)
        self._produce = produce
        self._response = response
        self._waiting = produce.waiting
        for one in self._waiting:
            one.partition.watch(self)
        self._timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self._give_up)

    def readable(self, size_bytes: int) -> None:
        """The high watermark of one of the partitions has moved."""
        self._look()

    def ended(self) -> None:
        """This node leads one of the partitions no more."""
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
