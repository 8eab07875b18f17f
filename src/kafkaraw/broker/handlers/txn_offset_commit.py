"""TxnOffsetCommit: keep positions that count once a transaction commits.

With version 5 the group is made part of the transaction by the broker itself (KIP-890). There is no group membership
yet, so a commit that claims one is refused as Kafka refuses it in an empty group.
Source: kafka.server.KafkaApis.handleTxnOffsetCommitRequest; KIP-447.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafkaraw.broker.deferred import Deferred, answered
from kafkaraw.broker.handlers.add_offsets_to_txn import offsets_partition
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.produce_in_transaction import code_for_producers
from kafkaraw.broker.offsets import CommittedOffset
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.transactions.coordinator import Identity
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkaraw.records import TopicPartition

IMPLICIT_VERSION_MIN: Final = 5
NO_GENERATION: Final = -1


def handle(
    state: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Deferred[TxnOffsetCommitResponse]:
    """Keep each position, or say why not."""
    refused = _check_group(state, request)
    if refused:
        return _answer(state, request, refused)
    partition = offsets_partition(request.group_id)
    implicit = context.api_version >= IMPLICIT_VERSION_MIN

    def joined(codes: Mapping[TopicPartition, ErrorCode]) -> TxnOffsetCommitResponse:
        return _answer(state, request, code_for_producers(codes[partition], implicit=implicit))

    return answered(
        lambda done: state.transactions.join(
            request.transactional_id,
            Identity(request.producer_id, request.producer_epoch),
            frozenset({partition}),
            add=implicit,
            done=lambda codes: done(joined(codes)),
        )
    )


def _check_group(state: BrokerState, request: TxnOffsetCommitRequest) -> ErrorCode:
    if state.catalog.coordinator_of(request.group_id) != state.node_id:
        return ErrorCode.NOT_COORDINATOR
    if request.generation_id > NO_GENERATION:
        return ErrorCode.ILLEGAL_GENERATION
    if request.member_id or request.group_instance_id is not None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def _answer(state: BrokerState, request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=asked.partition_index,
                        error_code=code
                        or _commit(state, request, TopicPartition(topic.name, asked.partition_index), asked),
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _commit(
    state: BrokerState,
    request: TxnOffsetCommitRequest,
    topic_partition: TopicPartition,
    asked: TxnOffsetCommitRequestPartition,
) -> ErrorCode:
    if state.catalog.state_of(topic_partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = asked.committed_metadata or ""
    if len(metadata) > state.config.offset_metadata_max_bytes:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    committed = CommittedOffset(asked.committed_offset, asked.committed_leader_epoch, metadata)
    state.offsets.commit_in_transaction(request.producer_id, request.group_id, topic_partition, committed)
    return ErrorCode.NONE
