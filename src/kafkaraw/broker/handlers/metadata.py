"""Metadata: brokers, topics, leaders. Creates requested topics, if both broker and client allow it.

Source: KIP-204 (auto-creation), KIP-516 (topic ids), KIP-430 (authorized operations).
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.chunked_requests import Divided
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.partitions.elections import NO_LEADER, PartitionState
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import Topic
from kafkaraw.broker.topics.topic_creation import check_name
from kafkaraw.light_classes import replace
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.acl_codes import OPERATIONS_OF, AclOperation, ResourceType, operation_bits
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkaraw.records import TopicPartition

TOPIC_ID_QUERY_VERSION_MIN: Final = 12
LISTENER_NOT_FOUND_SINCE: Final = 6
# Without an authorizer, every client is authorized for all operations of a resource; `authorize` overwrites these bits.
TOPIC_OPERATIONS: Final = operation_bits(OPERATIONS_OF[ResourceType.TOPIC])
CLUSTER_OPERATIONS: Final = operation_bits(OPERATIONS_OF[ResourceType.CLUSTER])
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(call: Call[MetadataRequest, MetadataResponse], request: MetadataRequest) -> Reply[MetadataResponse]:
    """DESCRIBE on each topic, and CREATE on the cluster or the topic for a topic that would be created.

    A request for all topics leaves out those without DESCRIBE.
    """
    asked = request.topics
    everything = asked is None or (call.context.api_version == 0 and not asked)
    denied: list[MetadataResponseTopic] = []
    if asked is not None and not everything:
        checked = [(topic, _denied(call, request, topic)) for topic in asked]
        allowed = [topic for topic, result in checked if result is None]
        denied = [result for _, result in checked if result is not None]
        asked = allowed
        request = replace(request, topics=allowed)

    def merge(response: MetadataResponse) -> MetadataResponse:
        if everything:
            response.topics = [
                topic for topic in response.topics if call.may_describe_topic(topic.name or "", log_denial=False)
            ]
        elif not asked:
            response.topics = []  # in version 0, an empty list requests all topics
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.name is not None:
                    topic.topic_authorized_operations = call.operations(ResourceType.TOPIC, topic.name)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = call.cluster_operations()
        response.topics.extend(denied)
        return response

    return call.go_on(request, merge)


def _denied(
    call: Call[MetadataRequest, MetadataResponse], request: MetadataRequest, asked: MetadataRequestTopic
) -> MetadataResponseTopic | None:
    catalog, by_id = call.state.catalog, asked.topic_id != ZERO_UUID or asked.name is None
    if by_id and call.context.api_version < TOPIC_ID_QUERY_VERSION_MIN:
        return None  # the handler refuses it
    topic = catalog.topic_by_id(asked.topic_id) if by_id else catalog.topic(asked.name)
    name = topic.name if topic is not None else asked.name
    if name is None or (by_id and topic is None):
        return None  # an unknown id
    if not call.may_describe_topic(name, log_denial=True):
        # In Kafka, topic ids are not secret, but the name of an id is.
        return _no_metadata(None if by_id else name, asked.topic_id if by_id else ZERO_UUID)
    creates = topic is None and request.allow_auto_topic_creation and call.state.config.auto_create_topics_enable
    return _no_metadata(name, ZERO_UUID) if creates and not call.may_create_topic(name) else None


def _no_metadata(name: str | None, topic_id: Uuid) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=_DENIED, name=name, topic_id=topic_id, partitions=[])


@handles(
    MetadataRequest,
    authorize=authorize,
    permissions=(
        Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),
        Permission(AclOperation.CREATE, ResourceType.CLUSTER, "auto-creation"),
        Permission(AclOperation.CREATE, ResourceType.TOPIC, "or, auto-creation"),
    ),
    note="in a request for all topics, those without the permission are left out",
    divided={0: Divided(("topics",), ("topics",), unique=lambda topic: (topic.name, topic.topic_id))},
)
def handle(state: BrokerState, context: RequestContext, request: MetadataRequest) -> Reply[MetadataResponse]:
    """Return the cluster and the requested topics."""
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
    except ApiError as error:
        return _error(error.code, asked)
    if request.allow_auto_topic_creation and state.config.auto_create_topics_enable:
        state.auto_creation.want(asked.name)
    return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, asked)


def _answer_by_id(state: BrokerState, context: RequestContext, asked: MetadataRequestTopic) -> MetadataResponseTopic:
    if context.api_version < TOPIC_ID_QUERY_VERSION_MIN:
        asked.name = asked.name or ""  # responses before that version have no null names
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
            _partition(state, context, key, found)
            for key, found in zip(topic.partitions(), state.catalog.states_of(topic), strict=True)
        ],
    )


def _partition(
    state: BrokerState, context: RequestContext, key: TopicPartition, found: PartitionState
) -> MetadataResponsePartition:
    brokers = state.catalog.brokers
    there = [node for node in found.replicas if node in brokers and context.listener in brokers[node].endpoints]
    usable = [node for node in there if not state.controller.is_failed(key, node)]
    answer = MetadataResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=key.partition,
        leader_id=found.leader,
        leader_epoch=found.leader_epoch,
        replica_nodes=list(found.replicas),
        isr_nodes=list(found.isr),
        offline_replicas=[node for node in found.replicas if node not in usable],
    )
    if found.leader not in usable:
        has_other_listeners = found.leader in brokers and found.leader not in there
        unknown_listener = has_other_listeners and context.api_version >= LISTENER_NOT_FOUND_SINCE
        answer.error_code = ErrorCode.LISTENER_NOT_FOUND if unknown_listener else ErrorCode.LEADER_NOT_AVAILABLE
        answer.leader_id = NO_LEADER
    if context.api_version == 0:  # such old clients only accept reachable nodes
        answer.replica_nodes = there
        answer.isr_nodes = [node for node in found.isr if node in there]
        if answer.error_code == ErrorCode.NONE and len(there) < len(found.replicas):
            answer.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    return answer
