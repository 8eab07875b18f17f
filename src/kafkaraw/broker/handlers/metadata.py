"""Metadata: brokers, topics, leaders. Has topics created that are asked for, when both sides allow it.

Source: KIP-204 (auto-creation), KIP-516 (topic ids), KIP-430 (authorized operations).
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.partitions.elections import NO_LEADER, PartitionState
from kafkaraw.broker.refusal import Refusal
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.topics.topic_creation import check_name
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.acl_codes import OPERATIONS_OF, ResourceType, operation_bits
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_ID_QUERY_VERSION_MIN: Final = 12
LISTENER_NOT_FOUND_SINCE: Final = 6
# Without ACLs everybody may do everything that Kafka has for a resource; guards put in what it is with them.
TOPIC_OPERATIONS: Final = operation_bits(OPERATIONS_OF[ResourceType.TOPIC])
CLUSTER_OPERATIONS: Final = operation_bits(OPERATIONS_OF[ResourceType.CLUSTER])


def handle(state: BrokerState, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Answer with the cluster and the topics asked for."""
    if request.topics is None or (context.api_version == 0 and not request.topics):
        topics = [_describe(state, context, topic) for topic in state.catalog.topics()]
    else:
        asked = {(topic.name, topic.topic_id): topic for topic in request.topics}
        topics = [_answer(state, context, request, topic) for topic in asked.values()]
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.name is not None:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=_brokers(state, context.listener),
        cluster_id=state.catalog.cluster_id,
        controller_id=state.catalog.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _brokers(state: BrokerState, listener: str) -> list[MetadataResponseBroker]:
    found = []
    for node_id, broker in sorted(state.catalog.brokers.items()):
        endpoint = broker.endpoints.get(listener)
        if endpoint is not None:
            found.append(
                MetadataResponseBroker(node_id=node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            )
    return found


def _answer(
    state: BrokerState, context: RequestContext, request: MetadataRequest, asked: MetadataRequestTopic
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID or asked.name is None:
        return _answer_by_id(state, context, asked)
    topic = state.catalog.topic(asked.name)
    if topic is not None:
        return _describe(state, context, topic)
    try:
        check_name(asked.name)
    except Refusal as refusal:
        return _error(refusal.code, asked)
    if request.allow_auto_topic_creation and state.config.auto_create_topics_enable:
        state.auto_creation.want(asked.name)
    return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked)


def _answer_by_id(state: BrokerState, context: RequestContext, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    if context.api_version < TOPIC_ID_QUERY_VERSION_MIN:
        asked.name = asked.name or ""  # the answer has no null names before that version
        return _error(ErrorCode.INVALID_REQUEST, asked)
    if asked.topic_id == ZERO_UUID:
        return _error(ErrorCode.INVALID_REQUEST, asked)
    topic = state.catalog.topic_by_id(asked.topic_id)
    return _error(ErrorCode.UNKNOWN_TOPIC_ID, asked) if topic is None else _describe(state, context, topic)


def _error(code: ErrorCode, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=asked.name, topic_id=asked.topic_id, partitions=[])


def _describe(state: BrokerState, context: RequestContext, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(state, context, index, found) for index, found in enumerate(state.catalog.states_of(topic))
        ],
    )


def _partition(
    state: BrokerState, context: RequestContext, index: int, found: PartitionState
) -> MetadataResponsePartition:
    brokers = state.catalog.brokers
    there = [node for node in found.replicas if node in brokers and context.listener in brokers[node].endpoints]
    answer = MetadataResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=index,
        leader_id=found.leader,
        leader_epoch=found.leader_epoch,
        replica_nodes=list(found.replicas),
        isr_nodes=list(found.isr),
        offline_replicas=[node for node in found.replicas if node not in there],
    )
    if found.leader not in there:
        unknown_listener = found.leader in brokers and context.api_version >= LISTENER_NOT_FOUND_SINCE
        answer.error_code = ErrorCode.LISTENER_NOT_FOUND if unknown_listener else ErrorCode.LEADER_NOT_AVAILABLE
        answer.leader_id = NO_LEADER
    if context.api_version == 0:  # such old clients take only nodes that they can reach
        answer.replica_nodes = there
        answer.isr_nodes = [node for node in found.isr if node in there]
        if answer.error_code == ErrorCode.NONE and len(there) < len(found.replicas):
            answer.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    return answer
