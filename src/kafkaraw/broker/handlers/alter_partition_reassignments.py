"""AlterPartitionReassignments: move replicas of partitions to other nodes, or cancel moves.

Source: KIP-455, KIP-860; org.apache.kafka.controller.ReplicationControlManager.alterPartitionReassignments.
"""

from __future__ import annotations

import logging

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import MESSAGES, on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.partitions.elections import PartitionState
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.partition_creation import check_nodes
from kafkaraw.broker.turns import Steps
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kafkaraw.records import TopicPartition

_logger = logging.getLogger("kafkaraw.broker")


def _not_authorized(request: AlterPartitionReassignmentsRequest, message: str) -> AlterPartitionReassignmentsResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=one.partition_index, error_code=code, error_message=MESSAGES[code]
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=MESSAGES[code], responses=responses)


@handles(
    AlterPartitionReassignmentsRequest,
    authorize=on_cluster(AclOperation.ALTER, _not_authorized),
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Reply[AlterPartitionReassignmentsResponse]:
    """Begin or cancel the move of each partition independently; the moves go on after the response."""
    return state.controller.changes.run(_reassigning(state, request))


def _reassigning(
    state: BrokerState, request: AlterPartitionReassignmentsRequest
) -> Steps[AlterPartitionReassignmentsResponse]:
    responses = []
    for topic in request.topics:
        results = []
        for one in topic.partitions:
            result = ReassignablePartitionResponse(
                partition_index=one.partition_index, error_code=ErrorCode.NONE, error_message=None
            )
            try:
                key = TopicPartition(topic.name, one.partition_index)
                _reassign(state, key, one.replicas, may_change_factor=request.allow_replication_factor_change)
            except ApiError as error:
                result.error_code, result.error_message = error.code, error.message or None
            results.append(result)
            yield None
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None if request.topics else "",
        responses=responses,
    )


def _reassign(state: BrokerState, key: TopicPartition, replicas: list[int] | None, *, may_change_factor: bool) -> None:
    before = _state_of(state, key)
    if replicas is None:
        if not state.controller.cancel_reassignment(key):
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "")
        return
    check_nodes(replicas, state.catalog)
    factor = len(before.replicas) - len(before.adding if before.removing else ())
    if not may_change_factor and len(replicas) != factor:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {factor} to {len(replicas)}"
        )
    try:
        state.controller.reassign(key, tuple(replicas))
    except OSError as error:
        _logger.error("%s-%d cannot be reassigned to %s: %s", *key, replicas, error)
        message = f"the new replicas cannot be stored: {error.strerror}"
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error


def _state_of(state: BrokerState, key: TopicPartition) -> PartitionState:
    found = state.catalog.state_of(key)
    if found is not None:
        return found
    if state.catalog.topic(key.topic) is None:
        message = f"Unable to find a topic named {key.topic}."
    else:
        message = f"Unable to find partition {key.topic}:{key.partition}."
    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
