"""Guards of the APIs that list, describe and change topics.

Nobody learns from an answer whether a topic exists that he may not describe.
Source: kafka.server.KafkaApis.handleTopicMetadataRequest, kafka.server.ControllerApis.{createTopics, deleteTopics,
createPartitions}, kafka.server.handlers.DescribeTopicPartitionsRequestHandler.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kafkaraw.broker.deferred import after
from kafkaraw.broker.handlers.guards.call import MESSAGES, Call
from kafkaraw.broker.topics.topic_creation import METADATA_TOPIC
from kafkaraw.light_classes import replace
from kafkaraw.protocol import ZERO_UUID, Uuid
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kafkaraw.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kafkaraw.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafkaraw.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kafkaraw.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

METADATA_BY_ID: Final = 12
DELETE_BY_ID: Final = 6
UNKNOWN: Final = -1
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def metadata(call: Call, request: MetadataRequest) -> object:
    """DESCRIBE on each topic, and CREATE on the cluster or the topic for one that would be created.

    Of all topics, those that the client may not see are left out.
    """
    asked = request.topics
    everything = asked is None or (call.context.api_version == 0 and not asked)
    denied: list[MetadataResponseTopic] = []
    if asked is not None and not everything:
        refusals = [(topic, _metadata_refusal(call, request, topic)) for topic in asked]
        allowed = [topic for topic, refusal in refusals if refusal is None]
        denied = [refusal for _, refusal in refusals if refusal is not None]
        asked = allowed
        request = replace(request, topics=allowed)

    def merge(response: MetadataResponse) -> MetadataResponse:
        if everything:
            response.topics = [
                topic for topic in response.topics if _may_describe(call, topic.name or "", log_denial=False)
            ]
        elif not asked:
            response.topics = []  # an empty list asks for all of them in version 0
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.name is not None:
                    topic.topic_authorized_operations = call.operations(ResourceType.TOPIC, topic.name)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = call.cluster_operations()
        response.topics.extend(denied)
        return response

    return after(call.go_on(request), merge)


def _may_describe(call: Call, name: str, *, log_denial: bool) -> bool:
    return call.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, log_denial=log_denial)


def _metadata_refusal(
    call: Call, request: MetadataRequest, asked: MetadataRequestTopic
) -> MetadataResponseTopic | None:
    catalog, by_id = call.state.catalog, asked.topic_id != ZERO_UUID or asked.name is None
    if by_id and call.context.api_version < METADATA_BY_ID:
        return None  # the handler says that this cannot be
    topic = catalog.topic_by_id(asked.topic_id) if by_id else catalog.topic(asked.name)
    name = topic.name if topic is not None else asked.name
    if name is None or (by_id and topic is None):
        return None  # an unknown id
    if not _may_describe(call, name, log_denial=True):
        # Ids are no secret in Kafka; that a name belongs to one is.
        return _no_metadata(None if by_id else name, asked.topic_id if by_id else ZERO_UUID)
    creates = topic is None and request.allow_auto_topic_creation and call.state.config.auto_create_topics_enable
    return _no_metadata(name, ZERO_UUID) if creates and not _may_create(call, name) else None


def _may_create(call: Call, name: str) -> bool:
    on_cluster = call.allows_on_cluster(AclOperation.CREATE, log_denial=False)
    return on_cluster or call.allows(AclOperation.CREATE, ResourceType.TOPIC, name)


def _no_metadata(name: str | None, topic_id: Uuid) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=_DENIED, name=name, topic_id=topic_id, partitions=[])


def create_topics(call: Call, request: CreateTopicsRequest) -> object:
    """CREATE on the cluster, or on each topic; without DESCRIBE_CONFIGS the settings are left out of the answer."""
    counts = Counter(topic.name for topic in request.topics)
    # What is wrong with these is said to everybody.
    malformed = {METADATA_TOPIC, *(name for name, count in counts.items() if count > 1)}
    refused = {name for name in counts if name not in malformed and not _may_create(call, name)}
    denied = [
        CreatableTopicResult(name=name, error_code=_DENIED, error_message="Authorization failed.", configs=[])
        for name in counts
        if name in refused
    ]
    allowed = [topic for topic in request.topics if topic.name not in refused]
    if not allowed:
        return CreateTopicsResponse(topics=denied)

    def merge(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for result in response.topics:
            if result.error_code == ErrorCode.NONE and not call.allows(
                AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, result.name, log_denial=False
            ):
                result.topic_config_error_code = _DENIED
                result.num_partitions = result.replication_factor = UNKNOWN
                result.configs = []
        response.topics.extend(denied)
        return response

    return after(call.go_on(replace(request, topics=allowed)), merge)


def delete_topics(call: Call, request: DeleteTopicsRequest) -> object:
    """DELETE on the cluster, or DELETE and DESCRIBE on each topic."""
    by_state = call.context.api_version >= DELETE_BY_ID
    asked = request.topics if by_state else [DeleteTopicState(name=name) for name in request.topic_names]
    if not call.state.config.delete_topic_enable or call.allows_on_cluster(AclOperation.DELETE, log_denial=False):
        return call.go_on(request)
    counts = Counter((topic.name, bytes(topic.topic_id)) for topic in asked)
    allowed, denied = list[DeleteTopicState](), list[DeletableTopicResult]()
    for topic in asked:
        malformed = counts[topic.name, bytes(topic.topic_id)] > 1
        refusal = None if malformed else _deletion_refusal(call, topic)
        if refusal is None:
            allowed.append(topic)
        else:
            denied.append(refusal)
    if not allowed:
        return DeleteTopicsResponse(responses=denied)

    def merge(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses.extend(denied)
        return response

    names = [] if by_state else [topic.name for topic in allowed if topic.name is not None]
    return after(call.go_on(replace(request, topics=allowed if by_state else [], topic_names=names)), merge)


def _deletion_refusal(call: Call, asked: DeleteTopicState) -> DeletableTopicResult | None:
    by_id = asked.topic_id != ZERO_UUID
    if by_id == (asked.name is not None):
        return None  # neither or both: the handler says that this cannot be
    topic = call.state.catalog.topic_by_id(asked.topic_id) if by_id else call.state.catalog.topic(asked.name)
    name = asked.name if topic is None else topic.name
    if name is None:
        return None  # an unknown id
    describable = _may_describe(call, name, log_denial=not by_id)
    deletable = call.allows(AclOperation.DELETE, ResourceType.TOPIC, name, log_denial=topic is not None)
    if by_id:
        return None if deletable else _not_deleted(name if describable else None, asked.topic_id)
    if describable and (deletable or topic is None):
        return None
    return _not_deleted(name, ZERO_UUID)


def _not_deleted(name: str | None, topic_id: Uuid) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=_DENIED, error_message=MESSAGES[_DENIED])


def create_partitions(call: Call, request: CreatePartitionsRequest) -> object:
    """ALTER on each topic."""
    counts = Counter(topic.name for topic in request.topics)
    allowed, refused = call.divide(
        request.topics, AclOperation.ALTER, lambda topic: topic.name if counts[topic.name] == 1 else None
    )
    denied = [CreatePartitionsTopicResult(name=topic.name, error_code=_DENIED) for topic in refused]
    return call.go_on_with(request, allowed, denied, CreatePartitionsResponse(results=[]), results="results")


def describe_topic_partitions(call: Call, request: DescribeTopicPartitionsRequest) -> object:
    """DESCRIBE on each topic; of all topics, those that the client may not see are left out.

    They are so before the handler counts partitions: its pages are filled with what the client may see.
    """
    everything = not request.topics
    names = {topic.name for topic in request.topics or call.state.catalog.topics()}
    hidden = {name for name in names if not _may_describe(call, name, log_denial=not everything)}
    cursor = request.cursor
    left = sorted(name for name in names if cursor is None or name >= cursor.topic_name)
    denied = [] if everything else [_not_described(name) for name in left if name in hidden]
    if hidden:
        topics = [TopicRequest(name=name) for name in left if name not in hidden]
        if not topics:
            return DescribeTopicPartitionsResponse(topics=denied)
        if cursor is not None and (cursor.topic_name in hidden or (everything and cursor.topic_name not in names)):
            cursor = None  # it says where to go on within a topic that is not there for this client
        request = replace(request, topics=topics, cursor=cursor)

    def merge(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            topic.topic_authorized_operations = call.operations(ResourceType.TOPIC, topic.name or "")
        response.topics.extend(denied)
        return response

    return after(call.go_on(request), merge)


def _not_described(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=_DENIED, name=name, topic_id=ZERO_UUID, partitions=[])
