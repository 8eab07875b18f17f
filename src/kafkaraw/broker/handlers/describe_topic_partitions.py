"""DescribeTopicPartitions: topics and their partitions, page by page.

A page has a limited number of partitions, over all its topics; a cursor marks the start of the next page.
Source: KIP-966; kafka.server.handlers.DescribeTopicPartitionsRequestHandler, kafka.server.metadata.KRaftMetadataCache.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.api_error import ApiError
from kafkaraw.broker.handlers.authorization import Call
from kafkaraw.broker.handlers.context import RequestContext
from kafkaraw.broker.handlers.metadata import TOPIC_OPERATIONS
from kafkaraw.broker.handlers.registration import Permission, handles
from kafkaraw.broker.partitions.elections import NO_LEADER, PartitionState
from kafkaraw.broker.replies import Reply
from kafkaraw.broker.state import BrokerState
from kafkaraw.broker.topics.catalog import INTERNAL_TOPICS, Topic
from kafkaraw.broker.topics.topic_creation import check_name
from kafkaraw.light_classes import replace
from kafkaraw.protocol import ZERO_UUID
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kafkaraw.records import TopicPartition

PARTITIONS_MAX: Final = 2000  # max.request.partition.size.limit
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def authorize(
    call: Call[DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse], request: DescribeTopicPartitionsRequest
) -> Reply[DescribeTopicPartitionsResponse]:
    """DESCRIBE on each topic; a request for all topics leaves out those without it.

    They are left out before the handler counts partitions, so each page is full.
    """
    everything = not request.topics
    names = {topic.name for topic in request.topics or call.state.catalog.topics()}
    hidden = {name for name in names if not call.may_describe_topic(name, log_denial=not everything)}
    cursor = request.cursor
    left = sorted(name for name in names if cursor is None or name >= cursor.topic_name)
    denied = [] if everything else [_not_described(name) for name in left if name in hidden]
    if hidden:
        topics = [TopicRequest(name=name) for name in left if name not in hidden]
        if not topics:
            return DescribeTopicPartitionsResponse(topics=denied)
        if cursor is not None and (cursor.topic_name in hidden or (everything and cursor.topic_name not in names)):
            cursor = None  # it points into a topic that this client may not see
        request = replace(request, topics=topics, cursor=cursor)

    def merge(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            topic.topic_authorized_operations = call.operations(ResourceType.TOPIC, topic.name or "")
        response.topics.extend(denied)
        return response

    return call.go_on(request, merge)


def _not_described(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=_DENIED, name=name, topic_id=ZERO_UUID, partitions=[])


@handles(
    DescribeTopicPartitionsRequest,
    authorize=authorize,
    permissions=(Permission(AclOperation.DESCRIBE, ResourceType.TOPIC),),
    note="in a request for all topics, those without the permission are left out",
)
def handle(
    state: BrokerState, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Reply[DescribeTopicPartitionsResponse]:
    """Answer with one page, by name."""
    cursor = request.cursor
    names = {topic.name for topic in request.topics or state.catalog.topics()}
    left = sorted(name for name in names if cursor is None or name >= cursor.topic_name)
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)):
        return _error_response(request)
    room = max(1, min(PARTITIONS_MAX, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in left:
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = state.catalog.topic(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        described = _described(state, context, topic, range(first, min(topic.partitions_count, first + room)))
        response.topics.append(described)
        room -= len(described.partitions)
        if first + len(described.partitions) < topic.partitions_count:
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(described.partitions))
            break
    return response


def _error_response(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Refuse every topic, as Kafka does, if the cursor has a topic that is not requested, or no partition."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name, topic_id=ZERO_UUID, partitions=[]
            )
            for topic in request.topics
        ]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_name(name)
    except ApiError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _described(
    state: BrokerState, context: RequestContext, topic: Topic, numbers: range
) -> DescribeTopicPartitionsResponseTopic:
    states = state.catalog.states_of(topic)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(state, context, TopicPartition(topic.name, number), states[number]) for number in numbers
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(
    state: BrokerState, context: RequestContext, key: TopicPartition, found: PartitionState
) -> DescribeTopicPartitionsResponsePartition:
    brokers = state.catalog.brokers
    usable = [
        node
        for node in found.replicas
        if node in brokers and context.listener in brokers[node].endpoints and not state.controller.is_failed(key, node)
    ]
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=key.partition,
        leader_id=found.leader if found.leader in usable else NO_LEADER,
        leader_epoch=found.leader_epoch,
        replica_nodes=list(found.replicas),
        isr_nodes=list(found.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[node for node in found.replicas if node not in usable],
    )
