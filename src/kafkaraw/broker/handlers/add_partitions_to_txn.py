"""AddPartitionsToTxn: add partitions to a transaction, all of them or none.

Since version 4, brokers send it to each other (KIP-890); this broker answers these versions, too.
Source: kafka.server.KafkaApis.handleAddPartitionsToTransaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafkaraw.broker.api_error import ApiError, CloseConnectionError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.init_producer_id import fenced_code
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply, answered
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.coordinator import ProducerIdAndEpoch
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kafkaraw.records import TopicPartition

MANY_VERSION_MIN: Final = 4
FENCED_VERSION_MIN: Final = 2
PARTITIONS_MAX: Final = 1 << 16
"""Maximum number of partitions of one transaction in a request. They are added together, in one turn of up to 0.4 s.

Apache Kafka only limits the size of the request; producers list the partitions that they write to next.
"""

Codes = Mapping[TopicPartition, ErrorCode]
_ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse], request: AddPartitionsToTxnRequest
) -> Reply[AddPartitionsToTxnResponse]:
    """WRITE on the transactional id and on every topic: all partitions are added, or none."""
    if call.context.api_version >= MANY_VERSION_MIN:
        if call.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            return call.go_on(request)
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = request.v3_and_below_topics
    if not call.may_write_transactions(request.v3_and_below_transactional_id):
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_not_added(topics, _ID_DENIED))
    allowed, refused = call.divide(topics, AclOperation.WRITE, lambda topic: topic.name)
    if not refused:
        return call.go_on(request)
    results = _not_added(refused, _TOPIC_DENIED) + _not_added(allowed, ErrorCode.OPERATION_NOT_ATTEMPTED)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def _not_added(topics: Sequence[AddPartitionsToTxnTopic], code: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


@handles(
    AddPartitionsToTxnRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),
        Permission(AclOperation.WRITE, ResourceType.TOPIC),
        Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "instead, from version 4 on: brokers only"),
    ),
    note="if one is denied, no partition is added",
    divided={4: Divided(("transactions",), ("results_by_transaction",), entries_per_chunk=20)},
)
def handle(
    state: BrokerState, context: RequestContext, request: AddPartitionsToTxnRequest
) -> Reply[AddPartitionsToTxnResponse]:
    """Answer for each partition."""
    many = context.api_version >= MANY_VERSION_MIN
    for topics in [one.topics for one in request.transactions] if many else [request.v3_and_below_topics]:
        if sum(len(topic.partitions) for topic in topics) > PARTITIONS_MAX:
            if many:
                return AddPartitionsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
            raise CloseConnectionError(f"AddPartitionsToTxn has more than {PARTITIONS_MAX} partitions")
    if many:
        return answered(lambda done: _Many(state, request.transactions, done).begin())
    one = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    knows_fenced = context.api_version >= FENCED_VERSION_MIN

    def response(codes: Codes) -> AddPartitionsToTxnResponse:
        results = {key: fenced_code(code, knows_fenced=knows_fenced) for key, code in codes.items()}
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(one.topics, results))

    return answered(lambda done: _add(state, one, lambda codes: done(response(codes))))


class _Many:
    """A request with several transactions, which are answered together."""

    def __init__(
        self,
        state: BrokerState,
        transactions: Sequence[AddPartitionsToTxnTransaction],
        done: Callable[[AddPartitionsToTxnResponse], None],
    ) -> None:
        self._state = state
        self._transactions = transactions
        self._done = done
        self._results: dict[str, AddPartitionsToTxnResult] = {}

    def begin(self) -> None:
        """Add the partitions of each transaction."""
        if not self._transactions:
            self._done(AddPartitionsToTxnResponse())
        for transaction in self._transactions:
            self._begin_one(transaction)

    def _begin_one(self, transaction: AddPartitionsToTxnTransaction) -> None:
        def add_result(codes: Codes) -> None:
            name = transaction.transactional_id
            results = _results(transaction.topics, codes)
            self._results[name] = AddPartitionsToTxnResult(transactional_id=name, topic_results=results)
            if len(self._results) == len({one.transactional_id for one in self._transactions}):
                self._done(AddPartitionsToTxnResponse(results_by_transaction=list(self._results.values())))

        _add(self._state, transaction, add_result)


def _add(state: BrokerState, asked: AddPartitionsToTxnTransaction, done: Callable[[Codes], None]) -> None:
    partitions = frozenset(TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partitions)
    unknown = {each for each in partitions if state.catalog.state_of(each) is None}
    if unknown:
        bad, rest = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        done({each: bad if each in unknown else rest for each in partitions})
        return
    name, identity = asked.transactional_id, ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch)
    try:
        coordinator = state.transactions.coordinator(name)
    except ApiError as error:
        done(dict.fromkeys(partitions, error.code))
        return
    if asked.verify_only:
        done(coordinator.verify_partitions(name, identity, partitions))
        return
    # transaction.version 0: a client that adds partitions explicitly uses no epoch bumps.
    coordinator.add_partitions(name, identity, partitions, 0, lambda code: done(dict.fromkeys(partitions, code)))


def _results(topics: Sequence[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
