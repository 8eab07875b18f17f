"""The messages that `bench.protocol` measures: a large Metadata response, and what clients send and get all day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkaraw.protocol import Uuid
from kafkaraw.protocol.messages import (
    api_versions,
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
)

RECORDS: Final = bytes(range(256)) * 64  # 16 KiB, about one batch of a busy producer
TOPIC: Final = "orders-by-customer"
MEMBER: Final = "consumer-billing-1-4f1b6a52-7d04-4f6c-9a39-0d5d1f5a2c11"
PARTITIONS: Final = 6


@dataclass(frozen=True, slots=True)
class Case:
    """One message to measure.

    Attributes:
        module: where kafka-python declares it, under `kafka.protocol`.
        version: the newest that all clients here speak.
    """

    name: str
    module: str
    version: int
    make: Callable[[], object]


def large_metadata() -> object:
    """1,000 topics of 10 partitions on 6 brokers, three replicas each."""
    return metadata.MetadataResponse(
        brokers=_brokers(6),
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        controller_id=1,
        topics=[_topic(f"topic-{i:04}", i, 10) for i in range(1000)],
    )


def small_metadata() -> object:
    """What a client asks for again and again: one topic."""
    return metadata.MetadataResponse(
        brokers=_brokers(3), cluster_id="5L6g3nShT-eMCtK--X86sw", controller_id=1, topics=[_topic(TOPIC, 7, PARTITIONS)]
    )


def _brokers(count: int) -> list[metadata.MetadataResponseBroker]:
    return [
        metadata.MetadataResponseBroker(node_id=i, host=f"broker-{i}.kafka.example", port=9092, rack=f"rack-{i % 3}")
        for i in range(count)
    ]


def _topic(name: str, number: int, partitions: int) -> metadata.MetadataResponseTopic:
    def partition(index: int) -> metadata.MetadataResponsePartition:
        replicas = [(number + index + k) % 6 for k in range(3)]
        return metadata.MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=replicas[0],
            leader_epoch=5,
            replica_nodes=replicas,
            isr_nodes=[*replicas],
        )

    topic_id = Uuid(number.to_bytes(2, "big") * 8)
    return metadata.MetadataResponseTopic(
        error_code=0, name=name, topic_id=topic_id, partitions=[partition(index) for index in range(partitions)]
    )


def _metadata_request() -> object:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=True)


def _produce_request() -> object:
    data = [produce.PartitionProduceData(index=i, records=RECORDS) for i in range(PARTITIONS)]
    topic = produce.TopicProduceData(name=TOPIC, partition_data=data)
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def _produce_response() -> object:
    partitions = [
        produce.PartitionProduceResponse(index=i, error_code=0, base_offset=123_456 + i, log_start_offset=0)
        for i in range(PARTITIONS)
    ]
    return produce.ProduceResponse(responses=[produce.TopicProduceResponse(name=TOPIC, partition_responses=partitions)])


def _fetch_request() -> object:
    partitions = [
        fetch.FetchPartition(
            partition=i, current_leader_epoch=5, fetch_offset=123_456, log_start_offset=-1, partition_max_bytes=1 << 20
        )
        for i in range(PARTITIONS)
    ]
    return fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=0,
        session_id=17,
        session_epoch=4,
        topics=[fetch.FetchTopic(topic=TOPIC, partitions=partitions)],
    )


def _fetch_response() -> object:
    partitions = [
        fetch.PartitionData(
            partition_index=i,
            error_code=0,
            high_watermark=123_999,
            last_stable_offset=123_999,
            log_start_offset=0,
            aborted_transactions=None,
            records=RECORDS,
        )
        for i in range(PARTITIONS)
    ]
    return fetch.FetchResponse(
        session_id=17, responses=[fetch.FetchableTopicResponse(topic=TOPIC, partitions=partitions)]
    )


def _api_versions_response() -> object:
    keys = [api_versions.ApiVersion(api_key=key, min_version=0, max_version=9) for key in range(61)]
    return api_versions.ApiVersionsResponse(error_code=0, api_keys=keys, finalized_features_epoch=12)


def _list_offsets_request() -> object:
    partitions = [
        list_offsets.ListOffsetsPartition(partition_index=i, current_leader_epoch=5, timestamp=-1)
        for i in range(PARTITIONS)
    ]
    topic = list_offsets.ListOffsetsTopic(name=TOPIC, partitions=partitions)
    return list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic])


def _list_offsets_response() -> object:
    partitions = [
        list_offsets.ListOffsetsPartitionResponse(
            partition_index=i, error_code=0, timestamp=-1, offset=123_456, leader_epoch=5
        )
        for i in range(PARTITIONS)
    ]
    topic = list_offsets.ListOffsetsTopicResponse(name=TOPIC, partitions=partitions)
    return list_offsets.ListOffsetsResponse(topics=[topic])


def _find_coordinator_request() -> object:
    return find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["billing"])


def _find_coordinator_response() -> object:
    coordinator = find_coordinator.Coordinator(
        key="billing", node_id=2, host="broker-2.kafka.example", port=9092, error_code=0
    )
    return find_coordinator.FindCoordinatorResponse(coordinators=[coordinator])


def _offset_commit_request() -> object:
    partitions = [
        offset_commit.OffsetCommitRequestPartition(
            partition_index=i, committed_offset=123_456, committed_leader_epoch=5, committed_metadata=""
        )
        for i in range(PARTITIONS)
    ]
    topic = offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    return offset_commit.OffsetCommitRequest(
        group_id="billing", generation_id_or_member_epoch=12, member_id=MEMBER, topics=[topic]
    )


def _offset_commit_response() -> object:
    partitions = [
        offset_commit.OffsetCommitResponsePartition(partition_index=i, error_code=0) for i in range(PARTITIONS)
    ]
    topic = offset_commit.OffsetCommitResponseTopic(name=TOPIC, partitions=partitions)
    return offset_commit.OffsetCommitResponse(topics=[topic])


def _offset_fetch_request() -> object:
    topic = offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[*range(PARTITIONS)])
    group = offset_fetch.OffsetFetchRequestGroup(group_id="billing", topics=[topic])
    return offset_fetch.OffsetFetchRequest(groups=[group], require_stable=True)


def _offset_fetch_response() -> object:
    partitions = [
        offset_fetch.OffsetFetchResponsePartitions(
            partition_index=i, committed_offset=123_456, committed_leader_epoch=5, metadata="", error_code=0
        )
        for i in range(PARTITIONS)
    ]
    topic = offset_fetch.OffsetFetchResponseTopics(name=TOPIC, partitions=partitions)
    group = offset_fetch.OffsetFetchResponseGroup(group_id="billing", topics=[topic])
    return offset_fetch.OffsetFetchResponse(groups=[group])


def _heartbeat_request() -> object:
    return heartbeat.HeartbeatRequest(group_id="billing", generation_id=12, member_id=MEMBER)


def _join_group_request() -> object:
    protocol = join_group.JoinGroupRequestProtocol(name="cooperative-sticky", metadata=bytes(120))
    return join_group.JoinGroupRequest(
        group_id="billing",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id=MEMBER,
        protocol_type="consumer",
        protocols=[protocol],
    )


def _join_group_response() -> object:
    members = [join_group.JoinGroupResponseMember(member_id=f"{MEMBER[:-1]}{i}", metadata=bytes(120)) for i in range(4)]
    return join_group.JoinGroupResponse(
        error_code=0,
        generation_id=12,
        protocol_type="consumer",
        protocol_name="cooperative-sticky",
        leader=MEMBER,
        member_id=MEMBER,
        members=members,
    )


LARGE: Final = Case("MetadataResponse", "metadata", 12, large_metadata)
COMMON: Final = (
    Case("ProduceRequest", "producer", 12, _produce_request),
    Case("ProduceResponse", "producer", 12, _produce_response),
    Case("FetchRequest", "consumer", 12, _fetch_request),
    Case("FetchResponse", "consumer", 12, _fetch_response),
    Case("MetadataRequest", "metadata", 12, _metadata_request),
    Case("MetadataResponse", "metadata", 12, small_metadata),
    Case("ApiVersionsResponse", "metadata", 3, _api_versions_response),
    Case("ListOffsetsRequest", "consumer", 9, _list_offsets_request),
    Case("ListOffsetsResponse", "consumer", 9, _list_offsets_response),
    Case("FindCoordinatorRequest", "metadata", 6, _find_coordinator_request),
    Case("FindCoordinatorResponse", "metadata", 6, _find_coordinator_response),
    Case("OffsetCommitRequest", "consumer", 9, _offset_commit_request),
    Case("OffsetCommitResponse", "consumer", 9, _offset_commit_response),
    Case("OffsetFetchRequest", "consumer", 9, _offset_fetch_request),
    Case("OffsetFetchResponse", "consumer", 9, _offset_fetch_response),
    Case("HeartbeatRequest", "consumer", 4, _heartbeat_request),
    Case("JoinGroupRequest", "consumer", 9, _join_group_request),
    Case("JoinGroupResponse", "consumer", 9, _join_group_response),
)
