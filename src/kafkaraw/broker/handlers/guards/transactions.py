"""Guards of the APIs about transactions.

Source: kafka.server.KafkaApis.{handleAddPartitionsToTransaction, handleAddOffsetsToTxnRequest, handleEndTxnRequest,
handleTxnOffsetCommitRequest, handleWriteTxnMarkersRequest, handleDescribeProducersRequest,
handleDescribeTransactionsRequest, handleListTransactionsRequest}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaraw.broker.deferred import after
from kafkaraw.broker.handlers.describe_transactions import not_described
from kafkaraw.broker.handlers.guards.call import MESSAGES, Call
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkaraw.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from kafkaraw.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicRequest,
    TopicResponse,
)
from kafkaraw.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kafkaraw.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkaraw.protocol.messages.list_transactions import ListTransactionsResponse
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkaraw.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

FOR_BROKERS_SINCE: Final = 4
_ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _may_write(call: Call, transactional_id: str) -> bool:
    return call.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def add_partitions(call: Call, request: AddPartitionsToTxnRequest) -> object:
    """WRITE on the transactional id and on every topic: all partitions are added, or none."""
    if call.context.api_version >= FOR_BROKERS_SINCE:
        if call.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            return call.go_on(request)
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = request.v3_and_below_topics
    if not _may_write(call, request.v3_and_below_transactional_id):
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


def add_offsets(call: Call, request: AddOffsetsToTxnRequest) -> object:
    """WRITE on the transactional id, and READ on the group."""
    if not _may_write(call, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=_ID_DENIED)
    if not call.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return call.go_on(request)


def end(call: Call, request: EndTxnRequest) -> object:
    """WRITE on the transactional id."""
    if not _may_write(call, request.transactional_id):
        return EndTxnResponse(error_code=_ID_DENIED)
    return call.go_on(request)


def commit_offsets(call: Call, request: TxnOffsetCommitRequest) -> object:
    """WRITE on the transactional id, READ on the group, and READ on each topic."""
    code = ErrorCode.NONE
    if not _may_write(call, request.transactional_id):
        code = _ID_DENIED
    elif not call.allows(AclOperation.READ, ResourceType.GROUP, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    if code:
        return TxnOffsetCommitResponse(topics=[_not_committed(topic, code) for topic in request.topics])
    allowed, refused = call.divide(request.topics, AclOperation.READ, lambda topic: topic.name)
    denied = [_not_committed(topic, _TOPIC_DENIED) for topic in refused]
    return call.go_on_with(request, allowed, denied, TxnOffsetCommitResponse(topics=[]))


def _not_committed(topic: TxnOffsetCommitRequestTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
            for part in topic.partitions
        ],
    )


def write_markers(call: Call, request: WriteTxnMarkersRequest) -> object:
    """ALTER on the cluster, or CLUSTER_ACTION: what other brokers have."""
    if call.allows_on_cluster(AclOperation.ALTER, log_denial=False) or call.allows_on_cluster(
        AclOperation.CLUSTER_ACTION
    ):
        return call.go_on(request)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def describe_producers(call: Call, request: DescribeProducersRequest) -> object:
    """READ on each topic."""
    allowed, refused = call.divide(request.topics, AclOperation.READ, lambda topic: topic.name)
    denied = [_no_producers(topic) for topic in refused]
    return call.go_on_with(request, allowed, denied, DescribeProducersResponse(topics=[]))


def _no_producers(topic: TopicRequest) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        partitions=[
            PartitionResponse(
                partition_index=index,
                error_code=_TOPIC_DENIED,
                error_message=MESSAGES[_TOPIC_DENIED],
                active_producers=[],
            )
            for index in topic.partition_indexes
        ],
    )


def describe(call: Call, request: DescribeTransactionsRequest) -> object:
    """DESCRIBE on each transactional id; of its topics, those are left out that may not be described."""
    denied = {name for name in request.transactional_ids if not _may_describe(call, name)}
    asked = [name for name in request.transactional_ids if name not in denied]

    def merge(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for one in response.transaction_states:
            one.topics = [
                topic
                for topic in one.topics
                if call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic, log_denial=False)
            ]
        response.transaction_states.extend(not_described(name, _ID_DENIED) for name in sorted(denied))
        return response

    return after(call.go_on(replace(request, transactional_ids=asked)), merge)


def _may_describe(call: Call, name: str, *, log_denial: bool = True) -> bool:
    return call.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name, log_denial=log_denial)


def list_all(call: Call, request: object) -> object:
    """DESCRIBE on each transactional id: those without are left out."""

    def merge(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            one for one in response.transaction_states if _may_describe(call, one.transactional_id, log_denial=False)
        ]
        return response

    return after(call.go_on(request), merge)
