"""Guards of the APIs that write, read and find records.

Source: kafka.server.KafkaApis.{handleProduceRequest, handleFetchRequest, handleListOffsetRequest,
handleInitProducerIdRequest, handleDeleteRecordsRequest, handleOffsetForLeaderEpochRequest}.
"""

from __future__ import annotations

from typing import Final

from kafkaraw.broker.deferred import after
from kafkaraw.broker.fetch_sessions import in_session
from kafkaraw.broker.handlers.guards.call import Call
from kafkaraw.broker.refusal import CloseConnection, Refusal
from kafkaraw.broker.validation.frames import first_is_transactional
from kafkaraw.light_classes import replace
from kafkaraw.protocol.acl_codes import AclOperation, ResourceType
from kafkaraw.protocol.error_codes import ErrorCode
from kafkaraw.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kafkaraw.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkaraw.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkaraw.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from kafkaraw.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from kafkaraw.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

PRODUCE_BY_ID: Final = 13
FETCH_BY_ID: Final = 13
REPLICA_STATE_SINCE: Final = 15
NONE: Final = -1
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def produce(call: Call, request: ProduceRequest) -> object:
    """WRITE on each topic; for transactional records WRITE on the transactional id, for the whole request."""
    if _is_transactional(request) and not _may_write_transactions(call, request.transactional_id):
        _close_without_acks(request)
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return ProduceResponse(responses=[_not_produced(one, code) for one in request.topic_data])
    allowed, refused = call.divide(
        request.topic_data,
        AclOperation.WRITE,
        lambda topic: call.topic_name(topic.name, topic.topic_id, PRODUCE_BY_ID),
    )
    if not refused:
        return call.go_on(request)
    denied = [_not_produced(topic, _TOPIC_DENIED) for topic in refused]
    answer = call.go_on(replace(request, topic_data=allowed)) if allowed else ProduceResponse(responses=[])
    _close_without_acks(request)

    def merge(response: ProduceResponse) -> ProduceResponse:
        response.responses.extend(denied)
        return response

    return after(answer, merge)


def _close_without_acks(request: ProduceRequest) -> None:
    if request.acks == 0:
        raise CloseConnection("produce with acks=0 is not authorized; closing is all that such a producer understands")


def _is_transactional(request: ProduceRequest) -> bool:
    """Whether the first batch of any partition belongs to a transaction, as Kafka looks at it."""
    try:
        return any(
            first_is_transactional(partition.records)
            for topic in request.topic_data
            for partition in topic.partition_data
            if isinstance(partition.records, memoryview)
        )
    except Refusal:
        return False  # the handler says what is wrong with it


def _may_write_transactions(call: Call, transactional_id: str | None) -> bool:
    return transactional_id is not None and call.allows(
        AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _not_produced(topic: TopicProduceData, code: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=data.index, error_code=code, base_offset=NONE)
            for data in topic.partition_data
        ],
    )


def fetch(call: Call, request: FetchRequest) -> object:
    """READ on each topic; who claims to be a replica needs CLUSTER_ACTION instead, and gains nothing else by it.

    What a session remembers is asked for anew, with the rights of the moment.
    """
    sessions, version = call.state.fetch_sessions, call.context.api_version
    return in_session(sessions, version, request, lambda everything: _fetch(call, everything))


def _fetch(call: Call, request: FetchRequest) -> object:
    allowed, refused = request.topics, list[FetchTopic]()
    if _claims_to_be_replica(call, request):
        if not call.allows_on_cluster(AclOperation.CLUSTER_ACTION):
            allowed, refused = refused, allowed
    else:
        allowed, refused = call.divide(
            request.topics,
            AclOperation.READ,
            lambda topic: call.topic_name(topic.topic, topic.topic_id, FETCH_BY_ID),
        )
    if not refused:
        return call.go_on(request)

    def merge(response: FetchResponse) -> FetchResponse:
        if response.error_code == ErrorCode.NONE:
            response.responses.extend(_not_fetched(topic) for topic in refused)
        return response

    return after(call.go_on(replace(request, topics=allowed)), merge)


def _claims_to_be_replica(call: Call, request: FetchRequest) -> bool:
    claimed = request.replica_id if call.context.api_version < REPLICA_STATE_SINCE else request.replica_state.replica_id
    return claimed >= 0


def _not_fetched(topic: FetchTopic) -> FetchableTopicResponse:
    return FetchableTopicResponse(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=[
            PartitionData(partition_index=asked.partition, error_code=_TOPIC_DENIED, high_watermark=NONE, records=b"")
            for asked in topic.partitions
        ],
    )


def list_offsets(call: Call, request: ListOffsetsRequest) -> object:
    """DESCRIBE on each topic."""
    allowed, refused = call.divide(request.topics, AclOperation.DESCRIBE, lambda topic: topic.name)
    return call.go_on_with(request, allowed, [_not_listed(topic) for topic in refused], ListOffsetsResponse(topics=[]))


def _not_listed(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=_TOPIC_DENIED)
            for part in topic.partitions
        ],
    )


def delete_records(call: Call, request: DeleteRecordsRequest) -> object:
    """DELETE on each topic."""
    allowed, refused = call.divide(request.topics, AclOperation.DELETE, lambda topic: topic.name)
    return call.go_on_with(
        request, allowed, [_not_deleted(topic) for topic in refused], DeleteRecordsResponse(topics=[])
    )


def _not_deleted(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    return DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            DeleteRecordsPartitionResult(
                partition_index=part.partition_index, low_watermark=NONE, error_code=_TOPIC_DENIED
            )
            for part in topic.partitions
        ],
    )


def init_producer_id(call: Call, request: InitProducerIdRequest) -> object:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic (KIP-679)."""
    if request.transactional_id is not None:
        if _may_write_transactions(call, request.transactional_id):
            return call.go_on(request)
        return _no_producer_id(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if call.authorizer.allows_any(call.client, AclOperation.WRITE, ResourceType.TOPIC) or call.allows_on_cluster(
        AclOperation.IDEMPOTENT_WRITE
    ):
        return call.go_on(request)
    return _no_producer_id(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _no_producer_id(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)


def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> object:
    """CLUSTER_ACTION, as brokers have it, for everything; else DESCRIBE on each topic (KIP-320)."""
    if call.allows_on_cluster(AclOperation.CLUSTER_ACTION, log_denial=False):
        return call.go_on(request)
    allowed, refused = call.divide(request.topics, AclOperation.DESCRIBE, lambda topic: topic.topic)
    return call.go_on_with(
        request, allowed, [_no_end(topic) for topic in refused], OffsetForLeaderEpochResponse(topics=[])
    )


def _no_end(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    return OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[EpochEndOffset(partition=asked.partition, error_code=_TOPIC_DENIED) for asked in topic.partitions],
    )
