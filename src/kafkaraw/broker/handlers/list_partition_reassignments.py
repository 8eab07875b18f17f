"""ListPartitionReassignments: the moves of replicas that are in progress.

Source: KIP-455; org.apache.kafka.controller.ReplicationControlManager.listPartitionReassignments.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkaraw.broker.handlers.authorization import MESSAGES, on_cluster
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kafkaraw.records import TopicPartition


def _not_authorized(request: ListPartitionReassignmentsRequest, message: str) -> ListPartitionReassignmentsResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ListPartitionReassignmentsResponse(error_code=code, error_message=MESSAGES[code], topics=[])


@handles(
    ListPartitionReassignmentsRequest,
    authorize=on_cluster(AclOperation.DESCRIBE, _not_authorized),
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.CLUSTER),),
)
def handle(
    state: BrokerState, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Reply[ListPartitionReassignmentsResponse]:
    """List the moves of the partitions that the request names, or of all; others are left out."""
    asked: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        asked = [(topic.name, range(topic.partitions_count)) for topic in state.catalog.topics()]
    else:
        asked = [(topic.name, topic.partition_indexes) for topic in request.topics]
    topics = [
        OngoingTopicReassignment(name=name, partitions=moves)
        for name, numbers in asked
        if (moves := _moves(state, name, numbers))
    ]
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=topics)


def _moves(state: BrokerState, name: str, numbers: Iterable[int]) -> list[OngoingPartitionReassignment]:
    found = []
    for number in numbers:
        partition = state.catalog.state_of(TopicPartition(name, number))
        if partition is not None and partition.is_reassigned:
            found.append(
                OngoingPartitionReassignment(
                    partition_index=number,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding),
                    removing_replicas=list(partition.removing),
                )
            )
    return found
