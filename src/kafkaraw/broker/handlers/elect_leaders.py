"""ElectLeaders: the preferred leader, or for a partition without a leader one that is not in sync.

Source: KIP-183, KIP-460; org.apache.kafka.controller.ReplicationControlManager.electLeaders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaraw.broker.handlers.authorization import MESSAGES, Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.partitions import elections
from kafkaraw.broker.partitions.elections import NO_LEADER
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kafkaraw.records import TopicPartition

PREFERRED: Final = 0
UNCLEAN: Final = 1
WHOLE_ERROR_VERSION_MIN: Final = 1
_MESSAGES: Final = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


def authorize(
    call: Call[ElectLeadersRequest, ElectLeadersResponse], request: ElectLeadersRequest
) -> Reply[ElectLeadersResponse]:
    """Require ALTER on the cluster."""
    if call.allows_on_cluster(AclOperation.ALTER):
        return call.go_on(request)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return _refused(request, code, MESSAGES[code], call.context.api_version)


def _refused(request: ElectLeadersRequest, code: ErrorCode, message: str, version: int) -> ElectLeadersResponse:
    """Refuse the request, and each of its partitions: version 0 has no error of the whole request."""
    return ElectLeadersResponse(
        error_code=code if version >= WHOLE_ERROR_VERSION_MIN else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=number, error_code=code, error_message=message)
                    for number in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


@handles(
    ElectLeadersRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.ALTER, ResourceType.CLUSTER),),
)
def handle(state: BrokerState, context: RequestContext, request: ElectLeadersRequest) -> Reply[ElectLeadersResponse]:
    """Elect leaders of the partitions of the request; without partitions, of all that need an election."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        message = f"Unknown election type {request.election_type}"
        return _refused(request, ErrorCode.INVALID_REQUEST, message, context.api_version)
    unclean = request.election_type == UNCLEAN
    asked: list[tuple[str, Sequence[int]]]
    if request.topic_partitions is None:
        asked = [(topic.name, range(topic.partitions_count)) for topic in state.catalog.topics()]
    else:
        asked = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    results = []
    for name, numbers in asked:
        outcomes = [_elect(state, TopicPartition(name, number), unclean=unclean) for number in numbers]
        if request.topic_partitions is None:
            outcomes = [one for one in outcomes if one.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=name, partition_result=outcomes))
    return ElectLeadersResponse(error_code=ErrorCode.NONE, replica_election_results=results)


def _elect(state: BrokerState, key: TopicPartition, *, unclean: bool) -> PartitionResult:
    before = state.catalog.state_of(key)
    if before is None:
        there = state.catalog.topic(key.topic) is not None
        message = f"No such partition as {key.topic}-{key.partition}" if there else f"No such topic as {key.topic}"
        return PartitionResult(
            partition_id=key.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=message
        )
    if (before.leader != NO_LEADER) if unclean else (before.leader == before.replicas[0]):
        code = ErrorCode.ELECTION_NOT_NEEDED
    elif state.controller.elect(key, elections.with_unclean if unclean else elections.with_preferred):
        code = ErrorCode.NONE
    else:
        code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return PartitionResult(partition_id=key.partition, error_code=code, error_message=_MESSAGES.get(code))
